"""The service over loopback: durable events, lists alone and under load, and how fresh they are.

    python benchmarks/service.py [SECONDS]    writes benchmarks/results/service.json for 10 seconds

The service and the load are processes of their own on one machine. Lists and freshness are open
loop: requests are sent at intended times, and latency counts from those. Beside every figure stands
what one synchronisation of the same disk takes, measured just before.
"""

import asyncio
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

SECONDS = 10.0
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


def send_events(port, key, rate, seconds, failures):
    """The process of a load of events: so many a second, in batches."""
    make = Events(key, BATCH, seed=int(time.time()))
    _, failed = uvloop.run(open_loop(port, 64, make, rate / BATCH, seconds))
    failures.value = failed


def under_load(service, rate, seconds, work):
    """Run work while another process sends events; return its result, and refused requests."""
    context = multiprocessing.get_context("spawn")
    failures = context.Value("i", -1)
    given = (service.port, service.keys["ingest"], rate, seconds + 2, failures)
    process = context.Process(target=send_events, args=given)
    process.start()
    time.sleep(1.5)
    made = uvloop.run(work)
    process.join()
    return made, failures.value


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


def measured(folder, seconds):
    """All figures, each with the disk's latency just before."""
    rows = []

    def row(name, figure, refused, **more):
        rows.append({"what": name, "figure": figure, "refused": refused, **disk, **more})
        print(f"{name}: {figure}  refused {refused}  fsync {disk['fsync_ms']}", flush=True)

    with running(folder, SETTINGS) as service:
        ingest, read = service.keys["ingest"], service.keys["read"]
        for name, batch, links in (
            ("events/s in batches of 100", BATCH, 32),
            ("events/s one by one", 1, 256),
        ):
            disk = {"fsync_ms": fsync_milliseconds(folder)}
            rate, refused = uvloop.run(
                closed_loop(service.port, links, Events(ingest, batch), seconds)
            )
            row(name, round(rate * batch), refused)
        service.learned()
        disk = {"fsync_ms": fsync_milliseconds(folder)}
        took, refused = uvloop.run(open_loop(service.port, 64, lists_of(read), 1000, seconds))
        row("lists at 1,000/s, p99 ms", percentiles(took)["p99"], refused, all=percentiles(took))
        disk = {"fsync_ms": fsync_milliseconds(folder)}
        work = open_loop(service.port, 64, lists_of(read), 300, seconds)
        (took, refused), lost = under_load(service, 50_000, seconds, work)
        name = "lists at 300/s under 50,000 events/s, p99 ms"
        row(name, percentiles(took)["p99"], refused + lost, all=percentiles(took))
        service.learned()
        disk = {"fsync_ms": fsync_milliseconds(folder)}
        took, lost = under_load(service, 10_000, seconds, freshness(service, seconds))
        found = percentiles(took, 1.0)
        row("freshness under 10,000 events/s, p99 s", found["p99"], lost, all=found)
        with service.client("read") as client:
            print("readiness:", client.get("/readyz").json())
    return rows


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with tempfile.TemporaryDirectory() as folder:
        rows = measured(Path(folder), seconds)
    for each in rows:
        target = TARGETS[each["what"]]
        good = each["figure"] >= target if target > 100 else each["figure"] <= target
        each |= {"target": target, "reached": bool(good)}
        print(f"{each['what']:48} {each['figure']:>12,} of {target:>9,} {'' if good else 'MISSED'}")
    if seconds >= SECONDS:
        write("service", {"seconds": seconds, "items": ITEMS, "users": USERS, "rows": rows})


if __name__ == "__main__":
    main()
