"""Similarities of released profiles from pairwise counts, with variances, and nearest rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.arrays import top_n
from sfumato.profile.released import ReleasedProfiles

__all__ = ["OverlapVariance", "PairwiseProfiles", "RowPairs", "measured"]


def measured(metric: str, inner: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Evaluate the metric for each pair, unclipped: noise may put it below 0 or above 1.

    left, right: sizes above 0, broadcast to the pairs. A union is at least the larger size.
    """
    if metric == "inner":
        return inner
    if metric == "cosine":
        return np.asarray(inner / np.sqrt(left * right))
    return np.asarray(inner / _union(inner, left, right))


@dataclass(frozen=True)
class OverlapVariance:
    """Variances and covariances of the common items and of both sizes, for each pair."""

    inner: np.ndarray
    left: np.ndarray
    right: np.ndarray
    inner_left: np.ndarray
    inner_right: np.ndarray
    left_right: np.ndarray

    def of(self, metric: str, inner: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Variance of the metric by the delta method, with the derivatives at the estimates."""
        if metric == "inner":
            return self.inner
        if metric == "cosine":
            by_inner = 1 / np.sqrt(left * right)
            by_left, by_right = (-inner * by_inner / (2 * size) for size in (left, right))
        else:
            union = _union(inner, left, right)
            by_inner = (left + right) / union**2
            by_left = by_right = -inner / union**2
        variance = (
            by_inner**2 * self.inner
            + by_left**2 * self.left
            + by_right**2 * self.right
            + 2 * by_inner * (by_left * self.inner_left + by_right * self.inner_right)
            + 2 * by_left * by_right * self.left_right
        )
        return np.asarray(np.maximum(variance, 0.0))


def _union(inner: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(left + right - inner, np.maximum(left, right)))


BLOCK = 1 << 22  # similarities in memory at a time


@dataclass(frozen=True)
class RowPairs:
    """Pairs of a row of this release and a row of another, and the counts computed for each pair.

    counted: a count, or k along the last axis, for each pair; left, right: row numbers, which
    broadcast to the pairs; there: the other release. A row paired with itself is handled elsewhere,
    as both sides have one noise.
    """

    counted: np.ndarray
    left: np.ndarray
    right: np.ndarray
    there: Any


class PairwiseProfiles(ReleasedProfiles, in_files=False):
    """Base of releases that compare rows in two steps: count, then estimate.

    A subclass counts in `_count`, and from the counts computes `_inner` (common items), `_noisy`
    (similarity including the noise, for ranking), `_pair_variance` (variance of a metric),
    `estimate_size` and `_size_variance`.
    """

    def _similarity(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        return self._estimate(self._pairs(rows, other), metric)

    def _variance(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        return self._pair_variance(self._pairs(rows, other), metric)

    def _rank_by_pairs(
        self, rows: np.ndarray, own: np.ndarray, there: Any, metric: str, found: np.ndarray
    ) -> None:
        """Rank by noisy similarity: debiased ones would favour small profiles."""
        most = min(found.shape[1], len(there))
        at_once = max(1, BLOCK // max(len(there), 1))
        for start in range(0, rows.size, at_once):
            part = slice(start, start + at_once)
            scores = self._noisy(self._pairs(rows[part], there), metric)
            listed = np.flatnonzero(own[part] >= 0)
            scores[listed, own[part][listed]] = -np.inf
            found[part, :most] = top_n(scores, most)[0]

    def _aligned(self, rows: np.ndarray, others: np.ndarray, there: Any, metric: str) -> np.ndarray:
        out = np.empty(rows.size)
        distinct, which = np.unique(rows, return_inverse=True)
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(distinct.size + 1))
        at_once = max(1, BLOCK // max(len(there), 1))
        for start in range(0, distinct.size, at_once):
            part = order[ends[start] : ends[min(start + at_once, distinct.size)]]
            pairs = self._pairs(distinct[start : start + at_once], there)
            counted = pairs.counted[which[part] - start, others[part]]
            aligned = RowPairs(counted, rows[part], others[part], there)
            out[part] = self._estimate(aligned, metric)
        return out

    def _pairs(self, rows: np.ndarray, other: Any) -> RowPairs:
        left, right = rows[:, np.newaxis], np.arange(len(other))[np.newaxis]
        return RowPairs(self._count(rows, other), left, right, other)

    def _estimate(self, pairs: RowPairs, metric: str) -> np.ndarray:
        return measured(metric, self._inner(pairs), *self._floored(pairs))

    def _floored(self, pairs: RowPairs) -> tuple[np.ndarray, np.ndarray]:
        """Sizes to divide by: at least their standard error and at least 1."""
        return _floor(self)[pairs.left], _floor(pairs.there)[pairs.right]

    def _count(self, rows: np.ndarray, other: Any) -> np.ndarray:
        raise NotImplementedError

    def _inner(self, pairs: RowPairs) -> np.ndarray:
        raise NotImplementedError

    def _noisy(self, pairs: RowPairs, metric: str) -> np.ndarray:
        raise NotImplementedError

    def _pair_variance(self, pairs: RowPairs, metric: str) -> np.ndarray:
        raise NotImplementedError

    def _size_variance(self) -> np.ndarray:
        raise NotImplementedError


def _floor(release: Any) -> np.ndarray:
    least = np.maximum(np.sqrt(release._size_variance()), 1.0)
    return np.asarray(np.maximum(release.estimate_size(), least))
