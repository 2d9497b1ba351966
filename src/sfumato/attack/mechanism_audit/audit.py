"""Audits: run a mechanism on two neighbours many times, and bound its epsilon from below."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.attack.mechanism_audit import distinguishers
from sfumato.attack.mechanism_audit.lower_bounds import (
    count_epsilon,
    noise_epsilon,
    rate_bounds,
    separation,
)
from sfumato.core.tables import Page
from sfumato.core.validation import between, fraction, integer
from sfumato.privacy.accounting.losses import Approximate, GaussianNoise, Loss, as_loss
from sfumato.privacy.random_source import Source

__all__ = ["Audit", "audit"]

LEAST = 16
THRESHOLDS = 1024
CAREFUL = 1 - 1e-6  # confidence of the choice: with less, a lucky threshold of many would win
GIVEN = "the given score"
DELTA = 1e-6  # default delta for a loss without pure epsilon


@dataclass(frozen=True, repr=False)
class Audit(Page):
    """Lower bound on a mechanism's epsilon beside the claimed value.

    Returned by `audit`. It contains no private data. It is true in a boolean context if it passed.

    Parameters
    ----------
    epsilon : float
        Measured lower bound on epsilon at `delta` and `confidence`.
    claimed : float
        Epsilon that the mechanism claims at `delta`.
    ceiling : float
        The largest lower bound that this number of trials can show.
    delta : float
        Delta at which both epsilons are stated.
    confidence : float
        Confidence of the lower bound.
    trials : int
        Runs on each neighbour, half of which chose the test.
    score : str
        Name of the statistic that distinguished the neighbours best.

    Examples
    --------
    >>> found = Audit(0.9, 1.0, 5.6, 0.0, 0.95, 2000, "values")
    >>> found.passed
    True
    >>> assert found
    """

    epsilon: float
    claimed: float
    ceiling: float
    delta: float
    confidence: float
    trials: int
    score: str

    @property
    def passed(self) -> bool:
        """Whether the lower bound is at most the claim."""
        return self.epsilon <= self.claimed

    def __bool__(self) -> bool:
        """As `passed`, so that an audit can be asserted."""
        return self.passed

    def to_dict(self) -> dict[str, Any]:
        """Convert the audit to plain JSON values.

        Returns
        -------
        dict
            One entry per parameter of the class, and "passed".
        """
        return {**asdict(self), "passed": self.passed}

    def _facts(self) -> dict[str, Any]:
        return self.to_dict()

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        at = f" at delta {self.delta:.3g}" if self.delta else ""
        return (
            f"Audit {verdict}: epsilon >= {self.epsilon:.4g} measured, {self.claimed:.4g} claimed"
            f"{at} (confidence {self.confidence:.10g}, {self.trials:,} trials could show at most "
            f"{self.ceiling:.4g}; distinguished by {self.score})"
        )


def audit(
    mechanism: Any,
    neighbours: tuple[Any, Any],
    trials: int = 100_000,
    *,
    confidence: float = 0.95,
    source: Source | None = None,
    score: Callable[[np.ndarray], np.ndarray] | None = None,
    claimed: Any = None,
    delta: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Measure a lower bound on a mechanism's epsilon and compare it with the claim.

    Parameters
    ----------
    mechanism : Mechanism or callable
        An object with `sample` and `loss`, or a function sample(value, trials, source) together
        with `claimed`. It returns an array with one answer per row.
    neighbours : tuple
        Two inputs that differ by one unit.
    trials : int, default=100000
        Runs on each neighbour, at least 16.
    confidence : float, default=0.95
        Confidence of the lower bound, above 0 and below 1.
    source : Source or None, default=None
        Random source of the mechanism's noise; None uses the operating system's.
    score : callable or None, default=None
        Statistic of an array of answers, one number per row; both directions are tried. If None,
        statistics are learned from the first quarter of the runs.
    claimed : float, tuple, Loss or None, default=None
        Claimed epsilon, (epsilon, delta) or privacy loss. None takes the mechanism's own `loss()`.
    delta : float or None, default=None
        Delta at which epsilons are compared. If None: 0 for a pure loss, else the claim's or the
        mechanism's own delta, else 1e-6.
    progress : callable or None, default=None
        Called with the number of steps done and of all: runs on each neighbour, the choice of a
        statistic, the count.

    Returns
    -------
    Audit
        The lower bound, the claim, and the statistic that distinguished best.

    Raises
    ------
    ValueError
        If the claim has no finite epsilon at `delta`, or the answers have different shapes.

    Notes
    -----
    **Guarantee.** If the claim is true, the audit fails with probability at most 1 - confidence. An
    audit that passes proves nothing: another pair of neighbours or another statistic may reveal
    more.

    The first quarter of the runs learns statistics, the second selects one with a threshold, and
    the other half is counted, by `epsilon_lower_bound`. If the claim is Gaussian noise on integers,
    the counts are compared with the exact privacy curve of that noise instead of one point of it.
    Answers of up to 8 numbers are also tested by their differences, sums and pairs. What only
    larger groups reveal, or a pair among more than 8 numbers, needs a `score` of your own.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource, discrete_laplace
    >>> def noisy(value, trials, source):
    ...     return value + discrete_laplace(1, trials, source=source)
    >>> audit(noisy, (0, 3), 2000, claimed=1, source=InsecureSeededSource(1)).passed
    False
    """
    trials = integer(LEAST).check("audit", "trials", trials)
    confidence = fraction.check("audit", "confidence", confidence)
    claim = _Claim.of(mechanism, claimed, delta)
    first, second = _pair(neighbours)
    step = _Steps(progress)
    zeros = step.done(_answers(mechanism, first, trials, source))
    ones = step.done(_answers(mechanism, second, trials, source))
    if zeros.shape != ones.shape:
        raise ValueError(
            "audit: the answers for the two neighbours have different shapes, which distinguishes "
            "them with certainty; a mechanism's shape must be public."
        )
    half = trials // 2
    if score is None:
        zeros, ones = distinguishers.readable(zeros, ones, half)
    name, chosen, threshold = step.done(
        _choose(zeros[:half], ones[:half], score, claim, confidence)
    )
    hits, alarms = step.done(
        [
            int((_checked(chosen(side[half:]), trials - half) >= threshold).sum())
            for side in (ones, zeros)
        ]
    )
    counted = trials - half
    found = claim.epsilon(*rate_bounds(hits, counted, alarms, counted, confidence))
    perfect = claim.epsilon(*rate_bounds(counted, counted, 0, counted, confidence))
    return Audit(found, claim.bound, perfect, claim.delta, confidence, trials, name)


