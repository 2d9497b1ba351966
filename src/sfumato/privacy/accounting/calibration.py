"""Calibration of discrete Gaussian noise: sigma from (epsilon, delta) and back, rounded up.

The delta of one cell is the exact sum over its mass (Canonne, Kamath and Steinke 2020, Theorem 7:
exact privacy of the discrete Gaussian). Of k cells, each moved by c, only the sum S of the k noises
distinguishes the two data sets: the privacy loss is (c S + k c**2 / 2) / sigma**2, which is that of
one cell of variance k sigma**2 moved by k c, with the mass of S (`discrete_gaussian`). Fewer cells
and smaller changes are covered: the likelihood ratio of a log-concave distribution and its shift is
monotone, so for every threshold a longer shift is easier to distinguish, and such pairs compose
(Zhu, Dong and Wang 2022, Theorem 10: dominating pairs compose).
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.core.validation import between, fraction, integer, positive, rational
from sfumato.privacy.accounting.discrete_gaussian import DEVIATIONS, ROUNDING, masses
from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.rounding import UP

__all__ = [
    "concentrated_delta",
    "concentrated_epsilon",
    "epsilon_of",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "gaussian_sigma_l2",
    "variance_delta",
]

EPSILON = between(0, math.inf)
UNDERFLOW = 1e-300  # above everything that a float took for 0


def gaussian_sigma(epsilon: float, delta: float, *, change: int = 1, cells: int = 1) -> Fraction:
    """Return the smallest sigma of discrete Gaussian noise that is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        Above 0 and below 1.
    change : int, default=1
        Largest change of one number by one unit, at least 1.
    cells : int, default=1
        Largest number of integers that one unit changes, at least 1.

    Returns
    -------
    Fraction
        Sigma, exact, on a grid of steps between 1/4096 and 1/2048 of it.

    Notes
    -----
    **Guarantee.** `gaussian_delta` of the result is at most delta. A sigma lower by 0.3 % fails, or
    is one of the few that pass below others that fail (the distribution is discrete).

    Examples
    --------
    >>> gaussian_sigma(1, 1e-6, cells=4)
    Fraction(541, 64)
    """
    owner = "gaussian_sigma"
    epsilon = positive.check(owner, "epsilon", epsilon)
    delta = _delta_above_zero(owner, delta)
    change, cells = (
        integer(1).check(owner, "change", change),
        integer(1).check(owner, "cells", cells),
    )
    return _sigma(epsilon, delta, change, cells)


def gaussian_sigma_l2(epsilon: float, delta: float, *, norm_squared: Any) -> Fraction:
    """Return a sigma for integers of which only the L2 sensitivity is known.

    `gaussian_sigma` is lower where it applies: where the changed numbers and their changes are
    known.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        Above 0 and below 1.
    norm_squared : object
        Square of the L2 sensitivity, above 0: an integer or a Fraction.

    Returns
    -------
    Fraction
        Sigma, exact.

    Notes
    -----
    **Guarantee.** The noise is (epsilon, delta)-differentially private: it satisfies rho-zCDP with
    rho = norm_squared / (2 sigma**2) [1]_, which gives (epsilon, delta) by `concentrated_delta`.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke. "The Discrete Gaussian for Differential Privacy". NeurIPS 2020,
       Theorem 14 (concentrated privacy of several numbers). https://arxiv.org/abs/2004.00010

    Examples
    --------
    >>> float(gaussian_sigma_l2(1, 1e-6, norm_squared=4))
    9.0625
    """
    owner = "gaussian_sigma_l2"
    epsilon = positive.check(owner, "epsilon", epsilon)
    delta = _delta_above_zero(owner, delta)
    norm_squared = rational.check(owner, "norm_squared", norm_squared)
    return _concentrated_sigma(epsilon, delta, norm_squared)


def gaussian_delta(epsilon: float, sigma: Any, *, change: int = 1, cells: int = 1) -> float:
    """Return the delta of discrete Gaussian noise at a given epsilon, rounded up.

    Parameters
    ----------
    epsilon : float
        At least 0.
    sigma : object
        Above 0: a number, a Fraction or text such as "21/2".
    change : int, default=1
        Largest change of one number by one unit, at least 1.
    cells : int, default=1
        Largest number of integers that one unit changes, at least 1.

    Returns
    -------
    float
        Delta from 0 to 1.

    Examples
    --------
    >>> gaussian_delta(1, 4) < 1e-5
    True
    """
    owner = "gaussian_delta"
    epsilon = EPSILON.check(owner, "epsilon", epsilon)
    sigma = rational.check(owner, "sigma", sigma)
    change, cells = (
        integer(1).check(owner, "change", change),
        integer(1).check(owner, "cells", cells),
    )
    return variance_delta(epsilon, sigma**2, change, cells)


def gaussian_epsilon(delta: float, variance: Any, *, change: int = 1, cells: int = 1) -> float:
    """Return the smallest epsilon of discrete Gaussian noise at a given delta, rounded up.

    Parameters
    ----------
    delta : float
        Above 0 and below 1.
    variance : object
        Square of sigma, above 0: a number, a Fraction or text such as "21/2".
    change : int, default=1
        Largest change of one number by one unit, at least 1.
    cells : int, default=1
        Largest number of integers that one unit changes, at least 1.

    Returns
    -------
    float
        Epsilon, at least 0.

    Examples
    --------
    >>> 0.9 < gaussian_epsilon(1e-6, gaussian_sigma(1, 1e-6) ** 2) <= 1
    True
    """
    owner = "gaussian_epsilon"
    delta = _delta_above_zero(owner, delta)
    variance = rational.check(owner, "variance", variance)
    change, cells = (
        integer(1).check(owner, "change", change),
        integer(1).check(owner, "cells", cells),
    )
    return _epsilon(delta, variance, change, cells)


def epsilon_of(loss: Loss, delta: float) -> float:
    """Return the epsilon of a loss at a given delta, rounded up.

    Parameters
    ----------
    loss : Loss
        Any loss.
    delta : float
        From 0 to below 1.

    Returns
    -------
    float
        Epsilon; infinite where there is none at this delta.

    Examples
    --------
    >>> from sfumato.privacy.accounting.losses import Pure
    >>> epsilon_of(Pure(0.5), 0)
    0.5
    """
    delta = between(0, 1).check("epsilon_of", "delta", delta)
    from sfumato.privacy.accounting.accountant import Accountant

    return Accountant(relation=loss.relation).compose(loss).epsilon(delta)


def concentrated_delta(epsilon: float, rho: float) -> float:
    """Return the delta of rho-zCDP at a given epsilon, rounded up.

    Parameters
    ----------
    epsilon : float
        At least 0.
    rho : float
        Parameter of zero-concentrated differential privacy, above 0.

    Returns
    -------
    float
        Delta from 0 to 1: the bound [1]_ at nearly the best order.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke. "The Discrete Gaussian for Differential Privacy". NeurIPS 2020,
       Corollary 13 (from zCDP to delta): at any order a > 1, delta = exp((a - 1) (a rho - epsilon))
       / (a - 1) (1 - 1 / a)**a. https://arxiv.org/abs/2004.00010

    Examples
    --------
    >>> concentrated_delta(1.0, 0.02) < 1e-5
    True
    """

    def log_delta(order: float) -> float:
        more = order - 1
        log = more * (order * rho - epsilon) - math.log(more) - order * math.log1p(1 / more)
        return log + abs(log) * 1e-12

    best = log_delta(_best_order(log_delta, rho))
    return min(1.0, math.exp(min(best, 0.0)) * ROUNDING + UNDERFLOW)


def concentrated_epsilon(delta: float, rho: float) -> float:
    """Return the epsilon of rho-zCDP at a given delta, rounded up.

    Parameters
    ----------
    delta : float
        Above 0 and below 1.
    rho : float
        Parameter of zero-concentrated differential privacy, above 0.

    Returns
    -------
    float
        Epsilon, at least 0: the bound of `concentrated_delta`, solved for epsilon.

    Examples
    --------
    >>> 0.79 < concentrated_epsilon(1e-5, 0.02) < 0.8
    True
    """

    def epsilon_at(order: float) -> float:
        more = order - 1
        fixed = -math.log(delta) - math.log(more) - order * math.log1p(1 / more)
        return order * rho + fixed / more

    return max(0.0, epsilon_at(_best_order(epsilon_at, rho)) * ROUNDING)


def _best_order(bound: Any, rho: float) -> float:
    """Find about the order a of the smallest bound(a), by golden sections of the log of a - 1.

    The best a - 1 grows from epsilon / (2 rho), so this interval contains it for all that matters;
    a worse order gives a larger bound, never an invalid one.
    """
    low, high = math.log(1e-6), math.log(1e6 / min(rho, 1.0))
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if bound(1 + math.exp(left)) <= bound(1 + math.exp(right)):
            high = right
        else:
            low = left
    return 1 + math.exp((low + high) / 2)


def _delta_above_zero(owner: str, delta: Any) -> float:
    """Check delta, with a hint at Laplace noise where it is 0."""
    if isinstance(delta, int | float) and delta == 0 and not isinstance(delta, bool):
        raise ValueError(
            f"{owner}: delta must be above 0: Gaussian noise has no pure epsilon. "
            "Use Laplace noise for delta 0."
        )
    return fraction.check(owner, "delta", delta)


@lru_cache(1024)
def _sigma(epsilon: float, delta: float, change: int, cells: int) -> Fraction:
    """Search the smallest sigma by bisection, then round it up to a grid."""
    high = _concentrated_sigma(epsilon, delta, Fraction(cells * change**2))
    top, low = float(high), float(high) / 1024
    while top - low > top * 1e-4:
        middle = math.sqrt(top * low)
        if variance_delta(epsilon, Fraction(middle) ** 2, change, cells) <= delta:
            top = middle
        else:
            low = middle
    sigma = _on_grid(Fraction(top))
    while sigma < high and variance_delta(epsilon, sigma**2, change, cells) > delta:
        sigma = _on_grid(sigma * (1 + Fraction(1, 4096)))
    return min(sigma, high)


@lru_cache(1024)
def _concentrated_sigma(epsilon: float, delta: float, norm_squared: Fraction) -> Fraction:
    """Return a sigma from the largest rho that gives (epsilon, delta)."""
    low, high = 0.0, 2 * epsilon + 1  # of rho: delta is 1 long before
    while high > 1e-200 and high - low > 1e-6 * high:
        rho = (low + high) / 2
        if concentrated_delta(epsilon, rho) <= delta:
            low = rho
        else:
            high = rho
    if low == 0:
        raise ValueError("gaussian_sigma: epsilon is too small for this delta; raise one of them.")
    square = norm_squared / (2 * Fraction(low))
    # The root of an integer above 4**40 * square, so that sigma**2 >= square exactly.
    root = math.isqrt(math.ceil(square * 4**40)) + 1
    return _on_grid(Fraction(root, 2**40))


def _on_grid(sigma: Fraction) -> Fraction:
    """Round up to a multiple of the power of two that is 1/4096 to 1/2048 of sigma."""
    step = Fraction(2) ** (math.frexp(float(sigma))[1] - 12)
    return math.ceil(sigma / step) * step


@lru_cache(1024)
def _epsilon(delta: float, variance: Fraction, change: int, cells: int) -> float:
    """Search the smallest epsilon by bisection."""
    low, high = 0.0, concentrated_epsilon(delta, _rho(variance, change, cells))
    if variance_delta(0.0, variance, change, cells) <= delta:
        return 0.0
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        if variance_delta(middle, variance, change, cells) <= delta:
            high = middle
        else:
            low = middle
    return high


def _rho(variance: Fraction, change: int, cells: int) -> float:
    """Return cells * change**2 / (2 * variance), rounded up."""
    return float(cells * change**2 / (2 * variance)) * UP


@lru_cache(4096)
def variance_delta(epsilon: float, variance: Fraction, change: int, cells: int) -> float:
    """Return the delta of discrete Gaussian noise from its variance, rounded up.

    As `gaussian_delta`, but the square root of the variance need not be rational.

    Parameters
    ----------
    epsilon : float
        At least 0.
    variance : Fraction
        Square of sigma, above 0.
    change : int
        Largest change of one number by one unit, at least 1.
    cells : int
        Largest number of integers that one unit changes, at least 1.

    Returns
    -------
    float
        Delta from 0 to 1.

    Examples
    --------
    >>> from fractions import Fraction
    >>> variance_delta(1.0, Fraction(16), 1, 1) < 1e-5
    True
    """
    # From here on one cell of the summed noise, moved by all the changes at once.
    shift, summed_variance = cells * change, cells * variance
    threshold = Fraction(epsilon) * summed_variance / shift - Fraction(shift, 2)
    first = max(math.floor(threshold) + 1, -math.ceil(DEVIATIONS * math.sqrt(summed_variance)))
    distribution = masses(variance, cells, first)
    # 1 - exp(epsilon - loss) grows and is concave in the point, so a block's mean is not above
    # its value at the middle; and the mass of a block is taken at its likeliest point.
    over = distribution.steps + (distribution.size - 1) / 2 + float(distribution.first - threshold)
    exact = float(-(distribution.weights * np.expm1(-float(shift / summed_variance) * over)).sum())
    beyond = 4 * math.exp(-(DEVIATIONS**2) / 2) * min(1.0, float(distribution.weights.sum()))
    exact = (exact + beyond) * ROUNDING + UNDERFLOW
    return min(1.0, exact, concentrated_delta(epsilon, _rho(variance, change, cells)))
