"""Intervals of estimates that are shown only because they passed a threshold."""

from typing import NamedTuple

import numpy as np
import scipy

__all__ = ["SelectiveIntervals", "selection_thresholds", "selective_intervals"]

HALVINGS = 60  # of the range of counts that is searched for an end of an interval
BEYOND = 10.0  # standard errors above the estimate, where every end lies below


class SelectiveIntervals(NamedTuple):
    """Counts given that they were selected: the median-unbiased estimate, and the interval."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def selection_thresholds(
    estimates: np.ndarray, p_values: np.ndarray, tests: int, level: float
) -> np.ndarray:
    """Return the smallest estimate with which each detected candidate would have been detected.

    The procedure of Benjamini and Hochberg with R detections detects a candidate exactly if its
    p-value is at most ``level R / tests``, whatever the p-values of the others are that gave R. The
    z-value of a test is proportional to the estimate. All of `estimates` were detected, among this
    number of `tests`.

    >>> p_values = scipy.special.ndtr([-4.0, -6.0])
    >>> selection_thresholds(np.array([400.0, 600.0]), p_values, 100, 0.05).round().tolist()
    [309.0, 309.0]
    """
    least = -scipy.special.ndtri(level * max(estimates.size, 1) / tests)
    z = -scipy.special.ndtri(np.maximum(p_values, 1e-300))
    return np.asarray(estimates * np.clip(least / np.maximum(z, 1e-9), 0.0, 1.0))


def selective_intervals(
    estimates: np.ndarray, errors: np.ndarray, thresholds: np.ndarray, level: float
) -> SelectiveIntervals:
    """Return intervals that cover a count with probability 1 - level, given that it was selected.

    Guarantee: for a normal estimate of standard error `errors` around a count of at least 0, given
    that it is at least the threshold, each interval covers with probability 1 - level, and the
    estimate is at most the count with probability 1/2. It is the distribution of a normal truncated
    at the threshold that decides; far above the threshold that is the usual interval.

    >>> far = selective_intervals(np.array([100.0]), np.array([1.0]), np.array([3.0]), 0.05)
    >>> [round(float(each[0]), 2) for each in far]
    [100.0, 98.04, 101.96]
    >>> near = selective_intervals(np.array([3.5]), np.array([1.0]), np.array([3.0]), 0.05)
    >>> [round(float(each[0]), 2) for each in near]
    [2.43, 0.0, 5.31]

    Lee, Sun, Sun and Taylor 2016, section 4 (truncated Gaussian); Zhong and Prentice 2008.
    """
    ends = (0.5, level / 2, 1 - level / 2)
    return SelectiveIntervals(*(_count_at(end, estimates, errors, thresholds) for end in ends))


def _count_at(
    probability: float, estimates: np.ndarray, errors: np.ndarray, thresholds: np.ndarray
) -> np.ndarray:
    """Return the count, 0 or more, whose selected estimates exceed these with this probability."""
    low, high = np.zeros(estimates.size), estimates + BEYOND * errors
    wanted, errors = np.log(probability), np.maximum(errors, 1e-300)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        tail = scipy.special.log_ndtr((middle - estimates) / errors)
        tail -= scipy.special.log_ndtr((middle - thresholds) / errors)
        below = tail < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(np.where(low > 0, high, 0.0))
