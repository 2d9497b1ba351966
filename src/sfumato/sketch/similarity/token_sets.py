"""Many sets as one column of tokens and the offsets where each set starts, checked whole.

A column of sets from any container, and how alike two columns of sets are, exactly.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.hashing import MISSING, PLAIN, KeyColumn, canonical_key, hash_column
from sfumato.kernels.sketch.minhash import HASHES, INTEGERS, UNSIGNED

__all__ = ["Sets", "as_sets", "checked_offsets", "jaccard", "jaccard_sums", "runs", "sets_of"]

FAILURES = (pa.ArrowException, TypeError, ValueError, OverflowError)


def as_sets(owner: str, tokens: Any, offsets: Any = None) -> tuple[KeyColumn, np.ndarray]:
    """The tokens of all sets in a row, and n + 1 offsets for n sets, from 0 to all tokens.

    Without offsets, tokens is a column of lists: Arrow, pandas, polars or a list of lists. Tokens
    are keys of any types; a row that is no list is an empty set.
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
            f"{owner}: offsets must be one column of integers, one more than there are sets, "
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
    if all(isinstance(p.values, np.ndarray) and p.missing is None for p in column.pieces):
        start = 0
        for piece in column.pieces:
            values = piece.values
            yield start, values, UNSIGNED if values.dtype == np.uint64 else INTEGERS
            start += values.size
    else:
        for start, hashes in column.blocks(seed):
            yield start, hashes, HASHES


def _flat(owner: str, sets: Any) -> tuple[pa.ChunkedArray, np.ndarray]:
    chunks = _lists(owner, sets)
    offsets, end = [np.zeros(1, np.int64)], 0
    for chunk in chunks:
        # Not by its offsets: a list that is null may have some, and holds nothing.
        ends = np.cumsum(np.asarray(chunk.value_lengths().fill_null(0)), dtype=np.int64) + end
        offsets.append(ends)
        end = int(ends[-1])
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
    chunks = sets.chunks if isinstance(sets, pa.ChunkedArray) else [sets]
    return [_typed(chunk) for chunk in chunks if len(chunk)]


def _arrow(owner: str, sets: Any) -> Any:
    if isinstance(sets, pa.Array | pa.ChunkedArray):
        return sets
    if not isinstance(sets, Iterable):
        raise TypeError(f"{owner}: tokens must be a column of lists, not {type(sets).__name__}.")
    if isinstance(sets, np.ndarray) and sets.ndim == 1 and sets.dtype != object:
        raise TypeError(f"{owner}: tokens must be a column of lists, not {sets.dtype}.")
    if isinstance(sets, Iterator | np.ndarray):
        sets = list(sets)  # an iterator can be read but once, and a matrix has rows
    untyped = isinstance(sets, list | tuple) or getattr(sets, "dtype", None) == np.dtype(object)
    if untyped and not _are_plain(sets):
        return _one_by_one(sets)
    with suppress(*FAILURES):
        found = pa.chunked_array(sets) if hasattr(sets, "__arrow_c_stream__") else pa.array(sets)
        value = getattr(found.type, "value_type", pa.null())
        changed = pa.types.is_floating(value) or pa.types.is_duration(value)
        if not changed:  # integers beside floats would be rounded, durations cut
            return found
    return _one_by_one(sets)


def _are_plain(sets: Iterable[Any]) -> bool:
    """Whether Arrow reads all of these sets as they are, or none of them."""
    if not {type(row) for row in sets} <= {list, tuple}:
        return False
    kinds = set(map(type, chain.from_iterable(sets)))
    return all(issubclass(kind, PLAIN) for kind in kinds)


def _one_by_one(sets: Iterable[Any]) -> pa.Array:
    """Sets of keys of any types; a row that is no collection is an empty set."""
    plain = (list, tuple, set, frozenset, np.ndarray)
    return pa.array(
        [[_token(key) for key in row] if isinstance(row, plain) else [] for row in sets],
        pa.list_(pa.large_binary()),
    )


