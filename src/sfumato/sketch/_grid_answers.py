"""What a grid and its release share: parameters, nodes, and kernel sums read from a field."""

import math
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato._require import between, optional, positive
from sfumato.sketch._base import SEED
from sfumato.sketch._grid_field import at, field
from sfumato.sketch._grid_nodes import MOST, Nodes
from sfumato.sketch._points import BOUNDS, Box, Pair, points
from sfumato.sketch._radial import KERNEL
from sfumato.sketch._stored import Stored

__all__ = ["GridAnswers"]

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
        self, queries: Any, *, kernel: str | None = None, bandwidth: float | None = None
    ) -> np.ndarray:
        """The sum of kernels between every query and all points.

        The first call for a kernel and bandwidth takes seconds on a large grid, further ones a
        microsecond a query. Queries outside the bounds are moved to the nearest point inside.
        Parameters: kernel and bandwidth, where other than those the grid was made for; a bandwidth
        below the distance of two nodes is refused.
        """
        owner = type(self).__name__
        kernel = self.kernel if kernel is None else KERNEL.check(owner, "kernel", kernel)
        wide = self.bandwidth if bandwidth is None else self._wide_enough(bandwidth)
        inside, _ = self._nodes.box.clip(points(owner, queries, self.dimension))
        return at(self._field(kernel, wide), self._nodes.places(inside))

    def mean(
        self, queries: Any, *, kernel: str | None = None, bandwidth: float | None = None
    ) -> np.ndarray:
        """The mean of the kernel over all points: `estimate` over `size`; NaN where that is 0."""
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
