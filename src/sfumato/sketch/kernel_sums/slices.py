"""KernelSlices: kernel sums from histograms of points along many directions, and its release."""

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
from sfumato.sketch.kernel_sums.noisy_cells import NoisyCells, Sensitivity, calibrated_cells
from sfumato.sketch.kernel_sums.slice_table import UNIT, SliceAnswers

__all__ = ["KernelSlices", "ReleasedKernelSlices", "count_weight"]


def count_weight(rows: int) -> int:
    """Integer that a point adds to the count; it increases the noise by at most 3 %."""
    return max(1, UNIT * math.isqrt(rows) // 4)


class ReleasedKernelSlices(SliceAnswers, NoisyCells):
    """Differentially private kernel sums at any query and bandwidth, by `KernelSlices.release`.

    Attributes
    ----------
    bandwidth : float
        As in `KernelSlices`.
    bounds : Pair
        As in `KernelSlices`.
    rows, seed : int
        As in `KernelSlices`.
    kernel, strata : str
        As in `KernelSlices`.
    resolution : float or None
        As in `KernelSlices`.
    noise : {"Laplace", "Gaussian"}
        Distribution of the noise.
    scale : float
        Its scale (sigma, if Gaussian), in units of a cell.
    statement : PrivacyStatement
        Privacy guarantee of the release.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differential privacy as its `statement` says. Over the noise, an
    estimate has the sketch's estimate as its mean; its standard deviation is `noise_error()` for
    queries a few bandwidths inside the bounds and smaller near them. Estimates may be negative or
    above the number of points, since clipping would bias them.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import KernelSlices
    >>> sketch = KernelSlices(1.0, ([0, 0], [9, 9])).update([[5, 5]] * 9000)
    >>> released = sketch.release(epsilon=1, source=InsecureSeededSource(1))
    >>> error = released.estimate([[5, 5]]) - sketch.estimate([[5, 5]])
    >>> bool(abs(error[0]) < 4 * released.noise_error())
    True
    """

    _table: np.ndarray
    _count: np.ndarray
    _of = "KernelSlices"

    def size(self) -> float:
        """Estimate the number of points, by weight.

        Returns
        -------
        float
            The minimum-variance mean of the count and of the sum over all bins; unbiased.
        """
        return self._size

    def noise_error(self, *, kernel: str | None = None, bandwidth: float | None = None) -> float:
        """Return the standard deviation of the noise of an estimate.

        Parameters
        ----------
        kernel : str or None, default=None
            As in `estimate`.
        bandwidth : float or None, default=None
            As in `estimate`.

        Returns
        -------
        float
            Standard deviation in points, averaged (in squares) over all positions within a bin:
            that of a cell's noise times the root of the sum of squared weights of all bins.
        """
        weights = self._weights(*self._requested_kernel(kernel, bandwidth))
        squares = float((weights**2).sum()) / len(weights) * self.rows
        return math.sqrt(self._distribution.variance * squares) / UNIT

    @cached_property
    def _size(self) -> float:
        count = count_weight(self.rows)
        lines, cells = UNIT * self.rows, self._table.size
        # Both estimate the number, with 1 / count**2 and cells / lines**2 of a cell's variance.
        count_fraction = count**2 / (count**2 + lines**2 / cells)
        sums = float(self._table.sum()) / lines
        return float(count_fraction * self._count[0] / count + (1 - count_fraction) * sums)

    def _masses(self) -> np.ndarray:
        return self._table / UNIT

    def _layout(self) -> dict[str, Cells]:
        return {
            "_table": Cells(np.int64, (self.rows, self._lines.width)),
            "_count": Cells(np.int64, (1,)),
        }


class KernelSlices(WeighedRelease[ReleasedKernelSlices], WeighedPoints, SliceAnswers):
    """Kernel sums over points of any dimension, from histograms of their projections on lines.

    One sketch answers any of the kernels at any bandwidth. Memory is rows times bins of 8 bytes,
    whatever the number of points. In up to three columns `KernelGrid` is usually more accurate;
    with many columns `Race` and `KernelFourier` are faster.

    Parameters
    ----------
    bandwidth : float
        Bandwidth of the kernel, in the unit of the points; above 0.
    bounds : tuple of (low, high)
        Public bounds, each a number or one number per column. Points outside are clipped to them.
    rows : int, default=1024
        Number of lines, 1 to 2**20.
    kernel : {"p-stable", "gaussian", "exponential"}, default="p-stable"
        The kernel at ``r = |x - q| / bandwidth``: that of `lsh.Euclidean` with p = 2, exp(-r**2 /
        2) or exp(-r).
    resolution : float or None, default=None
        Bins per bandwidth, 0.1 to 1024; None for 1.25 sqrt(dimension).
    seed : int, default=0
        Seed of directions and offsets; part of the file format.
    strata : {"stratified", "independent"}, default="stratified"
        "stratified" spreads the directions evenly, "independent" draws them independently.

    Attributes
    ----------
    total : int
        Sum of the weights of all points.
    clipped : int
        Number of points that were moved to the bounds.
    heaviest : int
        Largest absolute value of a weight.
    mass : int
        Sum of the absolute values of all weights, removals included.

    Notes
    -----
    **Guarantee.** Over seeds, an estimate has expectation ``sum kernel(|x - q| / bandwidth)``,
    apart from the smoothing by bins of finite width: ``k(|z|)`` is the mean over directions of a
    function of the projection of z alone, with which each histogram is convolved. At a query on top
    of many identical points up to a fifth of their contribution may be smoothed away; a higher
    resolution loses less.

    A point adds integers that sum to 16 to two neighbouring bins of every line, the same on every
    machine: merging is exact. A negative weight removes a point that was added.

    References
    ----------
    .. [1] Hertrich. "Fast kernel summation in high dimensions via slicing and Fourier transforms".
       SIAM Journal on Mathematics of Data Science 6, 2024. https://arxiv.org/abs/2401.08260

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
        """Suggest the number of rows with about the least error of a release, from public guesses.

        Parameters
        ----------
        density : float
            Guess of the mean kernel at a typical query, between 0 and 1.
        points : int
            Guess of the number of points, at least 1.
        epsilon : float
            Epsilon of the release, above 0.
        delta : float, default=0.0
            Delta of the release, from 0 up to but not including 1.
        dimension : int
            Number of columns of the points, at least 1.
        max_rows : int, default=2048
            Largest number to suggest, from 1 to 2**20.

        Returns
        -------
        int
            Number of rows, 1 to `max_rows`.

        Notes
        -----
        It minimises the sum of the variance of the noise, 2 R / epsilon**2 with delta 0, and a
        guess of that of the directions: (4 f / R)**2 on a spiral (up to three dimensions) and (f /
        2)**2 / R beyond, where f = density * points. The constants vary with data and dimension.
        With a positive delta the noise of an estimate does not grow with R, and the result is
        `max_rows`.

        Examples
        --------
        >>> KernelSlices.suggest_rows(0.03, 245_057, epsilon=0.1, dimension=3)
        205
        """
        owner = "KernelSlices.suggest_rows"
        typical_sum = fraction.check(owner, "density", density) * integer(1).check(
            owner, "points", points
        )
        signal = typical_sum * positive.check(owner, "epsilon", epsilon)
        max_rows = integer(1, 2**20).check(owner, "max_rows", max_rows)
        if DELTA.check(owner, "delta", delta):
            return max_rows
        if integer(1).check(owner, "dimension", dimension) <= 3:
            best = (4 * signal) ** (2 / 3)
        else:
            best = signal / math.sqrt(8)
        return int(max(1, min(max_rows, round(best))))

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None
    ) -> CalibratedRelease[ReleasedKernelSlices]:
        """**Guarantee.** (epsilon, delta)-private for one unit under the stated relation.

        A point of weight w adds to each of R lines two non-negative integers that sum to 16 w, and
        c w to the count, where c follows from R alone. So L1 = (16 R + c) w; and since the squares
        of such numbers sum to at most the square of their sum, L2**2 <= (256 R + c**2) w**2.
        Replacing a point moves at most 16 w off and 16 w onto each line, and changes the count by
        at most c w: L1 <= (32 R + c) w and L2**2 <= (512 R + c**2) w**2. With delta 0 the noise is
        discrete Laplace, otherwise the one of discrete Laplace and discrete Gaussian with the
        smaller variance.
        """
        count, lines = count_weight(self.rows), UNIT * self.rows
        square = UNIT * lines
        sensitivity = Sensitivity(
            lines + count,
            square + count**2,
            2 * lines + count,
            2 * square + count**2,
            weight=weight,
        )
        arrays = {"_table": self._table, "_count": np.array([count * self.total])}
        what = f"{self.rows} x {self._lines.width} bins and a count"
        return calibrated_cells(
            ReleasedKernelSlices, self.parameters, arrays, request, sensitivity, noise, what
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
        self._cached_curves.clear()

    def _masses(self) -> np.ndarray:
        return self._table / UNIT

    def _layout(self) -> dict[str, Cells]:
        return {"_table": Cells(np.int64, (self.rows, self._lines.width))}
