"""Euclidean: p-stable hash functions, with the same buckets on every machine."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.core.arrays import LARGEST, rows
from sfumato.core.bounds import Box, Pair
from sfumato.core.bounds import points as read_points
from sfumato.core.typing import Matrix
from sfumato.core.validation import checked, integer, positive
from sfumato.sketch.kernel_sums.stratified_sampling import normal_rows
from sfumato.sketch.lsh.base import Draw, Family, Points
from sfumato.sketch.projection.directions import dense, directions
from sfumato.sketch.similarity.p_stable import collision_probability as collision
from sfumato.sketch.similarity.row_codes import DIMENSION

__all__ = ["Euclidean"]

EXACT = 53  # bits of the integers that are exact in float64
FINE = 8  # bits of a bucket's width, at least
FARTHEST = {2: 2.0**3, 1: 2.0**20}  # entries of lines; those of Cauchy pass it once in 2**20


@dataclass(frozen=True, repr=False)
class Euclidean(Family):
    """Points by their distance: two collide if a random projection puts them into one bucket.

    The kernel decreases with the Euclidean (p = 2) or Manhattan (p = 1) distance and is 1 at
    distance 0. It is the usual choice for points of up to a few dozen columns.

    Parameters
    ----------
    bandwidth : float
        Width of a bucket, in the unit of distances; above 0.
    bounds : Pair
        Public bounds (low, high), each a number or one number per column. Points and queries
        outside are moved to the nearest point inside.
    p : {1, 2}, default=2
        2 for the Euclidean distance, 1 for the sum of absolute differences.
    transform : tuple or None, default=None
        Public matrix A, as its rows, for the distance ``|A x - A q|``; see `whitened` and
        `separating`.
    dimension : int, default=0
        Number of columns of a point; 0 to take it from the bounds.

    Notes
    -----
    **Guarantee.** Over seeds, ``P(code(x) = code(q)) = P(r)`` with ``r = |x - q| / bandwidth``. For
    p = 2, ``P(r) = erf(1 / (sqrt(2) r)) - r sqrt(2 / pi) (1 - exp(-1 / (2 r**2)))``; for p = 1,
    ``P(r) = 2 arctan(1 / r) / pi - r log(1 + 1 / r**2) / pi``.

    Coordinates and projections are rounded to multiples of a power of two, so that no product or
    sum of a projection is rounded further: any order of summation gives the same bucket. A step is
    at most 2**-22 of a side, for up to 63 columns.

    References
    ----------
    .. [1] Datar, Immorlica, Indyk, Mirrokni. "Locality-Sensitive Hashing Scheme Based on p-Stable
       Distributions". SoCG 2004, section 3 (hash functions and their collision probability).
       https://doi.org/10.1145/997817.997857

    Examples
    --------
    >>> family = Euclidean(bandwidth=5.0, bounds=(0, 255), dimension=3)
    >>> family.kernel([[0, 0, 0]], [[0, 0, 0], [3, 4, 0]]).round(3).tolist()
    [[1.0, 0.369]]
    """

    bandwidth: float
    bounds: Pair
    p: int = 2
    transform: tuple[tuple[float, ...], ...] | None = None
    dimension: int = 0
    name = "euclidean"

    def __post_init__(self) -> None:
        checked(self, {"bandwidth": positive, "p": integer(1, 2), "dimension": DIMENSION})
        box = Box.of("Euclidean", self.bounds, self.dimension or None)
        object.__setattr__(self, "bounds", box.bounds)
        object.__setattr__(self, "dimension", box.dimension)
        if self.transform is not None:
            matrix = rows("Euclidean: transform", self.transform, self.dimension)
            object.__setattr__(self, "transform", tuple(tuple(row) for row in matrix.tolist()))
        # No side over a bandwidth may be infinite: lines that a transform shrinks would be NaN.
        least = max(self._longest() * 2.0 ** (FINE + 3 - EXACT), 1 / LARGEST)
        if not least <= self.bandwidth:
            raise ValueError(
                f"Euclidean: bandwidth must be at least {least:g} for these bounds, not "
                f"{self.bandwidth!r}: buckets would be finer than the steps of float64."
            )

    @property
    def entries(self) -> int:
        """Number of float64 values of one row: a projection vector and an offset."""
        return max(self.dimension, len(self.transform or ())) + 1

    def read(self, owner: str, data: Any) -> Points:
        inside, clipped = self._box.clip(read_points(owner, data, self.dimension))
        out = np.ones((self.dimension + 1, len(inside)))
        out[:-1] = self._box.steps(inside, self._bits).T
        return Points((out,), len(inside), clipped)

    def kernel(self, points: Matrix, queries: Matrix) -> np.ndarray:
        return collision(self._distances(points, queries) / self.bandwidth, self.p)

    def linear(self, draw: Draw) -> np.ndarray:
        """Return the projections and offsets as one matrix.

        Parameters
        ----------
        draw : Draw
            The hash functions.

        Returns
        -------
        ndarray
            Rows (slopes, offset) in buckets per step of a coordinate, each a multiple of a power of
            two.
        """
        return _linear(self, draw)

    def buckets(self, draw: Draw) -> np.ndarray:
        """Count the buckets of each row.

        Parameters
        ----------
        draw : Draw
            The hash functions.

        Returns
        -------
        ndarray
            For each row the int64 number of buckets that points within the bounds can fall into.
        """
        return self.reachable(self.linear(draw))

    def reachable(self, matrix: np.ndarray) -> np.ndarray:
        """Count the buckets that the bounds intersect, for each row of `linear`.

        Parameters
        ----------
        matrix : ndarray
            Rows (slopes, offset), as `linear` returns them.

        Returns
        -------
        ndarray
            One int64 count per row.
        """
        farthest = np.maximum(matrix[:, :-1], 0).sum(axis=1) * (2.0**self._bits - 1)
        return np.asarray(np.floor(farthest + matrix[:, -1]), np.int64) + 1

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        return np.asarray((self.linear(draw)[rows] @ points.parts[0]).T, np.int64)

    @property
    def _box(self) -> Box:
        return Box(*self.bounds)

    @property
    def _bits(self) -> int:
        """Bits of a coordinate: half of the digits, so that slopes are as fine as points."""
        return (EXACT - 3 - self.dimension.bit_length()) // 2

    def _longest(self) -> float:
        """Largest distance of two points of the box along a projection."""
        sides = self._box.widths
        if self.transform is not None:
            sides = np.abs(np.array(self.transform)) * sides
        return FARTHEST[self.p] * float(sides.sum())

    def _lines(self, draw: Draw) -> tuple[np.ndarray, np.ndarray]:
        """Slopes in buckets per step, and offsets in buckets."""
        inner = self.dimension if self.transform is None else len(self.transform)
        lines, offsets = normal_rows(draw.rows, inner, draw.seed, draw.strata)
        if self.p == 1:
            lines = dense(directions("cauchy", draw.rows, inner, draw.seed), draw.rows)
            lines = np.clip(lines, -FARTHEST[1], FARTHEST[1])
        if self.transform is not None:
            # One column after the other: a matrix product may add in another order elsewhere.
            columns = zip(lines.T, self.transform, strict=True)
            lines = sum(column[:, None] * np.array(row) for column, row in columns)
        return lines * (self._box.widths / (2.0**self._bits - 1) / self.bandwidth), offsets

    def _exponents(self, slopes: np.ndarray) -> np.ndarray:
        """Binary digits after the point of each slope: twice the extent fits into 2**53."""
        extent = np.abs(slopes).sum(axis=1) * (2.0**self._bits - 1) + 2
        return np.asarray(EXACT - 2 - np.frexp(extent)[1], np.int64)

    def _distances(self, points: Any, queries: Any) -> np.ndarray:
        """Distances of clipped points (rows) and queries (columns), after the transform."""
        sides = []
        for data in (points, queries):
            side, _ = self._box.clip(read_points("Euclidean", data, self.dimension))
            sides.append(side if self.transform is None else side @ np.array(self.transform).T)
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(*sides, "euclidean" if self.p == 2 else "cityblock"))


@lru_cache(4)  # a sketch, its releases and the parts of a sum request the same ones
def _linear(family: Euclidean, draw: Draw) -> np.ndarray:
    """The matrix of `Euclidean.linear`, rounded so that its products are exact."""
    slopes, offsets = family._lines(draw)
    exponents = family._exponents(slopes)
    last = 2**family._bits - 1
    integer_slopes = np.rint(np.ldexp(slopes, exponents[:, None])).astype(np.int64)
    starts = np.rint(np.ldexp(offsets, exponents)).astype(np.int64)
    starts -= integer_slopes.sum(axis=1) * last // 2  # lines cross at the centre of the box
    lowest = starts + np.minimum(integer_slopes, 0).sum(axis=1) * last
    starts -= (lowest >> exponents) << exponents  # so that the first bucket is 0
    both = np.column_stack([integer_slopes, starts]).astype(np.float64)
    matrix: np.ndarray = np.ldexp(both, -exponents[:, None])
    matrix.flags.writeable = False
    return matrix
