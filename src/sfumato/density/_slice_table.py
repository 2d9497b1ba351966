"""Histograms of columns and of sums of two columns: a table that merges bit for bit."""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from sfumato._require import whole
from sfumato.hashing import hash_column
from sfumato.sketch._base import SEED, Cells, Sketch
from sfumato.sketch._columns import whole_weights
from sfumato.sketch._points import BOUNDS, Box, Pair, points
from sfumato.sketch._stored import Stored

__all__ = ["SliceTable", "Slices", "blocks_of"]

BITS = 20  # of a coordinate within the bounds
FACTORS = 7  # a column counts from once to so many times in a sum
BLOCK = 2**15  # rows at a time, fewer where there are many slices
CODES = 2**22  # cells of rows at a time: 32 MiB
MOST_CELLS = 2**27  # of all histograms: 1 GiB


class Slices(Stored, in_files=False):
    """How points are cut: every column by itself, then sums of two columns, from a seed.

    bounds: public, of every column; projections: how many sums (none where there is one column);
    bins: equal cells of each histogram; seed: of the columns and factors of the sums.
    """

    bounds: Annotated[Pair, BOUNDS]
    projections: Annotated[int, whole(0, 2**16)]
    bins: Annotated[int, whole(2, 2**12)]
    seed: Annotated[int, SEED]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        columns = len(self.bounds[0])
        slices = columns + self.projections
        if slices * max(self.bins, columns) > MOST_CELLS:
            raise ValueError(
                f"{type(self).__name__}: bins is {self.bins!r} and projections "
                f"{self.projections!r}, which over {columns} columns takes more than 2**27 cells; "
                "lower one of them."
            )

    @cached_property
    def factors(self) -> np.ndarray:
        """Slices by columns: small whole numbers, so that every sum of steps is exact."""
        columns = len(self.bounds[0])
        sums = np.zeros((self.projections if columns > 1 else 0, columns), np.int64)
        words = hash_column(np.arange(4 * len(sums)), self.seed).reshape(-1, 4)
        one = words[:, 0] % np.uint64(columns)
        other = (one + np.uint64(1) + words[:, 1] % np.uint64(max(columns - 1, 1))) % np.uint64(
            columns
        )
        rows = np.arange(len(sums))
        sums[rows, one.astype(np.int64)] = _factor(words[:, 2])
        sums[rows, other.astype(np.int64)] = _factor(words[:, 3])
        return np.vstack([np.eye(columns, dtype=np.int64), sums])

    @property
    def slices(self) -> int:
        """How many histograms there are: the cells that one point counts in."""
        return len(self.factors)

    @cached_property
    def box(self) -> Box:
        return Box(*self.bounds)

    @cached_property
    def weights(self) -> np.ndarray:
        """Of the slices in a mean: half for all columns, half for all sums."""
        columns = len(self.bounds[0])
        sums = self.slices - columns
        parts = [np.full(columns, 1 / columns)] + ([np.full(sums, 1 / sums)] if sums else [])
        return np.asarray(np.concatenate(parts) / len(parts))

    def codes(self, inside: np.ndarray) -> np.ndarray:
        """The cell of each clipped point in each slice's histogram."""
        steps = self.box.steps(inside, BITS)
        sums = (steps @ self.factors.T.astype(np.float64)).astype(np.int64)
        least = np.minimum(self.factors, 0).sum(axis=1) * (2**BITS - 1)
        reach = np.abs(self.factors).sum(axis=1) * (2**BITS - 1) + 1
        return np.asarray((sums - least) * self.bins // reach)

    def counted(self, inside: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Slices by cells: the weight of the clipped points."""
        total = np.zeros(self.slices * self.bins, np.int64)
        starts = np.arange(self.slices) * self.bins
        for block in blocks_of(len(inside), self.slices):
            cells = (self.codes(inside[block]) + starts).reshape(-1)
            # Whole weights below 2**31, 2**15 at a time: floats add them exactly.
            each = None if weights is None else np.repeat(weights[block], self.slices)
            total += np.bincount(cells, each, total.size).astype(np.int64)
        return total.reshape(self.slices, self.bins)


def blocks_of(rows: int, slices: int) -> Iterator[slice]:
    """So many rows at a time that their cells take little memory."""
    step = max(1, min(BLOCK, CODES // slices))
    return (slice(start, start + step) for start in range(0, rows, step))


def _factor(words: np.ndarray) -> np.ndarray:
    size = (words >> np.uint64(8)) % np.uint64(FACTORS) + np.uint64(1)
    return np.where(words & np.uint64(1), size.astype(np.int64), -size.astype(np.int64))


class SliceTable(Slices, Sketch):
    """Counts of points in each cell of each slice.

    Guarantee: coordinates are whole steps of the bounds and factors whole numbers, so that cells
    are the same for any order, split or machine: merging is exact.
    Weights are whole numbers from 0.
    """

    total: int
    clipped: int
    _table: np.ndarray
    _scalars = {"total": 0, "clipped": 0}

    def __init__(
        self, bounds: Any, *, projections: int = 32, bins: int = 64, seed: int = 0
    ) -> None:
        self._set_parameters(bounds=bounds, projections=projections, bins=bins, seed=seed)
        self._allocate()

    def _layout(self) -> dict[str, Cells]:
        return {"_table": Cells(np.int64, (self.slices, self.bins))}

    def update(self, data: Any, weights: Any = None) -> Self:
        """Count every point, by its weight or by one."""
        given = points("SliceTable", data, len(self.bounds[0]))
        weighted = whole_weights("SliceTable", weights, len(given))
        added = len(given) if weighted is None else int(weighted.sum())
        total = whole(0).check("SliceTable", "total", self.total + added)
        inside, outside = self.box.clip(given)
        self._table += self.counted(inside, weighted)
        self.total = total
        self.clipped += outside
        return self
