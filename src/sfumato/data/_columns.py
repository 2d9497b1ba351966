"""Columns of any library as what ratings are made of: ids of one type, and finite numbers."""

import math
from decimal import Decimal
from numbers import Rational, Real
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.hashing import KeyColumn

__all__ = ["TEXTS", "as_ids", "cells_of", "number_of", "numbers", "numbers_of"]

TRUTH = {"True": 1.0, "False": 0.0}  # as NumPy writes them among texts
TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)


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


def number_of(cell: Any) -> float:
    """One cell as a float, NaN where it is no number: a rule of this cell alone.

    Numbers of any type count, and texts that write one; so the value is the same whatever type a
    container gives to all its cells because of one of them. A complex number counts where it is
    real; None, NaT, dates, lists, masked cells and other texts do not.

    >>> [number_of(cell) for cell in (7, "7.50", 10**400, 2 + 0j, "guest", None)]
    [7.0, 7.5, inf, 2.0, nan, nan]
    """
    if type(cell) is float:
        return cell
    try:
        if isinstance(cell, (str, bytes)):  # twice as fast as a union
            text = cell if isinstance(cell, str) else cell.decode("ascii")
            if not text.isascii():  # digits of other scripts, which not every reader takes
                return math.nan
            return TRUTH[text] if text in TRUTH else float(text)
        if isinstance(cell, complex | np.complexfloating):
            return float(cell.real) if cell.imag == 0 else math.nan
        if isinstance(cell, Real | Decimal | np.bool_) and not isinstance(cell, np.timedelta64):
            return float(cell)
    except OverflowError:  # an integer or a fraction
        if isinstance(cell, Rational):
            return math.inf if int(cell.numerator) > 0 else -math.inf
    except Exception:  # whatever a cell's own type raises
        pass
    return math.nan


def numbers_of(column: Any) -> np.ndarray:
    """Every cell of a column or array by `number_of`, as float64 of its shape.

    Parameters: column, a NumPy array (masked cells are no numbers), an Arrow, pandas or polars
    column, or a list.
    """
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.empty(0), *map(numbers_of, column.chunks)])
    array = _numeric(column)
    if array is not None:
        with np.errstate(all="ignore"):  # a long double beyond the range becomes infinite
            if array.dtype.kind == "c":
                return np.where(array.imag == 0, array.real, np.nan).astype(np.float64)
            return np.ascontiguousarray(array, np.float64)
    cells = cells_of(column)
    found = np.fromiter(map(number_of, cells), np.float64, len(cells))
    return found.reshape(column.shape) if isinstance(column, np.ndarray) else found


def cells_of(column: Any) -> list[Any]:
    """The cells of a column as Python values; those that can be neither number nor text as None."""
    if isinstance(column, pa.ChunkedArray):
        return [cell for chunk in column.chunks for cell in cells_of(chunk)]
    if isinstance(column, pa.DictionaryArray):
        return cells_of(column.dictionary_decode())
    if isinstance(column, pa.Array):
        kind = column.type
        if any(is_text(kind) for is_text in TEXTS):
            return list(column.cast(pa.large_binary()).to_pylist())  # even if it is not UTF-8
        simple = pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)
        known = simple or pa.types.is_decimal(kind) or pa.types.is_boolean(kind)
        return list(column.to_pylist()) if known else [None] * len(column)
    if isinstance(column, np.ma.MaskedArray):
        filled = np.ma.filled(column.astype(object), None)
        return list(filled.ravel().tolist())
    if hasattr(column, "iloc"):
        column = np.asarray(column, object)
    if isinstance(column, np.ndarray):
        dated = column.dtype.kind in "mM"
        return [None] * column.size if dated else list(column.ravel().tolist())
    return list(column.to_list()) if hasattr(column, "to_list") else list(column)


def _numeric(column: Any) -> np.ndarray | None:
    """A column whose type is numeric as the array that it is, or None."""
    if isinstance(column, np.ma.MaskedArray):
        if column.dtype.kind not in "biuf":
            return None
        with np.errstate(all="ignore"):
            return np.asarray(np.ma.filled(column.astype(np.float64), np.nan))
    if isinstance(column, pa.Array):
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            return None
        column = column.to_numpy(zero_copy_only=False)
    elif not isinstance(column, np.ndarray):
        kind = getattr(column, "dtype", None)
        numeric = getattr(kind, "is_numeric", None)  # of polars
        if isinstance(kind, np.dtype) or (numeric is not None and numeric()):
            column = column.to_numpy()
    if isinstance(column, np.ndarray) and column.dtype.kind in "biufc":
        return column
    return None
