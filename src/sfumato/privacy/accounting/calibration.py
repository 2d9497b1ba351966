"""How much discrete Gaussian noise a promise needs, and what promise a noise keeps, rounded up.

The delta of one cell is the exact sum over its mass (Canonne, Kamath and Steinke 2020, theorem 7).
Of k cells, each moved by c, only the sum S of the k noises tells the two data sets apart: the
privacy loss is (c S + k c**2 / 2) / sigma**2, which is that of one cell of variance k sigma**2
moved by k c, with the mass of S (`_gaussian_mass`). Fewer cells and smaller changes are covered:
the likelihood ratio of a log-concave law and its shift is monotone, so for every threshold a longer
shift is easier to see, and such pairs compose (Zhu, Dong and Wang 2022, theorem 10).
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.core.validation import between, fraction, integer, positive, rational
from sfumato.privacy.accounting.discrete_gaussian import REACH, ROUNDING, masses
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
    """The least sigma of discrete Gaussian noise that is (epsilon, delta)-private.

    epsilon above 0; delta between 0 and 1;

    Parameters
    ----------
    epsilon : float
        TODO.
    delta : float
        TODO.
    change : int, default=1
        The most that one unit changes a number by.
    cells : int, default=1
        How many numbers it changes at most.

    Returns
    -------
    Fraction
        The least sigma of discrete Gaussian noise that is (epsilon, delta)-private.

    Notes
    -----
    **Guarantee.** `gaussian_delta` of the answer is at most delta; a sigma lower by 0.3 % fails, or
    is one of the few that pass below others that fail (the law is discrete).

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
    """The sigma for integers that one unit moves by a vector of this squared L2 norm.

    as there;

    Parameters
    ----------
    epsilon : float
        TODO.
    delta : float
        TODO.
    norm_squared : object
        Above 0, an integer or a Fraction.

    Returns
    -------
    Fraction
        The sigma for integers that one unit moves by a vector of this squared L2 norm.

    Notes
    -----
    **Guarantee.** Rho = norm_squared / (2 sigma**2) (Canonne, Kamath and Steinke 2020, theorem 14)
    gives (epsilon, delta) by `concentrated_delta`. `gaussian_sigma` is lower where it applies.

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
    """The delta at this epsilon of discrete Gaussian noise, rounded up; see `gaussian_sigma`.

    Parameters
    ----------
    epsilon : float
        TODO.
    sigma : object
        TODO.
    change : int, default=1
        TODO.
    cells : int, default=1
        TODO.

    Returns
    -------
    float
        The delta at this epsilon of discrete Gaussian noise, rounded up; see `gaussian_sigma`.

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
    """The least epsilon at this delta of discrete Gaussian noise of this variance, rounded up.

    Parameters
    ----------
    delta : float
        TODO.
    variance : object
        TODO.
    change : int, default=1
        TODO.
    cells : int, default=1
        TODO.

    Returns
    -------
    float
        The least epsilon at this delta of discrete Gaussian noise of this variance, rounded up.
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
    """The epsilon of any loss at this delta, rounded up; infinite where it has none.

    Parameters
    ----------
    loss : Loss
        TODO.
    delta : float
        TODO.

    Returns
    -------
    float
        The epsilon of any loss at this delta, rounded up; infinite where it has none.

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
    """The delta at this epsilon of rho-zCDP; every order bounds it, a good one is looked for.

    Parameters
    ----------
    epsilon : float
        TODO.
    rho : float
        TODO.

    Returns
    -------
    float
        The delta at this epsilon of rho-zCDP; every order bounds it, a good one is looked for.

    References
    ----------
    .. [1] Canonne, Kamath and Steinke 2020, corollary 13: at an order a > 1, delta = exp((a - 1) (a
       rho - epsilon)) / (a - 1) (1 - 1 / a)**a.
    """

    def told(order: float) -> float:
        more = order - 1
        log = more * (order * rho - epsilon) - math.log(more) - order * math.log1p(1 / more)
        return log + abs(log) * 1e-12

    best = told(_best_order(told, rho))
    return min(1.0, math.exp(min(best, 0.0)) * ROUNDING + UNDERFLOW)


def concentrated_epsilon(delta: float, rho: float) -> float:
    """The epsilon at this delta of rho-zCDP: the same corollary, solved for epsilon.

    Parameters
    ----------
    delta : float
        TODO.
    rho : float
        TODO.

    Returns
    -------
    float
        The epsilon at this delta of rho-zCDP: the same corollary, solved for epsilon.
    """

    def told(order: float) -> float:
        more = order - 1
        fixed = -math.log(delta) - math.log(more) - order * math.log1p(1 / more)
        return order * rho + fixed / more

    return max(0.0, told(_best_order(told, rho)) * ROUNDING)


def _best_order(bound: Any, rho: float) -> float:
    """Near the order a of the least bound(a), by sections of the logarithm of a - 1.

    The best a - 1 grows from epsilon / (2 rho), so this interval holds it for all that matters;
    a worse order gives a larger bound, never a wrong one.
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
    if isinstance(delta, int | float) and delta == 0 and not isinstance(delta, bool):
        raise ValueError(
            f"{owner}: delta must be above 0: Gaussian noise has no pure epsilon. "
            "Use Laplace noise for delta 0."
        )
    return fraction.check(owner, "delta", delta)


@lru_cache(1024)
def _sigma(epsilon: float, delta: float, change: int, cells: int) -> Fraction:
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
    """Up to a multiple of the power of two that is 1/4096 to 1/2048 of sigma."""
    step = Fraction(2) ** (math.frexp(float(sigma))[1] - 12)
    return math.ceil(sigma / step) * step


@lru_cache(1024)
def _epsilon(delta: float, variance: Fraction, change: int, cells: int) -> float:
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
    return float(cells * change**2 / (2 * variance)) * UP


@lru_cache(4096)
def variance_delta(epsilon: float, variance: Fraction, change: int, cells: int) -> float:
    """`gaussian_delta` of the square of sigma, which need not have a rational root.

    Parameters
    ----------
    epsilon : float
        TODO.
    variance : Fraction
        TODO.
    change : int
        TODO.
    cells : int
        TODO.

    Returns
    -------
    float
        TODO.
    """
    # From here on one cell of the summed noise, moved by all the changes at once.
    shift, spread = cells * change, cells * variance
    threshold = Fraction(epsilon) * spread / shift - Fraction(shift, 2)
    first = max(math.floor(threshold) + 1, -math.ceil(REACH * math.sqrt(spread)))
    distribution = masses(variance, cells, first)
    # 1 - exp(epsilon - loss) grows and is concave in the point, so a block's mean is not above
    # its value at the middle; and the mass of a block is taken at its likeliest point.
    over = distribution.steps + (distribution.size - 1) / 2 + float(distribution.first - threshold)
    exact = float(-(distribution.weights * np.expm1(-float(shift / spread) * over)).sum())
    beyond = 4 * math.exp(-(REACH**2) / 2) * min(1.0, float(distribution.weights.sum()))
    exact = (exact + beyond) * ROUNDING + UNDERFLOW
    return min(1.0, exact, concentrated_delta(epsilon, _rho(variance, change, cells)))
