"""Who rated what, and how: columns of equal length, checked once, in the memory of their types."""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
COUNTED = 1_000_000  # rows up to which a line says how many users and items there are
INVALID = one_of(("refuse", "drop"))
NO_USER, NO_ITEM = "the user is no id", "the item is no id"
NO_RATING = "the rating is not a finite number"
_HeldIds: TypeAlias = np.ndarray | Any  # int64, or an Arrow dictionary of texts


def item_seed(seed: int) -> int:
    """The seed that items are hashed with where users are hashed with this one: 7 is not 7.

    Parameters
    ----------
    seed : int
        TODO.

    Returns
    -------
    int
        The seed that items are hashed with where users are hashed with this one: 7 is not 7.
    """
    return seed ^ ITEM_SEED


class Coded(NamedTuple):
    """_HeldIds as places in a list of those that occur, in the order of their first appearance.

    Parameters
    ----------
    user_codes : ndarray
        TODO.
    item_codes : ndarray
        TODO.
    user_ids : ndarray
        TODO.
    item_ids : ndarray
        TODO.
    """

    user_codes: np.ndarray
    item_codes: np.ndarray
    user_ids: np.ndarray
    item_ids: np.ndarray

    def __repr__(self) -> str:
        sizes = len(self.user_codes), len(self.user_ids), len(self.item_ids)
        return described(self, **dict(zip(("rows", "users", "items"), sizes, strict=True)))


