"""Budgets hold for threads, processes at once, and processes that are killed."""

import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from sfumato.privacy import BudgetExceeded, Ledger


def test_threads_together_cannot_overspend(ledger):
    taken = []

    def spend():
        for _ in range(5):
            try:
                taken.append(ledger.charge("views", 0.125, "a count"))
            except BudgetExceeded:
                return

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(set(taken)) == 8
    assert ledger.spent("views").epsilon == 1


def run(code, *arguments):
    """A process of its own that runs this code."""
    start = "import os, signal, sys\nfrom sfumato.privacy import Ledger, BudgetExceeded, ledger\n"
    code = start + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


SPEND = """
    mine, taken = Ledger(sys.argv[1]), 0
    print("ready", flush=True)
    while not os.path.exists(sys.argv[2]):
        pass
    try:
        while True:
            mine.charge("views", 0.05, "a count")
            taken += 1
    except BudgetExceeded:
        pass
    same = mine.release("rough", 0.5, "one", lambda i: os.urandom(8), release_id="same")
    print(taken, same.hex())
"""


def test_processes_together_cannot_overspend_and_share_one_release(ledger, tmp_path):
    go = tmp_path / "go"
    children = [run(SPEND, ledger.path, go) for _ in range(3)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    go.touch()
    told = [child.communicate(timeout=120)[0].split() for child in children]
    assert sum(int(taken) for taken, _ in told) == 20
    assert len({same for _, same in told}) == 1
    assert ledger.spent("views").epsilon == pytest.approx(1)
    assert len(ledger.history("rough")) == 1


KILLED = """
    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def make(release_id):
        if sys.argv[2] == "in make":
            die()
        if sys.argv[2] == "while storing":
            ledger._now = die
        return b"made"

    store = Ledger._store
    if sys.argv[2] == "while charging":
        ledger._now = die
    if sys.argv[2] == "before making":
        Ledger._charge = lambda self, *a, _charge=Ledger._charge, **k: die(_charge(self, *a, **k))
    if sys.argv[2] == "after storing":
        Ledger._store = lambda self, *a: die(store(self, *a))
    Ledger(sys.argv[1]).release("views", 0.75, "a count", make, release_id="one")
    print("returned")
"""
# Where it was killed: how many charges stand, and what a retry returns.
POINTS = {
    "while charging": (0, b"retry"),
    "before making": (1, b"retry"),
    "in make": (1, b"retry"),
    "while storing": (1, b"retry"),
    "after storing": (1, b"made"),
}


def test_a_killed_process_leaves_its_charge_standing_and_a_retry_never_pays_twice(tmp_path):
    ledgers = {point: Ledger(tmp_path / f"{point}.ledger") for point in POINTS}
    for each in ledgers.values():
        each.create("views", epsilon=1)
    children = {point: run(KILLED, ledgers[point].path, point) for point in POINTS}
    for point, child in children.items():
        assert child.communicate(timeout=120)[0] == "", point
        assert child.returncode == -signal.SIGKILL, point
        mine, (standing, answer) = ledgers[point], POINTS[point]
        assert len(mine.history("views")) == standing, point
        assert mine.spent("views").epsilon == 0.75 * standing, point
        if standing:
            with pytest.raises(BudgetExceeded):
                mine.charge("views", 0.5, "another")
        made = mine.release("views", 0.75, "a count", lambda i: b"retry", release_id="one")
        assert made == answer, point
        assert mine.spent("views").epsilon == 0.75, point
