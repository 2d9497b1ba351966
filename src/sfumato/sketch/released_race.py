"""A released RACE sketch: private kernel sums at any query, unbiased, at no further cost."""

import math
from functools import cached_property
from typing import Annotated

import numpy as np

from sfumato._require import fraction, whole
from sfumato.sketch._base import Cells
from sfumato.sketch._noisy_cells import NoisyCells
from sfumato.sketch._race_table import GROUPS, RaceTable

__all__ = ["ReleasedRace"]

SIZE = 1 / 16  # of a chance to miss, for the number of points being told too low


class ReleasedRace(RaceTable, NoisyCells):
    """Kernel sums that may leave the curator; made by `Race.release`.

    Guarantee: as its statement says. Every estimate is unbiased over seeds and noise; noise is not
    clipped or rounded, so that sums may be below 0 or above the number of points. Queries outside
    the bounds are moved to the nearest point inside.
    Parameters: those of the sketch; counts, cells that hold only the number of points; the law and
    scale of the noise.

    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import Race
    >>> from sfumato.sketch.lsh import Euclidean
    >>> family = Euclidean(bandwidth=1.0, bounds=(0, 10), dimension=2)
    >>> told = Race(64, 256, family).update([[5, 5]] * 9000).release(
    ...     epsilon=1, source=InsecureSeededSource(1)
    ... )
    >>> bool(abs(told.estimate([[5, 5]])[0] - 9000) < 5 * told.noise_error())
    True

    Coleman and Shrivastava 2020, algorithms 1 and 2, without their rounding down.
    """

    counts: Annotated[int, whole(0, 2**20)]
    _counts: np.ndarray
    _of = "Race"

    def size(self) -> float:
        """How many points there are, by weight: the least noisy mean of row sums and counts."""
        return self._size

    def noise_error(self) -> float:
        """The standard deviation of the noise in an estimate by the mean; no hash's error."""
        scales, _, collided = self._coefficients(1)
        shares, each = self._size_shares()
        share = float(collided[0])
        own = scales / self.rows - share * shares
        others = (self._hashes.used - 1) * (share * shares) ** 2
        cells = float((own**2).sum() + others.sum()) + self.counts * (share * each) ** 2
        return math.sqrt(cells * self._law.variance)

    def error_bound(
        self,
        confidence: float = 0.99,
        *,
        spread: float | None = None,
        combine: str = "mean",
        groups: int = GROUPS,
    ) -> float:
        """What an estimate may be off by, with this probability for each query, noise included.

        Parameters: confidence between 0 and 1; spread, the sum of sqrt(k(x, q)) over all points
        (the largest, in a weighted sum of kernels), or a bound of it; unless known, the number of
        points, which no spread exceeds; combine and groups, as in `estimate`. Stratified rows and
        weighted sums are better than their bound, by Chebyshev from one row alone, tells.

        Coleman and Shrivastava 2020, theorem 3.4, with the binomial law ("median"); Bernstein and
        Chernoff ("mean").
        """
        miss = 1 - fraction.check("ReleasedRace", "confidence", confidence)
        unsure = self._size_error / math.sqrt(SIZE * miss)  # Chebyshev
        most = max(self.size() + unsure, 0.0)
        return self._bound((1 - SIZE) * miss, most, unsure, self._law, spread, combine, groups)

    @cached_property
    def _size(self) -> float:
        shares, each = self._size_shares()
        sums = [float(row[:used].sum()) for row, used in zip(self._table, self._used, strict=True)]
        return float(np.dot(shares, sums) + each * self._counts.sum())

    @property
    def _size_error(self) -> float:
        return math.sqrt(self._size_shares()[1] * self._law.variance)

    @property
    def _used(self) -> np.ndarray:
        return self._hashes.used

    def _size_shares(self) -> tuple[np.ndarray, float]:
        """The factor of each row's sum and of each count in the number of points.

        A row's sum has the noise of all its cells, so that it counts for one cell's share of it;
        with these factors the variance is that of one cell times the last.
        """
        each = 1 / (float((1 / self._used).sum()) + self.counts)
        return each / self._used, each

    def _layout(self) -> dict[str, Cells]:
        return {
            "_table": Cells(np.int64, (self.rows, self.width)),
            "_counts": Cells(np.int64, (self.counts,)),
        }
