"""Membership inference: can one tell which ratings a model learned from, and how surely?

Rates with the ends of their intervals, none of which rests on a normal law or on resampling. How
well one score tells members from others: area, hits at few false alarms, advantage.
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
    "told_apart",
    "widest_gap_rate",
]


class Rate(float):
    """A measured rate, which is a number, with `low` and `high`, the ends of its interval."""

    low: float
    high: float

    def __new__(cls, value: float, low: float, high: float) -> "Rate":
        rate = super().__new__(cls, value)
        rate.low, rate.high = float(low), float(high)
        return rate

    def __getnewargs__(self) -> Any:
        return float(self), self.low, self.high

    def to_dict(self) -> dict[str, float]:
        """The rate and its ends as plain JSON values."""
        return {"value": float(self), "low": self.low, "high": self.high}

    def __repr__(self) -> str:
        return f"{float(self):.4g} ({self.low:.4g} to {self.high:.4g})"


def binomial_rate(hits: int, trials: int, confidence: float) -> Rate:
    """The rate of hits with its interval of Clopper and Pearson 1934."""
    low, high = rate_bounds(hits, trials, hits, trials, confidence)
    return Rate(hits / trials, float(low), float(high))


def mean_rank_rate(value: float, pairs: int, confidence: float) -> Rate:
    """An area under the curve, with an interval that holds for every law of the scores.

    The area is a mean of means over `pairs`, the smaller side, of independent pairs of a member and
    another, so that Chernoff's bound for as many coins holds: Hoeffding 1963, section 5.
    """
    most = math.log(2 / (1 - confidence)) / pairs
    return Rate(value, 1 - _farthest(1 - value, most), _farthest(value, most))


def widest_gap_rate(value: float, members: int, others: int, confidence: float) -> Rate:
    """The largest distance of two distribution functions: Massart 1990, half the doubt a side."""
    reach = math.sqrt(math.log(4 / (1 - confidence)) / 2)
    reach *= 1 / math.sqrt(members) + 1 / math.sqrt(others)
    return Rate(value, max(value - reach, 0.0), min(value + reach, 1.0))


def _farthest(seen: float, most: float) -> float:
    """The largest rate whose relative entropy from the seen one is at most this, by bisection."""
    low, high = seen, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if binary_divergence(seen, middle) <= most else (low, middle)
    return high


ALARM_RATES = (0.001, 0.01)
POINTS = 160


@dataclass(frozen=True)
class RocCurve:
    """What a score, higher for members, tells; every rate with its interval.

    auc: the chance that a member scores above another, ties counting half; tpr: the share
    of members found at each allowed rate of false alarms, 0.001 and 0.01; advantage: the largest
    difference of the two rates over all thresholds, so it is above 0 also by chance; curve: points
    (false alarms, members found), for a figure.
    """

    members: int
    others: int
    auc: Rate
    tpr: dict[float, Rate]
    advantage: Rate
    curve: tuple[tuple[float, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        return {
            "members": self.members,
            "others": self.others,
            "auc": self.auc.to_dict(),
            "tpr": {f"{allowed:g}": rate.to_dict() for allowed, rate in self.tpr.items()},
            "advantage": self.advantage.to_dict(),
            "curve": [list(point) for point in self.curve],
        }


def told_apart(members: np.ndarray, others: np.ndarray, confidence: float) -> RocCurve:
    """Measure a score on members and on others, neither of which may be empty.

    Guarantee: where the score was fixed before and rows are independent, each interval holds the
    true rate with at least this confidence. Of rows with equal scores as large a share is called
    members as the allowed false alarms permit, as an attacker would who tosses a coin.
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
    return np.searchsorted(ordered, values, "left")


def _area(members: np.ndarray, others: np.ndarray) -> float:
    ends = (np.searchsorted(others, members, side).sum() for side in ("left", "right"))
    return float(sum(ends)) / (2 * members.size * others.size)


