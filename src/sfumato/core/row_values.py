"""Columns read cell by cell, so that no row changes how the others are read.

One unusual row turns a column of integers into text, floats or objects. Code on private data reads
its columns here: the other rows keep their values, and no content of a row raises or warns.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from numbers import Rational, Real
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.hashing import canonical_key, is_polars_object, plain_rows

__all__ = [
    "SAMPLE",
    "TEXTS",
    "cells_of",
    "ids_by_row",
    "kind_of",
    "number_of",
    "numbers_by_row",
    "numbers_of",
    "plain_column",
    "settled_ids",
    "strict",
    "typed",
]

TRUTH = {"True": 1.0, "False": 0.0, "true": 1.0, "false": 0.0}  # as NumPy and polars write them
TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)


SAMPLE = 20_000  # rows that decide the type of a column
IDENTIFIERS = r"^-?[0-9]+$"  # digits alone, yet no integer: with leading zeros, or too many
LEADING_ZERO = r"^-?0[0-9]"


def kind_of(sample: pa.ChunkedArray) -> pa.DataType:
    """The narrowest type that fits all these texts: integer, float or text."""
    values = sample.drop_null()
    if not len(values):
        return pa.string()
    for kind in (pa.int64(), pa.uint64()):
        if strict(values, kind) is not None:
            return kind
    digits = pc.all(pc.match_substring_regex(values, IDENTIFIERS)).as_py()
    zeros = pc.any(pc.match_substring_regex(values, LEADING_ZERO)).as_py()
    number = not digits and not zeros and strict(values, pa.float64()) is not None
    return pa.float64() if number else pa.string()


def typed(
    batches: Iterable[pa.RecordBatch], kinds: dict[str, pa.DataType], name: str
) -> Iterator[pa.RecordBatch]:
    """Convert batches of texts to these types; errors name the source. Nulls stay nulls."""
    row = 0
    for batch in batches:
        for column, kind in kinds.items():
            if kind == pa.string():
                continue
            texts = batch.column(column)
            numbers = strict(texts, kind)
            if numbers is None:
                raise ValueError(
                    f"{name}: row {row + _first_misfit(texts, kind)}: column {column!r} is not of "
                    f"the type of the first {SAMPLE} rows; read it as text."
                )
            batch = batch.set_column(batch.schema.get_field_index(column), column, numbers)
        yield batch
        row += batch.num_rows


def strict(texts: Any, kind: pa.DataType) -> Any:
    """Parse texts as this type; None if one does not parse, or is not written canonically."""
    if pa.types.is_boolean(kind):
        true = pc.equal(texts, "true")
        known = pc.all(pc.or_(true, pc.equal(texts, "false"))).as_py()
        return None if known is False else true
    try:
        numbers = texts.cast(kind)
    except pa.ArrowInvalid:
        return None
    return None if pa.types.is_integer(kind) and _padded(texts) else numbers


def _padded(texts: Any) -> bool:
    """Whether an integer is written as 007, -0 or 0x1f, which Arrow would parse and so alter."""
    zeros = texts.filter(pc.or_(pc.starts_with(texts, "0"), pc.starts_with(texts, "-0")))
    return pc.all(pc.equal(zeros, "0")).as_py() is False


def _first_misfit(texts: pa.Array, kind: pa.DataType) -> int:
    """The first row, counted from 1, that does not parse, found by bisection."""
    rows = range(1, len(texts) + 1)
    return 1 + bisect_left(rows, True, key=lambda row: strict(texts.slice(0, row), kind) is None)


def number_of(cell: Any) -> float:
    """Convert one cell to a float; NaN if it is not a number.

    Numbers of any type count, and texts that write one, so the value does not depend on the type
    that another cell gives to the container. A complex number counts if it is real; None, NaT,
    dates, lists, masked cells and other texts do not.

    >>> [number_of(cell) for cell in (7, "7.50", 10**400, 2 + 0j, "visitor", None)]
    [7.0, 7.5, inf, 2.0, nan, nan]
    """
    if type(cell) is float:
        return cell
    try:
        if isinstance(cell, (str, bytes)):  # twice as fast as a union
            text = cell if isinstance(cell, str) else cell.decode("ascii")
            if not text.isascii():  # digits of other scripts, which not every reader takes
                return math.nan
            return TRUTH[text] if text in TRUTH else _written(text)
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


def _written(text: str) -> float:
    """The number that a text writes; a real complex one, as NumPy writes it among texts, too."""
    if text.startswith("(") and text.endswith("j)"):
        found = complex(text)
        return found.real if found.imag == 0 else math.nan
    return float(text)


def numbers_of(column: Any) -> np.ndarray:
    """Apply `number_of` to every cell of a column or array; float64 of the same shape.

    The column may be a NumPy array (masked cells become NaN), an Arrow, pandas or polars column, or
    a list.
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
    """The cells of a column as Python values; None for those that are neither number nor text."""
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
        arrow = _of_pandas(column)
        if arrow is not None:
            return cells_of(arrow)
        column = np.asarray(column, object)
    if isinstance(column, np.ndarray):
        dated = column.dtype.kind in "mM"
        return [None] * column.size if dated else _python_cells(column.ravel())
    if _has_no_numbers(column):
        return [None] * len(column)
    return list(column.to_list()) if hasattr(column, "to_list") else list(column)


