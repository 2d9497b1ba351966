"""What released profiles give away about those who are in them, on one page for the curator."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sfumato.attack.profile_audit.epsilon_choice import LARGEST, EpsilonChoice, Progress, chosen
from sfumato.attack.profile_audit.scenario import POPULARITY, AttackSettings, Point, Scenario
from sfumato.attack.report.html import AUDIENCE, write
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.tables import Table
from sfumato.core.validation import RandomState, positive
from sfumato.data.interactions import Interactions

__all__ = ["ProfileAudit", "audit_profiles"]

OWNER = "audit_profiles"
OCTAVES = 3  # below and above the epsilon asked for
FAR = 1.9  # times epsilon: another that is worth telling


@dataclass(frozen=True, repr=False)
class ProfileAudit(Table):
    """What attacks recover of released profiles; for the curator, since raw data was looked at.

    mechanism: its kind and parameters; epsilon: the one that was asked for or chosen; points: what
    was measured there and at other epsilons, in order; popularity: the mean share of a profile that
    popularity alone recovers; users: how many are known and attacked, and how many would be at
    most; candidates: items that a profile may have; mean_size: items of an attacked profile;
    neighbours: how many the utility is about; choice: the epsilon chosen, None if none was asked
    for.

    Parameters
    ----------
    mechanism : dict
        TODO.
    epsilon : float
        TODO.
    points : tuple
        TODO.
    popularity : float
        TODO.
    users : dict
        TODO.
    candidates : int
        TODO.
    mean_size : float
        TODO.
    neighbours : int
        TODO.
    random_state : int
        TODO.
    choice : EpsilonChoice or None
        TODO.
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
        """What was measured at the epsilon that was asked for."""
        return next(point for point in self.points if point.epsilon == self.epsilon)

    @property
    def recovery(self) -> float:
        """The mean share of a profile that the best attack recovers at the epsilon asked for."""
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
        """What epsilon promises of one item, and how little of a whole profile."""
        here, delta = self.point, ""
        if here.delta:
            delta = f" at delta {here.delta:.3g}"
        return (
            f"The release hides one item of a profile at epsilon {here.epsilon:.4g}{delta}; all "
            f"items of a profile of mean size, {round(self.mean_size)}, it hides only at epsilon "
            f"{here.profile_epsilon:.4g}."
        )

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain JSON values: figures over many users, none about one.

        Returns
        -------
        dict
            The audit as plain JSON values: figures over many users, none about one.
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
        """The JSON, the figure and the page, by the ends of their names.

        Returns
        -------
        dict
            The JSON, the figure and the page, by the ends of their names.
        """
        from sfumato.attack.report.profile_page import figure_png, page

        told = self.to_dict()
        png = figure_png(told)
        return {"json": _json(told), "png": png, "html": page(told, png).encode()}

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write the figures as JSON, whole or not at all.

        Parameters
        ----------
        path : path_like
            TODO.
        """
        write(path, _json(self.to_dict()))

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """Write the figure, whole or not at all.

        Parameters
        ----------
        path : path_like
            TODO.
        """
        write(path, self.files()["png"])

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write one page that needs no other file, whole or not at all.

        Parameters
        ----------
        path : path_like
            TODO.
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
        """A row an epsilon: what is recovered there, by which attack, and what is still found."""
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
    """Measure what an attacker recovers of profiles that a mechanism releases.

    Thesis 3.5; privacy and utility as there.

    Parameters
    ----------
    interactions : Interactions
        Raw, of at least 20 users.
    mechanism : object
        A Blip, Jlt, Signs or Minima.
    epsilons : iterable or None, default=None
        Others to look at, by default up to three octaves below and above its own.
    max_recovery : float or None, default=None
        A share between 0 and 1 to choose an epsilon for as `choose_epsilon` does (from raw data,
        which no release's guarantee covers), which is then looked at in place of the mechanism's
        own, None to choose none.
    known : float, default=0.6
        The share of users whose raw profiles the attacker knows.
    sample : int or None, default=None
        The most users who are attacked, by default 200, fewer (20 or more) where users x items
        would exceed 2**22.
    n : int, default=10
        Nearest neighbours to find again.
    random_state : int, Generator or None, default=0
        Of the split, the noise and the attacks.
    progress : callable or None, default=None
        None or a callback (done, total).

    Returns
    -------
    ProfileAudit
        TODO.

    Notes
    -----
    **Guarantee.** The same input gives the same audit; attackers see only what a release would
    hold, and the popularity of items among known users. The releases are made with seeded noise and
    thrown away. Attacks that fail prove nothing.

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
    asked = _asked(epsilons, own, choice)
    return ProfileAudit(
        mechanism={"kind": type(mechanism).__name__, **_plain(mechanism.parameters)},
        epsilon=own,
        points=_attacked(scene, asked, progress),
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


def _asked(
    epsilons: Iterable[float] | None, own: float, choice: EpsilonChoice | None
) -> list[float]:
    """Which epsilons to look at, rising: those given, else those tried, else some around."""
    if epsilons is not None:
        others = [positive.check(OWNER, "epsilons", each) for each in epsilons]
    elif choice is not None and choice.tried:
        others = [epsilon for epsilon, _ in choice.tried]
    else:
        others = [own * 2.0**octave for octave in range(-OCTAVES, OCTAVES + 1)]
    return sorted({*others, own})


def _attacked(scene: Scenario, asked: list[float], progress: Progress | None) -> tuple[Point, ...]:
    users = scene.users.size

    def at(place: int, epsilon: float) -> Point:
        def tell(share: float) -> None:
            if progress is not None:
                progress(round((place + share) * users), len(asked) * users)

        return scene.at(epsilon, tell)

    return tuple(at(place, epsilon) for place, epsilon in enumerate(asked))


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters but for epsilon, which varies."""
    return {name: value for name, value in parameters.items() if name not in ("epsilon", "sigma")}


def _json(told: dict[str, Any]) -> bytes:
    return (json.dumps(told, indent=1, allow_nan=False) + "\n").encode()
