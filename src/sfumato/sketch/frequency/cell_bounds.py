"""Proved bounds on errors of estimates, from the cells of a table, in little memory.

A key that is in cell J of a row reads its own weight plus the load L[J] of all other keys, and of
the noise of a release. J and the key's sign are uniform and independent of the loads and of other
rows. So, given the loads, a row is off by more than t with probability (loads above t) / width. The
cells are the loads, but for the key's own weight in J. Few cells hold heavy keys, so they hardly
count.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from sfumato.sketch.concentration import upper_tail

__all__ = ["bound_of_means", "bound_of_medians", "bound_of_minima"]

PIECE = 2**16  # cells at a time: half a MiB
CUTS = np.geomspace(2.0**-30, 1, 512)  # of the largest cell
ENOUGH = 4  # cells of a row that may be cut off
CLOSE = 1e-6  # a bound for real cells is searched up to this fraction of it


def bound_of_minima(table: np.ndarray, miss: float) -> float:
    """What the smallest of a key's loads, one a row, exceeds with probability at most `miss`.

    Loads are not negative, and at most the cells. All rows must exceed it.
    """

    def suffices(t: float) -> bool:
        return bool(math.prod((_above(table, t) / table.shape[1]).tolist()) <= miss)

    return _smallest(table, suffices)


def bound_of_medians(table: np.ndarray, miss: float) -> float:
    """What the size of the median of a key's signed loads exceeds with probability `miss`, at most.

    Infinite if the table is too narrow. Half of the rows must exceed it on one side. At most one
    load of a row is larger in size than its cell: that of J, if the key's weight cancels it.
    """
    depth, width = table.shape

    def suffices(t: float) -> bool:
        chances = np.minimum((_above(table, t) + 1) / width, 1.0) / 2  # the sign decides the side
        return 2 * upper_tail(chances.tolist(), math.ceil(depth / 2)) <= miss

    return _smallest(table, suffices)


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


def _pieces(row: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, row.size, PIECE):
        yield np.abs(row[start : start + PIECE])


def _above(table: np.ndarray, t: float) -> np.ndarray:
    """The number of cells of each row that are above t in size."""
    return np.array([sum(int((p > t).sum()) for p in _pieces(row)) for row in table])


def _smallest(table: np.ndarray, suffices: Callable[[float], bool]) -> float:
    """The smallest t that suffices, if the largest cell does, else infinity; by bisection."""
    whole = table.dtype.kind != "f"
    low, high = 0.0, float(max(-table.min(), table.max()))
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
        for piece in _pieces(row):
            sizes = piece / largest
            at = np.searchsorted(CUTS, sizes)  # the first cut that is not below
            counts += np.bincount(at, minlength=CUTS.size + 1)
            squares += np.bincount(at, sizes**2, CUTS.size + 1)
    return np.cumsum(counts)[:-1], np.cumsum(squares)[:-1]
