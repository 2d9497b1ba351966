"""Matrices to decompose: checked, dense or sparse, and multiplied with blocks of columns.

A sparse matrix stays sparse: only blocks of a few columns are dense. Numbers far from 1 are scaled
by a power of two, which is exact, so that squares and their sums neither overflow nor vanish.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy

from sfumato.core.arrays import LARGEST, rows
from sfumato.kernels.alignment import aligned
from sfumato.kernels.mine import sparse_blocks

__all__ = ["Matrix", "fixed_signs", "query_rows", "ratings_matrix"]

LANE = 64  # bytes
FAR = 20  # powers of two from 1 within which nothing is scaled


@dataclass(frozen=True)
class Matrix:
    """A checked matrix, scaled by a power of two.

    Parameters
    ----------
    values : ndarray or csr_array
        Numbers of float32 or float64, each divided by `scale`.
    scale : float, default=1.0
        A power of two.

    Examples
    --------
    >>> Matrix.of("example", [[3, 0], [0, 4]]).norm
    5.0
    """

    values: Any
    scale: float = 1.0

    @classmethod
    def of(cls, owner: str, matrix: Any) -> Self:
        """Check a matrix: finite real numbers, at least one row and one column."""
        checked = _sparse(owner, matrix) if scipy.sparse.issparse(matrix) else _dense(owner, matrix)
        if 0 in checked.shape:
            raise ValueError(
                f"{owner}: matrix must have at least one row and one column, not the shape "
                f"{checked.shape}."
            )
        numbers: Any = checked.data if scipy.sparse.issparse(checked) else checked
        largest = max(float(numbers.max(initial=0)), -float(numbers.min(initial=0)))
        power = int(np.frexp(largest)[1]) if largest else 0
        if abs(power) <= FAR:
            return cls(checked)
        scaled = checked.copy()
        inside: Any = scaled.data if scipy.sparse.issparse(scaled) else scaled
        np.ldexp(inside, -power, out=inside)
        return cls(scaled, float(2.0**power))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.values.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        """Type of the numbers, float32 or float64."""
        return self.values.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether it is stored sparse."""
        return bool(scipy.sparse.issparse(self.values))

    @cached_property
    def squares(self) -> float:
        """Sum of the squares of the scaled numbers."""
        numbers = self.values.data if self.is_sparse else self.values
        numbers = numbers.reshape(-1).astype(np.float64, copy=False)
        return float(numbers @ numbers)

    @property
    def norm(self) -> float:
        """Frobenius norm of the matrix as given."""
        return float(np.sqrt(self.squares)) * self.scale

    def tall(self) -> "Matrix":
        """The matrix, or its transpose where that has fewer columns."""
        if self.shape[0] >= self.shape[1]:
            return self
        turned = self.values.T.tocsr() if self.is_sparse else np.ascontiguousarray(self.values.T)
        return Matrix(turned, self.scale)

    def multiply(self, block: np.ndarray) -> np.ndarray:
        """Return A X for a dense block X of columns."""
        if not self.is_sparse:
            return np.asarray(self.values @ block)
        step, padded = self._padded(block)
        out = aligned((self.shape[0], padded.shape[1]), self.dtype)
        values = self.values
        sparse_blocks.multiply(values.indptr, values.indices, values.data, padded, step, out)
        return out[:, : block.shape[1]]

    def gram(self, block: np.ndarray) -> np.ndarray:
        """Return A' A X for a dense block X of columns, in one pass over a sparse matrix."""
        if not self.is_sparse:
            return np.asarray(self.values.T @ (self.values @ block))
        step, padded = self._padded(block)
        out = aligned((self.shape[1], padded.shape[1]), self.dtype)
        zeros, values = np.zeros(4 * step, self.dtype), self.values
        sparse_blocks.gram(values.indptr, values.indices, values.data, padded, step, zeros, out)
        return out[:, : block.shape[1]]

    def gram_matrix(self) -> np.ndarray:
        """Return A' A as a dense float64 matrix."""
        if not self.is_sparse:
            values = self.values.astype(np.float64, copy=False)
            return np.asarray(values.T @ values)
        out, values = np.zeros((self.shape[1],) * 2), self.values
        sparse_blocks.gram_matrix(values.indptr, values.indices, values.data, out)
        return out

    def _padded(self, block: np.ndarray) -> tuple[int, np.ndarray]:
        """The columns of a lane, and the block with zero columns up to entire lanes."""
        step = LANE // self.dtype.itemsize
        width = -(-block.shape[1] // step) * step
        if block.shape[1] == width and block.flags.c_contiguous and block.dtype == self.dtype:
            return step, block
        padded = aligned((block.shape[0], width), self.dtype)
        padded[:, : block.shape[1]] = block
        return step, padded


def _dense(owner: str, matrix: Any) -> np.ndarray:
    checked = rows(owner, matrix)
    single = getattr(matrix, "dtype", None) == np.float32
    return checked.astype(np.float32) if single else checked


def _sparse(owner: str, matrix: Any) -> Any:
    kind = matrix.dtype
    if kind.kind not in "biuf":
        raise TypeError(f"{owner}: matrix must hold real numbers, not {kind}.")
    if len(matrix.shape) != 2:
        raise ValueError(f"{owner}: matrix must have rows and columns, not {matrix.shape}.")
    single = kind == np.float32
    checked = scipy.sparse.csr_array(matrix, dtype=np.float32 if single else np.float64)
    if not checked.has_canonical_format:  # a position that is stored twice would count twice
        checked = scipy.sparse.csr_array(checked, copy=True)
        checked.sum_duplicates()
    inside = np.isfinite(checked.data) if single else np.abs(checked.data) <= LARGEST
    if not inside.all():
        at = int((~inside).argmax())
        row = int(np.searchsorted(checked.indptr, at, "right")) - 1
        raise ValueError(
            f"{owner}: numbers must be finite and at most {LARGEST:g} in size; row {row}, column "
            f"{int(checked.indices[at])} is not."
        )
    return checked


def query_rows(owner: str, queries: Any, columns: int) -> Any:
    """Check rows of `columns` numbers, one row or several, dense or sparse."""
    if scipy.sparse.issparse(queries):
        checked = _sparse(owner, queries)
    else:
        one = isinstance(queries, np.ndarray | list | tuple) and np.ndim(queries) == 1
        checked = rows(owner, [queries] if one else queries)
    if checked.shape[1] != columns:
        raise ValueError(f"{owner}: rows must have {columns} columns, not {checked.shape[1]}.")
    return checked


def fixed_signs(vectors: np.ndarray) -> np.ndarray:
    """The sign of each row by which its largest number becomes positive."""
    return np.where(-vectors.min(axis=1) > vectors.max(axis=1), -1.0, 1.0)


def ratings_matrix(interactions: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Arrange ratings as a sparse matrix with a row per user and a column per item.

    Parameters
    ----------
    interactions : Interactions
        Ratings, as `sfumato.data.read_interactions` reads them. Ratings of one pair are summed.

    Returns
    -------
    matrix : csr_array
        The ratings; pairs without one are not stored and count as 0.
    users : ndarray
        The id of each row, ascending.
    items : ndarray
        The id of each column, ascending.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> matrix, users, items = ratings_matrix(Interactions(["b", "a"], [7, 9], [5, 3]))
    >>> matrix.toarray(), users.tolist(), items.tolist()
    (array([[0., 3.],
           [5., 0.]]), ['a', 'b'], [7, 9])
    """
    users, row = np.unique(interactions.users, return_inverse=True)
    items, column = np.unique(interactions.items, return_inverse=True)
    values = np.asarray(interactions.ratings, np.float64)
    shape = users.size, items.size
    matrix = scipy.sparse.csr_array(scipy.sparse.coo_array((values, (row, column)), shape=shape))
    matrix.sum_duplicates()
    return matrix, users, items
