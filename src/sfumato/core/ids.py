"""Columns of ids (integers or texts) and of finite numbers, from any library.

Ids are looked up by value, encoded as positions in the list of distinct ids in order of first
appearance, and stored in files.
"""

import math
import sys
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.arrow_arrays import cells, number_array
from sfumato.core.hashing import KeyColumn, canonical_key, hash_column
from sfumato.core.storage import Cells
from sfumato.errors import NullValueError
from sfumato.kernels import hash_tables
from sfumato.kernels.alignment import frozen

__all__ = [
    "NO_ID",
    "IdIndex",
    "among",
    "are_distinct",
    "as_ids",
    "coded_integers",
    "distinct",
    "id_arrays",
    "id_layout",
    "ids_from",
    "ids_of",
    "is_one",
    "kind_of",
    "numbers",
    "plain_numbers",
    "positions",
    "positions_by_text",
    "texts",
    "unique",
]


def as_ids(values: Any, name: str) -> np.ndarray | pa.ChunkedArray:
    """Convert a column of ids, or a single id, to int64 or to Arrow texts.

    Parameters
    ----------
    values : object
        Integers below 2**63 or texts, as a NumPy array, Arrow array, pandas or polars column, or
        list; or one integer or text.
    name : str
        Name of the column in error messages.

    Returns
    -------
    ndarray or ChunkedArray
        Integers as int64, texts as an Arrow array of strings. `hash_column` accepts both.

    Raises
    ------
    TypeError, ValueError
        The column has nulls, mixed or other types, or integers that are too large. The message
        has the name of the column and the row, never the value.

    Examples
    --------
    >>> as_ids(7, "users")
    array([7])
    >>> as_ids(["ann", "bob"], "users").to_pylist()
    ['ann', 'bob']
    """
    if isinstance(values, str | bytes | int | np.integer) and not isinstance(values, bool):
        values = [values]
    keys = KeyColumn(values, name=name, strict=True)
    if keys.kind == "text":
        return pa.chunked_array([_text(piece.values, name) for piece in keys.pieces])
    pieces = [np.asarray(piece.values) for piece in keys.pieces]
    for piece in pieces:
        if piece.dtype == np.uint64 and piece.size and piece.max() >= 2**63:
            raise ValueError(f"{name}: integers as ids must be below 2**63; give them as texts.")
    if len(pieces) == 1:
        return pieces[0].astype(np.int64, copy=False)
    return np.concatenate([*pieces, np.empty(0, np.int64)], dtype=np.int64, casting="unsafe")


def _text(array: Any, name: str) -> pa.Array:
    try:
        if isinstance(array, pa.DictionaryArray):  # maybe of views, which must be cast to be taken
            return array.dictionary.cast(pa.string()).take(array.indices)
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        raise ValueError(f"{name}: bytes as ids must be UTF-8 text.") from None


def plain_numbers(values: Any) -> np.ndarray:
    """Convert numbers from any container to a plain array, with NaN for missing values.

    Missing are None, pandas' NA and NaT, Arrow's nulls and masked cells. A column of dates stays
    one, NaT included. Values that are not numbers are left unchanged, for the caller to refuse.

    Parameters
    ----------
    values : array-like
        A column or matrix: NumPy array, masked or not, Arrow array, pandas or polars column or
        frame, or list.

    Returns
    -------
    numpy.ndarray
        In the dtype of the numbers, or float64 if a value was missing.

    Examples
    --------
    >>> plain_numbers(np.ma.array([1, 2], mask=[False, True]))
    array([ 1., nan])
    >>> plain_numbers([1, None, 3])
    array([ 1., nan,  3.])
    """
    if isinstance(values, np.ma.MaskedArray):
        array, masked = np.asarray(values.data), np.ma.getmaskarray(values)
        if masked.any():
            array = array.astype(object)
            array[masked] = None
    elif hasattr(values, "iloc"):
        array = _of_pandas(values)
    else:
        if hasattr(values, "__arrow_c_stream__") and len(getattr(values, "shape", ())) == 1:
            values = pa.chunked_array(values)
        if isinstance(values, pa.Array | pa.ChunkedArray):
            if pa.types.is_decimal(values.type):
                values = values.cast(pa.float64())
            chunked = isinstance(values, pa.ChunkedArray)
            values = values.to_numpy() if chunked else values.to_numpy(zero_copy_only=False)
        array = np.asarray(values)
    return _filled(array) if array.dtype == object else array


