"""Durable events per second of the store: in batches of 100 and one by one, on both databases.

    python benchmarks/store.py [EVENTS]    writes benchmarks/results/store.json for the full size

Clients of one event loop append and wait; an event counts when it is acknowledged, which is after
it is durable. Beside every figure stands what one synchronisation of the same disk takes, measured
just before. PostgreSQL is a server of its own on the loopback, with its data on the same disk.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

from _measure import write

from sfumato.store import EventBatch, new_event_ids, open_store

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.stores import PostgresServer, _binaries

EVENTS, SINGLES, BATCH, RUNS = 1_000_000, 60_000, 100, 3
CLIENTS = {"batches": 64, "singles": 512}


def fsync_milliseconds(folder):
    """Median and 99th percentile of writing 4 KiB and synchronising them."""
    took = []
    with open(Path(folder) / "fsync", "wb") as file:
        for _ in range(200):
            file.write(bytes(4096))
            file.flush()
            begin = time.perf_counter()
            os.fsync(file.fileno())
            took.append(1000 * (time.perf_counter() - begin))
    return statistics.median(took), sorted(took)[197]


def columns(events, ids):
    """Columns of lists, as a service has them after it read a request."""
    made = new_event_ids(events) if ids == "ordered" else [str(uuid.uuid4()) for _ in range(events)]
    users = [f"user-{k * 7919 % 50_000}" for k in range(events)]
    items = [f"item-{k * 104_729 % 10_000}" for k in range(events)]
    times = [1.7e9 + k / 1000 for k in range(events)]
    return users, items, [1.0] * events, times, made


async def append_all(store, given, size, clients):
    """Append all events; return seconds, and each call's seconds."""
    starts, took = iter(range(0, len(given[0]), size)), []

    async def client():
        for start in starts:
            batch = EventBatch(*(column[start : start + size] for column in given))
            begin = time.perf_counter()
            await store.append_async(batch)
            took.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return time.perf_counter() - begin, sorted(took)


def measure(location, folder, kind, ids, events):
    size = BATCH if kind == "batches" else 1
    given = columns(events, ids)
    median, slow = fsync_milliseconds(folder)
    with open_store(location) as store:
        store.append({"users": ["warm"], "items": ["up"]})
        seconds, took = asyncio.run(append_all(store, given, size, CLIENTS[kind]))
        assert store.info().events == events + 1
    return {
        "events_per_second": events / seconds,
        "call_ms_median": 1000 * took[len(took) // 2],
        "call_ms_p99": 1000 * took[int(0.99 * len(took))],
        "fsync_ms_median": median,
        "fsync_ms_p99": slow,
    }


def main(events):
    singles = min(SINGLES, events)
    results = []
    binaries = _binaries()
    server = PostgresServer(binaries) if binaries else None
    try:
        for backend in ("sqlite", "postgresql") if server else ("sqlite",):
            for kind, number in (("batches", events), ("singles", singles)):
                results += [
                    best(server, backend, kind, ids, number) for ids in ("ordered", "random")
                ]
    finally:
        if server:
            server.remove()
    if events == EVENTS:
        write("store", {"batch": BATCH, "clients": CLIENTS, "runs": RUNS, "rows": results})


def best(server, backend, kind, ids, number):
    """The median of some runs, each on a new store."""
    runs = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            place = server.new_database() if backend == "postgresql" else f"{folder}/s.db"
            runs.append(measure(place, folder, kind, ids, number))
            if backend == "postgresql":
                server.give_back(place)
    row = sorted(runs, key=lambda each: each["events_per_second"])[RUNS // 2]
    row = {"backend": backend, "kind": kind, "ids": ids, "events": number, **row}
    print(
        f"{backend:10} {kind:8} {ids:8} ids {row['events_per_second']:10,.0f} events/s   "
        f"call {row['call_ms_median']:6.2f} ms (p99 {row['call_ms_p99']:6.2f})   "
        f"fsync {row['fsync_ms_median']:5.2f} ms (p99 {row['fsync_ms_p99']:5.2f})"
    )
    return row


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS)
