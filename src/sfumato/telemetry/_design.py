"""The design of a decoding: which cells every candidate has in every cohort, and what they tell."""

from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.linalg
import scipy.sparse

from sfumato.hashing import KeyColumn

__all__ = ["Design"]


class Design:
    """Candidates as columns of a 0/1 matrix over cohorts x cells.

    Guarantee: `matrix[j * cells + i, v]` is 1 exactly when cell i is in the set of candidate v in
    cohort j; no candidate stands twice.
    Parameters: scheme, whose `members` gives the sets; candidates, a column of text or integers, or
    a published map (anything with `values` and `members`); at least one, all different, each in a
    bin of its own where the scheme has bins.

    >>> from sfumato.telemetry.params import Params
    >>> design = Design(Params(bits=16, hashes=2, cohorts=4, f=0.5), ["tea", "milk"])
    >>> design.matrix.shape, design.rank()
    ((64, 2), 2)
    """

    def __init__(self, scheme: Any, candidates: Any) -> None:
        self.scheme = scheme
        self.values, members = _sets(scheme, candidates)
        if not self.values:
            raise ValueError(
                "decode: candidates must hold at least one value; give the dictionary of strings "
                "to look for, or find them first with Discovery."
            )
        _refuse_repeated(self.values)
        self.members = np.ascontiguousarray(members, np.int32)
        wanted = (len(self.values), scheme.cohorts)
        if self.members.ndim != 3 or self.members.shape[:2] != wanted:
            raise ValueError(f"decode: members must be {wanted[0]} x {wanted[1]} x cells.")
        if self.members.size and not -1 <= self.members.min() <= self.members.max() < scheme.cells:
            raise ValueError("decode: the map has a cell that the scheme has not; check its bits.")
        if (edges := getattr(scheme, "edges", None)) is not None:
            _refuse_shared(edges, self.members[:, 0, 0])

    def __len__(self) -> int:
        return len(self.values)

    def part(self, places: np.ndarray) -> "Design":
        """The design of some of the candidates."""
        if places.size == len(self):
            return self
        values = [self.values[place] for place in places]
        return Design(self.scheme, SimpleNamespace(values=values, members=self.members[places]))

    @cached_property
    def matrix(self) -> scipy.sparse.csc_matrix:
        """Cells by candidates, row j * cells + i for cell i of cohort j, as float64 0 or 1."""
        count, cohorts, _ = self.members.shape
        rows = self.members.astype(np.int64) + self.scheme.cells * np.arange(cohorts)[:, None]
        owner = np.broadcast_to(np.arange(count)[:, None, None], rows.shape)
        there = self.members >= 0
        shape = (cohorts * self.scheme.cells, count)
        placed = (np.ones(int(there.sum())), (rows[there], owner[there]))
        matrix = scipy.sparse.csc_matrix(placed, shape=shape)
        matrix.data[:] = 1.0
        return matrix

    @cached_property
    def size(self) -> float:
        """How many cells a candidate has in a cohort, on average: what an unknown string has."""
        return float((self.members >= 0).sum() / self.members[:, :, 0].size)

    @property
    def most(self) -> int:
        """The rank that no dictionary exceeds: sets of one size leave one sum for all cohorts."""
        return int(self.scheme.cohorts) * (int(self.scheme.cells) - 1) + 1

    def rank(self, other: bool = False, rows: np.ndarray | None = None) -> int:
        """The rank of the matrix, with a column for other strings where `other` is true.

        Parameters: rows, which rows count, as those of cohorts that have reports; all if None.

        Pivoted Cholesky of the smaller Gram matrix, whose entries are whole numbers; from 4,096 up
        it would take longer than decoding, and the least of rows and candidates is returned.
        """
        columns = self.matrix if rows is None else self.matrix[rows]
        if other:
            ones = scipy.sparse.csc_matrix(np.ones((columns.shape[0], 1)))
            columns = scipy.sparse.hstack([columns, ones], format="csc")
        least = min(columns.shape)
        if not least:
            return 0
        if least > 4096:
            return int(min(columns.shape[1], self.most))
        gram = columns.T @ columns if columns.shape[1] == least else columns @ columns.T
        dense = np.asfortranarray(gram.toarray())
        return int(scipy.linalg.lapack.dpstrf(dense, tol=1e-9 * dense.diagonal().max())[2])

    @cached_property
    def twins(self) -> np.ndarray:
        """For every candidate the first one that has the same cells in all cohorts."""
        sets = np.sort(self.members.reshape(len(self), -1, self.members.shape[2]), axis=2)
        rows = np.ascontiguousarray(sets.reshape(len(self), -1))
        _, first, where = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return np.asarray(first[where.reshape(-1)])


def _sets(scheme: Any, candidates: Any) -> tuple[list[Any], np.ndarray]:
    """The candidates as a list, and their cells (candidates, cohorts, cells of a set)."""
    if hasattr(candidates, "members") and hasattr(candidates, "values"):
        return list(candidates.values), np.asarray(candidates.members)
    values = _listed(candidates)
    if not values:
        return values, np.empty((0, scheme.cohorts, 1), np.int32)
    return values, np.asarray(scheme.members(values))


def _listed(candidates: Any) -> list[Any]:
    """Plain texts or integers; numbers with a fraction stay for schemes that have bins."""
    if isinstance(candidates, np.ndarray) and candidates.dtype.kind == "f":
        return [float(value) for value in candidates]
    if isinstance(candidates, list | tuple) and any(isinstance(v, float) for v in candidates):
        return [float(value) for value in candidates]
    column = candidates if isinstance(candidates, KeyColumn) else _column(candidates)
    taken = column.take(np.arange(column.size))
    return [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in taken]


def _column(candidates: Any) -> KeyColumn:
    if isinstance(candidates, set | frozenset | dict):
        candidates = sorted(candidates)
    if isinstance(candidates, list | tuple) and not candidates:
        candidates = pa.array([], pa.string())
    return KeyColumn(candidates, name="candidates", strict=True)


def _refuse_repeated(values: list[Any]) -> None:
    repeated = len(values) - len(set(values))
    if repeated:
        raise ValueError(
            f"decode: candidates must be different, but {repeated} of {len(values)} stand twice; "
            "give each once, as by sorted(set(candidates))."
        )


def _refuse_shared(edges: tuple[float, ...], bins: np.ndarray) -> None:
    """Numbers of one bin would each be given all of its reports."""
    shared = bins[np.bincount(bins)[bins] > 1]
    if shared.size:
        bin_name = f"{edges[shared[0]]:.6g} to {edges[shared[0] + 1]:.6g}"
        raise ValueError(
            f"decode: candidates must lie in different bins, but {shared.size} of {bins.size} "
            f"share one, as {bin_name}; give scheme.domain or leave candidates out."
        )
