"""Benchmarks of sketches: counts, distinct texts, membership, signatures of sets."""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.cli.bench.contest import Case, Contest, Work, looped
from sfumato.sketch import BloomFilter, CountMin, HyperLogLog, MinHash

__all__ = ["CASES"]

WIDTH, DEPTH = 1 << 18, 4
RATE = 0.01  # of false positives
MINIMA, TOKENS = 128, 200  # of a signature, of a set
SLOWER = 20  # what takes one key a call gets a twentieth of them


def counts(size: int) -> Contest:
    """Counts of integers, with the error of the estimates of the first thousand."""
    random = np.random.default_rng(0)
    keys = (random.pareto(1.1, size) * 1000).astype(np.int64)
    some = keys[:: size // 1000]
    truth = dict(zip(*np.unique(keys, return_counts=True), strict=True))

    def error(stream: np.ndarray, estimates: Any) -> float:
        counted = np.array([truth[key] for key in some]) * (stream.size / size)
        return float(np.mean(np.asarray(estimates) - counted) / stream.size)

    def datasketches() -> Work:
        from datasketches import count_min_sketch

        few = keys[: size // SLOWER]

        def estimates(_: Any) -> float:
            sketch = count_min_sketch(DEPTH, WIDTH)
            looped(sketch.update, few.tolist())()
            return error(few, [sketch.get_estimate(int(key)) for key in some])

        update = looped(count_min_sketch(DEPTH, WIDTH).update, few.tolist())
        return Work(update, few.size, estimates)

    def ours(_: Any) -> float:
        return error(keys, CountMin(WIDTH, DEPTH).update(keys).estimate(some))

    work = Work(partial(CountMin(WIDTH, DEPTH).update, keys), size, ours)
    return Contest(work, {"datasketches": datasketches}, _random_reads(DEPTH * WIDTH // 2, size))


def distinct(size: int) -> Contest:
    """The number of distinct words, with its relative error."""
    random = np.random.default_rng(1)
    drawn = random.integers(97, 123, (size // 20, 9), dtype=np.uint8).view("S9").ravel()
    words = pa.array(np.unique(drawn).astype(str), pa.string())
    column = words.take(pa.array(random.integers(0, len(words), size)))
    truth = len(column.unique())
    read = np.frombuffer(column.buffers()[2], np.uint8)
    whole = read[: read.size // 8 * 8].view(np.uint64)

    def error(found: Any) -> float:
        return abs(float(found) - truth) / truth

    def polars() -> Work:
        import polars

        return Work(polars.from_arrow(column).approx_n_unique, size, error)  # type: ignore[union-attr]

    def duckdb() -> Work:
        import duckdb

        connection = duckdb.connect()
        connection.execute("SET threads=1")
        connection.register("words", pa.table({"word": column}))
        query = "SELECT approx_count_distinct(word) FROM words"
        return Work(lambda: connection.execute(query).fetchall()[0][0], size, error)

    def datasketches() -> Work:
        from datasketches import hll_sketch

        few = column[: size // SLOWER].to_pylist()
        return Work(looped(hll_sketch(14).update, few), len(few))

    peers = {"polars": polars, "DuckDB": duckdb, "datasketches": datasketches}
    ours = Work(lambda: HyperLogLog(14).update(column).estimate(), size, error)
    return Contest(ours, peers, Work(whole.sum, size))


def bloom(size: int) -> Contest:
    """Keys added to a filter for as many, with the rate of false positives."""
    random = np.random.default_rng(2)
    keys, others = random.integers(0, 2**62, (2, size))
    filled = BloomFilter.from_capacity(size, RATE)

    def rbloom() -> Work:
        from rbloom import Bloom

        few = keys[: size // SLOWER].tolist()
        peer = Bloom(len(few), RATE)

        def rate(_: Any) -> float:
            return float(np.mean([key in peer for key in others[: len(few)].tolist()]))

        return Work(partial(peer.update, few), len(few), rate)

    def rate(_: Any) -> float:
        return float(np.mean(filled.contains(others)))

    ours = Work(partial(filled.update, keys), size, rate)
    return Contest(ours, {"rbloom": rbloom}, _random_reads(filled.nbytes // 8, size))


def _random_reads(words: int, size: int) -> Work:
    """One read of a random word of a table for each key."""
    slots = np.random.default_rng(4).integers(0, words, size)
    out = np.empty(size, np.uint64)
    return Work(partial(np.take, np.ones(words, np.uint64), slots, 0, out, "wrap"), size)


def min_hash(size: int) -> Contest:
    """Signatures of sets of 200 tokens, with the error of similarities that are a half."""
    random = np.random.default_rng(3)
    sets = random.integers(0, 2**32, (size // TOKENS // 2 * 2, TOKENS), dtype=np.uint64)
    shared = TOKENS * 2 // 3  # of both sets: shared / (2 * TOKENS - shared) = 1/2
    sets[1::2, :shared] = sets[::2, :shared]
    truth = shared / (2 * TOKENS - shared)
    flat, offsets = sets.ravel(), np.arange(len(sets) + 1) * TOKENS
    sketch = MinHash(MINIMA)

    def error(similarities: Any) -> float:
        return float(np.sqrt(np.mean((np.asarray(similarities) - truth) ** 2)))

    def alike(rows: np.ndarray) -> float:
        return error(np.mean(rows[::2] == rows[1::2], axis=1))

    def rensa() -> Work:
        from rensa import RMinHash

        digest = RMinHash.digest_matrix_from_flat_token_hashes
        run = partial(digest, flat, offsets.astype(np.uint64), MINIMA, 1)
        return Work(run, flat.size)

    def datasketch() -> Work:
        from datasketch import MinHash as Peer

        few = max(2, len(sets) // 500)
        tokens = [[token.tobytes() for token in row] for row in sets[:few]]

        def rows() -> np.ndarray:
            made = [Peer(MINIMA) for _ in tokens]
            for each, row in zip(made, tokens, strict=True):
                each.update_batch(row)
            return np.array([each.hashvalues for each in made])

        return Work(rows, few * TOKENS, alike)

    def compared(rows: Any) -> float:
        return error(sketch.similarities(rows[::2], rows[1::2]))

    ours = Work(partial(sketch.signatures, flat, offsets), flat.size, compared)
    return Contest(ours, {"rensa": rensa, "datasketch": datasketch}, Work(flat.sum, flat.size))


READING = "reading the input once (NumPy)"
A_READ = "one random read a key (NumPy)"
CASES = (
    Case(
        "sketch/count-min",
        "counts of integers in 4 x 2^18 cells",
        "keys",
        counts,
        10_000_000,
        4_000_000,
        "mean error over the stream",
        A_READ,
    ),
    Case(
        "sketch/distinct",
        "number of distinct words of a column",
        "words",
        distinct,
        10_000_000,
        2_000_000,
        "relative error",
        READING,
    ),
    Case(
        "sketch/bloom",
        "integers added to a filter at 1 %",
        "keys",
        bloom,
        10_000_000,
        2_000_000,
        "false positives",
        A_READ,
    ),
    Case(
        "sketch/min-hash",
        "signatures of 128 values of sets of 200 tokens",
        "tokens",
        min_hash,
        10_000_000,
        2_000_000,
        "error of similarity one half",
        READING,
    ),
)
