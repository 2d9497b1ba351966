"""Concentration bounds: Chebyshev with a median of rows, and norms under random projections."""

import functools
import math
from collections.abc import Callable, Iterable

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
    "upper_tail",
]


@functools.cache
def row_miss(depth: int, miss: float) -> float:
    """The largest probability of a bad row for which the median is bad with at most `miss`.

    The median of `depth` rows has an error above t only if at least half of the rows have, each
    with probability p <= variance / t**2.
    """
    need = math.ceil(depth / 2)
    low, high = 0.0, 0.5
    for _ in range(60):
        p = (low + high) / 2
        low, high = (p, high) if _tail(depth, need, p) <= miss else (low, p)
    return low


def _tail(trials: int, need: int, p: float) -> float:
    """The probability of at least `need` successes in `trials` trials of probability p."""
    terms = (math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(need, trials + 1))
    return math.fsum(terms)


def upper_tail(chances: Iterable[float], need: int) -> float:
    """The probability of at least `need` successes in independent trials of these probabilities."""
    counts = [1.0]  # probabilities of 0, 1, ... successes so far
    for p in chances:
        stay, rise = [c * (1 - p) for c in counts], [c * p for c in counts]
        counts = [a + b for a, b in zip([*stay, 0.0], [0.0, *rise], strict=True)]
    return math.fsum(counts[need:])


def median_rows(variance: float, error: float, miss: float) -> tuple[int, int]:
    """Width and depth of the smallest table of this error; rows have variance / width."""

    def width(depth: int) -> int:
        return max(2, math.ceil(variance / (error**2 * row_miss(depth, miss))))

    depth = min(range(1, 33), key=lambda rows: rows * width(rows))
    return width(depth), depth


def norm_shortfall(width: int, depth: int, miss: float) -> float:
    """The fraction of F2 by which all rows' sums of squares fall short with probability `miss`.

    A row's sum has variance at most 2 F2**2 / width. By Cantelli's inequality it falls short by
    s F2 with probability at most 1 / (1 + s**2 width / 2), and all rows must. A result of 1 or more
    means that the rows give no lower bound.
    """
    one = miss ** (1 / depth)
    return math.sqrt(2 / width * (1 - one) / one)


def smallest_width(fits: Callable[[int], bool], largest: int) -> int:
    """The smallest width, at least 2, that fits; ValueError if none up to `largest` does."""
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
    """Failure probability for Gaussian entries, exact: the scaled squared norm is chi-square."""
    from scipy.special import gammainc, gammaincc  # here, since its import takes 0.3 seconds

    half = dimensions / 2
    below = gammainc(half, half * (1 - error)) if error < 1 else 0.0
    return float(gammaincc(half, half * (1 + error)) + below)


def moments(dimensions: int, error: float) -> float:
    """Failure probability for entries +1 and -1, or sparse ones of variance 1.

    Their moments are below the Gaussian ones (Achlioptas 2003, Theorem 1.1, Johnson-Lindenstrauss
    with binary coins, and its proof); the upper tail is Chernoff's bound for the Gaussian.
    """
    above = math.exp(dimensions / 2 * (math.log1p(error) - error))
    below = math.exp(-dimensions / 2 * (error**2 / 2 - error**3 / 3)) if error < 1 else 0.0
    return above + below


def chebyshev(variance: float, error: float) -> float:
    """Failure probability by Chebyshev, if the ratio of squared norms has at most this variance."""
    return variance / error**2


def hadamard(dimensions: int, length: int, error: float) -> float:
    """Failure probability for random signs, a Hadamard transform and sampled coordinates.

    Coordinates are sampled without replacement. Chebyshev: a squared coordinate, times length, has
    mean 1 and second moment at most 3. Or Bernstein: half of the probability is for a coordinate
    above B = 2 log(4 length / probability) (Hoeffding on the signs), half for the sampling of
    squares up to B, whose variance is at most B - 1.
    """
    correction = (length - dimensions) / max(length - 1, 1)
    second = chebyshev(2 * correction / dimensions, error)
    if second == 0:
        return 0.0
    low, high = -700.0, 0.0  # logarithm of the smallest consistent probability
    for _ in range(60):
        log = (low + high) / 2
        top = 2 * (math.log(4 * length) - log)
        exponent = dimensions * error**2 / (2 * (top - 1 + top * error / 3))
        low, high = (low, log) if math.log(4) - exponent <= log else (log, high)
    return min(second, math.exp(high))


def smallest_error(miss_of: Callable[[float], float], miss: float) -> float:
    """The smallest relative error exceeded with probability at most `miss`, by bisection."""
    high = 1.0
    while miss_of(high) > miss:
        high *= 2
    low = 0.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if middle and miss_of(middle) <= miss else (middle, high)
    return high