def _of_pandas(column: Any) -> Any:
    """A pandas column that Arrow stores, or whose categories it does, as Arrow; None for others."""
    kind = str(column.dtype)
    if not (kind.endswith("[pyarrow]") or kind in ("str", "string", "category")):
        return None
    try:
        return pa.array(column, from_pandas=True)
    except Exception:  # whatever one category's own type raises, as an integer beyond 64 bits
        return None


def _python_cells(array: np.ndarray) -> list[Any]:
    try:
        return list(array.tolist())
    except (SystemError, ValueError):  # of texts with a code point that is none
        return [_cell_at(array, at) for at in range(array.size)]


def _cell_at(array: np.ndarray, at: int) -> Any:
    try:
        return array[at : at + 1].tolist()[0]
    except (SystemError, ValueError):
        return None


def _has_no_numbers(column: Any) -> bool:
    """Whether a polars column has dates, times or lists, which its own list may fail to convert."""
    kind = getattr(column, "dtype", None)
    tests = (getattr(kind, name, None) for name in ("is_temporal", "is_nested"))
    return any(callable(test) and test() for test in tests)


def _numeric(column: Any) -> np.ndarray | None:
    """The array of a column of numeric type; None for other types."""
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
            try:
                column = column.to_numpy()
            except Exception:  # 128-bit integers of polars
                return None
    if isinstance(column, np.ndarray) and column.dtype.kind in "biufc":
        return column
    return None


def ids_by_row(values: Any, name: str) -> pa.Array:
    """Convert a column of ids to int64 or texts, each row on its own.

    Each id is its `canonical_key`: 7, "7", 7.0 and "7.0" are the same. So no row changes how
    another is read, and none raises. A row without an id, with a blank one, or one that is not text
    becomes null.

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
    """Convert a column to float64, each row on its own; NaN for rows without a finite number."""
    found = numbers_of(plain_column(values, name))
    return np.where(np.isfinite(found), found, np.nan)


def settled_ids(ids: pa.Array | pa.ChunkedArray) -> np.ndarray | pa.ChunkedArray:
    """Convert the non-null ids of `ids_by_row` to integers if all are, else to texts."""
    integers = ids if pa.types.is_integer(ids.type) else strict(ids, pa.int64())
    if integers is not None:
        return np.asarray(integers, np.int64)
    return pa.chunked_array([ids])  # large strings: plain ones hold 2 GiB, and more would raise


def plain_column(values: Any, name: str) -> pa.Array | list[Any]:
    """A column as an Arrow array if it has one type, else as a list of Python values."""
    if isinstance(values, str | bytes | Mapping) or hasattr(values, "columns"):
        raise TypeError(f"{name}: a whole column is expected, not one {type(values).__name__}.")
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"{name}: one column is expected, not {values.ndim} dimensions.")
    if isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray):
        if values.dtype.kind in "iuf":
            with np.errstate(all="ignore"):  # of what is longer than float64, or a signalling NaN
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
    arrow = _widened(arrow)
    combined = arrow.combine_chunks() if isinstance(arrow, pa.ChunkedArray) else arrow
    if isinstance(combined, pa.DictionaryArray):
        return _readable(_widened(combined.dictionary).take(combined.indices))
    return _readable(combined)


def _readable(column: pa.Array) -> pa.Array | list[Any]:
    """The column, or a list where not every row converts to Python: dates, texts not in UTF-8."""
    if pa.types.is_temporal(column.type):
        return plain_rows(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return [_text_of(cell) for cell in column.cast(pa.large_binary()).to_pylist()]
    return column


def _text_of(cell: bytes | None) -> str | bytes | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return cell


def _widened(column: Any) -> Any:
    """Cast texts to large ones: others raise beyond 2 GiB, and Arrow's `take` fails on views."""
    texts = dict.fromkeys([pa.string(), pa.string_view()], pa.large_string())
    wide = {**texts, **dict.fromkeys([pa.binary(), pa.binary_view()], pa.large_binary())}
    return column.cast(wide[column.type]) if column.type in wide else column


def _machine(values: np.ndarray) -> np.ndarray:
    """Convert numbers to a byte order and a width that Arrow accepts."""
    if values.dtype.kind == "f":
        return np.ascontiguousarray(values, np.float64)
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


def _exported(values: Any) -> pa.Array | pa.ChunkedArray | None:
    """An Arrow, pandas or polars column as Arrow; None for other inputs or mixed types."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        if hasattr(values, "iloc"):
            return None if values.dtype == object else pa.array(values, from_pandas=True)
        if hasattr(values, "__arrow_c_stream__"):
            return None if is_polars_object(values) else pa.chunked_array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    return None


def _typed_ids(column: pa.Array) -> pa.Array | None:
    """Ids of a typed column; None if its rows must be converted one by one."""
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
        integral = (np.trunc(plain) == plain) & (np.abs(plain) < 2**63)
        if (integral | np.isnan(plain)).all():
            return pa.array(np.where(integral, plain, 0).astype(np.int64), mask=~integral)
    return None


def _id_of(value: Any) -> str | None:
    """The canonical text of one id; None if it is missing or blank."""
    try:
        text = (canonical_key(value) or b"").decode()
    except UnicodeDecodeError:  # a lone surrogate, or bytes of another encoding
        return None
    return text if text.strip() else None
