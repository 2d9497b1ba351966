"""Columns of any library as what ratings are made of: ids of one type, and finite numbers."""

import math
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data._typed import strict
from sfumato.hashing import KeyColumn, canonical_key

__all__ = ["as_ids", "ids_by_row", "numbers", "numbers_by_row", "plain_column", "settled_ids"]


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


def ids_by_row(values: Any, name: str) -> pa.Array:
    """A column of ids, each read by itself: int64, or texts in which an integer is as written.

    Each id is its `canonical_key`: 7, "7", 7.0 and "7.0" are one. So no row changes how another is
    read, and none raises; null where a row has no id, or a blank one, or one that is no text.

    >>> ids_by_row([7, "7", 7.0, "7.0", "tea", None], "users").to_pylist()
    ['7', '7', '7', '7', 'tea', None]
    """
    column = plain_column(values, name)
    if not isinstance(column, list):
        typed = _typed_ids(column)
        column = column.to_pylist() if typed is None else typed
    if isinstance(column, list):
        if set(map(type, column)) == {int} and -(2**63) <= min(column) <= max(column) < 2**63:
            return pa.array(column, pa.int64())
        return pa.array([_id_of(value) for value in column], pa.large_string())
    return column


def numbers_by_row(values: Any, name: str) -> np.ndarray:
    """A column of numbers as float64, each read by itself; NaN where a row has no finite one."""
    column = plain_column(values, name)
    if not isinstance(column, list):
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            plain = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
            return np.where(np.isfinite(plain), plain, np.nan)
        try:
            return numbers_by_row(column.cast(pa.float64()), name)
        except pa.ArrowException:
            column = column.to_pylist()
    return np.array([_number_of(value) for value in column], np.float64)


def settled_ids(ids: pa.Array | pa.ChunkedArray) -> np.ndarray | pa.ChunkedArray:
    """Ids by row, none of them null, as integers where all are, else as texts."""
    whole = ids if pa.types.is_integer(ids.type) else strict(ids, pa.int64())
    if whole is not None:
        return np.asarray(whole, np.int64)
    return pa.chunked_array([ids.cast(pa.string())])


def plain_column(values: Any, name: str) -> pa.Array | list[Any]:
    """One column as Arrow of one type where it has one, else as a list of Python's values."""
    if isinstance(values, str | bytes | Mapping) or hasattr(values, "columns"):
        raise TypeError(f"{name}: a whole column is expected, not one {type(values).__name__}.")
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"{name}: one column is expected, not {values.ndim} dimensions.")
    if isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray):
        if values.dtype.kind in "iuf":
            with np.errstate(over="ignore"):  # of what is longer than float64
                return pa.array(_machine(values))
        return list(values.tolist())
    if isinstance(values, np.ma.MaskedArray):
        return list(values.tolist())  # None where masked
    arrow = _exported(values)
    if arrow is None:
        try:
            return list(values)
        except TypeError:
            kind = type(values).__name__
            raise TypeError(f"{name}: a column is expected, not {kind}.") from None
    whole = arrow.combine_chunks() if isinstance(arrow, pa.ChunkedArray) else arrow
    if isinstance(whole, pa.DictionaryArray):
        return _narrowed(whole.dictionary).take(whole.indices)
    return _narrowed(whole)


def _narrowed(column: pa.Array) -> pa.Array:
    """Views, of which Arrow can take no rows, as plain texts."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return column.cast(plain.get(column.type, column.type))


def _machine(values: np.ndarray) -> np.ndarray:
    """Numbers in an order of bytes and a width that Arrow takes."""
    if values.dtype.kind == "f":
        return np.ascontiguousarray(values, np.float64)
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


def _exported(values: Any) -> pa.Array | pa.ChunkedArray | None:
    """A column of Arrow, pandas or polars as Arrow's, None where it is none or has no one type."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        if hasattr(values, "iloc"):
            return None if values.dtype == object else pa.array(values, from_pandas=True)
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    return None


def _typed_ids(column: pa.Array) -> pa.Array | None:
    """Ids of a column of one type; None where its rows must be looked at one by one."""
    kind = column.type
    if pa.types.is_integer(kind):
        fits = not pa.types.is_uint64(kind) or (pc.max(column).as_py() or 0) < 2**63
        return column.cast(pa.int64() if fits else pa.large_string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if pc.any(pc.ends_with(column, ".0")).as_py():
            return None
        blank = pc.equal(pc.utf8_trim_whitespace(column), "")
        return pc.if_else(blank, None, column).cast(pa.large_string())
    if pa.types.is_floating(kind):
        plain = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
        whole = (np.trunc(plain) == plain) & (np.abs(plain) < 2**63)
        if (whole | np.isnan(plain)).all():
            return pa.array(np.where(whole, plain, 0).astype(np.int64), mask=~whole)
    return None


def _id_of(value: Any) -> str | None:
    """The text of one id, None for what is none."""
    try:
        text = (canonical_key(value) or b"").decode()
    except UnicodeDecodeError:  # half of a pair, bytes of another encoding
        return None
    return text if text.strip() else None


def _number_of(value: Any) -> float:
    """One finite number, NaN for what is none."""
    if not isinstance(value, str | bytes | Real | Decimal | np.number | np.bool_):
        return math.nan
    try:
        plain = float(value)
    except (ValueError, OverflowError, TypeError):
        return math.nan
    return plain if math.isfinite(plain) else math.nan
