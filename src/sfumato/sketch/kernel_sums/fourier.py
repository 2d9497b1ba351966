"""KernelFourier: kernel sums in any dimension from random Fourier features, and its release.

Frequencies are integer fractions of a turn per step of the box, so that phases are exact.
"""

import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import WEIGHT
from sfumato.core.bounds import BOUNDS, Box, Pair, points
from sfumato.core.storage import Cells
from sfumato.core.typing import Matrix
from sfumato.core.validation import fraction, integer, positive
from sfumato.kernels.alignment import aligned
from sfumato.kernels.sketch import trigonometry as waves
from sfumato.kernels.sketch.layout import PANEL
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest
from sfumato.sketch.base import SEED, WeighedRelease
from sfumato.sketch.kernel_sums.base import PointSums, kernel_sums
from sfumato.sketch.kernel_sums.noisy_cells import NoisyCells, Sensitivity, calibrated_cells
from sfumato.sketch.kernel_sums.radial_kernels import KERNEL, frequencies, profile
from sfumato.sketch.kernel_sums.stratified_sampling import STRATA

__all__ = [
    "BITS",
    "KernelFourier",
    "ReleasedKernelFourier",
    "check_turns",
    "outer_steps",
    "steps",
    "turns",
]

BITS = 20  # of a coordinate: a frequency is then off by 2**-13 turns over a side, at most
FARTHEST = 2.0**31 - 1  # steps: two thousand sides away from the box
MAX_FREQUENCIES = 2**26  # rows times columns: 256 MiB, and a few times that during computation
PARTS = 2.0**32  # of a turn


def check_turns(owner: str, bandwidth: float, box: Box, rows: int) -> None:
    """Raise ValueError if phases would be too coarse, or frequencies too many for memory."""
    longest = float(box.widths.max())
    if longest > bandwidth * 2**14:
        raise ValueError(
            f"{owner}: bandwidth must be at least 2**-14 of the longest side, which is "
            f"{longest:g}, not {bandwidth!r}; points are rounded to 2**20 steps per side; "
            "rescale the columns or widen the bandwidth."
        )
    if rows * box.dimension > MAX_FREQUENCIES:
        raise ValueError(
            f"{owner}: rows must be at most {MAX_FREQUENCIES // box.dimension} for {box.dimension} "
            f"columns, not {rows}; more frequencies would not fit into memory."
        )


