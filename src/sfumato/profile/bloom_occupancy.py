"""Expected fill of a Bloom filter, and the number of items that a fill implies.

Hash functions are modelled as independent and uniform: thesis, sections 3.1.2 and 3.1.3.
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
    """Probability that one item sets a given bit: thesis, equation (3.5).

    >>> codeword_share(5000, 20)
    0.003992...
    """
    return -math.expm1(hashes * float(_log_missed(bits)))


def share_of_size(size: Any, bits: Any, hashes: Any) -> Any:
    """Probability that a profile of `size` items sets a given bit: thesis, equation (3.6).

    Numbers or arrays that broadcast. Where sizes vary, equation (3.8) is the mean over their
    distribution; that sum includes the empty profile, which sets no bit.

    >>> float(share_of_size(106, 5000, 20))
    0.345...
    >>> probabilities = [0.5, 0.25, 0.25]  # of profiles of 0, 1 and 2 items
    >>> float(probabilities @ share_of_size([0, 1, 2], 5000, 20))
    0.002990...
    """
    return -np.expm1(np.asarray(size, np.float64) * (hashes * _log_missed(bits)))[()]


def size_of_share(share: Any, bits: int, hashes: int) -> Any:
    """Number of items at which this fraction of bits is set; infinite at 1.

    Thesis, equation (3.6) (occupancy of a profile), inverted.

    >>> round(float(size_of_share(share_of_size(106, 5000, 20), 5000, 20)), 6)
    106.0
    """
    with np.errstate(divide="ignore"):
        empty = np.log1p(-np.minimum(np.asarray(share, np.float64), 1.0))
    return (empty / (hashes * _log_missed(bits)))[()]


def noisy_share(share: Any, flip: Any) -> Any:
    """Probability that a bit is set after flips with probability `flip`: thesis, equation (3.7).

    >>> noisy_share(0.0, 0.25), noisy_share(1.0, 0.25)
    (0.25, 0.75)
    """
    return (1 - flip) * share + flip * (1 - share)


def true_share(share: Any, flip: float) -> Any:
    """Unbiased fraction of bits set before the flips: thesis, equation (3.9); NaN at flip 1/2."""
    if flip == 0.5:
        return np.asarray(share, np.float64)[()] * math.nan
    return (share - flip) / (1 - 2 * flip)


def distinct(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort each row with its distinct positions first, and count these.

    >>> distinct(np.array([[4, 1, 4], [3, 2, 1]]))
    (array([[1, 4, 4],
           [1, 2, 3]]), array([2, 3]))
    """
    ordered = np.sort(positions, axis=1)
    again = np.zeros(ordered.shape, bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    order = np.argsort(again, axis=1, kind="stable")
    return np.take_along_axis(ordered, order, axis=1), ordered.shape[1] - again.sum(axis=1)


def bit_shares(prior: Any, positions: np.ndarray, bits: int) -> np.ndarray:
    """Probability of each bit to be set when item i is in the profile with probability prior[i].

    Items are modelled as independent (thesis, section 3.1.3): pi(l) = 1 - product of 1 - prior[i]
    over the items with a position at l. `positions` has shape (items, hashes); the positions of an
    item may coincide.

    >>> bit_shares([0.5, 0.5], np.array([[0, 1], [1, 1]]), 3)
    array([0.5 , 0.75, 0.  ])
    """
    probabilities = np.asarray(prior, np.float64)
    valid = (probabilities >= 0) & (probabilities <= 1)
    if probabilities.shape != positions.shape[:1] or not valid.all():
        raise ValueError("bit_shares: prior must be a probability from 0 to 1 for each item.")
    ordered, counts = distinct(positions)
    once = np.arange(ordered.shape[1]) < counts[:, np.newaxis]
    with np.errstate(divide="ignore"):
        absent = np.log1p(-probabilities)
    weights = np.repeat(absent, counts)
    # exp(-inf) is 0: an item of prior 1 sets its bits for certain.
    return -np.expm1(np.bincount(ordered[once], weights, minlength=bits)) + 0.0


def _log_missed(bits: Any) -> np.ndarray:
    """Log-probability that one hash misses a given bit, floored at -64 for a filter of one bit."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log1p(-1 / np.asarray(bits, np.float64)), -64.0)
