"""Columns of values as clients know them: the distinct texts, and which of them each row holds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.data._coding import coded_integers
from sfumato.hashing import KeyColumn

__all__ = ["Values", "numbers", "value_column"]


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
        places, known = coded_integers(_wide(whole))
        return _held(pa.array(known).cast(pa.large_string()).cast(pa.large_binary()), places)
    pieces = [_encoded(piece.values) for piece in keys.pieces]
    if len(pieces) == 1:
        return _held(*pieces[0])
    texts = pa.concat_arrays([text for text, _ in pieces] or [pa.array([], pa.large_binary())])
    again = texts.dictionary_encode()
    places, codes, begin = np.asarray(again.indices), [np.empty(0, np.int64)], 0
    for text, own in pieces:
        codes.append(places[begin : begin + len(text)][own])
        begin += len(text)
    return _held(again.dictionary, np.concatenate(codes))


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
        raise ValueError(f"{name}: row {row} is null; drop or fill nulls first.")
    if pa.types.is_null(arrow.type):
        return np.empty(0)
    return np.asarray(arrow.to_numpy(zero_copy_only=False)) if len(arrow) else np.empty(0)


def _plain(values: Any) -> np.ndarray:
    if isinstance(values, pa.DictionaryArray):
        values = np.asarray(values.dictionary)[np.asarray(values.indices)]
    return np.asarray(values)


def _wide(values: np.ndarray) -> np.ndarray:
    """Whole numbers as 64-bit ones, of a sign if all fit: both kinds together would be floats."""
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
    places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1].copy()
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return Values(bytes_, places, codes.astype(np.int64))
