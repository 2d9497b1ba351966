"""Long runs (make soak): damaged files, killed writers and spenders, bounds, a billion draws."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shops
from ledger_files import flipped
from sfumato.privacy import Ledger
from sfumato.privacy.noise import InsecureSeededSource, add_gaussian, add_laplace
from sfumato.sketch import AMS, CountMin, CountSketch, HyperLogLog, load
from sketch.test_format import SAMPLES, loads_or_refuses, resealed
from streams import uniform, zipf

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
    seen = expected >= 30
    assert (np.abs(counts - expected)[seen] < 6 * np.sqrt(expected[seen])).all()
    beyond = expected[~seen].sum()
    assert abs(counts[~seen].sum() - beyond) < 6 * np.sqrt(beyond) + 6


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
    seen = {}
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
            seen |= dict(line.rsplit(" ", 1) for line in whole.splitlines())
            each.wait()
    charges = {charge.release_id: charge for charge in ledger.history("views")}
    assert seen
    assert set(seen) <= set(charges)
    assert len(charges) <= 1000
    assert ledger.spent("views").epsilon <= 1 + 1e-9
    for name, made in seen.items():
        again = ledger.release("views", 0.001, "a count", lambda r: b"other", release_id=name)
        assert again.hex() == made


# Runs commands, each in a fork that ends itself at a write or is ended after a while.
KILLER = """
import json, os, random, signal, sys, time
from sfumato.cli import app
from sfumato.sketch import _format
import sfumato.data, sfumato.density, sfumato.privacy, sfumato.profile, sfumato.recommend
import sfumato.retrieve, sfumato.telemetry, pyarrow.parquet, sqlite3

def dying(function, left):
    def count(*given, **named):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given, **named)
    return count

for line in sys.stdin:
    words, writes, seconds = json.loads(line)
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        if writes:
            left = [writes]
            _format._Part.write = dying(_format._Part.write, left)
            for name in ("fsync", "replace", "unlink"):
                setattr(os, name, dying(getattr(os, name), left))
        try:
            app(words, prog_name="sfumato")
        except SystemExit as end:
            os._exit(end.code or 0)
        os._exit(1)
    begin = time.monotonic()
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
        if seconds and time.monotonic() - begin > seconds:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.001)
    print(os.waitstatus_to_exitcode(done[1]), time.monotonic() - begin, flush=True)
"""
KILLED = {  # what is written, by which command; PAID: with a ledger
    "s.sketch": "sketch build count-min keys.csv --column item",
    "m.sketch": "sketch merge a.sketch b.sketch",
    "s.release": "sketch release a.sketch --epsilon 0.001 PAID",
    "d.sfu": "fit train.csv --dense --epochs 1",
    "p.sfu": "fit train.csv --epsilon 0.01 --delta 1e-9 --bounds 1 5 "
    "--catalogue items.txt --accounts users.txt PAID",
    "b.profiles": "profiles release train.csv --mechanism blip --epsilon 0.001 "
    "--users users.txt PAID",
    "i.index": "index build base.npy --bits 64",
    "j.index": "index add a.index more.npy",
    "k.index": "index remove a.index 3",
    "p.json": "telemetry params --bits 32 --hashes 2 --cohorts 8 -f 0.5",
    "r.ndjson": "telemetry encode words.txt --params t.json",
    "r.ndjson.gz": "telemetry encode words.txt --params t.json",
    "r.counts": "telemetry aggregate t.ndjson --params t.json",
    "t.csv": "telemetry decode t.ndjson --params t.json --candidates list.txt",
    "d.density": "density build points.csv --columns a,b --bounds 0,100 --bandwidth 10",
    "q.density": "density build points.csv --columns a,b --bounds 0,100 --bandwidth 10 "
    "--epsilon 0.01 PAID",
    "rows.parquet": "density sample a.density -n 50",
}
ROUNDS = int(os.environ.get("SFUMATO_KILLS", "200"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Inputs of every command that writes."""
    folder = shops.opened(tmp_path_factory.mktemp("shop"))
    random = np.random.default_rng(0)
    (folder / "keys.csv").write_text("item\n" + "\n".join(f"key {k % 97}" for k in range(20_000)))
    for name in ("base", "more"):
        np.save(folder / f"{name}.npy", random.normal(size=(500, 16)).astype(np.float32))
    (folder / "words.txt").write_text("\n".join(f"word{k % 20}" for k in range(3000)))
    (folder / "list.txt").write_text("\n".join(f"word{k}" for k in range(20)))
    points = random.uniform(0, 100, (2000, 2))
    (folder / "points.csv").write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in points))
    for words in (
        "sketch build count-min keys.csv --column item -o a.sketch",
        "sketch build count-min keys.csv --column item -o b.sketch",
        "index build base.npy --bits 64 -o a.index",
        "telemetry params --bits 32 --hashes 2 --cohorts 8 -f 0.5 -o t.json",
        "telemetry encode words.txt --params t.json -o t.ndjson",
        "density build points.csv --columns a,b --bounds 0,100 --bandwidth 10 -o a.density",
    ):
        shops.run(folder, *words.split())
    return folder


