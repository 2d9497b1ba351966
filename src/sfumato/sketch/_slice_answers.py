"""What slices and their release share: parameters, lines, and kernel sums read from curves."""

import math
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato._require import between, optional, positive, whole
from sfumato.kernels import slices
from sfumato.sketch._base import SEED
from sfumato.sketch._points import BOUNDS, Box, Pair, points
from sfumato.sketch._radial import KERNEL, slice_profile
from sfumato.sketch._slice_lines import Lines
from sfumato.sketch._stored import Stored
from sfumato.sketch._strata import STRATA

__all__ = ["SliceAnswers", "bins_fit", "usual_resolution"]

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
    rows: Annotated[int, whole(1, 2**20)]
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
        self, queries: Any, *, kernel: str | None = None, bandwidth: float | None = None
    ) -> np.ndarray:
        """The sum of kernels between every query and all points.

        Queries outside the bounds are moved to the nearest point inside.
        Parameters: kernel and bandwidth, where other than those the slices were made for; bins too
        wide for a bandwidth make its answers smoother than they should be.
        """
        owner = type(self).__name__
        curves = self._curves(*self._asked(kernel, bandwidth))
        inside, _ = self._lines.box.clip(points(owner, queries, self.dimension))
        out = np.zeros(len(inside))
        for lines, part, positions in self._lines.positions(inside):
            slices.read(positions, float(FINE), curves[lines], out[part])
        return out

    def mean(
        self, queries: Any, *, kernel: str | None = None, bandwidth: float | None = None
    ) -> np.ndarray:
        """The mean of the kernel over all points, `estimate` over `size`; NaN without any."""
        sums = self.estimate(queries, kernel=kernel, bandwidth=bandwidth)
        return sums / (self.size() or math.nan)

    def size(self) -> float:
        """How many points there are, by weight."""
        raise NotImplementedError

    @cached_property
    def _lines(self) -> Lines:
        return Lines.of(Box(*self.bounds), self.rows, self.step, self.seed, self.strata)

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
