"""A lower bound on epsilon from a single run with many canaries, each in it by a fair coin."""

from typing import Any

import numpy as np

from sfumato._require import between, fraction, whole
from sfumato.attack._bounds import LowerBound

__all__ = ["one_run_lower_bound"]

DELTA = between(0, 1)
PRECISION = 1e-9


def one_run_lower_bound(
    correct: int, guesses: int, canaries: int, delta: float = 0, confidence: float = 0.95
) -> LowerBound:
    """A lower bound on epsilon, from right guesses about which canaries took part in one run.

    Guarantee: where the mechanism is (epsilon, delta)-private under add/remove of one canary, each
    canary took part by its own fair coin, and the guesses follow from the output alone, the result
    exceeds epsilon with a chance of at most 1 - confidence.
    Parameters: correct of `guesses` in-or-out guesses were right; canaries, all of them, also those
    that no guess was made about; delta, from 0 below 1.

    >>> one_run_lower_bound(correct=75, guesses=100, canaries=1000, delta=1e-5)
    epsilon >= 0.6995 at delta 1e-05 (confidence 0.95; at most 3.465 could show)

    Steinke, Nasr and Jagielski 2023, theorem 5.2 in the form of its corollary 5.4.
    """
    owner = "one_run_lower_bound"
    canaries = whole(1).check(owner, "canaries", canaries)
    guesses = whole(1, canaries).check(owner, "guesses", guesses)
    correct = whole(0, guesses).check(owner, "correct", correct)
    delta = DELTA.check(owner, "delta", delta)
    doubt = 1 - fraction.check(owner, "confidence", confidence)
    found = _first_allowed(correct, guesses, canaries, delta, doubt)
    perfect = _first_allowed(guesses, guesses, canaries, delta, doubt)
    return LowerBound(found, perfect, confidence, delta)


def chance(correct: int, guesses: int, canaries: int, delta: float, epsilon: float) -> float:
    """At most the chance of so many right guesses or more, under (epsilon, delta)."""
    from scipy.special import bdtrc, expit

    accuracy = float(expit(epsilon))  # e^epsilon / (1 + e^epsilon): randomised response's
    tail = float(bdtrc(correct - 1, guesses, accuracy)) if correct else 1.0
    if delta == 0 or tail >= 1:
        return min(tail, 1.0)
    # What delta buys: the densest stretch of outcomes just below, lifted over the line.
    below = np.arange(correct - 1, -1, -1)
    stretch = np.cumsum(_binomial(below, guesses, accuracy))
    densest = (stretch / np.arange(1, correct + 1)).max(initial=0.0)
    return min(tail + 2 * canaries * delta * float(densest), 1.0)


def _binomial(k: Any, n: int, p: float) -> np.ndarray:
    """The chance of k among n, by logarithms, since n may be large."""
    from scipy.special import gammaln, xlog1py, xlogy

    choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    mass: np.ndarray = np.exp(choose + xlogy(k, p) + xlog1py(n - k, -p))
    return mass


def _first_allowed(correct: int, guesses: int, canaries: int, delta: float, doubt: float) -> float:
    """The end of the refuted epsilons from 0 on, by bisection, from below."""

    def refuted(epsilon: float) -> bool:
        return chance(correct, guesses, canaries, delta, epsilon) < doubt

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2 * high
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
