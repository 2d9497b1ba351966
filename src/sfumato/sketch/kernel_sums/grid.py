"""KernelGrid: kernel sums in up to four dimensions from points assigned to a grid; its release."""

import math
import operator
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import numpy as np

from sfumato.core.bounds import BOUNDS, Box, Pair, points
from sfumato.core.storage import Cells, Stored
from sfumato.core.typing import Matrix
from sfumato.core.validation import between, one_of, optional, positive
from sfumato.kernels.sketch import kernel_sums as grid
from sfumato.privacy.noise.discrete import ROOM
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.release import CalibratedRelease, ReleaseOptions, ReleaseRequest
from sfumato.sketch.base import SEED, WeighedRelease
from sfumato.sketch.kernel_sums.base import WeighedPoints
from sfumato.sketch.kernel_sums.grid_field import MOST, Nodes, at, field, four_axes, node_weights
from sfumato.sketch.kernel_sums.grid_levels import Levels, approximate_error, tuned_levels
from sfumato.sketch.kernel_sums.noisy_cells import NoisyCells, calibrated_cells
from sfumato.sketch.kernel_sums.radial_kernels import KERNEL

if TYPE_CHECKING:
    from sfumato.sketch.kernel_sums.grid_adaptive import ReleasedAdaptiveGrid

__all__ = ["GridAnswers", "KernelGrid", "ReleasedKernelGrid"]

CACHED = 4  # fields, one per kernel and bandwidth


class GridAnswers(Stored, in_files=False):
    """Kernel sums of a grid, from the masses of its nodes."""

    bandwidth: Annotated[float, positive]
    bounds: Annotated[Pair, BOUNDS]
    kernel: Annotated[str, KERNEL]
    resolution: Annotated[float | None, optional(between(0.5, 64.5))]
    seed: Annotated[int, SEED]

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return len(self.bounds[0])

    def estimate(
        self, queries: Matrix, *, kernel: str | None = None, bandwidth: float | None = None
    ) -> np.ndarray:
        """Estimate the kernel sum over all points at every query.

        The first call for a kernel and bandwidth takes seconds on a large grid; further ones take a
        microsecond per query.

        Parameters
        ----------
        queries : array_like of shape (m, dimension)
            One query per row; those outside the bounds are moved to the nearest point inside.
        kernel : str or None, default=None
            Kernel of the sums; None for that of the sketch.
        bandwidth : float or None, default=None
            Bandwidth of the sums; None for that of the sketch. It must be at
            least the distance of two nodes.

        Returns
        -------
        ndarray
            One float64 estimate per query. It may be negative.
        """
        owner = type(self).__name__
        kernel = self.kernel if kernel is None else KERNEL.check(owner, "kernel", kernel)
        wide = self.bandwidth if bandwidth is None else self._wide_enough(bandwidth)
        inside, _ = self._nodes.box.clip(points(owner, queries, self.dimension))
        return at(self._field(kernel, wide), self._nodes.positions(inside))

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
        return self.estimate(queries, kernel=kernel, bandwidth=bandwidth) / (
            self.size() or math.nan
        )

    def size(self) -> float:
        """The total weight of all points."""
        raise NotImplementedError

    @property
    def _nodes(self) -> Nodes:
        return Nodes.of(Box(*self.bounds), self.bandwidth, self.kernel, self.resolution, self.seed)

    def _masses(self) -> np.ndarray:
        """The mass at every node, in points, as float64."""
        raise NotImplementedError

    def _field(self, kernel: str, bandwidth: float) -> np.ndarray:
        """The field of a kernel and bandwidth, cached."""
        key = kernel, bandwidth
        if key not in self._fields:
            made = field(self._masses(), self._nodes.spacing, kernel, bandwidth)
            for oldest in list(self._fields)[: 1 - CACHED]:
                self._fields.pop(oldest, None)
            self._fields[key] = made
            return made
        return self._fields[key]

    @cached_property
    def _fields(self) -> dict[tuple[str, float], np.ndarray]:
        """The fields of recent queries, computed from the masses alone."""
        return {}

    def _wide_enough(self, bandwidth: float) -> float:
        """The bandwidth, checked to be at least the distance of two nodes."""
        owner = type(self).__name__
        bandwidth = positive.check(owner, "bandwidth", bandwidth)
        apart = float(self._nodes.spacing.max())
        if bandwidth < apart:
            raise ValueError(
                f"{owner}: bandwidth must be at least {apart:g}, the distance of two nodes, not "
                f"{bandwidth!r}; build a grid with a smaller bandwidth or a higher resolution."
            )
        return bandwidth

    def _check_parameters(self) -> None:
        super()._check_parameters()
        owner = type(self).__name__
        if self.dimension > 4:
            raise ValueError(
                f"{owner}: bounds must be those of 1 to 4 columns, not {self.dimension}; use Race, "
                "KernelSlices or KernelFourier for more."
            )
        if self._nodes.size > MOST:
            raise ValueError(
                f"{owner}: bandwidth is {self.bandwidth!r}, which takes more than 2**24 nodes over "
                "these bounds; widen it, narrow the bounds or lower the resolution."
            )


