"""Contribution bounding: so many events of a user, and of a user with one item, and no more.

The first that fit are greedy in the order of time, which an event more leaves as it is for all
others: it comes in at most itself, and puts out at most one (the limits form a matroid, whose
greedy basis changes by one exchange).

The keyed sample is greedy over slots (item, k), one for each event of a (user, item), k = 0, 1, ...
in time. Slot k comes in round k, before all of round k + 1, and within a round by a hash of user,
item and k. An event more of an item that had n is the new slot (item, n). If it is not chosen, all
choices stand: item keeps as many as before, its earliest ones, so at most one comes in and one goes
out. If it is chosen, then, rounds being nested, so were all n before it: the new event comes in,
and at most one slot, the last chosen one of some other item, goes out with its event.

A slot that is put out never comes back, nor does any later one of its item: the slots before it
only become more. So batches can be sampled as they come, and what a batch puts out be forgotten.
"""

import re
from typing import Any, Self

import numpy as np
import pyarrow as pa

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
    """A mask of the events to keep: a keyed sample of each user's events.

    Parameters
    ----------
    users : array_like or scalar
        Columns of integers or text.
    items : array_like, scalar or None, default=None
        Columns of integers or text.
    per_user : int
        From 1 up.
    per_item : int or None, default=None
        From 1 up.
    seed : int
        Of the sample.

    Returns
    -------
    ndarray
        A mask of the events to keep: a keyed sample of each user's events.

    Notes
    -----
    **Guarantee.** At most per_user events of a user and per_item of a (user, item) are kept, and as
    many as these allow. One event more or less changes the kept rows by at most one in and one out,
    so its distance is 2; one user more or less changes only that user's rows, at most per_user (one
    user in place of another: twice that): in a sketch of depth d and weights up to w, L1 per_user w
    d and L2 per_user w sqrt(d). This holds under every seed: it need not be secret. How: of each
    user every item's first event comes before any second one, and so on; among equals a hash of
    user, item and number decides. So as many different items as fit are kept, each as likely as any
    other, and of an item its earliest events. Without items all events of a user are alike: the
    earliest are kept. To sample, give what tells them apart.

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
    """The limits of one pass over batches, and the distances after it."""

    def __init__(self, per_user: int, per_item: int | None = None) -> None:
        owner = type(self).__name__
        self.per_user = MOST.check(owner, "per_user", per_user)
        limit = self.per_user if per_item is None else per_item
        self.per_item = MOST.check(owner, "per_item", limit)

    def __repr__(self) -> str:
        return described(self, per_user=self.per_user, per_item=self.per_item)

    def distance(self, unit: str) -> int:
        """How many kept events change with one unit more or less: 2 for an event, else per_user.

        Parameters
        ----------
        unit : str
            TODO.

        Returns
        -------
        int
            How many kept events change with one unit more or less: 2 for an event, else per_user.
        """
        unit = one_of(("event", "user")).check(type(self).__name__, "unit", unit)
        return 2 if unit == "event" else self.per_user


class ContributionSample(_Bound):
    """The sample of `bound_contributions` in one pass over batches, told at the end.

    Parameters
    ----------
    per_user : int
        From 1 up.
    per_item : int or None, default=None
        From 1 up.
    seed : int
        Of the sample. Users and items are keys of any types.

    Notes
    -----
    **Guarantee.** `kept()` are the rows that `bound_contributions` keeps of all batches as one
    column, whatever the cuts; so its limits and distances hold. Memory grows with the rows still in
    the sample, at most per_user for each user (twice that, and what waits: a batch, or 2**16 rows),
    and is the curator's.

    Examples
    --------
    >>> sample = ContributionSample(per_user=2, seed=1)
    >>> sample.update([7, 8, 7], [5, 5, 5]).update([7, 8], [6, 5]).kept()
    array([0, 1, 3, 4])
    """

    def __init__(self, per_user: int, per_item: int | None = None, *, seed: int) -> None:
        super().__init__(per_user, per_item)
        self.seed = SEED.check("ContributionSample", "seed", seed)
        self.seen = 0  # rows of all batches
        self._numbers = _Numbers()
        self._held = [_no_rows()]  # the sample, then batches that were not sampled yet

    def update(self, users: Ids, items: Ids | None = None) -> Self:
        """See the next rows; without items, all are of item 0.

        Parameters
        ----------
        users : array_like or scalar
            TODO.
        items : array_like, scalar or None, default=None
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        named = KeyColumn(users, name="ContributionSample: users")
        own = self._numbers.of(named)
        of = KeyColumn(
            np.zeros(own.size, np.int64) if items is None else items,
            name="ContributionSample: items",
        )
        _match("ContributionSample", own.size, of.size)
        rows = np.arange(self.seen, self.seen + own.size)
        self._held.append((own, _names(named, of, self.seed), rows))
        self.seen += own.size
        # To wait until as much is new as was held makes the work of all batches linear.
        if sum(batch[2].size for batch in self._held[1:]) > max(BLOCK, self._held[0][2].size):
            self._sample()
        return self

    def kept(self) -> np.ndarray:
        """The numbers of the rows to keep, of all rows seen so far, in order.

        Returns
        -------
        ndarray
            The numbers of the rows to keep, of all rows seen so far, in order.
        """
        self._sample()
        return self._held[0][2].copy()

    def _sample(self) -> None:
        users, names, rows = (np.concatenate(part) for part in zip(*self._held, strict=True))
        codes = np.asarray(pa.array(users).dictionary_encode().indices)
        keep = _sampled(codes, names, self.per_user, self.per_item)
        self._held = [(users[keep], names[keep], rows[keep])]


