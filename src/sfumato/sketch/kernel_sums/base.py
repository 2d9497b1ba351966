"""What sketches share whose cells hold whole shares of points: counts, joins, and exact sums.

Sums of a kernel over all points, one by one: what sketches are held against.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from sfumato.core.bounds import Box, points, weighed_points
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import integer
from sfumato.sketch.base import Sketch, check_heaviest, heaviest
from sfumato.sketch.kernel_sums.radial_kernels import profile

__all__ = ["PointSums", "WeighedPoints", "kernel_sums"]

PAIRS = 2**20  # distances at a time: 8 MiB


def kernel_sums(
    points: np.ndarray,
    queries: np.ndarray,
    kernel: Callable[[np.ndarray], np.ndarray],
    bandwidth: float,
) -> np.ndarray:
    """For every query, the sum over all points of the kernel of their distance in bandwidths."""
    out = np.zeros(len(queries))
    rows = max(1, PAIRS // max(1, len(points)))
    columns = max(1, PAIRS // rows)
    for start in range(0, len(queries), rows):
        asked = queries[start : start + rows]
        for first in range(0, len(points), columns):
            far = _distances(points[first : first + columns], asked)
            out[start : start + rows] += kernel(far / bandwidth).sum(axis=1)
    return out


def _distances(points: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Differences are squared one coordinate after another: exact where points are near."""
    squares = np.zeros((len(queries), len(points)))
    for column in range(points.shape[1]):
        squares += (queries[:, None, column] - points[None, :, column]) ** 2
    return np.asarray(np.sqrt(squares))


MASS = integer(0, 2**46)  # so many points, of up to 2**15 shares each, stay below 2**62


class PointSums(Sketch, in_files=False):
    """A sketch of points in a box, to whose cells each adds integers times its weight."""

    total: int
    clipped: int
    heaviest: int

    def update(self, data: Any, weights: Column | None = None, *, clip: int | None = None) -> Self:
        """Add every point, by its whole weight or once.

        Rows are read one by one: what is beyond the bounds is clipped to them, and a row that is
        not all numbers is left out, so that no row is refused or changes another.

        Parameters
        ----------
        data : object
            TODO.
        weights : array_like or None, default=None
            Integers.
        clip : int or None, default=None
            A public bound of their size that they are clipped to: each weight is then read by
            itself and none is refused, as a private release needs.

        Returns
        -------
        Self
            The object itself.
        """
        owner = type(self).__name__
        column, weighted = weighed_points(owner, data, self._box.dimension, weights, clip)
        sizes = None if weighted is None else np.abs(weighted)
        added = len(column) if weighted is None else int(weighted.sum())
        mass = len(column) if sizes is None else int(sizes.sum())
        write = self._addition(column, weighted, added, mass)
        self.heaviest = max(self.heaviest, heaviest(sizes, len(column)))
        self.clipped += write()
        self.total += added
        return self

    def size(self) -> float:
        """The weight of all points.

        Returns
        -------
        float
            The weight of all points.
        """
        return float(self.total)

    @property
    def _box(self) -> Box:
        """Where points are."""
        raise NotImplementedError

    def _addition(
        self, column: np.ndarray, weights: np.ndarray | None, added: int, mass: int
    ) -> Callable[[], int]:
        """What adds the points to the cells, and tells how many had to be clipped.

        Raises where a cell could wrap, before anything is changed. added: the sum of all weights;
        mass: that of their sizes.
        """
        raise NotImplementedError


class WeighedPoints(PointSums, in_files=False):
    """A sketch of points in a box, of which each adds at most `_unit` times its weight to a cell.

    `mass` is the sum of the sizes of all weights, whatever was removed since. A subclass names this
    base first, and has the parameters kernel and bandwidth; their limits and order are its own.
    """

    mass: int
    _table: np.ndarray
    _scalars = {"total": 0, "clipped": 0, "heaviest": 0, "mass": 0}

    def exact(self, data: Any, queries: Matrix) -> np.ndarray:
        """The sums that `estimate` estimates, of these points clipped to the bounds, one by one.

        Parameters
        ----------
        data : object
            TODO.
        queries : array_like
            TODO.

        Returns
        -------
        ndarray
            The sums that `estimate` estimates, of these points clipped to the bounds, one by one.
        """
        owner, box, told = type(self).__name__, self._box, self.parameters
        inside, _ = box.clip(points(owner, data, box.dimension))
        asked, _ = box.clip(points(owner, queries, box.dimension))
        return kernel_sums(
            inside, asked, lambda ratio: profile(told["kernel"], ratio), told["bandwidth"]
        )

    def _addition(
        self, column: np.ndarray, weights: np.ndarray | None, added: int, mass: int
    ) -> Callable[[], int]:
        # No cell exceeds the unit times the mass, so guarding the mass keeps cells from wrapping.
        all_of_it = MASS.check(type(self).__name__, "mass", self.mass + mass)
        each = np.ones(len(column), np.int64) if weights is None else weights

        def written() -> int:
            self.mass = all_of_it
            self._forget()
            return self._add(column, each)

        return written

    @property
    def _unit(self) -> int:
        """What the shares of one point sum to."""
        raise NotImplementedError

    def _add(self, column: np.ndarray, weights: np.ndarray) -> int:
        """Add the shares of all points to the cells; how many points had to be clipped."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop what was made from cells that have changed."""
        raise NotImplementedError

    def _join(self, other: Self) -> None:
        self.mass = MASS.check(type(self).__name__, "mass", self.mass + other.mass)
        self.heaviest = max(self.heaviest, other.heaviest)
        self._forget()
        self._table += other._table
        self.total += other.total
        self.clipped += other.clipped

    def _check_state(self) -> None:
        super()._check_state()
        MASS.check("state", "mass", self.mass)
        if self.clipped < 0 or not abs(self.total) <= self.mass:
            raise ValueError("a count is out of range.")
        most = self.mass * self._unit
        if self._table.max() > most or self._table.min() < -most:
            raise ValueError("a cell holds more than was added.")
        check_heaviest(self.heaviest, self.mass)
