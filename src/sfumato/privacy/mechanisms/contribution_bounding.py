"""Contribution bounding: limits on the events of a user, and of a user with one item.

The first events that fit are greedy in the order of time. Adding an event adds at most itself, and
evicts at most one (the limits form a matroid, whose greedy basis changes by one exchange).

The keyed sample is greedy over slots (item, k), one for each event of a (user, item), k = 0, 1, ...
in time. Slot k comes in round k, before all of round k + 1, and within a round by a hash of user,
item and k. One more event of an item with n events is the new slot (item, n). If it is not chosen,
all choices stand: the item retains as many as before, its earliest ones, so at most one enters and
one leaves. If it is chosen, then, rounds being nested, so were all n before it: the new event
enters, and at most one slot, the last chosen one of some other item, leaves with its event.

A slot that was evicted never returns, nor does any later one of its item: the slots before it only
become more. So batches can be sampled as they come, and evicted rows be forgotten.
"""

import re
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core.deprecation import renamed_method
from sfumato.core.hashing import BLOCK, KeyColumn, hash_column
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import integer, one_of
from sfumato.kernels import contribution_bounding as kernels

__all__ = ["ContributionBound", "ContributionSample", "bound_contributions"]

SEED = integer(0, 2**64 - 1)
MOST = integer(1, 2**31 - 1)
ODD = np.uint64(0x9E3779B97F4A7C15)
OWN = 2**62  # integers from -OWN to OWN - 1 are their own numbers
INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,19}")


def bound_contributions(
    users: Ids, items: Ids | None = None, *, per_user: int, per_item: int | None = None, seed: int
) -> np.ndarray:
    """Sample each user's events down to a limit and return the mask of retained events.

    Parameters
    ----------
    users : array_like or scalar
        User of each event: integers or text.
    items : array_like, scalar or None, default=None
        Item of each event; None treats all events of a user as equal and retains the earliest.
    per_user : int
        Largest number of events of a user, at least 1.
    per_item : int or None, default=None
        Largest number of events of a (user, item), at least 1; `per_user` by default.
    seed : int
        Seed of the sample, from 0; it need not be secret.

    Returns
    -------
    ndarray
        Boolean mask, True for retained events, in the order of the input.

    Notes
    -----
    **Guarantee.** At most per_user events of a user and per_item of a (user, item) are retained,
    and as many as these allow, under every seed. Adding or removing one event changes the retained
    rows by at most one in and one out, so its distance is 2; adding or removing one user changes
    only that user's rows, at most per_user (replacing a user: twice that). In a sketch of depth d
    and weights up to w, a user's L1 sensitivity is per_user w d and the L2 sensitivity per_user w
    sqrt(d). How: of each user every item's first event comes before any second one, and so on;
    among equals a hash of user, item and number decides. So as many different items as fit are
    retained, each equally likely, and of an item its earliest events. To sample where there are no
    items, pass a column that distinguishes the events.

    Examples
    --------
    >>> bound_contributions([7, 7, 8, 7], [1, 1, 1, 1], per_user=3, per_item=2, seed=1)
    array([ True,  True,  True, False])
    """
    owner = "bound_contributions"
    per_user = MOST.check(owner, "per_user", per_user)
    per_item = per_user if per_item is None else MOST.check(owner, "per_item", per_item)
    seed = SEED.check(owner, "seed", seed)
    named = KeyColumn(users, name=f"{owner}: users")
    of = None if items is None else KeyColumn(items, name=f"{owner}: items")
    if of is None:
        codes, keep = numbered(named), np.empty(named.size, np.bool_)
        counts = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
        kernels.first(codes, min(per_user, per_item), counts, keep)
        return keep
    _match(owner, named.size, of.size)
    return _sampled(numbered(named), _names(named, of, seed), per_user, per_item)


class _Bound:
    """Limits of one pass over batches, and the distances after it."""

    def __init__(self, per_user: int, per_item: int | None = None) -> None:
        owner = type(self).__name__
        self.per_user: int = MOST.check(owner, "per_user", per_user)
        limit = self.per_user if per_item is None else per_item
        self.per_item: int = MOST.check(owner, "per_item", limit)

    def __repr__(self) -> str:
        return described(self, per_user=self.per_user, per_item=self.per_item)

    def distance(self, unit: str) -> int:
        """Return how many retained events may change when one unit is added or removed.

        Parameters
        ----------
        unit : str
            "event" or "user".

        Returns
        -------
        int
            2 for an event, `per_user` for a user.
        """
        unit = one_of(("event", "user")).check(type(self).__name__, "unit", unit)
        return 2 if unit == "event" else self.per_user


