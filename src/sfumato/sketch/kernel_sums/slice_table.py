"""Lines through a box with exact bins, and kernel sums read from histograms along them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Self

import numpy as np

from sfumato.core.bounds import BOUNDS, Box, Pair, points
from sfumato.core.linear_algebra import one_numpy_thread
from sfumato.core.storage import Stored
from sfumato.core.typing import Matrix
from sfumato.core.validation import between, integer, optional, positive
from sfumato.kernels.sketch import kernel_sums as slices
from sfumato.sketch.base import SEED
from sfumato.sketch.kernel_sums.radial_kernels import KERNEL, slice_profile
from sfumato.sketch.kernel_sums.stratified_sampling import STRATA, unit_rows

__all__ = ["UNIT", "BinnedDirections", "SliceAnswers", "bins_fit", "usual_resolution"]

UNIT = 16  # integer mass of a point, split between two neighbouring bins
EXACT = 53  # bits of the integers that are exact in float64
POSITIONS = 2**18  # at a time: 2 MiB
POINTS = 4096  # at a time


@dataclass(frozen=True)
class BinnedDirections:
    """Directions, each divided into bins of one width from its own offset.

    box: the bounds of the points. matrix: rows (slope in bins per step of the box, start in bins),
    all multiples of one power of two, so that no product or sum of a position is rounded: every
    order of summation gives the same one. width: number of bins of the longest line.
    """

    box: Box
    matrix: np.ndarray
    width: int

    @classmethod
    def of(cls, box: Box, rows: int, step: float, seed: int, strata: str) -> Self:
        """Lines with bins of width `step`, from the seed alone."""
        units, offsets = unit_rows(rows, box.dimension, seed, strata)
        last = 2.0 ** _bits(box.dimension) - 1
        slopes = units * (box.widths / last / step)
        # Added up in one order, so that no machine rounds it to another power of two.
        extent = np.add.accumulate(np.abs(slopes), axis=1)[:, -1] * last + 3
        digits = EXACT - 1 - np.frexp(extent)[1]
        slopes = np.rint(np.ldexp(slopes, digits[:, None]))
        # Slopes are rounded, so the lowest corner is exact too; it is moved to the offset.
        starts = np.rint(np.ldexp(offsets, digits)) - np.minimum(slopes, 0).sum(axis=1) * last
        matrix = np.ldexp(np.column_stack([slopes, starts]), -digits[:, None])
        farthest = np.maximum(matrix[:, :-1], 0).sum(axis=1) * last + matrix[:, -1]
        return cls(box, matrix, math.floor(farthest.max()) + 2)

    def positions(self, inside: np.ndarray) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Lines, points, and the positions of these points on these lines, block by block."""
        steps = np.ones((self.box.dimension + 1, len(inside)))
        steps[:-1] = self.box.steps(inside, _bits(self.box.dimension)).T
        for first in range(0, len(inside), POINTS):
            part = slice(first, min(first + POINTS, len(inside)))
            block = np.ascontiguousarray(steps[:, part])
            count = max(1, POSITIONS // block.shape[1])
            for row in range(0, len(self.matrix), count):
                rows = slice(row, row + count)
                with one_numpy_thread:
                    positions = self.matrix[rows] @ block
                yield rows, part, positions


def _bits(dimension: int) -> int:
    """Bits of a coordinate: half of the digits, so that slopes are as fine as points."""
    return (EXACT - 3 - dimension.bit_length()) // 2


FINE = 16  # points of a curve in a bin
MOST_CELLS = 2**23  # whose curves take 1 GiB, of 1.4 GiB in all
LINES = 12  # the memory of a kernel's weights, in lines
CACHED = 4  # curves, one per kernel and bandwidth, while they stay below MOST_CELLS together
SPECTRUM = 2**18  # bins whose Fourier transform is in memory at a time
SPLIT_CORRECTION = 1 / 12  # of the second difference: what splitting adds to a smooth curve


class SliceAnswers(Stored, in_files=False):
    """Kernel sums of slices, from the masses of their bins."""

    bandwidth: Annotated[float, positive]
    bounds: Annotated[Pair, BOUNDS]
    rows: Annotated[int, integer(1, 2**20)]
    kernel: Annotated[str, KERNEL]
    resolution: Annotated[float | None, optional(between(0.1, 1024))]
    seed: Annotated[int, SEED]
    strata: Annotated[str, STRATA]

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return len(self.bounds[0])

    @property
    def step(self) -> float:
        """Width of a bin, in the unit of the points."""
        return self.bandwidth / (self.resolution or usual_resolution(self.dimension))

    def estimate(
        self, queries: Matrix, *, kernel: str | None = None, bandwidth: float | None = None
    ) -> np.ndarray:
        """Estimate the kernel sum over all points at every query.

        Parameters
        ----------
        queries : array_like of shape (m, dimension)
            One query per row; those outside the bounds are moved to the nearest point inside.
        kernel : str or None, default=None
            Kernel of the sums; None for that of the sketch.
        bandwidth : float or None, default=None
            Bandwidth of the sums; None for that of the sketch. Bins that are too
            wide for a small bandwidth oversmooth.

        Returns
        -------
        ndarray
            One float64 estimate per query. It may be negative.
        """
        owner = type(self).__name__
        curves = self._curves(*self._requested_kernel(kernel, bandwidth))
        inside, _ = self._lines.box.clip(points(owner, queries, self.dimension))
        out = np.zeros(len(inside))
        for lines, part, positions in self._lines.positions(inside):
            slices.read_slices(positions, float(FINE), curves[lines], out[part])
        return out

    def mean(
        self, queries: Matrix, *, kernel: str | None = None, bandwidth: float | None = None
    ) -> np.ndarray:
        """Estimate the mean kernel over all points at every query.

        Parameters
        ----------
        queries : array_like of shape (m, dimension)
            As in `estimate`.
        kernel : str or None, default=None
            As in `estimate`.
        bandwidth : float or None, default=None
            As in `estimate`.

        Returns
        -------
        ndarray
            `estimate` divided by `size`; NaN if that is 0.
        """
        sums = self.estimate(queries, kernel=kernel, bandwidth=bandwidth)
        return sums / (self.size() or math.nan)

    def size(self) -> float:
        """The total weight of all points."""
        raise NotImplementedError

    @cached_property
    def _lines(self) -> BinnedDirections:
        return BinnedDirections.of(Box(*self.bounds), self.rows, self.step, self.seed, self.strata)

    @cached_property
    def _cached_curves(self) -> dict[tuple[str, float], np.ndarray]:
        return {}

    def _masses(self) -> np.ndarray:
        """The mass in every bin of every line, in points, as float64."""
        raise NotImplementedError

    def _requested_kernel(self, kernel: str | None, bandwidth: float | None) -> tuple[str, float]:
        """Kernel and bandwidth of a query: checked, or those of the sketch."""
        owner = type(self).__name__
        return (
            self.kernel if kernel is None else KERNEL.check(owner, "kernel", kernel),
            self.bandwidth if bandwidth is None else positive.check(owner, "bandwidth", bandwidth),
        )

    def _curves(self, kernel: str, bandwidth: float) -> np.ndarray:
        """For every line its part of the sum at positions 0, 1 / FINE, 2 / FINE .. bins."""
        curves = self._cached_curves.get((kernel, bandwidth))
        if curves is None:  # other threads may make equal ones, or drop them
            room = min(CACHED, MOST_CELLS // (self.rows * self._lines.width)) or 1
            for oldest in list(self._cached_curves)[: max(0, len(self._cached_curves) + 1 - room)]:
                self._cached_curves.pop(oldest, None)
            curves = _convolved(self._masses(), self._weights(kernel, bandwidth))
            self._cached_curves[kernel, bandwidth] = curves
        return curves

    def _weights(self, kernel: str, bandwidth: float) -> np.ndarray:
        """The weight of a bin at a query, by their distance: k + j / FINE bins at [j, k].

        Splitting a point between two bins convolves the slice with a triangle of the step, which
        adds a twelfth of its second difference; that is subtracted.
        """
        ends = (self._lines.width + 1) * FINE
        ratio = np.arange(ends + 1) * (self.step / bandwidth / FINE)
        half = slice_profile(kernel, self.dimension, ratio)
        full = np.concatenate([half[:0:-1], half])
        bent = full[2 * FINE :] - 2 * full[FINE:-FINE] + full[: -2 * FINE]
        even = full[FINE:-FINE] - SPLIT_CORRECTION * bent
        count = 2 * self._lines.width
        return np.ascontiguousarray(even[: count * FINE].reshape(count, FINE).T) / self.rows

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not bins_fit(self.step, self.bounds, self.rows):
            raise ValueError(
                f"{type(self).__name__}: bandwidth is {self.bandwidth!r}, which takes more than "
                f"2**{MOST_CELLS.bit_length() - 1} bins over these bounds; rescale the columns or "
                "widen the bandwidth, or lower rows or resolution."
            )


def bins_fit(step: float, bounds: Pair, rows: int) -> bool:
    """Whether `rows` lines with bins of this width stay within the limit of cells."""
    longest = math.sqrt(float((Box(*bounds).widths ** 2).sum())) / step
    return longest * (rows + LINES) <= MOST_CELLS


def usual_resolution(dimension: int) -> float:
    """Default bins per bandwidth: slices get narrower with the root of the dimension."""
    return 1.25 * math.sqrt(dimension)


def _convolved(masses: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Each row's masses convolved with the weights, at FINE positions per bin.

    weights[j, k] is the weight at a distance of k - width + j / FINE bins.
    """
    from scipy.fft import irfft, next_fast_len, rfft

    rows, width = masses.shape
    size = next_fast_len(3 * width, real=True)
    spectra = rfft(weights, size, axis=1)
    out = np.zeros((rows, width * FINE + 1))
    count = max(1, SPECTRUM // width)
    for first in range(0, rows, count):
        part = out[first : first + count]
        spectrum = rfft(masses[first : first + count], size, axis=1)
        for phase in range(FINE):
            sums = irfft(spectrum * spectra[phase], size, axis=1)
            part[:, phase : width * FINE : FINE] = sums[:, width : 2 * width]
    return out
