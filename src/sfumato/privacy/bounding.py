"""Contribution bounding: so many events of a user, and of a user with one item, and no more.

Both ways to choose are greedy in a fixed order of the events under nested limits. An event added
anywhere leaves the order of all others as it is; so it comes in at most itself, and puts out at
most one (the limits form a matroid, whose greedy basis changes by one exchange).
"""

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato._require import one_of, whole
from sfumato.hashing import BLOCK, KeyColumn, hash_column
from sfumato.kernels import bounding as kernels

__all__ = ["ContributionBound", "bound_contributions"]

SEED = whole(0, 2**64 - 1)
MOST = whole(1, 2**31 - 1)
ODD = np.uint64(0x9E3779B97F4A7C15)


def bound_contributions(
    users: Any, items: Any = None, *, per_user: int, per_item: int | None = None, seed: int
) -> np.ndarray:
    """A mask of the events to keep: a keyed sample of each user's events.

    Guarantee: at most per_user events of a user and per_item of a (user, item) are kept, and as
    many as these allow. One event more or less changes the kept rows by at most one in and one out,
    so its distance is 2; one user more or less changes only that user's rows, at most per_user
    (one user in place of another: twice that): in a sketch of depth d and weights up to w, L1
    per_user w d and L2 per_user w sqrt(d). This holds under every seed: it need not be secret.
    How: the k-th event of a (user, item) has a priority hashed from user, item and k; the lowest
    of a user say how many events each item keeps, and the earliest ones are kept. Without items
    all events of a user are alike: the earliest are kept. To sample, give what tells them apart.
    Parameters: users and items, columns of whole numbers or text; per_user and per_item, from 1
    up; seed, of the sample.

    >>> bound_contributions([7, 7, 8, 7], [1, 1, 1, 1], per_user=3, per_item=2, seed=1)
    array([ True,  True,  True, False])
    """
    owner = "bound_contributions"
    per_user = MOST.check(owner, "per_user", per_user)
    per_item = per_user if per_item is None else MOST.check(owner, "per_item", per_item)
    seed = SEED.check(owner, "seed", seed)
    named = KeyColumn(users, name=f"{owner}: users")
    of = None if items is None else KeyColumn(items, name=f"{owner}: items")
    if of is not None and of.size != named.size:
        raise ValueError(f"{owner}: {named.size} users have {of.size} items.")
    codes, keep = _codes(named), np.empty(named.size, np.bool_)
    if of is None:
        counts = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
        kernels.first(codes, min(per_user, per_item), counts, keep)
    else:
        # An odd factor keeps different items of a user different, as their hashes are.
        names = hash_column(of, seed) * ODD + hash_column(named, seed)
        _sampled(codes, names, per_user, per_item, keep)
    return keep


class ContributionBound:
    """The same limits in one pass over batches, where a kept event cannot be taken back.

    Guarantee: as for `bound_contributions`, for the events of all batches together; but the kept
    events are the first that fit, not a sample: to choose among all events of a user one has to
    have seen them all. Use it where the order of a user's events says little.
    Parameters: per_user and per_item, from 1 up. Users and items are whole numbers; give text a
    number of its own each (two texts of one hash would share their limit). Memory grows with the
    users and the kept (user, item) pairs, and is the curator's.

    >>> bound = ContributionBound(per_user=2)
    >>> bound.keep([7, 7, 8]), bound.keep([8, 7])
    (array([ True,  True,  True]), array([ True, False]))
    """

    def __init__(self, per_user: int, per_item: int | None = None) -> None:
        self.per_user = MOST.check("ContributionBound", "per_user", per_user)
        limit = self.per_user if per_item is None else per_item
        self.per_item = MOST.check("ContributionBound", "per_item", limit)
        self._users, self._pairs = _table(1024), _table(1024)
        self._used = np.zeros(2, np.int64)

    def keep(self, users: Any, items: Any = None) -> np.ndarray:
        """The mask of the events of this batch to keep; without items, all are of item 0."""
        named = _numbers("users", users)
        of = np.zeros(named.size, np.uint64) if items is None else _numbers("items", items)
        if of.size != named.size:
            raise ValueError(f"ContributionBound: {named.size} users have {of.size} items.")
        keep = np.empty(named.size, np.bool_)
        for start in range(0, named.size, BLOCK):
            part = slice(start, start + BLOCK)
            self._make_room(named[part].size)
            kernels.admit(
                named[part],
                of[part],
                self.per_user,
                self.per_item,
                self._users,
                self._pairs,
                self._used,
                keep[part],
            )
        return keep

    def distance(self, unit: str) -> int:
        """How many kept events change with one unit more or less: 2 for an event, else per_user."""
        unit = one_of(("event", "user")).check("ContributionBound", "unit", unit)
        return 2 if unit == "event" else self.per_user

    def _make_room(self, rows: int) -> None:
        """Tables stay at most half full, whatever the next rows hold."""
        self._users = _grown(self._users, int(self._used[0]) + rows)
        self._pairs = _grown(self._pairs, int(self._used[1]) + rows)


Table = tuple[np.ndarray, np.ndarray, np.ndarray]


def _table(slots: int) -> Table:
    return np.zeros(slots, np.uint64), np.zeros(slots, np.uint64), np.zeros(slots, np.int32)


def _grown(table: Table, entries: int) -> Table:
    slots = 1 << (2 * entries - 1).bit_length()
    if slots <= table[2].size:
        return table
    larger = _table(slots)
    kernels.rehash(table, larger)
    return larger


def _sampled(
    codes: np.ndarray, names: np.ndarray, per_user: int, per_item: int, keep: np.ndarray
) -> None:
    sizes = np.bincount(codes)
    starts = np.concatenate(([0, 0], np.cumsum(sizes)))[: sizes.size + 1]
    order = np.empty(codes.size, np.int64)
    kernels.group(codes, starts, order)
    kernels.sample(order, starts, names, per_user, per_item, keep)


def _codes(keys: KeyColumn) -> np.ndarray:
    """A number for each name, the same for the same name and for no other."""
    pieces = [_plain(piece.values) for piece in keys.pieces]
    if not pieces:
        return np.empty(0, np.int64)
    kind = pa.uint64() if keys.kind == "integers" else pa.large_binary()
    column = pa.concat_arrays([piece.cast(kind) for piece in pieces])
    return np.asarray(column.dictionary_encode().indices)


def _plain(values: Any) -> pa.Array:
    """Integers as unsigned ones of 64 bits, text as it is."""
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if isinstance(values, np.ndarray):
        return pa.array(values.astype(np.uint64))
    return values


def _numbers(name: str, column: Any) -> np.ndarray:
    keys = KeyColumn(column, name=f"ContributionBound: {name}")
    if keys.kind == "text":
        raise TypeError(f"ContributionBound: {name} must be whole numbers; number the text first.")
    if any(piece.values.dtype == np.uint64 and piece.values.max() >> 63 for piece in keys.pieces):
        raise ValueError(f"ContributionBound: {name} must be below 2**63.")
    parts = [piece.values.astype(np.uint64) for piece in keys.pieces]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)
