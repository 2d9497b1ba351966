"""The service over loopback: durable events, lists alone and under load, and how fresh they are.

    python benchmarks/service.py [SECONDS]    writes benchmarks/results/service.json for 6 seconds

The service and the load are processes of their own on one machine, which share its cores. A figure
is the median of several runs of so many seconds, after one that is not counted. Lists and freshness
are open loop: requests are sent at intended times, and latency counts from those. Beside every run
stands what one synchronisation of the same disk takes, measured just before and just after it.
"""

import asyncio
import gc
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import uvloop
from _measure import write
from _service_load import closed_loop, connected, open_loop, request_bytes

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.service import running

SECONDS = 6.0
RUNS = 3
WARM = 2.0  # seconds of a run that is not counted
FILL = 2.0  # seconds of events, after which nearly all items are known
USERS, ITEMS, BATCH, TEMPLATES = 50_000, 10_000, 100, 64
SETTINGS = "rate = 1e9\nburst = 1000000000\nconcurrent = 100000\n"
TARGETS = {
    "events/s in batches of 100": 150_000,
    "events/s one by one": 8_000,
    "lists at 1,000/s, p99 ms": 4.0,
    "lists at 300/s under 50,000 events/s, p99 ms": 4.0,
    "freshness under 10,000 events/s, p99 s": 1.0,
}


def fsync_milliseconds(folder):
    """Each of so many times: writing 4 KiB and synchronising them."""
    took = []
    with open(Path(folder) / "fsync", "wb") as file:
        for _ in range(100):
            file.write(bytes(4096))
            file.flush()
            begin = time.perf_counter()
            os.fsync(file.fileno())
            took.append(1000 * (time.perf_counter() - begin))
    return took


class Events:
    """Requests of events: users and items are drawn beforehand, ids begin with the time."""

    def __init__(self, key, batch, seed=0):
        rng = np.random.default_rng(seed)
        users = rng.integers(USERS, size=(TEMPLATES, batch))
        items = np.minimum(rng.zipf(1.2, size=(TEMPLATES, batch)), 2**40) % ITEMS
        self._rows = [
            [f'{{"user":"u{u}","item":"i{i}","id":"' for u, i in zip(*pair, strict=True)]
            for pair in zip(users.tolist(), items.tolist(), strict=True)
        ]
        self._key, self._numbers, self._name = key, itertools.count(), os.urandom(4).hex()

    def __call__(self):
        number = next(self._numbers)
        rows = self._rows[number % TEMPLATES]
        name = f"{time.time_ns() // 1000:x}{self._name}{number:x}."
        text = ",".join([f'{row}{name}{at}"}}' for at, row in enumerate(rows)])
        body = text if len(rows) == 1 else f"[{text}]"
        return request_bytes("POST", "/events", self._key, body.encode())


def lists_of(key, seed=1):
    """Requests of lists of users drawn at random."""
    users = iter(np.random.default_rng(seed).integers(USERS, size=1_000_000).tolist())
    return lambda: request_bytes("GET", f"/recommendations/u{next(users)}", key)


def send_events(port, key, rate, seconds, refused):
    """The process of a load of events: so many a second, in batches."""
    gc.disable()  # a pause of the load is none of the service
    make = Events(key, BATCH, seed=time.time_ns())
    _, refused.value = uvloop.run(open_loop(port, 64, make, rate / BATCH, seconds))


def under_load(service, rate, seconds, work):
    """Run work while another process sends events.

    Returns its result, refused requests, and the events a second that the service took meanwhile.
    """
    context = multiprocessing.get_context("spawn")
    refused = context.Value("i", -1)
    given = (service.port, service.keys["ingest"], rate, seconds + 2, refused)
    process = context.Process(target=send_events, args=given)
    process.start()
    first = position(service)
    while position(service) == first:  # the process has come up
        time.sleep(0.05)
    begin, first = time.perf_counter(), position(service)
    made = uvloop.run(work)
    taken = (position(service) - first) / (time.perf_counter() - begin)
    process.join()
    return made, refused.value, taken


def position(service):
    """Events in the log."""
    with service.client("admin") as client:
        lines = client.get("/metrics").text.splitlines()
    return next(float(each.split()[1]) for each in lines if each.startswith("sfumato_log_position"))


