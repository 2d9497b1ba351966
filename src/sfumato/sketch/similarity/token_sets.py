"""Columns of sets from any container, as tokens and offsets; and exact Jaccard similarities."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.hashing import MISSING, PLAIN, KeyColumn, canonical_key, hash_column
from sfumato.kernels.sketch.layout import HASHES, INTEGERS, UNSIGNED

__all__ = ["Sets", "as_sets", "checked_offsets", "jaccard", "jaccard_sums", "runs", "sets_of"]

FAILURES = (pa.ArrowException, TypeError, ValueError, OverflowError)


def as_sets(owner: str, tokens: Any, offsets: Any = None) -> tuple[KeyColumn, np.ndarray]:
    """The concatenated tokens of n sets, and n + 1 offsets from 0 to the number of tokens.

    Without offsets, tokens is a column of lists: Arrow, pandas, polars or a list of lists. Tokens
    are keys of any types; a row that is not a list is an empty set.
    """
    if offsets is None:
        tokens, offsets = _flat(owner, tokens)
    column = KeyColumn(tokens, name="tokens")
    return column, checked_offsets(owner, offsets, column.size, "tokens")


def checked_offsets(owner: str, offsets: Any, size: int, what: str) -> np.ndarray:
    """Check the n + 1 offsets of n sets: from 0 to `size`, never decreasing."""
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
    """Yield first row, values and their form: integers unchanged, texts as their hashes."""
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
        # Not from its offsets: a null list may have a non-empty range.
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
        sets = list(sets)  # an iterator can be read only once, and a matrix has rows
    untyped = isinstance(sets, list | tuple) or getattr(sets, "dtype", None) == np.dtype(object)
    if untyped and not _are_plain(sets):
        return _one_by_one(sets)
    with suppress(*FAILURES):
        found = pa.chunked_array(sets) if hasattr(sets, "__arrow_c_stream__") else pa.array(sets)
        value = getattr(found.type, "value_type", pa.null())
        changed = pa.types.is_floating(value) or pa.types.is_duration(value)
        if not changed:  # integers among floats would be rounded, durations truncated
            return found
    return _one_by_one(sets)


def _are_plain(sets: Iterable[Any]) -> bool:
    """Whether Arrow reads all tokens of these sets unchanged, or refuses them."""
    if not {type(row) for row in sets} <= {list, tuple}:
        return False
    kinds = set(map(type, chain.from_iterable(sets)))
    return all(issubclass(kind, PLAIN) for kind in kinds)


def _one_by_one(sets: Iterable[Any]) -> pa.Array:
    """Convert sets of keys of any types row by row; other rows are empty sets."""
    plain = (list, tuple, set, frozenset, np.ndarray)
    return pa.array(
        [[_token(key) for key in row] if isinstance(row, plain) else [] for row in sets],
        pa.list_(pa.large_binary()),
    )


def _token(key: Any) -> bytes:
    text = canonical_key(key)
    return MISSING if text is None else text


def _typed(chunk: Any) -> Any:
    # Lists that are all empty have items of type null; any type of key fits none.
    return chunk.cast(pa.list_(pa.int64())) if pa.types.is_null(chunk.type.value_type) else chunk


@dataclass(frozen=True)
class Sets:
    """Set i has the members bounds[i] to bounds[i + 1]; repeats change nothing."""

    members: KeyColumn
    bounds: np.ndarray
    _hashed: dict[int, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return self.bounds.size - 1

    def hashed(self, seed: int) -> np.ndarray:
        """32-bit hashes of all members; two members collide with probability 2**-32."""
        if seed not in self._hashed:  # tables hash a few rows at a time, with the same seeds
            self._hashed[seed] = hash_column(self.members, seed).astype(np.uint32)
        return self._hashed[seed]


def sets_of(owner: str, data: Any) -> Sets:
    """Convert data to sets of integers or texts; errors name the owner.

    The data is a tuple (offsets, members), where set i has the members offsets[i] to
    offsets[i + 1]; or a SciPy sparse matrix, where row i has the columns that are not 0; or a
    column of lists: Arrow, pandas, polars or a list of lists.

    >>> len(sets_of("example", [["a", "b"], [], ["b"]]))
    3
    """
    if isinstance(data, Sets):
        return data
    if hasattr(data, "tocsr"):
        data = data.tocsr()
        if not data.has_canonical_format:
            data = data.copy()  # the caller's matrix is not changed
            data.sum_duplicates()
        nonzero = data.data != 0
        bounds = np.concatenate([[0], np.cumsum(nonzero)])[data.indptr]
        return Sets(*as_sets(owner, data.indices[nonzero].astype(np.int64), bounds))
    if isinstance(data, tuple) and len(data) == 2:
        return Sets(*as_sets(owner, data[1], data[0]))
    return Sets(*as_sets(owner, data))


def jaccard(some: Sets, others: Sets) -> np.ndarray:
    """Jaccard similarity of each pair of sets of `some` and `others`; 1 if both are empty."""
    similar, empty, also = _similarities(some, others)
    return np.asarray(similar.toarray() + np.outer(empty, also))


def jaccard_sums(some: Sets, others: Sets, weights: np.ndarray, power: int) -> np.ndarray:
    """For each set of `others`, the weighted sum of similarity**power over the sets of `some`."""
    similar, empty, also = _similarities(some, others)
    similar.data **= power
    return np.asarray(weights @ similar + (weights @ empty) * also)


def _similarities(some: Sets, others: Sets) -> tuple[Any, np.ndarray, np.ndarray]:
    """Sparse similarities of non-empty sets, and for both columns 1 for each empty set."""
    here, there = _matrices(some, others)
    sizes, theirs = here.sum(axis=1), there.sum(axis=1)
    shared = (here @ there.T).tocoo()
    row, column = shared.coords
    shared.data /= sizes[row] + theirs[column] - shared.data
    return shared.tocsr(), (sizes == 0) * 1.0, (theirs == 0) * 1.0


def _matrices(*columns: Sets) -> list[Any]:
    """Indicator matrices of the members, with columns common to all."""
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
