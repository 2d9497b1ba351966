"""Threads hold back the source, stop together, and report their progress in the calling thread."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from sfumato.data import read_batches
from sfumato.engine import map_merge
from sfumato.sketch import CountMin
from sfumato.sketch.base import Sketch

KEYS = np.random.default_rng(3).zipf(1.2, 200_000) % 50_000
TABLE = pa.table({"key": KEYS})


def count_min():
    return CountMin(256, seed=2)


def ended(before):
    """Whether at most this many threads remain; the last lines of one may still be running."""
    deadline = time.monotonic() + 2
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    return threading.active_count() <= before


class Slow(CountMin):
    """Keeps the batch for a moment, so that a source could run ahead if nothing stopped it."""

    taken = 0
    lock = threading.Lock()

    def update(self, keys, weights=None):
        time.sleep(0.002)
        with self.lock:
            Slow.taken += 1
        return super().update(keys, weights)


del Sketch.KINDS["Slow"]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_source_is_never_more_than_a_batch_a_thread_ahead(threads):
    Slow.taken, ahead = 0, []

    def source():
        for made in range(100):
            yield pa.record_batch({"key": KEYS[:10]})
            ahead.append(made + 1 - Slow.taken)

    map_merge(source(), lambda: Slow(64), column="key", threads=threads)
    assert len(ahead) == 100
    assert max(ahead) <= threads + 1


def test_idle_threads_help_with_the_last_piece():
    observed = set()

    def note(sketch, batch):
        observed.add(threading.get_ident())
        time.sleep(0.001)

    source = read_batches(TABLE, ["key"])
    assert len(source.pieces) == 1
    map_merge(source, count_min, update=note, threads=4, batch_rows=1000)
    assert len(observed) == 4


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_stops_all_and_says_where(threads):
    hours = pa.array([*range(50_000), None, *range(150_000)])
    table = {"key": pa.array(range(200_001)), "hours": hours}
    before, how = threading.active_count(), dict(column="key", weights="hours", batch_rows=1000)
    with pytest.raises(ValueError, match="the table: row 50001: column 'hours' is null"):
        map_merge(table, count_min, threads=threads, **how)
    assert ended(before)


def test_the_first_null_of_a_file_is_named_by_its_row_there(tmp_path):
    path = tmp_path / "views.csv"
    lines = [f"{n},1" for n in range(1, 120_001)]
    lines[99_989] = "7,"
    path.write_text("key,weight\n" + "\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"views.csv: row 99990: column 'weight'") as error:
        map_merge(path, count_min, column="key", weights="weight", threads=2)
    assert not hasattr(error.value, "__notes__")


def test_another_error_of_a_batch_with_nulls_stays_as_it_is():
    def refuse(sketch, batch):
        raise ValueError("no room")

    source = read_batches({"key": pa.array([1, None])}, ["key"])
    with pytest.raises(ValueError, match="no room") as result:
        map_merge(source, count_min, update=refuse)
    assert result.value.__notes__ == [
        "This was in the batch of the table from row 1 on; rows of a batch count from 0."
    ]


@pytest.mark.parametrize("threads", [1, 4])
def test_after_an_error_no_thread_takes_more_than_the_batch_it_waits_for(threads):
    made = []

    def source():
        for at in range(2000):
            made.append(at)
            yield pa.record_batch({"key": [1, 2], "hours": [1, None if at == 20 else 2]})

    with pytest.raises(ValueError, match="the stream: row 42: column 'hours' is null"):
        map_merge(source(), lambda: Slow(64), column="key", weights="hours", threads=threads)
    assert len(made) <= 21 + 2 * threads


def test_an_error_of_the_source_says_where(tmp_path):
    path = tmp_path / "views.csv"
    path.write_text("key,hours\n" + "1,1\n" * 50_000 + "1,x\n")
    with pytest.raises(ValueError, match="row 50001: column 'hours' is not of the type"):
        map_merge(path, count_min, column="key", weights="hours", threads=2, batch_rows=1000)

    def broken():
        yield pa.record_batch({"key": KEYS[:10]})
        raise RuntimeError("the line went dead")

    with pytest.raises(RuntimeError, match="went dead") as result:
        map_merge(broken(), count_min, column="key", threads=3)
    assert "the stream from row 11 on" in result.value.__notes__[0]


def test_progress_is_reported_here_and_ends_at_all_rows():
    result, threads = [], set()

    def progress(done, total):
        threads.add(threading.current_thread())
        result.append((done, total, time.monotonic()))

    def slow(sketch, batch):
        time.sleep(0.02)

    source = read_batches(TABLE, ["key"])
    map_merge(source, count_min, update=slow, threads=2, batch_rows=5000, progress=progress)
    assert threads == {threading.current_thread()}
    assert [done for done, _, _ in result] == sorted(done for done, _, _ in result)
    assert result[-1][:2] == (KEYS.size, KEYS.size)
    assert len(result) <= 2 + (result[-1][2] - result[0][2]) / 0.09
    result.clear()
    map_merge(TABLE.to_reader(), count_min, column="key", progress=progress)
    assert result[-1][:2] == (KEYS.size, None)


def test_an_error_of_progress_stops_all():
    def endless():
        while True:
            yield pa.record_batch({"key": KEYS[:100]})

    def progress(done, total):
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        map_merge(endless(), count_min, column="key", threads=3, progress=progress)
    assert ended(before)


def test_skipped_nulls_count_as_rows_done():
    result = []
    source = read_batches({"key": pa.array([1, None, 2])}, ["key"], skip_nulls=True)
    made = map_merge(source, count_min, progress=lambda *rows: result.append(rows))
    assert made == count_min().update([1, 2])
    assert result == [(3, 3)]


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT as Ctrl-C does on a terminal")
def test_ctrl_c_stops_the_threads_at_once():
    code = """
        import threading, time, numpy as np, pyarrow as pa
        from sfumato.engine import map_merge
        from sfumato.sketch import CountMin

        def endless():
            batch = pa.record_batch({"key": np.arange(10_000)})
            while True:
                yield batch

        def progress(done, total):
            if done:
                print("working", flush=True)

        try:
            map_merge(endless(), lambda: CountMin(64), column="key", threads=2, progress=progress)
        except KeyboardInterrupt:
            time.sleep(0.5)
            print("stopped", threading.active_count(), flush=True)
    """
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert run.stdout.readline() == "working\n"
    begin = time.monotonic()
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=20)
    assert out.splitlines()[-1] == "stopped 1"
    assert time.monotonic() - begin < 5
