"""A grid of shared points: sums of a kernel over all points in up to three dimensions.

What a grid and its release share: parameters, nodes, and kernel sums read from a field. A released
grid: private sums of any kernel here, at every query and bandwidth, from one file.
"""

import math
import operator
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato.core.bounds import BOUNDS, Box, Pair, points
from sfumato.core.storage import Cells, Stored
from sfumato.core.typing import Matrix
from sfumato.core.validation import between, one_of, optional, positive
from sfumato.kernels.sketch import kernel_sums as grid
from sfumato.privacy.noise.discrete import ROOM
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest
from sfumato.sketch.base import SEED, WeighedRelease
from sfumato.sketch.kernel_sums.base import WeighedPoints
from sfumato.sketch.kernel_sums.grid_field import MOST, Nodes, at, field, node_weights, three
from sfumato.sketch.kernel_sums.grid_levels import Levels, guessed_error, shared_levels
from sfumato.sketch.kernel_sums.noisy_cells import NoisyCells, planned_cells
from sfumato.sketch.kernel_sums.radial_kernels import KERNEL

__all__ = ["GridAnswers", "KernelGrid", "ReleasedKernelGrid"]

KEPT = 4  # fields: of so many kernels and bandwidths


class GridAnswers(Stored, in_files=False):
    """Answers of a grid, from the masses of its nodes."""

    bandwidth: Annotated[float, positive]
    bounds: Annotated[Pair, BOUNDS]
    kernel: Annotated[str, KERNEL]
    resolution: Annotated[float | None, optional(between(0.5, 64.5))]
    seed: Annotated[int, SEED]

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return len(self.bounds[0])

    def estimate(
        self, queries: Matrix, *, kernel: str | None = None, bandwidth: float | None = None
    ) -> np.ndarray:
        """The sum of kernels between every query and all points.

        The first call for a kernel and bandwidth takes seconds on a large grid, further ones a
        microsecond a query. Queries outside the bounds are moved to the nearest point inside.

        Parameters
        ----------
        queries : array_like
            TODO.
        kernel : str or None, default=None
            Where other than those the grid was made for; a bandwidth below the distance of two
            nodes is refused.
        bandwidth : float or None, default=None
            Where other than those the grid was made for; a bandwidth below the distance of two
            nodes is refused.

        Returns
        -------
        ndarray
            The sum of kernels between every query and all points.
        """
        owner = type(self).__name__
        kernel = self.kernel if kernel is None else KERNEL.check(owner, "kernel", kernel)
        wide = self.bandwidth if bandwidth is None else self._wide_enough(bandwidth)
        inside, _ = self._nodes.box.clip(points(owner, queries, self.dimension))
        return at(self._field(kernel, wide), self._nodes.positions(inside))

    def mean(
        self, queries: Matrix, *, kernel: str | None = None, bandwidth: float | None = None
    ) -> np.ndarray:
        """The mean of the kernel over all points: `estimate` over `size`; NaN where that is 0.

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
            The mean of the kernel over all points: `estimate` over `size`; NaN where that is 0.
        """
        return self.estimate(queries, kernel=kernel, bandwidth=bandwidth) / (
            self.size() or math.nan
        )

    def size(self) -> float:
        """The number of points, or their weight."""
        raise NotImplementedError

    @property
    def _nodes(self) -> Nodes:
        return Nodes.of(Box(*self.bounds), self.bandwidth, self.kernel, self.resolution, self.seed)

    def _masses(self) -> np.ndarray:
        """How many points stand at every node, in float64."""
        raise NotImplementedError

    def _field(self, kernel: str, bandwidth: float) -> np.ndarray:
        asked = kernel, bandwidth
        if asked not in self._fields:
            made = field(self._masses(), self._nodes.spacing, kernel, bandwidth)
            for oldest in list(self._fields)[: 1 - KEPT]:
                self._fields.pop(oldest, None)
            self._fields[asked] = made
            return made
        return self._fields[asked]

    @cached_property
    def _fields(self) -> dict[tuple[str, float], np.ndarray]:
        """Those asked for last; made from the masses alone."""
        return {}

    def _wide_enough(self, bandwidth: float) -> float:
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
        if self.dimension > 3:
            raise ValueError(
                f"{owner}: bounds must be those of 1 to 3 columns, not {self.dimension}; use Race, "
                "KernelSlices or KernelFourier for more."
            )
        if self._nodes.size > MOST:
            raise ValueError(
                f"{owner}: bandwidth is {self.bandwidth!r}, which takes more than 2**24 nodes over "
                "these bounds; widen it, narrow the bounds or lower the resolution."
            )


