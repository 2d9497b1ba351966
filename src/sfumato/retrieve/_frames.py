"""Frames of directions made from a seed, and products with them that no batch changes."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sfumato.kernels import top
from sfumato.kernels.lanes import aligned
from sfumato.sketch._directions import MOST_ENTRIES, dense, directions

__all__ = ["MOST_ENTRIES", "Product", "frame", "padded"]


def frame(kind: str, bits: int, dimension: int, seed: int) -> np.ndarray:
    """The directions of a code, one a row, float32.

    Guarantee: the same numbers on every machine. Those of "tight" satisfy (5.9): W W^T = I for W
    with the directions as columns; where bits < dimension, no frame can, and orthonormal directions
    take its place, as 5.1.1 advises.
    Parameters: kind, "gaussian", "orthogonal", "super-bit" or "tight"; bits, how many; dimension;
    seed.

    >>> w = frame("tight", 6, 2, seed=0)
    >>> np.round(w.T @ w, 6) + 0.0
    array([[1., 0.],
           [0., 1.]], dtype=float32)

    Thesis (5.9).
    """
    if kind == "tight" and bits < dimension:
        kind = "orthogonal"
    return dense(directions(kind, bits, dimension, seed), bits).astype(np.float32)


def padded(count: int, multiple: int) -> int:
    """The smallest multiple that is at least the count."""
    return -(-count // multiple) * multiple


@dataclass(frozen=True)
class Product:
    """Inner products of vectors with the rows of a matrix, laid out for that once.

    Guarantee: each is summed in one written order, so it depends on no other vector. Columns past
    the matrix' rows, up to a multiple of 32, are 0.

    >>> Product.of(np.eye(2, dtype=np.float32))(np.ones((4, 2), np.float32))[0, :3]
    array([1., 1., 0.], dtype=float32)
    """

    panels: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Self:
        """The product with these float32 rows."""
        count, length = rows.shape
        filled = np.zeros((padded(count, top.WIDE), length), np.float32)
        filled[:count] = rows
        panels = aligned((len(filled) // top.WIDE, length, top.WIDE), np.float32)
        panels[...] = filled.reshape(-1, top.WIDE, length).transpose(0, 2, 1)
        return cls(panels)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copied array would not start on a cache line, as the kernels need it.
        rows = self.panels.transpose(0, 2, 1).reshape(-1, self.panels.shape[1])
        return type(self).of, (np.ascontiguousarray(rows),)

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """All products of each vector; how many vectors there are is a multiple of top.ABREAST."""
        out = aligned((len(vectors), len(self.panels) * top.WIDE), np.float32)
        top.every(self.panels, vectors, out)
        return out
