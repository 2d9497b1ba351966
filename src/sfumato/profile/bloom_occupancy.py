"""How full a Bloom filter is: the share of its bits that are set, and what that says of its size.

Hashes are taken as independent and uniform: thesis 3.1.2 and 3.1.3.
"""

import math
from typing import Any

import numpy as np

__all__ = [
    "bit_shares",
    "codeword_share",
    "distinct",
    "noisy_share",
    "share_of_size",
    "size_of_share",
    "true_share",
]


def codeword_share(bits: int, hashes: int) -> float:
    """The chance that one item sets a given bit: (3.5).

    >>> codeword_share(5000, 20)
    0.003992...
    """
    return -math.expm1(hashes * float(_log_missed(bits)))


def share_of_size(size: Any, bits: Any, hashes: Any) -> Any:
    """The chance that a profile of so many items sets a given bit: (3.6).

    Where sizes vary, (3.8) is its mean over their law; the sum starts at an empty profile, which
    sets no bit. Numbers or arrays that go together.

    >>> float(share_of_size(106, 5000, 20))
    0.345...
    >>> chances = [0.5, 0.25, 0.25]  # of profiles of no item, of one and of two
    >>> float(chances @ share_of_size([0, 1, 2], 5000, 20))
    0.002990...
    """
    return -np.expm1(np.asarray(size, np.float64) * (hashes * _log_missed(bits)))[()]


def size_of_share(share: Any, bits: int, hashes: int) -> Any:
    """The size at which this share of the bits is set: (3.6) inverted; infinite at 1.

    >>> round(float(size_of_share(share_of_size(106, 5000, 20), 5000, 20)), 6)
    106.0
    """
    with np.errstate(divide="ignore"):
        empty = np.log1p(-np.minimum(np.asarray(share, np.float64), 1.0))
    return (empty / (hashes * _log_missed(bits)))[()]


def noisy_share(share: Any, flip: Any) -> Any:
    """The chance that a bit is set after flips of this probability: (3.7).

    >>> noisy_share(0.0, 0.25), noisy_share(1.0, 0.25)
    (0.25, 0.75)
    """
    return (1 - flip) * share + flip * (1 - share)


def true_share(share: Any, flip: float) -> Any:
    """The share before flips of this probability, unbiased: (3.9); NaN for fair coins."""
    if flip == 0.5:
        return np.asarray(share, np.float64)[()] * math.nan
    return (share - flip) / (1 - 2 * flip)


def distinct(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row with its different positions first, rising, and how many these are.

    >>> distinct(np.array([[4, 1, 4], [3, 2, 1]]))
    (array([[1, 4, 4],
           [1, 2, 3]]), array([2, 3]))
    """
    places = np.sort(positions, axis=1)
    again = np.zeros(places.shape, bool)
    again[:, 1:] = places[:, 1:] == places[:, :-1]
    order = np.argsort(again, axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1), places.shape[1] - again.sum(axis=1)


def bit_shares(prior: Any, positions: np.ndarray, bits: int) -> np.ndarray:
    """The chance of each bit to be set, when item i is in the profile with chance prior[i].

    Items are taken as independent: thesis 3.1.3, pi(l) = 1 - product of 1 - prior[i] over the items
    with a position at l.
    Parameters: prior, 0 to 1 an item; positions, of each item a row (N, hashes), where some may
    coincide; bits, of the filter.

    >>> bit_shares([0.5, 0.5], np.array([[0, 1], [1, 1]]), 3)
    array([0.5 , 0.75, 0.  ])
    """
    chances = np.asarray(prior, np.float64)
    if chances.shape != positions.shape[:1] or not ((chances >= 0) & (chances <= 1)).all():
        raise ValueError("bit_shares: prior must be a chance from 0 to 1 for each item.")
    places, counts = distinct(positions)
    once = np.arange(places.shape[1]) < counts[:, np.newaxis]
    with np.errstate(divide="ignore"):
        absent = np.log1p(-chances)
    weights = np.repeat(absent, counts)
    # exp(-inf) is 0: an item that is surely there sets its bits.
    return -np.expm1(np.bincount(places[once], weights, minlength=bits)) + 0.0


def _log_missed(bits: Any) -> np.ndarray:
    """The logarithm of the chance that one throw misses a given bit; very low if it is the only."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log1p(-1 / np.asarray(bits, np.float64)), -64.0)
