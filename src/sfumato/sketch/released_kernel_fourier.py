"""Released Fourier features: private sums of kernels, whose noise is the same for every query."""

import math
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato._require import fraction, positive, whole
from sfumato.kernels import waves
from sfumato.kernels.lanes import aligned
from sfumato.sketch._base import SEED, Cells
from sfumato.sketch._frequencies import check_turns, outer_steps, turns
from sfumato.sketch._noisy_cells import NoisyCells
from sfumato.sketch._points import BOUNDS, Box, Pair, points
from sfumato.sketch._radial import KERNEL
from sfumato.sketch._strata import STRATA

__all__ = ["ReleasedKernelFourier"]

UNIT = 2**15  # no pair of cosine and sine is longer
FINEST = 2**62
ROUNDING = 2e-4  # of phases to 2**-16 turns, of cosines and sines to whole numbers, at most
ROWS = whole(1, 2**20)


class ReleasedKernelFourier(NoisyCells):
    """Sums of a kernel that may leave the curator; made by `KernelFourier.release`.

    Guarantee: as its statement says. Over noise, the mean of an estimate is that of the sketch, and
    its standard deviation is `noise_error()` for every query. Estimates may be negative or above
    the number of points: clipping would bias them.
    Parameters: those of the sketch; count_weight, how often the count of points is kept; and the
    law and scale of the noise.

    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import KernelFourier
    >>> points = np.random.default_rng(0).normal(5, 1, (100_000, 1))
    >>> sketch = KernelFourier(1.0, (0, 9), rows=256).update(points)
    >>> told = sketch.release(epsilon=1, delta=1e-6, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate([[5]]) - sketch.estimate([[5]])) < 4 * told.noise_error())
    True

    Rahimi and Recht 2007.
    """

    bandwidth: Annotated[float, positive]
    bounds: Annotated[Pair, BOUNDS]
    rows: Annotated[int, ROWS]
    kernel: Annotated[str, KERNEL]
    seed: Annotated[int, SEED]
    strata: Annotated[str, STRATA]
    count_weight: Annotated[int, whole(1, 2**40)]
    _waves: np.ndarray
    _count: np.ndarray
    _of = "KernelFourier"

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return len(self.bounds[0])

    def estimate(self, queries: Any) -> np.ndarray:
        """The sum of kernels between every query and all points."""
        asked = points("ReleasedKernelFourier", queries, self.dimension)
        return answers(self._turns, Box(*self.bounds), self._waves, asked)

    def mean(self, queries: Any) -> np.ndarray:
        """The mean of the kernel over all points: `estimate` over `size`."""
        return self.estimate(queries) / (self.size() or math.nan)

    def size(self) -> float:
        """The number of points, or their weight; its noise is that of one cell, much reduced."""
        return float(self._count[0]) / self.count_weight

    def noise_error(self) -> float:
        """The standard deviation of the noise of an estimate, for every query (within 1e-4)."""
        return math.sqrt(self._law.variance / self.rows) / (UNIT - 1)

    def error_bound(self, confidence: float = 0.99) -> float:
        """What an estimate may be off by, with this probability for each query.

        Half of the chance goes to the noise, a quarter to the number n of points being told too low
        (Chebyshev) and a quarter to independent frequencies: the mean of `rows` numbers within n
        passes n sqrt(2 log(2 / p) / rows) with chance at most p (Hoeffding). Stratified ones err
        less, but of them only 2 n is proved.
        """
        miss = 1 - fraction.check("ReleasedKernelFourier", "confidence", confidence)
        most = max(0.0, self.size() + 2 * math.sqrt(self._law.variance / miss) / self.count_weight)
        off = 2.0
        if self.strata == "independent":
            off = min(off, math.sqrt(2 * math.log(8 / miss) / self.rows) + ROUNDING)
        return most * off + self.noise_error() * 1.0001 * math.sqrt(2 / miss)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_turns("ReleasedKernelFourier", self.bandwidth, Box(*self.bounds), self.rows)

    @cached_property
    def _turns(self) -> np.ndarray:
        box = Box(*self.bounds)
        return turns(self.kernel, self.bandwidth, box, self.rows, self.strata, self.seed)

    def _layout(self) -> dict[str, Cells]:
        return {"_waves": Cells(np.int64, (2, self.rows)), "_count": Cells(np.int64, (1,))}


def answers(panels: np.ndarray, box: Box, sums: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The mean over frequencies of C cos + S sin, where C and S are sums over points."""
    rows = sums.shape[1]
    cells = aligned((2, len(panels) * waves.PANEL), np.float64)
    cells[:, :rows] = sums
    out = np.empty(len(queries))
    waves.answer(outer_steps(box, queries), panels, cells, out)
    return np.asarray(out / (rows * (UNIT - 1.0) ** 2))