def _token(key: Any) -> bytes:
    text = canonical_key(key)
    return MISSING if text is None else text


def _typed(chunk: Any) -> Any:
    # Lists that are all empty have items of type null; any type of key will do for none.
    return chunk.cast(pa.list_(pa.int64())) if pa.types.is_null(chunk.type.value_type) else chunk


@dataclass(frozen=True)
class Sets:
    """Set i holds the members bounds[i] to bounds[i + 1]; repeats change nothing."""

    members: KeyColumn
    bounds: np.ndarray
    _hashed: dict[int, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return self.bounds.size - 1

    def hashed(self, seed: int) -> np.ndarray:
        """32 bits for every member; two members share them with p = 2**-32."""
        if seed not in self._hashed:  # tables ask for a few rows at a time, with the same seeds
            self._hashed[seed] = hash_column(self.members, seed).astype(np.uint32)
        return self._hashed[seed]


def sets_of(owner: str, data: Any) -> Sets:
    """The sets of a column.

    Parameters: owner, whom errors name; data, a pair (offsets, members) as a tuple, where set i
    holds members offsets[i] to offsets[i + 1]; or the rows of a SciPy sparse matrix, whose members
    are the columns that are not 0; or a column of lists: Arrow, pandas, polars or a list of lists.
    Members are integers or text.

    >>> len(sets_of("example", [["a", "b"], [], ["b"]]))
    3
    """
    if isinstance(data, Sets):
        return data
    if hasattr(data, "tocsr"):
        data = data.tocsr()
        if not data.has_canonical_format:
            data = data.copy()  # the caller's own stays as it is
            data.sum_duplicates()
        kept = data.data != 0
        bounds = np.concatenate([[0], np.cumsum(kept)])[data.indptr]
        return Sets(*as_sets(owner, data.indices[kept].astype(np.int64), bounds))
    if isinstance(data, tuple) and len(data) == 2:
        return Sets(*as_sets(owner, data[1], data[0]))
    return Sets(*as_sets(owner, data))


def jaccard(some: Sets, others: Sets) -> np.ndarray:
    """|A and B| / |A or B| for each set here (down) and there (across); 1 where both are empty."""
    alike, empty, also = _shares(some, others)
    return np.asarray(alike.toarray() + np.outer(empty, also))


def jaccard_sums(some: Sets, others: Sets, weights: np.ndarray, power: int) -> np.ndarray:
    """The weighted sum over the sets here of their similarity to a power, for each set there."""
    alike, empty, also = _shares(some, others)
    alike.data **= power
    return np.asarray(weights @ alike + (weights @ empty) * also)


def _shares(some: Sets, others: Sets) -> tuple[Any, np.ndarray, np.ndarray]:
    """The similarities that are not 0, of sets that are not empty; and which sets are, as 1."""
    here, there = _matrices(some, others)
    sizes, theirs = here.sum(axis=1), there.sum(axis=1)
    shared = (here @ there.T).tocoo()
    row, column = shared.coords
    shared.data /= sizes[row] + theirs[column] - shared.data
    return shared.tocsr(), (sizes == 0) * 1.0, (theirs == 0) * 1.0


def _matrices(*columns: Sets) -> list[Any]:
    """Rows of ones at the members, in one numbering for all columns."""
    from scipy import sparse

    hashes = [hash_column(sets.members, 0) for sets in columns]
    names, positions = np.unique(np.concatenate(hashes), return_inverse=True)
    parts = np.split(positions, np.cumsum([each.size for each in hashes])[:-1])
    matrices = []
    for sets, part in zip(columns, parts, strict=True):
        shape = len(sets), names.size
        matrix = sparse.csr_array((np.ones(part.size), part, sets.bounds), shape)
        matrix.sum_duplicates()
        matrix.data[:] = 1
        matrices.append(matrix)
    return matrices