def _hits(members: np.ndarray, others: np.ndarray, allowed: float) -> tuple[int, int]:
    """The most false alarms that are allowed, and how many members are found at that price."""
    alarms = min(int(allowed * others.size + 1e-9), others.size - 1)
    threshold = others[others.size - 1 - alarms]
    (found, tied), (alarmed, alike) = (_above(side, threshold) for side in (members, others))
    return alarms, found + int(tied * (alarms - alarmed) / alike)


def _above(ordered: np.ndarray, threshold: float) -> tuple[int, int]:
    """How many scores are above a threshold, and how many equal it."""
    left, right = (int(np.searchsorted(ordered, threshold, side)) for side in ("left", "right"))
    return ordered.size - right, right - left


def _curve(members: np.ndarray, others: np.ndarray) -> tuple[tuple[float, float], ...]:
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
    """One attack: what the attacker knows, how well it told members from others, what it refutes.

    epsilon: the lower bound for replacing one rating by another; an algorithm that is private under
    add/remove may spend twice its epsilon on that, so half of the bound holds there.
    auc_by_activity: in each quarter of the users by their number of ratings, quietest first; None
    of too few rows.

    Parameters
    ----------
    members : int
        TODO.
    others : int
        TODO.
    auc : Rate
        TODO.
    tpr : dict
        TODO.
    advantage : Rate
        TODO.
    curve : tuple
        TODO.
    knows : str
        TODO.
    epsilon : LowerBound
        TODO.
    auc_by_activity : tuple
        TODO.
    """

    knows: str
    epsilon: LowerBound
    auc_by_activity: tuple[Rate | None, ...]

    def __repr__(self) -> str:
        rows = f"members={self.members}, others={self.others}"
        return f"Attack(auc={self.auc!r}, advantage={self.advantage!r}, {self.epsilon!r}, {rows})"

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values.

        Returns
        -------
        dict
            The figures as plain JSON values.
        """
        epsilon = {**self.epsilon.to_dict(), "relation": "replace"}
        activity = [rate and rate.to_dict() for rate in self.auc_by_activity]
        told = {"knows": self.knows, **super().to_dict()}
        return {**told, "epsilon": epsilon, "auc_by_activity": activity}


@dataclass(frozen=True, repr=False)
class MembershipInference(Table):
    """Attacks by name, for the curator: they are computed from raw data and are no release.

    auc: of the attack that tells most; epsilon: the largest lower bound of all.

    Parameters
    ----------
    attacks : dict
        TODO.
    """

    attacks: dict[str, Attack]

    @property
    def strongest(self) -> str:
        """The name of the attack with the largest area under its curve."""
        return max(self.attacks, key=lambda name: self.attacks[name].auc)

    @property
    def auc(self) -> float:
        """TODO."""
        return float(self.attacks[self.strongest].auc)

    @property
    def epsilon(self) -> LowerBound:
        """TODO."""
        return max((a.epsilon for a in self.attacks.values()), key=lambda bound: bound.epsilon)

    def to_dict(self) -> dict[str, Any]:
        """The attacks as plain JSON values.

        Returns
        -------
        dict
            The attacks as plain JSON values.
        """
        attacks = {name: attack.to_dict() for name, attack in self.attacks.items()}
        return {"strongest": self.strongest, "attacks": attacks}

    def __repr__(self) -> str:
        best = f"strongest {self.strongest!r}, AUC {self.auc:.4g}, {self.epsilon!r}"
        return f"MembershipInference({len(self.attacks)} attacks, {best})"

    def _columns(self) -> dict[str, Any]:
        """A row an attack: area under its curve, members found at 0.1 % false alarms, epsilon."""
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
    """Guess which ratings a model learned from, by every attack we know, and count.

    Parameters
    ----------
    model : object
        With `predict(users, items)`, attacked also by its factors if it gives them.
    train : Interactions
        What it learned from,.
    test : Interactions
        At least 40 ratings each.
    make : callable or None, default=None
        A function that gives an untrained model like it: then `shadows` of them, from 3 to 64, are
        trained on all rows but a part.
    shadows : int, default=8
        TODO.
    sample : int, default=100000
        The most rows of each side, half of which teach the attacks.
    confidence : float, default=0.95
        TODO.
    delta : float, default=0
        At which epsilon is bounded.
    random_state : int, Generator or None, default=0
        Of the sample, an int, a numpy Generator or None.

    Returns
    -------
    MembershipInference
        TODO.

    Notes
    -----
    **Guarantee.** Where test rows were split off at random and took no part in training or in
    choosing the model, each interval holds its rate with this confidence, and so do all lower
    bounds on epsilon together. An attack that fails proves nothing: there may be a better one.

    References
    ----------
    .. [1] The loss threshold is that of Yeom and others 2018, the likelihood ratio that of Carlini
       and others 2022, the bound that of Steinke, Nasr and Jagielski 2023.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0)
    >>> users, items = draws.integers(0, 50, 2000), np.arange(2000)
    >>> train, test = Interactions(users, items, draws.normal(3, 1, 2000)).split(0.5, 0.5)
    >>> class Parrot:
    ...     heard = dict(zip(train.items, train.ratings))
    ...     def predict(self, users, items):
    ...         return np.array([self.heard.get(item, 3.0) for item in items])
    >>> membership_inference(Parrot(), train, test).attacks["loss"].auc
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
    """The settings in their plain types, or ValueError naming the first that is wrong."""
    return {name: LIMITS[name].check(owner, name, value) for name, value in given.items()}


