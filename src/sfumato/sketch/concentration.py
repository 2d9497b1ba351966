"""Error bounds from a variance alone: Chebyshev for a mean, and its boost by a median of rows.

How likely a projection changes a squared norm by more than a share of it: exact or proved.
"""

import functools
import math
from collections.abc import Callable

__all__ = [
    "chebyshev",
    "gaussian",
    "hadamard",
    "median_rows",
    "moments",
    "norm_shortfall",
    "row_miss",
    "smallest_error",
    "smallest_width",
]


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


def gaussian(dimensions: int, error: float) -> float:
    """Gaussian entries, exactly: dimensions times the ratio of squared norms is chi-square."""
    from scipy.special import gammainc, gammaincc  # here, since its import takes 0.3 seconds

    half = dimensions / 2
    below = gammainc(half, half * (1 - error)) if error < 1 else 0.0
    return float(gammaincc(half, half * (1 + error)) + below)


def moments(dimensions: int, error: float) -> float:
    """Entries +1 and -1, or sparse of variance one: their moments stay below the Gaussian ones.

    Achlioptas 2003, Theorem 1.1 and its proof; the upper tail is Chernoff's of the Gaussian.
    """
    above = math.exp(dimensions / 2 * (math.log1p(error) - error))
    below = math.exp(-dimensions / 2 * (error**2 / 2 - error**3 / 3)) if error < 1 else 0.0
    return above + below


def chebyshev(variance: float, error: float) -> float:
    """Any entries for which the ratio of squared norms has at most this variance."""
    return variance / error**2


def hadamard(dimensions: int, length: int, error: float) -> float:
    """Random signs, the Hadamard transform of this length, and coordinates without replacement.

    Chebyshev: a squared coordinate, times length, has mean 1 and second moment at most 3. Or
    Bernstein: half of the chance for a coordinate above B = 2 log(4 length / chance) (Hoeffding on
    the signs), half for the sampling of squares up to B, whose variance is at most B - 1.
    """
    share = (length - dimensions) / max(length - 1, 1)
    second = chebyshev(2 * share / dimensions, error)
    if second == 0:
        return 0.0
    low, high = -700.0, 0.0  # logarithm of the chance, the smallest that is consistent
    for _ in range(60):
        log = (low + high) / 2
        top = 2 * (math.log(4 * length) - log)
        exponent = dimensions * error**2 / (2 * (top - 1 + top * error / 3))
        low, high = (low, log) if math.log(4) - exponent <= log else (log, high)
    return min(second, math.exp(high))


def smallest_error(miss_of: Callable[[float], float], miss: float) -> float:
    """The smallest relative error that is passed with at most this chance, by halving."""
    high = 1.0
    while miss_of(high) > miss:
        high *= 2
    low = 0.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if middle and miss_of(middle) <= miss else (middle, high)
    return high
