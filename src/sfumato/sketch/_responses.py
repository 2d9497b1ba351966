"""Releases by randomised response: what answers, and what the answers say, undone."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any, Literal

from sfumato._require import fraction
from sfumato.privacy.loss import Flips, Loss
from sfumato.privacy.response import GRID, BinaryResponse, KaryResponse
from sfumato.privacy.statement import PrivacyStatement
from sfumato.sketch._release import Release, Terms

__all__ = ["_Answered", "bits_answered", "chance_of", "limits", "symbols_answered"]

LARGEST = 2.0**64  # no set has more keys

Law = Callable[[float], tuple[float, float]]


class _Answered(Release):
    """A release by randomised response; its statement tells the chances, so nothing else does."""

    @property
    def flip_probability(self) -> Fraction:
        """How likely a wrong answer is, of two that an event could change into each other."""
        return _flips(self.statement).probability

    @cached_property
    def _flip(self) -> float:
        return float(self.flip_probability)

    def _seal(self, statement: PrivacyStatement) -> None:
        _flips(statement)
        super()._seal(statement)

    def _check_same(self, other: Any, verb: Literal["compare"] = "compare") -> None:
        """Raise where the kind or a parameter is not the same; the noise may differ."""
        name = type(self).__name__
        if type(other) is not type(self):
            raise TypeError(f"{name}: cannot {verb} with {type(other).__name__}.")
        for parameter, mine in self.parameters.items():
            yours = getattr(other, parameter)
            if mine != yours:
                raise ValueError(
                    f"{name}: cannot {verb}, {parameter} is {mine!r} here and {yours!r} there."
                )


def bits_answered(terms: Terms, cells: int) -> BinaryResponse:
    """What answers for a unit that changes so many bits, at most."""
    with _told_by(terms, cells):
        return BinaryResponse(terms.epsilon, cells=cells, relation=terms.relation)


def symbols_answered(terms: Terms, symbols: int, cells: int) -> KaryResponse:
    """What answers for a unit that changes so many symbols, at most."""
    with _told_by(terms, cells):
        return KaryResponse(symbols, terms.epsilon, cells=cells, relation=terms.relation)


@contextmanager
def _told_by(terms: Terms, cells: int) -> Iterator[None]:
    """An epsilon that is too small is told by the sketch that is released."""
    try:
        yield
    except ValueError:
        raise ValueError(
            f"{terms.owner}: epsilon must be more than {terms.epsilon!r} for {cells} answers about "
            "one unit, or nothing is told; raise it, or lower contributions."
        ) from None


def chance_of(loss: Flips, symbols: int) -> Fraction:
    """The chance of each wrong symbol, from the loss of `KaryResponse`."""
    odds = loss.probability / (1 - loss.probability)
    return odds / (1 + (symbols - 1) * odds)


def limits(law: Law, observed: float, confidence: float, owner: str) -> tuple[float, float]:
    """The least and most n that go with an observation that is nearly normal.

    law(n): its mean, which grows with n, and its standard deviation.
    """
    confidence = fraction.check(owner, "confidence", confidence)
    reach = NormalDist().inv_cdf((1 + confidence) / 2)

    def above(side: float) -> Callable[[float], bool]:
        def holds(n: float) -> bool:
            mean, deviation = law(n)
            return mean + side * reach * deviation >= observed

        return holds

    return _first(above(1.0)), _first(above(-1.0))


def _first(holds: Callable[[float], bool]) -> float:
    """The least n from which on it holds; infinite where it never does."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2 * high
        if high > LARGEST:
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _flips(statement: PrivacyStatement) -> Flips:
    loss = Loss.from_dict(statement.loss)
    if not isinstance(loss, Flips) or loss.probability * GRID < 1:
        raise ValueError("the statement does not tell how answers were made.")
    return loss
