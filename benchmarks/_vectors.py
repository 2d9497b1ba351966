"""The vectors of the retrieval benchmarks: base, queries to choose on, queries to report, truth."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
from _descriptors import descriptors
from _ratings import folder

NEAREST = 100
CHOOSING, REPORTED = 2_000, 4_000


@dataclass(frozen=True)
class Vectors:
    """Unit vectors; `choosing` and `reported` are queries with the rows of their true neighbours.

    Choices (flips, bits, short-lists) are made on `choosing`; tables show `reported` alone.
    """

    label: str
    base: np.ndarray
    choosing: tuple[np.ndarray, np.ndarray]
    reported: tuple[np.ndarray, np.ndarray]


def unit(vectors):
    """Rows of length one, float32."""
    return np.ascontiguousarray(
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32
    )


def retained():
    """Where made vectors are kept for the next run: SFUMATO_VECTORS, or a temporary folder."""
    path = Path(os.environ.get("SFUMATO_VECTORS", Path(tempfile.gettempdir()) / "sfumato-vectors"))
    path.mkdir(parents=True, exist_ok=True)
    return path


def sift_like(count=1_000_000):
    """SIFT-like descriptors of generated images; the queries come from other images."""
    base = unit(descriptors(count, seed=1, folder=retained()))
    queries = unit(descriptors(CHOOSING + REPORTED, seed=7, folder=retained()))
    return _split(f"SIFT-like, {count:,} x 128", base, queries)


def glove():
    """GloVe words of 50 numbers, 6,000 of them held out as queries; None without the folder."""
    path = folder() / "glove" / "glove_6B_50d_top100k.npz"
    if not path.exists():
        return None
    words = unit(np.load(path)["vectors"])
    out = np.random.default_rng(0).permutation(len(words))
    held = CHOOSING + REPORTED
    return _split(f"GloVe, {len(words) - held:,} x 50", words[out[held:]], words[out[:held]])


def small_sets():
    """Sets of at most 30,000 vectors; the last are words whose vectors share a large mean."""
    made = descriptors(30_000, seed=1, folder=retained())
    yield _held_out("SIFT-like", made)
    features = folder() / "adbench" / "24_mnist.npz"
    if features.exists():
        yield _held_out("MNIST features", np.load(features)["X"])
    words = folder() / "glove" / "glove_6B_50d_top100k.npz"
    if words.exists():
        vectors = np.load(words)["vectors"][:30_000]
        yield _held_out("GloVe", vectors)
        yield _held_out("GloVe + 5", vectors + 5)


def _held_out(name, vectors, held=1_000):
    """Vectors of which some are queries to report, and none are chosen on."""
    units = unit(vectors)[np.random.default_rng(1).permutation(len(vectors))]
    base, queries = units[held:].copy(), units[:held].copy()
    truth = exact(base, queries)
    label = f"{name}, {len(base):,} x {base.shape[1]}"
    return Vectors(label, base, (queries[:0], truth[:0]), (queries, truth))


def _split(label, base, queries):
    base, queries = np.ascontiguousarray(base), np.ascontiguousarray(queries)
    truth = exact(base, queries)
    first, last = slice(0, CHOOSING), slice(CHOOSING, None)
    return Vectors(label, base, (queries[first], truth[first]), (queries[last], truth[last]))


def exact(base, queries):
    """The rows of the nearest by cosine, from faiss' exhaustive index."""
    index = faiss.IndexFlatIP(base.shape[1])
    index.add(base)
    return index.search(queries, NEAREST)[1]


def recalls(found, truth):
    """R@1, R@10, R@100: the nearest among the first R; 10@10: of the ten nearest, those found."""
    first = (found == truth[:, :1]).argmax(axis=1)
    first[~(found == truth[:, :1]).any(axis=1)] = NEAREST
    result = {f"R@{r}": float((first < r).mean()) for r in (1, 10, 100)}
    both = [np.intersect1d(a[:10], b[:10]).size for a, b in zip(found, truth, strict=True)]
    return {**result, "10@10": float(np.mean(both)) / 10}
