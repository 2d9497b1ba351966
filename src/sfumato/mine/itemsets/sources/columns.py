"""Baskets as callers have them, lists, sparse rows or tables, as offsets and ids of items."""

from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.core.ids import as_ids, distinct, ids_of
from sfumato.errors import NullValueError
from sfumato.kernels import sparse_rows
from sfumato.mine.itemsets.sources.vocabulary import Ids

__all__ = ["LISTS", "RawChunk", "as_rows", "grouped", "of_arrow", "of_table", "offsets_of"]

OWNER = "Baskets"
LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
HINT = "give lists of items, an Arrow or SciPy column of lists, or (offsets, items)."


class RawChunk(NamedTuple):
    """Some baskets: those of row b are ids[offsets[b] : offsets[b + 1]], int64 or texts."""

    offsets: np.ndarray
    ids: Ids


def as_rows(baskets: Any) -> RawChunk:
    """Convert what `Baskets` takes to rows of item ids."""
    if hasattr(baskets, "indptr") and hasattr(baskets, "indices"):
        return _of_sparse(baskets)
    if isinstance(baskets, tuple) and len(baskets) == 2 and isinstance(baskets[0], np.ndarray):
        return _of_offsets(*baskets)
    if isinstance(baskets, pa.Array | pa.ChunkedArray):
        return of_arrow(baskets, OWNER)
    if isinstance(baskets, str | bytes | Mapping) or hasattr(baskets, "columns"):
        raise TypeError(
            f"{OWNER}: a column of baskets is expected, not {type(baskets).__name__}; "
            "for a table take Baskets.from_table, for a file read_baskets."
        )
    if hasattr(baskets, "__arrow_c_stream__") and not hasattr(baskets, "iloc"):
        return of_arrow(pa.chunked_array(baskets), OWNER)
    if isinstance(baskets, Iterator) or not isinstance(baskets, Sequence):
        baskets = _listed(baskets)
    return _of_lists(baskets)


def _listed(baskets: Any) -> list[Any]:
    try:
        return list(baskets)
    except TypeError:
        kind = type(baskets).__name__
        raise TypeError(f"{OWNER}: baskets cannot be read from {kind}; {HINT}") from None


def _of_lists(baskets: Sequence[Any]) -> RawChunk:
    """Lists of integers the fast way, everything else through Arrow."""
    flat = array("q")
    try:
        deque(map(flat.fromlist, baskets), maxlen=0)  # refuses floats and texts, takes booleans
    except (TypeError, OverflowError):
        return _of_sequences(baskets)
    sizes = np.fromiter(map(len, baskets), np.int64, len(baskets))
    chunk = RawChunk(offsets_of(sizes), np.frombuffer(flat, np.int64) if len(flat) else _no_ids())
    _refuse_booleans(baskets, chunk)
    return chunk


def _no_ids() -> np.ndarray:
    return np.empty(0, np.int64)


def _refuse_booleans(baskets: Sequence[Any], chunk: RawChunk) -> None:
    offsets, ids = chunk
    at = np.flatnonzero((ids == 0) | (ids == 1))
    rows = np.searchsorted(offsets, at, side="right") - 1
    for row, k in zip(rows.tolist(), (at - offsets[rows]).tolist(), strict=True):
        if type(baskets[row][k]) is bool:
            raise TypeError(f"{OWNER}: basket {row} has an item of type bool; {ITEMS}")


PLAIN = {list, tuple, set, frozenset}
ITEMS = "items are integers or texts, all of one type."


def _of_sequences(baskets: Sequence[Any]) -> RawChunk:
    rows: Sequence[Any] = baskets
    if not set(map(type, baskets)) <= PLAIN:
        rows = [_row(basket, at) for at, basket in enumerate(baskets)]
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    flat = list(chain.from_iterable(rows))
    offsets = offsets_of(sizes)
    return RawChunk(offsets, _ids(flat, offsets))


