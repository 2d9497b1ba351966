"""The rows of a RACE sketch: hash functions of a family, and in which cell each code stands."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from sfumato.hashing import hash_column
from sfumato.kernels import race
from sfumato.kernels.lanes import aligned
from sfumato.sketch.lsh._family import Draw, Family, Points

__all__ = ["Rows"]

POINTS = 2048  # at a time, and so many positions: they stay in the second cache
POSITIONS = 2**17
CODES = 2**21  # of a family without a matrix, at a time: 16 MiB
LANES = 16
SHORT = 2048  # cells of a row that may be counted in parts

Block = tuple[slice, slice, np.ndarray]  # rows, points, and their slots


@dataclass(frozen=True)
class Rows:
    """Where points fall in a table of `draw.rows` rows and `width` cells.

    A row whose codes all fit is addressed directly; the others are hashed to all cells, uniformly.
    used: how many cells of each row can be reached.
    """

    family: Family
    draw: Draw
    width: int
    matrix: np.ndarray | None
    direct: np.ndarray
    used: np.ndarray
    keys: np.ndarray

    @classmethod
    def of(cls, family: Family, draw: Draw, width: int) -> Self:
        """The rows of a family's hash functions."""
        buckets = family.buckets(draw)
        if buckets is None:
            buckets = np.full(draw.rows, np.iinfo(np.int64).max)
        keys = hash_column(np.arange(draw.rows), draw.child(-1).seed)
        used = np.minimum(buckets, width)
        return cls(family, draw, width, family.linear(draw), buckets <= width, used, keys)

    def tally(self, points: Points, weights: np.ndarray | None, table: np.ndarray) -> None:
        """Add every point, by its weight or by one, to its cell in every row."""
        parts = np.zeros((4 if self.width <= SHORT else 0, self.width), np.int32)
        for rows, part, slots in self._blocks(points):
            if weights is None:
                race.tally(slots, self.used[rows], parts, table[rows])
            else:
                race.tally_weighted(slots, np.ascontiguousarray(weights[part]), table[rows])

    def gather(
        self, points: Points, table: np.ndarray, scales: np.ndarray, groups: np.ndarray
    ) -> np.ndarray:
        """For every group (down) and point (across): the sum of its rows' cells times scales."""
        out = np.zeros((int(groups.max()) + 1, points.size))
        for rows, part, slots in self._blocks(points):
            sums = np.ascontiguousarray(out[:, part])
            race.gather(table[rows], slots, scales[rows], groups[rows], sums)
            out[:, part] = sums
        return out

    def _blocks(self, points: Points) -> Iterator[Block]:
        for rows, part, positions in self._positions(points):
            slots = aligned(positions.shape, np.uint32)
            race.slots(positions, self.direct[rows], self.keys[rows], self.width, slots)
            yield rows, part, slots

    def _positions(self, points: Points) -> Iterator[Block]:
        if self.matrix is None:
            step = max(1, CODES // max(1, points.size))
            step -= step % LANES if step > LANES else 0  # sets are hashed in so many rows at once
            for rows in _slices(self.draw.rows, step):
                codes = self.family.codes(points, self.draw, rows)
                yield rows, slice(0, points.size), np.ascontiguousarray(codes.T, np.int64)
            return
        blocks = -(-points.size // POINTS)
        for first in range(blocks):
            # Neighbours in a file are often alike, and cells that were just written are slow.
            part = slice(first, points.size, blocks)
            columns = np.ascontiguousarray(points.parts[0][:, part])
            for rows in _slices(self.draw.rows, max(16, POSITIONS // columns.shape[1])):
                yield rows, part, self.matrix[rows] @ columns


def _slices(size: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, size)) for start in range(0, size, step))
