"""What slices and their release share: parameters, lines, and kernel sums read from curves.

Lines through a box in all directions, with bins; every position on them is exact.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Self

import numpy as np

from sfumato.core.bounds import BOUNDS, Box, Pair, points
from sfumato.core.storage import Stored
from sfumato.core.typing import Matrix
from sfumato.core.validation import between, integer, optional, positive
from sfumato.kernels.sketch import kernel_sums as slices
from sfumato.sketch.base import SEED
from sfumato.sketch.kernel_sums.radial_kernels import KERNEL, slice_profile
from sfumato.sketch.kernel_sums.stratified_sampling import STRATA, unit_rows

__all__ = ["UNIT", "BinnedDirections", "SliceAnswers", "bins_fit", "usual_resolution"]

UNIT = 16  # whole shares of a point that two neighbouring bins divide among them
EXACT = 53  # bits of integers that float64 holds
POSITIONS = 2**18  # at a time: 2 MiB
POINTS = 4096  # at a time


@dataclass(frozen=True)
class BinnedDirections:
    """Directions, each with bins of one width from an offset of its own.

    box: where points are. matrix: rows (slope in bins per step of the box, start in bins), all
    multiples of one power of two so fine and so few that no product or sum of a position is ever
    rounded: every order of summation gives the same one. width: bins of the longest line.
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
        reach = np.add.accumulate(np.abs(slopes), axis=1)[:, -1] * last + 3
        digits = EXACT - 1 - np.frexp(reach)[1]
        slopes = np.rint(np.ldexp(slopes, digits[:, None]))
        # Where all slopes are rounded, the lowest corner is exact too; it comes to the offset.
        starts = np.rint(np.ldexp(offsets, digits)) - np.minimum(slopes, 0).sum(axis=1) * last
        matrix = np.ldexp(np.column_stack([slopes, starts]), -digits[:, None])
        farthest = np.maximum(matrix[:, :-1], 0).sum(axis=1) * last + matrix[:, -1]
        return cls(box, matrix, math.floor(farthest.max()) + 2)

    def positions(self, inside: np.ndarray) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Lines, points, and where these points of the box are on these lines, block by block."""
        steps = np.ones((self.box.dimension + 1, len(inside)))
        steps[:-1] = self.box.steps(inside, _bits(self.box.dimension)).T
        for first in range(0, len(inside), POINTS):
            part = slice(first, min(first + POINTS, len(inside)))
            block = np.ascontiguousarray(steps[:, part])
            count = max(1, POSITIONS // block.shape[1])
            for row in range(0, len(self.matrix), count):
                rows = slice(row, row + count)
                yield rows, part, self.matrix[rows] @ block


def _bits(dimension: int) -> int:
    """Of a coordinate: half of the digits, so that lines are as fine as points."""
    return (EXACT - 3 - dimension.bit_length()) // 2


FINE = 16  # points of a curve in a bin
MOST_CELLS = 2**23  # whose curves take 1 GiB, of 1.4 GiB in all
LINES = 12  # whose memory the weights of a kernel take
KEPT = 4  # curves: of so many kernels and bandwidths, where they stay below MOST_CELLS together
SPECTRUM = 2**18  # bins at a time of which the Fourier transform is held
SHARED = 1 / 12  # of the second difference: what sharing between two bins adds to a smooth curve


class SliceAnswers(Stored, in_files=False):
    """Answers of slices, from the masses of their bins."""

    bandwidth: Annotated[float, positive]
    bounds: Annotated[Pair, BOUNDS]
    rows: Annotated[int, integer(1, 2**20)]
    kernel: Annotated[str, KERNEL]
    resolution: Annotated[float | None, optional(between(0.1, 1024))]
    seed: Annotated[int, SEED]
    strata: Annotated[str, STRATA]

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return len(self.bounds[0])

    @property
    def step(self) -> float:
        """The width of a bin, in the unit of the points."""
        return self.bandwidth / (self.resolution or usual_resolution(self.dimension))

    def estimate(
        self, queries: Matrix, *, kernel: str | None = None, bandwidth: float | None = None
    ) -> np.ndarray:
        """The sum of kernels between every query and all points.

        Queries outside the bounds are moved to the nearest point inside.

        Parameters
        ----------
        queries : array_like
            TODO.
        kernel : str or None, default=None
            Where other than those the slices were made for; bins too wide for a bandwidth make its
            answers smoother than they should be.
        bandwidth : float or None, default=None
            Where other than those the slices were made for; bins too wide for a bandwidth make its
            answers smoother than they should be.

        Returns
        -------
        ndarray
            The sum of kernels between every query and all points.
        """
        owner = type(self).__name__
        curves = self._curves(*self._asked(kernel, bandwidth))
        inside, _ = self._lines.box.clip(points(owner, queries, self.dimension))
        out = np.zeros(len(inside))
        for lines, part, positions in self._lines.positions(inside):
            slices.read_slices(positions, float(FINE), curves[lines], out[part])
        return out

    def mean(
        self, queries: Matrix, *, kernel: str | None = None, bandwidth: float | None = None
    ) -> np.ndarray:
        """The mean of the kernel over all points, `estimate` over `size`; NaN without any.

        Parameters
        ----------
        queries : array_like
            TODO.
        kernel : str or None, default=None
            TODO.
        bandwidth : float or None, default=None
            TODO.

        Returns
        -------
        ndarray
            The mean of the kernel over all points, `estimate` over `size`; NaN without any.
        """
        sums = self.estimate(queries, kernel=kernel, bandwidth=bandwidth)
        return sums / (self.size() or math.nan)

    def size(self) -> float:
        """How many points there are, by weight."""
        raise NotImplementedError

    @cached_property
    def _lines(self) -> BinnedDirections:
        return BinnedDirections.of(Box(*self.bounds), self.rows, self.step, self.seed, self.strata)

    @cached_property
    def _kept(self) -> dict[tuple[str, float], np.ndarray]:
        return {}

    def _masses(self) -> np.ndarray:
        """How many points are in every bin of every line, in float64."""
        raise NotImplementedError

    def _asked(self, kernel: str | None, bandwidth: float | None) -> tuple[str, float]:
        owner = type(self).__name__
        return (
            self.kernel if kernel is None else KERNEL.check(owner, "kernel", kernel),
            self.bandwidth if bandwidth is None else positive.check(owner, "bandwidth", bandwidth),
        )

    def _curves(self, kernel: str, bandwidth: float) -> np.ndarray:
        """For every line its part of the sum at positions 0, 1 / FINE, 2 / FINE .. bins."""
        curves = self._kept.get((kernel, bandwidth))
        if curves is None:  # other threads may make them too, or drop them; they are the same
            room = min(KEPT, MOST_CELLS // (self.rows * self._lines.width)) or 1
            for oldest in list(self._kept)[: max(0, len(self._kept) + 1 - room)]:
                self._kept.pop(oldest, None)
            curves = _convolved(self._masses(), self._weights(kernel, bandwidth))
            self._kept[kernel, bandwidth] = curves
        return curves

    def _weights(self, kernel: str, bandwidth: float) -> np.ndarray:
        """What a bin counts for at a query, by their distance: k + j / FINE bins at [j, k].

        Sharing a point between two bins averages the slice over a triangle of the step, which adds
        a twelfth of its second difference; so much is taken off.
        """
        ends = (self._lines.width + 1) * FINE
        ratio = np.arange(ends + 1) * (self.step / bandwidth / FINE)
        half = slice_profile(kernel, self.dimension, ratio)
        full = np.concatenate([half[:0:-1], half])
        bent = full[2 * FINE :] - 2 * full[FINE:-FINE] + full[: -2 * FINE]
        even = full[FINE:-FINE] - SHARED * bent
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
    """Whether so many lines with bins of this width are few enough to be answered from."""
    longest = math.sqrt(float((Box(*bounds).widths ** 2).sum())) / step
    return longest * (rows + LINES) <= MOST_CELLS


def usual_resolution(dimension: int) -> float:
    """Bins in a bandwidth: slices get narrower with the root of the dimension."""
    return 1.25 * math.sqrt(dimension)


def _convolved(masses: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Each row's sums of masses times weights at their distance, on the fine grid of FINE phases.

    weights[j, k] counts for a distance of k - width + j / FINE bins.
    """
    from scipy.fft import irfft, next_fast_len, rfft

    rows, width = masses.shape
    size = next_fast_len(3 * width, real=True)
    spectra = rfft(weights, size, axis=1)
    out = np.zeros((rows, width * FINE + 1))
    count = max(1, SPECTRUM // width)
    for first in range(0, rows, count):
        part = out[first : first + count]
        spread = rfft(masses[first : first + count], size, axis=1)
        for phase in range(FINE):
            sums = irfft(spread * spectra[phase], size, axis=1)
            part[:, phase : width * FINE : FINE] = sums[:, width : 2 * width]
    return out
