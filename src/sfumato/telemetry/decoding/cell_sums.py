"""Sums of candidates by cell and of cells by candidate, in little memory where sets have one cell.

Rows are cells: row j * cells + i is cell i of cohort j.
"""

from __future__ import annotations

from functools import reduce
from typing import Protocol

import numpy as np
import scipy

from sfumato.kernels.telemetry import cell_sums as kernels

__all__ = ["CellSums", "GroupedSums", "SparseSums"]

TABLE = 1024  # cells of a group of cohorts together: tables of them stay in the first cache
CANDIDATES = 2048  # whose codes are computed at a time


class CellSums(Protocol):
    """Products with the 0/1 matrix of cells by candidates."""

    candidates: int

    def marked(self, fractions: np.ndarray) -> np.ndarray:
        """Return the sum of the fractions of the candidates that have each cell."""

    def sums(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of two columns over the cells of each candidate."""

    def cells_of(self, position: int) -> np.ndarray:
        """Return the cells of one candidate."""


class SparseSums:
    """Sums by a sparse matrix of cells by candidates, of any sets."""

    def __init__(self, matrix: scipy.sparse.csc_matrix) -> None:
        self._matrix, self._rows = matrix, matrix.T.tocsr()
        self.candidates: int = int(matrix.shape[1])

    def marked(self, fractions: np.ndarray) -> np.ndarray:
        return np.asarray(self._matrix @ fractions)

    def sums(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self._rows @ first), np.asarray(self._rows @ second)

    def cells_of(self, position: int) -> np.ndarray:
        begin, end = self._matrix.indptr[position : position + 2]
        return np.asarray(self._matrix.indices[begin:end])


class GroupedSums:
    """Sums where each candidate has one cell in every cohort, of several cohorts at a time.

    The cells of the cohorts of a group are the digits of one code of two bytes, so that one look-up
    serves them all: for hashing to 8 cells, 3 cohorts. `members` is (candidates, cohorts).

    >>> sums = GroupedSums(np.array([[0, 1], [1, 1]]), 2)
    >>> sums.marked(np.array([0.25, 0.5])).tolist()
    [0.25, 0.5, 0.0, 0.75]
    >>> sums.sums(np.array([1.0, 2, 3, 4]), np.zeros(4))[0].tolist()
    [5.0, 6.0]
    """

    def __init__(self, members: np.ndarray, cells: int) -> None:
        self._members, self._cells = members, cells
        self.candidates, self._cohorts = members.shape
        self._together = max(n for n in range(1, 11) if n == 1 or cells**n <= TABLE)
        self._groups = -(-self._cohorts // self._together)
        self._codes = np.empty((self._groups, self.candidates), np.uint16)
        for begin in range(0, self.candidates, CANDIDATES):
            part = members[begin : begin + CANDIDATES]
            self._codes[:, begin : begin + CANDIDATES] = self._coded(part).T

    def marked(self, fractions: np.ndarray) -> np.ndarray:
        out = np.zeros((self._groups, self._cells**self._together))
        kernels.add_to_cells(self._codes, fractions, out)
        digits = out.reshape(self._groups, *[self._cells] * self._together)
        axes = range(1, self._together + 1)
        each = [digits.sum(axis=tuple(axis for axis in axes if axis != own)) for own in axes]
        return np.stack(each, axis=1).reshape(-1)[: self._cohorts * self._cells]

    def sums(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        out = np.zeros((2, self.candidates))
        kernels.sum_of_cells(self._codes, self._table(first), self._table(second), out)
        return out[0], out[1]

    def cells_of(self, position: int) -> np.ndarray:
        return np.asarray(self._members[position] + self._cells * np.arange(self._cohorts))

    def _coded(self, members: np.ndarray) -> np.ndarray:
        """Return the codes of candidates (n, groups): the first cohort of a group leads."""
        codes = np.zeros((len(members), self._groups), np.int64)
        for digit in range(self._together):
            codes *= self._cells
            own = members[:, digit :: self._together]
            codes[:, : own.shape[1]] += own
        return codes

    def _table(self, values: np.ndarray) -> np.ndarray:
        """Return the sums of values (cells of all cohorts) over the digits of every code."""
        padded = np.zeros((self._groups * self._together, self._cells))
        padded[: self._cohorts] = values.reshape(self._cohorts, self._cells)
        digits = padded.reshape(self._groups, self._together, self._cells)

        def joined(high: np.ndarray, low: np.ndarray) -> np.ndarray:
            return np.asarray(high[:, :, None] + low[:, None, :]).reshape(self._groups, -1)

        return np.asarray(reduce(joined, digits.transpose(1, 0, 2)))