def whole(path):
    """Whether the file is one that a reader takes."""
    data = path.read_bytes()
    if data.startswith((b"SFUM", b"SFIX")):
        shops.run(path.parent, "inspect", path.name)
    elif path.suffix == ".parquet":
        pq.read_table(path)
    elif path.suffix == ".gz":
        assert gzip.decompress(data).endswith(b"}\n")
    else:
        assert data.endswith(b"\n")


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_command_leaves_nothing_half_done(shop, name):
    folder, random = shop / name.replace(".", "-"), np.random.default_rng(len(name))
    shutil.copytree(shop, folder, ignore=lambda where, names: [n for n in names if "-" in n])
    ledger, output = folder / "shop.ledger", folder / name
    budget = ["--epsilon", "1000", "--delta", "0.001" if "--delta" in KILLED[name] else "0"]
    unit = "item of a profile" if "profiles" in KILLED[name] else "event"
    shops.run(folder, "budget", "create", "shop.ledger", "rows", *budget, "--unit", unit)
    killer = subprocess.Popen(
        [sys.executable, "-c", KILLER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, cwd=folder,
    )  # fmt: skip

    def run(words, writes=0, seconds=0.0):
        killer.stdin.write(json.dumps([words, writes, seconds]) + "\n")
        killer.stdin.flush()
        code, took = killer.stdout.readline().split()
        return int(code), float(took)

    def words(at):
        paid = f"--ledger shop.ledger --dataset rows --release-id round{at}"
        told = KILLED[name].replace("PAID", paid)
        return [*told.split(), "-o", name, "--force"]

    output.unlink(missing_ok=True)
    code, usual = run(words("first"))
    assert code == 0
    old, killed = output.read_bytes(), 0
    for at in range(ROUNDS):
        if at % 3 == 0:
            output.unlink(missing_ok=True)
            old = None
        early = at % 2 == 0
        code, _ = run(
            words(at),
            writes=int(random.integers(1, 5)) if early else 0,
            seconds=0.0 if early else usual * random.random(),
        )
        killed += code == -signal.SIGKILL
        assert code in (0, -signal.SIGKILL)
        if output.exists():
            if output.read_bytes() != old:
                whole(output)
        else:
            assert old is None
        spent = Ledger(ledger).spent("rows").epsilon
        assert spent <= 1000
        assert run(words(at))[0] == 0
        whole(output)
        if at % 3 == 1 and "PAID" in KILLED[name]:  # a retry is the same release and costs nothing
            told, again = output.read_bytes(), Ledger(ledger).spent("rows").epsilon
            assert run(words(at))[0] == 0
            assert (output.read_bytes(), Ledger(ledger).spent("rows").epsilon) == (told, again)
        old = output.read_bytes()
        assert not [path.name for path in folder.iterdir() if path.name.endswith(".part")]
    killer.stdin.close()
    killer.wait()
    assert killed >= ROUNDS // 4


def test_a_killed_budget_create_leaves_a_ledger_or_none(tmp_path):
    random = np.random.default_rng(3)
    killer = subprocess.Popen(
        [sys.executable, "-c", KILLER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, cwd=tmp_path,
    )  # fmt: skip
    for at in range(ROUNDS):
        words = ["budget", "create", "a.ledger", f"rows{at}", "--epsilon", "1"]
        killer.stdin.write(json.dumps([words, 0, 0.2 * random.random() + 1e-3]) + "\n")
        killer.stdin.flush()
        code = int(killer.stdout.readline().split()[0])
        assert code in (0, -signal.SIGKILL)
        killer.stdin.write(json.dumps([words, 0, 0.0]) + "\n")
        killer.stdin.flush()
        again = int(killer.stdout.readline().split()[0])
        assert again == 0 or again == 2  # it is there
        assert Ledger(tmp_path / "a.ledger").spent(f"rows{at}").epsilon == 0
    killer.stdin.close()
    killer.wait()
