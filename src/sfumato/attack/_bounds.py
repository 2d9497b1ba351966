"""Lower bounds on epsilon from counts of right and wrong guesses, with a stated confidence."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato._require import between, fraction, whole

__all__ = [
    "LowerBound",
    "checked_counts",
    "count_epsilon",
    "epsilon_lower_bound",
    "flawless",
    "rate_bounds",
]

COUNT = whole(1, 10**12)  # beyond, floats could not tell a rate from 1

DELTA = between(0, 1)


@dataclass(frozen=True, repr=False)
class LowerBound:
    """What was measured: with this confidence no smaller epsilon is true.

    epsilon: the bound, 0 where nothing was shown; ceiling: the most that as many trials could have
    shown, had every guess been right; delta: at which both hold.
    """

    epsilon: float
    ceiling: float
    confidence: float
    delta: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The bound as plain JSON values."""
        return asdict(self)

    def __repr__(self) -> str:
        at = f" at delta {self.delta:.3g}" if self.delta else ""
        sure = f"confidence {self.confidence:.10g}"
        return f"epsilon >= {self.epsilon:.4g}{at} ({sure}; at most {self.ceiling:.4g} could show)"


def epsilon_lower_bound(
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    delta: float = 0,
    confidence: float = 0.95,
) -> LowerBound:
    """A lower bound on epsilon, from how often a guess about two neighbours was right.

    Guarantee: where the mechanism is (epsilon, delta)-private and the guess was fixed before these
    trials, the result exceeds epsilon with a chance of at most 1 - confidence.
    Parameters: true_positives of `positives` runs on one neighbour were guessed to be of it, and
    so were false_positives of `negatives` runs on the other; delta, from 0 below 1.

    >>> epsilon_lower_bound(731, 1000, 269, 1000)
    epsilon >= 0.8586 (confidence 0.95; at most 5.601 could show)

    An event S and its complement are both weighed, by P1(S) <= e^epsilon P0(S) + delta and
    P0(not S) <= e^epsilon P1(not S) + delta; both need the same two one-sided bounds of Clopper and
    Pearson 1934, so each gets half of the doubt (Kairouz, Oh and Viswanath 2015, theorem 2.1).
    """
    owner = "epsilon_lower_bound"
    counts = checked_counts(owner, true_positives, positives, false_positives, negatives)
    delta = DELTA.check(owner, "delta", delta)
    confidence = fraction.check(owner, "confidence", confidence)
    found, perfect = (
        float(count_epsilon(*rate_bounds(*each, confidence), delta))
        for each in (counts, flawless(*counts))
    )
    return LowerBound(found, perfect, confidence, delta)


Counts = tuple[int, int, int, int]


def checked_counts(
    owner: str, true_positives: int, positives: int, false_positives: int, negatives: int
) -> Counts:
    """The four counts of a guess, in the order given, refused where they are impossible."""
    positives = COUNT.check(owner, "positives", positives)
    negatives = COUNT.check(owner, "negatives", negatives)
    hits = whole(0, positives).check(owner, "true_positives", true_positives)
    alarms = whole(0, negatives).check(owner, "false_positives", false_positives)
    return hits, positives, alarms, negatives


def flawless(hits: int, positives: int, alarms: int, negatives: int) -> Counts:
    """The counts of as many runs, had every guess been right."""
    return positives, positives, 0, negatives


def rate_bounds(
    true_positives: Any, positives: int, false_positives: Any, negatives: int, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Least true positive and greatest false positive rates; both hold with this confidence."""
    from scipy.special import betaincinv

    hits, alarms = np.asarray(true_positives), np.asarray(false_positives)
    doubt = (1 - confidence) / 2
    least = betaincinv(np.maximum(hits, 1), positives - hits + 1, doubt)
    # The upper end is one minus the lower end of the other outcome: exact also near 0.
    passes = negatives - alarms
    greatest = 1 - betaincinv(np.maximum(passes, 1), alarms + 1, doubt)
    return np.where(hits == 0, 0.0, least), np.where(passes == 0, 1.0, greatest)


def count_epsilon(least: Any, greatest: Any, delta: float) -> np.ndarray:
    """The epsilon that rates beyond these bounds need, by the event or by its complement."""
    tiny = math.ulp(0.0)
    with np.errstate(divide="ignore"):
        event = np.log(np.maximum(least - delta, tiny) / greatest)
        complement = np.log(np.maximum(1 - greatest - delta, tiny) / (1 - least))
    shown: np.ndarray = np.maximum(np.maximum(event, complement), 0.0)
    return shown
