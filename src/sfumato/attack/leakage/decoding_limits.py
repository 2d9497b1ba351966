"""Limits of decoding: lowest error rates and largest catalogues, (3.12) to (3.15), corrected."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.attack.numerics import binary_entropy, within

__all__ = [
    "any_false_positive",
    "largest_catalogue",
    "largest_joint_catalogue",
    "least_false_positive_rate",
]

BELOW_ONE = 1 - 2**-53


def least_false_positive_rate(information: Any, miss_rate: Any) -> np.ndarray:
    """Compute the lowest false-positive rate of any test of one item.

    Parameters
    ----------
    information : array_like
        Information about one item, in nats, at least 0 (see `blip_single`, `jlt_single`).
    miss_rate : array_like
        False-negative rate of the test, at least 0 and below 1.

    Returns
    -------
    ndarray
        The smallest false-positive rate, from 0 to 1, in the broadcast shape of the arguments.

    Notes
    -----
    **Guarantee.** No test with this miss rate has a lower false-positive rate. The value is the
    smallest a with d(1 - miss_rate, a) <= information, where d is the divergence of two Bernoulli
    distributions (data-processing inequality).

    The bound on the false-positive rate of the thesis, equation (3.12), omits the binary entropy h
    of the miss rate. exp(-(information + h(miss_rate)) / (1 - miss_rate)) is a valid lower bound;
    without h it is not: at information 0 it would require a false-positive rate of 1, while a test
    that guesses at random achieves 1 - miss_rate.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.12) (lowest false-positive rate), corrected.
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> least_false_positive_rate([0, 2], 0.1).round(4)
    array([0.9   , 0.0762])
    """
    log_rate = _log_least_rate("least_false_positive_rate", information, miss_rate)
    return np.asarray(np.exp(log_rate))


def any_false_positive(rate: Any, others: Any) -> np.ndarray:
    """Compute the probability that at least one absent item is accepted.

    Parameters
    ----------
    rate : array_like
        False-positive rate of the test of one item, from 0 to 1.
    others : array_like
        Number of items outside the profile (N - c in the thesis), at least 0.

    Returns
    -------
    ndarray
        1 - (1 - rate)**others, in the broadcast shape of the arguments.

    Notes
    -----
    **Guarantee.** Exact for tests that err independently at one rate, as when the threshold is set
    for each release. If the rate varies between releases, it is an upper bound on the mean
    (Jensen's inequality). It is at most others * rate, and close to it where that product is small.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.13) (probability of any false positive).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> any_false_positive(1e-4, [0, 1000]).round(4)
    array([0.    , 0.0952])
    """
    rate = within("any_false_positive", "rate", rate, 0, 1)
    others = within("any_false_positive", "others", others, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        none = others * np.log1p(-rate)
    return np.abs(np.expm1(np.where(others == 0, 0.0, none)))


def largest_catalogue(information: Any, miss_rate: Any, alarm_rate: Any) -> np.ndarray:
    """Compute the log of the largest catalogue that a single decoder can search.

    Parameters
    ----------
    information : array_like
        Information about one item, in nats, at least 0.
    miss_rate : array_like
        False-negative rate of the test of one item, at least 0 and below 1.
    alarm_rate : array_like
        Allowed probability of any false positive in the catalogue, above 0 and below 1.

    Returns
    -------
    ndarray
        Natural logarithm of the largest number of items outside the profile.

    Notes
    -----
    **Guarantee.** With more items, no test of one item at a time with this miss rate keeps the
    probability of any false positive at or below `alarm_rate`, if its tests err as in
    `any_false_positive`. A decoder that concentrates its false positives on few releases may search
    a larger catalogue, up to miss rates of 1 - alarm_rate.

    The catalogue bound of the thesis, equation (3.14), inherits the omission in its bound on the
    false-positive rate, (3.12), and uses the upper bound (3.13) as a lower bound.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.14) (largest catalogue, single decoder),
       corrected. https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> round(float(np.exp(largest_catalogue(12, 0.1, 0.05))))
    45449
    """
    owner = "largest_catalogue"
    log_rate = _log_least_rate(owner, information, miss_rate)
    alarm = _open(owner, "alarm_rate", alarm_rate)
    # -log(1 - a) equals a in float64 where 1 - a rounds to 1.
    small = log_rate < -40
    with np.errstate(divide="ignore"):
        each = np.where(small, log_rate, np.log(-np.log1p(-np.exp(np.where(small, -1, log_rate)))))
    return np.asarray(np.log(-np.log1p(-alarm)) - each)


def largest_joint_catalogue(
    information: Any, size: Any, miss_rate: Any, alarm_rate: Any
) -> np.ndarray:
    """Compute the log of the largest catalogue that a joint decoder can search.

    Parameters
    ----------
    information : array_like
        Information about the entire profile, in nats, at least 0 (see `blip_joint`, `jlt_joint`).
    size : array_like
        Number of items in a profile, at least 1.
    miss_rate : array_like
        Rate at which the true profile is rejected, at least 0.
    alarm_rate : array_like
        Rate at which another profile is accepted, at least 0; `miss_rate + alarm_rate` is below 1.

    Returns
    -------
    ndarray
        Natural logarithm of the largest number of items.

    Notes
    -----
    **Guarantee.** With more items, no decoder rejects the true profile at a rate of at most
    `miss_rate` and accepts another one at a rate of at most `alarm_rate`, if all profiles of this
    size are equally likely. By Fano's inequality, log(N choose size) <= (information + h(e)) / (1 -
    e), where e is the sum of both rates and h the binary entropy.

    The joint catalogue bound of the thesis, equation (3.15), has three errors: it uses c log N for
    log(N choose c), twice as much at N = 1682 and c = 106; it does not divide log(alarm_rate) by c
    with the other terms, though profiles with common items err together; and it inherits the
    omission in the bound on the false-positive rate, (3.12).

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.15) (largest catalogue, joint decoder),
       corrected. https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> round(float(np.exp(largest_joint_catalogue(78, 106, 0.1, 0.05))))
    153
    """
    from scipy.special import gammaln

    owner = "largest_joint_catalogue"
    size = within(owner, "size", size, 1)
    error = within(owner, "miss_rate", miss_rate, 0, 1) + within(
        owner, "alarm_rate", alarm_rate, 0, 1
    )
    error = within(owner, "miss_rate + alarm_rate", error, 0, BELOW_ONE)
    nats = within(owner, "information", information, 0)
    most = (nats + binary_entropy(error)) / (1 - error)

    def fits(log_items: np.ndarray) -> np.ndarray:
        items = np.exp(log_items)
        with np.errstate(invalid="ignore"):
            ways = gammaln(items + 1) - gammaln(items - size + 1) - gammaln(size + 1)
        # For huge catalogues the difference of the two log-gammas is lost to rounding.
        return np.asarray(
            np.where(log_items > 30, size * log_items - gammaln(size + 1), ways) <= most
        )

    low = np.broadcast_to(np.log(size), np.broadcast_shapes(size.shape, most.shape))
    return _last(fits, low, low + most / size)  # (N / c)**c <= (N choose c)


def _log_least_rate(owner: str, information: Any, miss_rate: Any) -> np.ndarray:
    """Log of the lowest false-positive rate, by bisection up to the rate of random guessing."""
    from scipy.special import xlogy

    nats = within(owner, "information", information, 0)
    miss = within(owner, "miss_rate", miss_rate, 0, BELOW_ONE)
    hit = 1 - miss

    def too_far(log_rate: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            quiet = np.where(miss == 0, 0.0, miss * np.log1p(-np.exp(log_rate)))
        return np.asarray(xlogy(hit, hit) - hit * log_rate + xlogy(miss, miss) - quiet > nats)

    low = -(nats + binary_entropy(miss)) / hit
    return _last(too_far, low, np.broadcast_to(np.log(hit), low.shape))


def _last(condition: Callable[[np.ndarray], np.ndarray], low: Any, high: Any) -> np.ndarray:
    """Largest number from low to high up to which the condition is true, by bisection."""
    low, high = np.array(low, np.float64), np.array(high, np.float64)
    for _ in range(80):
        middle = (low + high) / 2
        yes = condition(middle)
        low, high = np.where(yes, middle, low), np.where(yes, high, middle)
    return np.asarray(high)


def _open(owner: str, name: str, values: Any) -> np.ndarray:
    """Values as float64, checked to be above 0 and below 1."""
    given = within(owner, name, values, 0, BELOW_ONE)
    if not bool((given > 0).all()):
        raise ValueError(f"{owner}: {name} must be above 0.")
    return given
