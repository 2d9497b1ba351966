"""Events of a private model: rows of public lists, with ratings as integers on a grid.

What a private factorization may spend, on what, and by which public rule; no data comes here. A
private model on its way out: terms are checked, the budget charged, and then noise drawn.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.ids import distinct, ids_of, positions_by_text, texts
from sfumato.data.interactions import Interactions
from sfumato.privacy.accounting.calibration import epsilon_of, gaussian_sigma
from sfumato.privacy.accounting.losses import GaussianNoise, Loss
from sfumato.privacy.mechanisms.contribution_bounding import bound_contributions
from sfumato.privacy.parameters import Privacy, spread
from sfumato.privacy.random_source import stated
from sfumato.privacy.release import ReleaseOptions, ReleaseRequest
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.base import Estimator
from sfumato.recommend.catalogue import Catalogue

__all__ = [
    "COVERS",
    "GRID",
    "STEPS",
    "Accounts",
    "Budget",
    "Events",
    "Rule",
    "accounts_of",
    "bounded",
    "catalogue_of",
    "check_privacy",
    "events_of",
    "payer",
    "published",
    "release_request",
]

GRID = 12  # binary digits of a rating, where half the range of ratings is 1


@dataclass(frozen=True)
class Events:
    """Events by place of user and item in public lists, with ratings from -1 to 1 on the grid."""

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray
    sizes: dict[str, int]  # of "users" and "items"

    def of(self, side: str) -> np.ndarray:
        """The places of the events in the list of users, or of items."""
        return self.users if side == "users" else self.items


@dataclass(frozen=True)
class Accounts:
    """The rows of users: one for each id of a public list, or so many that ids share by a hash.

    Without a list nobody need be named, and two users of one hash share a row.
    """

    ids: np.ndarray
    shared: int = 0
    seed: int = 0

    def __len__(self) -> int:
        return self.shared or int(self.ids.size)

    def positions(self, users: np.ndarray) -> np.ndarray:
        """The row of each user, -1 for one that is in no list; as integer or as text the same."""
        if self.shared:
            hashes = hash_column(texts(users), self.seed, name="users")
            return np.asarray(hashes % np.uint64(self.shared), np.int64)
        return positions_by_text(users, self.ids)


def catalogue_of(catalogue: Any) -> Catalogue:
    """The public items, each once."""
    if catalogue is None:
        raise ValueError(
            "PrivateFactorization: catalogue must be given: the public ids of items; those of "
            "train would tell what was rated."
        )
    return catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)


def accounts_of(plain: dict[str, Any], train: Interactions, users: Any) -> Accounts:
    """The rows of users; ValueError where neither a public list nor a number is given."""
    if plain["unit"] == "user":
        return Accounts(
            train.by_row().coded().user_ids
        )  # numbers users' own vectors, and is not kept
    if (users is None) == (plain["rows"] is None):
        raise ValueError(
            "PrivateFactorization: users must be given for unit 'event', or else rows: the public "
            "ids of accounts, or how many rows users share; those of train would tell who rated."
        )
    if users is None:
        return Accounts(np.empty(0, np.int64), plain["rows"], plain["seed"])
    accounts, _ = distinct(ids_of(users, "users"))
    if not accounts.size:
        raise ValueError("PrivateFactorization: users must hold at least one id.")
    return Accounts(accounts)


def events_of(
    train: Interactions, shelf: Catalogue, accounts: Accounts, bounds: tuple[float, float]
) -> Events:
    """The rows whose user and item are in the lists; each by itself, whatever the others are.

    Ratings are clipped to the bounds first, so that none is too large for what follows.
    """
    train = train.by_row()
    coded = train.coded()
    who = accounts.positions(coded.user_ids)[coded.user_codes]
    what = positions_by_text(coded.item_ids, shelf.ids)[coded.item_codes]
    rows = np.flatnonzero((who >= 0) & (what >= 0))
    low, high = bounds
    scaled = (np.clip(train.ratings[rows], low, high) - low) / ((high - low) / 2) - 1
    ratings = np.clip(np.rint(scaled * 2**GRID), -(2**GRID), 2**GRID).astype(np.int64)
    sizes = {"users": len(accounts), "items": len(shelf)}
    return Events(who[rows].astype(np.int32), what[rows].astype(np.int32), ratings, sizes)


def bounded(events: Events, accounts: Accounts, most: int, seed: int) -> Events:
    """At most so many events of a user, all of different items: a sample keyed by the user's id.

    A key of the place in the list would change all samples when somebody leaves it, and one of
    integers when somebody comes whose id is a text.
    """
    ids = texts(accounts.ids, events.users)
    keep = bound_contributions(ids, events.items, per_user=most, per_item=1, seed=seed)
    return Events(events.users[keep], events.items[keep], events.ratings[keep], events.sizes)


SMOOTH = 32
SCALE = 2**14  # how finely the one number stands for all steps
STEPS = 8  # item and user in turn
FIRST = Fraction(1, 200)  # of the budget: how many ratings there are, and their mean

ENOUGH = 60.0  # ratings of a typical entity, weighed by the budget, from which factors are tried
PER_ROOT = 0.4  # components for the root of that
COMPONENTS = (3, 16)


@dataclass(frozen=True)
class Budget:
    """A whole budget, and the deviation of the noise that a share of it buys.

    Guarantee: steps whose shares sum to at most 1, each with noise of `sigma(norm_squared, share)`
    on integers that one unit moves by at most the root of norm_squared, cost at most `loss`.

    >>> half = Budget.of(8, 1e-6).sigma(100**2, Fraction(1, 2))
    >>> 90 < half < 95  # 100 * 0.653 * sqrt(2)
    True
    """

    loss: GaussianNoise

    @classmethod
    def of(cls, epsilon: float, delta: float) -> "Budget":
        """The largest budget that keeps epsilon and delta, for neighbours by adding or removing."""
        sigma = gaussian_sigma(epsilon, delta, change=SCALE)
        return cls(GaussianNoise(max(sigma**2, Fraction(SMOOTH)), SCALE))

    @property
    def precision(self) -> float:
        """The sum of squared ratios of sensitivity to deviation."""
        return float(SCALE**2 / (self.loss.variance + SMOOTH))

    def sigma(self, norm_squared: int, share: Fraction) -> int:
        """The deviation, an integer, never too low."""
        all_of_it = norm_squared * (self.loss.variance + SMOOTH) / SCALE**2
        return math.isqrt(math.ceil(all_of_it / share) + SMOOTH) + 1


@dataclass(frozen=True)
class Rule:
    """How many components to look for; 0 where means alone should have the whole budget.

    Chosen on MovieLens-100K and on generated worlds, by nothing of the data that is to be hidden:
    from the budget, the public numbers of users and items, and a noisy number of ratings.

    >>> Rule.of(2.3, 6040, 3706, 800_000).components
    8
    >>> Rule.of(0.06, 6040, 3706, 800_000).components
    0
    """

    components: int

    @classmethod
    def of(
        cls, precision: float, users: int, items: int, ratings: float, factors: int | None = None
    ) -> "Rule":
        """The rule, or the number of components that was asked for."""
        if factors is not None:
            return cls(factors - 1)
        worth = precision * 2 * max(ratings, 0.0) / (users + items)
        if worth < ENOUGH:
            return cls(0)
        low, high = COMPONENTS
        return cls(min(max(round(PER_ROOT * math.sqrt(worth)), low), high))


COVERS = {
    "file": "the whole file: mean, biases and components of users and items",
    "joint": "joint: the file, which holds items only; what a user is told may depend on that "
    "user's own ratings",
}
M = TypeVar("M", bound=Estimator)


def payer(
    owner: str, privacy: Privacy | None, ledger: Any, dataset: str | None, release_id: str | None
) -> dict[str, Any]:
    """Who pays: as `fit` was told, or as the model's `privacy` says."""
    given = dict(privacy=privacy, ledger=ledger, dataset=dataset, release_id=release_id)
    told = spread(owner, given)
    return {name: told[name] for name in ("ledger", "dataset", "release_id")}


