"""Speed and error of the sketches beside their peers: one process, one thread, 10 million items.

    python benchmarks/sketches.py            everything, writes benchmarks/results/sketches.json
    python benchmarks/sketches.py bloom hll  only these groups, writes nothing

Figures are million items a second, median (lowest-highest) of warm runs in three rounds. The
ceiling is the same number of random accesses with positions given (or, where a sketch fits the
first cache, one reading of the input), measured in the same process right before.
"""

import functools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from _measure import Ceilings, peer, rate, show, together, write

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # which polars reads when it is imported

from sfumato.core.hashing import hash_column
from sfumato.sketch import (
    BloomFilter,
    CountingBloomFilter,
    CountMin,
    CountSketch,
    HyperLogLog,
    MinHash,
)

ITEMS, FEW = 10_000_000, 1_000_000
WIDTH, DEPTH = 2**18, 4
ROUNDS = 3  # minutes apart, so that a slow minute of a shared machine does not decide
CEILING = Ceilings()


def zipf(size, keys, exponent):
    cumulative = np.cumsum(1 / np.arange(1, keys + 1) ** exponent)
    return np.searchsorted(cumulative, np.random.default_rng(0).random(size) * cumulative[-1])


class Inputs:
    """The streams, made once."""

    def __init__(self):
        self.integers = np.random.default_rng(0).integers(0, 2**62, ITEMS)
        self.strings = pa.array(self.integers % 1_000_000).cast(pa.string())
        random = np.random.default_rng(1)
        lengths = random.integers(3, 12, 100_000)
        words = ["".join(map(chr, random.integers(97, 123, length))) for length in lengths]
        self.words = pa.array(words).take(pa.array(random.integers(0, len(words), ITEMS)))
        self.urls = pa.array([f"https://example.org/page/{x:015x}" for x in self.integers >> 2])
        self.few_integers = self.integers[:FEW].tolist()
        self.few_strings = self.strings[:FEW].to_pylist()


def looped(update, values):
    def work():
        for value in values:
            update(value)

    return work


def row(name, work, ceiling, *, target=None, peers=None, runs=7):
    """One figure: the ceiling first, then ours right after it."""
    limit = ceiling()
    ours = rate(work, ITEMS, runs)
    return dict(name=name, target=target, ours=ours, ceiling=limit, peers=peers or {})


def counters(data):
    """Count-Min and count sketch, 4 x 2**18."""

    def access():
        return CEILING.increments(WIDTH, np.int32) / DEPTH

    def read(rows=DEPTH):
        return CEILING.reads(WIDTH, np.int32) / rows

    def datasketches(values):
        from datasketches import count_min_sketch

        return looped(count_min_sketch(DEPTH, WIDTH).update, values)

    def bounter(values):
        from bounter import CountMinSketch

        sketch = CountMinSketch(width=WIDTH, depth=DEPTH)
        return lambda: sketch.update(values)

    peers = {"datasketches": peer(lambda: datasketches(data.few_integers), FEW)}
    text_peers = {
        "datasketches": peer(lambda: datasketches(data.few_strings), FEW),
        "bounter": peer(lambda: bounter(data.few_strings), FEW),
    }
    for kind in (CountMin, CountSketch):
        some, words, name = kind(WIDTH, DEPTH), kind(WIDTH, DEPTH), kind.__name__

        def update(sketch=some):
            sketch.update(data.integers)

        def update_text(sketch=words):
            sketch.update(data.strings)

        def estimate(sketch=some):
            sketch.estimate(data.integers)

        yield row(f"{name} update int", update, access, target=70, peers=peers)
        yield row(f"{name} update Arrow string", update_text, access, target=60, peers=text_peers)
        yield row(f"{name} estimate int", estimate, read, target=60)
    median = CountSketch(WIDTH, 5, combine="median").update(data.integers)
    name = "CountSketch 5 rows, estimate by median"
    yield row(name, lambda: median.estimate(data.integers), lambda: read(5))
    for cells in ("compact", "conservative", "logarithmic"):
        sketch = CountMin(WIDTH, DEPTH, cells=cells)
        name = f"CountMin update int, {cells} cells"
        yield row(name, lambda s=sketch: s.update(data.integers), access, runs=3)


