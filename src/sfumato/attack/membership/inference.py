"""Membership inference attacks on a model: which ratings it learned from, with exact intervals.

No interval rests on a normal approximation or on resampling.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.attack.mechanism_audit.lower_bounds import LowerBound, pairs_lower_bound, rate_bounds
from sfumato.attack.membership.likelihood_ratio import (
    by_factors,
    by_kind_of_row,
    by_shadow_models,
    has_factors,
)
from sfumato.attack.membership.records import LEAST, Records, Sides, look
from sfumato.attack.numerics import binary_divergence
from sfumato.core.tables import Table
from sfumato.core.validation import (
    RANDOM_STATE,
    Limit,
    RandomState,
    between,
    fraction,
    integer,
    random_seed,
)
from sfumato.data.interactions import Interactions

__all__ = [
    "ALARM_RATES",
    "Attack",
    "MembershipInference",
    "Rate",
    "RocCurve",
    "binomial_rate",
    "checked_settings",
    "inferred",
    "mean_rank_rate",
    "membership_inference",
    "roc_curve",
    "widest_gap_rate",
]


class Rate(float):
    """A measured rate (a float) with `low` and `high`, the ends of its confidence interval."""

    low: float
    high: float

    def __new__(cls, value: float, low: float, high: float) -> "Rate":
        rate = super().__new__(cls, value)
        rate.low, rate.high = float(low), float(high)
        return rate

    def __getnewargs__(self) -> Any:
        return float(self), self.low, self.high

    def to_dict(self) -> dict[str, float]:
        """Convert the rate and its interval to plain JSON values."""
        return {"value": float(self), "low": self.low, "high": self.high}

    def __repr__(self) -> str:
        return f"{float(self):.4g} ({self.low:.4g} to {self.high:.4g})"


def binomial_rate(hits: int, trials: int, confidence: float) -> Rate:
    """Rate of hits with its Clopper-Pearson interval."""
    low, high = rate_bounds(hits, trials, hits, trials, confidence)
    return Rate(hits / trials, float(low), float(high))


def mean_rank_rate(value: float, pairs: int, confidence: float) -> Rate:
    """Area under the ROC curve, with an interval valid for every distribution of the scores.

    The area is a mean of means over `pairs` (the smaller side) independent pairs of a member and a
    non-member, so the Chernoff bound of as many coins applies: Hoeffding 1963, section 5
    (U-statistics).
    """
    most = math.log(2 / (1 - confidence)) / pairs
    return Rate(value, 1 - _farthest(1 - value, most), _farthest(value, most))


def widest_gap_rate(value: float, members: int, others: int, confidence: float) -> Rate:
    """Largest distance of two distribution functions, with its interval by Massart (1990)."""
    half_width = math.sqrt(math.log(4 / (1 - confidence)) / 2)
    half_width *= 1 / math.sqrt(members) + 1 / math.sqrt(others)
    return Rate(value, max(value - half_width, 0.0), min(value + half_width, 1.0))


def _farthest(observed: float, most: float) -> float:
    """Largest rate whose KL divergence from the observed rate is at most `most`, by bisection."""
    low, high = observed, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if binary_divergence(observed, middle) <= most else (low, middle)
    return high


ALARM_RATES = (0.001, 0.01)
POINTS = 160


@dataclass(frozen=True)
class RocCurve:
    """How well a score separates members from non-members; every rate with its interval.

    `auc` is the probability that a member scores above a non-member, ties counting half; `tpr` the
    true-positive rate at the false-positive rates 0.001 and 0.01; `advantage` the largest
    difference of the two rates over all thresholds, positively biased; `curve` points
    (false-positive rate, true-positive rate) for a figure.
    """

    members: int
    others: int
    auc: Rate
    tpr: dict[float, Rate]
    advantage: Rate
    curve: tuple[tuple[float, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain JSON values."""
        return {
            "members": self.members,
            "others": self.others,
            "auc": self.auc.to_dict(),
            "tpr": {f"{allowed:g}": rate.to_dict() for allowed, rate in self.tpr.items()},
            "advantage": self.advantage.to_dict(),
            "curve": [list(point) for point in self.curve],
        }