def check_privacy(owner: str, privacy: Privacy | None, plain: dict[str, Any]) -> None:
    """Raise where a `Privacy` asks for what the model cannot keep: other neighbours or bounds."""
    if privacy is None:
        return
    if "relation" not in plain and privacy.relation not in (None, "add/remove"):
        raise ValueError(f"{owner}: relation of privacy must be 'add/remove', or left out.")
    most = plain["per_user"] if plain["unit"] == "user" else 1
    if privacy.contributions not in (None, most):
        raise ValueError(
            f"{owner}: contributions of privacy must be left out, or {most}: per_user of a user, 1 "
            f"of an event; not {privacy.contributions}."
        )


def release_request(plain: dict[str, Any], options: ReleaseOptions, owner: str) -> ReleaseRequest:
    """What was asked for, checked before anything is charged."""
    asked: ReleaseOptions = {**options, "unit": plain["unit"], "relation": "add/remove"}
    if plain["per_user"] is not None:
        asked["contributions"] = plain["per_user"]
    return ReleaseRequest.of(owner, plain["epsilon"], plain["delta"], asked)


def published(
    request: ReleaseRequest,
    loss: Loss,
    mechanism: str,
    plain: dict[str, Any],
    kind: type[M],
    made: Callable[[PrivacyStatement], M],
) -> M:
    """The model: charged and stored first if there is a ledger, unaccounted if not.

    The ledger notes all parameters, so that a release id cannot be used again with others.
    """
    cost = epsilon_of(loss, request.delta) or request.epsilon  # a large delta alone may cover it
    told = PrivacyStatement(
        unit=request.unit,
        relation=request.relation,
        mechanism=mechanism,
        epsilon=min(cost, request.epsilon),
        delta=request.delta,
        loss=loss.to_dict(),
        covers=COVERS[plain["covers"]],
        source=stated(request.source),
        contributions=request.contributions,
    )
    if request.ledger is None:
        return made(told)
    name, ledger = request.dataset, request.ledger

    def stored(release_id: str) -> bytes:
        paid = replace(told, dataset=name, ledger=ledger.name, release=release_id)
        return made(paid).to_bytes()

    settings = ", ".join(f"{each}={value!r}" for each, value in plain.items())
    what = f"{kind.__name__}: {mechanism}; {settings}"
    return kind.from_bytes(ledger.release(name, loss, what, stored, request.release_id))
