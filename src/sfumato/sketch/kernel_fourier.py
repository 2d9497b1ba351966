"""Random Fourier features: sums of kernels from the mean waves of all points, in any dimension."""

import math
from typing import Annotated, Any, Self, Unpack

import numpy as np

from sfumato._require import positive, whole
from sfumato.kernels import waves
from sfumato.kernels.lanes import aligned
from sfumato.sketch._base import SEED, Cells, Sketch
from sfumato.sketch._frequencies import check_turns, steps, turns
from sfumato.sketch._heaviest import WEIGHT, bounded_weight, heaviest
from sfumato.sketch._kernel_sums import kernel_sums
from sfumato.sketch._noisy_cells import Reach, planned_cells
from sfumato.sketch._points import BOUNDS, Box, Pair, points, weighed_points
from sfumato.sketch._radial import KERNEL, profile
from sfumato.sketch._release import Options, Terms
from sfumato.sketch._strata import STRATA
from sfumato.sketch.released_kernel_fourier import (
    FINEST,
    ROWS,
    UNIT,
    ReleasedKernelFourier,
    answers,
)

__all__ = ["KernelFourier"]

TOTAL = whole(-(2**46), 2**46)  # so many points of UNIT each stay below 2**62
BLOCK = 2**14  # points at a time: their steps stay in the second cache
FEATURES = 2**19  # waves of weighted points at a time: 2 MiB
MOST = 2**38  # of the weights of a block, so that float64 sums their waves without rounding
PAIR_L1 = math.isqrt(2 * UNIT**2)  # |c| + |s| <= sqrt(2 (c**2 + s**2)), and whole


