"""How likely a projection changes a squared norm by more than a share of it: exact or proved."""

import math
from collections.abc import Callable

__all__ = ["chebyshev", "gaussian", "hadamard", "moments", "smallest_error"]


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
