"""What sketches of one vector share whose float64 cells are linear in it: sums, products, norms."""

import math
from typing import Any, Self

import numpy as np

from sfumato.sketch._base import Merging, Sketch, rounding

__all__ = ["HEAVIEST", "LinearSketch"]

HEAVIEST = 1e140  # the squares of cells up to here can be summed
LARGEST_ENTRY = 8.0  # no cell exceeds the mass times this; Gaussian entries end at 6.8


class LinearSketch(Sketch, in_files=False):
    """A sketch whose cells, times `_scale`, have the vector's norm and inner products on average.

    `mass` is the sum of the sizes of all that was added, whatever cancelled since.
    """

    mass: float
    _cells: np.ndarray

    @property
    def merging(self) -> Merging:
        return rounding("cells are float64, so sums in another order differ by rounding.")

    def norm(self) -> float:
        """The Euclidean norm of the vector."""
        return math.sqrt(self.inner(self))

    def inner(self, other: Self) -> float:
        """The inner product with the vector of a sketch of the same parameters."""
        self._check_same(other, "compare")
        return float(np.dot(self._cells, other._cells)) * self._scale**2

    def distance(self, other: Self) -> float:
        """The Euclidean distance to the vector of a sketch of the same parameters."""
        self._check_same(other, "compare")
        return float(np.linalg.norm(self._cells - other._cells)) * self._scale

    @property
    def _scale(self) -> float:
        return 1.0

    def _heavier(self, added: float) -> float:
        """The mass after an addition; raises before any cell could overflow."""
        mass = self.mass + float(added)
        if not mass <= HEAVIEST:
            raise ValueError(
                f"{type(self).__name__}: the sizes of all that is added must sum to at most "
                f"{HEAVIEST:g}; scale the numbers."
            )
        return mass

    def _join(self, other: Any) -> None:
        self.mass = self._heavier(other.mass)
        super()._join(other)

    def _check_state(self) -> None:
        super()._check_state()
        largest = float(np.abs(self._cells).max(initial=0))
        if not (0 <= self.mass <= HEAVIEST and largest <= LARGEST_ENTRY * self.mass):
            raise ValueError("a cell is larger than all that was added.")
