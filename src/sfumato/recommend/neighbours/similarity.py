"""Similarity of users or of items by their ratings, and the most similar of each."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from sfumato.kernels.recommend import rating_neighbours as kernels
from sfumato.recommend.implicit.item_weights import SparseWeights
from sfumato.recommend.ranking import taken

__all__ = ["METRICS", "RatingVectors", "SimilarityRule"]

METRICS = ("residual", "centred", "cosine", "jaccard", "pearson")
BLOCK = 256  # rows whose neighbours are computed at a time; Ctrl-C is noticed in between


class SimilarityRule(NamedTuple):
    """Metric of two rows, and how it is shrunk by the number of columns in common."""

    metric: str
    least: int
    shrinkage: float
    significance: float

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """The rule of a model's parameters."""
        numbers = float(plain["shrinkage"]), float(plain["significance"])
        return cls(plain["metric"], plain["min_overlap"], *numbers)

    @property
    def arguments(self) -> tuple[int, int, float, float]:
        """Arguments of kernels."""
        kinds = {"jaccard": kernels.JACCARD, "pearson": kernels.PEARSON}
        return kinds.get(self.metric, kernels.COSINE), *self[1:]

    @property
    def width(self) -> int:
        """Number of sums that the kernels compute for two rows."""
        return 8 if self.metric == "pearson" else 2

    def values(
        self, starts: np.ndarray, ratings: np.ndarray, residuals: np.ndarray | None
    ) -> np.ndarray:
        """Return the values of rows that the metric compares, float32, for their ratings."""
        if self.metric == "residual":
            assert residuals is not None
            return residuals
        if self.metric == "jaccard":
            return np.ones(ratings.size, np.float32)
        if self.metric == "cosine":
            return np.asarray(ratings, np.float32)
        if self.metric == "pearson":
            # It does not change with the origin. Small integers have exact sums, so that ratings
            # that do not vary are noticed.
            return np.asarray(
                (ratings - np.rint(ratings.mean(dtype=np.float64))).astype(np.float32)
            )
        counts = np.diff(starts)
        rows = np.repeat(np.arange(counts.size), counts)
        means = np.bincount(rows, ratings, counts.size) / np.maximum(counts, 1)
        return (ratings - means[rows]).astype(np.float32)

    def sizes(self, starts: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the sum of squares of each row, which for Jaccard is its number of columns."""
        rows = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        squares = np.square(values, dtype=np.float64)
        return np.bincount(rows, squares, starts.size - 1)


@dataclass(frozen=True)
class RatingVectors:
    """Rows of values of a sparse matrix, ready to be compared by a rule."""

    rule: SimilarityRule
    starts: np.ndarray
    positions: np.ndarray
    values: np.ndarray
    columns: int

    def __len__(self) -> int:
        return int(self.starts.size - 1)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Size of each row, as the metric needs it."""
        return self.rule.sizes(self.starts, self.values)

    @cached_property
    def _index(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The transpose: which rows have each column, and their values."""
        shape = len(self), self.columns
        turned = sp.csr_matrix((self.values, self.positions, self.starts), shape).tocsc()
        return turned.indptr.astype(np.int64), turned.indices, turned.data

    def all_nearest(self, count: int, search: str, seed: int) -> SparseWeights:
        """Return up to `count` most similar rows of each row, best first."""
        if search == "exact":
            return self.nearest_rows(np.arange(len(self)), count)
        from sfumato.recommend.neighbours.candidates import hashed_candidates  # and retrieve

        lists = _Lists(min(count, max(len(self) - 1, 1)))
        for rows, starts, found in hashed_candidates(self, seed, BLOCK):
            lists.add(*self._nearest_among(rows, starts, found, lists.count))
        return lists.joined()

    def nearest_rows(self, rows: np.ndarray, count: int) -> SparseWeights:
        """Return up to `count` most similar rows of some rows, best first."""
        lists, scratch = _Lists(min(count, max(len(self) - 1, 1))), self._scratch()
        for first in range(0, rows.size, BLOCK):
            own = rows[first : first + BLOCK]
            starts, *columns = taken(own, self.starts, self.positions, self.values)
            lists.add(
                *self._nearest((starts, *columns, self.sizes[own], own), scratch, lists.count)
            )
        return lists.joined()

    def nearest_to(self, positions: np.ndarray, values: np.ndarray, count: int) -> SparseWeights:
        """Return the rows most similar to a further row, which is in no list."""
        starts = np.array([0, positions.size])
        query = starts, positions, values, self.rule.sizes(starts, values), np.full(1, -1)
        lists = _Lists(min(count, max(len(self), 1)))
        lists.add(*self._nearest(query, self._scratch(), lists.count))
        return lists.joined()

    def _scratch(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((len(self), self.rule.width)), np.empty(len(self), np.int64)

    def _nearest(
        self, query: tuple[np.ndarray, ...], scratch: tuple[np.ndarray, np.ndarray], count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        found, near = _empty(query[4].size, count)
        rule = self.rule.arguments
        kernels.nearest(*query, *self._index, self.sizes, *rule, *scratch, found, near)
        return found, near

    def _nearest_among(
        self, rows: np.ndarray, starts: np.ndarray, candidates: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        found, near = _empty(rows.size, count)
        mine = self.starts, self.positions, self.values, self.sizes
        here = np.zeros(self.columns, np.int64)
        kernels.nearest_among(
            rows, starts, candidates, *mine, *self.rule.arguments, here, found, near
        )
        return found, near


class _Lists:
    """Lists of neighbours that are collected block by block, without their padding."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._sizes: list[np.ndarray] = []
        self._found: list[np.ndarray] = []
        self._near: list[np.ndarray] = []

    def add(self, found: np.ndarray, near: np.ndarray) -> None:
        there = found >= 0
        self._sizes.append(there.sum(axis=1))
        self._found.append(found[there].astype(np.int32))
        self._near.append(near[there])

    def joined(self) -> SparseWeights:
        sizes, found, near = (
            np.concatenate(each) for each in (self._sizes, self._found, self._near)
        )
        return SparseWeights(np.concatenate([[0], np.cumsum(sizes)]), found, near)


def _empty(rows: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full((rows, count), -1, np.int64), np.zeros((rows, count), np.float32)