class ReleasedKernelGrid(GridAnswers, NoisyCells):
    """Sums of a kernel that may leave the curator; made by `KernelGrid.release`.

    those of the sketch, and the law and scale of the noise.

    Notes
    -----
    **Guarantee.** As its statement says. Over noise, the mean of an estimate is that of the sketch;
    its standard deviation is about `noise_error()`, larger or smaller by up to a fifth from place
    to place, and smaller near the bounds. Estimates may be negative or above the number of points:
    clipping would bias them.

    References
    ----------
    .. [1] Levels of one data set, joined by least squares: Hay, Rastogi, Miklau and Suciu 2010; Li,
       Miklau, Hay, McGregor and Rastogi 2015.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import KernelGrid
    >>> points = np.random.default_rng(0).normal(5, 1, (100_000, 1))
    >>> sketch = KernelGrid(1.0, (0, 9)).update(points)
    >>> told = sketch.release(epsilon=1, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate([[5]]) - sketch.estimate([[5]])) < 4 * told.noise_error())
    True
    """

    _cells: np.ndarray
    _of = "KernelGrid"

    def size(self) -> float:
        """The number of points, or their weight, from the count and all levels together.

        Returns
        -------
        float
            The number of points, or their weight, from the count and all levels together.
        """
        return self._size

    @cached_property
    def _size(self) -> float:
        return float(self._best.sum())

    def noise_error(self) -> float:
        """The standard deviation of the noise of an estimate in the middle of the bounds.

        Returns
        -------
        float
            The standard deviation of the noise of an estimate in the middle of the bounds.
        """
        return self._noise_error

    @cached_property
    def _noise_error(self) -> float:
        nodes = self._nodes
        weights = node_weights(nodes.shape, nodes.spacing, self.kernel, self.bandwidth)
        return math.sqrt(self._distribution.variance * self._levels.spread_of(weights)) / nodes.unit

    @property
    def _levels(self) -> Levels:
        return shared_levels(self._nodes.shape, self.noise, self.kernel)

    @cached_property
    def _best(self) -> np.ndarray:
        return self._levels.best(self._cells) / self._nodes.unit

    def _masses(self) -> np.ndarray:
        return self._best

    def _layout(self) -> dict[str, Cells]:
        return {"_cells": Cells(np.int64, (self._levels.cells,))}


BLOCK = 2**16  # points at a time


