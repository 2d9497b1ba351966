"""Exact noise distributions as integers: certified digits of every cumulative probability.

A distribution numbers its outcomes from 0. `floors(bits)` lists floor(2**bits CDF(k)) for each
outcome k, the last being the first outcome with CDF(k) > 1 - 2**-bits. The digits are certain: they
come from integer lower and upper bounds, computed again with more digits while the two disagree.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import count

from sfumato.privacy.noise.exact.reference import Bits

__all__ = [
    "Digit",
    "ExactDistribution",
    "HalfGaussian",
    "SignedDigit",
    "SizeOfLaplace",
    "exp_bounds",
]

Bounds = tuple[int, int]


class ExactDistribution:
    """Distribution on 0, 1, 2, ...; `_masses(digits)` bounds its masses, times 2**digits."""

    def _masses(self, digits: int) -> Iterator[Bounds]:
        """Yield integer bounds of the unnormalised masses times 2**digits."""
        raise NotImplementedError

    def _tail_bound(self, last: Bounds, digits: int) -> int | None:
        """Bound the sum of all later masses; None while that is not small."""
        raise NotImplementedError

    @lru_cache(8)  # noqa: B019  distributions are small values, and few
    def floors(self, bits: int) -> list[int]:
        """List floor(2**bits CDF(k)) for k = 0, 1, ... until that is 2**bits - 1, or 2**bits."""
        for guard in count(64, 64):
            found = self._certain(bits, bits + guard)
            if found is not None:
                return found
        raise AssertionError("unreachable")

    def resolve(self, prefix: int, bits: int, more: Bits) -> int:
        """Return the outcome of a uniform number with these first bits, drawing more as needed.

        With u those bits as a number: u < floor means that the number lies below CDF(k), u > floor
        that it lies above, and only u = floor leaves it undecided.
        """
        while True:
            floors = self.floors(bits)
            outcome = bisect_left(floors, prefix)
            if floors[outcome] != prefix:
                return outcome
            prefix, bits = prefix << 64 | more.take(64), bits + 64

    def _certain(self, bits: int, digits: int) -> list[int] | None:
        """Return the floors where `digits` digits decide them all, else None."""
        masses: list[Bounds] = []
        tail = None
        for mass in self._masses(digits):
            masses.append(mass)
            tail = self._tail_bound(mass, digits)
            if tail is not None:
                break
        least = sum(low for low, _ in masses)
        most = sum(high for _, high in masses) + (tail or 0)
        floors: list[int] = []
        below, above, top = 0, 0, 1 << bits
        for low, high in masses:
            below, above = below + low, above + high
            floor, ceiling = (below << bits) // most, (above << bits) // least
            if tail is not None:  # later outcomes have some mass, however little
                ceiling = min(ceiling, top - 1)
            elif len(floors) == len(masses) - 1:
                floor = ceiling = top
            if floor != ceiling:
                return None
            floors.append(floor)
            if floor >= top - 1:
                return floors
        return None


@dataclass(frozen=True)
class SizeOfLaplace(ExactDistribution):
    """Distribution of |k| for k with mass exp(-rate |k|): every outcome but 0 counts twice."""

    rate: Fraction

    def _masses(self, digits: int) -> Iterator[Bounds]:
        for k, (low, high) in enumerate(_powers(self.rate, digits)):
            yield (low, high) if k == 0 else (2 * low, 2 * high)

    def _tail_bound(self, last: Bounds, digits: int) -> int | None:
        return _geometric_tail(self.rate, last, digits)


@dataclass(frozen=True)
class Digit(ExactDistribution):
    """Distribution of k with mass exp(-rate k), below `base` if that is not 0: one digit.

    If k = base q + r has mass exp(-rate k) on 0, 1, ..., then q and r are independent.
    """

    rate: Fraction
    base: int = 0

    def _masses(self, digits: int) -> Iterator[Bounds]:
        for k, bounds in enumerate(_powers(self.rate, digits)):
            if k == self.base and self.base:
                return
            yield bounds

    def _tail_bound(self, last: Bounds, digits: int) -> int | None:
        return None if self.base else _geometric_tail(self.rate, last, digits)


@dataclass(frozen=True)
class SignedDigit(ExactDistribution):
    """Distribution of 2 r + s: the lowest digit r of a number k as in `Digit`, and a sign s.

    With P(s = 1) = x / (1 + x), x = exp(-rate), the number k or, where s is 1, -1 - k has mass
    proportional to exp(-rate |number|) on all integers.
    """

    rate: Fraction
    base: int

    def _masses(self, digits: int) -> Iterator[Bounds]:
        powers = _powers(self.rate, digits)
        here = next(powers)
        for _ in range(self.base):
            following = next(powers)
            yield here
            yield following
            here = following

    def _tail_bound(self, last: Bounds, digits: int) -> int | None:
        return None


@dataclass(frozen=True)
class HalfGaussian(ExactDistribution):
    """Mass exp(-k**2 / (2 variance)) on 0, 1, ...; if `both`, that of |k| on all integers."""

    variance: Fraction
    both: bool = True

    def _masses(self, digits: int) -> Iterator[Bounds]:
        step = exp_bounds(self._rate, digits)
        square = _times(step, step, digits)
        mass: Bounds = 1 << digits, 1 << digits
        yield mass
        while True:
            mass = _times(mass, step, digits)
            step = _times(step, square, digits)
            yield (2 * mass[0], 2 * mass[1]) if self.both else mass

    def _tail_bound(self, last: Bounds, digits: int) -> int | None:
        """Later masses fall faster than the first two do once k > 0."""
        return _geometric_tail(self._rate, last, digits)

    @cached_property
    def _rate(self) -> Fraction:
        """Minus the logarithm of the mass of 1 over that of 0."""
        return 1 / (2 * self.variance)


def exp_bounds(x: Fraction, digits: int) -> Bounds:
    """Return integers around 2**digits exp(-x), x >= 0, within a few units."""
    if x > digits:
        return 0, 1
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 9)
    inner = digits + halvings + 8
    small = (x.numerator << inner) // (x.denominator << halvings)  # below 2**-7
    total, term, terms = 1 << inner, 1 << inner, 0
    while term:
        terms += 1
        term = (term * small >> inner) // terms
        total += -term if terms % 2 else term
    # Every term is low by less than 2 units and one more for `small`; what is cut off is below 1.
    bounds = total - 3 * terms - 2, total + 3 * terms + 2
    for _ in range(halvings):
        bounds = _times(bounds, bounds, inner)
    return bounds[0] >> (inner - digits), -(-bounds[1] >> (inner - digits))


def _powers(rate: Fraction, digits: int) -> Iterator[Bounds]:
    """Yield bounds of 2**digits exp(-rate k) for k = 0, 1, ...."""
    factor = exp_bounds(rate, digits)
    power: Bounds = 1 << digits, 1 << digits
    while True:
        yield power
        power = _times(power, factor, digits)


def _times(one: Bounds, other: Bounds, digits: int) -> Bounds:
    """Multiply two bounded numbers of `digits` digits."""
    return one[0] * other[0] >> digits, -(-(one[1] * other[1]) >> digits)


def _geometric_tail(rate: Fraction, last: Bounds, digits: int) -> int | None:
    """Bound all masses after the last, each at most exp(-rate) times the previous one."""
    if last[0] >> 16:
        return None
    high = exp_bounds(rate, digits)[1]
    return -(-(last[1] << digits) // max((1 << digits) - high, 1))
