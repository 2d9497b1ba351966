"""Long runs (make soak): damaged files, killed writers and spenders, bounds, a billion draws."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.test_file_format import SAMPLES, loads_or_refuses, resealed
from sfumato.privacy import Ledger
from sfumato.privacy.noise.discrete import add_gaussian, add_laplace
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import AMS, CountMin, CountSketch, HyperLogLog, load
from support.ledger_files import flipped
from support.streams import uniform, zipf

pytestmark = pytest.mark.soak

WRITER = """
import sys
from sfumato.sketch import CountMin
small, large = CountMin(2**18).update([1]), CountMin(2**18).update([1, 2])
print("ready", flush=True)
while True:
    small.save(sys.argv[1])
    large.save(sys.argv[1])
"""


def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    path = tmp_path / "counts.sketch"
    wait = np.random.default_rng(0)
    for _ in range(25):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        writer.stdout.readline()
        time.sleep(0.05 + 0.2 * wait.random())
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        assert load(path).total in (1, 2)


def test_many_damaged_files_load_whole_or_are_refused():
    random = np.random.default_rng(1)
    for _ in range(60_000):
        body = bytearray(SAMPLES[random.integers(len(SAMPLES))][:-8])
        for at in random.integers(0, min(len(body), 600), random.integers(1, 5)):
            body[at] = random.integers(256)
        loads_or_refuses(resealed(body))


@pytest.mark.parametrize("stream", [uniform(200_000, 30_000), zipf(200_000, 100_000)])
def test_bounds_hold_at_their_confidence_over_many_seeds(stream):
    # Each bound allows 5 % of (key, seed) pairs; Markov and Chebyshev leave far fewer.
    keys, counts = np.unique(stream, return_counts=True)
    squares = float((counts.astype(float) ** 2).sum())
    missed = {"min": [], "mean": [], "median": [], "ams": [], "hll": []}
    for seed in range(100):
        sketch = CountMin(2048, 4, seed=seed).update(stream)
        missed["min"].append((sketch.estimate(keys) - counts > sketch.error_bound(0.95)).mean())
        for combine in ("mean", "median"):
            sketch = CountSketch(2048, 5, combine=combine, seed=seed).update(stream)
            off = np.abs(sketch.estimate(keys) - counts) > sketch.error_bound(0.95)
            missed[combine].append(off.mean())
        sketch = AMS(256, 5, seed=seed).update(stream)
        missed["ams"].append(abs(sketch.estimate() - squares) > sketch.error_bound(0.95) * squares)
        sketch = HyperLogLog(10, seed=seed).update(stream)
        off = abs(sketch.estimate() - keys.size) > sketch.error_bound(0.95) * keys.size
        missed["hll"].append(off)
    for name in ("min", "mean", "median", "ams"):
        assert np.mean(missed[name]) <= 0.05
    assert np.sum(missed["hll"]) <= 17  # normal law: 5 expected, binomial p < 1e-5


def test_large_sums_do_not_wrap():
    sketch = CountMin(64, 2)
    ones = np.zeros(1_000_000, np.int64)
    for _ in range(20):
        sketch.update(ones, np.full(ones.size, 2**31 - 1))
    assert sketch.estimate([0])[0] == 20_000_000 * (2**31 - 1)


ENGINE = """
import resource, sys
from sfumato.engine import map_merge
from sfumato.sketch import CountMin
sketch = map_merge(sys.argv[1], lambda: CountMin(2**18), column="key", threads=4)
print(sketch.total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_the_engine_stays_below_a_gibibyte_whatever_the_file(tmp_path):
    path = tmp_path / "keys.parquet"
    keys, rows = np.random.default_rng(0).integers(0, 2**40, 2_000_000), 0
    with pq.ParquetWriter(path, pa.schema([("key", pa.int64())])) as writer:
        for _ in range(50):
            writer.write_table(pa.table({"key": keys}), row_group_size=2_000_000)
            rows += keys.size
    command = [sys.executable, "-c", ENGINE, str(path)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    total, peak = map(int, out.split())
    assert total == rows
    assert peak < 2**30


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_billion_draws_follow_the_exact_mass(law):
    # Sizes up to where 30 draws are expected, and beyond: each count is off by 6 standard errors
    # with p < 2e-9, so one of the few hundred with p < 1e-6.
    counts, cells = np.zeros(400, np.int64), np.empty(1 << 22, np.int64)
    source, rounds = InsecureSeededSource(1), 240
    for _ in range(rounds):
        cells[:] = 0
        (add_laplace if law == "laplace" else add_gaussian)(cells, 9, source=source)
        counts += np.bincount(np.minimum(np.abs(cells), 399), minlength=400)
    k = np.arange(400.0)
    mass = np.exp(-k / 9 if law == "laplace" else -(k**2) / 162) * np.where(k > 0, 2, 1)
    expected = mass / mass.sum() * rounds * cells.size
    observed = expected >= 30
    assert (np.abs(counts - expected)[observed] < 6 * np.sqrt(expected[observed])).all()
    beyond = expected[~observed].sum()
    assert abs(counts[~observed].sum() - beyond) < 6 * np.sqrt(beyond) + 6


def test_no_flipped_bit_of_a_ledger_gives_budget_back(tmp_path):
    path = tmp_path / "a.ledger"
    with Ledger(path) as ledger:
        ledger.create("views", epsilon=10)
        ledger.create("rough", epsilon=10, delta=1e-6)
        for k in range(6):
            ledger.charge("views", 0.1 + k / 64, "a count")
            ledger.charge("rough", 0.2 + k / 64, "a count")
        ledger.release("rough", 0.1, "a count", lambda release_id: b"x" * 99)
        left = {name: ledger.remaining(name).epsilon for name in ("views", "rough")}
    data = path.read_bytes()
    used = [k for k, byte in enumerate(data) if byte]
    noticed = sum(flipped(tmp_path, data, 8 * k + bit, left) for k in used for bit in range(8))
    assert noticed > 0.8 * 8 * len(used)
    empty = sorted(set(range(len(data))) - set(used))[::50]
    for k in empty:
        flipped(tmp_path, data, 8 * k + k % 8, left)


SPENDER = """
import os, sys
from sfumato.privacy import BudgetExceeded, Ledger
ledger = Ledger(sys.argv[1])
print("ready", flush=True)
number = 0
while True:
    try:
        name = f"{os.getpid()} {number}"
        made = ledger.release(
            "views", 0.001, "a count", lambda release_id: os.urandom(8), release_id=name
        )
        print(name, made.hex(), flush=True)
        number += 1
    except BudgetExceeded:
        break
"""


def test_killed_spenders_never_overspend_and_what_was_seen_was_charged(tmp_path):
    path, wait = tmp_path / "a.ledger", np.random.default_rng(1)
    ledger = Ledger(path)
    ledger.create("views", epsilon=1)
    observed = {}
    for _ in range(20):
        pair = [
            subprocess.Popen(
                [sys.executable, "-c", SPENDER, str(path)], stdout=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        for each in pair:
            each.stdout.readline()
        time.sleep(0.1 + 0.3 * wait.random())
        for each in pair:
            os.kill(each.pid, signal.SIGKILL)
            whole = each.stdout.read().rpartition("\n")[0]
            observed |= dict(line.rsplit(" ", 1) for line in whole.splitlines())
            each.wait()
    charges = {charge.release_id: charge for charge in ledger.history("views")}
    assert observed
    assert set(observed) <= set(charges)
    assert len(charges) <= 1000
    assert ledger.spent("views").epsilon <= 1 + 1e-9
    for name, made in observed.items():
        again = ledger.release("views", 0.001, "a count", lambda r: b"other", release_id=name)
        assert again.hex() == made
