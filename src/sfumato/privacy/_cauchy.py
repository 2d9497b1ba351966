"""Discrete Cauchy noise: exact sampling, and what a change of its place and its scale costs."""

import math
from fractions import Fraction

import numpy as np

from sfumato.privacy._cks import Bits

__all__ = ["cauchy", "scale_cost", "shift_cost"]


def cauchy(scale: Fraction, bits: Bits) -> int:
    """A whole number k with chance proportional to 1 / (scale**2 + k**2).

    By rejection from blocks on which the envelope is flat: block 0 holds 0 to m - 1 and block j the
    numbers from m 2**(j-1) to m 2**j - 1, with m = ceil(scale). Their envelopes are 1 / scale**2
    and 1 / (m 2**(j-1))**2, so block 0 has the share m**2 / (m**2 + 2 scale**2) and every further
    block half of what is left. All chances are ratios of whole numbers.
    """
    m = math.ceil(scale)
    s, t = scale.numerator**2, scale.denominator**2
    while True:
        start, width, over = 0, m, s
        if bits.below(m * m * t + 2 * s) >= m * m * t:
            start = width = m << _halvings(bits)
            over = t * start * start
        k = start + bits.below(width)
        negative = bits.take(1)
        if bits.below(s + t * k * k) < over and (k or not negative):
            return -k if negative else k


def _halvings(bits: Bits) -> int:
    count = 0
    while bits.take(1):
        count += 1
    return count


def shift_cost(change: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The largest log-ratio of two laws of one scale whose places differ by so much.

    The largest value of (1 + (u - d)**2) / (1 + u**2) over all u, with d = change / scale, is
    (d/2 + sqrt(1 + d**2/4))**2.
    """
    return np.asarray(2 * np.arcsinh(change / scale / 2))


def scale_cost(scale: np.ndarray, larger: np.ndarray) -> np.ndarray:
    """The largest log-ratio, either way round, of two laws of one place and of these scales.

    The weights differ by a factor from 1 to (larger / scale)**2, the normalisers
    (pi / b) coth(pi b) by a factor z; so the log-ratio is at most 2 log(larger / scale) - log z one
    way round and log z the other.
    """
    ratio = np.log(larger / scale)
    normaliser = ratio + np.log(np.tanh(np.pi * larger) / np.tanh(np.pi * scale))
    return np.asarray(np.maximum(normaliser, 2 * ratio - normaliser))
