"""The reference samplers: integers, rational numbers and random bits, one sample at a time.

Every decision is exact: no float occurs, and a probability that is not an integer of 2**-64
takes as many bits as it needs. Canonne, Kamath and Steinke 2020, algorithms 1 to 3.
"""

import math
from fractions import Fraction

import numpy as np

from sfumato.privacy.random_source import Source

__all__ = ["Bits", "bernoulli", "bernoulli_exp", "gaussian", "geometric_exp", "laplace"]


class Bits:
    """Whole random numbers out of a source, from a small store of its words."""

    def __init__(self, source: Source) -> None:
        self._source, self._store = source, 1

    def take(self, count: int) -> int:
        """A uniform number of so many bits."""
        while self._store.bit_length() <= count:
            words = np.empty(64, np.uint64)
            self._source.fill(words)
            self._store = self._store << (64 * words.size) | int.from_bytes(words.tobytes(), "big")
        rest = self._store.bit_length() - 1 - count  # the highest bit only marks the length
        high = self._store >> rest
        self._store = self._store & ((1 << rest) - 1) | (1 << rest)
        return high & ((1 << count) - 1)

    def below(self, limit: int) -> int:
        """A uniform number from 0 to limit - 1."""
        bits = (limit - 1).bit_length()
        while (number := self.take(bits)) >= limit:
            pass
        return number


def bernoulli(chance: Fraction, bits: Bits) -> bool:
    """True with this rational chance."""
    return bits.below(chance.denominator) < chance.numerator


def bernoulli_exp(gamma: Fraction, bits: Bits) -> bool:
    """True with chance exp(-gamma), gamma >= 0 (algorithm 1)."""
    while gamma > 1:
        if not bernoulli_exp(Fraction(1), bits):
            return False
        gamma -= 1
    k = 1
    while bernoulli(gamma / k, bits):
        k += 1
    return k % 2 == 1


def geometric_exp(rate: Fraction, bits: Bits) -> int:
    """k >= 0 with chance proportional to exp(-rate k)."""
    s, t = rate.numerator, rate.denominator
    while not bernoulli_exp(Fraction(low := bits.below(t), t), bits):
        pass
    high = 0
    while bernoulli_exp(Fraction(1), bits):
        high += 1
    return (low + t * high) // s


def laplace(scale: Fraction, bits: Bits) -> int:
    """k with chance proportional to exp(-|k| / scale) (algorithm 2)."""
    while True:
        negative, size = bits.take(1), geometric_exp(1 / scale, bits)
        if size or not negative:
            return -size if negative else size


def gaussian(variance: Fraction, bits: Bits) -> int:
    """k with chance proportional to exp(-k**2 / (2 variance)) (algorithm 3)."""
    t = _root(variance) + 1
    while True:
        y = laplace(Fraction(t), bits)
        if bernoulli_exp((abs(y) - variance / t) ** 2 / (2 * variance), bits):
            return y


def _root(value: Fraction) -> int:
    """The largest integer whose square is not above the value."""
    return math.isqrt(value.numerator // value.denominator)
