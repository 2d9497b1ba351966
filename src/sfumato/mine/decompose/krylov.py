"""The leading right singular vectors of a matrix, by random blocks (block Lanczos).

The basis of the Krylov space of A'A grows by a block of columns per pass over A, and Ritz values in
it approach the squared singular values from below. The spaces of all passes are used, so that far
fewer passes are needed than with powers of A'A alone.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.mine.decompose.matrices import LANE, Matrix

__all__ = ["BlockLanczos", "leading_by_energy", "leading_vectors"]

WIDE = 128  # rank from which blocks are four lanes wide
DENSE = 4  # lanes of a block where the matrix is dense
PART = 16  # the basis grows by this part of itself between two looks at the Ritz values
# Of a column's norm, by its bytes: shrunk to less, it is made orthogonal a second time.
RATIO = {8: 0.05, 4: 0.5}
ROUNDING = 8  # units of rounding, up to which what is left of a column is rounding
DEPENDENT = 1e-5  # of a Cholesky factor, from which on Householder's method is used
Progress = Callable[[int, int | None], Any]


class BlockLanczos:
    """An orthonormal basis of the Krylov space of A'A, which grows block by block.

    Parameters
    ----------
    matrix : Matrix
        The matrix A, with at least as many rows as columns.
    block : int
        Columns of a block.
    draws : numpy.random.Generator
        Source of the first block, and of directions where a block has fewer than its columns.
    """

    def __init__(self, matrix: Matrix, block: int, draws: np.random.Generator) -> None:
        self.matrix: Matrix
        self.block: int
        self.draws: np.random.Generator
        self.matrix, self.block, self.draws = matrix, min(block, matrix.shape[1]), draws
        self.columns: int = matrix.shape[1]
        self.size = 0
        self._rows = np.empty((0, self.columns), matrix.dtype)  # the basis, one vector per row
        self._projected = np.empty((0, 0))
        self._largest = 0.0  # norm of a product with A'A, by which rounding is judged
        start = draws.standard_normal((self.columns, self.block)).astype(matrix.dtype)
        self._next = self._orthonormal(matrix.gram(start))

    @property
    def complete(self) -> bool:
        """Whether the basis spans all columns, so that Ritz values are exact."""
        return self.size == self.columns

    def extend(self) -> None:
        """Add the next block to the basis: one pass over the matrix."""
        first, block = self.size, self._next
        last = first + block.shape[1]
        self._grow(last)
        self._rows[first:last] = block.T
        product = self.matrix.gram(block)
        basis = self._rows[:last]
        along = basis @ product
        self._projected[:last, first:last] = along
        self._projected[first:last, :last] = along.T
        corner = along[first:last]
        self._projected[first:last, first:last] = (corner + corner.T) / 2
        self.size = last
        if not self.complete:
            self._next = self._orthonormal(product, along)

    def values(self) -> np.ndarray:
        """Ritz values, descending: lower bounds of the squared singular values."""
        found = np.linalg.eigvalsh(self._projected[: self.size, : self.size])
        return np.asarray(np.maximum(found[::-1], 0))

    def vectors(self, rank: int) -> np.ndarray:
        """The Ritz vectors of the `rank` largest values, one per column."""
        _, small = np.linalg.eigh(self._projected[: self.size, : self.size])
        leading = small[:, ::-1][:, :rank].astype(self.matrix.dtype)
        return np.asarray(self._rows[: self.size].T @ leading)

    def _grow(self, size: int) -> None:
        if size <= len(self._rows):
            return
        room = min(max(size, 2 * len(self._rows), 16 * self.block), self.columns)
        rows, projected = np.empty((room, self.columns), self.matrix.dtype), np.zeros((room, room))
        rows[: self.size] = self._rows[: self.size]
        projected[: self.size, : self.size] = self._projected[: self.size, : self.size]
        self._rows, self._projected = rows, projected

    def _orthonormal(self, block: np.ndarray, along: np.ndarray | None = None) -> np.ndarray:
        """Orthonormal columns of a block, orthogonal to the basis; at most those that are left."""
        basis = self._rows[: self.size]
        block = block[:, : self.columns - self.size]
        before = np.sqrt(np.einsum("ij,ij->j", block, block))
        self._largest = max(self._largest, float(before.max()))
        along = basis @ block if along is None else along[:, : block.shape[1]]
        block = block - basis.T @ along
        after = np.sqrt(np.einsum("ij,ij->j", block, block))
        if (after < RATIO[block.dtype.itemsize] * before).any():
            block -= basis.T @ (basis @ block)
            after = np.sqrt(np.einsum("ij,ij->j", block, block))
        if (after > ROUNDING * np.finfo(block.dtype).eps * self._largest).all():
            block /= after
            found = _cholesky_columns(block)
            if found is not None:
                return found
        return self._replaced(block, basis)

    def _replaced(self, block: np.ndarray, basis: np.ndarray) -> np.ndarray:
        """Orthonormal columns of a dependent block, with random ones for those that vanish."""
        found, triangle = np.linalg.qr(block)
        sizes = np.abs(np.diag(triangle))
        least = ROUNDING * np.finfo(block.dtype).eps * self._largest
        vanishing = np.flatnonzero(sizes <= max(least, DEPENDENT * float(sizes.max())))
        found[:, vanishing] = self.draws.standard_normal((self.columns, vanishing.size))
        for _ in range(3):  # random columns may be near the basis where little is left
            found = found - basis.T @ (basis @ found)
            found = np.linalg.qr(found)[0]
        return found


def _cholesky_columns(block: np.ndarray) -> np.ndarray | None:
    """Orthonormal columns by two Cholesky factors; None where columns are nearly dependent."""
    for _ in range(2):
        try:
            lower = np.linalg.cholesky((block.T @ block).astype(np.float64))
        except np.linalg.LinAlgError:
            return None
        sizes = np.diag(lower)
        if sizes.min() < DEPENDENT ** (1 if block.dtype == np.float64 else 0.5) * sizes.max():
            return None
        block = block @ np.linalg.inv(lower).T.astype(block.dtype)
    return block


def _started(matrix: Matrix, rank: int, draws: np.random.Generator) -> BlockLanczos:
    lanes = DENSE if not matrix.is_sparse or rank > WIDE else 1
    return BlockLanczos(matrix, lanes * LANE // matrix.dtype.itemsize, draws)


def leading_vectors(
    matrix: Matrix,
    rank: int,
    tolerance: float,
    draws: np.random.Generator,
    progress: Progress | None = None,
) -> np.ndarray:
    """The `rank` leading right singular vectors of a tall matrix, one per column.

    The basis grows until the sum of the `rank` largest Ritz values, the energy, grows by less than
    `tolerance` of itself, or the basis is complete.
    """
    basis, before, look = _started(matrix, rank, draws), 0.0, rank
    while not basis.complete:
        basis.extend()
        if progress is not None:
            progress(basis.size, None)
        if basis.size <= look:
            continue
        now = float(basis.values()[:rank].sum())
        if now - before <= tolerance * now:
            break
        before, look = now, basis.size + max(basis.size // PART - basis.block, 0)
    return basis.vectors(rank)


def leading_by_energy(
    matrix: Matrix,
    energy: float,
    tolerance: float,
    draws: np.random.Generator,
    progress: Progress | None = None,
) -> np.ndarray:
    """The fewest leading right singular vectors that have a fraction `energy` of the squares."""
    basis, look, wanted = _started(matrix, WIDE + 1, draws), 0, energy * matrix.squares
    before = np.zeros(0)
    while True:
        basis.extend()
        if progress is not None:
            progress(basis.size, None)
        if basis.size <= look and not basis.complete:
            continue
        sums = np.cumsum(basis.values())
        rank = min(int(np.searchsorted(sums, wanted)) + 1, sums.size)
        grown = sums[rank - 1] - before[rank - 1] if rank <= before.size else np.inf
        if basis.complete or (sums[rank - 1] >= wanted and grown <= tolerance * wanted):
            return basis.vectors(rank)
        before, look = sums, basis.size + basis.size // 4