def _row(basket: Any, at: int) -> Any:
    if basket is None or isinstance(basket, str | bytes | dict):
        kind = "null" if basket is None else type(basket).__name__
        raise TypeError(f"{OWNER}: basket {at} is {kind}, not a list of items.")
    try:
        return basket if hasattr(basket, "__len__") else list(basket)
    except TypeError:
        kind = type(basket).__name__
        raise TypeError(f"{OWNER}: basket {at} is {kind}, not a list of items.") from None


def _ids(flat: Any, offsets: np.ndarray, owner: str = OWNER, first: int = 0) -> Ids:
    """Item ids as int64 or texts; the error of a bad one names its basket."""
    if not len(flat):
        return _no_ids()
    if isinstance(flat, pa.Array) and flat.null_count:
        at = flat.is_null().index(True).as_py()
        row = first + int(np.searchsorted(offsets, at, side="right")) - 1
        raise NullValueError(f"{owner}: basket {row} has a null item; drop nulls first.")
    try:
        column = as_ids(flat, "items")
    except (TypeError, ValueError) as error:
        raise type(error)(f"{owner}: {error} {ITEMS}") from None
    return column if isinstance(column, np.ndarray) else _joined(column)


def _joined(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def of_arrow(column: Any, owner: str, first: int = 0) -> RawChunk:
    """Baskets of an Arrow column of lists, the one in row 0 of which has this number."""
    column = _joined(column)
    if not any(test(column.type) for test in LISTS):
        raise TypeError(f"{owner}: a column of lists is expected, not {column.type}; {HINT}")
    if column.null_count:
        row = first + column.is_null().index(True).as_py()
        raise NullValueError(f"{owner}: basket {row} is null; drop or fill nulls first.")
    offsets = offsets_of(np.asarray(column.value_lengths(), np.int64))
    return RawChunk(offsets, _ids(column.flatten(), offsets, owner, first))


def _of_sparse(matrix: Any) -> RawChunk:
    if getattr(matrix, "format", "csr") != "csr":
        matrix = matrix.tocsr()
    stored = np.asarray(matrix.data) != 0
    offsets, ids = np.asarray(matrix.indptr, np.int64), np.asarray(matrix.indices, np.int64)
    if not stored.all():
        offsets = np.concatenate([[0], np.cumsum(stored)])[offsets]
        ids = ids[stored]
    return RawChunk(offsets, ids)


def _of_offsets(offsets: np.ndarray, items: Any) -> RawChunk:
    offsets = np.asarray(offsets)
    ids = _ids(items, offsets)
    valid = offsets.ndim == 1 and offsets.size and offsets.dtype.kind in "iu"
    if not valid or offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        raise ValueError(
            f"{OWNER}: offsets must be integers that rise from 0 to the number of items, one more "
            "than baskets."
        )
    return RawChunk(offsets.astype(np.int64), ids)


def of_table(table: Any, basket: str, item: str) -> RawChunk:
    """Baskets of a long table, in order of first appearance."""
    from sfumato.data import read_batches

    batches = list(read_batches(table, [basket, item]))
    if not batches:
        return RawChunk(np.zeros(1, np.int64), _no_ids())
    rows = pa.Table.from_batches(batches)
    return grouped(rows.column(basket), rows.column(item), basket, item)


def grouped(baskets: Any, items: Any, basket: str, item: str) -> RawChunk:
    """Rows (basket, item) gathered by basket, in order of first appearance."""
    _, rows = distinct(ids_of(baskets, basket))
    column = as_ids(items, item)
    ids = column if isinstance(column, np.ndarray) else _joined(column)
    sizes = np.bincount(rows) if rows.size else np.zeros(0, np.int64)
    offsets = offsets_of(sizes)
    if (np.diff(rows) >= 0).all():
        return RawChunk(offsets, ids)
    order = np.empty(rows.size, np.int64)
    sparse_rows.group(rows, np.arange(rows.size), offsets[:-1].copy(), order)
    return RawChunk(
        offsets, ids[order] if isinstance(ids, np.ndarray) else ids.take(pa.array(order))
    )


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    out = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=out[1:])
    return out
