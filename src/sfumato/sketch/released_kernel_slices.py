"""Released slices: private sums of any kernel here, at every query and bandwidth, in one file."""

import math
from functools import cached_property

import numpy as np

from sfumato.sketch._base import Cells
from sfumato.sketch._noisy_cells import NoisyCells
from sfumato.sketch._slice_answers import SliceAnswers
from sfumato.sketch._slice_lines import UNIT

__all__ = ["ReleasedKernelSlices", "count_weight"]


def count_weight(rows: int) -> int:
    """What a point adds to the cell that only counts: it makes the noise larger by 3 % at most."""
    return max(1, UNIT * math.isqrt(rows) // 4)


class ReleasedKernelSlices(SliceAnswers, NoisyCells):
    """Sums of a kernel that may leave the curator; made by `KernelSlices.release`.

    Guarantee: as its statement says. Over noise, the mean of an estimate is that of the sketch, and
    its standard deviation is `noise_error()`, for queries a few bandwidths inside of the bounds,
    and smaller nearer to them. Estimates may be negative or above the number of points: clipping
    would bias them.
    Parameters: those of the sketch, and the law and scale of the noise.

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
        """The number of points, or their weight: the least noisy mean of count and bins."""
        return self._size

    def noise_error(self, *, kernel: str | None = None, bandwidth: float | None = None) -> float:
        """The standard deviation of the noise of an estimate, over all places in a bin.

        It is the root of the sum of the squared weights of all bins, times that of a cell's noise.
        """
        weights = self._weights(*self._asked(kernel, bandwidth))
        squares = float((weights**2).sum()) / len(weights) * self.rows
        return math.sqrt(self._law.variance * squares) / UNIT

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
