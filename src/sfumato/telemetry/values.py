"""Columns of values as clients know them: the distinct texts, and which of them each row holds."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.hashing import KeyColumn
from sfumato.core.ids import coded_integers
from sfumato.core.row_values import plain_column
from sfumato.errors import NullValueError

__all__ = [
    "NO_VALUE",
    "Values",
    "numbers",
    "reported_column",
    "reported_numbers",
    "value_column",
    "values_of",
]

NO_VALUE = b""  # what a client reports that has no value, or one that cannot be reported
SAFE = 2**53  # below which a float is an integer for sure, as in a browser
INTEGERS = range(-(2**63), 2**64)  # that are reported by their digits
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, eq=False, repr=False)
class Values:
    """Distinct texts, one after the other in `data` from offsets[c] on, and a code for every row.

    It has no readable form: a value of a person is never printed.
    """

    data: np.ndarray  # uint8
    offsets: np.ndarray  # int64, one more than texts
    codes: np.ndarray  # int64

    def __post_init__(self) -> None:
        # Read-only whatever it was made from, so that kernels are compiled for one kind of array.
        data = self.data.view()
        data.flags.writeable = False
        object.__setattr__(self, "data", data)

    @property
    def distinct(self) -> int:
        return self.offsets.size - 1

    def texts(self) -> list[bytes]:
        whole = self.data.tobytes()
        return [whole[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]

    def once(self) -> "Values":
        """The distinct values, each in one row."""
        return Values(self.data, self.offsets, np.arange(self.distinct))


def value_column(column: Any, *, name: str = "values") -> Values:
    """The distinct texts of a column and the code of every row.

    Parameters: column, text or integers (taken as their decimal text) as NumPy, Arrow, pandas,
    polars or a list. A null is refused by its position; an error never shows a value.

    >>> values = value_column([7, 31, 7])
    >>> values.texts(), values.codes
    ([b'7', b'31'], array([0, 1, 0]))
    """
    keys = KeyColumn(column, name=name, strict=True)
    if keys.kind == "integers":
        whole = np.concatenate([_plain(piece.values) for piece in keys.pieces])
        positions, known = coded_integers(_wide(whole))
        return _held(pa.array(known).cast(pa.large_string()).cast(pa.large_binary()), positions)
    pieces = [_encoded(piece.values) for piece in keys.pieces]
    if len(pieces) == 1:
        return _held(*pieces[0])
    texts = pa.concat_arrays([text for text, _ in pieces] or [pa.array([], pa.large_binary())])
    again = texts.dictionary_encode()
    positions, codes, begin = np.asarray(again.indices), [np.empty(0, np.int64)], 0
    for text, own in pieces:
        codes.append(positions[begin : begin + len(text)][own])
        begin += len(text)
    return _held(again.dictionary, np.concatenate(codes))


def values_of(texts: Sequence[bytes], codes: np.ndarray) -> Values:
    """Values that hold text codes[r] in row r."""
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Values(np.frombuffer(b"".join(texts), np.uint8), offsets, codes)


def reported_column(column: Any) -> Values:
    """As `value_column`, but each row by itself, and none raises: clients report what they have.

    7, "7" and 7.0 are one value. What is none (null, NaN, a fraction, an integer of more than 64
    bits, a truth value, half of a pair of surrogates, any other object) is reported as the empty
    text, like an empty text.

    >>> reported_column([7, "7", 7.0, None, 7.5]).texts()
    [b'7', b'']
    """
    rows = plain_column(column, "values")
    if not isinstance(rows, list):
        if pa.types.is_integer(rows.type) and not rows.null_count:
            found = rows.dictionary_encode()
            texts = found.dictionary.cast(pa.large_string())
            return _held(texts.cast(pa.large_binary()), np.asarray(found.indices))
        rows = rows.to_pylist() if rows.null_count or not _is_text(rows) else rows
    if isinstance(rows, list):
        rows = _texts(rows)
    return _held(*_encoded(rows))


def reported_numbers(column: Any) -> np.ndarray:
    """As `numbers`, but each row by itself: a number, also as text; NaN where a row has none."""
    rows = plain_column(column, "values")
    if not isinstance(rows, list):
        if pa.types.is_integer(rows.type) or pa.types.is_floating(rows.type):
            return np.asarray(rows.to_numpy(zero_copy_only=False), np.float64)
        rows = rows.to_pylist()
    return np.array([_number(value) for value in rows], np.float64)


def _texts(rows: list[Any]) -> pa.Array:
    if set(map(type, rows)) == {str}:
        try:
            return pa.array(rows, pa.large_string())
        except UnicodeEncodeError:
            pass
    return pa.array([_reported(value) for value in rows], pa.large_binary())


def _is_text(array: pa.Array) -> bool:
    kinds = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    return array.type in kinds or pa.types.is_fixed_size_binary(array.type)


def _reported(value: Any) -> bytes:
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, bytes):
            return bytes(value)
        if isinstance(value, float | np.floating):
            plain = float(value)
            whole = abs(plain) < SAFE and plain.is_integer()
            return str(int(plain)).encode() if whole else NO_VALUE
        integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        # A range looks for what is no plain int by counting up to it.
        return b"%d" % value if integer and int(value) in INTEGERS else NO_VALUE
    except Exception:  # half of a pair, a span of time; whatever a value's own type raises
        return NO_VALUE


def _number(value: Any) -> float:
    if isinstance(value, str) and NUMBER.fullmatch(value):
        return float(value)
    real = isinstance(value, int | float | np.integer | np.floating | Decimal | Fraction)
    if not real or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:  # of a signalling NaN, a span of time
        return math.nan


def numbers(column: Any, *, name: str = "values") -> np.ndarray:
    """A column of numbers as float64; what is null or not a number is refused by its position."""
    found: np.ndarray = column if isinstance(column, np.ndarray) else _arrow_numbers(column, name)
    if found.ndim != 1 or found.dtype.kind not in "iuf":
        raise TypeError(f"{name}: one column of numbers is expected, for `edges` are given.")
    found = found.astype(np.float64)
    missing = np.flatnonzero(np.isnan(found))
    if missing.size:
        raise ValueError(f"{name}: row {missing[0]} is not a number; drop or fill it first.")
    return found


def _arrow_numbers(column: Any, name: str) -> np.ndarray:
    try:
        arrow = pa.chunked_array(column) if hasattr(column, "__arrow_c_stream__") else column
        if not isinstance(arrow, pa.Array | pa.ChunkedArray):
            arrow = pa.array(arrow, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError):
        raise TypeError(f"{name}: a column of numbers is expected, of one type.") from None
    if arrow.null_count:
        row = arrow.is_null().index(True).as_py()
        raise NullValueError(f"{name}: row {row} is null; drop or fill nulls first.")
    if pa.types.is_null(arrow.type):
        return np.empty(0)
    return np.asarray(arrow.to_numpy(zero_copy_only=False)) if len(arrow) else np.empty(0)


def _plain(values: Any) -> np.ndarray:
    if isinstance(values, pa.DictionaryArray):
        values = np.asarray(values.dictionary)[np.asarray(values.indices)]
    return np.asarray(values)


def _wide(values: np.ndarray) -> np.ndarray:
    """Integers as 64-bit ones, of a sign if all fit: both kinds together would be floats."""
    if values.dtype == np.uint64 and values.size and values.max() >= 2**63:
        return values
    return values.astype(np.int64)


def _encoded(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The distinct texts of an Arrow array's rows and the code of every row."""
    if not isinstance(values, pa.DictionaryArray):
        found = _encodable(values).dictionary_encode()
        return _bytes(found.dictionary), np.asarray(found.indices)
    rows = np.asarray(values.indices)
    used = np.bincount(rows, minlength=len(values.dictionary)) > 0
    words = _encodable(values.dictionary).filter(pa.array(used))  # the others are no row's value
    texts, codes = _encoded(words)
    return texts, codes[(np.cumsum(used) - 1)[rows]]


def _encodable(texts: pa.Array) -> pa.Array:
    """The texts in a type that Arrow finds the distinct ones of."""
    wide = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return texts.cast(wide.get(texts.type, texts.type))


def _bytes(texts: pa.Array) -> pa.Array:
    if pa.types.is_string(texts.type):
        texts = texts.cast(pa.large_string())
    return texts.cast(pa.large_binary())


def _held(texts: pa.Array, codes: np.ndarray) -> Values:
    _, offsets, data = texts.buffers()
    positions = np.frombuffer(offsets, np.int64)[
        texts.offset : texts.offset + len(texts) + 1
    ].copy()
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return Values(bytes_, positions, codes.astype(np.int64))