class ContributionSample(_Bound):
    """The sample of `bound_contributions`, computed in one pass over batches.

    Parameters
    ----------
    per_user : int
        Largest number of events of a user, at least 1.
    per_item : int or None, default=None
        Largest number of events of a (user, item), at least 1; `per_user` by default.
    seed : int
        Seed of the sample, from 0; it need not be secret.

    Notes
    -----
    **Guarantee.** `retained()` returns the rows that `bound_contributions` retains of all batches
    concatenated, however they are split; so its limits and distances hold. Memory grows with the
    sample: at most twice per_user rows for each user, and a buffer of one batch or 2**16 rows. It
    contains raw rows and is not private.

    Examples
    --------
    >>> sample = ContributionSample(per_user=2, seed=1)
    >>> sample.update([7, 8, 7], [5, 5, 5]).update([7, 8], [6, 5]).retained()
    array([0, 1, 3, 4])
    """

    def __init__(self, per_user: int, per_item: int | None = None, *, seed: int) -> None:
        super().__init__(per_user, per_item)
        self.seed: int = SEED.check("ContributionSample", "seed", seed)
        self.rows = 0  # of all batches
        self._numbers = _Numbers()
        self._batches = [_no_rows()]  # the sample, then batches that were not sampled yet

    def update(self, users: Ids, items: Ids | None = None) -> Self:
        """Add the next rows.

        Parameters
        ----------
        users : array_like or scalar
            User of each row: keys of any type.
        items : array_like, scalar or None, default=None
            Item of each row; None puts all rows under one item.

        Returns
        -------
        Self
            The sample itself.
        """
        named = KeyColumn(users, name="ContributionSample: users")
        own = self._numbers.of(named)
        of = KeyColumn(
            np.zeros(own.size, np.int64) if items is None else items,
            name="ContributionSample: items",
        )
        _match("ContributionSample", own.size, of.size)
        rows = np.arange(self.rows, self.rows + own.size)
        self._batches.append((own, _names(named, of, self.seed), rows))
        self.rows += own.size
        # Waiting until the new rows are as many as the sample makes the work of all batches linear.
        if sum(batch[2].size for batch in self._batches[1:]) > max(BLOCK, self._batches[0][2].size):
            self._sample()
        return self

    def retained(self) -> np.ndarray:
        """Return the retained rows of all batches so far.

        Returns
        -------
        ndarray
            Row numbers in increasing order, counted from 0 over all batches.
        """
        self._sample()
        return self._batches[0][2].copy()

    kept: Callable[..., Any] = renamed_method("kept", "retained")

    def _sample(self) -> None:
        """Sample the waiting batches into the sample."""
        users, names, rows = (np.concatenate(part) for part in zip(*self._batches, strict=True))
        codes = np.asarray(pa.array(users).dictionary_encode().indices)
        keep = _sampled(codes, names, self.per_user, self.per_item)
        self._batches = [(users[keep], names[keep], rows[keep])]