class _Steps:
    """Reports each of the four steps of an audit when it is done."""

    TOTAL = 4

    def __init__(self, progress: Callable[[int, int], None] | None) -> None:
        self._progress, self._count = progress, 0

    def done(self, result: Any) -> Any:
        """The result of a step, after the report."""
        self._count += 1
        if self._progress is not None:
            self._progress(self._count, self.TOTAL)
        return result


@dataclass(frozen=True)
class _Claim:
    """The claimed loss, its epsilon at delta, and the epsilon that bounds on two rates refute."""

    loss: Loss
    delta: float
    bound: float

    @classmethod
    def of(cls, mechanism: Any, claimed: Any, delta: float | None) -> "_Claim":
        if claimed is None and not hasattr(mechanism, "loss"):
            raise ValueError(
                "audit: claimed must be given for a mechanism without a loss of its own."
            )
        relation = getattr(mechanism, "relation", "add/remove")
        loss = as_loss("audit", mechanism.loss() if claimed is None else claimed, relation)
        if delta is None:
            delta = _delta(mechanism, loss)
        delta = between(0, 1).check("audit", "delta", delta)
        return cls(loss, delta, _bound(loss, delta))

    def epsilon(self, least: Any, greatest: Any) -> float:
        if isinstance(self.loss, GaussianNoise):
            return noise_epsilon(self.loss, float(least), float(greatest), self.delta)
        return float(count_epsilon(least, greatest, self.delta))

    def rank(self, least: np.ndarray, greatest: np.ndarray) -> np.ndarray:
        """Order thresholds as `epsilon` would, all at once."""
        if isinstance(self.loss, GaussianNoise):
            return separation(least, greatest)
        return count_epsilon(least, greatest, self.delta)