class ReleasedKernelGrid(GridAnswers, NoisyCells):
    """Differentially private kernel sums at any query and bandwidth; made by `KernelGrid.release`.

    Attributes
    ----------
    bandwidth : float
        As in `KernelGrid`.
    bounds : Pair
        As in `KernelGrid`.
    kernel : str
        As in `KernelGrid`.
    resolution : float or None
        As in `KernelGrid`.
    seed : int
        As in `KernelGrid`.
    noise : {"Laplace", "Gaussian"}
        Distribution of the noise.
    scale : float
        Its scale (sigma, if Gaussian), in units of a cell.
    statement : PrivacyStatement
        Privacy guarantee of the release.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differential privacy as its `statement` says. Over the noise, an
    estimate has the sketch's estimate as its mean; its standard deviation is about `noise_error()`,
    varying by up to a fifth between queries and smaller near the bounds. Estimates may be negative
    or above the number of points, since clipping would bias them.

    References
    ----------
    .. [1] Hay, Rastogi, Miklau, Suciu. "Boosting the Accuracy of Differentially Private Histograms
       Through Consistency". PVLDB 3, 2010. https://arxiv.org/abs/0904.0942
    .. [2] Li, Miklau, Hay, McGregor, Rastogi. "The matrix mechanism: optimizing linear counting
       queries under differential privacy". VLDB Journal 24, 2015.
       https://doi.org/10.1007/s00778-015-0398-x

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import KernelGrid
    >>> points = np.random.default_rng(0).normal(5, 1, (100_000, 1))
    >>> sketch = KernelGrid(1.0, (0, 9)).update(points)
    >>> released = sketch.release(epsilon=1, source=InsecureSeededSource(1))
    >>> error = released.estimate([[5]]) - sketch.estimate([[5]])
    >>> bool(abs(error[0]) < 4 * released.noise_error())
    True
    """

    _cells: np.ndarray
    _of = "KernelGrid"

    def size(self) -> float:
        """Estimate the number of points, by weight.

        Returns
        -------
        float
            The least-squares estimate from the count and all levels; unbiased.
        """
        return self._size

    @cached_property
    def _size(self) -> float:
        return float(self._best.sum())

    def noise_error(self) -> float:
        """Return the standard deviation of an estimate's noise at the centre of the bounds.

        Returns
        -------
        float
            Standard deviation in the unit of `estimate`, a number of points, for the kernel and
            bandwidth of the sketch.
        """
        return self._noise_error

    @cached_property
    def _noise_error(self) -> float:
        nodes = self._nodes
        weights = node_weights(nodes.shape, nodes.spacing, self.kernel, self.bandwidth)
        return (
            math.sqrt(self._distribution.variance * self._levels.variance_of(weights)) / nodes.unit
        )

    @property
    def _levels(self) -> Levels:
        return tuned_levels(self._nodes.shape, self.noise, self.kernel)

    @cached_property
    def _best(self) -> np.ndarray:
        return self._levels.best(self._cells) / self._nodes.unit

    def _masses(self) -> np.ndarray:
        return self._best

    def _layout(self) -> dict[str, Cells]:
        return {"_cells": Cells(np.int64, (self._levels.cells,))}


