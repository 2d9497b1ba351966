"""Known and attacked users of a file, and what attackers recover of a release at any epsilon.

What attacks recovered of released profiles at one epsilon: figures over many users. The attacks on
one release that an audit makes, and what each recovers.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.attack.channels.profile_size import expected_sizes
from sfumato.attack.decoders.joint import joint_decoder
from sfumato.attack.decoders.single import popularity, single_decoder
from sfumato.attack.decoders.taste_prior import TastePrior, learn_prior
from sfumato.attack.leakage.symbol_bounds import profile_information
from sfumato.attack.profile_audit.evaluation import Reconstruction, neighbour_recall, reconstruction
from sfumato.attack.profile_audit.ground_truth import (
    GroundTruth,
    SizePrior,
    item_prior,
    size_prior,
    truth_matrix,
)
from sfumato.core.ids import positions
from sfumato.core.validation import fraction, integer, optional, positive, random_seed
from sfumato.data.interactions import Interactions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import ReleasedProfiles
from sfumato.profile.mechanism import ProfileMechanism

__all__ = [
    "ATTACKED",
    "BY_POPULARITY",
    "BY_TASTE",
    "MOST",
    "POPULARITY",
    "AttackSettings",
    "Attacker",
    "Point",
    "Recovered",
    "Scenario",
    "Tell",
]

POPULARITY = "popularity alone"
NUMBERS = (
    "epsilon",
    "delta",
    "profile_epsilon",
    "recovery",
    "by_popularity",
    "privacy",
    "utility",
    "utility_error",
    "utility_by_chance",
    "item_nats",
    "profile_nats",
)
BY_POPULARITY, BY_TASTE = "joint, popularity", "joint, taste"


@dataclass(frozen=True)
class Recovered:
    """What one attack recovered.

    recovery: the share of a profile among as many items as the profile has, those the attack ranks
    first: its mean over users, the standard error of that, and its 10 % and 90 % quantiles low and
    high; cosine and its spread, precision and recall: of reconstructions of the size that the
    attacker estimates; average_precision: over the first 10 ranks.
    """

    recovery: float
    error: float
    low: float
    high: float
    cosine: float
    cosine_error: float
    cosine_low: float
    cosine_high: float
    precision: float
    recall: float
    average_precision: float

    @classmethod
    def of(cls, granted: list[Reconstruction], estimated: list[Reconstruction]) -> "Recovered":
        """From reconstructions of the true sizes and of estimated ones, of parts of the users."""
        weights = np.array([part.users for part in estimated])
        return cls(
            *_spread(np.concatenate([part.cosines for part in granted])),
            *_spread(np.concatenate([part.cosines for part in estimated])),
            *(
                float(np.average([getattr(part, name) for part in estimated], weights=weights))
                for name in ("precision", "recall", "average_precision")
            ),
        )


@dataclass(frozen=True)
class Point:
    """What was measured at one epsilon.

    delta: of the statement; profile_epsilon: the loss for a whole profile of mean size, at that
    delta; attacks: what each recovered; shares: attacks x users, the share of each profile that was
    recovered; utility: the recall of nearest neighbours, with its standard error, and what chance
    would give; item_nats, profile_nats: what the release tells about an item and about a profile.
    """

    epsilon: float
    delta: float
    profile_epsilon: float
    attacks: dict[str, Recovered]
    shares: np.ndarray
    utility: float
    utility_error: float
    utility_by_chance: float
    item_nats: float
    profile_nats: float

    @property
    def strongest(self) -> str:
        """The attack that recovers most; popularity where no other recovers more."""
        return max(self.attacks, key=lambda name: self.attacks[name].recovery)

    @property
    def recovery(self) -> float:
        """The mean share of a profile that the strongest attack recovers."""
        return self.attacks[self.strongest].recovery

    @property
    def by_popularity(self) -> float:
        """The most that is recovered by attackers who know no more of items than popularity."""
        return max(attack.recovery for name, attack in self.attacks.items() if name != BY_TASTE)

    @property
    def privacy(self) -> float:
        """1 - mean cosine of the reconstruction under the best attack (3.5.4)."""
        return 1 - max(attack.cosine for attack in self.attacks.values())

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values, None for those that are not finite."""
        told = {name: _finite(getattr(self, name)) for name in NUMBERS}
        attacks = {
            name: {key: _finite(value) for key, value in asdict(attack).items()}
            for name, attack in self.attacks.items()
        }
        return {**told, "strongest": self.strongest, "attacks": attacks}


def _spread(values: np.ndarray) -> tuple[float, float, float, float]:
    low, high = np.quantile(values, (0.1, 0.9))
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return float(values.mean()), error, float(low), float(high)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


