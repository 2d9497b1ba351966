"""Randomised response on bits and symbols: chances rounded the safe way, and answers undone."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from sfumato._require import fraction
from sfumato.privacy._source import Source
from sfumato.privacy.loss import Flips, Loss
from sfumato.privacy.statement import PrivacyStatement
from sfumato.sketch._release import Release, Terms

__all__ = ["GRID", "_Answered", "answers", "chance_of", "limits", "response"]

GRID = 2**32  # chances are whole multiples of 1 / GRID
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


def response(terms: Terms, symbols: int, cells: int) -> Flips:
    """The cost of answering `cells` questions about a unit, each one of so many symbols.

    Guarantee: a wrong symbol has a chance c, a multiple of 1 / GRID, the right one a >= c, and
    cells ln(a / c) <= epsilon: c is rounded up, so the answers tell less. Between two symbols an
    answer is a function of a bit flipped with probability q = c / (a + c), which is the loss: with
    chance a + c it is the symbol that the flipped bit says, else one of the others, all alike.
    """
    each = min(terms.epsilon / cells, 64.0)  # beyond, a wrong symbol has the least chance anyway
    wrong = math.ceil(GRID / (math.exp(each) + symbols - 1))
    while wrong * symbols < GRID:
        right = GRID - (symbols - 1) * wrong
        loss = Flips(Fraction(wrong, right + wrong), cells, relation=terms.relation)
        if loss.epsilon <= terms.epsilon:
            return loss
        wrong += 1
    raise ValueError(
        f"{terms.owner}: epsilon must be more than {terms.epsilon!r} for {cells} answers about "
        "one unit, or nothing is told; raise it, or lower contributions."
    )


def chance_of(loss: Flips, symbols: int) -> Fraction:
    """The chance of each wrong symbol: `response` the other way round."""
    odds = loss.probability / (1 - loss.probability)
    return odds / (1 + (symbols - 1) * odds)


def answers(values: np.ndarray, symbols: int, loss: Flips, source: Source) -> np.ndarray:
    """Every value below `symbols`, or a uniform one in its place; exact, a word each.

    Of GRID equally likely words, `wrong` lead to each symbol and the rest to the true one.
    """
    wrong = int(chance_of(loss, symbols) * GRID)
    words = np.empty(values.size, np.uint32)
    source.fill(words)
    drawn = words.astype(np.uint64) // np.uint64(wrong)
    return np.where(drawn < symbols, drawn, values).astype(values.dtype)


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
