"""A grid of shared points: sums of a kernel over all points in up to three dimensions."""

import operator
from typing import Any, Unpack

import numpy as np

from sfumato._require import one_of
from sfumato.kernels import grid
from sfumato.privacy.noise import ROOM
from sfumato.privacy.noise_law import NoiseLaw
from sfumato.sketch._base import Cells
from sfumato.sketch._grid_answers import GridAnswers
from sfumato.sketch._grid_field import three
from sfumato.sketch._grid_shares import guessed_error, shared_levels
from sfumato.sketch._heaviest import bounded_weight
from sfumato.sketch._noisy_cells import planned_cells
from sfumato.sketch._points import Box
from sfumato.sketch._release import Options, Plan, Terms
from sfumato.sketch._weighed_points import WeighedPoints
from sfumato.sketch.released_kernel_grid import ReleasedKernelGrid

__all__ = ["KernelGrid"]

BLOCK = 2**16  # points at a time


class KernelGrid(WeighedPoints, GridAnswers):
    """Sums of a kernel over all points, from a fine grid among whose nodes points are shared.

    Guarantee: a point adds whole numbers to the 3, 9 or 27 nodes around it that sum to 2**15
    (2**14 in two dimensions), the same on every machine: sketches merge bit for bit. Where the
    density is smooth from node to node, errors of sharing and of reading between nodes cancel; a
    query on top of a heavy single place may be off by some percent of what that place adds.
    Parameters: bandwidth, in the unit of the points; bounds, (low, high), each a number or one for
    each of 1 to 3 columns: public; points outside are clipped and counted in `clipped`; kernel,
    "p-stable", "gaussian" or "exponential"; resolution, nodes in a bandwidth, from 0.5 to 64, 3
    unless told, 12 in one column (2 and 4 for "gaussian"); seed, of how far the nodes are moved
    against the bounds. A grid has at most 2**24 nodes. Any kernel, and any bandwidth above the
    distance of two nodes, may be asked for. A negative weight removes a point that was added.

    >>> sketch = KernelGrid(1.0, ([0, 0], [9, 9]), kernel="gaussian").update([[1, 2], [3, 4]])
    >>> sketch.estimate([[2, 3]]).round(2), sketch.exact([[1, 2], [3, 4]], [[2, 3]]).round(2)
    (array([0.74]), array([0.74]))

    Greengard and Strain 1991 (sums by grids); Hockney and Eastwood 1988, chapter 5 (sharing, and
    making up for it).
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

    def release(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        weight: int = 1,
        noise: str | None = None,
        **options: Unpack[Options],
    ) -> ReleasedKernelGrid:
        """A private copy: noise on nested levels of the grid, each coarser than the one before.

        Guarantee: (epsilon, delta)-private for one unit: a point of weight w adds to the cells of
        level l non-negative whole numbers that sum to exactly w u_l, and w c to the count. So L1 =
        (sum of u_l + c) w and, as no sum of squares exceeds the square of the sum, L2**2 <= (sum of
        u_l**2 + c**2) w**2; for an exchanged point, twice the sums over levels of each. The u_l and
        c are whole numbers that follow from kernel, dimension, the grid's size and the law of the
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
        weight = bounded_weight("KernelGrid", weight, self.heaviest)
        terms = Terms.of("KernelGrid", epsilon, delta, options)
        laws = ("laplace", "gaussian") if delta and noise is None else (noise or "laplace",)
        made = [self._planned(law, terms, weight) for law in laws]
        return min(made, key=operator.itemgetter(0))[1].publish(terms)

    def _planned(
        self, noise: str, terms: Terms, weight: int
    ) -> tuple[float, Plan[ReleasedKernelGrid]]:
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
            terms,
            reach,
            noise,
            f"{levels.cells - 1} cells of {len(levels.shapes)} levels and a count",
        )
        law = NoiseLaw(plan.parameters["noise"], plan.parameters["scale"])
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
