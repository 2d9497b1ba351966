"""Rows of real numbers from any container, checked whole before a sketch changes."""

from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.data._columns import plain_numbers

__all__ = ["LARGEST", "matrix_of", "rows"]

LARGEST = 1e150  # products and squares of two numbers up to here stay finite


def rows(owner: str, values: Any, dimension: int | None = None) -> np.ndarray:
    """A float64 matrix, one row of numbers for each vector.

    Parameters: owner, whom errors name; values, a matrix as NumPy array, Arrow list array or table,
    pandas or polars frame, or list of lists, of numbers up to 1e150 in size; dimension, how many
    columns there must be (None: any).

    >>> rows("example", [[1, 2], [3, 4]], 2)
    array([[1., 2.],
           [3., 4.]])
    """
    matrix = matrix_of(owner, values, dimension)
    # A NaN fails both comparisons.
    if matrix.size and not (matrix.min() >= -LARGEST and matrix.max() <= LARGEST):
        row, column = np.argwhere(~(np.abs(matrix) <= LARGEST))[0]
        raise ValueError(
            f"{owner}: numbers must be finite and at most {LARGEST:g} in size; row {row}, column "
            f"{column} is not."
        )
    return matrix


def matrix_of(owner: str, values: Any, dimension: int | None = None) -> np.ndarray:
    """A float64 matrix of these columns, whatever its numbers are; `rows` says from what."""
    matrix = _matrix(owner, values)
    if matrix.size == 0 and matrix.ndim in (1, 2) and len(matrix) == 0:
        return np.zeros((0, matrix.shape[-1] if dimension is None else dimension))
    if matrix.ndim != 2:
        raise ValueError(f"{owner}: rows must form a matrix, not {matrix.ndim} dimensions.")
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"{owner}: {_misfit(matrix)}")
    if dimension is not None and matrix.shape[1] != dimension:
        raise ValueError(
            f"{owner}: rows must have {dimension} columns (its dimension), not {matrix.shape[1]}."
        )
    return np.ascontiguousarray(matrix, np.float64)


def _matrix(owner: str, values: Any) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise TypeError(f"{owner}: rows must not be masked; fill them first.")
    if isinstance(values, pa.Table | pa.RecordBatch):
        columns = [column.to_numpy(zero_copy_only=False) for column in _columns(values)]
        return np.column_stack(columns) if columns else np.empty((0, 0))
    if hasattr(values, "to_numpy") and len(getattr(values, "shape", ())) == 2:
        return plain_numbers(values if hasattr(values, "iloc") else values.to_numpy())
    if hasattr(values, "__arrow_c_stream__") and not isinstance(values, pa.ChunkedArray):
        values = pa.chunked_array(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _from_lists(owner, values)
    try:
        return plain_numbers(values)
    except ValueError:
        raise ValueError(f"{owner}: {_ragged(values)}") from None


def _columns(table: Any) -> list[Any]:
    if isinstance(table, pa.RecordBatch):
        return list(table.columns)
    return [column.combine_chunks() for column in table.columns]


def _from_lists(owner: str, array: Any) -> np.ndarray:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if not (
        pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    ):
        raise TypeError(f"{owner}: an Arrow column of lists is expected, not {kind}.")
    if array.null_count:
        at = array.is_null().index(True).as_py()
        raise ValueError(f"{owner}: row {at} is null; drop or fill nulls first.")
    lengths = np.unique(np.asarray(array.value_lengths()))
    if lengths.size > 1:
        raise ValueError(f"{owner}: rows must all be equally long, not {lengths[0]}, {lengths[1]}.")
    numbers = array.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(numbers.reshape(len(array), -1) if len(array) else numbers)


def _misfit(matrix: np.ndarray) -> str:
    for (row, column), value in np.ndenumerate(matrix):
        if not isinstance(value, Real):
            return (
                f"numbers are expected, not {type(value).__name__} at row {row}, column {column}."
            )
    return f"numbers are expected, not {matrix.dtype}."


def _ragged(values: Any) -> str:
    lengths = [len(row) if hasattr(row, "__len__") else 0 for row in values]
    at = next((i for i, length in enumerate(lengths) if length != lengths[0]), 0)
    return f"rows must all be equally long; row {at} has {lengths[at]} columns, row 0 {lengths[0]}."
