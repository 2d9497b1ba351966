"""Euclidean hashes: buckets of random projections, the same on every machine and in every order."""

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

EXACT = 53  # bits of integers that float64 holds
FINE = 8  # bits of a bucket's width, at least
FARTHEST = {2: 2.0**3, 1: 2.0**20}  # entries of lines; those of Cauchy pass it once in 2**20


@dataclass(frozen=True, repr=False)
class Euclidean(Family):
    """Buckets of a random line: k(x, q) is the chance that a bucket holds both.

    Parameters
    ----------
    bandwidth : float
        The width of a bucket, in the unit of distances.
    bounds : Pair
        Public, (low, high), each a number or one for each column: points and queries outside are
        moved to the nearest point inside.
    p : int, default=2
        2 for Euclidean distance or 1 for the sum of absolute differences.
    transform : tuple or None, default=None
        A public matrix A (list of its rows) for the distance |A x - A q|.
    dimension : int, default=0
        Columns of a point, 0 to take it from the bounds.

    Notes
    -----
    **Guarantee.** Over seeds, P(code(x) = code(q)) = P(r) with r = |x - q| / bandwidth, where for p
    = 2 P(r) = erf(1 / (sqrt(2) r)) - r sqrt(2 / pi) (1 - exp(-1 / (2 r**2))), and for p = 1 P(r) =
    2 arctan(1 / r) / pi - r log(1 + 1 / r**2) / pi. Points and lines stand at whole steps so fine
    and so few that no product or sum of a projection is ever rounded: every order of summation
    gives the same bucket. A step is 2**-22 of a side, or less, up to 63 columns.

    References
    ----------
    .. [1] Datar, Immorlica, Indyk and Mirrokni 2004, section 3.

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
        """A line in the columns here, drawn in those of the transform, and an offset."""
        return max(self.dimension, len(self.transform or ())) + 1

    def read(self, owner: str, data: Any) -> Points:
        inside, clipped = self._box.clip(read_points(owner, data, self.dimension))
        out = np.ones((self.dimension + 1, len(inside)))
        out[:-1] = self._box.steps(inside, self._bits).T
        return Points((out,), len(inside), clipped)

    def kernel(self, points: Matrix, queries: Matrix) -> np.ndarray:
        return collision(self._distances(points, queries) / self.bandwidth, self.p)

    def linear(self, draw: Draw) -> np.ndarray:
        """Rows (line, offset) in buckets per step, all multiples of one power of two.

        Parameters
        ----------
        draw : Draw
            TODO.

        Returns
        -------
        ndarray
            Rows (line, offset) in buckets per step, all multiples of one power of two.
        """
        return _linear(self, draw)

    def buckets(self, draw: Draw) -> np.ndarray:
        return self.reachable(self.linear(draw))

    def reachable(self, matrix: np.ndarray) -> np.ndarray:
        """How many buckets the box touches on each line of `linear`.

        Parameters
        ----------
        matrix : ndarray
            TODO.

        Returns
        -------
        ndarray
            How many buckets the box touches on each line of `linear`.
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
        """Of a coordinate: half of the digits, so that lines are as fine as points."""
        return (EXACT - 3 - self.dimension.bit_length()) // 2

    def _longest(self) -> float:
        """The farthest that two points of the box can be apart on a line."""
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
        """The digits after the point of each line, so that twice its reach fits in 2**53."""
        reach = np.abs(slopes).sum(axis=1) * (2.0**self._bits - 1) + 2
        return np.asarray(EXACT - 2 - np.frexp(reach)[1], np.int64)

    def _distances(self, points: Any, queries: Any) -> np.ndarray:
        sides = []
        for data in (points, queries):
            side, _ = self._box.clip(read_points("Euclidean", data, self.dimension))
            sides.append(side if self.transform is None else side @ np.array(self.transform).T)
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(*sides, "euclidean" if self.p == 2 else "cityblock"))


@lru_cache(4)  # a sketch, its releases and the parts of a sum ask for the same ones
def _linear(family: Euclidean, draw: Draw) -> np.ndarray:
    slopes, offsets = family._lines(draw)
    exponents = family._exponents(slopes)
    last = 2**family._bits - 1
    whole_slopes = np.rint(np.ldexp(slopes, exponents[:, None])).astype(np.int64)
    starts = np.rint(np.ldexp(offsets, exponents)).astype(np.int64)
    starts -= whole_slopes.sum(axis=1) * last // 2  # lines cross at the centre of the box
    lowest = starts + np.minimum(whole_slopes, 0).sum(axis=1) * last
    starts -= (lowest >> exponents) << exponents  # so that the first bucket is 0
    both = np.column_stack([whole_slopes, starts]).astype(np.float64)
    matrix: np.ndarray = np.ldexp(both, -exponents[:, None])
    matrix.flags.writeable = False
    return matrix
