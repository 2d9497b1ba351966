"""The audit of released profiles: what attackers recover at each epsilon, with its files."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sfumato.attack.profile_audit.epsilon_choice import LARGEST, EpsilonChoice, Progress, chosen
from sfumato.attack.profile_audit.scenario import POPULARITY, AttackSettings, Point, Scenario
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.html_pages import AUDIENCE, write
from sfumato.core.tables import Table
from sfumato.core.validation import RandomState, positive
from sfumato.data.interactions import Interactions

__all__ = ["ProfileAudit", "audit_profiles"]

OWNER = "audit_profiles"
OCTAVES = 3  # below and above the mechanism's epsilon
FAR = 1.9  # ratio of epsilons at which another one is worth reporting


@dataclass(frozen=True, repr=False)
class ProfileAudit(Table):
    """Result of the attacks on released profiles, over a range of epsilons.

    Returned by `audit_profiles`. Computed from raw data and not a release: for the curator only.

    Parameters
    ----------
    mechanism : dict
        Kind and parameters of the mechanism.
    epsilon : float
        The mechanism's epsilon, or the chosen one.
    points : tuple of Point
        Measurements at each epsilon, in increasing order.
    popularity : float
        Mean fraction of a profile that popularity alone recovers.
    users : dict of str to int
        Number of users: "known", "learned_from", "attacked" and "at_most".
    candidates : int
        Number of items that a profile may contain.
    mean_size : float
        Mean number of items of an attacked profile.
    neighbours : int
        Number of nearest neighbours in the measure of utility.
    random_state : int
        Seed of the audit.
    choice : EpsilonChoice or None
        The choice of epsilon, None if `max_recovery` was not given.

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> from sfumato.profile import Blip
    >>> world = generate_world(users=40, items=50, ratings=500).interactions
    >>> found = audit_profiles(world, Blip(bits=256, hashes=4, epsilon=8), epsilons=[2])
    >>> [point.epsilon for point in found.points], found.choice
    ([2.0, 8.0], None)
    """

    mechanism: dict[str, Any]
    epsilon: float
    points: tuple[Point, ...]
    popularity: float
    users: dict[str, int]
    candidates: int
    mean_size: float
    neighbours: int
    random_state: int
    choice: EpsilonChoice | None

    @property
    def point(self) -> Point:
        """Measurements at the audited epsilon."""
        return next(point for point in self.points if point.epsilon == self.epsilon)

    @property
    def recovery(self) -> float:
        """Mean fraction of a profile that the best attack recovers at the audited epsilon."""
        return self.point.recovery

    @property
    def sentence(self) -> str:
        """The audit in plain words."""
        below = [point for point in self.points if point.epsilon * FAR <= self.epsilon][-1:]
        above = [point for point in self.points if point.epsilon >= self.epsilon * FAR][:1]
        others = "; ".join(
            f"at epsilon {each.epsilon:.3g} it would be {each.by_popularity:.1%} and "
            f"{each.recovery:.1%}"
            for each in (*below, *above)
        )
        return (
            f"An attacker who sees this release (epsilon {self.epsilon:.3g}) and knows item "
            f"popularity recovers {self.point.by_popularity:.1%} of a typical profile; popularity "
            f"alone gives {self.popularity:.1%}. One who has also learned from known profiles "
            f"which items go together recovers {self.recovery:.1%}"
            f"{'; ' if others else ''}{others}."
        )

    @property
    def promise(self) -> str:
        """The guarantee for one item, and the weaker one for an entire profile."""
        here, delta = self.point, ""
        if here.delta:
            delta = f" at delta {here.delta:.3g}"
        return (
            "The release is differentially private for one item of a profile with epsilon "
            f"{here.epsilon:.4g}{delta}; for all items of a profile of mean size, "
            f"{round(self.mean_size)}, only with epsilon {here.profile_epsilon:.4g}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert the audit to plain JSON values.

        Returns
        -------
        dict
            Aggregates over many users; no value of a single user.
        """
        alone = self.point.attacks[POPULARITY]
        return {
            "audience": AUDIENCE,
            "sentence": self.sentence,
            "promise": self.promise,
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "recovery": self.recovery,
            "popularity": {
                "attack": POPULARITY,
                "recovery": self.popularity,
                "privacy": 1 - alone.cosine,
            },
            "added_by_release": self.recovery - self.popularity,
            "users": self.users,
            "candidates": self.candidates,
            "mean_size": self.mean_size,
            "neighbours": self.neighbours,
            "random_state": self.random_state,
            "points": [point.to_dict() for point in self.points],
            "choice": self.choice and self.choice.to_dict(),
        }

    def files(self) -> dict[str, bytes]:
        """Render the JSON, the figure and the page.

        Returns
        -------
        dict of str to bytes
            Contents of the files by extension: "json", "png" and "html".
        """
        from sfumato.attack.report.profile_page import figure_png, page

        fields = self.to_dict()
        png = figure_png(fields)
        return {"json": _json(fields), "png": png, "html": page(fields, png).encode()}

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write the figures as JSON, atomically.

        Parameters
        ----------
        path : path_like
            File to write.
        """
        write(path, _json(self.to_dict()))

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """Write the figure as PNG, atomically.

        Parameters
        ----------
        path : path_like
            File to write.
        """
        write(path, self.files()["png"])

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML page, atomically.

        Parameters
        ----------
        path : path_like
            File to write.
        """
        write(path, self.files()["html"])

    def __repr__(self) -> str:
        found = (
            f"recovers {self.recovery:.1%} of a typical profile, popularity {self.popularity:.1%}"
        )
        what = f"{self.mechanism['kind']} at epsilon {self.epsilon:.3g}"
        return f"ProfileAudit of {what} ({AUDIENCE}): the best attack {found}"

    def __str__(self) -> str:
        return f"ProfileAudit of {self.mechanism['kind']} ({AUDIENCE}): {self.sentence}"

    def _columns(self) -> dict[str, Any]:
        """One row per epsilon: recovery, strongest attack and utility."""
        names = [
            "epsilon",
            "delta",
            "profile_epsilon",
            "recovery",
            "by_popularity",
            "strongest",
            "utility",
        ]
        return {name: [getattr(point, name) for point in self.points] for name in names}


