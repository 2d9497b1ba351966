"""Killed at any moment, under load: what was acknowledged is there once; budgets never recover."""

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sfumato.store import open_store
from support.stores import PostgresServer, _binaries

LOAD = Path(__file__).parents[1] / "support" / "store_load.py"


def acknowledged(location, name, seconds, cut):
    """What a process printed until it was cut off, some time after its first events were in."""
    process = subprocess.Popen(
        [sys.executable, LOAD, location, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = []
    first = threading.Event()

    def listen():
        for line in process.stdout:
            lines.append(line)
            if line.startswith("events"):
                first.set()

    thread = threading.Thread(target=listen)
    thread.start()
    assert first.wait(120), "nothing was acknowledged"
    time.sleep(seconds)
    cut(process)
    process.stdin.close()
    process.wait(timeout=120)
    thread.join(timeout=120)
    process.stdout.close()
    # The last line may be cut off; it was not read by a client either.
    return [line.split() for line in lines if line.endswith("\n")]


def check(location, lines):
    """The store has all that was acknowledged, and no event twice."""
    with open_store(location) as store:
        batch = store.read(limit=10**7)
        found = batch.event_ids.to_pylist()
        assert len(found) == len(set(found))
        assert (batch.sequence[1:] > batch.sequence[:-1]).all()
        said = {each for kind, *ids in lines if kind == "events" for each in ids}
        assert said <= set(found)
        assert len(said) > 0
        store.ledger.verify()
        charged = {each.release_id for each in store.ledger.history("views")}
        spent = [words[1] for words in lines if words[0] in ("charge", "release")]
        assert set(spent) <= charged
        assert store.ledger.spent("views").epsilon >= 0.001 * len(set(spent)) * (1 - 1e-9)
        for key in [words[1] for words in lines if words[0] == "release"]:
            assert store.find_release(key).data == key.encode()
        versions = [int(words[1]) for words in lines if words[0] == "snapshot"]
        newest = store.load_snapshot("model")  # complete, or it raises
        if versions:
            assert newest.version >= max(versions)
        # The next process goes on: what a killed one left is no obstacle.
        assert store.append({"users": ["next"], "items": ["x"]}).new == 1
        store.ledger.charge("views", 0.001, "next")
        store.save_snapshot("model", b"next", 0)


def kill(process):
    process.kill()


def rounds(location, count, seed, cut=kill):
    draws = random.Random(seed)
    with open_store(location) as store:
        store.ledger.create("views", epsilon=1000)
    lines = []
    for k in range(count):
        lines += acknowledged(location, f"r{k}", draws.uniform(0, 0.4), cut)
        check(location, lines)


def test_a_killed_process_loses_nothing_that_was_acknowledged(location):
    rounds(location, 5, seed=1)


@pytest.mark.soak
def test_fifty_killed_processes_lose_nothing_that_was_acknowledged(location):
    rounds(location, 50, seed=2)


def server_rounds(count, seed):
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL")
    server = PostgresServer(binaries)  # of its own, as it is killed
    try:

        def cut(process):
            server.stop(signal.SIGKILL)
            time.sleep(0.05)
            process.kill()
            server.start()

        rounds(server.new_database(), count, seed, cut)
    finally:
        server.remove()


def test_a_killed_server_loses_nothing_that_was_acknowledged(postgres_server):
    server_rounds(2, seed=3)


@pytest.mark.soak
def test_fifty_killed_servers_lose_nothing_that_was_acknowledged(postgres_server):
    server_rounds(50, seed=4)


def test_a_restarted_server_is_used_again_without_reopening_the_store(postgres_server):
    from sfumato.errors import StoreUnavailable

    server = PostgresServer(_binaries())
    try:
        with open_store(server.new_database()) as store:
            store.ledger.create("views", epsilon=1)
            store.append({"users": ["ann"], "items": ["tea"], "event_ids": ["1"]})
            server.stop()
            again = {"users": ["ann", "bob"], "items": ["tea", "milk"], "event_ids": ["1", "2"]}
            for call in (
                lambda: store.append(again),
                store.read,
                lambda: store.ledger.charge("views", 0.5, "a count"),
            ):
                with pytest.raises(StoreUnavailable, match="cannot be used now"):
                    call()
            server.start()
            assert store.append(again).new == 1
            assert store.read().users.to_pylist() == ["ann", "bob"]
            store.ledger.charge("views", 0.5, "a count")
            assert store.ledger.spent("views").epsilon == 0.5
    finally:
        server.remove()
