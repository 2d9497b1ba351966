"""How far off a RACE estimate may be: from the variance of one row, by a mean or by a median."""

import math
from collections.abc import Callable

from sfumato.privacy.calibrate import gaussian_sigma
from sfumato.sketch._chebyshev import row_miss
from sfumato.sketch._noisy_table import narrowest

__all__ = ["any_bound", "best_rows", "mean_bound", "median_bound", "theorem_bound"]

QUIET = 10  # rows of Gaussian noise end where hashing adds a tenth to its variance
ONE = 2**12  # cells that stand for many: sigma grows with their root
LOUD = 2.0**30  # an epsilon beyond which there is next to no noise, and no float to tell it


def theorem_bound(spread: float, rows: int, noise_variance: float, miss: float) -> float:
    """The published bound: sqrt((spread**2 + variance of a cell's noise) / R * 32 log(1 / miss)).

    Laplace noise of scale R / epsilon has variance 2 R**2 / epsilon**2 (theorem 3.4), Gaussian
    noise sigma**2. It takes 8 log(1 / miss) groups, a whole number that must divide R. It is loose:
    a cell's variance is at most spread**2 - f**2, not spread**2, and Hoeffding's inequality stands
    where `median_bound` takes the binomial law.
    """
    return math.sqrt((spread**2 + noise_variance) / rows * 32 * math.log(1 / miss))


def median_bound(variance: float, rows: int, groups: int, miss: float) -> float:
    """What the median of group means is off by with at most this chance, given a row's variance.

    Chebyshev for the mean of rows // groups independent rows, the binomial law for the median.
    """
    groups = min(groups, rows)
    return math.sqrt(variance / (rows // groups) / row_miss(groups, miss))


def mean_bound(
    spread: float, most: float, rows: int, reach: Callable[[float], float], miss: float
) -> float:
    """What the mean of independent rows is off by with at most this chance.

    Bernstein for cells from 0 to `most` of variance at most spread**2; reach(p) is what the mean of
    the noise passes with chance at most p.
    """

    def hashing(chance: float) -> float:
        log = math.log(2 / chance)
        return math.sqrt(2 * log / rows) * spread + most * log / (3 * rows)

    return narrowest(hashing, reach, miss)


def any_bound(variance: float, median: bool, miss: float) -> float:
    """What a mean, or a median of means, of this variance each is off by, however they depend.

    Chebyshev; and by Markov half of the means are off with at most twice the chance of one.
    """
    return math.sqrt((2 if median else 1) * variance / miss)


def best_rows(spread: float, epsilon: float, delta: float, most: int) -> int:
    """The number of rows, up to `most`, that makes an estimate's variance least.

    Laplace: spread**2 / R + 2 R / epsilon**2 is least at R = spread epsilon / sqrt(2). Gaussian:
    a cell's variance grows like R, so that the mean's noise stays the same and more rows never
    hurt; they are taken until hashing adds a tenth to it.
    """
    epsilon = min(epsilon, LOUD)
    if not delta:
        return max(1, min(most, math.ceil(spread * epsilon / math.sqrt(2))))
    noise = float(gaussian_sigma(epsilon, delta, cells=ONE)) ** 2 / ONE
    return max(1, min(most, math.ceil(QUIET * spread**2 / noise)))