def _of_pandas(values: Any) -> np.ndarray:
    """A pandas column or frame as an array; nullable numbers keep their type if none is missing."""
    columns = [values] if values.ndim == 1 else [values.iloc[:, j] for j in range(values.shape[1])]
    nullable = [getattr(each.dtype, "numpy_dtype", None) for each in columns]
    if all(kind is None or kind.kind not in "biuf" for kind in nullable):
        return np.asarray(values.to_numpy())
    made = []
    for column, kind in zip(columns, nullable, strict=True):
        if kind is None or kind.kind not in "biuf":
            made.append(column.to_numpy())
        elif column.isna().any():
            made.append(column.to_numpy(np.float64, na_value=np.nan))
        else:
            made.append(column.to_numpy(kind))
    return np.asarray(made[0] if values.ndim == 1 else np.column_stack(made))


def _filled(objects: np.ndarray) -> np.ndarray:
    """Convert objects that are all numbers or missing to numbers; leave others unchanged."""
    flat = [math.nan if _is_missing(each) else each for each in objects.ravel().tolist()]
    if not all(isinstance(each, Real | np.bool_) for each in flat):
        return objects
    found = np.array(flat)
    return found.reshape(objects.shape) if found.dtype.kind in "biuf" else objects


def _is_missing(value: Any) -> bool:
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def numbers(values: Any, name: str) -> np.ndarray:
    """Convert a column to finite float64, or to int64 if it has an integer type."""
    if isinstance(values, pa.Array | pa.ChunkedArray) or hasattr(values, "__arrow_c_stream__"):
        values = _without_nulls(values, name)
    array = plain_numbers(values)
    if array.ndim != 1:
        raise ValueError(f"{name}: one column is expected, not {array.ndim} dimensions.")
    if array.dtype.kind == "M":
        return _seconds(array, name)
    if array.size and array.dtype.kind not in "iuf":
        raise TypeError(f"{name}: numbers are expected, not {array.dtype}.")
    if array.dtype.kind in "iu":
        return array.astype(np.int64, copy=False)
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name}: row {row} is not a finite number.")
    return array


def _without_nulls(values: Any, name: str) -> np.ndarray:
    arrow = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.chunked_array(values)
    if arrow.null_count:
        row = arrow.is_null().index(True).as_py()
        raise NullValueError(f"{name}: row {row} is null; drop or fill nulls first.")
    if pa.types.is_decimal(arrow.type):
        arrow = arrow.cast(pa.float64())
    combined = arrow.combine_chunks() if isinstance(arrow, pa.ChunkedArray) else arrow
    return np.asarray(combined.to_numpy(zero_copy_only=False))


def _seconds(dates: np.ndarray, name: str) -> np.ndarray:
    if np.isnat(dates).any():
        row = int(np.flatnonzero(np.isnat(dates))[0])
        raise ValueError(f"{name}: row {row} is no date; drop or fill such rows first.")
    micros = dates.astype("datetime64[us]").astype(np.int64)
    return micros // 10**6 if not (micros % 10**6).any() else micros / 1e6


# Padding of a result list that is too short: -1 as in every index of `retrieve`, None among texts.
# Its score of -inf distinguishes it from an id of value -1.
NO_ID: dict[str, Any] = {"integers": -1, "text": None}


def is_one(ids: Any) -> bool:
    """Whether this is a single id, not a column."""
    return isinstance(ids, str | bytes | int | np.integer) and not isinstance(ids, bool)


def ids_of(ids: Any, name: str) -> np.ndarray:
    """Convert a column of ids, or one id, to int64 or to an object array of texts.

    Errors name the column, the type and the row, never a value.

    >>> ids_of([3, 1], "users"), ids_of("ann", "users")
    (array([3, 1]), array(['ann'], dtype=object))
    """
    if isinstance(ids, np.ndarray) and ids.dtype == np.int64 and ids.ndim == 1:
        return ids
    if type(ids) is int and -(2**63) <= ids < 2**63:  # one id takes a tenth of the time this way
        return np.array([ids], np.int64)
    column = as_ids(ids, name)
    return column if isinstance(column, np.ndarray) else _plain(column)


def kind_of(ids: np.ndarray) -> str:
    """The kind of ids in a column: "integers" or "text"."""
    return "integers" if ids.dtype == np.int64 else "text"


