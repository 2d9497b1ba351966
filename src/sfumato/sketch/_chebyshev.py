"""Error bounds from a variance alone: Chebyshev for a mean, and its boost by a median of rows."""

import functools
import math

__all__ = ["median_rows", "row_miss"]


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