def bloom(data):
    """Bloom filters of 10 million keys at 1 %, and of 1 million; k = 7 when plain."""

    def rbloom():
        from rbloom import Bloom

        return Bloom(ITEMS, 0.01)

    def lookups():
        filled = rbloom()
        filled.update(data.few_integers)
        return looped(filled.__contains__, data.few_integers)

    added = {"rbloom": peer(lambda: functools.partial(rbloom().update, data.few_integers), FEW)}
    queries = {"rbloom": peer(lookups, FEW)}
    for layout, keys in (("plain", ITEMS), ("blocked", ITEMS), ("plain", FEW), ("blocked", FEW)):
        sketch = BloomFilter.from_capacity(keys, 0.01, layout=layout)
        touched, words = sketch.hashes if layout == "plain" else 1, sketch.nbytes // 8
        name = f"Bloom {layout} k={sketch.hashes}, {keys // FEW} M keys"

        def access(words=words, touched=touched):
            return CEILING.increments(words, np.uint64) / touched

        def read(words=words, touched=touched):
            return CEILING.reads(words, np.uint64) / touched

        def add(sketch=sketch):
            sketch.update(data.integers)

        def query(sketch=sketch):
            sketch.contains(data.integers)

        yield row(f"{name} add", add, access, target=40, peers=added)
        yield row(f"{name} query", query, read, target=40, peers=queries)
    counting = CountingBloomFilter.from_capacity(ITEMS, 0.01)
    cells, k = counting.nbytes, counting.hashes
    name, add = f"CountingBloom k={k} add", lambda: counting.update(data.integers)
    yield row(name, add, lambda: CEILING.increments(cells, np.uint8) / k, runs=3)


def databases(column):
    """Approximate numbers of distinct values of a column in polars and DuckDB, one thread each."""

    def polars():
        import polars

        series = polars.from_arrow(pa.array(column))
        assert polars.thread_pool_size() == 1
        return series.approx_n_unique

    def duckdb():
        import duckdb

        connection = duckdb.connect()
        connection.execute("SET threads=1")
        connection.register("keys", pa.table({"k": pa.array(column)}))
        query = "SELECT approx_count_distinct(k) FROM keys"
        return lambda: connection.execute(query).fetchone()

    return {"polars": peer(polars, ITEMS), "DuckDB": peer(duckdb, ITEMS)}


def hll(data):
    """HyperLogLog, 2**14 registers, and the hash alone."""

    def datasketches():
        from datasketches import hll_sketch

        return looped(hll_sketch(14).update, data.few_integers)

    def xxhash():
        from xxhash import xxh64_intdigest

        return looped(xxh64_intdigest, [text.encode() for text in data.few_strings])

    def reading_text():
        return CEILING.stream(data.strings.nbytes / ITEMS)

    beside = {"datasketches": peer(datasketches, FEW)} | databases(data.integers)
    some = HyperLogLog(14)
    name, update = "HyperLogLog update int", lambda: some.update(data.integers)
    yield row(name, update, CEILING.stream, target=500, peers=beside)
    texts = {"digits as text": data.strings, "words": data.words, "40-byte URLs": data.urls}
    for name, column in texts.items():
        sketch = HyperLogLog(14)

        def read(column=column):
            return CEILING.stream(column.nbytes / ITEMS)

        work = functools.partial(sketch.update, column)
        yield row(f"HyperLogLog update {name}", work, read, peers=databases(column))
    yield row("hash of integers", lambda: hash_column(data.integers), CEILING.stream)
    beside = {"xxhash": peer(xxhash, FEW)}
    name = "XXH64 of Arrow strings"
    yield row(name, lambda: hash_column(data.strings), reading_text, peers=beside)


def minhash(data):
    """MinHash, 128 values, flat tokens with row offsets."""
    small = 200_000

    def datasketch():
        from datasketch import MinHash as Peer

        few = [value.to_bytes(8, "little") for value in data.few_integers[:small]]
        return lambda: [Peer(128).update_batch(few[a : a + 1000]) for a in range(0, small, 1000)]

    def rensa(size):
        from rensa import RMinHash

        flat = (data.integers[:FEW] % 2**32).astype(np.uint64)
        offsets = np.arange(0, FEW + 1, size, dtype=np.uint64)
        return lambda: RMinHash.digest_matrix_from_flat_token_hashes(flat, offsets, 128, 1)

    slow = {"datasketch": peer(datasketch, small)}
    for kind, sizes in (
        ("permutations", {1000: 140, 20: None}),
        ("one-permutation", {1000: 250, 200: 130, 20: 30}),
    ):
        sketch = MinHash(128, kind=kind)
        for size, target in sizes.items():
            offsets = np.arange(0, ITEMS + 1, size)
            beside = {"rensa, tokens hashed": peer(lambda n=size: rensa(n), FEW)} | slow
            work = functools.partial(sketch.signatures, data.integers, offsets)
            name = f"MinHash-128 {kind}, {size} a set"
            yield row(name, work, CEILING.stream, target=target, peers=beside)


