"""Budgets hold for threads, processes at once, and processes that are killed."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress

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
    start = "import os, signal, sys\nfrom sfumato.privacy import Ledger, BudgetExceeded\n"
    start += "from sfumato.privacy.ledger import ledger\n"
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
    result = [child.communicate(timeout=120)[0].split() for child in children]
    assert sum(int(taken) for taken, _ in result) == 20
    assert len({same for _, same in result}) == 1
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_shares_no_connection(ledger):
    ledger.charge("views", 0.125, "before")
    child = os.fork()
    if child == 0:
        shared = ledger._file._connection is not None
        try:
            for _ in range(3):
                ledger.charge("views", 0.125, "child")
        finally:
            os._exit(int(shared))
    for _ in range(3):
        ledger.charge("views", 0.125, "parent")
    assert os.waitpid(child, 0)[1] == 0
    assert ledger.spent("views").epsilon == 7 * 0.125
    assert sorted(each.what for each in ledger.history("views")).count("child") == 3
    assert ledger.verify().entries == 9


def test_a_program_that_opens_the_file_itself_loses_no_charge(ledger):
    # Closing a file drops the locks of SQLite in this process; the other process then believes
    # that it is the last, and removes the log to which this one would go on writing.
    ledger.charge("views", 0.125, "a count")
    with open(ledger.path, "rb") as file:
        file.read(100)
    other = run('Ledger(sys.argv[1]).charge("views", 0.25, "a count")', ledger.path)
    assert other.wait(timeout=120) == 0
    ledger.charge("views", 0.125, "a count")
    assert Ledger(ledger.path).spent("views").epsilon == ledger.spent("views").epsilon == 0.5
    other = run('Ledger(sys.argv[1]).charge("views", 0.25, "a count")', ledger.path)
    assert other.wait(timeout=120) == 0
    assert ledger.spent("views").epsilon == 0.75


def test_processes_that_make_one_ledger_make_one_file(tmp_path):
    code = """
    mine = Ledger(sys.argv[1])
    while not os.path.exists(sys.argv[2]):
        pass
    mine.create(sys.argv[3], epsilon=1)
    """
    go, path = tmp_path / "go", tmp_path / "new.ledger"
    children = [run(code, path, go, f"set {k}") for k in range(4)]
    go.touch()
    assert [child.wait(timeout=120) for child in children] == [0] * 4
    assert {each.name for each in Ledger(path).datasets()} == {f"set {k}" for k in range(4)}
    assert not [each.name for each in tmp_path.iterdir() if each.name.endswith("part")]


LARGE = """
    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    if sys.argv[2] == "before the entry":
        ledger._now = lambda now=ledger._now, count=[]: count.append(1) or (
            now() if len(count) == 1 else die()
        )
    if sys.argv[2] == "before its name":
        ledger.store.settle_blob = die
    made = lambda release_id: os.urandom(100_000)
    Ledger(sys.argv[1]).release("views", 0.75, "a model", made, release_id="one")
"""


@pytest.mark.parametrize("point", ["before the entry", "before its name"])
def test_a_killed_process_leaves_a_large_release_whole_or_none(ledger, tmp_path, point):
    child = run(LARGE, ledger.path, point)
    assert child.wait(timeout=120) == -signal.SIGKILL
    (left,) = os.listdir(tmp_path / "shop.ledger.blobs")
    assert left.endswith(".part")
    made = ledger.release("views", 0.75, "a model", lambda i: bytes(100_000), release_id="one")
    assert (made == bytes(100_000)) is (point == "before the entry")
    assert len(os.listdir(tmp_path / "shop.ledger.blobs")) == 1
    assert ledger.fetch("one") == made
    assert ledger.verify().entries == 4


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 400 kB, where tests run as root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_tells_what_was_charged_and_the_way_to_the_release(small_disk):
    ledger = Ledger(small_disk / "shop.ledger")
    ledger.create("views", epsilon=1)
    sentence = r"'one' of 'views' was charged, but its bytes could not be stored .*release_id='one'"
    with pytest.raises(OSError, match=sentence) as error:
        ledger.release("views", 0.5, "a model", lambda release_id: bytes(10**6), release_id="one")
    assert "rollback" not in str(error.value)
    assert ledger.find("one").unfinished
    with pytest.raises(ValueError, match="nothing of it was made or stored"):
        ledger.fetch("one")
    with suppress(OSError), open(small_disk / "other", "wb", buffering=0) as other:
        while True:
            other.write(bytes(1024))
    with pytest.raises(OSError, match="'two' was not charged, and nothing was drawn"):
        ledger.charge("views", 1e-6, "a count", release_id="two")
    with pytest.raises(OSError, match="'one' of 'views' was charged"):
        ledger.release("views", 0.5, "a model", lambda release_id: bytes(9000), release_id="one")
    (small_disk / "other").unlink()
    assert [each.release_id for each in ledger.history("views")] == ["one"]
    made = ledger.release("views", 0.5, "a model", lambda release_id: bytes(9000), release_id="one")
    assert (made, ledger.spent("views").epsilon) == (bytes(9000), 0.5)
    assert ledger.verify().entries == 3
    ledger.close()


def repeat(times, work):
    for _ in range(times):
        work()


def test_a_full_file_rolls_back_in_a_sentence(ledger):
    ledger.charge("views", 0.1, "a count")
    pages = ledger._file._connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._file._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OSError, match=r"disk is full\. Release '.*' was not charged, and nothing"):
        repeat(9, lambda: ledger.charge("rough", 1e-5, "x" * 2000))
    with pytest.raises(OSError, match=r"could not be stored .*disk is full"):
        ledger.release("views", 0.1, "a count", lambda release_id: bytes(60_000), release_id="two")
    ledger.close()  # the limit was one of that connection
    made = ledger.release("views", 0.1, "a count", lambda release_id: b"late", release_id="two")
    assert (made, ledger.spent("views").epsilon) == (b"late", 0.2)
