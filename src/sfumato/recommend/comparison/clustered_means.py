"""Means of rows that users contribute to, with intervals and paired tests over users."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

__all__ = ["Difference", "Estimate", "UserSums", "difference", "estimate", "holm"]


@dataclass(frozen=True)
class Estimate:
    """Metric of a model with its interval.

    Parameters
    ----------
    value : float
        The metric; NaN if nothing was measured.
    low : float
        Lower end of the interval.
    high : float
        Upper end of the interval.
    users : int
        Number of users it was measured on; with fewer than 2 the ends are NaN.

    Examples
    --------
    >>> Estimate(value=0.25, low=0.2, high=0.3, users=900).value
    0.25
    """

    value: float
    low: float
    high: float
    users: int


@dataclass(frozen=True)
class Difference:
    """Difference of two models in a metric, over the same users.

    Parameters
    ----------
    value : float
        Metric of the model less that of the other.
    low : float
        Lower end of the interval of this pair alone.
    high : float
        Upper end of the interval.
    p : float
        The p-value of the paired t-test over users, adjusted by Holm's method for all pairs of
        models.

    Examples
    --------
    >>> Difference(value=0.02, low=0.01, high=0.03, p=0.001).p
    0.001
    """

    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class UserSums:
    """What each user contributes to a mean: the sum of the values, and their number.

    A user is a cluster: the values of one user, of several rows or repeats, are not independent.
    """

    sums: np.ndarray
    counts: np.ndarray

    def __add__(self, other: "UserSums") -> "UserSums":
        return UserSums(self.sums + other.sums, self.counts + other.counts)

    def linearized(self, root: bool) -> tuple[float, np.ndarray]:
        """Return the mean, or its root, and how far each user moves it, times the users.

        The mean is a ratio of two sums over users, so to first order its error is the mean of
        ``(sum - mean * count) / (mean count)`` over users; a root divides that by twice the root.
        With one value per user these are the deviations from the mean.
        """
        there = self.counts > 0
        sums, counts = self.sums[there], self.counts[there]
        if not there.any():
            return float("nan"), np.zeros(0)
        mean = float(sums.sum() / counts.sum())
        moves = (sums - mean * counts) / counts.mean()
        if not root:
            return mean, moves
        value = float(np.sqrt(mean))
        return value, moves / (2 * value) if value > 0 else moves


def estimate(
    cells: UserSums, confidence: float, *, root: bool = False, most: float = np.inf
) -> Estimate:
    """Return the mean (or its root) and its t-interval over users, cut to 0 and `most`.

    Values that are 0 for all users, or `most` for all, have no variance to go by. Their other end
    is exact: where a fraction q of all users has another value, n of them show none with
    probability ``(1 - q)**n``, and the mean is at most q times `most` away.
    """
    value, moves = cells.linearized(root)
    low, high = _interval(value, moves, confidence)
    if moves.size > 1 and np.isfinite(most) and value in (0.0, most):
        least = most * (1 - (1 - confidence) ** (1 / moves.size))
        low, high = (0.0, least) if value == 0 else (most - least, most)
    return Estimate(value, max(low, 0.0), min(high, most), moves.size)


def difference(
    one: UserSums, other: UserSums, confidence: float, *, root: bool = False
) -> Difference:
    """Return the paired difference of two models over the same users; p is not adjusted."""
    (first, moves), (second, others) = one.linearized(root), other.linearized(root)
    value, gaps = first - second, moves - others
    low, high = _interval(value, gaps, confidence)
    return Difference(value, low, high, _p_value(value, gaps))


def holm(p: Sequence[float]) -> list[float]:
    """Adjust p-values by Holm's step-down method; NaN stays NaN and counts as no test."""
    values = np.asarray(p, np.float64)
    order = np.argsort(values)[: int(np.isfinite(values).sum())]  # NaN are sorted last
    steps = (order.size - np.arange(order.size)) * values[order]
    adjusted = values.copy()
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(each) for each in adjusted]


def _error(moves: np.ndarray) -> float:
    """Standard error of the mean of the users' moves."""
    return float(moves.std(ddof=1) / np.sqrt(moves.size))


def _interval(value: float, moves: np.ndarray, confidence: float) -> tuple[float, float]:
    if moves.size < 2:
        return float("nan"), float("nan")
    half = _error(moves) * float(stdtrit(moves.size - 1, (1 + confidence) / 2))
    return value - half, value + half


def _p_value(value: float, moves: np.ndarray) -> float:
    if moves.size < 2:
        return float("nan")
    error = _error(moves)
    if error <= 1e-12 * abs(value) or error == 0:  # all users differ by the same, or not at all
        return 1.0 if value == 0 else 0.0
    return float(2 * stdtr(moves.size - 1, -abs(value) / error))
