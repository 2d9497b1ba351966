"""A process under load, which prints what the store acknowledged; tests end it at any moment.

`python store_load.py LOCATION ROUND` appends batches and single events from threads and from an
event loop, charges the ledger, saves snapshots, and prints a line after each answer.
"""

import asyncio
import sys
import threading

from sfumato.errors import StoreUnavailable
from sfumato.store import EventBatch, open_store

LOCK = threading.Lock()


def say(*words):
    with LOCK:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


def events(store, name):
    for k in range(10**9):
        ids = [f"{name}-{k}-{j}" for j in range(20)]
        try:
            store.append(EventBatch([name] * 20, ["x"] * 20, event_ids=ids))
        except StoreUnavailable:
            continue  # the server is gone; these were not acknowledged
        say("events", *ids)


def singles(store, name):
    async def one(k):
        try:
            await store.append_async(EventBatch([name], ["x"], event_ids=[f"{name}-{k}"]))
        except StoreUnavailable:
            return
        say("events", f"{name}-{k}")

    async def work():
        for start in range(0, 10**9, 30):
            await asyncio.gather(*(one(k) for k in range(start, start + 30)))

    asyncio.run(work())


def charges(store, name):
    for k in range(10**9):
        key = f"{name}-{k}"
        try:
            store.ledger.charge("views", 0.001, "a count", release_id=key)
        except OSError:
            continue
        say("charge", key)
        try:
            store.release(
                f"{key}-r", "a sum", lambda key: key.encode(), dataset="views", loss=0.001
            )
        except OSError:
            continue
        say("release", f"{key}-r")


def snapshots(store, name):
    for k in range(10**9):
        try:
            saved = store.save_snapshot("model", f"{name}-{k}-".encode() * 20_000, k, keep=2)
        except OSError:
            continue
        say("snapshot", saved.version)


def main():
    location, name = sys.argv[1:]
    store = open_store(location)
    work = [(events, "a"), (events, "b"), (singles, "s"), (charges, "c"), (snapshots, "m")]
    for job, kind in work:
        threading.Thread(target=job, args=(store, f"{name}{kind}"), daemon=True).start()
    sys.stdin.read()  # until the test ends it


if __name__ == "__main__":
    main()
