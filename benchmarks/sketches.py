"""Speed and error of the sketches beside their peers: one process, one thread, 10 million items.

    python benchmarks/sketches.py            everything, writes benchmarks/results/sketches.json
    python benchmarks/sketches.py bloom hll  only these groups, writes nothing

Figures are million items a second, median (lowest-highest) of warm runs. The ceiling is the same
number of random accesses with positions given (or, where a sketch fits the first cache, one reading
of the input), measured in the same process.
"""

import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
from _measure import Ceilings, peer, rate, show, write

from sfumato.hashing import hash_column
from sfumato.sketch import (
    BloomFilter,
    CountingBloomFilter,
    CountMin,
    CountSketch,
    HyperLogLog,
)

ITEMS, FEW = 10_000_000, 1_000_000
WIDTH, DEPTH = 2**18, 4
CEILING = Ceilings()


def zipf(size, keys, exponent):
    cumulative = np.cumsum(1 / np.arange(1, keys + 1) ** exponent)
    return np.searchsorted(cumulative, np.random.default_rng(0).random(size) * cumulative[-1])


class Inputs:
    """The streams, made once."""

    def __init__(self):
        self.integers = np.random.default_rng(0).integers(0, 2**62, ITEMS)
        self.strings = pa.array(self.integers % 1_000_000).cast(pa.string())
        self.few_integers = self.integers[:FEW].tolist()
        self.few_strings = self.strings[:FEW].to_pylist()


def looped(update, values):
    def work():
        for value in values:
            update(value)

    return work


def counters(data):
    """Count-Min and count sketch, 4 x 2**18."""
    access = CEILING.increments(WIDTH, np.int32) / DEPTH
    read = CEILING.reads(WIDTH, np.int32) / DEPTH

    def datasketches(values):
        from datasketches import count_min_sketch

        return looped(count_min_sketch(DEPTH, WIDTH).update, values)

    def bounter(values):
        from bounter import CountMinSketch

        sketch = CountMinSketch(width=WIDTH, depth=DEPTH)
        return lambda: sketch.update(values)

    peers = {
        "datasketches": peer(lambda: datasketches(data.few_integers), FEW),
    }
    text_peers = {
        "datasketches": peer(lambda: datasketches(data.few_strings), FEW),
        "bounter": peer(lambda: bounter(data.few_strings), FEW),
    }
    for kind in (CountMin, CountSketch):
        sketch, words, name = kind(WIDTH, DEPTH), kind(WIDTH, DEPTH), kind.__name__
        cases = [
            ("update int", lambda s=sketch: s.update(data.integers), 70, access, peers),
            (
                "update Arrow string",
                lambda s=words: s.update(data.strings),
                60,
                access,
                text_peers,
            ),
            ("estimate int", lambda s=sketch: s.estimate(data.integers), 60, read, {}),
        ]
        for what, work, asked, ceiling, beside in cases:
            ours = rate(work, ITEMS)
            yield dict(name=f"{name} {what}", asked=asked, ours=ours, ceiling=ceiling, peers=beside)
    median = CountSketch(WIDTH, 5, combine="median").update(data.integers)
    ours = rate(lambda: median.estimate(data.integers), ITEMS)
    yield dict(name="CountSketch 5 rows, estimate by median", ours=ours, ceiling=read * 4 / 5)
    for cells in ("compact", "conservative", "logarithmic"):
        sketch = CountMin(WIDTH, DEPTH, cells=cells)
        ours = rate(lambda s=sketch: s.update(data.integers), ITEMS, runs=3)
        yield dict(name=f"CountMin update int, {cells} cells", ours=ours, ceiling=access)


def bloom(data):
    """Bloom filters of 10 million keys at 1 %: k = 7."""

    def rbloom():
        from rbloom import Bloom

        bloom = Bloom(ITEMS, 0.01)
        return bloom, lambda: bloom.update(data.few_integers)

    beside = {"rbloom": peer(lambda: rbloom()[1], FEW)}
    lookups = {
        "rbloom": peer(lambda: looped(rbloom()[0].__contains__, data.few_integers), FEW),
    }
    for layout in ("plain", "blocked"):
        sketch = BloomFilter.from_capacity(ITEMS, 0.01, layout=layout)
        touched = sketch.hashes if layout == "plain" else 1
        words = sketch.nbytes // 8
        label = f"Bloom {layout} k={sketch.hashes}"
        access = CEILING.increments(words, np.uint64) / touched
        read = CEILING.reads(words, np.uint64) / touched
        ours = rate(lambda s=sketch: s.update(data.integers), ITEMS)
        yield dict(name=f"{label} add", asked=40, ours=ours, ceiling=access, peers=beside)
        ours = rate(lambda s=sketch: s.contains(data.integers), ITEMS)
        yield dict(name=f"{label} query", asked=40, ours=ours, ceiling=read, peers=lookups)
    counting = CountingBloomFilter.from_capacity(ITEMS, 0.01)
    ours = rate(lambda: counting.update(data.integers), ITEMS, runs=3)
    yield dict(name="CountingBloom k=7 add", ours=ours)


