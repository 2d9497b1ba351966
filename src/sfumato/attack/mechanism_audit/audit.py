"""Audits: run a mechanism on two neighbours many times, and measure what tells them apart."""

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
CAREFUL = 1 - 1e-6  # confidence of the choice: with less, the luckiest threshold of many would win
GIVEN = "the given score"
DELTA = 1e-6  # where a loss without pure epsilon is looked at, unless told


@dataclass(frozen=True, repr=False)
class Audit(Page):
    """What an audit measured, beside what was claimed; for the curator, of no private data.

    epsilon: the lower bound, at this delta and confidence; claimed: that of the mechanism at delta;
    ceiling: the most that as many trials could have shown; trials: runs on each neighbour, half of
    which chose how to tell them apart; score: what told them apart best.

    Parameters
    ----------
    epsilon : float
        TODO.
    claimed : float
        TODO.
    ceiling : float
        TODO.
    delta : float
        TODO.
    confidence : float
        TODO.
    trials : int
        TODO.
    score : str
        TODO.
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
        """True unless the bound exceeds the claim."""
        return self.epsilon <= self.claimed

    def __bool__(self) -> bool:
        """As `passed`, so that an audit can be asserted."""
        return self.passed

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain JSON values.

        Returns
        -------
        dict
            The audit as plain JSON values.
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
            f"{self.ceiling:.4g}; told by {self.score})"
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
) -> Audit:
    """Measure a lower bound on a mechanism's epsilon, and hold it against the claim.

    The first quarter of the runs learns scores, the second chooses one of them and a threshold, and
    the other half is counted, by `epsilon_lower_bound`. Where the claim is Gaussian noise on whole
    numbers, the counts are held against the exact curve of that noise instead of one point of it.
    Answers of up to 8 numbers are also looked at by their differences, sums and pairs; what only
    more of them tell together, or a pair among more than 8, needs a score of your own.

    Parameters
    ----------
    mechanism : object
        With `sample` and `loss`, or any sample(value, trials, source) together with `claimed`: an
        epsilon, (epsilon, delta) or a loss.
    neighbours : tuple
        Two values that differ by one unit.
    trials : int, default=100000
        Runs on each of them, at least 16.
    confidence : float, default=0.95
        TODO.
    source : Source or None, default=None
        Of the mechanism's noise.
    score : callable or None, default=None
        A function of the answers, higher for the second neighbour or for the first, found if not
        given.
    claimed : object, default=None
        TODO.
    delta : float or None, default=None
        Where a claim without pure epsilon is looked at: the mechanism's own, or else 1e-6.

    Returns
    -------
    Audit
        TODO.

    Notes
    -----
    **Guarantee.** Where the claim is true, the audit fails with a chance of at most 1 - confidence.
    An audit that passes proves nothing: its neighbours or its score may not be the telling ones.

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
    zeros, ones = (_answers(mechanism, value, trials, source) for value in (first, second))
    if zeros.shape != ones.shape:
        raise ValueError(
            "audit: the answers for the two neighbours have different shapes, which tells them "
            "apart for certain; a mechanism's shape must be public."
        )
    half = trials // 2
    if score is None:
        zeros, ones = distinguishers.readable(zeros, ones, half)
    name, chosen, threshold = _choose(zeros[:half], ones[:half], score, claim, confidence)
    hits, alarms = (
        int((_checked(chosen(side[half:]), trials - half) >= threshold).sum())
        for side in (ones, zeros)
    )
    counted = trials - half
    found = claim.epsilon(*rate_bounds(hits, counted, alarms, counted, confidence))
    perfect = claim.epsilon(*rate_bounds(counted, counted, 0, counted, confidence))
    return Audit(found, claim.bound, perfect, claim.delta, confidence, trials, name)


@dataclass(frozen=True)
class _Claim:
    """What is claimed, at a delta, and the epsilon there that bounds of two rates refute."""

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
        """Orders thresholds as `epsilon` would, all at once."""
        if isinstance(self.loss, GaussianNoise):
            return separation(least, greatest)
        return count_epsilon(least, greatest, self.delta)


def _delta(mechanism: Any, loss: Loss) -> float:
    if math.isfinite(loss.epsilon):
        return 0.0
    if isinstance(loss, Approximate):
        return loss.delta
    own = getattr(mechanism, "delta", None)
    return float(own) if own else DELTA


def _bound(loss: Loss, delta: float) -> float:
    from sfumato.privacy.accounting.calibration import epsilon_of

    bound = epsilon_of(loss, delta)
    if math.isinf(bound):
        raise ValueError(
            f"audit: delta must be above {delta!r}, where the claim has no finite epsilon to hold "
            "a measured one against."
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
        raise ValueError(f"audit: mechanism must give {trials} answers, one to a row.")
    return answers


def _choose(
    zeros: np.ndarray, ones: np.ndarray, score: Any, claim: _Claim, confidence: float
) -> tuple[str, Any, float]:
    """The score and the threshold that tell most; learned and chosen on different runs."""
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
        told = (_checked(one(side[learn:]), len(side) - learn) for side in (zeros, ones))
        found.append((*_best_threshold(claim, confidence, *told), name, one))
    _, threshold, name, chosen = max(found, key=lambda row: row[0])
    return name, chosen, threshold


def _checked(scores: Any, runs: int) -> np.ndarray:
    told: np.ndarray = np.asarray(scores)
    if told.shape != (runs,) or told.dtype.kind not in "biuf":
        raise ValueError("audit: score must give one number for each answer.")
    return np.nan_to_num(told.astype(np.float64), nan=-np.inf)


def _best_threshold(
    claim: _Claim, confidence: float, zeros: np.ndarray, ones: np.ndarray
) -> tuple[float, float]:
    """What the best threshold of a score shows, and the threshold."""
    zeros, ones = np.sort(zeros), np.sort(ones)
    both = np.unique(np.concatenate([zeros, ones]))
    tried = both[np.unique(np.linspace(0, both.size - 1, THRESHOLDS).astype(np.intp))]
    alarms, hits = (side.size - np.searchsorted(side, tried, side="left") for side in (zeros, ones))
    sure = max(confidence, CAREFUL)
    shown = claim.rank(*rate_bounds(hits, ones.size, alarms, zeros.size, sure))
    # Where runs are too few to show anything, the widest difference is the best guess.
    shown = shown + 1e-9 * (hits / ones.size - alarms / zeros.size)
    best = int(np.argmax(shown))
    return float(shown[best]), float(tried[best])
