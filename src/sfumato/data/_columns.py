"""Columns of any library as what ratings are made of: ids of one type, and finite numbers."""

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.hashing import KeyColumn

__all__ = ["as_ids", "numbers"]


def as_ids(values: Any, name: str) -> np.ndarray | pa.ChunkedArray:
    """A column of ids, or one id, as int64 or as Arrow texts; both are what `hash_column` takes.

    Raises TypeError or ValueError that names the column and the place, never the value.

    >>> as_ids(7, "users")
    array([7])
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


def numbers(values: Any, name: str) -> np.ndarray:
    """A column as finite float64, or int64 where it is whole numbers."""
    if isinstance(values, pa.Array | pa.ChunkedArray) or hasattr(values, "__arrow_c_stream__"):
        values = _without_nulls(values, name)
    array = np.asarray(values)
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
        raise ValueError(f"{name}: row {row} is null; drop or fill nulls first.")
    if pa.types.is_decimal(arrow.type):
        arrow = arrow.cast(pa.float64())
    whole = arrow.combine_chunks() if isinstance(arrow, pa.ChunkedArray) else arrow
    return np.asarray(whole.to_numpy(zero_copy_only=False))


def _seconds(dates: np.ndarray, name: str) -> np.ndarray:
    if np.isnat(dates).any():
        row = int(np.flatnonzero(np.isnat(dates))[0])
        raise ValueError(f"{name}: row {row} is no date; drop or fill such rows first.")
    micros = dates.astype("datetime64[us]").astype(np.int64)
    return micros // 10**6 if not (micros % 10**6).any() else micros / 1e6
