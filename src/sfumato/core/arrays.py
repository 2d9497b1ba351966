"""Matrices of real numbers and columns of weights from any container, and the top n of rows.

`rows` refuses values that are not numbers; `private_points` reads every row on its own and refuses
none. Inputs are checked completely before a sketch changes.
"""

from collections.abc import Callable, Mapping, Set
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.ids import plain_numbers
from sfumato.core.integer_columns import clipped_column
from sfumato.core.row_values import TEXTS, numbers_of
from sfumato.core.validation import integer
from sfumato.errors import NullValueError, ParameterTypeError
from sfumato.kernels import top_k

__all__ = [
    "LARGEST",
    "WEIGHT",
    "Readers",
    "column_of",
    "integer_weights",
    "matrix_of",
    "private_points",
    "real_weights",
    "rows",
    "table_columns",
    "top_n",
    "with_columns",
    "without_rows",
]

LARGEST = 1e150  # products and squares of two numbers up to here stay finite
Readers = Mapping[int, Callable[[Any], np.ndarray]]  # a column's cells to numbers, by its position
PLAIN = {float, int, bool, np.float64}  # cells of lists that NumPy reads as `number_of` does


def rows(owner: str, values: Any, dimension: int | None = None) -> np.ndarray:
    """Convert vectors to a float64 matrix, one per row.

    Parameters
    ----------
    owner : str
        Name of the class or function for error messages.
    values : array_like of shape (n, dimension)
        Numbers up to 1e150 in size: NumPy array, Arrow list array or table, pandas or polars frame,
        or list of lists.
    dimension : int or None, default=None
        Required number of columns; None accepts any.

    Returns
    -------
    ndarray of shape (n, dimension)
        The matrix.

    Examples
    --------

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
    """Convert the inputs that `rows` accepts to a float64 matrix of any numbers, NaN included."""
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
        raise NullValueError(f"{owner}: row {at} is null; drop or fill nulls first.")
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


def column_of(owner: str, y: Any) -> Any:
    """Convert a target `y` to a column that `numbers_of` and `cells_of` read.

    It may be a column, a table of one column, or a list, whose cells may be lists of one cell.
    """
    if y is None:
        raise ValueError(f"{owner}: requires y to be passed, but the target y is None.")
    parts = _columns_of(y)
    if parts is not None or (hasattr(y, "shape") and len(y.shape) == 2):
        columns = list(np.asanyarray(y).T) if parts is None else parts
        if len(columns) != 1:
            raise ValueError(f"{owner}: y must be one column, not {len(columns)}.")
        return columns[0]
    if isinstance(y, list | tuple):
        return [_alone(cell) for cell in y]
    if isinstance(y, str | bytes | Mapping | Set) or not hasattr(y, "__len__"):
        raise TypeError(f"{owner}: y must be a column, not {type(y).__name__}.")
    if len(getattr(y, "shape", (0,))) != 1:
        raise ValueError(f"{owner}: y must be one column.")
    return y


def _alone(cell: Any) -> Any:
    """The cell of a list of one, or the cell itself."""
    if isinstance(cell, np.ndarray):
        return cell.item() if cell.shape == (1,) and type(cell) is np.ndarray else cell
    return cell[0] if isinstance(cell, list | tuple) and len(cell) == 1 else cell


def private_points(
    owner: str, data: Any, columns: int | None, readers: Readers | None = None
) -> np.ndarray:
    """Convert private rows to a float64 matrix, each row on its own; no row is refused.

    Parameters
    ----------
    owner : str
        Name of the class or function for error messages.
    data : array_like of shape (n, columns)
        Matrix, Arrow table, pandas or polars frame, or list of rows.
    columns : int or None
        Number of cells per row, required if `data` is a list; None if it is not known.
    readers : dict of int to callable, or None, default=None
        For some columns by position, a function that converts a column to numbers, each cell on its
        own, in place of `numbers_of`.

    Returns
    -------
    ndarray of shape (n, columns)
        One row per input row. A cell that is not a number is NaN, and so is every cell of a list's
        row that does not have `columns` cells. Callers drop rows with NaN and clip the others to
        public bounds.

    Notes
    -----
    **Guarantee.** A row of the result depends only on that input row, cell by cell (`number_of`),
    and no content of a row raises or warns. Only the container itself, which is public, can be
    refused.

    Examples
    --------
    >>> private_points("example", [[1, "2.5"], ["visitor", 3], [4]], 2)
    array([[1. , 2.5],
           [nan, 3. ],
           [nan, nan]])
    """
    readers = readers or {}
    parts = _columns_of(data)
    if parts is not None:
        out = np.empty((len(data), len(parts)))
        for column, part in enumerate(parts):
            out[:, column] = readers.get(column, numbers_of)(part)
        return out
    if hasattr(data, "toarray"):
        raise TypeError(f"{owner}: X must be a dense table; Sparse data was passed. Use toarray().")
    if isinstance(data, pa.Array | pa.ChunkedArray):
        data = _listed(data)
    elif hasattr(data, "shape") and not isinstance(data, np.ndarray) and len(data.shape) != 1:
        data = np.asarray(data)
    if isinstance(data, np.ndarray) and (data.ndim != 1 or data.dtype != object):
        if data.ndim != 2:
            raise ValueError(
                f"{owner}: X must have rows and columns, and is no table. Expected 2D array. "
                "Reshape your data: array.reshape(-1, 1) for one column."
            )
        return _by_columns(data, readers)
    return _from_rows(owner, data, columns, readers)


def _by_columns(cells: np.ndarray, readers: Readers) -> np.ndarray:
    """The numbers of a matrix, which is not changed."""
    found = numbers_of(cells)
    if readers:
        found = found.copy()
    for column, read in readers.items():
        found[:, column] = read(cells[:, column])
    return found


def without_rows(data: Any) -> Any:
    """The same container without its rows, by which it can be checked before they are read."""
    if isinstance(data, str | bytes | Mapping | Set):
        return data
    try:
        return data[:0]
    except Exception:  # what has no slices is refused, or read, as a whole
        return data


def _columns_of(table: Any) -> list[Any] | None:
    """The columns of an Arrow, polars or pandas table; None for other inputs."""
    if isinstance(table, pa.Table | pa.RecordBatch):
        return list(table.columns)
    if hasattr(table, "get_columns"):
        return list(table.get_columns())
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        return [table.iloc[:, column] for column in range(table.shape[1])]
    return None


def table_columns(data: Any) -> list[Any] | None:
    """The columns of a table, a frame, a matrix or a list of rows; None for other inputs."""
    parts = _columns_of(data)
    if parts is not None:
        return parts
    matrix = _objects(data)
    return None if matrix is None else list(matrix.T)


def with_columns(data: Any, columns: dict[int, np.ndarray]) -> Any:
    """A copy of what `table_columns` reads with other values in the columns at these positions.

    >>> with_columns([["Rome", 1.5], ["Oslo", 2.5]], {0: np.array([1.0, 0.0])}).tolist()
    [[1.0, 1.5], [0.0, 2.5]]
    """
    if isinstance(data, pa.Table | pa.RecordBatch):
        for at, values in columns.items():
            data = data.set_column(at, data.schema.field(at).name, pa.array(values))
        return data
    if hasattr(data, "get_columns"):
        series = data.get_columns()
        return data.with_columns(
            [type(series[at])(series[at].name, values) for at, values in columns.items()]
        )
    if hasattr(data, "iloc"):
        out = data.copy(deep=False)
        for at, values in columns.items():
            out.isetitem(at, values)
        return out
    matrix = _objects(data)
    for at, values in columns.items():
        matrix[:, at] = values  # type: ignore[index]
    return matrix


def _objects(data: Any) -> np.ndarray | None:
    """A matrix or a list of rows as a new matrix of Python values; None for other inputs."""
    if isinstance(data, str | bytes | Mapping | Set) or hasattr(data, "toarray"):
        return None
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(object), None)
    try:
        matrix = np.array(data, object)
    except ValueError:  # rows of several lengths
        return None
    return matrix if matrix.ndim == 2 else None


def _from_rows(owner: str, data: Any, columns: int | None, readers: Readers) -> np.ndarray:
    if isinstance(data, str | bytes | Mapping | Set) or not hasattr(data, "__len__"):
        raise TypeError(f"{owner}: X must be a table of rows, not {type(data).__name__}.")
    if columns is None:
        raise ValueError(
            f"{owner}: bounds must have one number per column where X is a list of rows, as "
            "([0, 0], [1, 1]) for two: how long rows are is not public. Or give an array or table."
        )
    rows = list(data)
    if not readers and _are_plain(rows, columns):
        matrix = np.array(rows).reshape(-1, columns)
        if matrix.dtype.kind in "biuf":
            return np.ascontiguousarray(matrix, np.float64)
    out = np.full((len(rows), columns), np.nan)
    for at, row in enumerate(rows):
        found = _row(row, readers)
        if found.shape == (columns,):
            out[at] = found
    return out


def _listed(column: Any) -> list[Any]:
    """The lists of an Arrow list column; for other columns, as many None."""
    kind = getattr(column.type, "value_type", pa.null())
    if pa.types.is_list_view(column.type) or pa.types.is_large_list_view(column.type):
        column = lists_of_views(column)  # a cast would take one row for another
    if any(is_text(kind) for is_text in TEXTS):
        column = column.cast(pa.large_list(pa.large_binary()))  # even if it is not UTF-8
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return [None] * len(column)
    return list(column.to_pylist())


def lists_of_views(column: Any) -> Any:
    """Lists that are views of other parts of a column, each written out."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    sizes = np.asarray(column.sizes) if len(column) else np.zeros(0, np.int64)
    sizes = np.where(np.asarray(column.is_valid()), sizes, 0).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    starts = np.asarray(column.offsets, np.int64) if len(column) else np.zeros(0, np.int64)
    at = np.arange(ends[-1]) - np.repeat(ends[:-1] - starts, sizes)
    values = column.values.take(pa.array(at))
    return pa.LargeListArray.from_arrays(pa.array(ends), values)