class Interactions(Page, Table):
    """Ratings that users gave to items, one a row, with or without the times.

    Parameters
    ----------
    users : array_like or scalar
        Integers or texts as NumPy, Arrow, pandas, polars or a list.
    items : array_like or scalar
        Integers or texts as NumPy, Arrow, pandas, polars or a list.
    ratings : array_like
        Numbers.
    times : array_like or None, default=None
        Numbers or dates (which become seconds since 1970), or None.
    invalid : str, default="refuse"
        "refuse" to raise for a row without user, item or finite rating and for ids of two types,
        "drop" to leave out a row that has not all three; it reads no times.

    Notes
    -----
    **Guarantee.** Columns of one length; ratings are finite; ids are integers below 2**63 or texts.
    The columns are read-only and what was given is not copied where its type fits. May be empty: a
    model says so when it needs rows. With invalid="drop", which is for what will be private, every
    row is read by itself: whatever one holds, the others stay as they are without it, and nothing
    is raised. 7, "7", 7.0 and "7.0" are then one id. What was dropped is in `report`, for the
    curator: it tells of raw data and is no part of a release. What is printed, also in a notebook,
    has no rows; `to_pandas`, `to_polars` and `to_arrow` give them: user, item, rating, time.

    Examples
    --------
    >>> seen = Interactions(users=[7, 7, 8], items=["tea", "milk", "tea"], ratings=[5, 3, 4])
    >>> seen
    Interactions(rows=3, users=2, items=2, times=False)
    >>> seen.filter(seen.ratings > 3).items
    array(['tea', 'tea'], dtype=object)
    >>> seen.coded().item_codes
    array([0, 1, 0], dtype=int32)
    >>> odd = Interactions([7, "7", None], ["tea"] * 3, [5, float("nan"), 4], invalid="drop")
    >>> print(odd.report)
    3 rows read, 1 kept; 1 skipped: the user is no id; 1 skipped: the rating is not a finite number.
    """

    report: ReadingReport | None
    _cache: dict[str, Any]

    def __init__(
        self,
        users: Ids,
        items: Ids,
        ratings: Column,
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
            "ratings": numbers(ratings, "ratings").astype(np.float64, copy=False),
        }
        if times is not None:
            columns["times"] = numbers(times, "times")
        _check_lengths(columns)
        self._set(columns["users"], columns["items"], columns["ratings"], columns.get("times"))

    def _keep_valid(self, users: Any, items: Any, ratings: Any, times: Any) -> None:
        """Take the rows that hold an id each and a finite rating, each by itself."""
        if times is not None:
            raise ValueError("Interactions: times must be None for invalid='drop'; none are read.")
        who, what = ids_by_row(users, "users"), ids_by_row(items, "items")
        rated = numbers_by_row(ratings, "ratings")
        _check_lengths({"users": who, "items": what, "ratings": rated})
        left, skipped = np.ones(rated.size, bool), {}
        for reason, bad in (
            (NO_USER, np.asarray(who.is_null())),
            (NO_ITEM, np.asarray(what.is_null())),
            (NO_RATING, np.isnan(rated)),
        ):
            if count := int((left & bad).sum()):
                skipped[reason] = count
            left &= ~bad
        who, what = (settled_ids(each.filter(pa.array(left))) for each in (who, what))
        self._set(_coded_text(who), _coded_text(what), rated[left], None, "drop")
        self.report = ReadingReport(left.size, len(self), 0, skipped)

    def _set(
        self,
        users: _HeldIds,
        items: _HeldIds,
        ratings: np.ndarray,
        times: np.ndarray | None,
        invalid: str = "refuse",
    ) -> None:
        self.invalid = invalid
        self._users, self._items = _locked(users), _locked(items)
        self.ratings = _locked(ratings)
        self.times = None if times is None else _locked(times)
        self.report = None
        self._cache = {}

    @classmethod
    def _of(cls, *columns: Any) -> "Interactions":
        """From columns that were checked before."""
        made = cls.__new__(cls)
        made._set(*columns)
        return made

    @property
    def users(self) -> np.ndarray:
        """The users' ids: int64, or an object array of texts."""
        return self._plain("users", self._users)

    @property
    def items(self) -> np.ndarray:
        """The items' ids: int64, or an object array of texts."""
        return self._plain("items", self._items)

    def __len__(self) -> int:
        return int(self.ratings.size)

    def __repr__(self) -> str:
        return described(self, **self._facts())

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"rows": len(self)}
        if len(self) <= COUNTED or "coded" in self._cache:
            facts |= {"users": len(self.coded().user_ids), "items": len(self.coded().item_ids)}
        return {**facts, "times": self.times is not None}

    def _columns(self) -> dict[str, Any]:
        times = {} if self.times is None else {"time": self.times}
        return {"user": self.users, "item": self.items, "rating": self.ratings, **times}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Interactions):
            return NotImplemented
        if len(self) != len(other) or (self.times is None) != (other.times is None):
            return False
        return all(
            np.array_equal(a, b) for a, b in zip(self._plains(), other._plains(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def filter(self, rows: Any) -> "Interactions":
        """The rows where a mask is true, or those at these places, in that order.

        Parameters
        ----------
        rows : object
            TODO.

        Returns
        -------
        Interactions
            The rows where a mask is true, or those at these places, in that order.
        """
        keep = np.asarray(rows)
        if keep.dtype == bool:
            if keep.shape != (len(self),):
                raise ValueError(
                    f"Interactions: the mask must have {len(self)} entries, one a row, "
                    f"not shape {keep.shape}."
                )
            keep = np.flatnonzero(keep)
        elif keep.ndim != 1 or (keep.size and keep.dtype.kind not in "iu"):
            raise TypeError("Interactions: filter takes a mask or integers of rows.")
        keep = keep.astype(np.int64, copy=False)
        times = None if self.times is None else self.times[keep]
        ids = _take(self._users, keep), _take(self._items, keep)
        return self._of(*ids, self.ratings[keep], times, self.invalid)

    def hashed(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The 64-bit hashes of users and of items; the same id hashes differently as each.

        Parameters
        ----------
        seed : int, default=0
            TODO.

        Returns
        -------
        tuple
            The 64-bit hashes of users and of items; the same id hashes differently as each.
        """
        users = hash_column(self._users, seed, name="users")
        return users, hash_column(self._items, item_seed(seed), name="items")

    def coded(self) -> Coded:
        """Users and items as numbers from 0 on, with the ids that the numbers stand for.

        Returns
        -------
        Coded
            TODO.
        """
        if "coded" not in self._cache:
            users, user_ids = _codes(self._users)
            items, item_ids = _codes(self._items)
            self._cache["coded"] = Coded(users, items, user_ids, item_ids)
        coded: Coded = self._cache["coded"]
        return coded

    def merge(self, other: "Interactions") -> "Interactions":
        """The rows of both, these first; both need times, or none, and ids of one type.

        Where both were made with invalid="drop" their types do not matter.

        Parameters
        ----------
        other : Interactions
            TODO.

        Returns
        -------
        Interactions
            The rows of both, these first; both need times, or none, and ids of one type.
        """
        if (self.times is None) != (other.times is None):
            raise ValueError("Interactions: cannot merge, only one of the two has times.")
        if self.invalid == other.invalid == "drop":
            both = zip(self._plains(), other._plains(), strict=True)
            users, items, ratings = (np.concatenate(pair) for pair in both)
            return Interactions(users, items, ratings, invalid="drop")
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
        pairs = zip(self._plains(), other._plains(), strict=True)
        return Interactions(*(np.concatenate(pair) for pair in pairs))

    @renamed_arguments(seed="random_state")
    def split(self, *sizes: float, random_state: RandomState = 0) -> tuple["Interactions", ...]:
        """Parts of random rows without overlap, of these shares; each keeps the order of rows.

        Parameters
        ----------
        *sizes : float
            Above 0, together at most 1 (what is left over is in no part).
        random_state : int, Generator or None, default=0
            An int, a numpy Generator or None.

        Returns
        -------
        tuple
            TODO.
        """
        return tuple(map(self.filter, splits.random_rows(len(self), sizes, random_state)))

    def by_row(self) -> "Interactions":
        """The same rows as invalid="drop" reads them, which is how private paths take any rows.

        Returns
        -------
        Interactions
            The same rows as invalid="drop" reads them, which is how private paths take any rows.
        """
        if self.invalid == "drop":
            return self
        if "by_row" not in self._cache:
            columns = self._users, self._items, self.ratings
            self._cache["by_row"] = Interactions(*columns, invalid="drop")
        found: Interactions = self._cache["by_row"]
        return found

    def outside(
        self,
        *,
        users: Ids | None = None,
        items: Ids | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> ReadingReport:
        """What a private model with these public lists and bounds leaves out of the rows and clips.

        Parameters
        ----------
        users : array_like, scalar or None, default=None
            Public columns of ids, None for any.
        items : array_like, scalar or None, default=None
            Public columns of ids, None for any.
        bounds : tuple or None, default=None
            Lowest and highest rating, None for any.

        Returns
        -------
        ReadingReport
            What a private model with these public lists and bounds leaves out of the rows and
            clips.

        Notes
        -----
        **Guarantee.** It counts raw rows exactly, for the curator alone; no private path asks it.

        Examples
        --------
        >>> had = Interactions([7, 8, 9], ["tea", "tea", "rum"], [5, 9, 1])
        >>> print(had.outside(users=[7, 8], bounds=(1, 5)))
        3 rows read, 2 kept; 1 skipped: the user is not listed; 1 ratings clipped to the bounds.
        """
        rows = self.by_row()
        left, skipped = np.ones(len(rows), bool), {}
        for reason, own, listed in (
            ("the user is not listed", rows._users, users),
            ("the item is not listed", rows._items, items),
        ):
            if listed is None:
                continue
            known = ids_by_row(as_ids(listed, "ids"), "ids")
            found = pc.is_in(_written(own), _written(known))
            skipped[reason] = int((left & ~np.asarray(found)).sum())
            left &= np.asarray(found)
        low, high = (-np.inf, np.inf) if bounds is None else bounds
        beyond = (rows.ratings[left] < low) | (rows.ratings[left] > high)
        kept = {reason: count for reason, count in skipped.items() if count}
        return ReadingReport(left.size, int(left.sum()), 0, kept, clipped=int(beyond.sum()))

    def _plain(self, name: str, ids: _HeldIds) -> np.ndarray:
        if isinstance(ids, np.ndarray):
            return ids
        if name not in self._cache:
            self._cache[name] = _locked(_texts(ids.dictionary)[_indices(ids)])
        plain: np.ndarray = self._cache[name]
        return plain

    def _plains(self) -> Iterator[np.ndarray]:
        yield from (self.users, self.items, self.ratings)
        if self.times is not None:
            yield self.times


def _check_lengths(columns: dict[str, Any]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Interactions: the columns differ in length: {lengths}.")


def _coded_text(ids: np.ndarray | pa.ChunkedArray) -> _HeldIds:
    """Texts once each, with a number a row."""
    if isinstance(ids, np.ndarray):
        return ids
    return ids.dictionary_encode().combine_chunks()


def _written(ids: Any) -> Any:
    """_HeldIds as Arrow texts; integers as they are written."""
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


def _take(ids: _HeldIds, rows: np.ndarray) -> _HeldIds:
    if isinstance(ids, np.ndarray):
        return np.asarray(ids[rows])
    return pa.DictionaryArray.from_arrays(pa.array(_indices(ids)[rows]), ids.dictionary)


def _codes(ids: _HeldIds) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in the order of first appearance, and the ids they stand for."""
    if isinstance(ids, np.ndarray):
        positions, found = coded_integers(ids)
        return _locked(positions), _locked(found)
    positions, found = coded_integers(_indices(ids))
    return _locked(positions), _locked(_texts(ids.dictionary.take(pa.array(found))))
