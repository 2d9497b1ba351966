"""Cells of an index: k-means centres of its vectors, and how many cells a search must read."""

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from sfumato.kernels.retrieve import cell_scan
from sfumato.retrieve.encoders.linear import Product
from sfumato.retrieve.metric import lengths

__all__ = ["GROWTH", "CellPartition", "cells_for"]

FEWEST = 20_000  # rows from which "auto" makes cells; fewer are scanned as fast
GROWTH = 4  # cells are made anew once there are this many times as many rows
ROUNDS = 8  # of k-means
QUERIES, NEIGHBOURS = 400, 10  # by which the number of cells to probe is measured
BLOCK = 64  # of these queries at a time


def cells_for(partitions: Any, rows: int) -> int:
    """Number of cells for so many rows, 1 for none; for "auto" 2**k near 1.45 sqrt(rows)."""
    if partitions is None:
        return 1
    if partitions == "auto":
        return 1 if rows < FEWEST else 2 ** round(math.log2(1.45 * math.sqrt(rows)))
    return int(partitions) if rows >= partitions else 1


class CellPartition:
    """Centres of cells, float32, and the fraction of near neighbours in the first cells probed.

    A vector belongs to the cell of the nearest centre. A query probes the cells of largest product
    with their centres. coverage[p] is the fraction of the ten nearest neighbours of sampled rows
    that lie in the first p + 1 cells; rows is how many there were.

    **Guarantee.** The cell of a vector depends on it and the centres alone.

    >>> cells = CellPartition(np.eye(2, dtype=np.float32), np.array([0.9, 1.0]), 2)
    >>> cells.assign(np.array([[1.0, 0.2], [0.1, 1.0]], np.float32)), cells.probes(0.95)
    (array([0, 1]), 2)
    """

    def __init__(self, centres: np.ndarray, coverage: np.ndarray, rows: int) -> None:
        self.centres, self.coverage, self.rows = centres, coverage, rows
        self._panels = Product.of(centres).panels
        self._halves = (np.square(lengths(centres)) / 2).astype(np.float32)

    @classmethod
    def learn(
        cls,
        points: np.ndarray,
        cells: int,
        rows: int,
        *,
        unit: bool,
        queries: Callable[[np.ndarray], np.ndarray],
        seed: int,
    ) -> Self:
        """Cells of a sample of points, by k-means (spherical where they are unit vectors).

        rows is the number of rows that there are; queries gives the queries that are vectors as
        these points are.
        """
        rng = np.random.default_rng(seed)
        made = cls(points[np.sort(rng.choice(len(points), cells, replace=False))], np.ones(1), rows)
        for _ in range(ROUNDS):
            made = cls(made._moved(points, rng, unit), np.ones(1), rows)
        return cls(made.centres, made._covered(points, rng, queries), rows)

    def __len__(self) -> int:
        return len(self.centres)

    def assign(self, points: np.ndarray) -> np.ndarray:
        """Cell of each point, int64."""
        out = np.empty(len(points), np.int64)
        cell_scan.nearest_cells(self._panels, self._halves, points, out)
        return out

    def cells(self, queries: np.ndarray, probes: int) -> np.ndarray:
        """The cells that queries probe first, int64 (q, probes)."""
        cells = np.empty((len(queries), probes), np.int64)
        cell_scan.probe(self._panels, len(self.centres), queries, cells)
        return cells

    def probes(self, recall: float) -> int:
        """Number of cells in which this fraction of near neighbours was found."""
        return min(int(np.searchsorted(self.coverage, recall)) + 1, len(self))

    def _moved(self, points: np.ndarray, rng: np.random.Generator, unit: bool) -> np.ndarray:
        """Means of the cells, or their directions; an empty one moves to a random point."""
        sums, counts = np.zeros(self.centres.shape), np.zeros(len(self), np.int64)
        cell_scan.sum_cells(points, self.assign(points), sums, counts)
        scale = np.maximum(lengths(sums), 1e-30) if unit else np.maximum(counts, 1)
        means = (sums / scale[:, None]).astype(np.float32)
        empty = np.flatnonzero(counts == 0)
        means[empty] = points[rng.integers(len(points), size=empty.size)]
        return means

    def _covered(
        self,
        points: np.ndarray,
        rng: np.random.Generator,
        queries_of: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Fraction of sampled points' neighbours in the first p + 1 cells, for every p."""
        cells, ranks = self.assign(points), np.zeros(len(self))
        picks = rng.choice(len(points), min(QUERIES, len(points)), replace=False)
        for start in range(0, picks.size, BLOCK):
            some = picks[start : start + BLOCK]
            queries = queries_of(points[some])
            scores = queries @ points.T
            scores[np.arange(some.size), some] = -np.inf
            wanted = min(NEIGHBOURS, len(points) - 1)
            near = np.argpartition(-scores, wanted - 1, axis=1)[:, :wanted]
            along = queries @ self.centres.T
            own = np.take_along_axis(along, cells[near], axis=1)
            before = (along[:, None, :] > own[:, :, None]).sum(axis=2)
            ranks += np.bincount(before.ravel(), minlength=len(self))
        return np.asarray(np.cumsum(ranks) / ranks.sum(), np.float64)
