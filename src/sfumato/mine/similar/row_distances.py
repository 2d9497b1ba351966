"""Distances of corresponding rows of two columns: sets, vectors, codes and texts."""

from typing import Any

import numpy as np

from sfumato.core import arrow_compute as pc
from sfumato.core.arrays import rows as as_rows
from sfumato.core.hashing import hash_column
from sfumato.core.validation import one_of
from sfumato.kernels.mine.similar import edit_distance, shingles
from sfumato.mine.similar.set_source import GivenSets
from sfumato.mine.similar.shingling import ShingleSets
from sfumato.mine.similar.texts import Texts
from sfumato.sketch.similarity.token_sets import sets_of

__all__ = ["METRICS", "code_points", "distances", "hashed_sets", "vector_distances"]

METRICS = ("jaccard", "cosine", "manhattan", "euclidean", "hamming", "edit")
METRIC = one_of(METRICS)
OWNER = "distances"
UNBOUNDED = 2**62


def distances(left: Any, right: Any, metric: str) -> np.ndarray:
    """Compute the distance of row i of one column to row i of another.

    Parameters
    ----------
    left : array_like of n rows
        Lists of tokens for "jaccard", texts for "edit", rows of numbers for the others.
    right : array_like of n rows
        As many rows of the same kind.
    metric : {"jaccard", "cosine", "manhattan", "euclidean", "hamming", "edit"}
        The distance:

        - "jaccard": 1 - size of the intersection over that of the union; 0 for two empty sets;
        - "cosine": angle / pi, from 0 to 1. A row of zeros is at 1/2 to any other and 0 to zeros;
        - "manhattan", "euclidean": the L1 and L2 norm of the difference;
        - "hamming": number of positions that differ;
        - "edit": fewest characters to insert, delete or replace.

    Returns
    -------
    ndarray of shape (n,)
        Distances, float64.

    Notes
    -----
    **Guarantee.** Each satisfies the axioms of a distance, up to rounding: not negative, 0 exactly
    for equal rows ("cosine": for equal directions), symmetric, and the triangle inequality.

    References
    ----------
    .. [1] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets", section 3.5.
       http://www.mmds.org
    .. [2] Myers. "A fast bit-vector algorithm for approximate string matching based on dynamic
       programming". JACM 1999 ("edit"). https://doi.org/10.1145/316542.316550

    Examples
    --------
    >>> distances(["kitten", "rose"], ["sitting", "rose"], "edit")
    array([3., 0.])
    >>> distances([[1, 0]], [[0, 2]], "cosine")
    array([0.5])
    """
    metric = METRIC.check(OWNER, "metric", metric)
    if metric == "jaccard":
        return _jaccard(hashed_sets(OWNER, left), hashed_sets(OWNER, right))
    if metric == "edit":
        return _edit(Texts(OWNER, left), Texts(OWNER, right))
    a, b = as_rows(OWNER, left), as_rows(OWNER, right)
    if a.shape != b.shape:
        raise ValueError(f"{OWNER}: left and right must have one shape, not {a.shape}, {b.shape}.")
    return vector_distances(a, b, metric)


def vector_distances(a: np.ndarray, b: np.ndarray, metric: str) -> np.ndarray:
    """Distances of corresponding rows of two matrices."""
    if metric == "manhattan":
        return np.asarray(np.abs(a - b).sum(axis=1))
    if metric == "euclidean":
        return np.asarray(np.sqrt(((a - b) ** 2).sum(axis=1)))
    if metric == "hamming":
        return np.asarray((a != b).sum(axis=1), np.float64)
    return _angles(_directions(a), _directions(b)) / np.pi


def _directions(rows: np.ndarray) -> np.ndarray:
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    scaled = rows / np.where(largest > 0, largest, 1)  # so that no square overflows
    norms = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    return np.asarray(scaled / np.where(norms > 0, norms, 1))


def _angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Angles of unit vectors, accurate also where small: the arccosine of 1 - 1e-16 is 1e-8."""
    apart = np.sqrt(((a - b) ** 2).sum(axis=1))
    together = np.sqrt(((a + b) ** 2).sum(axis=1))
    return np.asarray(2 * np.arctan2(apart, together))


def hashed_sets(owner: str, sets: Any) -> ShingleSets:
    """Sets of any tokens as sets of hashes."""
    if isinstance(sets, ShingleSets):
        return sets
    found = sets_of(owner, sets)
    return ShingleSets(found.bounds, hash_column(found.members, 0))


def _jaccard(left: ShingleSets, right: ShingleSets) -> np.ndarray:
    n = _same_length(len(left), len(right))
    offsets = np.concatenate((left.offsets, right.offsets[1:] + left.offsets[-1]))
    both = ShingleSets(offsets, np.concatenate((left.hashes, right.hashes)))
    members, bounds = GivenSets(both).members(np.arange(2 * n))
    first, shared = np.arange(n), np.empty(n, np.int64)
    shingles.overlaps(members, bounds, first, first + n, shared)
    sizes = np.diff(bounds)
    either = sizes[:n] + sizes[n:] - shared
    return np.where(either > 0, 1 - shared / np.maximum(either, 1), 0.0)


def _edit(left: Texts, right: Texts) -> np.ndarray:
    n = _same_length(len(left), len(right))
    (points, ends), (more, others) = code_points(left), code_points(right)
    bounds = np.concatenate((ends, others[1:] + ends[-1]))
    first, out = np.arange(n), np.empty(n, np.int64)
    edit_distance.distances(
        np.concatenate((points, more)), bounds, first, first + n, UNBOUNDED, out
    )
    return out.astype(np.float64)


def code_points(texts: Texts) -> tuple[np.ndarray, np.ndarray]:
    """The code points of all texts, uint32, and where each text starts and ends."""
    lengths = [np.asarray(pc.utf8_length(chunk), np.int64) for chunk in texts.chunks]
    parts = ["".join(chunk.to_pylist()).encode("utf-32-le") for chunk in texts.chunks]
    points = [np.frombuffer(part, np.uint32) for part in parts]
    ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]))
    return np.concatenate([np.empty(0, np.uint32), *points]), ends


def _same_length(left: int, right: int) -> int:
    if left != right:
        raise ValueError(f"{OWNER}: left has {left} rows and right {right}; give as many.")
    return left
