"""A design cohort by cohort: products of its blocks, of as many at a time as memory holds."""

from functools import cached_property

import numpy as np
import scipy.sparse

__all__ = ["Blocks"]

ENTRIES = 2**21  # numbers of a dense part, 16 MiB


class Blocks:
    """The 0/1 matrix of cells by candidates, row j * cells + i for cell i of cohort j.

    `parts` are slices of cohorts that bound the memory: a dense array of cells x cells or of cells
    x candidates for each cohort of a part has at most 2**21 numbers, or is of one cohort.
    Parameters: matrix (cohorts * cells, candidates), sparse; cohorts, its blocks.

    >>> blocks = Blocks(scipy.sparse.csc_matrix(np.eye(4)), 2)
    >>> (blocks @ np.array([1.0, 2, 3, 4])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """

    def __init__(self, matrix: scipy.sparse.csc_matrix, cohorts: int) -> None:
        self._matrix = matrix.tocsr()
        self.cohorts, self.cells = cohorts, matrix.shape[0] // cohorts
        self.candidates = int(matrix.shape[1])
        step = max(1, ENTRIES // (self.cells * max(self.cells, self.candidates)))
        self.parts = [slice(at, min(at + step, cohorts)) for at in range(0, cohorts, step)]

    def __matmul__(self, columns: np.ndarray) -> np.ndarray:
        """Cells from candidates: (M,) gives (cohorts, cells), (M, n) gives (cohorts, cells, n)."""
        product = np.asarray(self._matrix @ columns)
        return product.reshape(self.cohorts, self.cells, *columns.shape[1:])

    def sums(self, values: np.ndarray) -> np.ndarray:
        """What the values (cohorts, cells) of each candidate's cells add up to."""
        return np.asarray(self._matrix.T @ values.reshape(-1))

    def rows(self, part: slice) -> scipy.sparse.csr_matrix:
        """The rows of some cohorts."""
        if len(self.parts) == 1:
            return self._matrix
        return self._matrix[part.start * self.cells : part.stop * self.cells]

    def gram(self, part: slice, weights: np.ndarray) -> np.ndarray:
        """X' W X of some cohorts (M, M); W is symmetric (c, k, k), or a diagonal (c, k)."""
        rows = self.rows(part)
        if weights.ndim == 2:
            return np.asarray((rows.T @ rows.multiply(weights.reshape(-1, 1)).tocsr()).toarray())
        side = self._apart(part).T @ weights.reshape(-1, self.cells)
        turned = side.reshape(-1, self.candidates, self.cells).transpose(0, 2, 1)
        return np.asarray(rows.T @ turned.reshape(-1, self.candidates))

    def spread(self, part: slice, covariance: np.ndarray) -> np.ndarray:
        """X C X' of some cohorts, each by itself (c, k, k)."""
        side = np.asarray(self.rows(part) @ covariance)
        turned = side.reshape(-1, self.cells, self.candidates).transpose(0, 2, 1)
        product = self._apart(part) @ turned.reshape(-1, self.cells)
        return np.asarray(product).reshape(-1, self.cells, self.cells)

    def pairs(self, part: slice, shares: np.ndarray) -> np.ndarray:
        """The share of clients whose candidate has both of two cells (c, k, k)."""
        if len(self.parts) == 1:
            return np.asarray((self._dense * shares) @ self._dense.transpose(0, 2, 1))
        apart, k, count = self._apart(part), self.cells, part.stop - part.start
        both = (apart.multiply(np.tile(shares, count)).tocsr() @ apart.T).tocoo()
        out = np.zeros((count, k, k))
        out[both.row // k, both.row % k, both.col % k] = both.data
        return out

    def _apart(self, part: slice) -> scipy.sparse.csr_matrix:
        return self._all_apart if len(self.parts) == 1 else self._diagonal(part)

    @cached_property
    def _dense(self) -> np.ndarray:
        return np.asarray(self._matrix.toarray()).reshape(-1, self.cells, self.candidates)

    @cached_property
    def _all_apart(self) -> scipy.sparse.csr_matrix:
        return self._diagonal(self.parts[0])

    def _diagonal(self, part: slice) -> scipy.sparse.csr_matrix:
        """The blocks of some cohorts along the diagonal: (c k, c M)."""
        rows, count = self.rows(part), part.stop - part.start
        if count == 1:
            return rows
        cohort = np.repeat(np.arange(len(rows.indptr) - 1) // self.cells, np.diff(rows.indptr))
        columns = rows.indices + self.candidates * cohort
        shape = (rows.shape[0], count * self.candidates)
        return scipy.sparse.csr_matrix((rows.data, columns, rows.indptr), shape=shape)
