"""The scenario of a profile audit: known and attacked users, the attacks, and what they recover."""

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
    "Report",
    "Scenario",
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
    """What one attack recovered, averaged over users.

    `recovery` is the fraction of a profile among the items that the attack ranks first, as many as
    the profile has: its mean, standard error `error` and 10 % and 90 % quantiles `low` and `high`.
    The cosines, precision and recall are of reconstructions of the size that the attacker
    estimates; `average_precision` is over the first 10 ranks.
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
        """Combine reconstructions of true and of estimated sizes, of parts of the users."""
        weights = np.array([part.users for part in estimated])
        return cls(
            *_summary(np.concatenate([part.cosines for part in granted])),
            *_summary(np.concatenate([part.cosines for part in estimated])),
            *(
                float(np.average([getattr(part, name) for part in estimated], weights=weights))
                for name in ("precision", "recall", "average_precision")
            ),
        )


@dataclass(frozen=True)
class Point:
    """Measurements at one epsilon.

    `delta` is that of the statement; `profile_epsilon` the loss for an entire profile of mean size
    at that delta; `attacks` what each attack recovered; `fractions`, attacks x users, the recovered
    fraction of each profile; `utility` the recall of nearest neighbours, with its standard error
    and its expectation for random users; `item_nats` and `profile_nats` the information of the
    release about an item and about a profile.
    """

    epsilon: float
    delta: float
    profile_epsilon: float
    attacks: dict[str, Recovered]
    fractions: np.ndarray
    utility: float
    utility_error: float
    utility_by_chance: float
    item_nats: float
    profile_nats: float

    @property
    def strongest(self) -> str:
        """Attack with the largest recovery; popularity if no other recovers more."""
        return max(self.attacks, key=lambda name: self.attacks[name].recovery)

    @property
    def recovery(self) -> float:
        """Mean fraction of a profile that the strongest attack recovers."""
        return self.attacks[self.strongest].recovery

    @property
    def by_popularity(self) -> float:
        """Largest recovery of attackers who know no more about items than popularity."""
        return max(attack.recovery for name, attack in self.attacks.items() if name != BY_TASTE)

    @property
    def privacy(self) -> float:
        """1 - mean cosine of the reconstruction under the best attack (thesis section 3.5.4)."""
        return 1 - max(attack.cosine for attack in self.attacks.values())

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain JSON values, None for those that are not finite."""
        figures = {name: _finite(getattr(self, name)) for name in NUMBERS}
        attacks = {
            name: {key: _finite(value) for key, value in asdict(attack).items()}
            for name, attack in self.attacks.items()
        }
        return {**figures, "strongest": self.strongest, "attacks": attacks}


def _summary(values: np.ndarray) -> tuple[float, float, float, float]:
    """Mean, standard error, and 10 % and 90 % quantiles."""
    low, high = np.quantile(values, (0.1, 0.9))
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return float(values.mean()), error, float(low), float(high)


def _finite(value: float) -> float | None:
    """The value, None if it is not finite."""
    return value if math.isfinite(value) else None


LEARNED_USERS, LEARNED_CELLS = 4000, 1 << 24  # at most, to fit the latent prior
QUICK = 0.2  # fraction of the time of all attacks before that with the latent prior
Report = Callable[[float], None]  # takes the fraction of the work that is done
Pair = tuple[Reconstruction, Reconstruction]


