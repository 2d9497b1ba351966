"""Rates with the ends of their intervals, none of which rests on a normal law or on resampling."""

import math
from typing import Any

import numpy as np

from sfumato.attack._bounds import rate_bounds

__all__ = ["Rate", "binomial_rate", "mean_rank_rate", "widest_gap_rate"]


class Rate(float):
    """A measured rate, which is a number, with `low` and `high`, the ends of its interval."""

    low: float
    high: float

    def __new__(cls, value: float, low: float, high: float) -> "Rate":
        rate = super().__new__(cls, value)
        rate.low, rate.high = float(low), float(high)
        return rate

    def __getnewargs__(self) -> Any:
        return float(self), self.low, self.high

    def to_dict(self) -> dict[str, float]:
        """The rate and its ends as plain JSON values."""
        return {"value": float(self), "low": self.low, "high": self.high}

    def __repr__(self) -> str:
        return f"{float(self):.4g} ({self.low:.4g} to {self.high:.4g})"


def binomial_rate(hits: int, trials: int, confidence: float) -> Rate:
    """The rate of hits with its interval of Clopper and Pearson 1934."""
    low, high = rate_bounds(hits, trials, hits, trials, confidence)
    return Rate(hits / trials, float(low), float(high))


def mean_rank_rate(value: float, pairs: int, confidence: float) -> Rate:
    """An area under the curve, with an interval that holds for every law of the scores.

    The area is a mean of means over `pairs`, the smaller side, of independent pairs of a member and
    another, so that Chernoff's bound for as many coins holds: Hoeffding 1963, section 5.
    """
    most = math.log(2 / (1 - confidence)) / pairs
    return Rate(value, 1 - _farthest(1 - value, most), _farthest(value, most))


def widest_gap_rate(value: float, members: int, others: int, confidence: float) -> Rate:
    """The largest distance of two distribution functions: Massart 1990, half the doubt a side."""
    reach = math.sqrt(math.log(4 / (1 - confidence)) / 2)
    reach *= 1 / math.sqrt(members) + 1 / math.sqrt(others)
    return Rate(value, max(value - reach, 0.0), min(value + reach, 1.0))


def _farthest(seen: float, most: float) -> float:
    """The largest rate whose relative entropy from the seen one is at most this, by bisection."""
    low, high = seen, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _entropy(seen, middle) <= most else (low, middle)
    return high


def _entropy(seen: float, rate: float) -> float:
    """The Kullback-Leibler divergence of a coin that shows `seen` from one that shows `rate`."""
    parts = ((seen, rate), (1 - seen, 1 - rate))
    if any(p > 0 and q <= 0 for p, q in parts):
        return math.inf
    return float(sum(p * np.log(p / q) for p, q in parts if p > 0))
