"""Inputs of a private factorization: events on public lists, the privacy budget, and the release.

Ratings become integers on a grid. The budget and the number of components follow from public
numbers. Parameters are checked and the budget is charged before noise is drawn.
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
from sfumato.privacy.accounting.calibration import epsilon_of
from sfumato.privacy.accounting.gaussian_steps import Budget
from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.mechanisms.contribution_bounding import bound_contributions
from sfumato.privacy.parameters import Privacy, separate_parameters
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
    "on_rating_grid",
    "ordered",
    "payer",
    "published",
    "release_request",
]

GRID = 12  # binary digits of a rating in units of half the rating range


@dataclass(frozen=True)
class Events:
    """Events by position of user and item in public lists; ratings from -1 to 1 on the grid."""

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray
    sizes: dict[str, int]  # of "users" and "items"

    def of(self, side: str) -> np.ndarray:
        """Return the positions of the events in the list of users, or of items."""
        return self.users if side == "users" else self.items

    def total(self, cells: "Callable[[Events], np.ndarray]") -> np.ndarray:
        """Return the integers that the function returns for all events."""
        return cells(self)


@dataclass(frozen=True)
class Accounts:
    """Rows of users: one per id of a public list, or `shared` rows that users share by a hash.

    Shared rows need no list of users; two users with the same hash have the same row.
    """

    ids: np.ndarray
    shared: int = 0
    seed: int = 0

    def __len__(self) -> int:
        return self.shared or int(self.ids.size)

    def positions(self, users: np.ndarray) -> np.ndarray:
        """Return the row of each user, -1 if not listed; an integer id equals its text."""
        if self.shared:
            hashes = hash_column(texts(users), self.seed, name="users")
            return np.asarray(hashes % np.uint64(self.shared), np.int64)
        return positions_by_text(users, self.ids)


def catalogue_of(catalogue: Any) -> Catalogue:
    """Return the public catalogue; raise ValueError if it is None."""
    if catalogue is None:
        raise ValueError(
            "PrivateFactorization: catalogue must be given: the public ids of items; those of "
            "train would reveal what was rated."
        )
    return catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)


def accounts_of(plain: dict[str, Any], train: Interactions | None, users: Any) -> Accounts:
    """Return the rows of users; raise ValueError unless either a public list or `rows` is given.

    train: None where rows of an engine are read, each of whose partitions numbers its own users.
    """
    if plain["unit"] == "user":
        # The ids number the users' own vectors and are not stored.
        none = np.empty(0, np.int64)
        return Accounts(none if train is None else train.by_row().coded().user_ids)
    if (users is None) == (plain["rows"] is None):
        raise ValueError(
            "PrivateFactorization: users must be given for unit 'event', or else rows: the public "
            "ids of accounts, or how many rows users share; those of train would reveal who rated."
        )
    if users is None:
        return Accounts(np.empty(0, np.int64), plain["rows"], plain["seed"])
    accounts, _ = distinct(ids_of(users, "users"))
    if not accounts.size:
        raise ValueError("PrivateFactorization: users must hold at least one id.")
    return Accounts(accounts)


def events_of(
    train: Interactions, catalogue: Catalogue, accounts: Accounts, bounds: tuple[float, float]
) -> Events:
    """Return the rows whose user and item are in the lists, each independently of all others.

    Ratings are clipped to the bounds before they are scaled, so that none overflows.
    """
    train = train.by_row()
    coded = train.coded()
    who = accounts.positions(coded.user_ids)[coded.user_codes]
    what = positions_by_text(coded.item_ids, catalogue.ids)[coded.item_codes]
    rows = np.flatnonzero((who >= 0) & (what >= 0))
    ratings = on_rating_grid(train.ratings[rows], bounds)
    sizes = {"users": len(accounts), "items": len(catalogue)}
    return Events(who[rows].astype(np.int32), what[rows].astype(np.int32), ratings, sizes)


def on_rating_grid(ratings: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Return ratings, clipped to the bounds, as integers from -(2**GRID) to 2**GRID."""
    low, high = bounds
    scaled = (np.clip(ratings, low, high) - low) / ((high - low) / 2) - 1
    return np.asarray(np.clip(np.rint(scaled * 2**GRID), -(2**GRID), 2**GRID), np.int64)