@dataclass(frozen=True)
class Attacker:
    """An attacker who sees releases and knows the profiles of some other users.

    `candidates` are all items; `prior` their popularity; `taste` the latent prior of items that go
    together; `sizes` the distribution of profile sizes; `learned` the number of known users from
    which the latent prior was learned.
    """

    candidates: np.ndarray
    prior: np.ndarray
    taste: TastePrior
    sizes: SizePrior
    learned: int

    @classmethod
    def who_knows(cls, known: Interactions, candidates: np.ndarray) -> "Attacker":
        """The attacker who knows these profiles; a sample of them fits the latent prior."""
        coded = known.coded()
        most = min(LEARNED_USERS, max(LEARNED_CELLS // candidates.size, 1))
        some = np.random.default_rng(0).permutation(coded.user_ids.size)[:most]
        taste = learn_prior(known.filter(np.isin(coded.user_codes, some)), candidates)
        prior, sizes = item_prior(known, candidates), size_prior(known)
        return cls(candidates, prior, taste, sizes, some.size)

    def recovered(
        self, released: ReleasedProfiles, truth: GroundTruth, report: Report
    ) -> dict[str, Pair]:
        """By each attack: reconstructions of the true sizes, and of the estimated sizes."""
        estimated = expected_sizes(released, self.sizes)

        def measured(scores: np.ndarray) -> Pair:
            granted = reconstruction(scores, truth, truth.sizes)
            return granted, reconstruction(scores, truth, estimated)

        def early(done: int, total: int) -> None:
            report(QUICK * done / total)

        def late(done: int, total: int) -> None:
            report(QUICK + (1 - QUICK) * done / total)

        observed = (released, self.candidates)
        single = measured(single_decoder(*observed, sizes=self.sizes))
        with_prior = measured(single_decoder(*observed, self.prior, sizes=self.sizes))
        joint = joint_decoder(*observed, self.prior, sizes=self.sizes, progress=early)
        taste = joint_decoder(*observed, self.taste, sizes=self.sizes, progress=late)
        return {
            POPULARITY: measured(popularity(*observed, self.prior)),
            "single, no prior": single,
            "single, popularity": with_prior,
            BY_POPULARITY: measured(joint),
            BY_TASTE: measured(taste),
        }


LEAST = 20  # users, below which nothing can be said about others of the same kind
CELLS = 1 << 23  # scores in memory at a time
MOST = 200  # attacked users by default
ATTACKED = 1 << 22  # users x items by default: a large catalogue takes minutes, not hours


@dataclass(frozen=True)
class AttackSettings:
    """Which users to attack and how; see `audit_profiles`."""

    known: float
    sample: int | None
    n: int
    random_state: Any  # once checked, an int

    def checked(self, owner: str) -> "AttackSettings":
        """Settings in plain types; ValueError naming the invalid one."""
        return AttackSettings(
            fraction.check(owner, "known", self.known),
            optional(integer(2, 2**31)).check(owner, "sample", self.sample),
            integer(1, 2**20).check(owner, "n", self.n),
            random_seed(owner, self.random_state),
        )

    def attacked(self, items: int) -> int:
        """Maximum number of attacked users for this number of items."""
        if self.sample is not None:
            return self.sample
        return min(MOST, max(ATTACKED // items, LEAST))


class Scenario:
    """Users whose profiles an attacker knows, and users whose releases are attacked.

    Guarantee: the same input gives the same figures. At every epsilon the same users are attacked,
    with noise from the same random bits, so that only epsilon differs. Each epsilon is attacked
    once. `owner` is named in errors; the other parameters are those of `audit_profiles`.
    """

    def __init__(
        self, owner: str, interactions: Interactions, mechanism: Any, settings: AttackSettings
    ) -> None:
        self.settings: AttackSettings
        self._owner, self.settings = owner, settings.checked(owner)
        self.mechanism: Any = _mechanism(owner, mechanism)
        coded = _enough(owner, interactions).coded()
        people = coded.user_ids.size
        order = np.random.default_rng(self.settings.random_state).permutation(people)
        self.known_users: int = min(max(round(self.settings.known * people), 1), people - 2)
        self.most: int = self.settings.attacked(coded.item_ids.size)
        attacked = np.sort(order[self.known_users :][: self.most])
        known = interactions.filter(np.isin(coded.user_codes, order[: self.known_users]))
        self.rows: Interactions = interactions.filter(np.isin(coded.user_codes, attacked))
        self.users: np.ndarray
        self.candidates: np.ndarray
        self.users, self.candidates = coded.user_ids[attacked], coded.item_ids
        self.n: int = min(self.settings.n, self.users.size - 1)
        self._attacker = Attacker.who_knows(known, self.candidates)
        self.learned: int = self._attacker.learned
        self._points: dict[float, Point] = {}

    @cached_property
    def own_epsilon(self) -> float:
        """Epsilon of the mechanism as given."""
        epsilon = self.mechanism.parameters["epsilon"]
        if epsilon is None:  # the noise was given by sigma
            epsilon = self._released(self.mechanism, self.users[:1], 0).statement.epsilon
        if not epsilon:
            raise ValueError(
                f"{self._owner}: epsilon must be above 0: at 0 a release carries no information, "
                "and only popularity remains."
            )
        return positive.check(type(self.mechanism).__name__, "epsilon", epsilon)

    @cached_property
    def popularity(self) -> float:
        """Mean fraction of a profile that popularity alone recovers, whatever is released."""
        prior = self._attacker.prior
        parts = [
            reconstruction(np.broadcast_to(prior, truth.present.shape), truth, truth.sizes).cosines
            for _, truth in self._parts()
        ]
        return float(np.concatenate(parts).mean())

    @cached_property
    def mean_size(self) -> float:
        """Mean number of items of an attacked profile."""
        return float(np.concatenate([truth.sizes for _, truth in self._parts()]).mean())

    def at(self, epsilon: float, report: Report | None = None) -> Point:
        """Measurements of the attacks at this epsilon."""
        if epsilon not in self._points:
            self._points[epsilon] = self._attacked(epsilon, report or (lambda fraction_done: None))
        return self._points[epsilon]

    def _attacked(self, epsilon: float, report: Report) -> Point:
        mechanism, done, found = _at_epsilon(self.mechanism, epsilon), 0, []
        for users, truth in self._parts():
            released = self._released(mechanism, users, done)
            found.append(
                self._attacker.recovered(released, truth, self._ahead(report, done, users))
            )
            done += users.size
        if len(released) < done:  # neighbours are searched among all
            released = self._released(mechanism, self.users, 0)
        return self._point(epsilon, released, found)

    def _ahead(self, report: Report, done: int, users: np.ndarray) -> Report:
        """Report of the overall fraction done, from the fraction done for these users."""
        return lambda fraction_done: report((done + fraction_done * users.size) / self.users.size)

    def _point(self, epsilon: float, released: ReleasedProfiles, found: list[Any]) -> Point:
        size = max(round(self.mean_size), 1)
        near = neighbour_recall(released, self.rows, self.n)
        about_item, about_each = profile_information(released, size)
        names = list(found[0])
        granted = {name: [part[name][0] for part in found] for name in names}
        return Point(
            epsilon=epsilon,
            delta=float(released.statement.delta),
            profile_epsilon=float(released.profile_epsilon(size)),
            attacks={
                name: Recovered.of(granted[name], [part[name][1] for part in found])
                for name in names
            },
            fractions=np.stack(
                [np.concatenate([part.cosines for part in granted[name]]) for name in names]
            ),
            utility=near.recall,
            utility_error=near.error,
            utility_by_chance=near.chance,
            item_nats=float(about_item),
            profile_nats=min(float(about_each) * size, _all_nats(self.candidates.size, size)),
        )

    def _parts(self) -> Iterator[tuple[np.ndarray, GroundTruth]]:
        """Blocks of attacked users that fit in memory, with their true profiles."""
        step = max(CELLS // self.candidates.size, 1)
        for start in range(0, self.users.size, step):
            users = self.users[start : start + step]
            yield users, truth_matrix(self.rows, users, self.candidates)

    def _released(self, mechanism: Any, users: np.ndarray, first: int) -> ReleasedProfiles:
        """Seeded release of these users' profiles."""
        rows = self.rows
        if users.size < self.users.size:
            coded = rows.coded()
            rows = rows.filter((positions(coded.user_ids, users) >= 0)[coded.user_codes])
        source = InsecureSeededSource((self.settings.random_state + first) % 2**64)
        released: ReleasedProfiles = mechanism.release(rows, users=users, source=source)
        return released


def _mechanism(owner: str, mechanism: Any) -> Any:
    """The mechanism; TypeError if it is not one of profiles."""
    if not isinstance(mechanism, ProfileMechanism):
        raise TypeError(
            f"{owner}: mechanism must be a Blip, Jlt, Signs or Minima, not "
            f"{type(mechanism).__name__}."
        )
    return mechanism


def _at_epsilon(mechanism: Any, epsilon: float) -> Any:
    """The same mechanism at another epsilon."""
    parameters = {**mechanism.parameters, "epsilon": epsilon}
    if "sigma" in parameters:
        parameters["sigma"] = None
    return type(mechanism)(**parameters)


def _enough(owner: str, interactions: Any) -> Interactions:
    """The interactions; an error if they are of too few users."""
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
    """Entropy of a uniform profile of this size: log(items choose size)."""
    size = min(size, items)
    return math.lgamma(items + 1) - math.lgamma(size + 1) - math.lgamma(items - size + 1)
