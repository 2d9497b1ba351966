"""The design of a decoding: the cells of every candidate, and the covariance of cell fractions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy

from sfumato.core.hashing import KeyColumn
from sfumato.telemetry.decoding.cell_sums import CellSums, GroupedSums, SparseSums

__all__ = ["Blocks", "CellFractions", "Design"]

PREFIX = 32  # cohorts in which nearly all candidates differ


class Design:
    """Candidates as columns of a 0/1 matrix over cohorts x cells.

    Guarantee: `matrix[j * cells + i, v]` is 1 exactly if cell i is in the set of candidate v in
    cohort j; all candidates differ. `candidates` is a column of text or integers, or anything with
    `values` and `members`, such as a `CandidateMap`: at least one, and each in a bin of its own if
    the scheme has bins.

    >>> from sfumato.telemetry.schemes.rappor import Rappor
    >>> design = Design(Rappor(bits=16, hashes=2, cohorts=4, f=0.5), ["tea", "milk"])
    >>> design.matrix.shape, design.rank()
    ((64, 2), 2)
    """

    def __init__(self, scheme: Any, candidates: Any) -> None:
        self.scheme = scheme
        self.values, members = _sets(scheme, candidates)
        if not self.values:
            raise ValueError(
                "decode: candidates must have at least one value; give the dictionary of strings "
                "to look for, or find them first with PrefixDiscovery."
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

    def part(self, positions: np.ndarray) -> Design:
        """Return the design of the candidates at these positions."""
        if positions.size == len(self):
            return self
        values = [self.values[position] for position in positions]
        return Design(self.scheme, SimpleNamespace(values=values, members=self.members[positions]))

    @cached_property
    def matrix(self) -> scipy.sparse.csc_matrix:
        """Cells by candidates, row j * cells + i for cell i of cohort j, as float64 0 or 1."""
        count, cohorts, _ = self.members.shape
        rows = self.members.astype(np.int64) + self.scheme.cells * np.arange(cohorts)[:, None]
        owner = np.broadcast_to(np.arange(count)[:, None, None], rows.shape)
        there = self.members >= 0
        shape = (cohorts * self.scheme.cells, count)
        entries = (np.ones(int(there.sum())), (rows[there], owner[there]))
        matrix = scipy.sparse.csc_matrix(entries, shape=shape)
        matrix.data[:] = 1.0
        return matrix

    @cached_property
    def size(self) -> float:
        """Mean number of cells of a candidate in a cohort; also assumed of unknown strings."""
        return float((self.members >= 0).sum() / self.members[:, :, 0].size)

    @property
    def most(self) -> int:
        """Upper bound of the rank: sets of one size have one sum for all cohorts."""
        return int(self.scheme.cohorts) * (int(self.scheme.cells) - 1) + 1

    def rank(self, other: bool = False, rows: np.ndarray | None = None) -> int:
        """Return the rank of the matrix, with a column for other strings if `other`.

        `rows` selects rows, such as those of cohorts that have reports. It is found by pivoted
        Cholesky of the smaller Gram matrix, whose entries are integers; above 4,096 that would take
        longer than decoding, and the smaller of candidates and `most` is returned.
        """
        height = self.scheme.cohorts * self.scheme.cells if rows is None else int(rows.sum())
        width = len(self) + other
        least = min(height, width)
        if not least:
            return 0
        if least > 4096:
            return int(min(width, self.most))
        columns = self.matrix if rows is None else self.matrix[rows]
        if other:
            ones = scipy.sparse.csc_matrix(np.ones((columns.shape[0], 1)))
            columns = scipy.sparse.hstack([columns, ones], format="csc")
        gram = columns.T @ columns if columns.shape[1] == least else columns @ columns.T
        dense = np.asfortranarray(gram.toarray())
        return int(scipy.linalg.lapack.dpstrf(dense, tol=1e-9 * dense.diagonal().max())[2])

    @cached_property
    def twins(self) -> np.ndarray:
        """Position, for every candidate, of the first one with the same cells in all cohorts."""
        out = np.arange(len(self))
        _, where, counts = np.unique(
            _sorted_rows(self.members[:, :PREFIX]), return_inverse=True, return_counts=True
        )
        alike = np.flatnonzero(counts[where.reshape(-1)] > 1)  # the others differ in few cohorts
        if alike.size:
            _, first, where = np.unique(
                _sorted_rows(self.members[alike]), return_index=True, return_inverse=True
            )
            out[alike] = alike[first[where.reshape(-1)]]
        return out

    @cached_property
    def sums(self) -> CellSums:
        """Sums by cell and by candidate."""
        if self.members.shape[2] == 1 and self.members.size and self.members.min() >= 0:
            return GroupedSums(self.members[:, :, 0], self.scheme.cells)
        return SparseSums(self.matrix)


def _sorted_rows(members: np.ndarray) -> np.ndarray:
    """Return the sets of candidates in some cohorts, one item each that can be compared."""
    rows = np.ascontiguousarray(np.sort(members, axis=2).reshape(len(members), -1))
    return rows.view(f"V{rows.shape[1] * rows.itemsize}")[:, 0]


def _sets(scheme: Any, candidates: Any) -> tuple[list[Any], np.ndarray]:
    """Return the candidates as a list, and their cells (candidates, cohorts, cells of a set)."""
    if hasattr(candidates, "members") and hasattr(candidates, "values"):
        return list(candidates.values), np.asarray(candidates.members)
    values = _listed(candidates)
    if not values:
        return values, np.empty((0, scheme.cohorts, 1), np.int32)
    return values, np.asarray(scheme.members(values))


def _listed(candidates: Any) -> list[Any]:
    """Return candidates as plain texts or integers; floats stay, for schemes that have bins."""
    if isinstance(candidates, np.ndarray) and candidates.dtype.kind == "f":
        return [float(value) for value in candidates]
    if isinstance(candidates, list | tuple) and any(isinstance(v, float) for v in candidates):
        return [float(value) for value in candidates]
    column = candidates if isinstance(candidates, KeyColumn) else _column(candidates)
    taken = column.take(np.arange(column.size))
    return [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in taken]


def _column(candidates: Any) -> KeyColumn:
    """Return candidates as a column; the elements of a set or dictionary are sorted."""
    if isinstance(candidates, set | frozenset | dict):
        candidates = sorted(candidates)
    if isinstance(candidates, list | tuple) and not candidates:
        candidates = pa.array([], pa.string())
    return KeyColumn(candidates, name="candidates", strict=True)


def _refuse_repeated(values: list[Any]) -> None:
    """Raise ValueError if a candidate occurs twice."""
    repeated = len(values) - len(set(values))
    if repeated:
        raise ValueError(
            f"decode: candidates must be different, but {repeated} of {len(values)} are repeated; "
            "give each once, as by sorted(set(candidates))."
        )


def _refuse_shared(edges: tuple[float, ...], bins: np.ndarray) -> None:
    """Raise ValueError if two candidates lie in one bin: each would get all of its reports."""
    shared = bins[np.bincount(bins)[bins] > 1]
    if shared.size:
        bin_name = f"{edges[shared[0]]:.6g} to {edges[shared[0] + 1]:.6g}"
        raise ValueError(
            f"decode: candidates must lie in different bins, but {shared.size} of {bins.size} "
            f"share one, as {bin_name}; give scheme.domain or leave candidates out."
        )


ENTRIES = 2**21  # numbers of a dense part, 16 MiB


class Blocks:
    """Products of the 0/1 matrix of cells by candidates, cohort by cohort, in bounded memory.

    Row j * cells + i is cell i of cohort j. `parts` are slices of cohorts such that a dense array
    of cells x cells or cells x candidates for each cohort of a part has at most 2**21 numbers, or
    is of one cohort.

    >>> blocks = Blocks(scipy.sparse.csc_matrix(np.eye(4)), 2)
    >>> (blocks @ np.array([1.0, 2, 3, 4])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """

    def __init__(self, matrix: scipy.sparse.csc_matrix, cohorts: int) -> None:
        self._matrix = matrix.tocsr()
        self.cohorts, self.cells = cohorts, matrix.shape[0] // cohorts
        self.candidates: int = int(matrix.shape[1])
        step = max(1, ENTRIES // (self.cells * max(self.cells, self.candidates)))
        self.parts = [slice(at, min(at + step, cohorts)) for at in range(0, cohorts, step)]

    def __matmul__(self, columns: np.ndarray) -> np.ndarray:
        """Return X columns: (M,) gives (cohorts, cells), (M, n) gives (cohorts, cells, n)."""
        product = np.asarray(self._matrix @ columns)
        return product.reshape(self.cohorts, self.cells, *columns.shape[1:])

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of values (cohorts, cells) over each candidate's cells."""
        return np.asarray(self._matrix.T @ values.reshape(-1))

    def rows(self, part: slice) -> scipy.sparse.csr_matrix:
        """Return the rows of these cohorts."""
        if len(self.parts) == 1:
            return self._matrix
        return self._matrix[part.start * self.cells : part.stop * self.cells]

    def gram(self, part: slice, weights: np.ndarray) -> np.ndarray:
        """Return X' W X of these cohorts (M, M); W is symmetric (c, k, k), or a diagonal (c, k)."""
        rows = self.rows(part)
        if weights.ndim == 2:
            return np.asarray((rows.T @ rows.multiply(weights.reshape(-1, 1)).tocsr()).toarray())
        side = self._apart(part).T @ weights.reshape(-1, self.cells)
        turned = side.reshape(-1, self.candidates, self.cells).transpose(0, 2, 1)
        return np.asarray(rows.T @ turned.reshape(-1, self.candidates))

    def sandwich(self, part: slice, covariance: np.ndarray) -> np.ndarray:
        """Return X C X' of each of these cohorts (c, k, k)."""
        side = np.asarray(self.rows(part) @ covariance)
        turned = side.reshape(-1, self.cells, self.candidates).transpose(0, 2, 1)
        product = self._apart(part) @ turned.reshape(-1, self.cells)
        return np.asarray(product).reshape(-1, self.cells, self.cells)

    def pairs(self, part: slice, fractions: np.ndarray) -> np.ndarray:
        """Return the fraction of clients whose candidate has both of two cells (c, k, k)."""
        if len(self.parts) == 1:
            return np.asarray((self.dense * fractions) @ self.dense.transpose(0, 2, 1))
        apart, k, count = self._apart(part), self.cells, part.stop - part.start
        both = (apart.multiply(np.tile(fractions, count)).tocsr() @ apart.T).tocoo()
        out = np.zeros((count, k, k))
        out[both.row // k, both.row % k, both.col % k] = both.data
        return out

    def _apart(self, part: slice) -> scipy.sparse.csr_matrix:
        """Return the blocks of these cohorts along the diagonal, cached if they are all."""
        return self._all_apart if len(self.parts) == 1 else self._diagonal(part)

    @property
    def few(self) -> bool:
        """Whether all blocks are one part, with far fewer candidates than cells."""
        return len(self.parts) == 1 and 2 * (self.candidates + 2) <= self.cells

    @cached_property
    def dense(self) -> np.ndarray:
        """All blocks as one dense array (cohorts, cells, candidates)."""
        return np.asarray(self._matrix.toarray()).reshape(-1, self.cells, self.candidates)

    @cached_property
    def _all_apart(self) -> scipy.sparse.csr_matrix:
        """All blocks along the diagonal."""
        return self._diagonal(self.parts[0])

    def _diagonal(self, part: slice) -> scipy.sparse.csr_matrix:
        """Return the blocks of these cohorts along the diagonal: (c k, c M)."""
        rows, count = self.rows(part), part.stop - part.start
        if count == 1:
            return rows
        cohort = np.repeat(np.arange(len(rows.indptr) - 1) // self.cells, np.diff(rows.indptr))
        columns = rows.indices + self.candidates * cohort
        shape = (rows.shape[0], count * self.candidates)
        return scipy.sparse.csr_matrix((rows.data, columns, rows.indptr), shape=shape)


NOISE = 1e-2  # least variance of a bit of one report that keeps a covariance from being singular
DENSE = 2**26  # entries of all blocks together: half a GiB; beyond it covariances are ignored


@dataclass(frozen=True)
class CellFractions:
    """Unbiased fractions of clients that have each cell, and their weights under a model.

    `fractions` (cohorts, cells) are the counts freed of the known bias of the noise; `uniform` is
    the mean fraction of a cell that an unknown string has. Weights are inverse covariances; cohorts
    without reports have weight 0.
    """

    scheme: Any
    fractions: np.ndarray
    reports: np.ndarray
    size: float
    single: bool  # whether no candidate has two cells in one cohort

    @classmethod
    def counted(cls, data: Any, design: Design) -> CellFractions:
        """Return the cell fractions of counts."""
        scheme, reports = data.scheme, np.asarray(data.reports, np.float64)
        low, gap = float(scheme.low), float(scheme.high) - float(scheme.low)
        marks = np.asarray(data.cells, np.float64) / np.maximum(reports, 1)[:, None]
        return cls(scheme, (marks - low) / gap, reports, design.size, design.members.shape[2] == 1)

    @property
    def uniform(self) -> float:
        """Probability that a random set contains a given cell."""
        return self.size / int(self.scheme.cells)

    @property
    def gap(self) -> float:
        """Difference of the probabilities `high` and `low`."""
        return float(self.scheme.high) - float(self.scheme.low)

    @property
    def together(self) -> float:
        """Probability that two given cells are both in a random set."""
        k = int(self.scheme.cells)
        return self.size * max(self.size - 1, 0) / (k * (k - 1)) if k > 1 else 0.0

    @property
    def dense(self) -> bool:
        """Whether covariances between the cells of a cohort fit in memory."""
        return bool(self.fractions.size * self.fractions.shape[1] <= DENSE)

    def set_variance(self) -> float:
        """Return the variance of a cell of one random set, about the fixed sum of its cells."""
        k = int(self.scheme.cells)
        return self.uniform * (1 - self.uniform) * k / max(k - 1, 1)

    def weights(self, blocks: Blocks, counts: np.ndarray, other: float, extra: float) -> np.ndarray:
        """Return the inverse covariance of every cohort: (m, k, k), or (m, k) for too many cells.

        `counts` are the fractions of the candidates and `other` that of unknown strings. `extra` is
        the sum of squared fractions of unknown strings: they fall on fixed cells, which adds
        variance beyond the noise.
        """
        marked = blocks @ counts + other * self.uniform
        if not self.dense:
            return self.alone(marked, extra)
        sets = self.scheme.kind == "bits" and not self.single
        out = np.empty((*marked.shape, marked.shape[1]))
        for part in blocks.parts:
            if sets and blocks.few and self.noisy:
                out = self._inverse_of_few(blocks.dense, counts, other, marked, extra)
            elif sets:
                both = blocks.pairs(part, counts) + other * self.together
                out[part] = self._inverse_of_pairs(both, marked[part], self.reports[part], extra)
            else:
                out[part] = self._inverse(marked[part], self.reports[part], extra)
        out[self.reports <= 0] = 0
        return out

    def alone(self, marked: np.ndarray, extra: float = 0.0) -> np.ndarray:
        """Return the weight (m, k) of each cell alone, given the fractions of clients with it."""
        probability = np.clip(float(self.scheme.low) + self.gap * marked, 0, 1)
        # Symbols have a known sum, so that 1 / p is a generalised inverse of diag(p) - p p'.
        own = probability if self.scheme.kind == "symbol" else probability * (1 - probability)
        reports = np.maximum(self.reports, 1)[:, None]
        variance = (
            np.maximum(own, self._least) / (reports * self.gap**2) + extra * self.set_variance()
        )
        return np.where(self.reports[:, None] > 0, 1 / variance, 0.0)

    @property
    def _least(self) -> float:
        """Floor of a variance, which would be 0 for an empty cell without noise."""
        return float(0.5 / (self.reports.sum() + 1))

    @property
    def noisy(self) -> bool:
        """Whether every bit is noisy, also one that its client's value has or has not."""
        low, high = float(self.scheme.low), float(self.scheme.high)
        return min(low * (1 - low), high * (1 - high)) >= NOISE

    def _inverse_of_pairs(
        self, both: np.ndarray, marked: np.ndarray, reports: np.ndarray, extra: float
    ) -> np.ndarray:
        """Return inverse covariances of bits (c, k, k), given fractions with both of two cells."""
        k, overdispersion = marked.shape[1], self.set_variance() * extra
        covariance = both - marked[:, :, None] * marked[:, None]
        covariance /= np.maximum(reports, 1)[:, None, None]
        covariance -= overdispersion / k
        own = self._own(marked) / (np.maximum(reports, 1)[:, None] * self.gap**2)
        covariance[:, np.arange(k), np.arange(k)] = own + overdispersion * (1 - 1 / k)
        return _inverted(covariance)

    def _inverse_of_few(
        self, dense: np.ndarray, counts: np.ndarray, other: float, marked: np.ndarray, extra: float
    ) -> np.ndarray:
        """Return inverse covariances of bits (m, k, k) if candidates are far fewer than cells.

        As `_inverse_of_pairs`, which it spares: all but the diagonal of a covariance is R E R' for
        R = [X, marked, 1] and diagonal E, inverted by the Woodbury identity. The noise of a bit is
        part of the diagonal alone, which keeps the difference away from 0.
        """
        k, overdispersion = marked.shape[1], self.set_variance() * extra
        reports = np.maximum(self.reports, 1)[:, None]
        inner = np.concatenate([counts, [-1.0, other * self.together]]) / reports
        inner[:, -1] -= overdispersion / k
        basis = np.concatenate([dense, marked[:, :, None], np.ones((*marked.shape, 1))], axis=2)
        own = self._own(marked) / (reports * self.gap**2) + overdispersion * (1 - 1 / k)
        diagonal = own - (np.square(basis) @ inner[:, :, None])[:, :, 0]
        solved = basis / diagonal[:, :, None]
        core = inner[:, :, None] * (basis.transpose(0, 2, 1) @ solved)
        core[:, np.arange(inner.shape[1]), np.arange(inner.shape[1])] += 1
        middle = np.linalg.inv(core) * inner[:, None]
        out = (solved @ -middle) @ solved.transpose(0, 2, 1)
        out[:, np.arange(k), np.arange(k)] += 1 / diagonal
        return np.asarray(out)

    def _inverse(self, marked: np.ndarray, reports: np.ndarray, extra: float) -> np.ndarray:
        """Return inverse covariances where values, or reports, have one cell, in closed form.

        Two different cells, of fractions p and r, have covariance a + b (p + r) + c p r, so the
        covariance matrix is a diagonal plus [1 p] B [1 p]', inverted by the Woodbury identity.
        """
        k, overdispersion = marked.shape[1], self.set_variance() * extra
        level, slope, curve = self._between
        scale = 1 / (np.maximum(reports, 1) * self.gap**2)
        own = self._own(marked)
        residual = own - level - 2 * slope * marked - curve * marked**2
        diagonal = residual * scale[:, None] + overdispersion
        inner = scale[:, None, None] * np.array([[level, slope], [slope, curve]])
        inner[:, 0, 0] -= overdispersion / k
        if self.scheme.kind != "bits":  # marks of a report sum up: 1 has no variance and no signal
            inner[:, 0, 0] += (own.sum(1) * scale + overdispersion * (k - 1)) / k**2
        basis = np.stack([np.ones(marked.shape), marked], axis=2)
        solved = basis / diagonal[:, :, None]
        core = _inverted(np.eye(2) + inner @ (basis.transpose(0, 2, 1) @ solved)) @ inner
        out = -(solved @ core) @ solved.transpose(0, 2, 1)
        out[:, np.arange(k), np.arange(k)] += 1 / diagonal
        return np.asarray(out)

    def _own(self, marked: np.ndarray) -> np.ndarray:
        """Return the variance of the mark of a cell in one report."""
        probability = np.clip(float(self.scheme.low) + self.gap * marked, 0, 1)
        return np.maximum(probability * (1 - probability), self._least)

    @property
    def _between(self) -> tuple[float, float, float]:
        """a, b and c of the covariance a + b (p + r) + c p r of two cells of one report."""
        low, high, k = float(self.scheme.low), float(self.scheme.high), int(self.scheme.cells)
        if self.scheme.kind == "bits":
            return 0.0, 0.0, -(self.gap**2)
        taken = high + (k - 1) * low if self.scheme.kind == "subset" else 1.0  # cells of a report
        with_own = high * (taken - 1) / max(k - 1, 1)
        without = (taken - 1) * (high * (taken - 2) + (1 - high) * taken)
        without /= max((k - 1) * (k - 2), 1)
        return without - low**2, with_own - without - low * self.gap, -(self.gap**2)


def _inverted(matrices: np.ndarray) -> np.ndarray:
    """Return inverses, or pseudoinverses if one is singular (few reports without noise)."""
    try:
        return np.asarray(np.linalg.inv(matrices))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrices))