@lru_cache(8)
def turns(kind: str, bandwidth: float, box: Box, rows: int, strata: str, seed: int) -> np.ndarray:
    """Panels of 16 frequencies: for each coordinate the fraction of a turn per step, modulo a turn.

    The last panel is filled up with frequencies of 0.
    """
    radians = frequencies(kind, rows, box.dimension, seed, strata == "stratified")
    step = box.widths / ((2.0**BITS - 1) * bandwidth)
    parts = np.fmod(np.rint(radians * (step * (PARTS / (2 * math.pi)))), PARTS)
    panels = aligned((-(-rows // PANEL), box.dimension, PANEL), np.uint32)
    filled = np.zeros((len(panels) * PANEL, box.dimension), np.int64)
    filled[:rows] = parts
    panels[...] = filled.reshape(-1, PANEL, box.dimension).transpose(0, 2, 1)  # negative ones wrap
    panels.flags.writeable = False
    return panels


def steps(box: Box, clipped: np.ndarray) -> np.ndarray:
    """Points of the box in integer steps."""
    return np.ascontiguousarray(box.steps(clipped, BITS), np.uint32)


def outer_steps(box: Box, queries: np.ndarray) -> np.ndarray:
    """Any points in integer steps modulo 2**32; those beyond two thousand sides are clipped."""
    with np.errstate(over="ignore"):
        scaled = np.rint((queries - np.array(box.low)) * ((2.0**BITS - 1) / box.widths))
    integer = np.clip(scaled, -FARTHEST, FARTHEST).astype(np.int64)
    return np.asarray(integer.astype(np.uint32))


UNIT = 2**15  # no pair of cosine and sine is longer
FINEST = 2**62
ROUNDING = 2e-4  # of phases to 2**-16 turns, of cosines and sines to integers, at most
ROWS = integer(1, 2**20)


class ReleasedKernelFourier(NoisyCells):
    """Differentially private kernel sums at any query; made by `KernelFourier.release`.

    Attributes
    ----------
    bandwidth : float
        As in `KernelFourier`.
    bounds : Pair
        As in `KernelFourier`.
    rows, seed : int
        As in `KernelFourier`.
    kernel, strata : str
        As in `KernelFourier`.
    count_weight : int
        Integer that a point adds to the cell that counts points.
    noise : {"Laplace", "Gaussian"}
        Distribution of the noise.
    scale : float
        Its scale (sigma, if Gaussian), in units of a cell.
    statement : PrivacyStatement
        Privacy guarantee of the release.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differential privacy as its `statement` says. Over the noise, an
    estimate has the sketch's estimate as its mean, and standard deviation `noise_error()` at every
    query. Estimates may be negative or above the number of points, since clipping would bias them.

    References
    ----------
    .. [1] Rahimi, Recht. "Random Features for Large-Scale Kernel Machines". NIPS 2007.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import KernelFourier
    >>> points = np.random.default_rng(0).normal(5, 1, (100_000, 1))
    >>> sketch = KernelFourier(1.0, (0, 9), rows=256).update(points)
    >>> released = sketch.release(epsilon=1, delta=1e-6, source=InsecureSeededSource(1))
    >>> error = released.estimate([[5]]) - sketch.estimate([[5]])
    >>> bool(abs(error[0]) < 4 * released.noise_error())
    True
    """

    bandwidth: Annotated[float, positive]
    bounds: Annotated[Pair, BOUNDS]
    rows: Annotated[int, ROWS]
    kernel: Annotated[str, KERNEL]
    seed: Annotated[int, SEED]
    strata: Annotated[str, STRATA]
    count_weight: Annotated[int, integer(1, 2**40)]
    _waves: np.ndarray
    _count: np.ndarray
    _of = "KernelFourier"

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return len(self.bounds[0])

    def estimate(self, queries: Matrix) -> np.ndarray:
        """Estimate the kernel sum over all points at every query.

        Parameters
        ----------
        queries : array_like of shape (m, dimension)
            One query per row, inside the bounds or not; distances beyond two thousand sides count
            as two thousand.

        Returns
        -------
        ndarray
            One float64 estimate per query. It may be negative.
        """
        query_points = points("ReleasedKernelFourier", queries, self.dimension)
        return answers(self._turns, Box(*self.bounds), self._waves, query_points)

    def mean(self, queries: Matrix) -> np.ndarray:
        """Estimate the mean kernel over all points at every query.

        Parameters
        ----------
        queries : array_like of shape (m, dimension)
            As in `estimate`.

        Returns
        -------
        ndarray
            `estimate` divided by `size`; NaN if that is 0.
        """
        return self.estimate(queries) / (self.size() or math.nan)

    def size(self) -> float:
        """Estimate the number of points, by weight.

        Returns
        -------
        float
            The noisy count divided by `count_weight`, which also divides the noise of its cell;
            unbiased.
        """
        return float(self._count[0]) / self.count_weight

    def noise_error(self) -> float:
        """Return the standard deviation of the noise of an estimate.

        Returns
        -------
        float
            Standard deviation in points, the same at every query (within a relative 1e-4).
        """
        return math.sqrt(self._distribution.variance / self.rows) / (UNIT - 1)

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of an estimate with a given confidence, noise included.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound is satisfied, between 0 and 1, for each query.

        Returns
        -------
        float
            An upper bound of ``|estimate - true|`` for the kernel sum.

        Notes
        -----
        **Guarantee.** ``|estimate - true| <= error_bound(c)`` with probability at least c for each
        query, over seeds and noise. Half of the failure probability covers the noise and a quarter
        an underestimated number n of points (Chebyshev); the last quarter covers independent
        frequencies: by Hoeffding the mean of `rows` numbers of size at most n exceeds n sqrt(2
        log(2 / p) / rows) with probability at most p. Stratified frequencies err less, but for them
        only the bound 2 n is used.
        """
        miss = 1 - fraction.check("ReleasedKernelFourier", "confidence", confidence)
        most = max(
            0.0, self.size() + 2 * math.sqrt(self._distribution.variance / miss) / self.count_weight
        )
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


TOTAL = integer(-(2**46), 2**46)  # times UNIT, cells stay below 2**62
BLOCK = 2**14  # points at a time: their steps stay in the second cache
FEATURES = 2**19  # waves of weighted points at a time: 2 MiB
MOST = 2**38  # of the weights of a block, so that float64 sums their waves without rounding
PAIR_L1 = math.isqrt(2 * UNIT**2)  # |c| + |s| <= sqrt(2 (c**2 + s**2)), and an integer


class KernelFourier(WeighedRelease[ReleasedKernelFourier], PointSums):
    """Kernel sums over points of any dimension, from cosines and sines of random projections.

    Memory is 16 bytes per row (frequency), whatever the number of points; time is proportional to
    rows times columns for each point and each query.

    Parameters
    ----------
    bandwidth : float
        Bandwidth of the kernel, in the unit of the points; at least 2**-14 of the longest side.
    bounds : tuple of (low, high)
        Public bounds, each a number or one number per column. Points outside are clipped to them.
    rows : int, default=1024
        Number of frequencies, 1 to 2**20; rows times columns is at most 2**26.
    kernel : {"p-stable", "gaussian", "exponential"}, default="p-stable"
        The kernel at ``r = |x - q| / bandwidth``: that of `lsh.Euclidean` with p = 2, exp(-r**2 /
        2) or exp(-r).
    seed : int, default=0
        Seed of the frequencies; part of the file format.
    strata : {"stratified", "independent"}, default="stratified"
        "stratified" spreads the frequencies evenly, "independent" draws them independently.

    Attributes
    ----------
    total : int
        Sum of the weights of all points.
    clipped : int
        Number of points that were moved to the bounds.
    heaviest : int
        Largest absolute value of a weight.

    Notes
    -----
    **Guarantee.** Over seeds, an estimate has expectation ``sum kernel(|x - q| / bandwidth)``,
    where points and queries are rounded to 2**20 steps per side. With `rows` independent
    frequencies its standard deviation is at most total / sqrt(2 rows). The p-stable kernel is the
    mean of ``max(0, 1 - |w . (x - q)| / bandwidth)`` over Gaussian w, so its frequencies are w
    times a draw from the Fourier transform of the triangle.

    At each frequency a point adds integers (c, s) with c**2 + s**2 <= 2**30, the same on every
    machine: merging is exact. A negative weight removes a point that was added.

    References
    ----------
    .. [1] Rahimi, Recht. "Random Features for Large-Scale Kernel Machines". NIPS 2007.
    .. [2] Datar, Immorlica, Indyk, Mirrokni. "Locality-Sensitive Hashing Scheme Based on p-Stable
       Distributions". SoCG 2004. https://doi.org/10.1145/997817.997857

    Examples
    --------
    >>> sketch = KernelFourier(1.0, ([0, 0], [9, 9]), rows=4096, kernel="gaussian")
    >>> sketch.update([[1, 2], [3, 4]]).estimate([[1, 2]]).round(1).tolist()
    [1.0]
    """

    bandwidth: Annotated[float, positive]
    bounds: Annotated[Pair, BOUNDS]
    rows: Annotated[int, ROWS]
    kernel: Annotated[str, KERNEL]
    seed: Annotated[int, SEED]
    strata: Annotated[str, STRATA]
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
        """Number of coordinates of a point."""
        return len(self.bounds[0])

    def estimate(self, queries: Matrix) -> np.ndarray:
        """Estimate the kernel sum over all points at every query.

        Parameters
        ----------
        queries : array_like of shape (m, dimension)
            One query per row, inside the bounds or not; distances beyond two thousand sides count
            as two thousand.

        Returns
        -------
        ndarray
            One float64 estimate per query. It may be negative.
        """
        query_points = points("KernelFourier", queries, self.dimension)
        return answers(self._turns, self._box, self._waves, query_points)

    def mean(self, queries: Matrix) -> np.ndarray:
        """Estimate the mean kernel over all points at every query.

        Parameters
        ----------
        queries : array_like of shape (m, dimension)
            As in `estimate`.

        Returns
        -------
        ndarray
            `estimate` divided by the total weight; NaN if that is 0.
        """
        return self.estimate(queries) / (self.total or math.nan)

    def exact(self, data: Any, queries: Matrix) -> np.ndarray:
        """Compute the sums that `estimate` approximates, pair by pair.

        Takes time proportional to the number of pairs; for tests and comparisons.

        Parameters
        ----------
        data : array_like of shape (n, dimension)
            Points, which are clipped to the bounds.
        queries : array_like of shape (m, dimension)
            Queries, inside the bounds or not.

        Returns
        -------
        ndarray
            One kernel sum per query.
        """
        column = points("KernelFourier", data, self.dimension)
        query_points = points("KernelFourier", queries, self.dimension)
        inside, _ = self._box.clip(column)
        return kernel_sums(
            inside, query_points, lambda ratio: profile(self.kernel, ratio), self.bandwidth
        )

    def transform(self, queries: Matrix) -> np.ndarray:
        """Map points to vectors whose inner products estimate the kernel; nothing is added.

        Parameters
        ----------
        queries : array_like of shape (m, dimension)
            As in `estimate`.

        Returns
        -------
        ndarray of shape (m, 2 * rows)
            Cosines and then sines of all frequencies, over sqrt(rows), in float32.

        Notes
        -----
        **Guarantee.** The inner product of the vectors of two points estimates their kernel as
        `estimate` does: without bias over seeds, with independent frequencies of standard deviation
        at most 1 / sqrt(2 rows). Each vector has length 1.
        """
        query_points = points("KernelFourier", queries, self.dimension)
        panels = self._turns
        out = np.empty((len(query_points), 2 * self.rows), np.float32)
        block = max(1, FEATURES // (2 * len(panels) * PANEL))
        for start in range(0, len(query_points), block):
            part = query_points[start : start + block]
            filled = aligned((len(part), 2, len(panels) * PANEL), np.float32)
            waves.fill(outer_steps(self._box, part), panels, filled)
            used = filled[:, :, : self.rows].reshape(len(part), 2 * self.rows)
            out[start : start + block] = used * np.float32(1 / ((UNIT - 1) * math.sqrt(self.rows)))
        return out

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None
    ) -> CalibratedRelease[ReleasedKernelFourier]:
        """**Guarantee.** (epsilon, delta)-private for one unit under the stated relation.

        A point of weight w changes the pair of each frequency by at most 2**15 w in L2 and by
        floor(sqrt(2) 2**15) w in L1, and the count by c w, where c follows from `rows` and the kind
        of noise. So L1 = (46340 rows + c) w and L2**2 = (2**30 rows + c**2) w**2; replacing a point
        changes each pair by twice as much. With delta 0 the noise is discrete Laplace, otherwise
        the one of discrete Laplace and discrete Gaussian with the smaller variance. Under Gaussian
        noise the noise of an estimate does not grow with the rows; under Laplace noise it grows
        with their square root.
        """
        count_weight = _count_weight(self.rows, bool(request.delta) and noise != "laplace")
        arrays = {"_waves": self._waves, "_count": np.array([count_weight * self.total])}
        parameters = {**self.parameters, "count_weight": count_weight}
        what = f"{self.rows} x 2 sums of waves and a count"
        sensitivity = _sensitivity(self.rows, count_weight, weight)
        return calibrated_cells(
            ReleasedKernelFourier, parameters, arrays, request, sensitivity, noise, what
        )

    @property
    def _box(self) -> Box:
        return Box(*self.bounds)

    @property
    def _turns(self) -> np.ndarray:
        return turns(self.kernel, self.bandwidth, self._box, self.rows, self.strata, self.seed)

    def _addition(
        self, column: np.ndarray, weights: np.ndarray | None, added: int, mass: int
    ) -> Callable[[], int]:
        TOTAL.check("KernelFourier", "total", self.total + added)
        if weights is not None and mass > TOTAL.high:  # sums of more might wrap around
            raise ValueError("KernelFourier: weights of one call must be 2**46 together, at most.")
        sums, outside = np.zeros_like(self._waves), 0
        for start in range(0, len(column), BLOCK):
            part = slice(start, start + BLOCK)
            inside, moved = self._box.clip(column[part])
            self._add(steps(self._box, inside), None if weights is None else weights[part], sums)
            outside += moved
        together = self._with(sums)

        def written() -> int:
            self._waves[...] = together
            return outside

        return written

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
        """The cells with these added; ValueError if one would leave no room for noise."""
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
        self.heaviest: int = max(self.heaviest, other.heaviest)
        self._waves[...] = together
        self.total, self.clipped = total, clipped

    def _check_state(self) -> None:
        TOTAL.check("state", "total", self.total)
        if not (0 <= self.heaviest <= WEIGHT.high and self.clipped >= 0):
            raise ValueError("a count is out of range.")
        if np.abs(self._waves).max() >= FINEST or self._waves.min() == -(2**63):
            raise ValueError("a cell is out of range.")


def _count_weight(rows: int, gaussian: bool) -> int:
    """Integer that a point adds to the count: it costs 2 or 3 % of an answer's accuracy."""
    root = math.isqrt(rows)
    return UNIT * max(1, root // 4 if gaussian else root)


def _sensitivity(rows: int, count_weight: int, weight: int) -> Sensitivity:
    """The sensitivity of all pairs and of the count to one point."""
    return Sensitivity(
        l1=rows * PAIR_L1 + count_weight,
        l2_squared=rows * UNIT**2 + count_weight**2,
        replaced_l1=2 * rows * PAIR_L1 + count_weight,
        replaced_l2_squared=4 * rows * UNIT**2 + count_weight**2,
        weight=weight,
    )