LEARNED_USERS, LEARNED_CELLS = 4000, 1 << 24  # that tastes are learned from: users, users x items
QUICK = 0.2  # of the time of all attacks goes by before that by taste
Tell = Callable[[float], None]  # is told which share of the work is done
Pair = tuple[Reconstruction, Reconstruction]


@dataclass(frozen=True)
class Attacker:
    """Who sees releases, and knows the profiles of some other users.

    candidates: all items; prior: how popular each is; taste: which go together; sizes: how many a
    profile has; learned: how many of the known users taste was learned from.
    """

    candidates: np.ndarray
    prior: np.ndarray
    taste: TastePrior
    sizes: SizePrior
    learned: int

    @classmethod
    def who_knows(cls, known: Interactions, candidates: np.ndarray) -> "Attacker":
        """The attacker who has seen these profiles; tastes are learned from some of very many."""
        coded = known.coded()
        most = min(LEARNED_USERS, max(LEARNED_CELLS // candidates.size, 1))
        some = np.random.default_rng(0).permutation(coded.user_ids.size)[:most]
        taste = learn_prior(known.filter(np.isin(coded.user_codes, some)), candidates)
        prior, sizes = item_prior(known, candidates), size_prior(known)
        return cls(candidates, prior, taste, sizes, some.size)

    def recovered(self, seen: ReleasedProfiles, truth: GroundTruth, tell: Tell) -> dict[str, Pair]:
        """By each attack: reconstructions of the true sizes, and of those that are estimated."""
        estimated = expected_sizes(seen, self.sizes)

        def measured(scores: np.ndarray) -> Pair:
            granted = reconstruction(scores, truth, truth.sizes)
            return granted, reconstruction(scores, truth, estimated)

        def early(done: int, total: int) -> None:
            tell(QUICK * done / total)

        def late(done: int, total: int) -> None:
            tell(QUICK + (1 - QUICK) * done / total)

        told = (seen, self.candidates)
        single = measured(single_decoder(*told, sizes=self.sizes))
        with_prior = measured(single_decoder(*told, self.prior, sizes=self.sizes))
        joint = joint_decoder(*told, self.prior, sizes=self.sizes, progress=early)
        taste = joint_decoder(*told, self.taste, sizes=self.sizes, progress=late)
        return {
            POPULARITY: measured(popularity(*told, self.prior)),
            "single, no prior": single,
            "single, popularity": with_prior,
            BY_POPULARITY: measured(joint),
            BY_TASTE: measured(taste),
        }


LEAST = 20  # users, below which nothing can be said of others like them
CELLS = 1 << 23  # scores held at a time
MOST = 200  # users who are attacked, unless told
ATTACKED = 1 << 22  # users x items, unless told: a large catalogue takes minutes, not hours


@dataclass(frozen=True)
class AttackSettings:
    """Whom to attack and how; see `audit_profiles`."""

    known: float
    sample: int | None
    n: int
    random_state: Any  # once checked, an int

    def checked(self, owner: str) -> "AttackSettings":
        """The settings in plain types, or ValueError naming what is wrong."""
        return AttackSettings(
            fraction.check(owner, "known", self.known),
            optional(integer(2, 2**31)).check(owner, "sample", self.sample),
            integer(1, 2**20).check(owner, "n", self.n),
            random_seed(owner, self.random_state),
        )

    def attacked(self, items: int) -> int:
        """The most users who are attacked where there are so many items."""
        if self.sample is not None:
            return self.sample
        return min(MOST, max(ATTACKED // items, LEAST))


class Scenario:
    """Users of whom an attacker knows the profiles, and users whose releases are attacked.

    Guarantee: the same input gives the same figures; at every epsilon the same users are attacked,
    with noise from the same bits, so that epsilons differ in nothing else. Each is attacked once.
    Parameters: owner, who is named in errors; the others as of `audit_profiles`.
    """

    def __init__(
        self, owner: str, interactions: Interactions, mechanism: Any, settings: AttackSettings
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
        self.n = min(self.settings.n, self.users.size - 1)
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
        near = neighbour_recall(seen, self.rows, self.n)
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

    def _parts(self) -> Iterator[tuple[np.ndarray, GroundTruth]]:
        """Attacked users, as many at a time as there is room for, with their true profiles."""
        step = max(CELLS // self.candidates.size, 1)
        for start in range(0, self.users.size, step):
            users = self.users[start : start + step]
            yield users, truth_matrix(self.rows, users, self.candidates)

    def _released(self, mechanism: Any, users: np.ndarray, first: int) -> ReleasedProfiles:
        rows = self.rows
        if users.size < self.users.size:
            coded = rows.coded()
            rows = rows.filter((positions(coded.user_ids, users) >= 0)[coded.user_codes])
        source = InsecureSeededSource((self.settings.random_state + first) % 2**64)
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
