"""Many sets as one column of tokens and the offsets where each set starts, checked whole."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.hashing import KeyColumn
from sfumato.kernels.minhash import HASHES, INTEGERS, UNSIGNED

__all__ = ["as_sets", "checked_offsets", "runs"]

FAILURES = (pa.ArrowException, TypeError, ValueError, OverflowError)


def as_sets(owner: str, tokens: Any, offsets: Any = None) -> tuple[KeyColumn, np.ndarray]:
    """The tokens of all sets in a row, and n + 1 offsets for n sets, from 0 to all tokens.

    Without offsets, tokens is a column of lists: Arrow, pandas, polars or a list of lists.
    """
    if offsets is None:
        tokens, offsets = _flat(owner, tokens)
    column = KeyColumn(tokens, name="tokens")
    return column, checked_offsets(owner, offsets, column.size, "tokens")


def checked_offsets(owner: str, offsets: Any, size: int, what: str) -> np.ndarray:
    """Where each of n sets starts and the last ends, from 0 to `size`: n + 1 that never fall."""
    ends = np.asarray(offsets)
    if ends.ndim != 1 or ends.size == 0 or ends.dtype.kind not in "iu":
        raise TypeError(
            f"{owner}: offsets must be one column of whole numbers, one more than there are sets, "
            f"not {ends.dtype} of shape {ends.shape}."
        )
    if ends[0] != 0 or ends[-1] != size:
        raise ValueError(
            f"{owner}: offsets must run from 0 to the {size} {what}, not {ends[0]} to {ends[-1]}."
        )
    falling = ends[1:] < ends[:-1]
    if falling.any():
        at = int(falling.argmax()) + 1
        raise ValueError(f"{owner}: offsets must never fall; the one in row {at} does.")
    return np.ascontiguousarray(ends, np.int64)


def runs(column: KeyColumn, seed: int) -> Iterator[tuple[int, np.ndarray, int]]:
    """Start row, values and their form; integers come as they are, and text as its hashes."""
    arrays = [piece.values for piece in column.pieces]
    if all(isinstance(each, np.ndarray) for each in arrays):
        start = 0
        for values in arrays:
            yield start, values, UNSIGNED if values.dtype == np.uint64 else INTEGERS
            start += values.size
    else:
        for start, hashes in column.blocks(seed):
            yield start, hashes, HASHES


def _flat(owner: str, sets: Any) -> tuple[pa.ChunkedArray, np.ndarray]:
    chunks = _lists(owner, sets)
    offsets, end = [np.zeros(1, np.int64)], 0
    for chunk in chunks:
        # Ends from 0 on: an Arrow slice keeps the offsets of the whole.
        ends = chunk.offsets.to_numpy().astype(np.int64)
        offsets.append(ends[1:] - ends[0] + end)
        end += int(ends[-1] - ends[0])
    values = [chunk.flatten() for chunk in chunks]
    return pa.chunked_array(values, None if values else pa.int64()), np.concatenate(offsets)


def _lists(owner: str, sets: Any) -> list[Any]:
    sets = _arrow(owner, sets)
    kind = sets.type
    if pa.types.is_null(kind) and len(sets) == 0:
        return []
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise TypeError(
            f"{owner}: tokens must be a column of lists when there are no offsets, not {kind}."
        )
    if sets.null_count:
        at = sets.is_null().index(True).as_py()
        raise ValueError(f"{owner}: tokens of row {at} are null; give an empty list instead.")
    chunks = sets.chunks if isinstance(sets, pa.ChunkedArray) else [sets]
    return [_typed(chunk) for chunk in chunks if len(chunk)]


def _arrow(owner: str, sets: Any) -> Any:
    if isinstance(sets, pa.Array | pa.ChunkedArray):
        return sets
    if isinstance(sets, Iterator | np.ndarray):
        sets = list(sets)  # an iterator can be read but once, and a matrix has rows
    with suppress(*FAILURES):
        return pa.chunked_array(sets) if hasattr(sets, "__arrow_c_stream__") else pa.array(sets)
    with suppress(*FAILURES):
        return pa.array(sets, pa.list_(pa.uint64()))  # integers of 2**63 and more
    raise TypeError(_misfit(owner, sets))  # Arrow's own sentence would quote a value


def _misfit(owner: str, sets: Any) -> str:
    if not isinstance(sets, Iterable):
        return f"{owner}: tokens must be a column of lists, not {type(sets).__name__}."
    first = ""
    for row, tokens in enumerate(sets):
        name = f"{owner}: tokens of row {row}"
        kind = KeyColumn([] if tokens is None else tokens, name=name).kind  # may raise itself
        if kind and first and kind != first:
            return f"{name} are {kind}, those before are {first}; give one type of key."
        first = first or kind
    return f"{owner}: tokens of 2**63 and more cannot stand beside negative ones."


def _typed(chunk: Any) -> Any:
    # Lists that are all empty have items of type null; any type of key will do for none.
    return chunk.cast(pa.list_(pa.int64())) if pa.types.is_null(chunk.type.value_type) else chunk
