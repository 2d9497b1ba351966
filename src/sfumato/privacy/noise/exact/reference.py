"""Reference samplers: integers, rational numbers and random bits, one sample at a time.

Every decision is exact: no float occurs, and a probability that is not a multiple of 2**-64 takes
as many bits as it needs. Canonne, Kamath and Steinke 2020, Algorithms 1 to 3 (exact Bernoulli,
Laplace and Gaussian samplers).
"""

import math
from fractions import Fraction

import numpy as np

from sfumato.privacy.random_source import Source

__all__ = ["Bits", "bernoulli", "bernoulli_exp", "gaussian", "geometric_exp", "laplace"]


class Bits:
    """Uniform random integers from a source, through a small buffer of its words."""

    def __init__(self, source: Source) -> None:
        self._source, self._store = source, 1

    def take(self, count: int) -> int:
        """Return a uniform integer of `count` bits."""
        while self._store.bit_length() <= count:
            words = np.empty(64, np.uint64)
            self._source.fill(words)
            self._store = self._store << (64 * words.size) | int.from_bytes(words.tobytes(), "big")
        unused = self._store.bit_length() - 1 - count  # the highest bit only marks the length
        high = self._store >> unused
        self._store = self._store & ((1 << unused) - 1) | (1 << unused)
        return high & ((1 << count) - 1)

    def below(self, limit: int) -> int:
        """Return a uniform integer from 0 to limit - 1."""
        bits = (limit - 1).bit_length()
        while (number := self.take(bits)) >= limit:
            pass
        return number


def bernoulli(probability: Fraction, bits: Bits) -> bool:
    """Return True with this rational probability."""
    return bits.below(probability.denominator) < probability.numerator


def bernoulli_exp(gamma: Fraction, bits: Bits) -> bool:
    """Return True with probability exp(-gamma), gamma >= 0 (Algorithm 1)."""
    while gamma > 1:
        if not bernoulli_exp(Fraction(1), bits):
            return False
        gamma -= 1
    k = 1
    while bernoulli(gamma / k, bits):
        k += 1
    return k % 2 == 1


def geometric_exp(rate: Fraction, bits: Bits) -> int:
    """Sample k >= 0 with probability proportional to exp(-rate k)."""
    s, t = rate.numerator, rate.denominator
    while not bernoulli_exp(Fraction(low := bits.below(t), t), bits):
        pass
    high = 0
    while bernoulli_exp(Fraction(1), bits):
        high += 1
    return (low + t * high) // s


def laplace(scale: Fraction, bits: Bits) -> int:
    """Sample k with probability proportional to exp(-|k| / scale) (Algorithm 2)."""
    while True:
        negative, size = bits.take(1), geometric_exp(1 / scale, bits)
        if size or not negative:
            return -size if negative else size


def gaussian(variance: Fraction, bits: Bits) -> int:
    """Sample k with probability proportional to exp(-k**2 / (2 variance)) (Algorithm 3)."""
    t = _root(variance) + 1
    while True:
        y = laplace(Fraction(t), bits)
        if bernoulli_exp((abs(y) - variance / t) ** 2 / (2 * variance), bits):
            return y


def _root(value: Fraction) -> int:
    """Return the largest integer whose square is not above the value."""
    return math.isqrt(value.numerator // value.denominator)
