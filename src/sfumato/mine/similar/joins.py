"""Similarity joins: all pairs of rows within a threshold, for five measures of similarity."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sfumato.core.arrays import rows as as_rows
from sfumato.core.validation import between, fraction, integer, one_of, positive
from sfumato.kernels.mine.similar import edit_distance as kernels
from sfumato.mine.similar.banding import THRESHOLD
from sfumato.mine.similar.candidates import BandJoin
from sfumato.mine.similar.duplicate_search import set_pairs
from sfumato.mine.similar.pair_output import PAIRS, PairOutput
from sfumato.mine.similar.row_distances import code_points, hashed_sets, vector_distances
from sfumato.mine.similar.set_source import GivenSets
from sfumato.mine.similar.texts import Texts
from sfumato.retrieve.lsh.amplification import bands_and_rows
from sfumato.retrieve.lsh.buckets import coefficients
from sfumato.retrieve.lsh.hash_families import Bands, HashFamily, Hyperplanes, RandomLines
from sfumato.sketch.base import SEED

__all__ = ["similarity_join"]

OWNER = "similarity_join"
JOINS = ("jaccard", "cosine", "euclidean", "hamming", "edit")
MOST_BANDS = 64
PERMUTATIONS = 128
CELL_WIDTH = 4.0  # of a random line, in thresholds
NUMBERS = 1 << 23  # projections, coordinates or keys at a time
BITS = 16  # of a block of positions from which equal blocks are rare by chance
REMEDY = "give output= a Parquet path, raise max_pairs, or choose a stricter threshold."

Chunks = Iterator[tuple[np.ndarray, np.ndarray]]
Measure = Callable[[np.ndarray, np.ndarray], np.ndarray]


def similarity_join(
    rows: Any,
    threshold: float,
    metric: str = "cosine",
    *,
    recall: float = 0.99,
    max_pairs: int = 10_000_000,
    output: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> Any:
    """Find all pairs of rows that are similar, without comparing all pairs.

    Parameters
    ----------
    rows : array_like
        Rows of numbers for "cosine" and "euclidean", of integers or bits for "hamming"; lists of
        tokens or a `ShingleSets` for "jaccard"; texts for "edit".
    threshold : float
        For "jaccard" and "cosine" the similarity from which a pair is reported: above 0 and at most
        1, and a cosine from -1 to below 1. For the others the distance up to which it is: above 0
        for "euclidean", an integer from 0 up for "hamming" and "edit".
    metric : {"jaccard", "cosine", "euclidean", "hamming", "edit"}, default="cosine"
        The measure. "edit" counts insertions, deletions and replacements of characters.
    recall : float, default=0.99
        Probability with which a pair at the threshold is found, between 0 and 1.
    max_pairs : int, default=10000000
        Most pairs in memory, 24 bytes each. More go to a temporary Parquet file, with a warning;
        ValueError if the disk is too small for them.
    output : path_like or None, default=None
        Parquet file to write the pairs to as they are found, in no order.
    seed : int, default=0
        Seed of the hash functions.

    Returns
    -------
    pyarrow.Table or pyarrow.dataset.Dataset
        Columns first, second (row numbers, first < second) and similarity (jaccard, cosine) or
        distance, sorted; its metadata states the recall of the method. With `output`, or with more
        than `max_pairs`, the data set of the file, not sorted.

    Notes
    -----
    **Guarantee.** Every pair is verified by its exact value. A pair at or within the threshold is
    found with probability at least `recall`. "edit" finds all pairs, and so does "hamming" if
    16 or more bits are left in a row cut into threshold + 1 blocks; the metadata then states a
    recall of 1.0. A row of zeros has no direction and an empty set no similarity: they are in no
    pair of "cosine" or "jaccard". A missing text is an empty one for "edit".

    Candidates come from bands of random hyperplanes (cosine), of cells on random lines (Euclid), of
    MinHash signatures (Jaccard), from equal blocks or sampled positions (Hamming), and from equal
    segments (edit distance).

    References
    ----------
    .. [1] Charikar. "Similarity estimation techniques from rounding algorithms". STOC 2002.
       https://doi.org/10.1145/509907.509965
    .. [2] Datar, Immorlica, Indyk, Mirrokni. "Locality-sensitive hashing scheme based on p-stable
       distributions". SoCG 2004. https://doi.org/10.1145/997817.997857
    .. [3] Li, Deng, Wang, Feng. "Pass-Join: a partition-based method for similarity joins". VLDB
       2011 ("edit"). https://doi.org/10.14778/2078331.2078340

    Examples
    --------
    >>> similarity_join(["kitten", "sitting", "mitten"], 1, "edit").to_pylist()
    [{'first': 0, 'second': 2, 'distance': 1.0}]
    >>> similarity_join([[1, 0], [1, 0.1], [0, 1]], 0.9, "cosine")["second"].to_pylist()
    [1]
    """
    metric = one_of(JOINS).check(OWNER, "metric", metric)
    recall = fraction.check(OWNER, "recall", recall)
    seed = SEED.check(OWNER, "seed", seed)
    PAIRS.check(OWNER, "max_pairs", max_pairs)
    if metric == "jaccard":
        sizes = THRESHOLD.check(OWNER, "threshold", threshold), PERMUTATIONS, recall
        return set_pairs(OWNER, GivenSets(hashed_sets(OWNER, rows)), sizes, True, max_pairs, output)
    plan = {"cosine": _cosine, "euclidean": _euclidean, "hamming": _hamming, "edit": _edit}[metric]
    chunks, measure, within, recall = plan(rows, threshold, recall, seed)
    value = "similarity" if metric == "cosine" else "distance"
    with PairOutput(OWNER, value, max_pairs, output, REMEDY) as found:
        for first, second in chunks:
            values = measure(first, second)
            passed = values >= within if metric == "cosine" else values <= within
            if passed.any():
                found.add(first[passed], second[passed], values[passed])
    return found.result({"metric": metric, "threshold": within, "recall": recall})


Plan = tuple[Chunks, Measure, float, float]


def _cosine(rows: Any, threshold: Any, recall: float, seed: int) -> Plan:
    X = as_rows(OWNER, rows)
    least = between(-1, 1).check(OWNER, "threshold", threshold)
    filled = np.flatnonzero((X != 0).any(axis=1))
    agree = Hyperplanes.agree(least)
    if agree <= 0:
        raise ValueError(f"{OWNER}: threshold must be above -1 for cosines, not {threshold!r}.")
    shape = bands_and_rows(agree, recall, MOST_BANDS)

    def measure(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        angles = _measured(X, first, second, "cosine")
        return np.asarray(np.cos(np.pi * angles))

    family = Hyperplanes(shape, X.shape[1], seed)
    return _banded(X, filled, family, shape, seed), measure, least, recall


def _euclidean(rows: Any, threshold: Any, recall: float, seed: int) -> Plan:
    X = as_rows(OWNER, rows)
    most = positive.check(OWNER, "threshold", threshold)
    width = CELL_WIDTH * most
    shape = bands_and_rows(RandomLines.agree(most, width), recall, MOST_BANDS)

    def measure(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return _measured(X, first, second, "euclidean")

    family = RandomLines(shape, X.shape[1], seed, width)
    return _banded(X, np.arange(len(X)), family, shape, seed), measure, most, recall


def _hamming(rows: Any, threshold: Any, recall: float, seed: int) -> Plan:
    X = as_rows(OWNER, rows)
    if (np.rint(X) != X).any():
        raise ValueError(f'{OWNER}: rows must be integers or bits for "hamming".')
    columns = X.shape[1] if len(X) else 2**16  # of no rows, their number is not known
    most = integer(0, max(columns - 1, 0)).check(OWNER, "threshold", threshold)
    _, codes = np.unique(X, return_inverse=True)
    codes = codes.reshape(X.shape).astype(np.int64)
    bits = np.log2(max(codes.max(initial=0), 1) + 1)
    if X.shape[1] // (most + 1) * bits >= BITS or most == 0 or not len(X):
        blocks, recall = np.array_split(np.arange(X.shape[1]), most + 1), 1.0
    else:
        bands, sampled = bands_and_rows(1 - most / X.shape[1], recall, MOST_BANDS)
        draws = np.random.default_rng(seed).integers(X.shape[1], size=(bands, sampled))
        blocks = list(draws)
    keys = np.empty((len(X), len(blocks)), np.uint64)
    for t, block in enumerate(blocks):
        weights = coefficients(1, block.size, seed + t)[0]
        keys[:, t] = (codes[:, block].astype(np.uint64) * weights).sum(axis=1, dtype=np.uint64)

    def measure(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return _measured(codes, first, second, "hamming")

    return _pairs(keys, np.arange(len(X))), measure, float(most), recall


def _edit(rows: Any, threshold: Any, recall: float, seed: int) -> Plan:
    points, bounds = code_points(Texts(OWNER, rows))
    most = integer(0, 2**16).check(OWNER, "threshold", threshold)

    def measure(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        out = np.empty(first.size, np.int64)
        kernels.distances(points, bounds, first, second, most, out)
        return out.astype(np.float64)

    return _segment_pairs(points, bounds, most + 1), measure, float(most), 1.0


def _banded(
    X: np.ndarray, rows: np.ndarray, family: HashFamily, shape: tuple[int, int], seed: int
) -> Chunks:
    """Pairs of rows that share a band of hashes."""
    bands = Bands(family, *shape, seed)
    keys = np.empty((len(X), shape[0]), np.uint64)
    step = max(1, NUMBERS // (shape[0] * shape[1]))
    for start in range(0, len(X), step):
        keys[start : start + step] = bands.keys(X[start : start + step])
    return _pairs(keys, rows)


def _pairs(keys: np.ndarray, rows: np.ndarray) -> Chunks:
    return BandJoin(keys, rows, np.empty((len(keys), 0), np.uint32), 0).chunks()


def _measured(X: np.ndarray, first: np.ndarray, second: np.ndarray, metric: str) -> np.ndarray:
    """Distances of pairs of rows, some pairs at a time."""
    out, step = np.empty(first.size), max(1, NUMBERS // max(X.shape[1], 1))
    for start in range(0, first.size, step):
        part = slice(start, start + step)
        out[part] = vector_distances(X[first[part]], X[second[part]], metric)
    return out


def _segment_pairs(points: np.ndarray, bounds: np.ndarray, segments: int) -> Chunks:
    """Pairs of texts of which one has a segment of the other, a block of texts at a time."""
    count = bounds.size - 1
    keys, marks = np.empty((count, segments), np.uint64), np.empty(count, np.uint64)
    kernels.segment_keys(points, bounds, segments, keys)
    kernels.letters(points, bounds, marks)
    order = np.argsort(keys, axis=None, kind="stable")
    index = keys.reshape(-1)[order], order // segments
    start, step = 0, 1 << 14
    while start < count:
        rows = np.arange(start, min(start + step, count))
        found = _matched(points, bounds, rows, segments, *index, marks)
        if found is None:
            step = max(1, step // 2)
            continue
        yield found
        start += rows.size


def _matched(
    points: np.ndarray,
    bounds: np.ndarray,
    rows: np.ndarray,
    segments: int,
    sorted_keys: np.ndarray,
    owners: np.ndarray,
    marks: np.ndarray,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Pairs of some texts with all others; None if there are too many keys or pairs at a time."""
    ends, several = np.empty(rows.size + 1, np.int64), rows.size > 1
    texts = points, bounds, rows, segments
    size = kernels.substring_keys(*texts, np.empty(0, np.uint64), ends)
    if size > NUMBERS and several:
        return None
    keys = np.empty(size, np.uint64)
    kernels.substring_keys(*texts, keys, ends)
    index = sorted_keys, owners, keys, ends, rows, bounds, marks, segments - 1
    first, second = np.empty((2, NUMBERS // 8), np.int64)
    total = kernels.segment_matches(*index, first, second)
    if total > NUMBERS and several:
        return None
    if total > first.size:
        first, second = np.empty((2, total), np.int64)
        kernels.segment_matches(*index, first, second)
    return first[:total], second[:total]
