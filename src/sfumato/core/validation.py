"""Limits of parameters, declared once: the check, its error message, and values that must fail it.

Also the one interpretation of `random_state`.
"""

import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np

from sfumato.errors import ParameterError

__all__ = [
    "DELTA",
    "RANDOM_STATE",
    "Limit",
    "RandomState",
    "between",
    "check_random_state",
    "checked",
    "checked_values",
    "flag",
    "fraction",
    "integer",
    "number",
    "one_of",
    "optional",
    "positive",
    "power_of_two",
    "random_seed",
    "rational",
]

RandomState: TypeAlias = "int | np.random.Generator | np.random.RandomState | None"

_NO_NUMBER = (bool, np.bool_, str, bytes)  # though float() takes them


class Limit(Protocol):
    """A declared limit: `check` returns the value in its plain type or raises ParameterError."""

    def check(self, owner: str, name: str, value: Any) -> Any: ...

    def bad(self) -> list[Any]: ...


def checked(record: Any, limits: Mapping[str, Limit]) -> None:
    """Check a frozen dataclass's fields in `__post_init__`; store each in its plain type."""
    for name, limit in limits.items():
        value = limit.check(type(record).__name__, name, getattr(record, name))
        object.__setattr__(record, name, value)


def checked_values(
    owner: str, limits: Mapping[str, Limit], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Check each value against its limit; return them in their plain types."""
    return {name: limit.check(owner, name, values[name]) for name, limit in limits.items()}


def _refuse(owner: str, name: str, wanted: str, value: Any) -> ParameterError:
    return ParameterError.of(owner, name, f"must be {wanted}, not {value!r:.200}.")


@dataclass(frozen=True)
class integer:
    """An integer from `low` to `high`, both included."""

    low: int
    high: int = 2**63 - 1

    def check(self, owner: str, name: str, value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise _refuse(owner, name, self._wanted(), value) from None
        if isinstance(value, bool) or not self.low <= number <= self.high:
            raise _refuse(owner, name, self._wanted(), value)
        return number

    def bad(self) -> list[Any]:
        return [self.low - 1, self.high + 1, self.low + 0.5, "many", None, True, math.nan]

    def _wanted(self) -> str:
        top = f"from {self.low} up" if self.high >= 2**63 - 1 else f"from {self.low} to {self.high}"
        return f"an integer {top}"


@dataclass(frozen=True)
class between:
    """A number from `low` to below `high`; `above=True` excludes `low` too."""

    low: float
    high: float
    above: bool = False

    def check(self, owner: str, name: str, value: Any) -> float:
        try:
            number = math.nan if isinstance(value, _NO_NUMBER) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not self.low <= number < self.high or (self.above and number == self.low):
            raise _refuse(owner, name, self._wanted(), value)
        return number

    def bad(self) -> list[Any]:
        low = self.low if self.above else self.low - 1
        return [low, self.high, math.nan, math.inf, -math.inf, "much", None, True]

    def _wanted(self) -> str:
        if self.high == math.inf:
            return (
                f"a finite number above {self.low}"
                if self.above
                else f"a number from {self.low} up"
            )
        last = math.nextafter(self.high, -math.inf)
        if self.above and last.is_integer() and not float(self.high).is_integer():
            return f"a number above {self.low}, up to {last:g}"
        if self.above:
            return f"a number between {self.low} and {self.high}, both excluded"
        return f"a number from {self.low} to {self.high}, {self.high} excluded"


fraction: between = between(0, 1, above=True)
positive: between = between(0, math.inf, above=True)
DELTA = between(0, 1)


def _exactly(value: Any) -> Fraction | None:
    """The exact value in Python integers (NumPy's would wrap), or None if it is not a number."""
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, str) and re.search(r"[eE][+-]?[0-9_]{4}", value):
        return None  # "1e999999999" would be a number of a billion digits
    try:
        number = Fraction(value.item() if isinstance(value, np.generic) else value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        return None
    return Fraction(int(number.numerator), int(number.denominator))


class _Rational:
    def check(self, owner: str, name: str, value: Any) -> Fraction:
        number = _exactly(value)
        if number is None or number <= 0:
            wanted = (
                "a finite number above 0 (a float is taken exactly as it is, or give a Fraction)"
            )
            raise _refuse(owner, name, wanted, value)
        return number

    def bad(self) -> list[Any]:
        return [0, -1, math.nan, math.inf, "much", "1/0", "1e999999999", None, True]


class _Number:
    def check(self, owner: str, name: str, value: Any) -> Fraction:
        number = None if isinstance(value, str) else _exactly(value)
        if number is None or abs(number) > 2**53:
            raise _refuse(owner, name, "a number within 2**53", value)
        return number

    def bad(self) -> list[Any]:
        return [math.nan, math.inf, -math.inf, 2.0**54, "much", "1/0", None, False, True]


class _PowerOfTwo:
    def check(self, owner: str, name: str, value: Any) -> Fraction:
        step = None if isinstance(value, str) else _exactly(value)
        if step is None or step <= 0 or any(n & (n - 1) for n in step.as_integer_ratio()):
            wanted = "a power of two, as 0.25 or 2**-10, so that rounding is exact"
            raise _refuse(owner, name, wanted, value)
        return step

    def bad(self) -> list[Any]:
        return [0, -0.5, 0.1, 3, math.nan, math.inf, "much", None, True]


rational: _Rational = _Rational()  # above 0, taken exactly
number: _Number = _Number()  # of either sign, within 2**53, taken exactly
power_of_two: _PowerOfTwo = _PowerOfTwo()  # 1, 2, 4 or 1/2, 1/4 and so on


@dataclass(frozen=True)
class one_of:
    """A string among `choices`."""

    choices: tuple[str, ...]

    def check(self, owner: str, name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in self.choices:
            raise _refuse(owner, name, "one of " + ", ".join(map(repr, self.choices)), value)
        return value

    def bad(self) -> list[Any]:
        return ["no such choice", "", None, 1]


@dataclass(frozen=True)
class optional:
    """None, or a value that satisfies another limit."""

    limit: Limit

    def check(self, owner: str, name: str, value: Any) -> Any:
        return None if value is None else self.limit.check(owner, name, value)

    def bad(self) -> list[Any]:
        return [value for value in self.limit.bad() if value is not None]


class _Flag:
    def check(self, owner: str, name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise _refuse(owner, name, "True or False", value)
        return value

    def bad(self) -> list[Any]:
        return [None, 1, "yes"]


flag: _Flag = _Flag()


class _RandomState:
    """An integer, a NumPy generator, or None."""

    def check(self, owner: str, name: str, value: Any) -> Any:
        if value is None:
            return None
        try:
            return integer(0, 2**64 - 1).check(owner, name, value)
        except ValueError:  # tested last: naming numpy.random imports it
            if isinstance(value, np.random.Generator | np.random.RandomState):
                return value
            wanted = "an integer from 0 to 2**64 - 1, a numpy.random.Generator or None"
            raise _refuse(owner, name, wanted, value) from None

    def bad(self) -> list[Any]:
        return [-1, 2**64, 0.5, "seed", True]


RANDOM_STATE = _RandomState()


def check_random_state(owner: str, random_state: RandomState) -> np.random.Generator:
    """Return the generator that a `random_state` parameter specifies, as in scikit-learn.

    Parameters
    ----------
    owner : str
        Name of the class or function for error messages.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        A non-negative integer gives the same stream on every call. A generator is used itself, so
        its state advances. None gives a fresh stream.

    Returns
    -------
    numpy.random.Generator
        For an integer, `numpy.random.default_rng(random_state)`.

    Examples
    --------
    >>> check_random_state("shuffle", 7).permutation(5)
    array([2, 0, 4, 1, 3])
    """
    state = RANDOM_STATE.check(owner, "random_state", random_state)
    if isinstance(state, np.random.RandomState):
        return np.random.default_rng(state.randint(2**31, size=4))
    return np.random.default_rng(state)


def random_seed(owner: str, random_state: RandomState) -> int:
    """Return one integer seed from which all random streams of a call are derived.

    Parameters
    ----------
    owner : str
        Name of the class or function for error messages.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        As in `check_random_state`.

    Returns
    -------
    int
        The given integer, or one below 2**32 drawn from the generator.

    Examples
    --------
    >>> random_seed("split", 7)
    7
    """
    state = RANDOM_STATE.check(owner, "random_state", random_state)
    return (
        state if isinstance(state, int) else int(check_random_state(owner, state).integers(2**32))
    )
