"""What a parameter may be, declared once: the check, its sentence, and values that must fail it."""

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

__all__ = [
    "Limit",
    "between",
    "flag",
    "fraction",
    "one_of",
    "optional",
    "positive",
    "rational",
    "whole",
]


class Limit(Protocol):
    """A declared limit: `check` returns the value in its plain type or raises ValueError."""

    def check(self, owner: str, name: str, value: Any) -> Any: ...

    def bad(self) -> list[Any]: ...


def _refuse(owner: str, name: str, wanted: str, value: Any) -> ValueError:
    return ValueError(f"{owner}: {name} must be {wanted}, not {value!r}.")


@dataclass(frozen=True)
class whole:
    """A whole number from low to high, both included."""

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
        return f"a whole number {top}"


@dataclass(frozen=True)
class _Real:
    low: float
    high: float
    wanted: str

    def check(self, owner: str, name: str, value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise _refuse(owner, name, self.wanted, value) from None
        if isinstance(value, bool | str) or not self.low < number < self.high:
            raise _refuse(owner, name, self.wanted, value)
        return number

    def bad(self) -> list[Any]:
        return [self.low, self.high, math.nan, -math.inf, "much", None, True]


fraction = _Real(0.0, 1.0, "a number between 0 and 1, both excluded")
positive = _Real(0.0, math.inf, "a finite number above 0")


@dataclass(frozen=True)
class between:
    """A number from low, included, to high, excluded: a delta, or a rate."""

    low: float
    high: float

    def check(self, owner: str, name: str, value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if isinstance(value, bool | str) or not self.low <= number < self.high:
            wanted = f"a number from {self.low:g} to {self.high:g}, {self.high:g} excluded"
            raise _refuse(owner, name, wanted, value)
        return number

    def bad(self) -> list[Any]:
        return [self.low - 1, self.high, math.nan, math.inf, "much", None, True]


@dataclass(frozen=True)
class _Rational:
    def check(self, owner: str, name: str, value: Any) -> Fraction:
        try:
            number = Fraction(value)
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            raise _refuse(owner, name, self._wanted(), value) from None
        if isinstance(value, bool) or not number > 0:
            raise _refuse(owner, name, self._wanted(), value)
        return number

    def bad(self) -> list[Any]:
        return [0, -1, math.nan, math.inf, "much", None, True]

    def _wanted(self) -> str:
        return "a finite number above 0 (a float is taken exactly as it is, or give a Fraction)"


rational = _Rational()


@dataclass(frozen=True)
class one_of:
    """One of the named choices."""

    choices: tuple[str, ...]

    def check(self, owner: str, name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in self.choices:
            raise _refuse(owner, name, "one of " + ", ".join(map(repr, self.choices)), value)
        return value

    def bad(self) -> list[Any]:
        return ["no such choice", "", None, 1]


@dataclass(frozen=True)
class optional:
    """What another limit lets through, or None."""

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


flag = _Flag()
