"""Columns of client values: the distinct texts, and the code of each row."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.arrow_arrays import cells, text_array
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

FEW = 2**12  # rows of text that are encoded one by one, without Arrow, which loads slowly
OFFSETS = {
    **dict.fromkeys((pa.string(), pa.binary()), np.int32),
    **dict.fromkeys((pa.large_string(), pa.large_binary()), np.int64),
}
NO_VALUE = b""  # what a client reports that has no value, or one that cannot be reported
SAFE = 2**53  # below which a float is an integer for sure, as in a browser
INTEGERS = range(-(2**63), 2**64)  # that are reported by their digits
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, eq=False, repr=False)
class Values:
    """Distinct texts, concatenated in `data` and split at `offsets`, with a code for every row.

    It has no readable form, so that a person's value is never printed.
    """

    data: np.ndarray  # uint8
    offsets: np.ndarray  # int64, from 0 to the end of the last text
    codes: np.ndarray  # int64

    def __post_init__(self) -> None:
        # Read-only whatever it was made from, so that kernels are compiled for one kind of array.
        data = self.data.view()
        data.flags.writeable = False
        object.__setattr__(self, "data", data)

    @property
    def distinct(self) -> int:
        """Number of distinct texts."""
        return self.offsets.size - 1

    def texts(self) -> list[bytes]:
        """Return the distinct texts as bytes."""
        data = self.data.tobytes()
        return [data[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]

    def once(self) -> "Values":
        """Return the distinct values, one row each."""
        return Values(self.data, self.offsets, np.arange(self.distinct))


def value_column(column: Any, *, name: str = "values") -> Values:
    """Return the distinct texts of a column and the code of every row.

    The column is text or integers (converted to decimal text) as NumPy, Arrow, pandas, polars or a
    list. A null is refused by its position; an error never shows a value.

    >>> values = value_column([7, 31, 7])
    >>> values.texts(), values.codes
    ([b'7', b'31'], array([0, 1, 0]))
    """
    keys = KeyColumn(column, name=name, strict=True)
    if keys.kind == "integers":
        integers = np.concatenate([_plain(piece.values) for piece in keys.pieces])
        positions, known = coded_integers(_wide(integers))
        return _values(pa.array(known).cast(pa.large_string()).cast(pa.large_binary()), positions)
    pieces = [_encoded(piece.values) for piece in keys.pieces]
    if len(pieces) == 1:
        return _values(*pieces[0])
    texts = pa.concat_arrays([text for text, _ in pieces] or [pa.array([], pa.large_binary())])
    again = texts.dictionary_encode()
    positions, codes, begin = np.asarray(again.indices), [np.empty(0, np.int64)], 0
    for text, own in pieces:
        codes.append(positions[begin : begin + len(text)][own])
        begin += len(text)
    return _values(again.dictionary, np.concatenate(codes))


def values_of(texts: Sequence[bytes], codes: np.ndarray) -> Values:
    """Return Values whose row r has the text of code codes[r]."""
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Values(np.frombuffer(b"".join(texts), np.uint8), offsets, codes)


def reported_column(column: Any) -> Values:
    """As `value_column`, but convert each row by itself and never raise for a value.

    7, "7" and 7.0 are one value. What is no value (null, NaN, a fraction, an integer of more than
    64 bits, a boolean, an unpaired surrogate, any other object) becomes the empty text.

    >>> reported_column([7, "7", 7.0, None, 7.5]).texts()
    [b'7', b'']
    """
    if type(column) is list and len(column) == 1 and type(column[0]) in (str, int):
        text = _reported(column[0])
        return Values(
            np.frombuffer(text, np.uint8), np.array([0, len(text)]), np.zeros(1, np.int64)
        )
    rows = plain_column(column, "values")
    if not isinstance(rows, list):
        if pa.types.is_integer(rows.type) and not rows.null_count:
            found = rows.dictionary_encode()
            texts = found.dictionary.cast(pa.large_string())
            return _values(texts.cast(pa.large_binary()), np.asarray(found.indices))
        rows = rows.to_pylist() if rows.null_count or not _is_text(rows) else rows
    if isinstance(rows, list):
        rows = _texts(rows)
    return _values(*_encoded(rows))


def reported_numbers(column: Any) -> np.ndarray:
    """As `numbers`, but convert each row by itself, text included; NaN where a row is no number."""
    rows = plain_column(column, "values")
    if not isinstance(rows, list):
        if pa.types.is_integer(rows.type) or pa.types.is_floating(rows.type):
            return np.asarray(rows.to_numpy(zero_copy_only=False), np.float64)
        rows = rows.to_pylist()
    return np.array([_number(value) for value in rows], np.float64)


def _texts(rows: list[Any]) -> pa.Array:
    """Return rows as Arrow text, or as bytes if some are not text."""
    if set(map(type, rows)) == {str}:
        try:
            return text_array(rows)
        except UnicodeEncodeError:
            pass
    return pa.array([_reported(value) for value in rows], pa.large_binary())


def _is_text(array: pa.Array) -> bool:
    """Return whether an Arrow array is of text or bytes."""
    kinds = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    return array.type in kinds or pa.types.is_fixed_size_binary(array.type)


def _reported(value: Any) -> bytes:
    """Return the bytes that a client reports for a value."""
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, bytes):
            return bytes(value)
        if isinstance(value, float | np.floating):
            plain = float(value)
            exact = abs(plain) < SAFE and plain.is_integer()
            return str(int(plain)).encode() if exact else NO_VALUE
        integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        # A range searches for what is no plain int by counting up to it.
        return b"%d" % value if integer and int(value) in INTEGERS else NO_VALUE
    except Exception:  # an unpaired surrogate, a timedelta; whatever a value's own type raises
        return NO_VALUE


def _number(value: Any) -> float:
    """Return a value as a float, NaN if it is no number."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        return float(value)
    real = isinstance(value, int | float | np.integer | np.floating | Decimal | Fraction)
    if not real or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:  # of a signalling NaN, a timedelta
        return math.nan