def inferred(
    owner: str, model: Any, train: Any, test: Any, make: Any, settings: dict[str, Any]
) -> tuple[Sides, MembershipInference]:
    """The rows that were looked at, and what the attacks told about them."""
    seed = random_seed(owner, settings["random_state"])
    sides = look(owner, model, train, test, settings["sample"], np.random.default_rng(seed))
    scores = dict(_scores(model, train, test, sides.halves()[0]))
    if make is not None:
        scores |= _shadow_scores(make, train, test, settings["shadows"], seed)
    attacks = attacked(sides, scores, settings["confidence"], settings["delta"])
    return sides, MembershipInference(attacks)


def attacked(sides: Sides, scores: Scores, confidence: float, delta: float) -> dict[str, Attack]:
    """Each attack, measured on the half of the rows that taught none of them."""
    learned, measured = sides.halves()
    together = 1 - (1 - confidence) / len(scores)
    found = {}
    for name, (knows, score) in scores.items():
        before, after = ((score(half.members), score(half.others)) for half in (learned, measured))
        found[name] = Attack(
            **vars(told_apart(*after, confidence)),
            knows=knows,
            epsilon=pairs_lower_bound(before, after, delta, together),
            auc_by_activity=_by_activity(measured, after, confidence),
        )
    return found


def _by_activity(
    sides: Sides, scores: tuple[np.ndarray, np.ndarray], confidence: float
) -> tuple[Rate | None, ...]:
    """The area under the curve among the rows of each quarter of the users."""
    found: list[Rate | None] = []
    for quarter in range(4):
        told = [of[side.quarter == quarter] for of, side in zip(scores, sides[:2], strict=True)]
        few = min(side.size for side in told) < LEAST // 2
        found.append(None if few else told_apart(told[0], told[1], confidence).auc)
    return tuple(found)


def _shadow_scores(make: Any, train: Any, test: Any, shadows: int, seed: int) -> Scores:
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
        knows = "half of the members; holds the factors of user and items"
        yield "factors", (f"{knows}, not the rating", by_factors(model, items, known, False))
        knows = "the rating and half of the members; holds the factors of user and items"
        yield "factors and rating", (knows, by_factors(model, items, known, True))