def positions(ids: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Position of each id in a column of distinct ids; -1 if it is not there."""
    if ids.dtype != among.dtype or not among.size:
        return np.full(ids.size, -1, np.int64)
    found = pc.index_in(_arrow(ids), value_set=_arrow(among))
    missing = number_array(np.full(1, -1, np.int32))[0]
    return cells(pc.coalesce(found, missing)).astype(np.int64)


@dataclass(eq=False)
class IdIndex:
    """Positions in a column of distinct ids, for many lookups in one column that does not change.

    `positions` builds a hash table in each call; this sorts the column at the first lookup, unless
    it is sorted, and searches. What it sorted is neither copied nor pickled: 16 bytes per id.

    >>> IdIndex(np.array([30, 10])).positions(np.array([10, 7]))
    array([ 1, -1])
    """

    ids: np.ndarray
    _sorted: "_SortedIds | None" = field(default=None, init=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return IdIndex, (self.ids,)

    def positions(self, ids: np.ndarray) -> np.ndarray:
        """Position of each id in the column; -1 if it is not there."""
        if ids.dtype != self.ids.dtype or not self.ids.size or ids.size * MANY > self.ids.size:
            return positions(ids, self.ids)
        known = self._sorted
        if known is None:  # threads may sort at the same time; any of them will do
            known = self._sorted = _SortedIds.of(_as_integers(self.ids))
        if not known.distinct:  # two texts of one hash, as "7" and "7.0" are
            return positions(ids, self.ids)
        found = known.positions(_as_integers(ids))
        if ids.dtype == object:
            found[self.ids[found] != ids] = -1  # a text with the hash of another
        return found


MANY = 16  # a column of one sixteenth of all ids is looked up in a hash table of its own


class _SortedIds(NamedTuple):
    """Integers in ascending order, the position of each (None for their own), and no two equal."""

    values: np.ndarray
    order: np.ndarray | None
    distinct: bool

    @classmethod
    def of(cls, values: np.ndarray) -> "_SortedIds":
        if (values[1:] > values[:-1]).all():
            return cls(values, None, True)
        order = np.argsort(values)
        ascending = values[order]
        return cls(ascending, order, bool((ascending[1:] != ascending[:-1]).all()))

    def positions(self, values: np.ndarray) -> np.ndarray:
        """Position of each value, -1 where there is none."""
        at = np.minimum(np.searchsorted(self.values, values), self.values.size - 1)
        there = at if self.order is None else self.order[at]
        return np.where(self.values[at] == values, there, -1)


def _as_integers(ids: np.ndarray) -> np.ndarray:
    """Ids as integers: themselves, or the 64-bit hashes of texts."""
    return ids if ids.dtype == np.int64 else hash_column(_arrow(ids)).view(np.int64)


def texts(ids: np.ndarray, at: np.ndarray | None = None) -> pa.Array:
    """Convert ids to Arrow texts, all of them or those at the positions `at`.

    The text of an id does not depend on other rows, which may turn integers into floats or texts.

    >>> texts(np.array([7, -3])).to_pylist(), texts(np.array(["7.0", "tea"], object)).to_pylist()
    (['7', '-3'], ['7', 'tea'])
    """
    words = _arrow(ids).cast(pa.large_string())
    if ids.dtype == object and pc.any(pc.ends_with(words, ".0")).as_py():
        keys = [canonical_key(word) or b"" for word in words.to_pylist()]
        words = pa.array(keys, pa.large_binary()).cast(pa.large_string())
    return words if at is None else pa.DictionaryArray.from_arrays(pa.array(at), words)


def positions_by_text(ids: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Position of each id as in `positions`, where integer 7 and text "7" are the same id.

    So the type that one row gives to its column does not change the positions of the others.

    >>> positions_by_text(np.array(["7", "007", "tea"], object), np.array([5, 7]))
    array([ 1, -1, -1])
    """
    if ids.dtype == among.dtype == np.int64 or not among.size:
        return positions(ids, among)
    found = pc.index_in(texts(ids), value_set=texts(among))
    missing = number_array(np.full(1, -1, np.int32))[0]
    return cells(pc.coalesce(found, missing)).astype(np.int64)


def are_distinct(ids: np.ndarray) -> bool:
    """Whether no id of the column occurs twice; integers are sorted, in 8 bytes per id."""
    if ids.dtype == object:
        return len(pc.unique(_arrow(ids))) == ids.size
    ascending = np.sort(ids)
    return bool((ascending[1:] != ascending[:-1]).all())


def unique(ids: np.ndarray) -> np.ndarray:
    """The distinct ids in order of first appearance."""
    return _plain(pc.unique(_arrow(ids)))


def distinct(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ids in order of first appearance, and each row's position among them."""
    coded = _arrow(ids).dictionary_encode()
    return _plain(coded.dictionary), np.asarray(coded.indices, np.int64)


def id_arrays(name: str, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Encode ids as arrays of a file: integers, or the bytes of the texts and their offsets."""
    if kind_of(ids) == "integers":
        return {name: ids}
    words = _arrow(ids)
    ends = np.frombuffer(words.buffers()[1], np.int64)[: len(words) + 1]
    letters = np.frombuffer(words.buffers()[2] or b"", np.uint8)
    return {name: letters[: ends[-1]], f"{name}_ends": ends}


def id_layout(name: str, kind: str) -> dict[str, Cells]:
    """Layout of the arrays that `id_arrays` writes for ids of this kind."""
    if kind == "integers":
        return {name: Cells(np.int64, (-1,))}
    if kind != "text":
        raise ValueError(f"{name} is of no known kind.")
    return {name: Cells(np.uint8, (-1,)), f"{name}_ends": Cells(np.int64, (-1,))}


def ids_from(name: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Decode the ids in the arrays of a file; ValueError if damaged or if an id occurs twice."""
    ids = arrays[name]
    if f"{name}_ends" in arrays:
        ids = _plain(_texts(name, ids, arrays[f"{name}_ends"]))
    if not are_distinct(ids):
        raise ValueError(f"an id of {name} occurs twice.")
    return ids


def _arrow(column: np.ndarray) -> pa.Array:
    if column.dtype == object:
        return pa.array(column, pa.large_string())
    return number_array(column)


def _plain(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    combined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_integer(combined.type) and not combined.null_count:
        return cells(combined).copy()
    return np.array(combined.to_numpy(zero_copy_only=False))


def _texts(name: str, letters: np.ndarray, ends: np.ndarray) -> pa.Array:
    fits = ends.size and ends[0] == 0 and ends[-1] == letters.size and (np.diff(ends) >= 0).all()
    if not fits:
        raise ValueError(f"the texts of {name} are damaged.")
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
    words = pa.Array.from_buffers(pa.large_string(), ends.size - 1, buffers)
    words.validate(full=True)
    return words


FIRST = 1 << 10  # slots of the table at the start
DENSE = 2  # places of a table per value, up to which each integer between has one
FEW = 1 << 16  # values that are sorted sooner than the compiler is loaded


def coded_integers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Encode integers: each value's position (int32) among the distinct values, and those.

    There may be fewer than 2**31 distinct values; they are in order of first appearance.

    >>> coded_integers(np.array([30, 10, 30]))
    (array([0, 1, 0], dtype=int32), array([30, 10]))
    """
    if values.size <= FEW and "numba" not in sys.modules:
        return _coded_few(values)
    positions, slots, done, known = np.empty(values.size, np.int32), FIRST, 0, 0
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if high - low <= DENSE * values.size:
        places = np.full(high - low + 1, -1, np.int32)
        found = np.empty(min(places.size, values.size), values.dtype)
        known = hash_tables.code_dense(values, values.dtype.type(low), places, found, positions)
        return positions, found[:known].copy()
    distinct = np.empty(0, values.dtype)
    while True:
        table = np.empty(slots, values.dtype), np.full(slots, -1, np.int32)
        grown = np.empty(slots // 2, values.dtype)
        again = np.empty(known, np.int32)
        hash_tables.code(frozen(distinct[:known]), 0, *table, 0, grown, again)
        distinct = grown
        done, known = hash_tables.code(frozen(values), done, *table, known, distinct, positions)
        if done == values.size:
            return positions, distinct[:known].copy()
        slots *= 4


def _coded_few(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `coded_integers`, by sorting, in a process that compiles nothing."""
    _, first, places = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty(order.size, np.int32)
    ranks[order] = np.arange(order.size, dtype=np.int32)
    return ranks[places], values[first[order]]


def among(values: np.ndarray, listed: np.ndarray) -> np.ndarray:
    """Return the mask of the integers, from 0 up, that are listed.

    >>> among(np.array([3, 0, 7]), np.array([7, 3]))
    array([ True, False,  True])
    """
    slots = 1 << max(4, int(2 * listed.size).bit_length())
    keys, rows = np.full(slots, -1, np.int64), np.zeros(slots, np.int64)
    hash_tables.put(listed, np.zeros(listed.size, np.int64), keys, rows)
    found = np.empty(values.size, np.int64)
    hash_tables.find(keys, rows, values, found)
    return found >= 0
