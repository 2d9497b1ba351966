"""A column of sets from any container, and how alike two columns of sets are, exactly."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.hashing import KeyColumn, hash_column
from sfumato.sketch._sets import as_sets

__all__ = ["Sets", "jaccard", "jaccard_sums", "sets_of"]


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
    Members are whole numbers or text.

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
    names, places = np.unique(np.concatenate(hashes), return_inverse=True)
    parts = np.split(places, np.cumsum([each.size for each in hashes])[:-1])
    matrices = []
    for sets, part in zip(columns, parts, strict=True):
        shape = len(sets), names.size
        matrix = sparse.csr_array((np.ones(part.size), part, sets.bounds), shape)
        matrix.sum_duplicates()
        matrix.data[:] = 1
        matrices.append(matrix)
    return matrices
