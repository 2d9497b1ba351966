"""Private sums of clusters: rows as integers in a public box, and the noise of all stages.

Nothing here is a promise by itself: the proof is that of `PrivateKMeans`.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.core.arrays import private_points, without_rows
from sfumato.core.bounds import Box
from sfumato.kernels.mine.cluster import nearest_centres as kernels
from sfumato.privacy.accounting.gaussian_steps import Budget
from sfumato.privacy.accounting.losses import Loss, Pure
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import Source

if TYPE_CHECKING:
    from sfumato.engine import Rows

__all__ = ["BITS", "STEPS", "NoisyClusters", "RowSource", "StagePlan"]

BITS = 12  # of a coordinate
STEPS = 2**BITS - 1  # largest integer of a coordinate, in both directions from the box's centre
TYPICAL = 0.25  # mean square of a coordinate of a cluster's mean, half the box being 1


@dataclass(frozen=True)
class RowSource:
    """Private rows, read part by part in every pass; each row on its own, none refused.

    A row that is not all numbers is left out, a coordinate outside the box clipped to it. So is a
    part that is no table of the columns of the box. engine_rows: the rows, if an engine has them.
    """

    owner: str
    data: Any
    box: Box
    engine_rows: "Rows | None" = None

    def parts(self) -> Iterator[np.ndarray]:
        """Yield rows as integers from -STEPS to STEPS, odd ones, about the centre of the box."""
        parts: Iterable[Any] = self.data() if callable(self.data) else [self.data]
        for part in parts:
            try:
                points = private_points(self.owner, part, self.box.dimension)
            except (TypeError, ValueError):
                continue
            if points.shape[1] != self.box.dimension:
                continue
            points = points[~np.isnan(points).any(axis=1)]
            inside, _ = self.box.clip(points)
            steps = self.box.steps(inside, BITS).astype(np.int64)
            yield 2 * steps - STEPS

    def check(self) -> None:
        """Refuse a container of another kind or width, before a row of it is read."""
        if callable(self.data) or self.engine_rows is not None:
            return
        columns = private_points(self.owner, without_rows(self.data), self.box.dimension).shape[1]
        if columns != self.box.dimension:
            raise ValueError(
                f"{self.owner}: X has {columns} columns, but bounds are for {self.box.dimension}."
            )

    def cells(
        self, size: int, labels: Callable[[np.ndarray], np.ndarray], squares: bool
    ) -> np.ndarray:
        """N, SUM and, if wanted, SUMSQ of clusters, by the labels of rows in half boxes."""
        if self.engine_rows is not None:
            part = _PartCells(replace(self, engine_rows=None), size, labels, squares)
            total: np.ndarray = self.engine_rows.fold(part, np.add)
            return total
        width = 1 + (2 if squares else 1) * self.box.dimension
        cells = np.zeros((size, width), np.int64)
        for steps in self.parts():
            kernels.sum_steps(steps, labels(steps / STEPS), STEPS if squares else 0, cells)
        return cells


@dataclass(frozen=True)
class _PartCells:
    """Fold to the cells of a partition of an engine; integers, so that partitions add up."""

    rows: RowSource
    size: int
    labels: Callable[[np.ndarray], np.ndarray]
    squares: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> np.ndarray:
        tables = (pa.Table.from_batches([batch]) for batch in batches)
        return replace(self.rows, data=lambda: tables).cells(self.size, self.labels, self.squares)


@dataclass(frozen=True)
class StagePlan:
    """Noise of stages by public numbers; fractions: the part of the budget that each one has.

    A row adds `unit` to one count and at most STEPS in size to each of `columns` sums of one
    cluster. So one event changes the cells of a stage by at most unit + columns STEPS in L1 norm,
    and by the root of unit**2 + columns STEPS**2 in L2 norm.
    """

    epsilon: float
    delta: float
    events: int  # in which neighbours may differ
    dimension: int
    columns: tuple[int, ...]
    fractions: tuple[Fraction, ...]
    relation: str = "add/remove"

    @cached_property
    def unit(self) -> int:
        """What a row adds to a count: as much as makes the noise of means smallest.

        With mean square r2 of a mean's length in half boxes, the error of d coordinates is
        proportional to (u + d)**2 (d + r2 / u**2) with Laplace noise and to (u**2 + d) (d + r2 /
        u**2) with Gaussian noise, for u = unit / STEPS; smallest at r2 ** (1/3) and r2 ** (1/4).
        """
        power = 1 / 4 if self.delta else 1 / 3
        return max(1, int(STEPS * float(TYPICAL * self.dimension) ** power + 0.5))

    @cached_property
    def _budget(self) -> Budget:
        return Budget.of(self.epsilon, self.delta)

    @cached_property
    def scales(self) -> tuple[Fraction, ...]:
        """Scale of Laplace noise, or sigma of Gaussian noise, by stage."""
        return tuple(
            self._scale(columns, part)
            for columns, part in zip(self.columns, self.fractions, strict=True)
        )

    def _scale(self, columns: int, part: Fraction) -> Fraction:
        if self.delta:
            squared = self.events**2 * (self.unit**2 + columns * STEPS**2)
            return Fraction(self._budget.sigma(squared, part))
        return Fraction(self.events * (self.unit + columns * STEPS)) / (
            part * Fraction(self.epsilon)
        )

    @property
    def loss(self) -> Loss:
        """Loss of all stages together."""
        if self.delta:
            return replace(self._budget.loss, relation=self.relation)
        return Pure(self.epsilon, relation=self.relation)

    @property
    def kind(self) -> str:
        return "Gaussian" if self.delta else "Laplace"

    def deviation(self, stage: int) -> float:
        """Standard deviation of the noise of a stage, in units of a cell."""
        return float(self.scales[stage]) * (1.0 if self.delta else math.sqrt(2))

    def noisy(self, stage: int, cells: np.ndarray, source: Source) -> "NoisyClusters":
        """Cells of a stage with its noise."""
        cells = cells.copy()
        cells[:, 0] *= self.unit
        draw = noise.add_gaussian if self.delta else noise.add_laplace
        draw(cells, self.scales[stage], source=source)
        return NoisyClusters(cells, self.unit, self.deviation(stage), self.dimension)


@dataclass(frozen=True)
class NoisyClusters:
    """Noisy N, SUM and perhaps SUMSQ of clusters, and what follows from them."""

    cells: np.ndarray
    unit: int
    deviation: float
    dimension: int

    @property
    def counts(self) -> np.ndarray:
        """Noisy numbers of rows; some may be below 0."""
        return np.asarray(self.cells[:, 0] / self.unit)

    @property
    def count_deviation(self) -> float:
        """Standard deviation of the noise of a count."""
        return self.deviation / self.unit

    def clear(self, factor: float) -> np.ndarray:
        """Whether a count is above so many standard deviations of its noise, and 1."""
        return np.asarray(self.counts > max(factor * self.count_deviation, 1.0))

    def means(self, otherwise: np.ndarray, factor: float = 2.0) -> np.ndarray:
        """Means in half boxes, clipped to the box; `otherwise` where a count is unclear."""
        clear = self.clear(factor)
        sums = self.cells[:, 1 : 1 + self.dimension] / STEPS
        means = np.array(otherwise, np.float64)
        means[clear] = sums[clear] / self.counts[clear, np.newaxis]
        return np.asarray(np.clip(means, -1, 1))

    def variances(self, means: np.ndarray) -> np.ndarray:
        """Variances in half boxes, from 0 to 1; those of a uniform column where unclear."""
        clear = self.clear(2.0)
        # Squares were rounded down, by half a step on average.
        squares = self.cells[:, 1 + self.dimension :] / STEPS
        found = np.full(means.shape, 1 / 3)
        each = squares[clear] / self.counts[clear, np.newaxis] + 0.5 / STEPS
        found[clear] = each - np.square(means[clear])
        return np.asarray(np.clip(found, 0, 1))