class ContributionBound(_Bound):
    """Online contribution bounding: the first events that fit the limits are retained.

    Parameters
    ----------
    per_user : int
        Largest number of events of a user, at least 1.
    per_item : int or None, default=None
        Largest number of events of a (user, item), at least 1; `per_user` by default.

    Notes
    -----
    **Guarantee.** Limits and distances as for `bound_contributions`, for the events of all batches
    together. Each event is decided when it arrives, so the retained events are the first that fit,
    not a sample; use it where the order of a user's events is not informative. Memory grows with
    the users and the retained (user, item) pairs; it contains raw ids and is not private.

    Examples
    --------
    >>> bound = ContributionBound(per_user=2)
    >>> bound.keep([7, 7, 8]), bound.keep([8, 7])
    (array([ True,  True,  True]), array([ True, False]))
    """

    def __init__(self, per_user: int, per_item: int | None = None) -> None:
        super().__init__(per_user, per_item)
        self._users, self._pairs = _table(1024), _table(1024)
        self._user_numbers, self._item_numbers = _Numbers(), _Numbers()
        self._used = np.zeros(2, np.int64)

    def keep(self, users: Ids, items: Ids | None = None) -> np.ndarray:
        """Decide which events of the next batch are retained.

        Parameters
        ----------
        users : array_like or scalar
            User of each event: keys of any type.
        items : array_like, scalar or None, default=None
            Item of each event; None puts all events under one item.

        Returns
        -------
        ndarray
            Boolean mask, True for retained events.
        """
        owner = "ContributionBound"
        named = self._user_numbers.of(KeyColumn(users, name=f"{owner}: users"))
        of = np.zeros(named.size, np.uint64)
        if items is not None:
            of = self._item_numbers.of(KeyColumn(items, name=f"{owner}: items"))
        _match(owner, named.size, of.size)
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

    def _make_room(self, rows: int) -> None:
        """Grow the tables so that they stay at most half full after the next rows."""
        self._users = _grown(self._users, int(self._used[0]) + rows)
        self._pairs = _grown(self._pairs, int(self._used[1]) + rows)


Table = tuple[np.ndarray, np.ndarray, np.ndarray]


def _table(slots: int) -> Table:
    """Make an empty hash table: two key columns and counts."""
    return np.zeros(slots, np.uint64), np.zeros(slots, np.uint64), np.zeros(slots, np.int32)


def _grown(table: Table, entries: int) -> Table:
    """Rehash a table into one with room for these entries."""
    slots = 1 << (2 * entries - 1).bit_length()
    if slots <= table[2].size:
        return table
    larger = _table(slots)
    kernels.rehash(table, larger)
    return larger


def _match(owner: str, users: int, items: int) -> None:
    """Raise where users and items differ in number."""
    if users != items:
        raise ValueError(f"{owner}: items must be one for each of {users} users, not {items}.")


def _no_rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return an empty batch of users, names and rows."""
    return np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64)


def _names(users: KeyColumn, items: KeyColumn, seed: int) -> np.ndarray:
    """Hash the user and the item of each event."""
    # An odd factor keeps different items of a user different, as their hashes are.
    return np.asarray(hash_column(items, seed) * ODD + hash_column(users, seed))


def _sampled(codes: np.ndarray, names: np.ndarray, per_user: int, per_item: int) -> np.ndarray:
    """Return the mask of the sample; codes number the users, names hash the pairs."""
    keep = np.empty(codes.size, np.bool_)
    sizes = np.bincount(codes)
    starts = np.concatenate(([0, 0], np.cumsum(sizes)))[: sizes.size + 1]
    order = np.empty(codes.size, np.int64)
    kernels.group(codes, starts, order)
    kernels.sample(order, starts, names, per_user, per_item, keep)
    return keep


def numbered(keys: KeyColumn) -> np.ndarray:
    """Number the keys: the same number for the same key and for no other."""
    return np.asarray(keys.names().dictionary_encode(null_encoding="encode").indices, np.int64)


class _Numbers:
    """One 64-bit number for each key, in all batches: an integer within 2**62 is its own.

    Other keys get the next number from 2**62 on, where no integer has its own; a hash instead
    would let two users share one limit. Memory grows with such keys and is not private.
    """

    def __init__(self) -> None:
        self._others: dict[Any, int] = {}

    def of(self, keys: KeyColumn) -> np.ndarray:
        """Return the number of each key."""
        names = keys.names()
        if pa.types.is_integer(names.type):
            out: np.ndarray = names.to_numpy(zero_copy_only=False).astype(np.int64)
            outside = np.flatnonzero((out < -OWN) | (out >= OWN))
            if outside.size:
                out = out.copy()
                out[outside] = [self._number(str(key).encode()) for key in out[outside].tolist()]
            return out.view(np.uint64)
        coded = names.dictionary_encode(null_encoding="encode")
        found = [self._number(name) for name in coded.dictionary.to_pylist()]
        own = np.array(found, np.int64)[np.asarray(coded.indices)]
        return np.asarray(own.view(np.uint64))

    def _number(self, name: bytes | None) -> int:
        if name is not None and INTEGER.fullmatch(name) and -OWN <= int(name) < OWN:
            return int(name)
        return self._others.setdefault(name, OWN + len(self._others))
