"""Columns of texts from any container, as Arrow buffers of valid UTF-8; missing ones are empty."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.arrow_arrays import number_array, text_array

__all__ = ["Texts", "address", "offsets"]

STRINGS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
MISSING = ("NoneType", "NAType", "NaTType")
BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)


class Texts:
    """Texts as chunks of Arrow large strings; a missing text is one without characters.

    owner names the caller in errors; texts is a list, or an Arrow, pandas, polars or NumPy column,
    of texts or of bytes that are UTF-8.
    """

    def __init__(self, owner: str, texts: Any) -> None:
        column = _arrow(owner, texts)
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        self.chunks: list[Any]
        self.chunks, row = [], 0
        for chunk in chunks:
            if len(chunk):
                self.chunks.append(_valid(owner, chunk, row))
            row += len(chunk)
        self.size = row
        self._starts = np.cumsum([0, *map(len, self.chunks)])

    def __len__(self) -> int:
        return self.size

    def blocks(self, most: int) -> Iterator[tuple[int, pa.Array]]:
        """Yield first row and texts of at most `most` bytes together, but at least one text."""
        row = 0
        for chunk in self.chunks:
            ends, start = offsets(chunk), 0
            while start < len(chunk):
                end = int(np.searchsorted(ends, ends[start] + most, "right")) - 1
                end = max(end, start + 1)
                yield row + start, chunk.slice(start, end - start)
                start = end
            row += len(chunk)

    def take(self, rows: np.ndarray) -> pa.Array:
        """Copy the texts of ascending rows into one array."""
        cuts = np.searchsorted(rows, self._starts)
        parts = [
            chunk.take(number_array(rows[low:high] - start))
            for chunk, start, low, high in zip(
                self.chunks, self._starts, cuts, cuts[1:], strict=False
            )
        ]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.large_string())

    def lengths(self) -> np.ndarray:
        """Bytes of every text."""
        parts = [np.diff(offsets(chunk)) for chunk in self.chunks]
        return np.concatenate([np.empty(0, np.int64), *parts])


def offsets(chunk: pa.Array) -> np.ndarray:
    """Where the texts of an array of large strings start and end in its data."""
    if not len(chunk):
        return np.zeros(1, np.int64)
    found = np.frombuffer(chunk.buffers()[1], np.int64)
    return found[chunk.offset : chunk.offset + len(chunk) + 1]


def address(chunk: pa.Array) -> np.uint64:
    """Address of the data of an array of large strings."""
    data = chunk.buffers()[2]
    return np.uint64(data.address if data else 0)


def _arrow(owner: str, texts: Any) -> Any:
    if isinstance(texts, pa.Array | pa.ChunkedArray):
        return texts
    if isinstance(texts, pa.Table | pa.RecordBatch) or hasattr(texts, "columns"):
        raise TypeError(f"{owner}: texts must be one column, not a table; name the column.")
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise TypeError(
            f"{owner}: texts must be a column of texts, not {type(texts).__name__}; put a single "
            "text in a list."
        )
    if hasattr(texts, "__arrow_c_stream__"):
        return pa.chunked_array(texts)
    rows = list(texts)
    _refuse_others(owner, rows)
    try:
        if set(map(type, rows)) <= {str}:
            return text_array(rows)
        return pa.array(rows, from_pandas=True)
    except UnicodeEncodeError:
        raise ValueError(
            f"{owner}: texts must be valid Unicode; half of a surrogate pair stands alone."
        ) from None
    except pa.ArrowException:
        raise TypeError(f"{owner}: texts must be all texts or all bytes.") from None


def _refuse_others(owner: str, rows: list[Any]) -> None:
    """Raise TypeError for the first row that is neither text, bytes nor missing."""
    if set(map(type, rows)) <= {str, bytes, type(None)}:
        return
    for row, text in enumerate(rows):
        missing = (isinstance(text, float) and text != text) or type(text).__name__ in MISSING
        if not (missing or isinstance(text, str | bytes)):
            raise TypeError(
                f"{owner}: texts must be texts, not {type(text).__name__} at row {row}; convert "
                "it by str first."
            )


def _valid(owner: str, chunk: pa.Array, row: int) -> pa.Array:
    """The chunk as large strings without nulls, after checking type and encoding."""
    kind = chunk.type
    if isinstance(chunk, pa.DictionaryArray):
        chunk, kind = chunk.dictionary_decode(), kind.value_type
    if pa.types.is_null(kind):
        return pa.array([""] * len(chunk), pa.large_string())
    if not any(test(kind) for test in (*STRINGS, *BYTES)):
        raise TypeError(f"{owner}: texts must be texts, not {kind} at row {row}; cast it first.")
    found = chunk.cast(pa.large_binary())  # views are made contiguous; nothing else is copied
    try:
        found = found.cast(pa.large_string())
    except pa.ArrowInvalid:
        raise ValueError(
            f"{owner}: texts must be UTF-8; row {row + _first_invalid(found)} is not. Decode it "
            'first, for example by bytes.decode(encoding, errors="replace").'
        ) from None
    return pc.fill_null(found, "") if found.null_count else found


def _first_invalid(chunk: pa.Array) -> int:
    """The first row that is not UTF-8, by bisection."""
    low, high = 0, len(chunk)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            chunk.slice(low, middle - low).cast(pa.large_string())
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low
