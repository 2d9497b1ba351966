"""The ledger in a store: processes and threads charge it at once, and none can overspend."""

import subprocess
import sys
import textwrap
import threading

import pytest

from sfumato.privacy import BudgetExceeded
from sfumato.store import open_store

SPEND = """
    import os, sys
    from sfumato.privacy import BudgetExceeded
    from sfumato.store import open_store

    with open_store(sys.argv[1]) as store:
        ledger, taken = store.ledger, 0
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            while True:
                ledger.charge("views", 0.05, "a count")
                taken += 1
                store.append({"users": ["ann"], "items": ["x"]})
        except BudgetExceeded:
            pass
        make = lambda key: os.urandom(8)
        same = store.release("same", "one", make, dataset="rough", loss=0.5)
        print(taken, same.data.hex())
"""


def test_processes_together_cannot_overspend_and_share_one_release(store, location):
    store.ledger.create("views", epsilon=1)
    store.ledger.create("rough", epsilon=1)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SPEND), location],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    result = [child.communicate(timeout=300)[0].split() for child in children]
    assert [child.returncode for child in children] == [0] * 3
    assert sum(int(taken) for taken, _ in result) == 20
    assert len({same for _, same in result}) == 1
    assert store.ledger.spent("views").epsilon == pytest.approx(1)
    assert len(store.ledger.history("rough")) == 1
    assert len(store.read()) == 20
    store.ledger.verify()


def test_a_charge_gets_its_turn_while_events_are_committed_all_the_time(store):
    store.ledger.create("views", epsilon=1)
    stop = threading.Event()

    def load():
        waiting = []
        while not stop.is_set():
            waiting.append(store.submit({"users": ["ann"] * 50, "items": ["x"] * 50}))
            if len(waiting) > 20:
                waiting.pop(0).result()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for _ in range(20):
            store.ledger.charge("views", 0.05, "a count")
    finally:
        stop.set()
        thread.join()
    with pytest.raises(BudgetExceeded):
        store.ledger.charge("views", 0.05, "one more")


def test_a_ledger_that_is_not_read_to_the_end_grants_nothing_from_elsewhere(store, location):
    store.ledger.create("views", epsilon=1)
    store.ledger.charge("views", 0.75, "a count")
    with open_store(location) as other:
        with pytest.raises(BudgetExceeded):
            other.ledger.charge("views", 0.5, "a count")
        other.ledger.charge("views", 0.25, "a count")
    with pytest.raises(BudgetExceeded):
        store.ledger.charge("views", 0.25, "a count")
    assert len(store.ledger.history("views")) == 2