class ContributionBound(_Bound):
    """The same limits in one pass over batches, where a kept event cannot be taken back.

    Parameters
    ----------
    per_user : int
        From 1 up. Users and items are keys of any types. Memory grows with the users and the kept
        (user, item) pairs, and is the curator's.
    per_item : int or None, default=None
        From 1 up. Users and items are keys of any types. Memory grows with the users and the kept
        (user, item) pairs, and is the curator's.

    Notes
    -----
    **Guarantee.** Limits and distances as for `bound_contributions`, for the events of all batches
    together; but the kept events are the first that fit, not a sample, since each is told at once.
    Use it where the order of a user's events says little.

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
        """The mask of the events of this batch to keep; without items, all are of item 0.

        Parameters
        ----------
        users : array_like or scalar
            TODO.
        items : array_like, scalar or None, default=None
            TODO.

        Returns
        -------
        ndarray
            The mask of the events of this batch to keep; without items, all are of item 0.
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


def _match(owner: str, users: int, items: int) -> None:
    if users != items:
        raise ValueError(f"{owner}: items must be one for each of {users} users, not {items}.")


def _no_rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64)


def _names(users: KeyColumn, items: KeyColumn, seed: int) -> np.ndarray:
    """A hash of the user and the item of each event."""
    # An odd factor keeps different items of a user different, as their hashes are.
    return np.asarray(hash_column(items, seed) * ODD + hash_column(users, seed))


def _sampled(codes: np.ndarray, names: np.ndarray, per_user: int, per_item: int) -> np.ndarray:
    """The mask of the sample of events in time; codes number the users, names hash the pairs."""
    keep = np.empty(codes.size, np.bool_)
    sizes = np.bincount(codes)
    starts = np.concatenate(([0, 0], np.cumsum(sizes)))[: sizes.size + 1]
    order = np.empty(codes.size, np.int64)
    kernels.group(codes, starts, order)
    kernels.sample(order, starts, names, per_user, per_item, keep)
    return keep


def numbered(keys: KeyColumn) -> np.ndarray:
    """A number for each name, the same for the same name and for no other."""
    return np.asarray(keys.names().dictionary_encode(null_encoding="encode").indices, np.int64)


class _Numbers:
    """One 64-bit number for each key, in all batches: an integer is its own, within 2**62.

    Other keys get the next number from 2**62 on, where no integer has its own; a hash in its place
    would let two users share one limit. Memory grows with such keys, and is the curator's.
    """

    def __init__(self) -> None:
        self._others: dict[Any, int] = {}

    def of(self, keys: KeyColumn) -> np.ndarray:
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
