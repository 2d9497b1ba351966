"""Releases by randomized response: calibration, flip probabilities, and confidence limits."""

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

__all__ = [
    "Answered",
    "answers_of",
    "bits_answered",
    "false_symbol_probability",
    "limits",
    "symbols_answered",
]

LARGEST = 2.0**64  # no set has more keys
CELLS = integer(1, 2**31)  # number of responses about one unit

Distribution = Callable[[float], tuple[float, float]]


class Answered(Release):
    """Base of releases by randomized response; the probabilities are stored in the statement."""

    @property
    def flip_probability(self) -> Fraction:
        """Probability that a bit was flipped; p / (p + q) for a release of symbols.

        Here q is the probability of the true symbol and p that of each false one.
        """
        return answers_of(self.statement).probability

    @cached_property
    def _flip(self) -> float:
        return float(self.flip_probability)

    def _seal(self, statement: PrivacyStatement) -> None:
        answers_of(statement)
        super()._seal(statement)


def bits_answered(request: ReleaseRequest, cells: int) -> BinaryResponse:
    """The randomized response on bits, for a unit that changes at most `cells` of them."""
    _check_informative(request, 2, cells)
    return BinaryResponse(request.epsilon, cells=cells, relation=request.relation)


def symbols_answered(request: ReleaseRequest, symbols: int, cells: int) -> KaryResponse:
    """The randomized response on symbols, for a unit that changes at most `cells` of them."""
    _check_informative(request, symbols, cells)
    return KaryResponse(symbols, request.epsilon, cells=cells, relation=request.relation)


def _check_informative(request: ReleaseRequest, symbols: int, cells: int) -> None:
    """Raise if even the least informative response on the grid costs more than epsilon."""
    CELLS.check(request.owner, "contributions, as answers about one unit,", cells)
    other = (GRID - 1) // symbols
    least = Flips(Fraction(other, GRID - (symbols - 2) * other), cells).epsilon
    if least > request.epsilon:
        raise ValueError(
            f"{request.owner}: epsilon must be at least {least:.3g} for {cells} answers about "
            f"one unit, or nothing is learned, not {request.epsilon!r}; raise it, or lower "
            "contributions."
        )


def false_symbol_probability(loss: Flips, symbols: int) -> Fraction:
    """The probability of each false symbol, from the loss of `KaryResponse`."""
    odds = loss.probability / (1 - loss.probability)
    return odds / (1 + (symbols - 1) * odds)


def limits(
    distribution: Distribution, observed: float, confidence: float, owner: str
) -> tuple[float, float]:
    """Confidence limits of n from an approximately normal observation.

    distribution(n) gives its mean, which increases with n, and its standard deviation.
    """
    confidence = fraction.check(owner, "confidence", confidence)
    quantile = NormalDist().inv_cdf((1 + confidence) / 2)

    def above(side: float) -> Callable[[float], bool]:
        def reached(n: float) -> bool:
            mean, deviation = distribution(n)
            return mean + side * quantile * deviation >= observed

        return reached

    return _first(above(1.0)), _first(above(-1.0))


def _first(reached: Callable[[float], bool]) -> float:
    """The smallest n at which a monotone condition is true; infinite if there is none."""
    if reached(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not reached(high):
        low, high = high, 2 * high
        if high > LARGEST:
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def answers_of(statement: PrivacyStatement) -> Flips:
    """The probabilities of the responses, from the loss in the statement."""
    loss = Loss.from_dict(statement.loss)
    if not isinstance(loss, Flips) or loss.probability * GRID < 1:
        raise ValueError("the statement lacks the probabilities of the responses.")
    return loss
