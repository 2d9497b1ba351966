"""Cosine and Jaccard similarity from items in common and sizes, and how noise carries over."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Spread", "best", "measured"]


def measured(measure: str, inner: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The measure for each pair, as estimated: noise may put it below 0 or above 1.

    left, right: sizes above 0, down and across. A union is never below the larger size.
    """
    if measure == "inner":
        return inner
    if measure == "cosine":
        return np.asarray(inner / np.sqrt(left * right))
    return np.asarray(inner / _union(inner, left, right))


@dataclass(frozen=True)
class Spread:
    """Variances of the items in common and of both sizes, and their covariances, for each pair."""

    inner: np.ndarray
    left: np.ndarray
    right: np.ndarray
    inner_left: np.ndarray
    inner_right: np.ndarray
    left_right: np.ndarray

    def of(
        self, measure: str, inner: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> np.ndarray:
        """The variance of the measure by the delta method: its slopes at the estimates."""
        if measure == "inner":
            return self.inner
        if measure == "cosine":
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


def best(scores: np.ndarray, n: int) -> np.ndarray:
    """The places of the n largest of each row, best first; of equal ones the first.

    >>> best(np.array([[1.0, 3.0, 3.0, 2.0]]), 3)
    array([[1, 2, 3]])
    """
    if n == 0:
        return np.empty((len(scores), 0), np.int64)
    last = np.partition(scores, -n, axis=1)[:, -n]
    rows, places = np.nonzero(scores >= last[:, np.newaxis])
    order = np.lexsort((places, -scores[rows, places], rows))
    firsts = np.searchsorted(rows, np.arange(len(scores)))  # lexsort keeps rows together
    return np.asarray(places[order[firsts[:, np.newaxis] + np.arange(n)]])


def _union(inner: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(left + right - inner, np.maximum(left, right)))
