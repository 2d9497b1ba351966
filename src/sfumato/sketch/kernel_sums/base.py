"""Base classes of sketches with integer cells of weighted points, and exact kernel sums.

The exact sums, pair by pair, are the reference that estimates are compared with.
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
    """For each query, the sum over all points of the kernel of their distance in bandwidths."""
    out = np.zeros(len(queries))
    rows = max(1, PAIRS // max(1, len(points)))
    columns = max(1, PAIRS // rows)
    for start in range(0, len(queries), rows):
        block = queries[start : start + rows]
        for first in range(0, len(points), columns):
            far = _distances(points[first : first + columns], block)
            out[start : start + rows] += kernel(far / bandwidth).sum(axis=1)
    return out


def _distances(points: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Distances of queries (rows) and points (columns).

    Differences are squared one coordinate after another, which is exact for points that are close.
    """
    squares = np.zeros((len(queries), len(points)))
    for column in range(points.shape[1]):
        squares += (queries[:, None, column] - points[None, :, column]) ** 2
    return np.asarray(np.sqrt(squares))


MASS = integer(0, 2**46)  # times up to 2**16 per point, cells are at most 2**62


class PointSums(Sketch, in_files=False):
    """A sketch of points in a box, each of which adds integers times its weight to the cells."""

    total: int
    clipped: int
    heaviest: int

    def update(self, data: Any, weights: Column | None = None, *, clip: int | None = None) -> Self:
        """Add points to the sketch.

        Each row is read on its own: coordinates beyond the bounds are clipped to them, and a row
        that is not all numbers is left out. So no row is refused or changes how another is counted.

        Parameters
        ----------
        data : array_like of shape (n, dimension)
            One point per row.
        weights : array_like of shape (n,) or None, default=None
            One integer per point; None for 1 each. A negative weight removes a point.
        clip : int or None, default=None
            Public bound to which the absolute value of each weight is clipped. No weight is then
            refused, as a private release requires.

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
        """Return the total weight of all points.

        Returns
        -------
        float
            The sum of all weights: the number of points, if each weighs 1.
        """
        return float(self.total)

    @property
    def _box(self) -> Box:
        """The bounds of the points."""
        raise NotImplementedError

    def _addition(
        self, column: np.ndarray, weights: np.ndarray | None, added: int, mass: int
    ) -> Callable[[], int]:
        """A function that adds the points to the cells and returns how many of them were clipped.

        Raises before anything changes if a cell could overflow. added: the sum of all weights;
        mass: that of their absolute values.
        """
        raise NotImplementedError


class WeighedPoints(PointSums, in_files=False):
    """A sketch of points in a box, of which each adds at most `_unit` times its weight to a cell.

    `mass` is the sum of the absolute values of all weights, removals included. A subclass names
    this base first and has the parameters kernel and bandwidth, whose limits and order it declares.
    """

    mass: int
    _table: np.ndarray
    _scalars = {"total": 0, "clipped": 0, "heaviest": 0, "mass": 0}

    def exact(self, data: Any, queries: Matrix) -> np.ndarray:
        """Compute the sums that `estimate` approximates, pair by pair.

        Takes time proportional to the number of pairs; for tests and comparisons.

        Parameters
        ----------
        data : array_like of shape (n, dimension)
            Points, which are clipped to the bounds.
        queries : array_like of shape (m, dimension)
            Queries, which are clipped to the bounds.

        Returns
        -------
        ndarray
            One kernel sum per query.
        """
        owner, box, parameters = type(self).__name__, self._box, self.parameters
        inside, _ = box.clip(points(owner, data, box.dimension))
        query_points, _ = box.clip(points(owner, queries, box.dimension))
        return kernel_sums(
            inside,
            query_points,
            lambda ratio: profile(parameters["kernel"], ratio),
            parameters["bandwidth"],
        )

    def _addition(
        self, column: np.ndarray, weights: np.ndarray | None, added: int, mass: int
    ) -> Callable[[], int]:
        # No cell exceeds the unit times the mass, so guarding the mass keeps cells from wrapping.
        new_mass = MASS.check(type(self).__name__, "mass", self.mass + mass)
        each = np.ones(len(column), np.int64) if weights is None else weights

        def written() -> int:
            self.mass = new_mass
            self._forget()
            return self._add(column, each)

        return written

    @property
    def _unit(self) -> int:
        """The integer mass of one point of weight 1."""
        raise NotImplementedError

    def _add(self, column: np.ndarray, weights: np.ndarray) -> int:
        """Add all points to the cells; return how many of them were clipped."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop values cached from cells that have changed."""
        raise NotImplementedError

    def _join(self, other: Self) -> None:
        self.mass = MASS.check(type(self).__name__, "mass", self.mass + other.mass)
        self.heaviest: int = max(self.heaviest, other.heaviest)
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
            raise ValueError("a cell contains more than was added.")
        check_heaviest(self.heaviest, self.mass)
