"""Similarities from what is counted once of each pair of rows, and neighbours ranked with noise.

Cosine and Jaccard similarity from items in common and sizes, and how noise carries over.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.arrays import top_n
from sfumato.profile.released import ReleasedProfiles

__all__ = ["OverlapVariance", "PairwiseProfiles", "RowPairs", "measured"]


def measured(metric: str, inner: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The metric for each pair, as estimated: noise may put it below 0 or above 1.

    left, right: sizes above 0, down and across. A union is never below the larger size.
    """
    if metric == "inner":
        return inner
    if metric == "cosine":
        return np.asarray(inner / np.sqrt(left * right))
    return np.asarray(inner / _union(inner, left, right))


@dataclass(frozen=True)
class OverlapVariance:
    """Variances of the items in common and of both sizes, and their covariances, for each pair."""

    inner: np.ndarray
    left: np.ndarray
    right: np.ndarray
    inner_left: np.ndarray
    inner_right: np.ndarray
    left_right: np.ndarray

    def of(self, metric: str, inner: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The variance of the metric by the delta method: its slopes at the estimates."""
        if metric == "inner":
            return self.inner
        if metric == "cosine":
            by_inner = 1 / np.sqrt(left * right)
            by_left, by_right = (-inner * by_inner / (2 * size) for size in (left, right))
        else:
            union = _union(inner, left, right)
            by_inner = (left + right) / union**2
            by_left = by_right = -inner / union**2
        told = (
            by_inner**2 * self.inner
            + by_left**2 * self.left
            + by_right**2 * self.right
            + 2 * by_inner * (by_left * self.inner_left + by_right * self.inner_right)
            + 2 * by_left * by_right * self.left_right
        )
        return np.asarray(np.maximum(told, 0.0))


def _union(inner: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(left + right - inner, np.maximum(left, right)))


BLOCK = 1 << 22  # similarities held at a time


@dataclass(frozen=True)
class RowPairs:
    """Pairs of a row here and a row there: what is known of each, and which rows they are.

    counted: one number or a few for each pair, of shape (n, m) or (n, m, few); left, right: the
    numbers of the rows, which broadcast to (n, m); there, the other release. What a row is to
    itself is not told here: it shares its own noise.
    """

    counted: np.ndarray
    left: np.ndarray
    right: np.ndarray
    there: Any

    def at(self, places: np.ndarray) -> "RowPairs":
        """Some places of each row."""
        rows = np.arange(len(places))[:, np.newaxis]
        return RowPairs(self.counted[rows, places], self.left, places, self.there)


class PairwiseProfiles(ReleasedProfiles, in_files=False):
    """The base of releases that compare rows in two steps: count, then estimate.

    A subclass counts in `_count`, and from that tells `_inner` (items in common), `_noisy` (how
    alike the rows are with their noise), `_spread` (the variance of a metric), `estimate_size`
    and `_size_variance`.
    """

    def _similarity(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        return self._estimate(self._pairs(rows, other), metric)

    def _variance(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        return self._spread(self._pairs(rows, other), metric)

    def _nearest(
        self,
        rows: np.ndarray,
        own: np.ndarray,
        there: Any,
        metric: str,
        found: np.ndarray,
        near: np.ndarray,
    ) -> None:
        """Ranked with the noise: without it small profiles, of which it is most, would win."""
        most = min(found.shape[1], len(there))
        at_once = max(1, BLOCK // max(len(there), 1))
        for start in range(0, rows.size, at_once):
            part = slice(start, start + at_once)
            pairs = self._pairs(rows[part], there)
            scores = self._noisy(pairs, metric)
            asked = np.flatnonzero(own[part] >= 0)
            scores[asked, own[part][asked]] = -np.inf
            positions, _ = top_n(scores, most)
            told = self._estimate(pairs.at(positions), metric)
            found[part, :most] = positions
            near[part, :most] = np.where(positions >= 0, told, -np.inf)

    def _pairs(self, rows: np.ndarray, other: Any) -> RowPairs:
        left, right = rows[:, np.newaxis], np.arange(len(other))[np.newaxis]
        return RowPairs(self._count(rows, other), left, right, other)

    def _estimate(self, pairs: RowPairs, metric: str) -> np.ndarray:
        return measured(metric, self._inner(pairs), *self._floored(pairs))

    def _floored(self, pairs: RowPairs) -> tuple[np.ndarray, np.ndarray]:
        """Sizes to divide by: not below their own standard error, nor 1."""
        return _floor(self)[pairs.left], _floor(pairs.there)[pairs.right]

    def _count(self, rows: np.ndarray, other: Any) -> np.ndarray:
        raise NotImplementedError

    def _inner(self, pairs: RowPairs) -> np.ndarray:
        raise NotImplementedError

    def _noisy(self, pairs: RowPairs, metric: str) -> np.ndarray:
        raise NotImplementedError

    def _spread(self, pairs: RowPairs, metric: str) -> np.ndarray:
        raise NotImplementedError

    def _size_variance(self) -> np.ndarray:
        raise NotImplementedError


def _floor(release: Any) -> np.ndarray:
    least = np.maximum(np.sqrt(release._size_variance()), 1.0)
    return np.asarray(np.maximum(release.estimate_size(), least))