@renamed_arguments(k="n")
def audit_profiles(
    interactions: Interactions,
    mechanism: Any,
    *,
    epsilons: Iterable[float] | None = None,
    max_recovery: float | None = None,
    known: float = 0.6,
    sample: int | None = None,
    n: int = 10,
    random_state: RandomState = 0,
    progress: Progress | None = None,
) -> ProfileAudit:
    """Measure what attackers recover of profiles that a mechanism releases.

    Some users are known to the attacker, others are released and attacked, at several epsilons.

    Parameters
    ----------
    interactions : Interactions
        Raw interactions of at least 20 users.
    mechanism : Blip, Jlt, Signs or Minima
        The mechanism to audit.
    epsilons : iterable or None, default=None
        Other epsilons to measure. None takes up to three octaves below and above the mechanism's
        own.
    max_recovery : float or None, default=None
        Fraction of a profile, between 0 and 1, for which to choose an epsilon as `choose_epsilon`
        does; it replaces the mechanism's own. The choice depends on raw data and is not covered by
        the guarantee of any release. None chooses none.
    known : float, default=0.6
        Fraction of users whose raw profiles the attacker knows, between 0 and 1.
    sample : int or None, default=None
        Maximum number of attacked users. None takes 200, or fewer (but at least 20) where users x
        items would exceed 2**22.
    n : int, default=10
        Number of nearest neighbours in the measure of utility.
    random_state : int, Generator or None, default=0
        Seed of the split, the noise and the attacks.
    progress : callable or None, default=None
        Called as progress(done, total) while attacks run.

    Returns
    -------
    ProfileAudit
        Recovery, privacy and utility at each epsilon, with methods that write JSON, a figure and a
        page.

    Notes
    -----
    **Guarantee.** The same input gives the same audit. Attackers see only what a release would
    contain, and the profiles of known users. The releases are made with seeded noise and discarded.
    Attacks that fail prove nothing.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.5 (reconstruction of released profiles, privacy and utility).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> from sfumato.profile import Blip
    >>> world = generate_world(users=60, items=80, ratings=900).interactions
    >>> found = audit_profiles(world, Blip(bits=512, hashes=4, epsilon=16), epsilons=[1])
    >>> found.recovery > found.popularity
    True
    """
    scene = Scenario(OWNER, interactions, mechanism, AttackSettings(known, sample, n, random_state))
    own, choice = scene.own_epsilon, None
    if max_recovery is not None:
        choice = chosen(OWNER, scene, max_recovery, LARGEST, progress)
        own = choice.epsilon or own
    requested = _requested(epsilons, own, choice)
    return ProfileAudit(
        mechanism={"kind": type(mechanism).__name__, **_plain(mechanism.parameters)},
        epsilon=own,
        points=_attacked(scene, requested, progress),
        popularity=scene.popularity,
        users={
            "known": scene.known_users,
            "learned_from": scene.learned,
            "attacked": int(scene.users.size),
            "at_most": scene.most,
        },
        candidates=int(scene.candidates.size),
        mean_size=scene.mean_size,
        neighbours=scene.n,
        random_state=scene.settings.random_state,
        choice=choice,
    )


def _requested(
    epsilons: Iterable[float] | None, own: float, choice: EpsilonChoice | None
) -> list[float]:
    """Epsilons to measure, rising: those given, else those of the choice, else around `own`."""
    if epsilons is not None:
        others = [positive.check(OWNER, "epsilons", each) for each in epsilons]
    elif choice is not None and choice.tried:
        others = [epsilon for epsilon, _ in choice.tried]
    else:
        others = [own * 2.0**octave for octave in range(-OCTAVES, OCTAVES + 1)]
    return sorted({*others, own})


def _attacked(
    scene: Scenario, requested: list[float], progress: Progress | None
) -> tuple[Point, ...]:
    """Measurements at these epsilons, with progress over all of them."""
    users = scene.users.size

    def at(position: int, epsilon: float) -> Point:
        def report(fraction_done: float) -> None:
            if progress is not None:
                progress(round((position + fraction_done) * users), len(requested) * users)

        return scene.at(epsilon, report)

    return tuple(at(position, epsilon) for position, epsilon in enumerate(requested))


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters except epsilon and sigma, which vary."""
    return {name: value for name, value in parameters.items() if name not in ("epsilon", "sigma")}


def _json(fields: dict[str, Any]) -> bytes:
    """JSON bytes of the fields."""
    return (json.dumps(fields, indent=1, allow_nan=False) + "\n").encode()
