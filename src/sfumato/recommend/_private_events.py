"""Events of a private model: rows of public lists, with ratings as whole numbers on a grid."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.data.interactions import Interactions
from sfumato.hashing import hash_column
from sfumato.privacy.bounding import bound_contributions
from sfumato.recommend._catalogue import Catalogue
from sfumato.sketch._ids import distinct, ids_of, places_by_text, texts

__all__ = ["GRID", "Accounts", "Events", "accounts_of", "bounded", "events_of", "shelf_of"]

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

    def places(self, users: np.ndarray) -> np.ndarray:
        """The row of each user, -1 for one that is in no list; as integer or as text the same."""
        if self.shared:
            hashes = hash_column(texts(users), self.seed, name="users")
            return np.asarray(hashes % np.uint64(self.shared), np.int64)
        return places_by_text(users, self.ids)


def shelf_of(catalogue: Any) -> Catalogue:
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
    who = accounts.places(coded.user_ids)[coded.user_codes]
    what = places_by_text(coded.item_ids, shelf.ids)[coded.item_codes]
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
