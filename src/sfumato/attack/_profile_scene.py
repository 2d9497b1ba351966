"""Known and attacked users of a file, and what attackers recover of a release at any epsilon."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato._require import fraction, optional, positive, whole
from sfumato.attack._profile_attacks import Attacker, Tell
from sfumato.attack._profile_point import Point, Recovered
from sfumato.attack.information import profile_information
from sfumato.attack.reconstruction import Truth, neighbour_recall, reconstruction, truth_matrix
from sfumato.data.interactions import Interactions
from sfumato.privacy.noise import InsecureSeededSource
from sfumato.profile import ReleasedProfiles
from sfumato.profile._mechanism import ProfileMechanism
from sfumato.sketch._ids import places

__all__ = ["ATTACKED", "MOST", "Scene", "Settings"]

LEAST = 20  # users, below which nothing can be said of others like them
CELLS = 1 << 23  # scores held at a time
MOST = 200  # users who are attacked, unless told
ATTACKED = 1 << 22  # users x items, unless told: a large catalogue takes minutes, not hours


@dataclass(frozen=True)
class Settings:
    """Whom to attack and how; see `audit_profiles`."""

    known: float
    sample: int | None
    k: int
    random_state: int

    def checked(self, owner: str) -> "Settings":
        """The settings in plain types, or ValueError naming what is wrong."""
        return Settings(
            fraction.check(owner, "known", self.known),
            optional(whole(2, 2**31)).check(owner, "sample", self.sample),
            whole(1, 2**20).check(owner, "k", self.k),
            whole(0, 2**63 - 1).check(owner, "random_state", self.random_state),
        )

    def attacked(self, items: int) -> int:
        """The most users who are attacked where there are so many items."""
        if self.sample is not None:
            return self.sample
        return min(MOST, max(ATTACKED // items, LEAST))


class Scene:
    """Users of whom an attacker knows the profiles, and users whose releases are attacked.

    Guarantee: the same input gives the same figures; at every epsilon the same users are attacked,
    with noise from the same bits, so that epsilons differ in nothing else. Each is attacked once.
    Parameters: owner, who is named in errors; the others as of `audit_profiles`.
    """

    def __init__(
        self, owner: str, interactions: Interactions, mechanism: Any, settings: Settings
    ) -> None:
        self._owner, self.settings = owner, settings.checked(owner)
        self.mechanism = _mechanism(owner, mechanism)
        coded = _enough(owner, interactions).coded()
        people = coded.user_ids.size
        order = np.random.default_rng(self.settings.random_state).permutation(people)
        self.known_users = min(max(round(self.settings.known * people), 1), people - 2)
        self.most = self.settings.attacked(coded.item_ids.size)
        attacked = np.sort(order[self.known_users :][: self.most])
        known = interactions.filter(np.isin(coded.user_codes, order[: self.known_users]))
        self.rows = interactions.filter(np.isin(coded.user_codes, attacked))
        self.users, self.candidates = coded.user_ids[attacked], coded.item_ids
        self.k = min(self.settings.k, self.users.size - 1)
        self._attacker = Attacker.who_knows(known, self.candidates)
        self.learned = self._attacker.learned
        self._points: dict[float, Point] = {}

    @cached_property
    def own_epsilon(self) -> float:
        """The epsilon of the mechanism as it was given."""
        asked = self.mechanism.parameters["epsilon"]
        if asked is None:  # it was told by sigma
            asked = self._released(self.mechanism, self.users[:1], 0).statement.epsilon
        if not asked:
            raise ValueError(
                f"{self._owner}: epsilon must be above 0: at 0 a release tells nothing, and only "
                "popularity is left."
            )
        return positive.check(type(self.mechanism).__name__, "epsilon", asked)

    @cached_property
    def popularity(self) -> float:
        """The mean share of a profile that popularity alone recovers, whatever is released."""
        prior = self._attacker.prior
        parts = [
            reconstruction(np.broadcast_to(prior, truth.present.shape), truth, truth.sizes).cosines
            for _, truth in self._parts()
        ]
        return float(np.concatenate(parts).mean())

    @cached_property
    def mean_size(self) -> float:
        """The items of an attacked profile, on average."""
        return float(np.concatenate([truth.sizes for _, truth in self._parts()]).mean())

    def at(self, epsilon: float, tell: Tell | None = None) -> Point:
        """What attackers recover at this epsilon."""
        if epsilon not in self._points:
            self._points[epsilon] = self._attacked(epsilon, tell or (lambda share: None))
        return self._points[epsilon]

    def _attacked(self, epsilon: float, tell: Tell) -> Point:
        mechanism, done, found = _at_epsilon(self.mechanism, epsilon), 0, []
        for users, truth in self._parts():
            seen = self._released(mechanism, users, done)
            found.append(self._attacker.recovered(seen, truth, self._ahead(tell, done, users)))
            done += users.size
        if len(seen) < done:  # neighbours are looked for among all
            seen = self._released(mechanism, self.users, 0)
        return self._point(epsilon, seen, found)

    def _ahead(self, tell: Tell, done: int, users: np.ndarray) -> Tell:
        """Told of a share of these users, it tells of all."""
        return lambda share: tell((done + share * users.size) / self.users.size)

    def _point(self, epsilon: float, seen: ReleasedProfiles, found: list[Any]) -> Point:
        size = max(round(self.mean_size), 1)
        near = neighbour_recall(seen, self.rows, self.k)
        about_item, about_each = profile_information(seen, size)
        names = list(found[0])
        granted = {name: [part[name][0] for part in found] for name in names}
        return Point(
            epsilon=epsilon,
            delta=float(seen.statement.delta),
            profile_epsilon=float(seen.profile_epsilon(size)),
            attacks={
                name: Recovered.of(granted[name], [part[name][1] for part in found])
                for name in names
            },
            shares=np.stack(
                [np.concatenate([part.cosines for part in granted[name]]) for name in names]
            ),
            utility=near.recall,
            utility_error=near.error,
            utility_by_chance=near.chance,
            item_nats=float(about_item),
            profile_nats=min(float(about_each) * size, _all_nats(self.candidates.size, size)),
        )

    def _parts(self) -> Iterator[tuple[np.ndarray, Truth]]:
        """Attacked users, as many at a time as there is room for, with their true profiles."""
        step = max(CELLS // self.candidates.size, 1)
        for start in range(0, self.users.size, step):
            users = self.users[start : start + step]
            yield users, truth_matrix(self.rows, users, self.candidates)

    def _released(self, mechanism: Any, users: np.ndarray, first: int) -> ReleasedProfiles:
        rows = self.rows
        if users.size < self.users.size:
            coded = rows.coded()
            rows = rows.filter((places(coded.user_ids, users) >= 0)[coded.user_codes])
        source = InsecureSeededSource(self.settings.random_state + first)
        released: ReleasedProfiles = mechanism.release(rows, users=users, source=source)
        return released


def _mechanism(owner: str, mechanism: Any) -> Any:
    if not isinstance(mechanism, ProfileMechanism):
        raise TypeError(
            f"{owner}: mechanism must be a Blip, Jlt, Signs or Minima, not "
            f"{type(mechanism).__name__}."
        )
    return mechanism


def _at_epsilon(mechanism: Any, epsilon: float) -> Any:
    """A mechanism like this one, but for epsilon."""
    parameters = {**mechanism.parameters, "epsilon": epsilon}
    if "sigma" in parameters:
        parameters["sigma"] = None
    return type(mechanism)(**parameters)


def _enough(owner: str, interactions: Any) -> Interactions:
    if not isinstance(interactions, Interactions):
        raise TypeError(
            f"{owner}: interactions must be Interactions, not {type(interactions).__name__}."
        )
    users = interactions.coded().user_ids.size
    if users < LEAST:
        raise ValueError(
            f"{owner}: interactions must be of at least {LEAST} users, not {users}: some are "
            "known to the attacker, and the others are attacked."
        )
    return interactions


def _all_nats(items: int, size: int) -> float:
    """What there is to know of a profile of so many items: log(items choose size)."""
    size = min(size, items)
    return math.lgamma(items + 1) - math.lgamma(size + 1) - math.lgamma(items - size + 1)
