"""Releases by randomised response: what answers, and what the answers say, undone."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist

from sfumato.core.validation import fraction, integer
from sfumato.privacy.accounting.losses import Flips, Loss
from sfumato.privacy.mechanisms.randomized_response import GRID, BinaryResponse, KaryResponse
from sfumato.privacy.release import Release, ReleaseRequest
from sfumato.privacy.statement import PrivacyStatement

__all__ = ["Answered", "answers_of", "bits_answered", "chance_of", "limits", "symbols_answered"]

LARGEST = 2.0**64  # no set has more keys
CELLS = integer(1, 2**31)  # that a response answers for at most

Distribution = Callable[[float], tuple[float, float]]


class Answered(Release):
    """A release by randomised response; its statement tells the chances, so nothing else does."""

    @property
    def flip_probability(self) -> Fraction:
        """How likely a wrong answer is, of two that an event could change into each other."""
        return answers_of(self.statement).probability

    @cached_property
    def _flip(self) -> float:
        return float(self.flip_probability)

    def _seal(self, statement: PrivacyStatement) -> None:
        answers_of(statement)
        super()._seal(statement)


def bits_answered(request: ReleaseRequest, cells: int) -> BinaryResponse:
    """What answers for a unit that changes so many bits, at most."""
    _check_tells(request, 2, cells)
    return BinaryResponse(request.epsilon, cells=cells, relation=request.relation)


def symbols_answered(request: ReleaseRequest, symbols: int, cells: int) -> KaryResponse:
    """What answers for a unit that changes so many symbols, at most."""
    _check_tells(request, symbols, cells)
    return KaryResponse(symbols, request.epsilon, cells=cells, relation=request.relation)


def _check_tells(request: ReleaseRequest, symbols: int, cells: int) -> None:
    """Raise where even the faintest answer, one step of the chances, costs more than epsilon."""
    CELLS.check(request.owner, "contributions, as answers about one unit,", cells)
    wrong = (GRID - 1) // symbols
    faintest = Flips(Fraction(wrong, GRID - (symbols - 2) * wrong), cells).epsilon
    if faintest > request.epsilon:
        raise ValueError(
            f"{request.owner}: epsilon must be at least {faintest:.3g} for {cells} answers about "
            f"one unit, or nothing is told, not {request.epsilon!r}; raise it, or lower "
            "contributions."
        )


def chance_of(loss: Flips, symbols: int) -> Fraction:
    """The chance of each wrong symbol, from the loss of `KaryResponse`."""
    odds = loss.probability / (1 - loss.probability)
    return odds / (1 + (symbols - 1) * odds)


def limits(
    distribution: Distribution, observed: float, confidence: float, owner: str
) -> tuple[float, float]:
    """The least and most n that go with an observation that is nearly normal.

    law(n): its mean, which grows with n, and its standard deviation.
    """
    confidence = fraction.check(owner, "confidence", confidence)
    reach = NormalDist().inv_cdf((1 + confidence) / 2)

    def above(side: float) -> Callable[[float], bool]:
        def holds(n: float) -> bool:
            mean, deviation = distribution(n)
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


def answers_of(statement: PrivacyStatement) -> Flips:
    """The chances of the answers, as the statement tells them."""
    loss = Loss.from_dict(statement.loss)
    if not isinstance(loss, Flips) or loss.probability * GRID < 1:
        raise ValueError("the statement does not tell how answers were made.")
    return loss