def _delta(mechanism: Any, loss: Loss) -> float:
    """Delta of the comparison: 0 for a pure loss, else the loss's or mechanism's, else DELTA."""
    if math.isfinite(loss.epsilon):
        return 0.0
    if isinstance(loss, Approximate):
        return loss.delta
    own = getattr(mechanism, "delta", None)
    return float(own) if own else DELTA


def _bound(loss: Loss, delta: float) -> float:
    """Claimed epsilon at delta; ValueError if it is infinite."""
    from sfumato.privacy.accounting.calibration import epsilon_of

    bound = epsilon_of(loss, delta)
    if math.isinf(bound):
        raise ValueError(
            f"audit: delta must be above {delta!r}, where the claim has no finite epsilon to "
            "compare a measured one with."
        )
    return bound


def _pair(neighbours: Any) -> tuple[Any, Any]:
    try:
        first, second = neighbours
    except (TypeError, ValueError):
        raise ValueError("audit: neighbours must be two values that differ by one unit.") from None
    return first, second


def _answers(mechanism: Any, value: Any, trials: int, source: Source | None) -> np.ndarray:
    if hasattr(mechanism, "sample"):
        answers = np.asarray(mechanism.sample(value, trials, source=source))
    else:
        answers = np.asarray(mechanism(value, trials, source))
    if answers.ndim == 0 or len(answers) != trials or not answers.size:
        raise ValueError(f"audit: mechanism must give {trials} answers, one per row.")
    return answers


def _choose(
    zeros: np.ndarray, ones: np.ndarray, score: Any, claim: _Claim, confidence: float
) -> tuple[str, Any, float]:
    """Best score and threshold, learned and selected on different runs."""
    if score is not None:
        scores = [(GIVEN, score), (GIVEN, lambda answers: -np.asarray(score(answers), np.float64))]
        learn = 0
    else:
        if zeros.dtype.kind not in "biuf":
            raise TypeError("audit: answers must be numbers; for others give a score of them.")
        learn = len(zeros) // 2
        scores = list(distinguishers.learned(zeros[:learn], ones[:learn]))
    found = []
    for name, one in scores:
        sides = (_checked(one(side[learn:]), len(side) - learn) for side in (zeros, ones))
        found.append((*_best_threshold(claim, confidence, *sides), name, one))
    _, threshold, name, chosen = max(found, key=lambda row: row[0])
    return name, chosen, threshold


def _checked(scores: Any, runs: int) -> np.ndarray:
    values: np.ndarray = np.asarray(scores)
    if values.shape != (runs,) or values.dtype.kind not in "biuf":
        raise ValueError("audit: score must give one number for each answer.")
    return np.nan_to_num(values.astype(np.float64), nan=-np.inf)


def _best_threshold(
    claim: _Claim, confidence: float, zeros: np.ndarray, ones: np.ndarray
) -> tuple[float, float]:
    """Rank of the best threshold of a score, and the threshold."""
    zeros, ones = np.sort(zeros), np.sort(ones)
    both = np.unique(np.concatenate([zeros, ones]))
    tried = both[np.unique(np.linspace(0, both.size - 1, THRESHOLDS).astype(np.intp))]
    alarms, hits = (side.size - np.searchsorted(side, tried, side="left") for side in (zeros, ones))
    sure = max(confidence, CAREFUL)
    shown = claim.rank(*rate_bounds(hits, ones.size, alarms, zeros.size, sure))
    # Where runs are too few to show anything, the largest difference is the best guess.
    shown = shown + 1e-9 * (hits / ones.size - alarms / zeros.size)
    best = int(np.argmax(shown))
    return float(shown[best]), float(tried[best])