async def freshness(service, seconds, every=0.1):
    """Seconds from sending an event of a new user until that user's list has learned it."""
    links = await connected(service.port, 40)
    idle: asyncio.Queue = asyncio.Queue()
    for link in links:
        idle.put_nowait(link)
    took = []

    async def call(data):
        link = await idle.get()
        try:
            return json.loads((await link.send(data))[1])
        finally:
            idle.put_nowait(link)

    async def probe(number, intended):
        user = f"probe-{os.urandom(4).hex()}-{number}"
        path = f"/recommendations/{user}?repeat=true"
        look = request_bytes("GET", path, service.keys["read"])
        before = (await call(look))["items"]
        event = json.dumps({"user": user, "item": f"i{number % ITEMS}"}).encode()
        intended = max(intended, time.perf_counter())
        done = await call(request_bytes("POST", "/events", service.keys["ingest"], event))
        while True:
            now = await call(look)
            if now["position"] >= done["position"] and now["items"] != before:
                took.append(time.perf_counter() - intended)
                return
            await asyncio.sleep(0.01)

    begin = time.perf_counter()
    tasks = []
    for number in range(int(seconds / every)):
        intended = begin + number * every
        await asyncio.sleep(max(0.0, intended - time.perf_counter()))
        tasks.append(asyncio.ensure_future(probe(number, intended)))
    await asyncio.gather(*tasks)
    for link in links:
        link.transport.close()
    return np.array(took)


def percentiles(seconds, unit=1000.0):
    """Median, 99th percentile and the largest."""
    found = np.percentile(seconds * unit, [50, 99, 100]).round(3).tolist()
    return dict(zip(("p50", "p99", "max"), found, strict=True))


def row(folder, name, seconds, run):
    """One figure: the median of several runs, each beside the disk, after one that is not counted.

    A run returns its figure, refused requests, and more to write down.
    """
    run(min(WARM, seconds))
    runs, disk = [], []
    for _ in range(RUNS):
        before = fsync_milliseconds(folder)
        figure, refused, more = run(seconds)
        took = before + fsync_milliseconds(folder)
        disk += took
        each = {"figure": figure, "refused": refused, **more}
        runs.append({**each, "fsync_ms": statistics.median(took)})
    fsync = [round(float(each), 3) for each in np.percentile(disk, [50, 99])]
    figure = statistics.median(each["figure"] for each in runs)
    refused = sum(each["refused"] for each in runs)
    print(f"{name}: {figure}  refused {refused}  fsync {fsync}", flush=True)
    made = {"what": name, "figure": figure, "refused": refused, "fsync_ms": fsync, "runs": runs}
    target = TARGETS[name]
    return {
        **made,
        "target": target,
        "reached": figure >= target if target > 100 else figure <= target,
    }


def writing(folder, seconds):
    """Events a second that are durable when they are answered."""
    with running(folder, SETTINGS) as service:
        for name, batch, links in (
            ("events/s in batches of 100", BATCH, 32),
            ("events/s one by one", 1, 256),
        ):

            def run(seconds, batch=batch, links=links):
                make = Events(service.keys["ingest"], batch, seed=time.time_ns())
                rate, refused = uvloop.run(closed_loop(service.port, links, make, seconds))
                return round(rate * batch), refused, {}

            yield row(folder, name, seconds, run)


def reading(folder, seconds):
    """Latency of lists alone and under load, and how soon an event changes its user's list."""
    with running(folder, SETTINGS) as service:
        key = service.keys["read"]
        fill = Events(service.keys["ingest"], BATCH)
        uvloop.run(closed_loop(service.port, 8, fill, FILL))

        def lists(rate, seconds):
            return open_loop(service.port, 64, lists_of(key, time.time_ns()), rate, seconds)

        def alone(seconds):
            service.learned()
            took, refused = uvloop.run(lists(1000, seconds))
            return percentiles(took)["p99"], refused, {"ms": percentiles(took)}

        def loaded(seconds):
            service.learned()
            (took, refused), lost, taken = under_load(service, 50_000, seconds, lists(300, seconds))
            more = {"ms": percentiles(took), "events_per_second": round(taken)}
            return percentiles(took)["p99"], refused + lost, more

        def fresh(seconds):
            service.learned()
            took, lost, taken = under_load(service, 10_000, seconds, freshness(service, seconds))
            found = percentiles(took, 1.0)
            return found["p99"], lost, {"s": found, "events_per_second": round(taken)}

        yield row(folder, "lists at 1,000/s, p99 ms", seconds, alone)
        yield row(folder, "lists at 300/s under 50,000 events/s, p99 ms", seconds, loaded)
        yield row(folder, "freshness under 10,000 events/s, p99 s", seconds, fresh)


def main():
    gc.disable()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    rows = []
    for part in (writing, reading):
        with tempfile.TemporaryDirectory() as folder:
            rows += part(Path(folder), seconds)
    for each in rows:
        missed = "" if each["reached"] else "MISSED"
        print(f"{each['what']:48} {each['figure']:>12,} of {each['target']:>9,} {missed}")
    if seconds >= SECONDS:
        found = {"seconds": seconds, "runs": RUNS, "items": ITEMS, "users": USERS, "rows": rows}
        write("service", found)


if __name__ == "__main__":
    main()
