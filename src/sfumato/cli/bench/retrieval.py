"""Benchmarks of search: binary codes, and released profiles."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sfumato.cli.bench.contest import Case, Contest, Work
from sfumato.data import Interactions
from sfumato.kernels.retrieve import hamming_scan
from sfumato.privacy.noise import InsecureSeededSource
from sfumato.profile import Blip
from sfumato.retrieve import BinaryIndex
from sfumato.retrieve.binary.store import Panels

__all__ = ["CASES"]

BITS, N = 256, 10
DIMENSION, QUERIES = 128, 32  # of vectors; queries come one at a time
TRAINING = 10_000  # vectors that codes are fitted to
ITEMS, CODE, EPSILON = 8, 1024, 16.0  # of a profile


def codes(size: int) -> Contest:
    """The ten nearest codes of random ones, by Hamming distance, with their mean distance."""
    random = np.random.default_rng(0)
    packed = random.integers(0, 2**64, (size, BITS // 64), dtype=np.uint64)
    queries = random.integers(0, 2**64, (QUERIES, BITS // 64), dtype=np.uint64)
    panels = Panels(BITS // 64)
    panels.append(packed)

    def faiss() -> Work:
        import faiss

        flat = faiss.IndexBinaryFlat(BITS)
        flat.add(packed.view(np.uint8))
        run = partial(_each, lambda row: flat.search(row.view(np.uint8), N)[0], queries)
        return Work(run, QUERIES * size, np.mean)

    def plain() -> Work:
        def nearest(row: np.ndarray) -> np.ndarray:
            differ = np.bitwise_count(packed ^ row).sum(axis=1, dtype=np.int32)
            return np.partition(differ, N - 1)[:N]

        return Work(partial(_each, nearest, queries), QUERIES * size, np.mean)

    def ours(row: np.ndarray) -> np.ndarray:
        found = hamming_scan.hamming_nearest(panels.blocks, panels.count, None, row, N)
        return np.asarray(found[1])

    contest = Work(partial(_each, ours, queries), QUERIES * size, np.mean)
    return Contest(contest, {"faiss": faiss, "NumPy": plain}, Work(packed.sum, size))


def vectors(size: int) -> Contest:
    """The ten nearest of clustered vectors by cosine, with the share of them that is found."""
    random = np.random.default_rng(1)
    centres = random.normal(size=(200, DIMENSION))
    made = centres[random.integers(200, size=size + QUERIES)]
    made = (made + random.normal(0, 0.7, made.shape)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    stored, queries = made[:size], made[size:]
    truth = [np.argpartition(-(stored @ query), N)[:N] for query in queries]

    def recall(found: list[Any]) -> float:
        pairs = zip(found, truth, strict=True)
        return float(np.mean([np.isin(true, each).mean() for each, true in pairs]))

    def faiss(exact: bool) -> Work:
        import faiss

        index = faiss.IndexFlatIP(DIMENSION) if exact else faiss.IndexLSH(DIMENSION, BITS)
        index.add(stored)
        return Work(partial(_each, lambda row: index.search(row, N)[1], queries), QUERIES, recall)

    def plain() -> Work:
        def nearest(row: np.ndarray) -> np.ndarray:
            return np.argpartition(-(stored @ row[0]), N)[:N]

        return Work(partial(_each, nearest, queries), QUERIES, recall)

    index = BinaryIndex(BITS).fit(stored[:TRAINING]).add(np.arange(size), stored)
    ours = Work(partial(_each, lambda row: index.search(row, N)[1], queries), QUERIES, recall)
    peers: dict[str, Callable[[], Work]] = {
        "faiss, sign codes of as many bits": partial(faiss, False),
        "faiss, exact": partial(faiss, True),
        "NumPy, exact": plain,
    }
    return Contest(ours, peers)


def _each(search: Any, rows: np.ndarray) -> list[Any]:
    return [search(rows[at : at + 1]) for at in range(len(rows))]


def profiles(size: int) -> Contest:
    """The ten nearest released profiles of one user."""
    draws = np.random.default_rng(1)
    users = np.repeat(np.arange(size), ITEMS)
    items = (draws.pareto(1, users.size) * 50).astype(np.int64) % 20_000
    blip = Blip(epsilon=EPSILON, bits=CODE, hashes=4)
    released = blip.release(
        Interactions(users, items, np.ones(users.size)),
        users=np.arange(size),
        source=InsecureSeededSource(1),
    )
    words = released.words

    def faiss() -> Work:
        import faiss

        index = faiss.IndexBinaryFlat(CODE)
        index.add(words.view(np.uint8))
        return Work(lambda: index.search(words[:1].view(np.uint8), N), size)

    def plain() -> Work:
        def nearest() -> np.ndarray:
            both = np.bitwise_count(words & words[0]).sum(axis=1, dtype=np.int32)
            return np.argpartition(-both, N)[:N]

        return Work(nearest, size)

    ours = Work(lambda: released.nearest(0, N), size)
    return Contest(ours, {"faiss": faiss, "NumPy": plain}, Work(words.sum, size))


CASES = (
    Case(
        "retrieve/codes",
        f"ten nearest codes of {BITS} bits, one query at a time",
        "codes",
        codes,
        1_000_000,
        200_000,
        "mean distance",
        "reading the codes once (NumPy)",
    ),
    Case(
        "retrieve/vectors",
        f"ten nearest vectors of {DIMENSION} numbers by codes of {BITS} bits",
        "queries",
        vectors,
        200_000,
        50_000,
        f"share of the {N} found",
    ),
    Case(
        "profile/nearest",
        f"ten nearest released profiles of {CODE} bits",
        "profiles",
        profiles,
        500_000,
        50_000,
        "",
        "reading the profiles once (NumPy)",
    ),
)
