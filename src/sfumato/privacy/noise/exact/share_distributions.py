"""Exact distributions behind a noise share of discrete Laplace noise, with certified digits.

With x = exp(-1 / scale), the noise has the generating function (1 - x)**2 / ((1 - x z)(1 - x / z)).
Its n-th root is exp(mu (L(z) + L(1 / z) - 2) / 2) for mu = (2 / n) log(1 / (1 - x)) and
L(z) = log(1 - x z) / log(1 - x): a Poisson number of terms with mean mu, each with either
sign and a size k of mass proportional to x**k / k (Fisher's logarithmic distribution).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from sfumato.privacy.noise.exact.distributions import Bounds, ExactDistribution, exp_bounds

__all__ = ["LEADING", "NumberOfTerms", "SizeStrips", "strip"]

LEADING = 8  # bits that the numbers of a strip have in common, after their highest


@dataclass(frozen=True)
class NumberOfTerms(ExactDistribution):
    """k with mass mu**k / k!, where mu = (2 / shares) log(1 / (1 - exp(-rate)))."""

    rate: Fraction
    shares: int

    def _masses(self, digits: int) -> Iterator[Bounds]:
        low, high = self._mean(digits)
        mass, k = (1 << digits, 1 << digits), 0
        while True:
            yield mass
            k += 1
            mass = (mass[0] * low >> digits) // k, -((-mass[1] * high >> digits) // k)

    def _tail_bound(self, last: Bounds, digits: int) -> int | None:
        """Masses up to k = 2 mu are above 0.4; from there on each is less than half the last."""
        return None if last[0] >> 16 else last[1]

    def _mean(self, digits: int) -> Bounds:
        inner = digits + 64  # 1 - exp(-rate) may be as small as 2**-41
        low, high = exp_bounds(self.rate, inner)
        one = 1 << inner
        most = minus_log_bounds(max(one - high, 1), inner)[1]
        least = minus_log_bounds(min(one - low, one), inner)[0]
        return 2 * least // (self.shares << 64), -(-2 * most // (self.shares << 64))


@dataclass(frozen=True)
class SizeStrips(ExactDistribution):
    """Strips of sizes: that of outcome i begins at `strip(i)` and weighs width x**first / first.

    Every number of a strip thus weighs as much as its first, the heaviest; x = exp(-rate).
    """

    rate: Fraction

    def _masses(self, digits: int) -> Iterator[Bounds]:
        step = exp_bounds(self.rate, digits)
        power, exponent, i = (1 << digits, 1 << digits), 0, 0
        while True:
            first, here = strip(i)
            while exponent < here:
                step, exponent = _times(step, step, digits), exponent + 1
            lead = first >> exponent
            yield power[0] // lead, -(-power[1] // lead)
            power, i = _times(power, step, digits), i + 1

    def _tail_bound(self, last: Bounds, digits: int) -> int | None:
        """Masses so small begin past 70 scales, where a strip is wider than an eighth of a scale.

        Each is then below 0.89 of the one before, but for the next to begin with a power of two,
        which is below twice that: all of them together are below 32 times the last.
        """
        return None if last[0] >> 16 else 32 * last[1]


def strip(outcome: int) -> tuple[int, int]:
    """Return the first number of a strip, and the exponent of its width, a power of two."""
    code, base = outcome + 1, 1 << LEADING
    exponent = max((code >> LEADING) - 1, 0)
    lead = code if code < base else (code & (base - 1)) + base
    return lead << exponent, exponent


def minus_log_bounds(number: int, digits: int) -> Bounds:
    """Integers around -log(number / 2**digits) 2**digits, for a number from 1 to 2**digits.

    With number = z 2**(bits - 1), 1 <= z < 2: log z = 2 artanh((z - 1) / (z + 1)), and log 2 is
    2 artanh(1 / 3).
    """
    bits = number.bit_length()
    twos = digits + 1 - bits
    one = 1 << (bits - 1)
    rest = _twice_artanh(number - one, number + one, digits)
    two = _twice_artanh(1, 3, digits)
    return max(twos * two[0] - rest[1], 0), max(twos * two[1] - rest[0], 0)


def _twice_artanh(above: int, below: int, digits: int) -> Bounds:
    """Around 2 artanh(t) 2**digits for t = above / below from 0 to 1/3."""
    inner = digits + 16
    t = (above << inner) // below
    square = t * t >> inner
    total, power, odd = 0, t, 1
    while power:
        total += power // odd
        power, odd = power * square >> inner, odd + 2
    # A term is low by less than 4 units: t, the square and two floors; the rest is below 2.
    return 2 * total >> 16, (2 * (total + 4 * odd + 2) >> 16) + 1


def _times(one: Bounds, other: Bounds, digits: int) -> Bounds:
    return one[0] * other[0] >> digits, -(-(one[1] * other[1]) >> digits)