def hll(data):
    """HyperLogLog, 2**14 registers, and the hash alone."""

    def datasketches():
        from datasketches import hll_sketch

        return looped(hll_sketch(14).update, data.few_integers)

    def xxhash():
        from xxhash import xxh64_intdigest

        return looped(xxh64_intdigest, [text.encode() for text in data.few_strings])

    beside = {"datasketches": peer(datasketches, FEW)}
    read = CEILING.stream()
    sketch = HyperLogLog(14)
    ours = rate(lambda: sketch.update(data.integers), ITEMS)
    yield dict(name="HyperLogLog update int", asked=500, ours=ours, ceiling=read, peers=beside)
    words = HyperLogLog(14)
    ours = rate(lambda: words.update(data.strings), ITEMS)
    yield dict(name="HyperLogLog update Arrow string", ours=ours, ceiling=CEILING.stream(10))
    ours = rate(lambda: hash_column(data.integers), ITEMS)
    yield dict(name="hash of integers", ours=ours, ceiling=read)
    ours = rate(lambda: hash_column(data.strings), ITEMS)
    beside = {"xxhash": peer(xxhash, FEW)}
    yield dict(name="XXH64 of Arrow strings", ours=ours, ceiling=CEILING.stream(10), peers=beside)


def minhash(data):
    from sfumato.sketch import MinHash

    """MinHash, 128 values, flat tokens with row offsets."""
    tokens = data.integers
    small = 200_000

    def datasketch():
        from datasketch import MinHash as Peer

        few = [value.to_bytes(8, "little") for value in data.few_integers[:small]]
        return lambda: [Peer(128).update_batch(few[a : a + 1000]) for a in range(0, small, 1000)]

    def rensa(size):
        from rensa import RMinHash

        flat = [value % 2**32 for value in data.few_integers]
        offsets = list(range(0, FEW + 1, size))
        return lambda: RMinHash.digest_matrix_from_flat_token_hashes(flat, offsets, 128, 1)

    for kind, sizes in (("permutations", {1000: 140}), ("one-permutation", {1000: 250, 200: 130})):
        sketch = MinHash(128, kind=kind)
        for size, asked in sizes.items():
            offsets = np.arange(0, ITEMS + 1, size)
            ours = rate(lambda s=sketch, o=offsets: s.signatures(tokens, o), ITEMS)
            beside = {"rensa": peer(lambda n=size: rensa(n), FEW)}
            if size == 1000:
                beside["datasketch"] = peer(datasketch, small)
            name = f"MinHash-128 {kind}, {size} a set"
            yield dict(name=name, asked=asked, ours=ours, ceiling=CEILING.stream(), peers=beside)


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
    for label, asked, sketch, beside in (
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
        print(f"error in 1 MiB  {label:<34}{value:8.2f}  asked {asked}  merge {merging}  {beside}")
        yield dict(name=label, asked=asked, error=value, merge=merging, peers=beside)
    zero = error(np.zeros(keys.size))
    print(f"error in 1 MiB  {'answering 0 (baseline)':<34}{zero:8.2f}")
    yield dict(name="answering 0 (baseline)", error=zero)


def first_call(_):
    """Seconds of the first update in a new process, its imports done, kernels cached."""
    for name in ("CountMin(2**18)", "HyperLogLog()", "BloomFilter(2**20)", "MinHash()"):
        code = (
            "import time; from sfumato.sketch import *; import numpy as np; k = np.arange(1000)\n"
            f"s = {name}; start = time.perf_counter(); s.update(k)\n"
            "print(time.perf_counter() - start)"
        )
        times = []
        for _run in range(6):
            out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
            times.append(float(out.stdout))
        seconds = sorted(times[1:])
        spread = f"({seconds[0]:.3f}-{seconds[-1]:.3f})"
        print(f"first call {name:<22}{seconds[2]:8.3f} s {spread}  asked 0.4")
        yield dict(name=name, asked=0.4, seconds=seconds[2], low=seconds[0], high=seconds[-1])


SPEED = {"counters": counters, "bloom": bloom, "hll": hll, "minhash": minhash}
OTHER = {"accuracy": accuracy, "first_call": first_call}


def main(chosen):
    start = time.perf_counter()
    data = Inputs()
    wanted = chosen or [*SPEED, *OTHER]
    results = {name: [show(row) for row in SPEED[name](data)] for name in SPEED if name in wanted}
    results |= {name: list(OTHER[name](data)) for name in OTHER if name in wanted}
    print(f"{time.perf_counter() - start:.0f} s")
    if not chosen:
        write("sketches", results)


if __name__ == "__main__":
    main(sys.argv[1:])