def numbers(column: Any, *, name: str = "values") -> np.ndarray:
    """Return a column of numbers as float64; refuse a null or NaN by its position."""
    found: np.ndarray = column if isinstance(column, np.ndarray) else _arrow_numbers(column, name)
    if found.ndim != 1 or found.dtype.kind not in "iuf":
        raise TypeError(f"{name}: one column of numbers is expected, for `edges` are given.")
    found = found.astype(np.float64)
    missing = np.flatnonzero(np.isnan(found))
    if missing.size:
        raise ValueError(f"{name}: row {missing[0]} is not a number; drop or fill it first.")
    return found


def _arrow_numbers(column: Any, name: str) -> np.ndarray:
    """Return a column of numbers that is no NumPy array as one."""
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
    """Return the values of a dictionary-encoded or plain array."""
    if isinstance(values, pa.DictionaryArray):
        values = np.asarray(values.dictionary)[np.asarray(values.indices)]
    return np.asarray(values)


def _wide(values: np.ndarray) -> np.ndarray:
    """Return integers as int64, or as uint64 if some exceed it: mixing both would give floats."""
    if values.dtype == np.uint64 and values.size and values.max() >= 2**63:
        return values
    return values.astype(np.int64)


def _encoded(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the distinct texts of an Arrow array and the code of every row."""
    if values.type in OFFSETS and 0 < len(values) <= FEW and not values.null_count:
        return _few_encoded(values)
    if not isinstance(values, pa.DictionaryArray):
        coded = _encodable(values).dictionary_encode()
        if coded.indices.null_count:
            return _bytes(coded.dictionary), np.asarray(coded.indices)
        return _bytes(coded.dictionary), cells(coded.indices)
    rows = np.asarray(values.indices)
    used = np.bincount(rows, minlength=len(values.dictionary)) > 0
    words = _encodable(values.dictionary).filter(pa.array(used))  # the others are no row's value
    texts, codes = _encoded(words)
    return texts, codes[(np.cumsum(used) - 1)[rows]]


def _few_encoded(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """As `_encoded`, of few rows, by their buffers."""
    _, offsets, data = values.buffers()
    width, first, last = OFFSETS[values.type], values.offset, values.offset + len(values) + 1
    ends = np.frombuffer(offsets, width)[first:last].tolist()
    whole = b"" if data is None else data.slice(ends[0], ends[-1] - ends[0]).to_pybytes()
    rows = [whole[start - ends[0] : end - ends[0]] for start, end in pairwise(ends)]
    codes = {text: code for code, text in enumerate(dict.fromkeys(rows))}
    found = values_of(list(codes), np.fromiter(map(codes.__getitem__, rows), np.int64, len(rows)))
    buffers = [None, pa.py_buffer(found.offsets), pa.py_buffer(found.data)]
    return pa.Array.from_buffers(pa.large_binary(), len(codes), buffers), found.codes


def _encodable(texts: pa.Array) -> pa.Array:
    """Cast texts to a type that Arrow can dictionary-encode."""
    wide = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return texts.cast(wide.get(texts.type, texts.type))


def _bytes(texts: pa.Array) -> pa.Array:
    """Cast texts to large_binary."""
    if pa.types.is_string(texts.type):
        texts = texts.cast(pa.large_string())
    return texts.cast(pa.large_binary())


def _values(texts: pa.Array, codes: np.ndarray) -> Values:
    """Return Values on the buffers of an Arrow array of distinct texts."""
    _, offsets, data = texts.buffers()
    positions = np.frombuffer(offsets, np.int64)[
        texts.offset : texts.offset + len(texts) + 1
    ].copy()
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return Values(bytes_, positions, codes.astype(np.int64))