class KernelGrid(WeighedRelease[ReleasedKernelGrid], WeighedPoints, GridAnswers):
    """Sums of a kernel over all points, from a fine grid among whose nodes points are shared.

    Parameters
    ----------
    bandwidth : float
        In the unit of the points.
    bounds : object
        (low, high), each a number or one for each of 1 to 3 columns: public; points outside are
        clipped and counted in `clipped`.
    kernel : str, default="p-stable"
        "p-stable", "gaussian" or "exponential".
    resolution : float or None, default=None
        Nodes in a bandwidth, from 0.5 to 64, 3 unless told, 12 in one column (2 and 4 for
        "gaussian").
    seed : int, default=0
        Of how far the nodes are moved against the bounds. A grid has at most 2**24 nodes. Any
        kernel, and any bandwidth above the distance of two nodes, may be asked for. A negative
        weight removes a point that was added.

    Notes
    -----
    **Guarantee.** A point adds integers to the 3, 9 or 27 nodes around it that sum to 2**15 (2**14
    in two dimensions), the same on every machine: sketches merge bit for bit. Where the density is
    smooth from node to node, errors of sharing and of reading between nodes cancel; a query on top
    of a heavy single place may be off by some percent of what that place adds.

    References
    ----------
    .. [1] Greengard and Strain 1991 (sums by grids); Hockney and Eastwood 1988, chapter 5 (sharing,
       and making up for it).

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
        """A private copy: noise on nested levels of the grid, each coarser than the one before.

        Guarantee: (epsilon, delta)-private for one unit: a point of weight w adds to the cells of
        level l non-negative integers that sum to exactly w u_l, and w c to the count. So L1 =
        (sum of u_l + c) w and, as no sum of squares exceeds the square of the sum, L2**2 <= (sum of
        u_l**2 + c**2) w**2; for an exchanged point, twice the sums over levels of each. The u_l and
        c are integers that follow from kernel, dimension, the grid's size and the law of the
        noise: public. At delta 0 the noise is discrete Laplace, else whichever of that and discrete
        Gaussian leaves answers the smaller variance.
        Parameters: epsilon above 0; delta from 0 to 1; weight, the most that one point weighs,
        public, refused where the sketch holds a heavier one; noise, "laplace" or "gaussian",
        whichever is better unless told; options: ledger and dataset, unit, relation,
        contributions, release_id (docs/privacy.md).

        >>> told = KernelGrid(1.0, (0, 9)).update([[1], [2]]).release(epsilon=1)
        >>> told.statement.epsilon, told.statement.ledger
        (1.0, 'unaccounted')

        Levels, each with a share of the budget: Hay, Rastogi, Miklau and Suciu 2010.
        """
        laws = ("laplace", "gaussian") if request.delta and noise is None else (noise or "laplace",)
        made = [self._planned(law, request, weight) for law in laws]
        return min(made, key=operator.itemgetter(0))[1]

    def _planned(
        self, noise: str, request: ReleaseRequest, weight: int
    ) -> tuple[float, CalibratedRelease[ReleasedKernelGrid]]:
        """A release with noise of this law, and about how far its answers will be off."""
        noise = one_of(("laplace", "gaussian")).check("KernelGrid", "noise", noise)
        nodes = self._nodes
        levels = shared_levels(nodes.shape, noise.capitalize(), self.kernel)
        reach = levels.reach(nodes.unit, nodes.longest, weight)
        if self.mass * nodes.unit * max(levels.units) >= ROOM:
            raise ValueError(
                "KernelGrid: the points weigh too much for cells of 64 bits, in which levels count "
                "them many times; release them in several sketches, or with smaller weights."
            )
        plan = planned_cells(
            ReleasedKernelGrid,
            self.parameters,
            {"_cells": levels.spread(self._table)},
            request,
            reach,
            noise,
            f"{levels.cells - 1} cells of {len(levels.shapes)} levels and a count",
        )
        law = NoiseDistribution(plan.parameters["noise"], plan.parameters["scale"])
        return guessed_error(levels, reach, law), plan

    @property
    def _box(self) -> Box:
        return self._nodes.box

    @property
    def _unit(self) -> int:
        return self._nodes.unit

    def _add(self, column: np.ndarray, weights: np.ndarray) -> int:
        nodes, clipped = self._nodes, 0
        table = self._table.reshape(three(nodes.shape, 1))
        spans = np.array([3 if n > 1 else 1 for n in table.shape])
        for start in range(0, len(column), BLOCK):
            inside, moved = nodes.box.clip(column[start : start + BLOCK])
            steps = np.zeros((len(inside), 3), np.int64)
            steps[:, 3 - self.dimension :] = nodes.steps(inside)
            grid.share(steps, weights[start : start + BLOCK], nodes.bits, spans, table)
            clipped += moved
        return clipped

    def _forget(self) -> None:
        self.__dict__.pop("_fields", None)

    def _masses(self) -> np.ndarray:
        return self._table / self._unit

    def _layout(self) -> dict[str, Cells]:
        return {"_table": Cells(np.int64, self._nodes.shape)}
