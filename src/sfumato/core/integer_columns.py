"""Columns of private integers and reals, read cell by cell so that no row affects another.

A cell that is not a number is dropped, or counts as 0 where the length of the column is public. A
number beyond the limits is clipped to them; clipping moves no two values further apart, so
sensitivities do not grow. Only the container itself (its shape, its type), which depends on the
query and not on a row, is refused.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.row_values import cells_of, number_of, numbers_of

__all__ = [
    "LARGEST",
    "clipped_column",
    "count_column",
    "entries",
    "integer_column",
    "integer_values",
    "one_column",
    "plain",
    "real_column",
]

LARGEST = 2**62 - 1  # so that a number and its noise fit 64 bits
MOST = 2**63 - 1


def plain(owner: str, name: str, value: Any) -> Any:
    """Return the value; refuse a masked array, whose mask would be lost silently."""
    if isinstance(value, np.ma.MaskedArray):
        wanted = "must not be a masked array; drop or fill what is masked"
        raise ValueError(f"{owner}: {name} {wanted}.")
    return value


def one_column(owner: str, name: str, column: Any) -> Any:
    """Return the column; refuse a scalar, a table or an array of more than one dimension."""
    several = hasattr(column, "columns") or getattr(column, "ndim", 1) != 1
    if several or isinstance(column, str | bytes | dict) or not hasattr(column, "__len__"):
        kind = type(column).__name__
        raise ValueError(f"{owner}: {name} must be one column of numbers, not {kind}.")
    return column


def integer_column(owner: str, name: str, column: Any) -> np.ndarray:
    """Convert a column to int64: truncated toward zero, clipped to 64 bits, non-numbers dropped."""
    return _integers(one_column(owner, name, column), None)


def count_column(owner: str, name: str, column: Any) -> np.ndarray:
    """Convert counts to int64, clipped to 0..2**31 - 1 so that no sum wraps; 0 if not a number."""
    return clipped_column(owner, name, column, 0, 2**31 - 1)


def clipped_column(owner: str, name: str, column: Any, low: int, high: int) -> np.ndarray:
    """Convert a column to int64, truncated toward zero and clipped; 0 for a non-number."""
    return np.asarray(np.clip(_integers(one_column(owner, name, column), 0), low, high))


def real_column(owner: str, name: str, column: Any) -> np.ndarray:
    """Convert a column to float64, with infinities but without non-numbers."""
    values = numbers_of(one_column(owner, name, column))
    return np.asarray(values[~np.isnan(values)])


def integer_values(owner: str, value: Any, low: int = -LARGEST, high: int = LARGEST) -> np.ndarray:
    """Copy a value of integer type to an int64 array, clipped to `low` and `high`."""
    wanted = f"{owner}: value must be integers from {low} to {high}"
    plain(owner, "value", value)
    try:
        numbers = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{wanted}, in one regular array.") from None
    if numbers.size and numbers.dtype == object and all(map(_is_integer, numbers.flat)):
        numbers = np.array([min(max(int(n), low), high) for n in numbers.flat]).reshape(
            numbers.shape
        )
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ValueError(f"{wanted}, not of type {numbers.dtype}.")
    clipped = np.clip(_signed(numbers), low, high) if numbers.size else numbers
    return np.array(clipped, np.int64, order="C")


def entries(owner: str, value: Any, high: int) -> np.ndarray:
    """Convert an array to integers from 0 to `high`, of the same shape; 0 for a non-number."""
    try:
        array = np.asanyarray(value)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(len(value), object)  # one entry is no number but a list
        array[:] = value
    if array.dtype.kind == "V":
        raise ValueError(f"{owner}: value must be an array of integers from 0 to {high}.")
    integers = _integers(array.reshape(-1), 0).reshape(array.shape)
    return np.clip(integers, 0, high)


def _signed(values: np.ndarray) -> np.ndarray:
    """Convert integers to int64; uint64 values beyond it are clipped."""
    if values.dtype.kind == "u" and values.dtype.itemsize == 8:
        values = np.minimum(values, np.uint64(MOST))
    return values.astype(np.int64)


def _is_integer(number: Any) -> bool:
    spans = bool | np.timedelta64  # NumPy counts a span of time as an integer
    return isinstance(number, int | np.integer) and not isinstance(number, spans)


def _integers(column: Any, absent: int | None) -> np.ndarray:
    """Convert a column to int64; a non-number becomes `absent`, or is dropped if that is None."""
    if isinstance(column, pa.ChunkedArray):
        parts = [_integers(chunk, absent) for chunk in column.chunks]
        return np.concatenate([np.empty(0, np.int64), *parts])
    if isinstance(column, pa.Array) and pa.types.is_integer(column.type) and not column.null_count:
        column = column.to_numpy(zero_copy_only=False)
    plain_array = isinstance(column, np.ndarray) and not isinstance(column, np.ma.MaskedArray)
    if plain_array and column.dtype.kind in "iu":
        return _signed(column)
    if plain_array and column.dtype.kind == "f":
        missing = np.isnan(column)
        # 2**63 itself is no int64, and as a float has no neighbour below it that matters.
        edge = np.clip(np.where(missing, 0, np.trunc(column)), -(2.0**63), 2.0**63)
        found = np.where(edge >= 2.0**63, MOST, np.where(edge < 2.0**63, edge, 0).astype(np.int64))
        return found[~missing] if absent is None else np.where(missing, absent, found)
    cells = [_integer_cell(cell) for cell in cells_of(column)]
    filled = [absent if cell is None else cell for cell in cells]
    return np.array([cell for cell in filled if cell is not None], np.int64)


def _integer_cell(cell: Any) -> int | None:
    """One cell as an integer clipped to 64 bits, or None; integers stay exact, unlike floats."""
    if isinstance(cell, int | np.integer) and not isinstance(cell, np.timedelta64):
        return min(max(int(cell), -MOST - 1), MOST)
    if isinstance(cell, str | bytes) and len(cell) < 40:
        try:
            return min(max(int(cell), -MOST - 1), MOST)
        except ValueError:
            pass
    number = number_of(cell)
    if math.isnan(number):
        return None
    if math.isinf(number):
        return MOST if number > 0 else -MOST - 1
    return min(max(int(number), -MOST - 1), MOST)