class KernelFourier(Sketch):
    """Sums of a kernel over all points, from cosines and sines of their random projections.

    Guarantee: over seeds, the mean of an estimate is the sum of kernel(|x - q| / bandwidth), points
    and queries being rounded to 2**20 steps a side; `rows` independent frequencies leave a standard
    deviation of at most total / sqrt(2 rows). The waves of a point at one frequency are whole
    numbers (c, s) with c**2 + s**2 <= 2**30, exact on every machine: sketches merge bit for bit.
    Parameters: bandwidth, in the unit of the points, at least 2**-14 of the longest side; bounds,
    (low, high), each a number or one for each column: public; points outside are clipped and
    counted in `clipped`; rows, frequencies, up to 2**20, and 2**26 over the columns; kernel,
    "p-stable", "gaussian" or "exponential"; seed, of the frequencies; strata, "stratified" to
    spread them evenly, or "independent". A negative weight removes a point that was added.

    >>> sketch = KernelFourier(1.0, ([0, 0], [9, 9]), rows=4096, kernel="gaussian")
    >>> sketch.update([[1, 2], [3, 4]]).estimate([[1, 2]]).round(1).tolist()
    [1.0]

    Rahimi and Recht 2007; frequencies of "p-stable": a Gaussian vector times a draw from the
    transform of the triangle, since the kernel is E max(0, 1 - |w . (x - q)| / bandwidth).
    """

    bandwidth: Annotated[float, positive]
    bounds: Annotated[Pair, BOUNDS]
    rows: Annotated[int, ROWS]
    kernel: Annotated[str, KERNEL]
    seed: Annotated[int, SEED]
    strata: Annotated[str, STRATA]
    total: int
    clipped: int
    heaviest: int
    _waves: np.ndarray
    _scalars = {"total": 0, "clipped": 0, "heaviest": 0}

    def __init__(
        self,
        bandwidth: float,
        bounds: Any,
        *,
        rows: int = 1024,
        kernel: str = "p-stable",
        seed: int = 0,
        strata: str = "stratified",
    ) -> None:
        self._set_parameters(
            bandwidth=bandwidth, bounds=bounds, rows=rows, kernel=kernel, seed=seed, strata=strata
        )
        self._allocate()

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return len(self.bounds[0])

    def update(self, data: Any, weights: Any = None, *, clip: int | None = None) -> Self:
        """Add every point, by its weight or once.

        Rows are read one by one: what is beyond the bounds is clipped to them, and a row that is
        not all numbers is left out, so that no row is refused or changes another.
        Parameters: weights, whole numbers; clip, a public bound of their size that they are clipped
        to: each weight is then read by itself and none is refused, as a private release needs.
        """
        column, weighted = weighed_points("KernelFourier", data, self.dimension, weights, clip)
        added = len(column) if weighted is None else int(weighted.sum())
        total = TOTAL.check("KernelFourier", "total", self.total + added)
        sizes = None if weighted is None else np.abs(weighted)
        if sizes is not None and sizes.sum() > TOTAL.high:  # sums of more might wrap around
            raise ValueError("KernelFourier: weights of one call must be 2**46 together, at most.")
        sums, outside = np.zeros_like(self._waves), 0
        for start in range(0, len(column), BLOCK):
            part = slice(start, start + BLOCK)
            inside, moved = self._box.clip(column[part])
            self._add(steps(self._box, inside), None if weighted is None else weighted[part], sums)
            outside += moved
        together = self._with(sums)
        self.heaviest = max(self.heaviest, heaviest(sizes, len(column)))
        self._waves[...] = together
        self.total, self.clipped = total, self.clipped + outside
        return self

    def estimate(self, queries: Any) -> np.ndarray:
        """The sum of kernels between every query and all points.

        Queries may be anywhere; those past two thousand sides from the box count as if there.
        """
        asked = points("KernelFourier", queries, self.dimension)
        return answers(self._turns, self._box, self._waves, asked)

    def mean(self, queries: Any) -> np.ndarray:
        """The mean of the kernel over all points; NaN without any."""
        return self.estimate(queries) / (self.total or math.nan)

    def size(self) -> float:
        """The weight of all points."""
        return float(self.total)

    def exact(self, data: Any, queries: Any) -> np.ndarray:
        """The sums that `estimate` estimates, of these points clipped to the bounds, one by one."""
        column = points("KernelFourier", data, self.dimension)
        asked = points("KernelFourier", queries, self.dimension)
        inside, _ = self._box.clip(column)
        return kernel_sums(inside, asked, lambda ratio: profile(self.kernel, ratio), self.bandwidth)

    def release(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        weight: int = 1,
        noise: str | None = None,
        **options: Unpack[Options],
    ) -> ReleasedKernelFourier:
        """A private copy: noise on every sum of cosines and sines, and on the count of points.

        Guarantee: (epsilon, delta)-private for one unit: a point of weight w moves the pair of
        each frequency by at most 2**15 w in length and by floor(sqrt(2) 2**15) w in L1, and the
        count, which is kept w c times, by c w. So L1 = (46340 rows + c) w and L2**2 = (2**30 rows +
        c**2) w**2; an exchanged point moves each pair twice as far. At delta 0 the noise is
        discrete Laplace, else whichever of that and discrete Gaussian has the smaller variance.
        Under Gaussian noise an answer's does not grow with the rows; under Laplace noise it grows
        with their root.
        Parameters: epsilon above 0; delta from 0 to 1; weight, the most that one point weighs,
        public, refused where the sketch holds a heavier one; noise, "laplace" or "gaussian",
        whichever is smaller unless told; options: ledger and dataset, unit, relation,
        contributions, release_id (docs/privacy.md).

        >>> told = KernelFourier(1.0, (0, 9)).update([[1], [2]]).release(epsilon=1)
        >>> told.statement.epsilon, told.statement.ledger
        (1.0, 'unaccounted')
        """
        weight = bounded_weight("KernelFourier", weight, self.heaviest)
        terms = Terms.of("KernelFourier", epsilon, delta, options)
        count_weight = _count_weight(self.rows, bool(delta) and noise != "laplace")
        arrays = {"_waves": self._waves, "_count": np.array([count_weight * self.total])}
        parameters = {**self.parameters, "count_weight": count_weight}
        what = f"{self.rows} x 2 sums of waves and a count"
        reach = _reach(self.rows, count_weight, weight)
        plan = planned_cells(ReleasedKernelFourier, parameters, arrays, terms, reach, noise, what)
        return plan.publish(terms)

    @property
    def _box(self) -> Box:
        return Box(*self.bounds)

    @property
    def _turns(self) -> np.ndarray:
        return turns(self.kernel, self.bandwidth, self._box, self.rows, self.strata, self.seed)

    def _add(self, at: np.ndarray, weights: np.ndarray | None, sums: np.ndarray) -> None:
        if weights is None:
            waves.add(at, self._turns, aligned(2 * waves.PANEL, np.float32), sums)
            return
        width = len(self._turns) * waves.PANEL
        step = max(1, min(FEATURES // (2 * width), MOST // WEIGHT.high))
        for start in range(0, len(at), step):
            part = at[start : start + step]
            features = aligned((len(part), 2, width), np.float32)
            waves.fill(part, self._turns, features)
            flat = features[:, :, : self.rows].reshape(len(part), -1).astype(np.float64)
            weighted = weights[start : start + step].astype(np.float64) @ flat
            sums += weighted.reshape(2, -1).astype(np.int64)

    def _with(self, sums: np.ndarray) -> np.ndarray:
        """The cells with these added, unless one would leave no room for noise."""
        together = self._waves + sums
        if np.abs(together).max(initial=0) >= FINEST:
            raise ValueError("KernelFourier: a cell would pass 2**62; its weights are too large.")
        return np.asarray(together)

    def _layout(self) -> dict[str, Cells]:
        return {"_waves": Cells(np.int64, (2, self.rows))}

    def _check_parameters(self) -> None:
        check_turns("KernelFourier", self.bandwidth, self._box, self.rows)

    def _join(self, other: Self) -> None:
        total = TOTAL.check("KernelFourier", "total", self.total + other.total)
        clipped = self.clipped + other.clipped
        together = self._with(other._waves)
        self.heaviest = max(self.heaviest, other.heaviest)
        self._waves[...] = together
        self.total, self.clipped = total, clipped

    def _check_state(self) -> None:
        TOTAL.check("state", "total", self.total)
        if not (0 <= self.heaviest <= WEIGHT.high and self.clipped >= 0):
            raise ValueError("a count is out of range.")
        if np.abs(self._waves).max() >= FINEST or self._waves.min() == -(2**63):
            raise ValueError("a cell is out of range.")


def _count_weight(rows: int, gaussian: bool) -> int:
    """How often the count of points is kept: it then costs 2 or 3 % of an answer's accuracy."""
    root = math.isqrt(rows)
    return UNIT * max(1, root // 4 if gaussian else root)


def _reach(rows: int, count_weight: int, weight: int) -> Reach:
    return Reach(
        l1=rows * PAIR_L1 + count_weight,
        l2_squared=rows * UNIT**2 + count_weight**2,
        replaced_l1=2 * rows * PAIR_L1 + count_weight,
        replaced_l2_squared=4 * rows * UNIT**2 + count_weight**2,
        weight=weight,
    )
