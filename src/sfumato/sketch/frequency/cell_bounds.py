"""Proved bounds on errors of estimates, from the cells of a table, in little memory.

A key that is in cell J of a row reads its own weight plus the load L[J] of all other keys, and of
the noise of a release. J and the key's sign are uniform and independent of the loads and of other
rows. So, given the loads, a row is off by more than t with probability (loads above t) / width. The
cells are the loads, but for the key's own weight in J. Few cells hold heavy keys, so they hardly
count.

The cells depend on J, which a bound must not. So every condition on the cells here is at least as
strict as the same condition on the loads, whatever J is. The bound from the cells is then never
below one from the loads alone, which holds with the stated probability given the loads; so it holds
at least as often, although it is read from the table that makes the estimate.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sfumato.sketch.concentration import upper_tail

__all__ = [
    "CentredRow",
    "bound_of_centred_rows",
    "bound_of_means",
    "bound_of_medians",
    "bound_of_minima",
    "less_others",
    "middles",
]

PIECE = 2**16  # cells at a time: half a MiB
CUTS = np.geomspace(2.0**-30, 1, 512)  # of the largest cell
ENOUGH = 4  # cells of a row that may be cut off
CLOSE = 1e-6  # a bound for real cells is searched up to this fraction of it


class CentredRow(NamedTuple):
    """An estimate by one of a key's rows in order, or by the median of them.

    Each row gives its cell less a quantile of the other cells of its table row, so that the chosen
    row of an absent key is as often above 0 as below, were all table rows alike.

    position: place in the order, from 0 up, or None for the median; quantile: of the other cells.
    """

    position: int | None
    quantile: float

    @classmethod
    def of(cls, position: int | None, depth: int) -> "CentredRow":
        """The row at this place; its quantile is the median of a beta distribution."""
        if position is None:
            return cls(None, 0.5)
        from scipy.special import betaincinv  # here, since its import takes a fifth of a second

        return cls(position, float(betaincinv(position + 1, depth - position, 0.5)))

    @classmethod
    def candidates(cls, depth: int) -> list["CentredRow"]:
        """Rows at the places 0, 1, 3, 7, ... below the middle, and the median."""
        places = [2**k - 1 for k in range(depth.bit_length()) if 2**k <= depth // 2]
        return [cls.of(each, depth) for each in [*places, None]]

    def among(self, width: int) -> tuple[int, int]:
        """The two order statistics of a table row without one cell whose mean is the quantile."""
        place = self.quantile * (width - 2)
        return math.floor(place), math.ceil(place)

    def needed(self, depth: int) -> tuple[int, int]:
        """The least number of rows that are too high if the estimate is, and the same for low."""
        if self.position is None:
            return math.ceil(depth / 2), math.ceil(depth / 2)
        return depth - self.position, self.position + 1

    def chosen(self, rows: np.ndarray) -> np.ndarray:
        """The estimates from sorted rows of keys."""
        if self.position is not None:
            return np.asarray(rows[self.position], np.float64)
        depth = rows.shape[0]
        return np.asarray(rows[(depth - 1) // 2] / 2 + rows[depth // 2] / 2, np.float64)


def bound_of_minima(table: np.ndarray, miss: float) -> float:
    """What the smallest of a key's loads, one a row, exceeds with probability at most `miss`.

    Loads are not negative, and at most the cells. All rows must exceed it.
    """

    def suffices(t: float) -> bool:
        return bool(math.prod((_above(table, t) / table.shape[1]).tolist()) <= miss)

    return _smallest(table, float(table.max()), suffices)


def bound_of_medians(table: np.ndarray, miss: float) -> float:
    """What the size of the median of a key's signed loads exceeds with probability `miss`, at most.

    Infinite if the table is too narrow. Half of the rows must exceed it on one side. At most one
    load of a row is larger in size than its cell: that of J, if the key's weight cancels it.
    """
    depth, width = table.shape

    def suffices(t: float) -> bool:
        both = _above(table, t) + _above(table, t, down=True)
        chances = np.minimum((both + 1) / width, 1.0) / 2  # the sign decides the side
        return 2 * upper_tail(chances.tolist(), math.ceil(depth / 2)) <= miss

    return _smallest(table, float(max(-table.min(), table.max())), suffices)


def bound_of_centred_rows(table: np.ndarray, miss: float, row: CentredRow) -> float:
    """What the size of the estimate by a centred row exceeds with probability `miss`, at most.

    The estimate is as in `CentredRow`, less the key's weight. Infinite if the table is too narrow.
    Weights are not negative, so the loads are at most the cells, and lower than these in one cell
    of a row only. With one cell lowered and any one left out, the quantile of a row stays between
    the order statistics next to its own.
    """
    depth, width = table.shape
    if row.among(width)[0] < 1:
        return math.inf
    low, high = middles(table, row, below=1)
    up_need, down_need = row.needed(depth)

    def suffices(t: float) -> bool:
        up = _above(table, t, centres=low) / width
        down = np.minimum((_above(table, t, centres=high, down=True) + 1) / width, 1.0)
        return upper_tail(up.tolist(), up_need) + upper_tail(down.tolist(), down_need) <= miss

    largest = max(int(table.max()) - int(low.min()), int(high.max()) - int(table.min()))
    return _smallest(table, float(largest), suffices)


def bound_of_means(table: np.ndarray, miss: float) -> float:
    """What the size of the mean of a key's signed loads exceeds with probability `miss`, at most.

    Infinite if fewer than ENOUGH cells of a row may be cut off: Chebyshev's inequality without any
    cut is then better for skewed streams. For each cut, loads above it are charged their
    probability, and those up to it enter Chebyshev's inequality; or the cut itself bounds the mean.
    One load, that of J, may be on the other side of the cut than its cell. Given the loads, every
    cut gives a bound, and so does the best of them.
    """
    depth, width = table.shape
    largest = float(max(-table.min(), table.max()))
    if width * miss < ENOUGH * depth:
        return math.inf
    if largest == 0:
        return 0.0
    below, squares = _cut(table, largest)
    left = miss - (depth * width - below + depth) / width
    variance = (squares + depth * CUTS**2) / (width * depth**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.minimum(np.where(left > 0, np.sqrt(variance / left), np.inf), CUTS)
    return largest * float(bounds[left >= 0].min())


def middles(table: np.ndarray, row: CentredRow, below: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Order statistics of each table row between which the quantile of all its cells but one is.

    The lower ones are so many places `below` that, as if one cell were lowered too.
    """
    width = table.shape[1]
    first, last = row.among(width)
    low, high = max(first - below, 0), min(last + 1, width - 1)
    found = [np.partition(each, (low, high))[[low, high]] for each in table]
    return np.array([each[0] for each in found]), np.array([each[1] for each in found])


