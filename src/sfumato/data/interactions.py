"""Who rated what, and how: columns of equal length, checked once, in the memory of their types."""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from sfumato.data import splits
from sfumato.data._coding import coded_integers
from sfumato.data._columns import as_ids, numbers
from sfumato.data._report import ReadingReport
from sfumato.hashing import hash_column

__all__ = ["Coded", "Interactions", "as_ids", "item_seed"]

ITEM_SEED = 0x5DEECE66D
Ids: TypeAlias = np.ndarray | Any  # int64, or an Arrow dictionary of texts


def item_seed(seed: int) -> int:
    """The seed that items are hashed with where users are hashed with this one: 7 is not 7."""
    return seed ^ ITEM_SEED


class Coded(NamedTuple):
    """Ids as places in a list of those that occur, in the order of their first appearance."""

    user_codes: np.ndarray
    item_codes: np.ndarray
    user_ids: np.ndarray
    item_ids: np.ndarray


class Interactions:
    """Ratings that users gave to items, one a row, with or without the times.

    Guarantee: columns of one length; ratings are finite; ids are integers below 2**63 or texts. The
    columns are read-only and what was given is not copied where its type fits. May be empty: a
    model says so when it needs rows.
    Parameters: users, items, integers or texts as NumPy, Arrow, pandas, polars or a list; ratings,
    numbers; times, numbers or dates (which become seconds since 1970), or None.

    >>> seen = Interactions(users=[7, 7, 8], items=["tea", "milk", "tea"], ratings=[5, 3, 4])
    >>> seen
    Interactions(rows=3, times=False)
    >>> seen.filter(seen.ratings > 3).items
    array(['tea', 'tea'], dtype=object)
    >>> seen.coded().item_codes
    array([0, 1, 0], dtype=int32)
    """

    def __init__(self, users: Any, items: Any, ratings: Any, times: Any = None) -> None:
        columns = {
            "users": _coded_text(as_ids(users, "users")),
            "items": _coded_text(as_ids(items, "items")),
            "ratings": numbers(ratings, "ratings").astype(np.float64, copy=False),
        }
        if times is not None:
            columns["times"] = numbers(times, "times")
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"Interactions: the columns differ in length: {lengths}.")
        self._set(columns["users"], columns["items"], columns["ratings"], columns.get("times"))

    def _set(self, users: Ids, items: Ids, ratings: np.ndarray, times: np.ndarray | None) -> None:
        self._users, self._items = _locked(users), _locked(items)
        self.ratings = _locked(ratings)
        self.times = None if times is None else _locked(times)
        self.report: ReadingReport | None = None
        self._cache: dict[str, Any] = {}

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
        return f"Interactions(rows={len(self)}, times={self.times is not None})"

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
        """The rows where a mask is true, or those at these places, in that order."""
        keep = np.asarray(rows)
        if keep.dtype == bool:
            if keep.shape != (len(self),):
                raise ValueError(
                    f"Interactions: the mask must have {len(self)} entries, one a row, "
                    f"not shape {keep.shape}."
                )
            keep = np.flatnonzero(keep)
        elif keep.ndim != 1 or (keep.size and keep.dtype.kind not in "iu"):
            raise TypeError("Interactions: filter takes a mask or whole numbers of rows.")
        keep = keep.astype(np.int64, copy=False)
        times = None if self.times is None else self.times[keep]
        return self._of(
            _take(self._users, keep), _take(self._items, keep), self.ratings[keep], times
        )

    def hashed(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The 64-bit hashes of users and of items; the same id hashes differently as each."""
        users = hash_column(self._users, seed, name="users")
        return users, hash_column(self._items, item_seed(seed), name="items")

    def coded(self) -> Coded:
        """Users and items as numbers from 0 on, with the ids that the numbers stand for."""
        if "coded" not in self._cache:
            users, user_ids = _codes(self._users)
            items, item_ids = _codes(self._items)
            self._cache["coded"] = Coded(users, items, user_ids, item_ids)
        coded: Coded = self._cache["coded"]
        return coded

    def merge(self, other: "Interactions") -> "Interactions":
        """The rows of both, these first; both need times, or none, and ids of one type."""
        if (self.times is None) != (other.times is None):
            raise ValueError("Interactions: cannot merge, only one of the two has times.")
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

    def split(self, *sizes: float, seed: int = 0) -> tuple["Interactions", ...]:
        """Parts of random rows without overlap, of these shares; each keeps the order of rows.

        Parameters: sizes, above 0, together at most 1 (what is left over is in no part); seed.
        """
        return tuple(map(self.filter, splits.random_rows(len(self), sizes, seed)))

    def _plain(self, name: str, ids: Ids) -> np.ndarray:
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


def _coded_text(ids: np.ndarray | pa.ChunkedArray) -> Ids:
    """Texts once each, with a number a row."""
    if isinstance(ids, np.ndarray):
        return ids
    return ids.dictionary_encode().combine_chunks()


def _locked(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        column = column.view()
        column.flags.writeable = False
    return column


def _indices(ids: pa.DictionaryArray) -> np.ndarray:
    return np.asarray(ids.indices.to_numpy())


def _texts(array: pa.Array) -> np.ndarray:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=object)


def _take(ids: Ids, rows: np.ndarray) -> Ids:
    if isinstance(ids, np.ndarray):
        return np.asarray(ids[rows])
    return pa.DictionaryArray.from_arrays(pa.array(_indices(ids)[rows]), ids.dictionary)


def _codes(ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in the order of first appearance, and the ids they stand for."""
    if isinstance(ids, np.ndarray):
        places, found = coded_integers(ids)
        return _locked(places), _locked(found)
    places, found = coded_integers(_indices(ids))
    return _locked(places), _locked(_texts(ids.dictionary.take(pa.array(found))))
