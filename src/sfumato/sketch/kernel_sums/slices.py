"""Slices: kernel sums of many bandwidths from histograms of the points along directions.

Released slices: private sums of any kernel here, at every query and bandwidth, in one file.
"""

import math
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.core.bounds import Box
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.storage import Cells
from sfumato.core.validation import DELTA, fraction, integer, positive
from sfumato.kernels.sketch import kernel_sums as slices
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest
from sfumato.sketch.base import WeighedRelease
from sfumato.sketch.kernel_sums.base import WeighedPoints
from sfumato.sketch.kernel_sums.noisy_cells import NoisyCells, Reach, planned_cells
from sfumato.sketch.kernel_sums.slice_table import UNIT, SliceAnswers

__all__ = ["KernelSlices", "ReleasedKernelSlices", "count_weight"]


def count_weight(rows: int) -> int:
    """What a point adds to the cell that only counts: it makes the noise larger by 3 % at most."""
    return max(1, UNIT * math.isqrt(rows) // 4)


class ReleasedKernelSlices(SliceAnswers, NoisyCells):
    """Sums of a kernel that may leave the curator; made by `KernelSlices.release`.

    those of the sketch, and the law and scale of the noise.

    Notes
    -----
    **Guarantee.** As its statement says. Over noise, the mean of an estimate is that of the sketch,
    and its standard deviation is `noise_error()`, for queries a few bandwidths inside of the
    bounds, and smaller nearer to them. Estimates may be negative or above the number of points:
    clipping would bias them.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import KernelSlices
    >>> sketch = KernelSlices(1.0, ([0, 0], [9, 9])).update([[5, 5]] * 9000)
    >>> told = sketch.release(epsilon=1, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate([[5, 5]]) - sketch.estimate([[5, 5]])) < 4 * told.noise_error())
    True
    """

    _table: np.ndarray
    _count: np.ndarray
    _of = "KernelSlices"

    def size(self) -> float:
        """The number of points, or their weight: the least noisy mean of count and bins.

        Returns
        -------
        float
            The number of points, or their weight: the least noisy mean of count and bins.
        """
        return self._size

    def noise_error(self, *, kernel: str | None = None, bandwidth: float | None = None) -> float:
        """The standard deviation of the noise of an estimate, over all places in a bin.

        It is the root of the sum of the squared weights of all bins, times that of a cell's noise.

        Parameters
        ----------
        kernel : str or None, default=None
            TODO.
        bandwidth : float or None, default=None
            TODO.

        Returns
        -------
        float
            The standard deviation of the noise of an estimate, over all places in a bin.
        """
        weights = self._weights(*self._asked(kernel, bandwidth))
        squares = float((weights**2).sum()) / len(weights) * self.rows
        return math.sqrt(self._distribution.variance * squares) / UNIT

    @cached_property
    def _size(self) -> float:
        count = count_weight(self.rows)
        lines, cells = UNIT * self.rows, self._table.size
        # Both tell the number, with variances 1 / count**2 and cells / lines**2 of a cell's.
        share = count**2 / (count**2 + lines**2 / cells)
        sums = float(self._table.sum()) / lines
        return float(share * self._count[0] / count + (1 - share) * sums)

    def _masses(self) -> np.ndarray:
        return self._table / UNIT

    def _layout(self) -> dict[str, Cells]:
        return {
            "_table": Cells(np.int64, (self.rows, self._lines.width)),
            "_count": Cells(np.int64, (1,)),
        }


class KernelSlices(WeighedRelease[ReleasedKernelSlices], WeighedPoints, SliceAnswers):
    """Sums of a kernel over all points, from histograms of their projections on lines.

    Parameters
    ----------
    bandwidth : float
        In the unit of the points.
    bounds : object
        (low, high), each a number or one for each column: public; points outside are clipped and
        counted in `clipped`.
    rows : int, default=1024
        Lines, up to 2**20.
    kernel : str, default="p-stable"
        "p-stable", "gaussian" or "exponential".
    resolution : float or None, default=None
        Bins in a bandwidth, 1.25 sqrt(dimension) unless told.
    seed : int, default=0
        Of directions and offsets.
    strata : str, default="stratified"
        "stratified" to spread them evenly, or "independent". Any kernel and bandwidth may be asked
        for. A negative weight removes a point that was added.

    Notes
    -----
    **Guarantee.** Over seeds, the mean of an estimate is the sum of kernel(|x - q| / bandwidth),
    but for what bins of finite width smooth away: k(|z|) is the mean over directions of a function
    of the projection of z alone, with which each histogram is folded. A point adds to two
    neighbouring bins of every line integers that sum to 16, the same on every machine: sketches
    merge bit for bit. At a query on top of a heavy single place a fifth of what that place adds may
    be smoothed away; a higher resolution leaves less.

    References
    ----------
    .. [1] Slicing of radial kernels: Hertrich 2024.

    Examples
    --------
    >>> sketch = KernelSlices(1.0, ([0, 0], [9, 9]), kernel="gaussian").update([[1, 2], [3, 4]])
    >>> sketch.estimate([[2, 3]]).round(2), sketch.exact([[1, 2], [3, 4]], [[2, 3]]).round(2)
    (array([0.74]), array([0.74]))
    """

    def __init__(
        self,
        bandwidth: float,
        bounds: Any,
        *,
        rows: int = 1024,
        kernel: str = "p-stable",
        resolution: float | None = None,
        seed: int = 0,
        strata: str = "stratified",
    ) -> None:
        self._set_parameters(
            bandwidth=bandwidth,
            bounds=bounds,
            rows=rows,
            kernel=kernel,
            resolution=resolution,
            seed=seed,
            strata=strata,
        )
        self._allocate()

    @staticmethod
    @renamed_arguments(most="max_rows")
    def suggest_rows(
        density: float,
        points: int,
        epsilon: float,
        delta: float = 0.0,
        *,
        dimension: int,
        max_rows: int = 2048,
    ) -> int:
        """The rows that make the error of a release about least, from public guesses alone.

        It is the R with the least sum of the variance of the noise, 2 R / epsilon**2 at delta 0,
        and a guess of that of the directions: (4 f / R)**2 on a spiral (up to three dimensions),
        and beyond (f / 2)**2 / R, whose factor differs with data and dimension; f is the sum at a
        usual query. With a delta the noise of an estimate does not grow with R: then `max_rows`.

        Parameters
        ----------
        density : float
            A guess of the mean of the kernel at a usual query, from 0 to 1.
        points : int
            A guess of how many there are.
        epsilon : float
            Of the release.
        delta : float, default=0.0
            Of the release.
        dimension : int
            Of the points.
        max_rows : int, default=2048
            The largest answer.

        Returns
        -------
        int
            The rows that make the error of a release about least, from public guesses alone.

        Examples
        --------
        >>> KernelSlices.suggest_rows(0.03, 245_057, epsilon=0.1, dimension=3)
        205
        """
        owner = "KernelSlices.suggest_rows"
        usual = fraction.check(owner, "density", density) * integer(1).check(
            owner, "points", points
        )
        heard = usual * positive.check(owner, "epsilon", epsilon)
        max_rows = integer(1, 2**20).check(owner, "max_rows", max_rows)
        if DELTA.check(owner, "delta", delta):
            return max_rows
        if integer(1).check(owner, "dimension", dimension) <= 3:
            best = (4 * heard) ** (2 / 3)
        else:
            best = heard / math.sqrt(8)
        return int(max(1, min(max_rows, round(best))))

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None
    ) -> CalibratedRelease[ReleasedKernelSlices]:
        """A private copy with noise on every bin, and on one cell that counts the points.

        Guarantee: (epsilon, delta)-private for one unit: a point of weight w adds to each of R
        lines two non-negative integers that sum to exactly 16 w, and c w to the count. So L1 =
        (16 R + c) w; and as squares of such numbers sum to no more than the square of their sum,
        L2**2 <= (256 R + c**2) w**2. A point exchanged for another moves 16 w off and 16 w onto a
        line, and leaves the count to one of both: L1 <= (32 R + c) w, L2**2 <= (512 R + c**2) w**2.
        c follows from R alone. At delta 0 the noise is discrete Laplace, else whichever of that and
        discrete Gaussian has the smaller variance.
        Parameters: epsilon above 0; delta from 0 to 1; weight, the most that one point weighs,
        public, refused where the sketch holds a heavier one; noise, "laplace" or "gaussian",
        whichever is smaller unless told; options: ledger and dataset, unit, relation,
        contributions, release_id (docs/privacy.md).

        >>> told = KernelSlices(1.0, (0, 9)).update([[1], [2]]).release(epsilon=1)
        >>> told.statement.epsilon, told.statement.ledger
        (1.0, 'unaccounted')
        """
        count, lines = count_weight(self.rows), UNIT * self.rows
        square = UNIT * lines
        reach = Reach(
            lines + count,
            square + count**2,
            2 * lines + count,
            2 * square + count**2,
            weight=weight,
        )
        arrays = {"_table": self._table, "_count": np.array([count * self.total])}
        what = f"{self.rows} x {self._lines.width} bins and a count"
        return planned_cells(
            ReleasedKernelSlices, self.parameters, arrays, request, reach, noise, what
        )

    @property
    def _box(self) -> Box:
        return self._lines.box

    @property
    def _unit(self) -> int:
        return UNIT

    def _add(self, column: np.ndarray, weights: np.ndarray) -> int:
        inside, moved = self._box.clip(column)
        for lines, part, positions in self._lines.positions(inside):
            slices.share_slices(positions, weights[part], UNIT, self._table[lines])
        return moved

    def _forget(self) -> None:
        self._kept.clear()

    def _masses(self) -> np.ndarray:
        return self._table / UNIT

    def _layout(self) -> dict[str, Cells]:
        return {"_table": Cells(np.int64, (self.rows, self._lines.width))}
