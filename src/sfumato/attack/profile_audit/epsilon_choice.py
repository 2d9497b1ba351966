"""The largest epsilon of a grid at which attackers recover no more than is allowed, how sure."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.attack.profile_audit.scenario import AttackSettings, Point, Scenario
from sfumato.attack.report.html import AUDIENCE
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.tables import Table
from sfumato.core.validation import RandomState, fraction, positive
from sfumato.data.interactions import Interactions

__all__ = ["LARGEST", "EpsilonChoice", "Progress", "choose_epsilon", "chosen"]

OWNER = "choose_epsilon"
LARGEST = 64.0
RANGE = 4096  # the largest epsilon is this much larger than the smallest that may be chosen
# The 24 values a decade of IEC 60063, about 10 % apart: whoever reads the choice learns a place on
# this list, and not where exactly the raw data put the limit.
TENTHS = (
    *(10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30),
    *(33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91),
)
CAUTION = (
    "It was chosen by looking at raw profiles: one row can move it, and the guarantee of a release "
    "does not cover the choice. To be safe, choose on public or earlier data."
)
RESAMPLED = 1000
CONFIDENCE = 0.95
Progress = Callable[[int, int], None]


@dataclass(frozen=True, repr=False)
class EpsilonChoice(Table):
    """An epsilon for profiles, chosen by attacks on raw data: for the curator, not a release.

    No guarantee of a release covers it: one row of the raw data can move it to another value of the
    grid, and low, high and recovery move with every row. epsilon: the largest one of the grid at
    which the best attack recovers at most max_recovery, None if there is none; low, high: where it
    would be for other users of the same kind, 95 times in 100 (0 means none, and the largest asked
    means that or more); recovery: at epsilon; popularity: what popularity alone recovers, whatever
    is released; tried: each epsilon that was attacked, with what was recovered.

    Parameters
    ----------
    max_recovery : float
        TODO.
    epsilon : float or None
        TODO.
    low : float
        TODO.
    high : float
        TODO.
    recovery : float or None
        TODO.
    popularity : float
        TODO.
    largest : float
        TODO.
    tried : tuple
        TODO.
    """

    max_recovery: float
    epsilon: float | None
    low: float
    high: float
    recovery: float | None
    popularity: float
    largest: float
    tried: tuple[tuple[float, float], ...]

    @property
    def sentence(self) -> str:
        """What was found, in plain words."""
        asked, alone = f"{self.max_recovery:.0%}", f"{self.popularity:.1%}"
        if self.epsilon is None and self.popularity > self.max_recovery:
            return (
                f"No epsilon keeps recovery at or below {asked}: popularity alone recovers {alone} "
                f"of a typical profile, whatever is released. Allow more than {alone}."
            )
        if self.epsilon is None:
            return (
                f"No epsilon from {self.tried[0][0]:.3g} up keeps recovery at or below {asked}; "
                f"popularity alone recovers {alone} of a typical profile. Allow a little more."
            )
        if self.epsilon >= self.largest:
            return (
                f"Even at epsilon {self.epsilon:.3g}, the largest asked, the best attack recovers "
                f"{self.recovery:.1%} of a typical profile, at most the {asked} allowed. {CAUTION}"
            )
        return (
            f"Epsilon {self.epsilon:.3g} is the largest of a fixed grid that keeps recovery at or "
            f"below {asked}: the best attack recovers {self.recovery:.1%} of a typical profile, "
            f"popularity alone {alone}. For other users of the same kind it would lie between "
            f"{self.low:.3g} and {self.high:.3g} ({CONFIDENCE:.0%} interval). {CAUTION}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The choice as plain JSON values.

        Returns
        -------
        dict
            The choice as plain JSON values.
        """
        names = ("max_recovery", "epsilon", "low", "high", "recovery", "popularity", "largest")
        told = {name: getattr(self, name) for name in names}
        tried = [{"epsilon": epsilon, "recovery": value} for epsilon, value in self.tried]
        raw = {"audience": AUDIENCE, "depends_on_raw_data": True, "caution": CAUTION}
        return {**raw, "sentence": self.sentence, **told, "tried": tried}

    def __repr__(self) -> str:
        found = "no epsilon" if self.epsilon is None else f"epsilon {self.epsilon:.3g}"
        between = f"({self.low:.3g} to {self.high:.3g})"
        at = f"recovery at or below {self.max_recovery:.0%}"
        how = "chosen by looking at raw profiles"
        return f"EpsilonChoice ({AUDIENCE}): {found} {between} keeps {at}; {how}"

    def __str__(self) -> str:
        return f"EpsilonChoice ({AUDIENCE}): {self.sentence}"

    def _columns(self) -> dict[str, Any]:
        """A row an epsilon that was attacked, with the share that was recovered."""
        epsilons, shares = ([pair[side] for pair in self.tried] for side in (0, 1))
        return {"epsilon": epsilons, "recovery": shares}


