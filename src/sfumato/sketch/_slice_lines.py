"""Lines through a box in all directions, with bins; every position on them is exact."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from sfumato.sketch._points import Box
from sfumato.sketch._strata import unit_rows

__all__ = ["UNIT", "Lines"]

UNIT = 16  # whole shares of a point that two neighbouring bins divide among them
EXACT = 53  # bits of whole numbers that float64 holds
POSITIONS = 2**18  # at a time: 2 MiB
POINTS = 4096  # at a time


@dataclass(frozen=True)
class Lines:
    """Directions, each with bins of one width from an offset of its own.

    box: where points are. matrix: rows (slope in bins per step of the box, start in bins), all
    multiples of one power of two so fine and so few that no product or sum of a position is ever
    rounded: every order of summation gives the same one. width: bins of the longest line.
    """

    box: Box
    matrix: np.ndarray
    width: int

    @classmethod
    def of(cls, box: Box, rows: int, step: float, seed: int, strata: str) -> Self:
        """Lines with bins of width `step`, from the seed alone."""
        units, offsets = unit_rows(rows, box.dimension, seed, strata)
        last = 2.0 ** _bits(box.dimension) - 1
        slopes = units * (box.widths / last / step)
        # Added up in one order, so that no machine rounds it to another power of two.
        reach = np.add.accumulate(np.abs(slopes), axis=1)[:, -1] * last + 3
        digits = EXACT - 1 - np.frexp(reach)[1]
        slopes = np.rint(np.ldexp(slopes, digits[:, None]))
        # Where all slopes are rounded, the lowest corner is exact too; it comes to the offset.
        starts = np.rint(np.ldexp(offsets, digits)) - np.minimum(slopes, 0).sum(axis=1) * last
        matrix = np.ldexp(np.column_stack([slopes, starts]), -digits[:, None])
        farthest = np.maximum(matrix[:, :-1], 0).sum(axis=1) * last + matrix[:, -1]
        return cls(box, matrix, math.floor(farthest.max()) + 2)

    def positions(self, inside: np.ndarray) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Lines, points, and where these points of the box are on these lines, block by block."""
        steps = np.ones((self.box.dimension + 1, len(inside)))
        steps[:-1] = self.box.steps(inside, _bits(self.box.dimension)).T
        for first in range(0, len(inside), POINTS):
            part = slice(first, min(first + POINTS, len(inside)))
            block = np.ascontiguousarray(steps[:, part])
            count = max(1, POSITIONS // block.shape[1])
            for row in range(0, len(self.matrix), count):
                rows = slice(row, row + count)
                yield rows, part, self.matrix[rows] @ block


def _bits(dimension: int) -> int:
    """Of a coordinate: half of the digits, so that lines are as fine as points."""
    return (EXACT - 3 - dimension.bit_length()) // 2
