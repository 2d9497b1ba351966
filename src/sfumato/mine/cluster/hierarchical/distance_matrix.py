"""All distances of n rows as a matrix, for vectors, sets, texts and given distances."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sfumato.errors import ParameterError
from sfumato.kernels.mine.cluster import point_distances
from sfumato.kernels.mine.similar import edit_distance, shingles
from sfumato.mine.cluster.estimator_input import checked_points
from sfumato.mine.similar.row_distances import code_points, hashed_sets, vector_distances
from sfumato.mine.similar.set_source import GivenSets
from sfumato.mine.similar.texts import Texts

__all__ = ["METRICS", "VECTORS", "RowDistances", "distances_of", "refuse_too_large"]

VECTORS = ("euclidean", "manhattan", "cosine", "hamming")
METRICS = (*VECTORS, "jaccard", "edit", "precomputed")
PAIRS = 1 << 20  # at a time
UNBOUNDED = 2**62
SYMMETRY = 1e-9  # relative, of given distances


class RowDistances(Protocol):
    """Distances of rows, computed when they are needed."""

    rows: np.ndarray | None
    dimension: int | None

    def __len__(self) -> int: ...

    def matrix(self, some: np.ndarray | None = None) -> np.ndarray:
        """A new matrix of the distances between all rows, or between some."""


def distances_of(estimator: Any, X: Any, metric: str) -> RowDistances:
    """Read X as the metric needs it."""
    owner = type(estimator).__name__
    if metric == "jaccard":
        return _SetRows(owner, X)
    if metric == "edit":
        return _TextRows(owner, X)
    rows = checked_points(estimator, X, reset=True, narrow=False)
    return _GivenMatrix(owner, rows) if metric == "precomputed" else _VectorRows(rows, metric)


def refuse_too_large(owner: str, n: int, limit: int) -> None:
    """Raise ParameterError if the distances of n rows take more bytes than the limit."""
    if 8 * n * n > limit:
        raise ParameterError.of(
            owner,
            "memory_limit",
            f"must be at least {8 * n * n:,} bytes for the distances of {n:,} rows, not {limit:,}; "
            "raise it, or cluster a sample, as CURE does.",
        )


class _VectorRows:
    """Rows of numbers."""

    def __init__(self, rows: np.ndarray, metric: str) -> None:
        self.rows: np.ndarray | None = rows if metric == "euclidean" else None
        self.dimension: int | None = rows.shape[1]
        self._rows, self._metric = rows, metric

    def __len__(self) -> int:
        return len(self._rows)

    def matrix(self, some: np.ndarray | None = None) -> np.ndarray:
        rows = self._rows if some is None else self._rows[some]
        if self._metric == "euclidean":
            found = np.empty((len(rows), len(rows)))
            point_distances.euclidean(np.ascontiguousarray(rows.T), found)
            return found
        if self._metric == "manhattan":
            from scipy.spatial.distance import cdist  # slow to import, and for this metric alone

            return np.asarray(cdist(rows, rows, "cityblock"))
        out = np.empty((len(rows), len(rows)))
        for i, row in enumerate(rows):
            out[i] = vector_distances(np.broadcast_to(row, rows.shape), rows, self._metric)
        np.fill_diagonal(out, 0.0)
        return out


class _GivenMatrix:
    """A matrix of distances."""

    rows: np.ndarray | None = None
    dimension: int | None = None

    def __init__(self, owner: str, given: np.ndarray) -> None:
        self._given = given
        if given.shape[0] != given.shape[1]:
            raise ValueError(f"{owner}: X must be square if precomputed, not {given.shape}.")
        if given.min() < 0 or given.diagonal().any():
            raise ValueError(f"{owner}: X must be distances: from 0 up, and 0 on the diagonal.")
        step = max(1, PAIRS // len(given))
        for start in range(0, len(given), step):
            some = slice(start, start + step)
            if not np.allclose(given[some], given[:, some].T, rtol=SYMMETRY, atol=0):
                raise ValueError(f"{owner}: X must be symmetric if precomputed.")

    def __len__(self) -> int:
        return len(self._given)

    def matrix(self, some: np.ndarray | None = None) -> np.ndarray:
        found = self._given if some is None else self._given[np.ix_(some, some)]
        return np.asarray(np.maximum(found, found.T))  # a copy, exactly symmetric


class _PairwiseRows:
    """Rows whose distances are computed for lists of pairs."""

    rows: np.ndarray | None = None
    dimension: int | None = None
    _pairs: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def __init__(self, owner: str, size: int) -> None:
        self._size = size
        if not size:
            raise ValueError(f"{owner}: X must have at least one row, not n_samples=0.")

    def __len__(self) -> int:
        return self._size

    def matrix(self, some: np.ndarray | None = None) -> np.ndarray:
        rows = np.arange(self._size) if some is None else some
        out = np.zeros((rows.size, rows.size))
        step = max(1, PAIRS // rows.size)
        for start in range(0, rows.size, step):
            left = np.arange(start, min(start + step, rows.size))
            first, second = np.nonzero(left[:, None] < np.arange(rows.size))
            first += start
            found = self._pairs(rows[first], rows[second])
            out[first, second] = out[second, first] = found
        return out


class _SetRows(_PairwiseRows):
    """Sets of tokens by 1 - Jaccard similarity."""

    def __init__(self, owner: str, sets: Any) -> None:
        found = hashed_sets(owner, sets)
        super().__init__(owner, len(found))
        self._members, self._bounds = GivenSets(found).members(np.arange(len(found)))

    def _pairs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        shared = np.empty(first.size, np.int64)
        shingles.overlaps(self._members, self._bounds, first, second, shared)
        sizes = np.diff(self._bounds)
        either = sizes[first] + sizes[second] - shared
        return np.where(either > 0, 1 - shared / np.maximum(either, 1), 0.0)


class _TextRows(_PairwiseRows):
    """Texts by edit distance."""

    def __init__(self, owner: str, texts: Any) -> None:
        found = Texts(owner, texts)
        super().__init__(owner, len(found))
        self._points, self._bounds = code_points(found)

    def _pairs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        out = np.empty(first.size, np.int64)
        edit_distance.distances(self._points, self._bounds, first, second, UNBOUNDED, out)
        return out.astype(np.float64)