def _are_plain(rows: list[Any], columns: int) -> bool:
    """Whether all rows are lists of `columns` plain numbers, which NumPy converts at once."""
    return (
        {type(row) for row in rows} <= {list, tuple}
        and {len(row) for row in rows} == {columns}
        and set(map(type, chain.from_iterable(rows))) <= PLAIN
    )


def _row(row: Any, readers: Readers) -> np.ndarray:
    """The numbers of one row; empty if it is not a row."""
    if isinstance(row, str | bytes | Mapping | Set) or not hasattr(row, "__len__"):
        return np.empty(0)
    try:
        cells = row if isinstance(row, np.ndarray) else list(row)
        found = numbers_of(cells).copy()  # of the row itself where it is an array
        for column, read in readers.items():
            found[column] = read(cells[column : column + 1])[0]
        return found
    except Exception:  # whatever a row's own type raises
        return np.empty(0)


LARGEST_WEIGHT = 1e200
WEIGHT = integer(1, 2**31 - 1)


def integer_weights(
    owner: str, weights: Any, size: int, *, low: int = 0, clip: int | None = None
) -> np.ndarray | None:
    """Check integer weights from `low` to 2**31 - 1, one per key; None stands for all ones.

    With `clip`, a public bound, each weight is read on its own and clipped to that size, and a
    non-number becomes 0: no weight is refused, and none changes another.
    """
    if clip is not None and weights is not None:
        most = WEIGHT.check(owner, "clip", clip)
        clipped = clipped_column(owner, "weights", weights, max(low, -most), most)
        _check_length(owner, clipped, size)
        return clipped if size else None
    column = _column(owner, weights, size)
    if column is None:
        return None
    if column.dtype.kind not in "iu":
        wanted = f"must be integers, not {column.dtype}."
        raise ParameterTypeError.of(owner, "weights", wanted)
    outside = (column < low) | (column >= 2**31)
    if outside.any():
        at = int(outside.argmax())
        raise ValueError(f"{owner}: weights must be from {low} to 2**31 - 1; row {at} is not.")
    return np.ascontiguousarray(column, np.int64)


