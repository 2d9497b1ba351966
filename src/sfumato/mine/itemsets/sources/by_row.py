"""Baskets read one by one, for private use: none is refused, none changes how another is read.

What is no basket is an empty one, and what is no id is no item. Ids are texts, in which equal ids
of different types (7, "7", 7.0) are the same.
"""

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.arrays import lists_of_views
from sfumato.core.hashing import is_polars_object
from sfumato.core.row_values import ids_by_row
from sfumato.mine.itemsets.sources.columns import LISTS, RawChunk, as_rows, offsets_of

__all__ = ["basket_rows", "list_rows", "text_ids"]

OWNER = "PrivateItemsets"


def basket_rows(baskets: Any) -> RawChunk:
    """Rows of what `Baskets` takes; only the type of the container is refused, never its content.

    >>> offsets, ids = basket_rows([[7, "tea"], None, ["7.0", float("nan")], 3])
    >>> offsets.tolist(), ids.to_pylist()
    ([0, 2, 2, 3, 3], ['7', 'tea', '7'])
    """
    if hasattr(baskets, "indptr") and hasattr(baskets, "indices"):
        return as_rows(baskets)  # integers by their type
    if isinstance(baskets, tuple):
        return _of_offsets(baskets)
    if is_polars_object(baskets):
        baskets = baskets.to_list()
    elif hasattr(baskets, "iloc") and str(getattr(baskets, "dtype", "")).endswith("[pyarrow]"):
        baskets = pa.array(baskets, from_pandas=True)
    elif hasattr(baskets, "__arrow_c_stream__") and not hasattr(baskets, "iloc"):
        baskets = pa.chunked_array(baskets)
    if isinstance(baskets, pa.ChunkedArray):
        baskets = baskets.combine_chunks()
    if isinstance(baskets, pa.Array):
        return list_rows(baskets)
    if isinstance(baskets, str | bytes | dict) or hasattr(baskets, "columns"):
        return as_rows(baskets)  # says what is expected
    cells = [_cells(row) for row in baskets]
    sizes = np.fromiter(map(len, cells), np.int64, len(cells))
    return _without_nulls(offsets_of(sizes), text_ids([cell for row in cells for cell in row]))


def _of_offsets(baskets: tuple[Any, ...]) -> RawChunk:
    """Rows of (offsets, items); a tuple of another length is refused, whatever is in it."""
    if len(baskets) != 2 or not isinstance(baskets[0], np.ndarray):
        raise TypeError(f"{OWNER}: a tuple must be (offsets, items); give a list of baskets.")
    items = baskets[1] if isinstance(baskets[1], np.ndarray | pa.Array) else list(baskets[1])
    numbers = np.arange(len(items))  # of the same length as the items, and of one type
    offsets, _ = as_rows((baskets[0], numbers))
    return _without_nulls(offsets, text_ids(items))


def list_rows(column: pa.Array) -> RawChunk:
    """Rows of an Arrow column of lists; a null, or what is no list, is an empty basket."""
    if pa.types.is_list_view(column.type) or pa.types.is_large_list_view(column.type):
        column = lists_of_views(column)
    if not any(test(column.type) for test in LISTS):
        return RawChunk(np.zeros(len(column) + 1, np.int64), pa.array([], pa.large_string()))
    sizes = column.value_lengths().fill_null(0)
    return _without_nulls(offsets_of(np.asarray(sizes, np.int64)), text_ids(column.flatten()))


def text_ids(values: Any) -> pa.Array:
    """The canonical text of each id, null for what is none."""
    if isinstance(values, list):
        values = [_plain(cell) for cell in values]
        if set(map(type, values)) == {str}:
            with suppress(UnicodeError):  # of a lone surrogate
                values = pa.array(values, pa.large_string())
    return ids_by_row(values, "items").cast(pa.large_string())


def _without_nulls(offsets: np.ndarray, ids: pa.Array) -> RawChunk:
    valid = np.asarray(ids.is_valid())
    return RawChunk(np.concatenate([[0], np.cumsum(valid)])[offsets], ids.drop_null())


def _cells(row: Any) -> list[Any]:
    """The cells of one row, however it is typed; none for what is no list of them."""
    row = _plain(row)
    if row is None or isinstance(row, str | bytes | dict):
        return []
    if isinstance(row, list):
        return row
    try:
        return list(row.tolist() if isinstance(row, np.ndarray) else row)
    except Exception:  # whatever a row's own type raises
        return []


def _plain(cell: Any) -> Any:
    """The Python value of a scalar of Arrow or NumPy; other values as they are."""
    try:
        if isinstance(cell, pa.Scalar):
            return cell.as_py()
        if isinstance(cell, np.ndarray) and cell.ndim == 0:
            return cell.item()
    except Exception:  # a date beyond the calendar, text that is not UTF-8
        return None
    return cell