def roc_curve(members: np.ndarray, others: np.ndarray, confidence: float) -> RocCurve:
    """Measure a score on members and on non-members, neither of which may be empty.

    Guarantee: if the score was fixed before and rows are independent, each interval covers the true
    rate with at least this confidence. Ties are broken at random, as an attacker would: of rows
    with equal scores, as large a fraction counts as members as the allowed false positives permit.
    """
    members, others = np.sort(members), np.sort(others)
    size = members.size, others.size
    both = np.concatenate([members, others])
    gap = _below(members, both) / size[0] - _below(others, both) / size[1]
    return RocCurve(
        *size,
        auc=mean_rank_rate(_area(members, others), min(size), confidence),
        tpr={
            allowed: binomial_rate(_hits(members, others, allowed)[1], size[0], confidence)
            for allowed in ALARM_RATES
        },
        advantage=widest_gap_rate(max(float(-gap.min()), 0.0), *size, confidence),
        curve=_curve(members, others),
    )


def _below(ordered: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Number of ordered values below each of `values`."""
    return np.searchsorted(ordered, values, "left")


def _area(members: np.ndarray, others: np.ndarray) -> float:
    """Area under the ROC curve (Mann-Whitney statistic, ties counting half)."""
    ends = (np.searchsorted(others, members, side).sum() for side in ("left", "right"))
    return float(sum(ends)) / (2 * members.size * others.size)


def _hits(members: np.ndarray, others: np.ndarray, allowed: float) -> tuple[int, int]:
    """Largest allowed number of false positives, and the true positives at that threshold."""
    alarms = min(int(allowed * others.size + 1e-9), others.size - 1)
    threshold = others[others.size - 1 - alarms]
    (found, tied), (alarmed, equal) = (_above(side, threshold) for side in (members, others))
    return alarms, found + int(tied * (alarms - alarmed) / equal)


def _above(ordered: np.ndarray, threshold: float) -> tuple[int, int]:
    """Number of scores above a threshold, and number equal to it."""
    left, right = (int(np.searchsorted(ordered, threshold, side)) for side in ("left", "right"))
    return ordered.size - right, right - left


def _curve(members: np.ndarray, others: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Points (false-positive rate, true-positive rate) at rates that are even in logarithm."""
    rates = np.geomspace(1 / others.size, 1, POINTS)
    counts = sorted({_hits(members, others, float(rate)) for rate in rates})
    points = [(alarms / others.size, hits / members.size) for alarms, hits in counts]
    return (*points, (1.0, 1.0))


LIMITS: dict[str, Limit] = {
    "sample": integer(LEAST),
    "confidence": fraction,
    "delta": between(0, 1),
    "shadows": integer(3, 64),
    "random_state": RANDOM_STATE,
}
Score = Callable[[Records], np.ndarray]
Scores = dict[str, tuple[str, Score]]  # by name: what the attacker knows, and the score


@dataclass(frozen=True)
class Attack(RocCurve):
    """One membership inference attack: its ROC curve and the epsilon that it refutes.

    Parameters
    ----------
    members : int
        Number of measured rows that the model learned from.
    others : int
        Number of measured rows that it did not learn from.
    auc : Rate
        Probability that a member scores above a non-member.
    tpr : dict of float to Rate
        True-positive rate at each allowed false-positive rate, 0.001 and 0.01.
    advantage : Rate
        Largest difference of true- and false-positive rates over all thresholds; positively biased.
    curve : tuple of tuple of float
        Points (false-positive rate, true-positive rate) of the ROC curve.
    knows : str
        What the attacker knows and observes.
    epsilon : LowerBound
        Lower bound on epsilon for replacing one rating by another. Under add/remove adjacency,
        replacing may cost twice epsilon, so half of the bound is valid there.
    auc_by_activity : tuple of Rate
        `auc` in each quarter of the users by number of ratings, least active first; None where
        there are too few rows.

    Examples
    --------
    >>> from sfumato.attack.mechanism_audit.lower_bounds import LowerBound
    >>> bound = LowerBound(0.0, 3.0, 0.95)
    >>> half = Rate(0.5, 0.4, 0.6)
    >>> Attack(50, 50, half, {0.001: half}, half, ((1.0, 1.0),), "the rating", bound, ()).auc
    0.5 (0.4 to 0.6)
    """

    knows: str
    epsilon: LowerBound
    auc_by_activity: tuple[Rate | None, ...]

    def __repr__(self) -> str:
        rows = f"members={self.members}, others={self.others}"
        return f"Attack(auc={self.auc!r}, advantage={self.advantage!r}, {self.epsilon!r}, {rows})"

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain JSON values.

        Returns
        -------
        dict
            One entry per parameter of the class; rates with "value", "low" and "high".
        """
        epsilon = {**self.epsilon.to_dict(), "relation": "replace"}
        activity = [rate and rate.to_dict() for rate in self.auc_by_activity]
        fields = {"knows": self.knows, **super().to_dict()}
        return {**fields, "epsilon": epsilon, "auc_by_activity": activity}


@dataclass(frozen=True, repr=False)
class MembershipInference(Table):
    """Membership inference attacks on one model, by name.

    Returned by `membership_inference`. Computed from raw data and not a release: for the curator
    only.

    Parameters
    ----------
    attacks : dict of str to Attack
        Each attack with its figures.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> users, items = rng.integers(0, 50, 400), np.arange(400)
    >>> train, test = Interactions(users, items, rng.normal(3, 1, 400)).split(0.5, 0.5)
    >>> class Constant:
    ...     def predict(self, users, items):
    ...         return np.full(len(users), 3.0)
    >>> sorted(membership_inference(Constant(), train, test).attacks)
    ['likelihood ratio', 'loss']
    """

    attacks: dict[str, Attack]

    @property
    def strongest(self) -> str:
        """Name of the attack with the largest area under its ROC curve."""
        return max(self.attacks, key=lambda name: self.attacks[name].auc)

    @property
    def auc(self) -> float:
        """Area under the ROC curve of the strongest attack."""
        return float(self.attacks[self.strongest].auc)

    @property
    def epsilon(self) -> LowerBound:
        """Largest lower bound on epsilon over all attacks."""
        return max((a.epsilon for a in self.attacks.values()), key=lambda bound: bound.epsilon)

    def to_dict(self) -> dict[str, Any]:
        """Convert the attacks to plain JSON values.

        Returns
        -------
        dict
            The name of the strongest attack and all attacks by name.
        """
        attacks = {name: attack.to_dict() for name, attack in self.attacks.items()}
        return {"strongest": self.strongest, "attacks": attacks}

    def __repr__(self) -> str:
        best = f"strongest {self.strongest!r}, AUC {self.auc:.4g}, {self.epsilon!r}"
        return f"MembershipInference({len(self.attacks)} attacks, {best})"

    def _columns(self) -> dict[str, Any]:
        """One row per attack: area under its curve, TPR at 0.1 % FPR, epsilon."""
        found = list(self.attacks.values())
        return {
            "attack": list(self.attacks),
            "auc": [float(each.auc) for each in found],
            "auc_low": [each.auc.low for each in found],
            "auc_high": [each.auc.high for each in found],
            "tpr": [float(each.tpr[0.001]) for each in found],
            "epsilon": [each.epsilon.epsilon for each in found],
            "knows": [each.knows for each in found],
        }

    def __str__(self) -> str:
        lines = [
            f"  {name:<24} AUC {attack.auc!r}, TPR at 0.1 % FPR {attack.tpr[0.001]!r}"
            for name, attack in self.attacks.items()
        ]
        return "\n".join(["MembershipInference:", *lines])


def membership_inference(
    model: Any,
    train: Interactions,
    test: Interactions,
    *,
    make: Callable[[], Any] | None = None,
    shadows: int = 8,
    sample: int = 100_000,
    confidence: float = 0.95,
    delta: float = 0,
    random_state: RandomState = 0,
) -> MembershipInference:
    """Attack a model by membership inference: guess which ratings it learned from.

    Runs every attack that the model allows: loss threshold, likelihood ratio, latent factors if the
    model exposes them, and shadow models if `make` is given.

    Parameters
    ----------
    model : object
        A fitted model with `predict(users, items)`.
    train : Interactions
        Ratings that the model learned from, at least 40.
    test : Interactions
        Ratings that it did not learn from, at least 40, split off at random.
    make : callable or None, default=None
        Function that returns an untrained model of the same kind. If given, shadow models are
        trained, each on all rows of both sets except one part.
    shadows : int, default=8
        Number of shadow models, from 3 to 64.
    sample : int, default=100000
        Maximum number of rows of each set, at least 40; half of them train the attacks.
    confidence : float, default=0.95
        Confidence of the intervals and bounds, above 0 and below 1.
    delta : float, default=0
        Delta at which epsilon is bounded, at least 0 and below 1.
    random_state : int, Generator or None, default=0
        Seed of the sample and of the shadow models.

    Returns
    -------
    MembershipInference
        All attacks, with confidence intervals and lower bounds on epsilon.

    Notes
    -----
    **Guarantee.** If the test rows were split off at random and took no part in training or model
    selection, each interval covers its rate with this confidence, and all lower bounds on epsilon
    are jointly valid with this confidence. An attack that fails proves nothing: a stronger one may
    exist.

    References
    ----------
    .. [1] Yeom, Giacomelli, Fredrikson, Jha. "Privacy risk in machine learning: analyzing the
       connection to overfitting". CSF 2018 (loss threshold). https://arxiv.org/abs/1709.01604
    .. [2] Carlini, Chien, Nasr, Song, Terzis, Tramèr. "Membership Inference Attacks From First
       Principles". S&P 2022 (likelihood ratio). https://arxiv.org/abs/2112.03570
    .. [3] Steinke, Nasr, Jagielski. "Privacy Auditing with One (1) Training Run". NeurIPS 2023
       (lower bound on epsilon). https://arxiv.org/abs/2305.08846

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> users, items = rng.integers(0, 50, 2000), np.arange(2000)
    >>> train, test = Interactions(users, items, rng.normal(3, 1, 2000)).split(0.5, 0.5)
    >>> class Memorising:
    ...     ratings = dict(zip(train.items, train.ratings))
    ...     def predict(self, users, items):
    ...         return np.array([self.ratings.get(item, 3.0) for item in items])
    >>> membership_inference(Memorising(), train, test).attacks["loss"].auc
    1 (0.9926 to 1)
    """
    settings = checked_settings(
        "membership_inference",
        shadows=shadows,
        sample=sample,
        confidence=confidence,
        delta=delta,
        random_state=random_state,
    )
    return inferred("membership_inference", model, train, test, make, settings)[1]


def checked_settings(owner: str, **given: Any) -> dict[str, Any]:
    """Settings in plain types; ValueError naming the first that is invalid."""
    return {name: LIMITS[name].check(owner, name, value) for name, value in given.items()}


def inferred(
    owner: str, model: Any, train: Any, test: Any, make: Any, settings: dict[str, Any]
) -> tuple[Sides, MembershipInference]:
    """The sampled rows of both sides, and the attacks on them."""
    seed = random_seed(owner, settings["random_state"])
    sides = look(owner, model, train, test, settings["sample"], np.random.default_rng(seed))
    scores = dict(_scores(model, train, test, sides.halves()[0]))
    if make is not None:
        scores |= _shadow_scores(make, train, test, settings["shadows"], seed)
    attacks = attacked(sides, scores, settings["confidence"], settings["delta"])
    return sides, MembershipInference(attacks)


def attacked(sides: Sides, scores: Scores, confidence: float, delta: float) -> dict[str, Attack]:
    """Each attack, measured on the half of the rows that trained none of them."""
    learned, measured = sides.halves()
    together = 1 - (1 - confidence) / len(scores)
    found = {}
    for name, (knows, score) in scores.items():
        before, after = ((score(half.members), score(half.others)) for half in (learned, measured))
        found[name] = Attack(
            **vars(roc_curve(*after, confidence)),
            knows=knows,
            epsilon=pairs_lower_bound(before, after, delta, together),
            auc_by_activity=_by_activity(measured, after, confidence),
        )
    return found


def _by_activity(
    sides: Sides, scores: tuple[np.ndarray, np.ndarray], confidence: float
) -> tuple[Rate | None, ...]:
    """Area under the ROC curve among the rows of each quarter of the users."""
    found: list[Rate | None] = []
    for quarter in range(4):
        parts = [of[side.quarter == quarter] for of, side in zip(scores, sides[:2], strict=True)]
        few = min(side.size for side in parts) < LEAST // 2
        found.append(None if few else roc_curve(parts[0], parts[1], confidence).auc)
    return tuple(found)


def _shadow_scores(make: Any, train: Any, test: Any, shadows: int, seed: int) -> Scores:
    """The attack by shadow models, with what it knows."""
    knows = "the rating, all rows of both sides and the training; sees predictions"
    return {"shadow models": (knows, by_shadow_models(make, train, test, shadows, seed))}


def _scores(
    model: Any, train: Interactions, test: Interactions, known: Sides
) -> Iterator[tuple[str, tuple[str, Score]]]:
    """The attacks that the model allows: what each knows, and its score."""
    yield "loss", ("the rating; sees the prediction", lambda rows: -(rows.errors**2))
    knows = "the rating, how active user and item are, and half of the members"
    yield "likelihood ratio", (f"{knows}; sees predictions", by_kind_of_row(known))
    if has_factors(model):
        ids = [side.coded().item_ids for side in (train, test)]
        items = np.unique(np.concatenate(ids))
        knows = "half of the members; has the factors of user and items"
        yield "factors", (f"{knows}, not the rating", by_factors(model, items, known, False))
        knows = "the rating and half of the members; has the factors of user and items"
        yield "factors and rating", (knows, by_factors(model, items, known, True))
