"""Interactions: validated columns of users and items, with ratings and times where there are."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.hashing import hash_column
from sfumato.core.ids import as_ids, coded_integers, numbers
from sfumato.core.row_values import ids_by_row, numbers_by_row, settled_ids
from sfumato.core.tables import Page, Table, described
from sfumato.core.typing import Column, Ids
from sfumato.core.validation import RandomState, one_of
from sfumato.data import splits
from sfumato.data.readers.base import ReadingReport

__all__ = ["Coded", "Interactions", "as_ids", "item_seed"]

ITEM_SEED = 0x5DEECE66D
COUNTED = 1_000_000  # rows up to which the repr counts users and items
INVALID = one_of(("refuse", "drop"))
NO_USER, NO_ITEM = "the user is no id", "the item is no id"
NO_RATING = "the rating is not a finite number"
_StoredIds: TypeAlias = np.ndarray | Any  # int64, or an Arrow dictionary of texts


def item_seed(seed: int) -> int:
    """Derive the seed that items are hashed with from that of users.

    With it, equal ids of a user and an item have different hashes.

    Parameters
    ----------
    seed : int
        Seed that users are hashed with.

    Returns
    -------
    int
        Seed for items.

    Examples
    --------
    >>> item_seed(item_seed(7))
    7
    """
    return seed ^ ITEM_SEED


class Coded(NamedTuple):
    """Users and items as consecutive integer codes, with the ids they stand for.

    Made by `Interactions.coded`. Codes are numbered from 0 in the order of first appearance.

    Parameters
    ----------
    user_codes : ndarray of shape (n,)
        Code of each row's user: its position in `user_ids`.
    item_codes : ndarray of shape (n,)
        Code of each row's item: its position in `item_ids`.
    user_ids : ndarray of shape (n_users,)
        Distinct user ids, int64 or text.
    item_ids : ndarray of shape (n_items,)
        Distinct item ids, int64 or text.

    Examples
    --------
    >>> coded = Interactions([7, 9, 7], ["tea", "tea", "milk"], [5, 4, 3]).coded()
    >>> coded.user_codes, coded.user_ids
    (array([0, 1, 0], dtype=int32), array([7, 9]))
    """

    user_codes: np.ndarray
    item_codes: np.ndarray
    user_ids: np.ndarray
    item_ids: np.ndarray

    def __repr__(self) -> str:
        sizes = len(self.user_codes), len(self.user_ids), len(self.item_ids)
        return described(self, **dict(zip(("rows", "users", "items"), sizes, strict=True)))


class Interactions(Page, Table):
    """Who used or rated which item, one per row, with or without ratings and times.

    Parameters
    ----------
    users : array_like or scalar
        User ids: integers or text, as NumPy, Arrow, pandas, polars or a list.
    items : array_like or scalar
        Item ids: integers or text.
    ratings : array_like or None, default=None
        Ratings or counts, finite numbers; None if there are none (implicit feedback).
    times : array_like or None, default=None
        Numbers or dates (which become seconds since 1970), or None.
    invalid : {"refuse", "drop"}, default="refuse"
        "refuse" raises for a row without user or item, or with a rating that is not finite, and
        for ids of two types. "drop", for data that will be released privately, leaves such rows
        out; `times` must be None.

    Attributes
    ----------
    ratings : ndarray of shape (n,)
        Ratings, float64; all ones if none were given.
    has_ratings : bool
        Whether ratings were given.
    times : ndarray of shape (n,) or None
        Times, or None.
    report : ReadingReport or None
        What was left out, of rows that were read from a source or with ``invalid="drop"``. It
        counts raw data: for the curator only, and no part of a release.

    Notes
    -----
    **Guarantee.** All columns have one length; ratings are finite; ids are integers below 2**63 or
    text. The columns are read-only, and the given arrays are not copied where their types fit. With
    ``invalid="drop"`` every row is read by itself: whatever it contains, the other rows are read as
    they would be without it, and nothing is raised; 7, "7", 7.0 and "7.0" are then one id.

    Interactions may be empty; a model raises where it needs rows. The printed form, also in a
    notebook, shows no rows; `to_pandas`, `to_polars` and `to_arrow` return them, with the columns
    user, item, rating and time, as far as there are any.

    Models of lists learn from interactions with and without ratings; models that predict ratings
    refuse interactions without them.

    Examples
    --------
    >>> interactions = Interactions([7, 7, 8], ["tea", "milk", "tea"], ratings=[5, 3, 4])
    >>> interactions
    Interactions(rows=3, users=2, items=2, times=False)
    >>> interactions.filter(interactions.ratings > 3).items
    array(['tea', 'tea'], dtype=object)
    >>> interactions.coded().item_codes
    array([0, 1, 0], dtype=int32)
    >>> Interactions([7, 8], ["tea", "rum"])
    Interactions(rows=2, users=2, items=2, ratings=False, times=False)
    >>> mixed = Interactions([7, "7", None], ["tea"] * 3, [5, float("nan"), 4], invalid="drop")
    >>> print(mixed.report)
    3 rows read, 1 kept; 1 skipped: the user is no id; 1 skipped: the rating is not a finite number.
    """

    has_ratings: bool = True
    report: ReadingReport | None
    _cache: dict[str, Any]

    def __init__(
        self,
        users: Ids,
        items: Ids,
        ratings: Column | None = None,
        times: Column | None = None,
        *,
        invalid: str = "refuse",
    ) -> None:
        if INVALID.check("Interactions", "invalid", invalid) == "drop":
            self._keep_valid(users, items, ratings, times)
            return
        columns = {
            "users": _coded_text(as_ids(users, "users")),
            "items": _coded_text(as_ids(items, "items")),
        }
        if ratings is not None:
            columns["ratings"] = numbers(ratings, "ratings").astype(np.float64, copy=False)
        if times is not None:
            columns["times"] = numbers(times, "times")
        _check_lengths(columns)
        self._set(columns["users"], columns["items"], columns.get("ratings"), columns.get("times"))

    def _keep_valid(self, users: Any, items: Any, ratings: Any, times: Any) -> None:
        """Take the rows with two ids and, if there are ratings, a finite one, each by itself."""
        if times is not None:
            raise ValueError("Interactions: times must be None for invalid='drop'; none are read.")
        columns = {"users": ids_by_row(users, "users"), "items": ids_by_row(items, "items")}
        faults = {
            NO_USER: np.asarray(columns["users"].is_null()),
            NO_ITEM: np.asarray(columns["items"].is_null()),
        }
        if ratings is not None:
            columns["ratings"] = numbers_by_row(ratings, "ratings")
            faults[NO_RATING] = np.isnan(columns["ratings"])
        _check_lengths(columns)
        valid, skipped = np.ones(len(columns["users"]), bool), {}
        for reason, bad in faults.items():
            if count := int((valid & bad).sum()):
                skipped[reason] = count
            valid &= ~bad
        who, what = (
            _coded_text(settled_ids(columns[name].filter(pa.array(valid))))
            for name in ("users", "items")
        )
        self._set(who, what, None if ratings is None else columns["ratings"][valid], None, "drop")
        self.report = ReadingReport(valid.size, len(self), 0, skipped)

    def _set(
        self,
        users: _StoredIds,
        items: _StoredIds,
        ratings: np.ndarray | None,
        times: np.ndarray | None,
        invalid: str = "refuse",
    ) -> None:
        self.invalid: str
        self.invalid, self.has_ratings = invalid, ratings is not None
        self._users, self._items = _locked(users), _locked(items)
        self.ratings: Any = _locked(np.ones(len(users)) if ratings is None else ratings)
        self.times: Any | None = None if times is None else _locked(times)
        self.report = None
        self._cache = {}

    @classmethod
    def _of(cls, *columns: Any) -> "Interactions":
        """Build from columns that were validated before."""
        made = cls.__new__(cls)
        made._set(*columns)
        return made

    @property
    def users(self) -> np.ndarray:
        """User ids of the rows: int64, or an object array of text."""
        return self._plain("users", self._users)

    @property
    def items(self) -> np.ndarray:
        """Item ids of the rows: int64, or an object array of text."""
        return self._plain("items", self._items)

    def __len__(self) -> int:
        return int(self.ratings.size)

    def __repr__(self) -> str:
        return described(self, **self._facts())

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"rows": len(self)}
        if len(self) <= COUNTED or "coded" in self._cache:
            facts |= {"users": len(self.coded().user_ids), "items": len(self.coded().item_ids)}
        rated = {} if self.has_ratings else {"ratings": False}
        return {**facts, **rated, "times": self.times is not None}

    def _columns(self) -> dict[str, Any]:
        columns = {"user": self.users, "item": self.items}
        if self.has_ratings:
            columns["rating"] = self.ratings
        return columns if self.times is None else {**columns, "time": self.times}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Interactions):
            return NotImplemented
        mine, others = self._columns(), other._columns()
        return mine.keys() == others.keys() and all(
            np.array_equal(mine[name], others[name]) for name in mine
        )

    def filter(self, rows: Any) -> "Interactions":
        """Select rows by a mask or by their positions.

        Parameters
        ----------
        rows : array_like of bool or int
            Mask with one entry per row, or row numbers from 0, in the order wanted.

        Returns
        -------
        Interactions
            The selected rows; `report` is None.
        """
        keep = np.asarray(rows)
        if keep.dtype == bool:
            if keep.shape != (len(self),):
                raise ValueError(
                    f"Interactions: the mask must have {len(self)} entries, one per row, "
                    f"not shape {keep.shape}."
                )
            keep = np.flatnonzero(keep)
        elif keep.ndim != 1 or (keep.size and keep.dtype.kind not in "iu"):
            raise TypeError("Interactions: filter takes a mask or integers of rows.")
        keep = keep.astype(np.int64, copy=False)
        times = None if self.times is None else self.times[keep]
        ids = _take(self._users, keep), _take(self._items, keep)
        ratings = self.ratings[keep] if self.has_ratings else None
        return self._of(*ids, ratings, times, self.invalid)

    def hashed(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Hash users and items to 64 bits.

        Parameters
        ----------
        seed : int, default=0
            Seed of the users' hashes; that of items is derived by `item_seed`, so an equal id has
            different hashes as a user and as an item.

        Returns
        -------
        users : ndarray of shape (n,)
            Hashes of the users, uint64.
        items : ndarray of shape (n,)
            Hashes of the items, uint64.
        """
        users = hash_column(self._users, seed, name="users")
        return users, hash_column(self._items, item_seed(seed), name="items")

    def coded(self) -> Coded:
        """Encode users and items as consecutive integers.

        Returns
        -------
        Coded
            Codes from 0, and the ids they stand for. Computed once, then cached.
        """
        if "coded" not in self._cache:
            users, user_ids = _codes(self._users)
            items, item_ids = _codes(self._items)
            self._cache["coded"] = Coded(users, items, user_ids, item_ids)
        coded: Coded = self._cache["coded"]
        return coded

    def merge(self, other: "Interactions") -> "Interactions":
        """Concatenate two sets of interactions, these rows first.

        Parameters
        ----------
        other : Interactions
            Rows to append. Both or neither must have ratings, and so times; ids must be of one
            type, unless both were made with ``invalid="drop"``. Ones can be given as ratings to
            merge rows without ratings to others.

        Returns
        -------
        Interactions
            The rows of both.
        """
        if (self.times is None) != (other.times is None):
            raise ValueError("Interactions: cannot merge, only one of the two has times.")
        if self.has_ratings != other.has_ratings:
            raise ValueError(
                "Interactions: cannot merge, only one of the two has ratings; give the other ones "
                "as ratings."
            )
        pairs = zip(self._columns().items(), other._columns().values(), strict=True)
        columns: dict[str, Any] = {
            f"{name}s": np.concatenate([mine, more]) for (name, mine), more in pairs
        }
        if self.invalid == other.invalid == "drop":
            return Interactions(**columns, invalid="drop")
        for name, ids, more in (
            ("users", self._users, other._users),
            ("items", self._items, other._items),
        ):
            if (
                len(self)
                and len(other)
                and isinstance(ids, np.ndarray) != isinstance(more, np.ndarray)
            ):
                raise TypeError(
                    f"Interactions: cannot merge, {name} are integers in one, texts in one."
                )
        return Interactions(**columns)

    @renamed_arguments(seed="random_state")
    def split(self, *sizes: float, random_state: RandomState = 0) -> tuple["Interactions", ...]:
        """Split the rows at random into parts without overlap.

        Parameters
        ----------
        *sizes : float
            Fraction of the rows in each part: above 0, together at most 1. Rows that remain are in
            no part.
        random_state : int, Generator or None, default=0
            Seed or generator; None for a fresh seed.

        Returns
        -------
        tuple of Interactions
            One part per size, each in the original order of rows.
        """
        return tuple(map(self.filter, splits.random_rows(len(self), sizes, random_state)))

    def by_row(self) -> "Interactions":
        """Return these rows as ``invalid="drop"`` reads them.

        Private models and releases take rows in this form.

        Returns
        -------
        Interactions
            The same rows with normalised ids; the object itself if it was made so. Cached.
        """
        if self.invalid == "drop":
            return self
        if "by_row" not in self._cache:
            ratings = self.ratings if self.has_ratings else None
            self._cache["by_row"] = Interactions(self._users, self._items, ratings, invalid="drop")
        found: Interactions = self._cache["by_row"]
        return found

    def outside(
        self,
        *,
        users: Ids | None = None,
        items: Ids | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> ReadingReport:
        """Count the rows that a private model with these public lists and bounds ignores or clips.

        Parameters
        ----------
        users : array_like, scalar or None, default=None
            Public user ids, None for any.
        items : array_like, scalar or None, default=None
            Public item ids, None for any.
        bounds : tuple of (float, float) or None, default=None
            Lowest and highest rating, None for any; rows without ratings are not clipped.

        Returns
        -------
        ReadingReport
            Counts of rows used, skipped by reason, and clipped.

        Notes
        -----
        **Guarantee.** The counts are exact and of raw rows, for the curator alone; no private model
        or release uses them.

        Examples
        --------
        >>> interactions = Interactions([7, 8, 9], ["tea", "tea", "rum"], [5, 9, 1])
        >>> print(interactions.outside(users=[7, 8], bounds=(1, 5)))
        3 rows read, 2 kept; 1 skipped: the user is not listed; 1 ratings clipped to the bounds.
        """
        rows = self.by_row()
        inside, skipped = np.ones(len(rows), bool), {}
        for reason, own, listed in (
            ("the user is not listed", rows._users, users),
            ("the item is not listed", rows._items, items),
        ):
            if listed is None:
                continue
            known = ids_by_row(as_ids(listed, "ids"), "ids")
            found = pc.is_in(_written(own), _written(known))
            skipped[reason] = int((inside & ~np.asarray(found)).sum())
            inside &= np.asarray(found)
        low, high = (-np.inf, np.inf)
        if bounds is not None and self.has_ratings:
            low, high = bounds
        beyond = (rows.ratings[inside] < low) | (rows.ratings[inside] > high)
        reasons = {reason: count for reason, count in skipped.items() if count}
        return ReadingReport(inside.size, int(inside.sum()), 0, reasons, clipped=int(beyond.sum()))

    def _plain(self, name: str, ids: _StoredIds) -> np.ndarray:
        if isinstance(ids, np.ndarray):
            return ids
        if name not in self._cache:
            self._cache[name] = _locked(_texts(ids.dictionary)[_indices(ids)])
        plain: np.ndarray = self._cache[name]
        return plain


def _check_lengths(columns: dict[str, Any]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Interactions: the columns differ in length: {lengths}.")


def _coded_text(ids: np.ndarray | pa.ChunkedArray) -> _StoredIds:
    """Encode text ids as a dictionary; integers stay as they are."""
    if isinstance(ids, np.ndarray):
        return ids
    return ids.dictionary_encode().combine_chunks()


def _written(ids: Any) -> Any:
    """Ids as Arrow text; integers become their decimal digits."""
    if isinstance(ids, pa.DictionaryArray):
        ids = ids.dictionary_decode()
    return (pa.array(ids) if isinstance(ids, np.ndarray) else ids).cast(pa.large_string())


def _locked(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        column = column.view()
        column.flags.writeable = False
    return column


def _indices(ids: pa.DictionaryArray) -> np.ndarray:
    return np.asarray(ids.indices.to_numpy())


def _texts(array: pa.Array) -> np.ndarray:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=object)


def _take(ids: _StoredIds, rows: np.ndarray) -> _StoredIds:
    if isinstance(ids, np.ndarray):
        return np.asarray(ids[rows])
    return pa.DictionaryArray.from_arrays(pa.array(_indices(ids)[rows]), ids.dictionary)


def _codes(ids: _StoredIds) -> tuple[np.ndarray, np.ndarray]:
    """Codes in the order of first appearance, and the ids they stand for."""
    if isinstance(ids, np.ndarray):
        positions, found = coded_integers(ids)
        return _locked(positions), _locked(found)
    positions, found = coded_integers(_indices(ids))
    return _locked(positions), _locked(_texts(ids.dictionary.take(pa.array(found))))
