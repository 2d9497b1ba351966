"""The largest epsilon of a grid at which attacks recover no more than allowed, and its interval."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.attack.profile_audit.scenario import AttackSettings, Point, Scenario
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.html_pages import AUDIENCE
from sfumato.core.tables import Table
from sfumato.core.validation import RandomState, fraction, positive
from sfumato.data.interactions import Interactions

__all__ = ["LARGEST", "EpsilonChoice", "Progress", "choose_epsilon", "chosen"]

OWNER = "choose_epsilon"
LARGEST = 64.0
RANGE = 4096  # the largest epsilon is this much larger than the smallest that may be chosen
# The 24 values per decade of IEC 60063, about 10 % apart: whoever reads the choice learns an entry
# of this list, and not where exactly the raw data put the limit.
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
    """Epsilon for profiles that was chosen by attacks on raw data.

    Returned by `choose_epsilon`. Not a release, and not covered by the guarantee of any: one row of
    the raw data can move it to another value of the grid, and `low`, `high` and `recovery` vary
    with every row. For the curator only.

    Parameters
    ----------
    max_recovery : float
        Largest allowed mean fraction of a profile that the best attack recovers.
    epsilon : float or None
        Largest epsilon of the grid at which the best attack recovers at most `max_recovery`; None
        if there is none.
    low : float
        Lower end of the 95 % interval of epsilon for other users of the same kind; 0 means none.
    high : float
        Upper end of that interval; `largest` means that or more.
    recovery : float or None
        Mean fraction of a profile that the best attack recovers at `epsilon`.
    popularity : float
        Mean fraction that popularity alone recovers, whatever is released.
    largest : float
        Largest epsilon of the search.
    tried : tuple of tuple of float
        Each attacked epsilon with the fraction recovered.

    Examples
    --------
    >>> choice = EpsilonChoice(0.3, 2.0, 1.5, 2.4, 0.29, 0.2, 64.0, ((2.0, 0.29), (2.2, 0.31)))
    >>> choice.sentence[:41]
    'Epsilon 2 is the largest of a fixed grid '
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
        """The choice in plain words, with a caution that it depends on raw data."""
        allowed, alone = f"{self.max_recovery:.0%}", f"{self.popularity:.1%}"
        if self.epsilon is None and self.popularity > self.max_recovery:
            return (
                f"No epsilon keeps recovery at or below {allowed}: popularity alone recovers "
                f"{alone} of a typical profile, whatever is released. Allow more than {alone}."
            )
        if self.epsilon is None:
            return (
                f"No epsilon from {self.tried[0][0]:.3g} up keeps recovery at or below {allowed}; "
                f"popularity alone recovers {alone} of a typical profile. Allow a little more."
            )
        if self.epsilon >= self.largest:
            return (
                f"Even at epsilon {self.epsilon:.3g}, the largest tried, the best attack recovers "
                f"{self.recovery:.1%} of a typical profile, at most the {allowed} allowed. "
                f"{CAUTION}"
            )
        return (
            f"Epsilon {self.epsilon:.3g} is the largest of a fixed grid that keeps recovery at or "
            f"below {allowed}: the best attack recovers {self.recovery:.1%} of a typical profile, "
            f"popularity alone {alone}. For other users of the same kind it would lie between "
            f"{self.low:.3g} and {self.high:.3g} ({CONFIDENCE:.0%} interval). {CAUTION}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert the choice to plain JSON values.

        Returns
        -------
        dict
            One entry per parameter of the class, and "audience", "depends_on_raw_data", "caution"
            and "sentence".
        """
        names = ("max_recovery", "epsilon", "low", "high", "recovery", "popularity", "largest")
        figures = {name: getattr(self, name) for name in names}
        tried = [{"epsilon": epsilon, "recovery": value} for epsilon, value in self.tried]
        raw = {"audience": AUDIENCE, "depends_on_raw_data": True, "caution": CAUTION}
        return {**raw, "sentence": self.sentence, **figures, "tried": tried}

    def __repr__(self) -> str:
        found = "no epsilon" if self.epsilon is None else f"epsilon {self.epsilon:.3g}"
        between = f"({self.low:.3g} to {self.high:.3g})"
        at = f"recovery at or below {self.max_recovery:.0%}"
        how = "chosen by looking at raw profiles"
        return f"EpsilonChoice ({AUDIENCE}): {found} {between} keeps {at}; {how}"

    def __str__(self) -> str:
        return f"EpsilonChoice ({AUDIENCE}): {self.sentence}"

    def _columns(self) -> dict[str, Any]:
        """One row per attacked epsilon, with the fraction recovered."""
        epsilons, fractions = ([pair[side] for pair in self.tried] for side in (0, 1))
        return {"epsilon": epsilons, "recovery": fractions}


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
    """Choose the largest epsilon at which attacks recover at most a given fraction.

    Parameters
    ----------
    interactions : Interactions
        Raw interactions of at least 20 users.
    mechanism : Blip, Jlt, Signs or Minima
        The mechanism; its parameters other than epsilon are used unchanged.
    max_recovery : float, default=0.3
        Largest allowed mean fraction of a profile that the best attack recovers, between 0 and 1.
    largest : float, default=64.0
        Largest epsilon of the search, above 0; the only value that need not be on the grid.
    known : float, default=0.6
        Fraction of users whose raw profiles the attacker knows, between 0 and 1.
    sample : int or None, default=None
        Maximum number of attacked users; the default is that of `audit_profiles`.
    n : int, default=10
        Number of nearest neighbours in the measure of utility.
    random_state : int, Generator or None, default=0
        Seed of the split, the noise and the attacks.
    progress : callable or None, default=None
        Called as progress(done, total) while attacks run.

    Returns
    -------
    EpsilonChoice
        The epsilon with its interval, or None as epsilon with the reason in `sentence`.

    Notes
    -----
    **Guarantee.** The same input with the same integer `random_state` gives the same choice. The
    candidates form a fixed grid from ``largest / 4096`` to `largest`, about 10 % apart (1, 1.1,
    1.2, 1.3, 1.5, ...), and are found by binary search. All are attacked with the same users and
    the same random seed. At the chosen epsilon the attacks recovered at most `max_recovery`; at the
    next one of the grid, unless it is `largest`, they recovered more.

    The choice is measured, not proved: a stronger attack may exist. It is not private either:
    epsilon depends on raw profiles, one row can change it, and the guarantee of a release with this
    epsilon does not cover the choice. To be safe, choose on public or earlier data.

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
    """The choice for a scenario, by binary search on the grid."""
    max_recovery = fraction.check(owner, "max_recovery", max_recovery)
    top = positive.check(owner, "largest", largest)
    if scene.popularity > max_recovery:
        return _summarised(scene, [], max_recovery, top, None)
    tried: dict[int, Point] = {}
    grid = _grid(top)
    search = _EpsilonSearch(scene, grid, tried, progress)
    low, high = -1, len(grid) - 1  # below the grid, the limit counts as met
    if search.recovery(high) <= max_recovery:
        low = high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if search.recovery(middle) <= max_recovery else (low, middle)
    points = [tried[at] for at in sorted(tried)]
    return _summarised(scene, points, max_recovery, top, tried.get(low))


@dataclass(frozen=True)
class _EpsilonSearch:
    """Measurements at positions of the grid, each attacked once."""

    scene: Scenario
    grid: list[float]
    tried: dict[int, Point]
    progress: Progress | None

    def recovery(self, at: int) -> float:
        if at not in self.tried:
            self.tried[at] = self.scene.at(self.grid[at], self._report)
        return self.tried[at].recovery

    def _report(self, fraction_done: float) -> None:
        if self.progress is not None:
            users, planned = self.scene.users.size, 1 + len(self.grid).bit_length()
            total = max(planned, len(self.tried) + 1) * users
            self.progress(round((len(self.tried) + fraction_done) * users), total)


def _grid(largest: float) -> list[float]:
    """Epsilons that may be chosen, rising: all values of the list in range, and the largest."""
    decades = range(math.floor(math.log10(largest / RANGE)), math.floor(math.log10(largest)) + 1)
    values = (float(f"{tenths}e{decade - 1}") for decade in decades for tenths in TENTHS)
    return [*(value for value in values if largest / RANGE <= value < largest), largest]


def _summarised(
    scene: Scenario, points: list[Point], allowed: float, largest: float, best: Point | None
) -> EpsilonChoice:
    """The choice with its interval, from the points that were tried."""
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
    """Bootstrap interval of the choice, over users."""
    fractions = np.stack([point.fractions for point in points])  # epsilons x attacks x users
    users = fractions.shape[2]
    draws = np.random.default_rng(random_state).multinomial(
        users, np.full(users, 1 / users), RESAMPLED
    )
    means = np.einsum("eau,ru->rea", fractions, draws / users, optimize=True).max(axis=2)
    crossings = _crossings(np.log([point.epsilon for point in points]), means, allowed)
    ends = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    low, high = np.quantile(crossings, ends, method="inverted_cdf")
    return float(np.exp(low)), float(np.exp(high))


def _crossings(logs: np.ndarray, curves: np.ndarray, allowed: float) -> np.ndarray:
    """Log epsilon where each curve first exceeds `allowed`; -inf if it always does.

    Curves are interpolated linearly between the epsilons that were tried.
    """
    above = curves > allowed
    after = np.where(above.any(axis=1), above.argmax(axis=1), logs.size)
    inside = np.clip(after, min(1, logs.size - 1), logs.size - 1)
    rows, before = np.arange(len(curves)), np.maximum(inside - 1, 0)
    rise = curves[rows, inside] - curves[rows, before]
    part = (allowed - curves[rows, before]) / np.where(rise > 0, rise, 1)
    crossed = logs[before] + np.clip(part, 0, 1) * (logs[inside] - logs[before])
    return np.where(after == 0, -np.inf, np.where(after == logs.size, logs[-1], crossed))