def less_others(table: np.ndarray, row: CentredRow) -> np.ndarray:
    """Each cell less the quantile of the other cells of its table row, float64."""
    width = table.shape[1]
    low, high = row.among(width)
    out = np.empty(table.shape)
    for cells, found in zip(table, out, strict=True):
        ordered = np.partition(cells, (low, low + 1, high, high + 1))
        for start in range(0, width, PIECE):
            piece = cells[start : start + PIECE]
            one, two = (
                np.where(piece > ordered[i], ordered[i], ordered[i + 1]) for i in (low, high)
            )
            found[start : start + PIECE] = piece - (one / 2 + two / 2)
    return out


def _above(
    table: np.ndarray, t: float, centres: np.ndarray | None = None, down: bool = False
) -> np.ndarray:
    """The number of cells of each row above its centre by more than t; or below, if `down`."""
    step = int(t) if table.dtype.kind != "f" and t < 2**63 else t
    counts = []
    for r, row in enumerate(table):
        centre = 0 if centres is None else centres[r].item()
        pieces = (row[start : start + PIECE] for start in range(0, row.size, PIECE))
        if down:
            counts.append(sum(int((piece < centre - step).sum()) for piece in pieces))
        else:
            counts.append(sum(int((piece > centre + step).sum()) for piece in pieces))
    return np.array(counts)


def _smallest(table: np.ndarray, high: float, suffices: Callable[[float], bool]) -> float:
    """The smallest t up to `high` that suffices, a whole number for integers; by bisection.

    Infinity if none does.
    """
    whole, low = table.dtype.kind != "f", 0.0
    if suffices(low):
        return low
    if not suffices(high):
        return math.inf
    while high - low > (1 if whole else CLOSE * high):
        middle = (low + high) / 2
        middle = float(math.floor(middle)) if whole else middle
        if not low < middle < high:  # neighbours, among the floats
            break
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def _cut(table: np.ndarray, largest: float) -> tuple[np.ndarray, np.ndarray]:
    """Number of the cells up to each cut, and sum of their squares, in units of the largest."""
    counts, squares = np.zeros(CUTS.size + 1), np.zeros(CUTS.size + 1)
    for row in table:
        for start in range(0, row.size, PIECE):
            sizes = np.abs(row[start : start + PIECE]) / largest
            at = np.searchsorted(CUTS, sizes)  # the first cut that is not below
            counts += np.bincount(at, minlength=CUTS.size + 1)
            squares += np.bincount(at, sizes**2, CUTS.size + 1)
    return np.cumsum(counts)[:-1], np.cumsum(squares)[:-1]
