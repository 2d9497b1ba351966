"""Products with a matrix that stays, computed by the calling thread alone."""

import numpy as np

from sfumato.kernels.lanes import aligned
from sfumato.kernels.top import ABREAST, WIDE, every

__all__ = ["Factor"]


class Factor:
    """A matrix that rows are multiplied with, again and again, in single precision.

    BLAS shares a product out to threads of its own. Where all cores have a block of users already,
    these wait for each other: on two busy cores decoding took eight times as long.

    >>> Factor(np.arange(6.0).reshape(2, 3)).after(np.array([[1, 1], [0, 2]]))
    array([[ 3.,  5.,  7.],
           [ 6.,  8., 10.]], dtype=float32)
    """

    def __init__(self, matrix: np.ndarray) -> None:
        inner, self._columns = matrix.shape
        panels = -(-self._columns // WIDE)
        wide = np.zeros((inner, panels * WIDE), np.float32)
        wide[:, : self._columns] = matrix
        self._panels = aligned((panels, inner, WIDE), np.float32)
        self._panels[:] = wide.reshape(inner, panels, WIDE).transpose(1, 0, 2)

    def after(self, rows: np.ndarray) -> np.ndarray:
        """rows @ matrix."""
        count = len(rows)
        queries = np.zeros((-(-count // ABREAST) * ABREAST, rows.shape[1]), np.float32)
        queries[:count] = rows
        out = np.empty((len(queries), self._panels.shape[0] * WIDE), np.float32)
        every(self._panels, queries, out)
        return out[:count, : self._columns]