def bounded(events: Events, accounts: Accounts, most: int, seed: int) -> Events:
    """Sample at most `most` events of different items per user, keyed by the user's id.

    A key by position would change all samples when a user leaves the list, and one by integer id
    when a user with a text id joins.
    """
    ids = texts(accounts.ids, events.users)
    keep = bound_contributions(ids, events.items, per_user=most, per_item=1, seed=seed)
    return ordered(events.users[keep], events.items[keep], events.ratings[keep], events.sizes)


def ordered(
    users: np.ndarray, items: np.ndarray, ratings: np.ndarray, sizes: dict[str, int]
) -> Events:
    """Return events by user and item, so that floats made of a user's own have one order."""
    order = np.lexsort((ratings, items, users))
    return Events(users[order], items[order], ratings[order], sizes)


STEPS = 8  # items and users in turn
FIRST = Fraction(1, 200)  # of the budget: the number of ratings and their mean

ENOUGH = 60.0  # ratings of a typical entity times the budget from which components are fitted
PER_ROOT = 0.4  # components per square root of that
COMPONENTS = (3, 16)


@dataclass(frozen=True)
class Rule:
    """Number of components to fit; 0 if item and user means should get the entire budget.

    Chosen on MovieLens-100K and generated data. It depends on the budget, the public numbers of
    users and items and a noisy number of ratings, never on the protected data itself.

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
        """Return the rule's number of components, or `factors - 1` if given."""
        if factors is not None:
            return cls(factors - 1)
        worth = precision * 2 * max(ratings, 0.0) / (users + items)
        if worth < ENOUGH:
            return cls(0)
        low, high = COMPONENTS
        return cls(min(max(round(PER_ROOT * math.sqrt(worth)), low), high))


COVERS = {
    "file": "the whole file: mean, biases and components of users and items",
    "joint": "joint: the file, which holds items only; what a user receives may depend on that "
    "user's own ratings",
}
M = TypeVar("M", bound=Estimator)


def payer(
    owner: str, privacy: Privacy | None, ledger: Any, dataset: str | None, release_id: str | None
) -> dict[str, Any]:
    """Return ledger, dataset and release id, as given to `fit` or bundled in `privacy`."""
    given = dict(privacy=privacy, ledger=ledger, dataset=dataset, release_id=release_id)
    resolved = separate_parameters(owner, given)
    return {name: resolved[name] for name in ("ledger", "dataset", "release_id")}


def check_privacy(owner: str, privacy: Privacy | None, plain: dict[str, Any]) -> None:
    """Raise ValueError if a `Privacy` requires another adjacency or contribution bound."""
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
    """Return the validated release request, before anything is charged."""
    requested: ReleaseOptions = {**options, "unit": plain["unit"], "relation": "add/remove"}
    if plain["per_user"] is not None:
        requested["contributions"] = plain["per_user"]
    return ReleaseRequest.of(owner, plain["epsilon"], plain["delta"], requested)


def published(
    request: ReleaseRequest,
    loss: Loss,
    mechanism: str,
    plain: dict[str, Any],
    kind: type[M],
    made: Callable[[PrivacyStatement], M],
) -> M:
    """Make the model and, if there is a ledger, charge it and store the model there first.

    The ledger records all parameters, so that a release id cannot be reused with others.
    """
    cost = epsilon_of(loss, request.delta) or request.epsilon  # a large delta alone may suffice
    statement = PrivacyStatement(
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
        return made(statement)
    name, ledger = request.dataset, request.ledger

    def stored(release_id: str) -> bytes:
        paid = replace(statement, dataset=name, ledger=ledger.name, release=release_id)
        return made(paid).to_bytes()

    settings = ", ".join(f"{each}={value!r}" for each, value in plain.items())
    what = f"{kind.__name__}: {mechanism}; {settings}"
    return kind.from_bytes(ledger.release(name, loss, what, stored, request.release_id))