def real_weights(owner: str, weights: Any, size: int) -> np.ndarray | None:
    """Check real weights within 1e200, so that no sum overflows, one per key; None: all ones."""
    column = _column(owner, weights, size)
    if column is None:
        return None
    if column.dtype.kind not in "iuf":
        raise TypeError(f"{owner}: weights must be numbers, not {column.dtype}.")
    column = np.ascontiguousarray(column, np.float64)
    inside = np.abs(column) <= LARGEST_WEIGHT
    if not inside.all():
        at = int((~inside).argmax())
        raise ValueError(
            f"{owner}: weights must be numbers within {LARGEST_WEIGHT:g}; row {at} is not."
        )
    return column


def _arrow(owner: str, weights: Any) -> Any:
    try:
        if hasattr(weights, "__arrow_c_stream__"):
            return pa.chunked_array(weights)
        return pa.array(weights)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Arrow's own sentence quotes the value that does not fit.
        raise TypeError(f"{owner}: weights must be numbers of one type.") from None


def _column(owner: str, weights: Any, size: int) -> np.ndarray | None:
    if weights is None:
        return None
    if isinstance(weights, np.ma.MaskedArray):
        raise TypeError(f"{owner}: weights must not be masked; fill them first.")
    if isinstance(weights, list | tuple) or hasattr(weights, "__arrow_c_stream__"):
        weights = _arrow(owner, weights)
    if isinstance(weights, pa.Array | pa.ChunkedArray):
        if weights.null_count:
            at = weights.is_null().index(True).as_py()
            raise NullValueError(f"{owner}: weights must be numbers; row {at} is null.")
        weights = weights.to_numpy(zero_copy_only=False)
    column = plain_numbers(weights)
    if size == column.size == 0:
        return None
    _check_length(owner, column, size)
    return column


