"""How many items an attacker can tell apart with so many nats: (3.12) to (3.15), corrected."""

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
    """(3.12), corrected: no test of one item that misses so few raises fewer false alarms.

    Thesis (3.12) drops the entropy of the miss rate: exp(-(information + h(miss_rate)) / (1 -
    miss_rate)) is a bound, and without h it is none. With nothing told, it would have every test
    raise an alarm always; a coin raises one at a rate of 1 - miss_rate.

    Parameters
    ----------
    information : object
        Nats of the single kind, from 0 up.
    miss_rate : object
        From 0 below 1.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** The least a with d(1 - miss_rate, a) <= information, d the divergence of two
    coins: no test tells more than what it looks at (data processing).

    Examples
    --------
    >>> least_false_positive_rate([0, 2], 0.1).round(4)
    array([0.9   , 0.0762])
    """
    log_rate = _log_least_rate("least_false_positive_rate", information, miss_rate)
    return np.asarray(np.exp(log_rate))


def any_false_positive(rate: Any, others: Any) -> np.ndarray:
    """(3.13): the chance that at least one of so many items outside the profile raises an alarm.

    Parameters
    ----------
    rate : object
        From 0 to 1.
    others : object
        N - c in the thesis, from 0 up.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** Exact for tests that err independently at one rate, as when the threshold is set
    for each release; where the rate varies with the release, an upper bound of its mean (Jensen).
    At most others times rate, and near it where that is small; nothing else need be small.

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
    """(3.14), corrected: the log of how many items outside the profile a single decoder can bear.

    Thesis (3.14) inherits the slip of (3.12), and takes the upper bound of (3.13) for a lower one.

    as of `least_false_positive_rate`;

    Parameters
    ----------
    information : object
        TODO.
    miss_rate : object
        TODO.
    alarm_rate : object
        Above 0 and below 1.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** With more of them, no test of one item at a time that misses a share of miss_rate
    keeps the chance of any false alarm at alarm_rate, where tests err as in `any_false_positive`. A
    decoder that puts all its alarms on few releases may bear more, up to misses of 1 - alarm_rate.

    Examples
    --------
    >>> round(float(np.exp(largest_catalogue(12, 0.1, 0.05))))
    45449
    """
    owner = "largest_catalogue"
    log_rate = _log_least_rate(owner, information, miss_rate)
    alarm = _open(owner, "alarm_rate", alarm_rate)
    # -log(1 - a) is a where a is far below what a float tells apart from 1.
    small = log_rate < -40
    with np.errstate(divide="ignore"):
        each = np.where(small, log_rate, np.log(-np.log1p(-np.exp(np.where(small, -1, log_rate)))))
    return np.asarray(np.log(-np.log1p(-alarm)) - each)


def largest_joint_catalogue(
    information: Any, size: Any, miss_rate: Any, alarm_rate: Any
) -> np.ndarray:
    """(3.15), corrected: the log of the largest catalogue that a joint decoder can bear.

    Thesis (3.15) has three slips: c log N for log(N choose c), twice as much at N = 1682 and c =
    106; log(alarm_rate) not divided by c with the rest, while profiles that share items err
    together and do not earn it; and that of (3.12).

    Parameters
    ----------
    information : object
        Nats of the joint kind about the whole profile.
    size : object
        Items of a profile, from 1 up; two rates from 0 up that add up to less than 1.
    miss_rate : object
        TODO.
    alarm_rate : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** With more items, no decoder whatever accepts the true profile but for a share of
    miss_rate, and any other one at most at alarm_rate, where all profiles of this size are equally
    likely (Fano: log(N choose size) <= (information + h(e)) / (1 - e), e the sum of both rates).

    Examples
    --------
    >>> round(float(np.exp(largest_joint_catalogue(78, 106, 0.1, 0.05))))
    153
    """
    from scipy.special import gammaln

    owner = "largest_joint_catalogue"
    size = within(owner, "size", size, 1)
    wrong = within(owner, "miss_rate", miss_rate, 0, 1) + within(
        owner, "alarm_rate", alarm_rate, 0, 1
    )
    wrong = within(owner, "miss_rate + alarm_rate", wrong, 0, BELOW_ONE)
    told = within(owner, "information", information, 0)
    most = (told + binary_entropy(wrong)) / (1 - wrong)

    def fits(log_items: np.ndarray) -> np.ndarray:
        items = np.exp(log_items)
        with np.errstate(invalid="ignore"):
            ways = gammaln(items + 1) - gammaln(items - size + 1) - gammaln(size + 1)
        # Far beyond, both logs are too large for a float to tell their difference.
        return np.asarray(
            np.where(log_items > 30, size * log_items - gammaln(size + 1), ways) <= most
        )

    low = np.broadcast_to(np.log(size), np.broadcast_shapes(size.shape, most.shape))
    return _last(fits, low, low + most / size)  # (N / c)**c <= (N choose c)


def _log_least_rate(owner: str, information: Any, miss_rate: Any) -> np.ndarray:
    """The log of the least rate, by bisection between what (3.12) should say and a coin's."""
    from scipy.special import xlogy

    told = within(owner, "information", information, 0)
    miss = within(owner, "miss_rate", miss_rate, 0, BELOW_ONE)
    hit = 1 - miss

    def too_far(log_rate: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            quiet = np.where(miss == 0, 0.0, miss * np.log1p(-np.exp(log_rate)))
        return np.asarray(xlogy(hit, hit) - hit * log_rate + xlogy(miss, miss) - quiet > told)

    low = -(told + binary_entropy(miss)) / hit
    return _last(too_far, low, np.broadcast_to(np.log(hit), low.shape))


def _last(holds: Callable[[np.ndarray], np.ndarray], low: Any, high: Any) -> np.ndarray:
    """The largest number from low to high up to which something holds, by bisection."""
    low, high = np.array(low, np.float64), np.array(high, np.float64)
    for _ in range(80):
        middle = (low + high) / 2
        yes = holds(middle)
        low, high = np.where(yes, middle, low), np.where(yes, high, middle)
    return np.asarray(high)


def _open(owner: str, name: str, values: Any) -> np.ndarray:
    given = within(owner, name, values, 0, BELOW_ONE)
    if not bool((given > 0).all()):
        raise ValueError(f"{owner}: {name} must be above 0.")
    return given