BLOCK = 2**16  # points at a time


class KernelGrid(WeighedRelease[ReleasedKernelGrid], WeighedPoints, GridAnswers):
    """Kernel sums over points in up to four dimensions, from masses on the nodes of a grid.

    Usually the most accurate sketch for 1 to 3 columns, and of private ones for 4; use `Race`,
    `KernelSlices` or `KernelFourier` for more. One sketch answers any of the kernels at any
    bandwidth above the distance of two nodes. Memory is 8 bytes per node.

    Parameters
    ----------
    bandwidth : float
        Bandwidth of the kernel, in the unit of the points; above 0.
    bounds : tuple of (low, high)
        Public bounds, each a number or one number for each of 1 to 4 columns. Points outside are
        clipped to them.
    kernel : {"p-stable", "gaussian", "exponential"}, default="p-stable"
        The kernel at ``r = |x - q| / bandwidth``: that of `lsh.Euclidean` with p = 2, exp(-r**2 /
        2) or exp(-r).
    resolution : float or None, default=None
        Nodes per bandwidth, from 0.5 to below 64.5. None for 3, or 12 in one column ("gaussian": 2,
        or 4); in four columns for as many as 2**20 spaces between nodes allow, if these are fewer.
        A grid has at most 2**24 nodes.
    seed : int, default=0
        Seed of the shift of the nodes against the bounds; part of the file format.

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
    **Guarantee.** A point adds integers that sum to 2**15 (2**14 in two, 2**16 in four dimensions)
    to the 3, 9, 27 or 81 nodes around it, the same on every machine: merging is exact. A negative
    weight removes a point that was added. Where the density is smooth from node to node, the errors
    of assignment and of interpolation cancel; a query on top of many identical points may be off by
    a few percent of their contribution.

    References
    ----------
    .. [1] Greengard, Strain. "The fast Gauss transform". SIAM Journal on Scientific and Statistical
       Computing 12, 1991 (kernel sums by grids). https://doi.org/10.1137/0912004
    .. [2] Hockney, Eastwood. "Computer simulation using particles". 1988, chapter 5 (assignment of
       points to nodes, and its correction).

    Examples
    --------
    >>> sketch = KernelGrid(1.0, ([0, 0], [9, 9]), kernel="gaussian").update([[1, 2], [3, 4]])
    >>> sketch.estimate([[2, 3]]).round(2), sketch.exact([[1, 2], [3, 4]], [[2, 3]]).round(2)
    (array([0.74]), array([0.74]))
    """

    def __init__(
        self,
        bandwidth: float,
        bounds: Any,
        *,
        kernel: str = "p-stable",
        resolution: float | None = None,
        seed: int = 0,
    ) -> None:
        self._set_parameters(
            bandwidth=bandwidth, bounds=bounds, kernel=kernel, resolution=resolution, seed=seed
        )
        self._allocate()

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None
    ) -> CalibratedRelease[ReleasedKernelGrid]:
        """**Guarantee.** (epsilon, delta)-private for one unit under the stated relation.

        Noise is added to nested levels of the grid, each coarser than the one before (Hay, Rastogi,
        Miklau and Suciu 2010), and to a count. A point of weight w adds to the cells of level l
        non-negative integers that sum to w u_l, and w c to the count. So L1 = (sum of u_l + c) w
        and, since a sum of squares is at most the square of the sum, L2**2 <= (sum of u_l**2 +
        c**2) w**2; for a replaced point the sums over levels count twice. The u_l and c are public
        integers that follow from kernel, dimension, the size of the grid and the distribution of
        the noise. With delta 0 the noise is discrete Laplace, otherwise the one of discrete Laplace
        and discrete Gaussian that gives answers the smaller variance.
        """
        kinds = (
            ("laplace", "gaussian") if request.delta and noise is None else (noise or "laplace",)
        )
        candidates = [self._calibrated(kind, request, weight) for kind in kinds]
        return min(candidates, key=operator.itemgetter(0))[1]

    def _calibrated(
        self, kind: str, request: ReleaseRequest, weight: int
    ) -> tuple[float, CalibratedRelease[ReleasedKernelGrid]]:
        """Approximate error of answers, and the release, with noise of this distribution."""
        kind = one_of(("laplace", "gaussian")).check("KernelGrid", "noise", kind)
        nodes = self._nodes
        levels = tuned_levels(nodes.shape, kind.capitalize(), self.kernel)
        sensitivity = levels.sensitivity(nodes.unit, nodes.longest, weight)
        if self.mass * nodes.unit * max(levels.units) >= ROOM:
            raise ValueError(
                "KernelGrid: the points weigh too much for cells of 64 bits, in which levels count "
                "them many times; release them in several sketches, or with smaller weights."
            )
        calibrated = calibrated_cells(
            ReleasedKernelGrid,
            self.parameters,
            {"_cells": levels.cell_values(self._table)},
            request,
            sensitivity,
            kind,
            f"{levels.cells - 1} cells of {len(levels.shapes)} levels and a count",
        )
        parameters = calibrated.parameters
        distribution = NoiseDistribution(parameters["noise"], parameters["scale"])
        return approximate_error(levels, sensitivity, distribution), calibrated

    def release_adaptive(
        self,
        epsilon: float | Privacy | None = None,
        delta: float = 0.0,
        *,
        weight: int = 1,
        **options: Unpack[ReleaseOptions],
    ) -> "ReleasedAdaptiveGrid":
        """Release at a resolution that a noisy pilot chooses, with estimates shrunk by their noise.

        Parameters
        ----------
        epsilon : float, Privacy or None, default=None
            As in `release`.
        delta : float, default=0.0
            Checked as in `release`, and not used: the release is epsilon-private.
        weight : int, default=1
            As in `release`.
        **options : dict
            As in `release`.

        Returns
        -------
        ReleasedAdaptiveGrid
            The release, more accurate than that of `release` where the density is smooth or noise
            dominates, at the price of a bias towards uniform points.

        Notes
        -----
        **Guarantee.** epsilon-private for one unit under the stated relation. Discrete Laplace
        noise is added to coarse block sums, for three fiftieths of epsilon, and to other block
        sums or levels that these choose, for the rest.
        """
        from sfumato.sketch.kernel_sums.grid_adaptive import adaptive_release

        return self._released(
            lambda request, heaviest, _: adaptive_release(self, request, heaviest),
            epsilon,
            delta,
            weight,
            None,
            options,
        )

    @property
    def _box(self) -> Box:
        return self._nodes.box

    @property
    def _unit(self) -> int:
        return self._nodes.unit

    def _add(self, column: np.ndarray, weights: np.ndarray) -> int:
        nodes, clipped = self._nodes, 0
        table = self._table.reshape(four_axes(nodes.shape))
        spans = np.array([3 if n > 1 else 1 for n in table.shape])
        for start in range(0, len(column), BLOCK):
            inside, moved = nodes.box.clip(column[start : start + BLOCK])
            steps = np.zeros((len(inside), 4), np.int64)
            steps[:, 4 - self.dimension :] = nodes.steps(inside)
            grid.share(steps, weights[start : start + BLOCK], nodes.bits, spans, table)
            clipped += moved
        return clipped

    def _forget(self) -> None:
        self.__dict__.pop("_fields", None)

    def _masses(self) -> np.ndarray:
        return self._table / self._unit

    def _layout(self) -> dict[str, Cells]:
        return {"_table": Cells(np.int64, self._nodes.shape)}