def _check_length(owner: str, column: np.ndarray, size: int) -> None:
    if column.ndim != 1 or column.size != size:
        raise ValueError(
            f"{owner}: weights must be one for each of the {size} keys, not shape {column.shape}."
        )


def top_n(scores: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Select the n largest scores of each row, largest first.

    Parameters
    ----------
    scores : ndarray of shape (rows, columns)
        Floats. -inf and NaN are never selected.
    n : int
        Number to select per row, at least 0.

    Returns
    -------
    positions : ndarray of int64, shape (rows, n)
        Column indices; of equal scores the lower index comes first. Padded with -1.
    scores : ndarray of shape (rows, n)
        The selected scores, in the dtype of the input. Padded with -inf.

    Examples
    --------
    >>> top_n(np.array([[1.0, 3.0, -np.inf, 3.0]]), 4)
    (array([[ 1,  3,  0, -1]]), array([[  3.,   3.,   1., -inf]]))
    """
    shape = len(scores), n
    positions, found = np.full(shape, -1, np.int64), np.full(shape, -np.inf, scores.dtype)
    if n and 2 * n <= scores.shape[1]:
        top_k.largest(np.ascontiguousarray(scores), positions, found)
    elif n:  # for most of a row, a sort costs less than a heap
        least = np.where(np.isnan(scores), np.inf, -scores)
        best = np.argsort(least, axis=1, kind="stable")[:, :n]
        width = best.shape[1]
        found[:, :width] = -np.take_along_axis(least, best, axis=1)
        positions[:, :width] = np.where(found[:, :width] > -np.inf, best, -1)
    return positions, found
