"""Rounding up: costs as floats that are never below the exact value."""

import math
from fractions import Fraction
from typing import Any

from sfumato.core.validation import Limit, between, positive

__all__ = ["COST", "DELTA", "LEAST", "MOST", "UP", "pure_rho", "round_up"]

UP = 1 + 2**-50  # floats of a few operations, rounded up for certain
LEAST, MOST = 1e-100, 1e100  # costs, rates and probabilities between these stay floats


class _Upward:
    """A limit whose floats are not below the fractions that were given."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit

    def check(self, owner: str, name: str, value: Any) -> float:
        number: float = self._limit.check(owner, name, value)
        below = not isinstance(value, float) and Fraction(number) < _exact(value)
        return math.nextafter(number, math.inf) if below else number

    def bad(self) -> list[Any]:
        return self._limit.bad()


def _exact(value: Any) -> Fraction:
    """A number of any type as a fraction; NumPy's floats are no rationals of Python."""
    ratio = getattr(value, "as_integer_ratio", None)
    return Fraction(value) if ratio is None else Fraction(*ratio())


COST, DELTA = _Upward(positive), _Upward(between(0, 1))


def pure_rho(epsilon: float) -> float:
    return min(epsilon, epsilon * epsilon / 2 * UP)


def round_up(exact: Fraction) -> float:
    """Return the nearest float that is not below; infinite where there is none."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
