"""A released grid: private sums of any kernel here, at every query and bandwidth, from one file."""

import math
from functools import cached_property

import numpy as np

from sfumato.sketch._base import Cells
from sfumato.sketch._grid_answers import GridAnswers
from sfumato.sketch._grid_field import node_weights
from sfumato.sketch._grid_levels import Levels
from sfumato.sketch._grid_shares import shared_levels
from sfumato.sketch._noisy_cells import NoisyCells

__all__ = ["ReleasedKernelGrid"]


class ReleasedKernelGrid(GridAnswers, NoisyCells):
    """Sums of a kernel that may leave the curator; made by `KernelGrid.release`.

    Guarantee: as its statement says. Over noise, the mean of an estimate is that of the sketch; its
    standard deviation is about `noise_error()`, larger or smaller by up to a fifth from place to
    place, and smaller near the bounds. Estimates may be negative or above the number of points:
    clipping would bias them.
    Parameters: those of the sketch, and the law and scale of the noise.

    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import KernelGrid
    >>> points = np.random.default_rng(0).normal(5, 1, (100_000, 1))
    >>> sketch = KernelGrid(1.0, (0, 9)).update(points)
    >>> told = sketch.release(epsilon=1, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate([[5]]) - sketch.estimate([[5]])) < 4 * told.noise_error())
    True

    Levels of one data set, joined by least squares: Hay, Rastogi, Miklau and Suciu 2010; Li,
    Miklau, Hay, McGregor and Rastogi 2015.
    """

    _cells: np.ndarray
    _of = "KernelGrid"

    def size(self) -> float:
        """The number of points, or their weight, from the count and all levels together."""
        return self._size

    @cached_property
    def _size(self) -> float:
        return float(self._best.sum())

    def noise_error(self) -> float:
        """The standard deviation of the noise of an estimate in the middle of the bounds."""
        return self._noise_error

    @cached_property
    def _noise_error(self) -> float:
        nodes = self._nodes
        weights = node_weights(nodes.shape, nodes.spacing, self.kernel, self.bandwidth)
        return math.sqrt(self._law.variance * self._levels.spread_of(weights)) / nodes.unit

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
