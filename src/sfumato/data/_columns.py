"""Columns of any library as what ratings are made of: ids of one type, and finite numbers."""

import math
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.hashing import KeyColumn

__all__ = ["as_ids", "numbers", "plain_numbers"]


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


def plain_numbers(values: Any) -> np.ndarray:
    """Numbers of any container as a plain array, in which whatever is missing is NaN.

    Missing are None, pandas' NA and NaT, Arrow's nulls and masked cells. A column of dates stays
    one, NaT included, and what is no number stays what it is, for the caller to refuse.

    Parameters
    ----------
    values : array-like
        A column or matrix: NumPy array, masked or not, Arrow array, pandas or polars column or
        frame, or list.

    Returns
    -------
    numpy.ndarray
        Of the dtype of the numbers, or float64 where one was missing.

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
            whole = isinstance(values, pa.ChunkedArray)
            values = values.to_numpy() if whole else values.to_numpy(zero_copy_only=False)
        array = np.asarray(values)
    return _filled(array) if array.dtype == object else array


def _of_pandas(values: Any) -> np.ndarray:
    """A column or frame of pandas; nullable numbers keep their type where nothing is missing."""
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
    """Objects that are all numbers or missing as numbers; any others as they are."""
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
    """A column as finite float64, or int64 where it is whole numbers."""
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
