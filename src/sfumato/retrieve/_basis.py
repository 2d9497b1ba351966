"""The two matrices behind a code: signs along directions, and sums of atoms by those signs."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from sfumato.kernels import sides, top
from sfumato.kernels.lanes import aligned
from sfumato.retrieve._frames import Product, padded

__all__ = ["Basis"]

ROOM = 2**18  # numbers of a batch and its products: they stay in the second cache


class Basis:
    """Directions, whose signs a code starts from, and atoms, which vectors are rebuilt from.

    Sides are codes as float32 +1 and -1, with columns of 0 up to a multiple of 32; batches have
    rows up to a multiple of 4. Nothing computed here depends on what else is in a batch.
    Parameters: directions and atoms, float32 (bits, dimension) each, or one array as both.

    >>> basis = Basis(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32))
    >>> starts, along = basis.start(np.full((4, 2), 0.5, np.float32))
    >>> starts[0, :3]
    array([1., 1., 0.], dtype=float32)
    """

    def __init__(self, directions: np.ndarray, atoms: np.ndarray) -> None:
        self.directions, self.atoms = directions, atoms
        self.bits, self.dimension = atoms.shape
        self._along = Product.of(directions)
        self.weigh = self._along if atoms is directions else Product.of(atoms)

    @property
    def height(self) -> int:
        """How many rows make a batch."""
        row = 3 * padded(self.bits, top.WIDE) + self.dimension
        return padded(max(1, ROOM // row), top.ABREAST)

    def start(self, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of unit vectors the sides along the directions, and the products with the atoms."""
        along = self._along(unit)
        starts = aligned(along.shape, np.float32)
        sides.sides(along, self.bits, starts)
        return starts, along if self.weigh is self._along else self.weigh(unit)

    def sums(self, words: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """For each batch of packed codes: which they are, the sums W b, and their lengths.

        A length is 0 where W b is nothing but what rounding left of 0. ValueError for words that
        are none of such codes.
        """
        wide = -(-self.bits // 64)
        if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != wide:
            raise ValueError(
                f"Codes: words must be uint64 of shape (n, {wide}), as encode makes them, not "
                f"{words.dtype} of shape {words.shape}."
            )
        for start in range(0, len(words), self.height):
            part = np.ascontiguousarray(words[start : start + self.height])
            codes = np.zeros((padded(len(part), top.ABREAST), padded(self.bits, top.WIDE)), "f4")
            sides.unpack(part, self.bits, codes)
            sums = self._sum(codes)[: len(part)]
            squares = np.empty(len(part))
            sides.products(sums, sums, squares)
            squares[squares < self._nothing] = 0
            yield slice(start, start + len(part)), sums[:, : self.dimension], np.sqrt(squares)

    def squares(self, codes: np.ndarray) -> np.ndarray:
        """|W b|^2 of sides."""
        sums = self._sum(codes)
        out = np.empty(len(codes))
        sides.products(sums, sums, out)
        return out

    @cached_property
    def _sum(self) -> Product:
        return Product.of(np.pad(self.atoms.T, ((0, 0), (0, -self.bits % top.WIDE))))

    @cached_property
    def _nothing(self) -> float:
        return float(np.square(self.atoms, dtype=np.float64).sum()) * 1e-11