@renamed_arguments(k="n")
def choose_epsilon(
    interactions: Interactions,
    mechanism: Any,
    max_recovery: float = 0.3,
    *,
    largest: float = LARGEST,
    known: float = 0.6,
    sample: int | None = None,
    n: int = 10,
    random_state: RandomState = 0,
    progress: Progress | None = None,
) -> EpsilonChoice:
    """The largest epsilon at which the best attack recovers at most a share of typical profiles.

    Parameters
    ----------
    interactions : Interactions
        Raw.
    mechanism : object
        A Blip, Jlt, Signs or Minima, whose other parameters are kept.
    max_recovery : float, default=0.3
        The share of a profile, between 0 and 1.
    largest : float, default=64.0
        Where the search begins and the one value that need not be of the grid; the others as of
        `audit_profiles`.
    known : float, default=0.6
        TODO.
    sample : int or None, default=None
        TODO.
    n : int, default=10
        TODO.
    random_state : int, Generator or None, default=0
        TODO.
    progress : callable or None, default=None
        TODO.

    Returns
    -------
    EpsilonChoice
        The largest epsilon at which the best attack recovers at most a share of typical profiles.

    Notes
    -----
    **Guarantee.** The same input gives the same choice; the epsilon chosen was attacked itself,
    with the noise and the users of all others that were tried, and the next one up on a grid that
    is fixed beforehand (1, 1.1, 1.2, 1.3, 1.5, ... about 10 % apart), or largest, was found too
    large. It is measured, not proved: a better attack may exist. Nor is it private: epsilon depends
    on raw profiles, removing one row can move it, and what a release with it promises does not
    cover that. To be safe, choose on public or earlier data.

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> from sfumato.profile import Blip
    >>> world = generate_world(users=60, items=80, ratings=900).interactions
    >>> found = choose_epsilon(world, Blip(bits=512, hashes=4, epsilon=1), 0.6, largest=16)
    >>> found.low <= found.epsilon <= found.high
    True
    """
    scene = Scenario(OWNER, interactions, mechanism, AttackSettings(known, sample, n, random_state))
    return chosen(OWNER, scene, max_recovery, largest, progress)


def chosen(
    owner: str, scene: Scenario, max_recovery: float, largest: float, progress: Progress | None
) -> EpsilonChoice:
    """The choice for a scene, by halving the part of the grid where it lies."""
    max_recovery = fraction.check(owner, "max_recovery", max_recovery)
    top = positive.check(owner, "largest", largest)
    if scene.popularity > max_recovery:
        return _told(scene, [], max_recovery, top, None)
    tried: dict[int, Point] = {}
    grid = _grid(top)
    search = _EpsilonSearch(scene, grid, tried, progress)
    low, high = -1, len(grid) - 1  # what is lower than all that may be tried counts as kept
    if search.recovery(high) <= max_recovery:
        low = high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if search.recovery(middle) <= max_recovery else (low, middle)
    points = [tried[at] for at in sorted(tried)]
    return _told(scene, points, max_recovery, top, tried.get(low))


@dataclass(frozen=True)
class _EpsilonSearch:
    """Points at places of the grid, each attacked once."""

    scene: Scenario
    grid: list[float]
    tried: dict[int, Point]
    progress: Progress | None

    def recovery(self, at: int) -> float:
        if at not in self.tried:
            self.tried[at] = self.scene.at(self.grid[at], self._tell)
        return self.tried[at].recovery

    def _tell(self, share: float) -> None:
        if self.progress is not None:
            users, planned = self.scene.users.size, 1 + len(self.grid).bit_length()
            total = max(planned, len(self.tried) + 1) * users
            self.progress(round((len(self.tried) + share) * users), total)


def _grid(largest: float) -> list[float]:
    """What may be chosen, rising: all values of the list in range, and the largest."""
    decades = range(math.floor(math.log10(largest / RANGE)), math.floor(math.log10(largest)) + 1)
    values = (float(f"{tenths}e{decade - 1}") for decade in decades for tenths in TENTHS)
    return [*(value for value in values if largest / RANGE <= value < largest), largest]


def _told(
    scene: Scenario, points: list[Point], allowed: float, largest: float, best: Point | None
) -> EpsilonChoice:
    low, high = _interval(points, allowed, scene.settings.random_state) if points else (0.0, 0.0)
    return EpsilonChoice(
        max_recovery=allowed,
        epsilon=None if best is None else best.epsilon,
        low=low if best is None else min(low, best.epsilon),
        high=high if best is None else max(high, best.epsilon),
        recovery=None if best is None else best.recovery,
        popularity=scene.popularity,
        largest=largest,
        tried=tuple((point.epsilon, point.recovery) for point in points),
    )


def _interval(points: list[Point], allowed: float, random_state: int) -> tuple[float, float]:
    """Where the choice would fall for users drawn anew from these, by the bootstrap."""
    shares = np.stack([point.shares for point in points])  # epsilons x attacks x users
    users = shares.shape[2]
    draws = np.random.default_rng(random_state).multinomial(
        users, np.full(users, 1 / users), RESAMPLED
    )
    means = np.einsum("eau,ru->rea", shares, draws / users, optimize=True).max(axis=2)
    crossings = _crossings(np.log([point.epsilon for point in points]), means, allowed)
    ends = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    low, high = np.quantile(crossings, ends, method="inverted_cdf")
    return float(np.exp(low)), float(np.exp(high))


def _crossings(logs: np.ndarray, curves: np.ndarray, allowed: float) -> np.ndarray:
    """Log epsilon where each curve first leaves what is allowed; -inf if it never kept it.

    Between two epsilons that were tried a curve is taken as straight.
    """
    above = curves > allowed
    after = np.where(above.any(axis=1), above.argmax(axis=1), logs.size)
    inside = np.clip(after, min(1, logs.size - 1), logs.size - 1)
    rows, before = np.arange(len(curves)), np.maximum(inside - 1, 0)
    rise = curves[rows, inside] - curves[rows, before]
    part = (allowed - curves[rows, before]) / np.where(rise > 0, rise, 1)
    crossed = logs[before] + np.clip(part, 0, 1) * (logs[inside] - logs[before])
    return np.where(after == 0, -np.inf, np.where(after == logs.size, logs[-1], crossed))
