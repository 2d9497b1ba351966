"""Error bounds from a variance alone: Chebyshev for a mean, and its boost by a median of rows."""

import functools
import math
from collections.abc import Callable

__all__ = ["median_rows", "norm_shortfall", "row_miss", "smallest_width"]


@functools.cache
def row_miss(depth: int, miss: float) -> float:
    """The largest chance of a bad row such that the median of `depth` rows is bad with <= miss.

    The median is off by t only if at least half of the rows are, each with chance p <= var / t**2.
    """
    need = math.ceil(depth / 2)
    low, high = 0.0, 0.5
    for _ in range(60):
        p = (low + high) / 2
        low, high = (p, high) if _tail(depth, need, p) <= miss else (low, p)
    return low


def _tail(trials: int, need: int, p: float) -> float:
    """The chance of at least `need` successes in so many trials."""
    terms = (math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(need, trials + 1))
    return math.fsum(terms)


def median_rows(variance: float, error: float, miss: float) -> tuple[int, int]:
    """Width and depth of the smallest table whose median is within error: row variance / width."""

    def width(depth: int) -> int:
        return max(2, math.ceil(variance / (error**2 * row_miss(depth, miss))))

    depth = min(range(1, 33), key=lambda rows: rows * width(rows))
    return width(depth), depth


def norm_shortfall(width: int, depth: int, miss: float) -> float:
    """By which share the largest row's sum of squares is below the true one, with this chance.

    A row's sum has variance at most 2 / width of the true one's square. By Cantelli's inequality it
    falls short by s with chance at most 1 / (1 + s**2 width / 2), and all rows must. From 1 on the
    rows tell nothing.
    """
    one = miss ** (1 / depth)
    return math.sqrt(2 / width * (1 - one) / one)


def smallest_width(fits: Callable[[int], bool], largest: int) -> int:
    """The smallest width from 2 on that fits; ValueError where none up to the largest does."""
    low, high = 1, 2
    while not fits(high):
        low, high = high, 2 * high
        if low >= largest:
            raise ValueError(f"no width up to {largest} keeps the error; allow a larger one.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