def accuracy(_):
    """Mean relative error over all keys in 1 MiB: Zipf(1.1), 10 million items."""
    stream = zipf(ITEMS, ITEMS, 1.1)
    keys, counts = np.unique(stream, return_counts=True)

    def error(estimates):
        return float((np.abs(np.asarray(estimates) - counts) / counts).mean())

    def bounter():
        from bounter import CountMinSketch

        sketch = CountMinSketch(width=2**17, depth=8, log_counting=8)
        names = [str(key) for key in keys]
        for a in range(0, ITEMS, FEW):
            sketch.update(map(str, stream[a : a + FEW].tolist()))
        return error([sketch[name] for name in names])

    try:
        peers = {"bounter log8": bounter()}
    except ImportError as missing:
        peers = {"bounter log8": f"missing: {missing}"}
    for label, target, sketch, beside in (
        ("CountMin plain 4 x 65536", None, CountMin(65536), {}),
        ("CountSketch median 3 x 87381", 9, CountSketch(87381, 3, combine="median"), {}),
        ("CountMin compact 4 x 233008", 9, CountMin(233008, cells="compact"), {}),
        ("CountMin compact 2 x 466024", 9, CountMin(466024, 2, cells="compact"), {}),
        ("CountMin conservative 4 x 65536", None, CountMin(65536, cells="conservative"), {}),
        ("CountMin logarithmic 4 x 262136", 7.4, CountMin(262136, cells="logarithmic"), peers),
    ):
        assert sketch.nbytes <= 2**20
        value = error(sketch.update(stream).estimate(keys))
        merging = sketch.merging.kind
        print(
            f"error in 1 MiB  {label:<34}{value:8.2f}  target {target}  merge {merging}  {beside}"
        )
        yield dict(name=label, target=target, error=value, merge=merging, peers=beside)
    zero = error(np.zeros(keys.size))
    print(f"error in 1 MiB  {'answering 0 (baseline)':<34}{zero:8.2f}")
    yield dict(name="answering 0 (baseline)", error=zero)


def seconds_of(command, runs=6):
    """What a command prints, or else the seconds it takes: median, lowest, highest; warm."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        taken = time.perf_counter() - start
        times.append(float(out) if out.strip().replace(".", "").isdigit() else taken)
    times = sorted(times[1:])
    return dict(seconds=times[len(times) // 2], low=times[0], high=times[-1])


def first_call(_):
    """Seconds of the first update in a new process, kernels cached; of import and of --help."""
    for name in ("CountMin(2**18)", "HyperLogLog()", "BloomFilter(2**20)", "MinHash()"):
        code = (
            "import time; from sfumato.sketch import *; import numpy as np; k = np.arange(1000)\n"
            f"s = {name}; start = time.perf_counter(); s.update(k)\n"
            "print(time.perf_counter() - start)"
        )
        yield result(f"first update of {name}", 0.4, seconds_of([sys.executable, "-c", code]))
    clock = "import time; start = time.perf_counter(); import sfumato; "
    clock += "print(time.perf_counter() - start)"
    yield result("import sfumato", 0.4, seconds_of([sys.executable, "-c", clock]))
    command = [str(Path(sys.executable).with_name("sfumato")), "--help"]
    yield result("sfumato --help, the whole process", 0.5, seconds_of(command))


def result(name, target, found):
    spread = f"({found['low']:.3f}-{found['high']:.3f})"
    print(f"{name:<44}{found['seconds']:9.3f} s {spread}  target {target}")
    return dict(name=name, target=target, **found)


SPEED = {"counters": counters, "bloom": bloom, "hll": hll, "minhash": minhash}
OTHER = {"accuracy": accuracy, "first_call": first_call}


def main(chosen):
    start = time.perf_counter()
    data = Inputs()
    wanted = chosen or [*SPEED, *OTHER]
    rounds = {name: [] for name in SPEED if name in wanted}
    for _ in range(ROUNDS):
        for name, done in rounds.items():
            done.append([show(row) for row in SPEED[name](data)])
    print("all rounds together")
    results = {name: [show(row) for row in together(done)] for name, done in rounds.items()}
    results |= {name: list(OTHER[name](data)) for name in OTHER if name in wanted}
    print(f"{time.perf_counter() - start:.0f} s")
    if not chosen:
        write("sketches", results)


if __name__ == "__main__":
    main(sys.argv[1:])
