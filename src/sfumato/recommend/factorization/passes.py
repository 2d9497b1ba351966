"""Passes over ratings: shuffled columns, their parts, and what takes a pass back."""

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from sfumato.kernels.recommend import sgd_dense as shuffle

__all__ = [
    "NO_LOG",
    "Regions",
    "ShuffledRatings",
    "Undo",
    "in_ratings",
    "is_finite",
    "restore",
    "snapshot",
    "split",
]

FEW = 4096  # rows below which an exact permutation is cheap


class ShuffledRatings:
    """Columns of users, items and ratings, shuffled in memory so that a pass reads in order."""

    def __init__(self, *columns: np.ndarray) -> None:
        self.columns = columns
        self._spare = tuple(np.empty_like(column) for column in columns)
        self._again = 1 + int(math.log(max(columns[0].size, 1), shuffle.PILES))

    def shuffle(self, random: Generator) -> None:
        """Shuffle all rows; the first call repeats it until a row may reach any position."""
        size = self.columns[0].size
        if size < FEW:
            order = random.permutation(size)
            self.columns = tuple(column[order] for column in self.columns)
            return
        for _ in range(self._again):
            words = random.integers(2**64, size=size // shuffle.PILES, dtype=np.uint64)
            shuffle.deal(*self.columns, words, *self._spare)
            self.columns, self._spare = self._spare, self.columns
            self._exchange(random, size - size % shuffle.PILES)
        self._again = 1

    def _exchange(self, random: Generator, end: int) -> None:
        """Swap the rows from `end` on, which fill no group, with random other rows."""
        size = self.columns[0].size
        there = random.choice(end, size - end, replace=False)
        for column in self.columns:
            column[end:], column[there] = column[there], column[end:].copy()

    def parts(self, count: int) -> list[tuple[np.ndarray, ...]]:
        """Split the rows into `count` parts of equal length."""
        return split(self.columns, count)


def split(columns: tuple[np.ndarray, ...], count: int) -> list[tuple[np.ndarray, ...]]:
    """Split rows into `count` parts of equal length, one per thread."""
    size = columns[0].size
    ends = [size * part // count for part in range(count + 1)]
    return [tuple(column[start:end] for column in columns) for start, end in pairwise(ends)]


NO_LOG = np.empty(0, np.float32)
Regions = list[tuple[np.ndarray, np.ndarray | None]]  # tables, positions in them; None: all


def snapshot(regions: Regions) -> list[np.ndarray]:
    """Return copies of the values in these regions.

    >>> table = np.arange(4.0)
    >>> before = snapshot([(table, np.array([1, 1, 3]))])
    >>> table[:] = np.nan
    >>> restore([(table, np.array([1, 1, 3]))], before)
    >>> table
    array([nan,  1., nan,  3.])
    """
    return [table.copy() if at is None else table[at] for table, at in regions]


def restore(regions: Regions, before: list[np.ndarray]) -> None:
    """Write the values of a snapshot back."""
    for (table, at), numbers in zip(regions, before, strict=True):
        table[... if at is None else at] = numbers


def is_finite(regions: Regions) -> bool:
    """Return whether all values in these regions are finite."""
    with np.errstate(all="ignore"):  # a value that is not finite leaves no finite sum
        sums = [(table if at is None else table[at]).sum() for table, at in regions]
    return bool(np.isfinite(sums).all())


class Undo:
    """What restores tables: copies of some regions, or a log that a pass writes.

    `copied=False` names regions without copying them, where nothing is to be restored.
    """

    def __init__(
        self,
        regions: Regions,
        log: np.ndarray = NO_LOG,
        undo: Callable[[], Any] | None = None,
        *,
        copied: bool = True,
    ) -> None:
        self.regions: list[tuple[np.ndarray, np.ndarray | None]]
        self.log: np.ndarray
        self.regions, self.log, self._undo = regions, log, undo
        self._copies = snapshot(regions) if copied else []

    def restore(self) -> None:
        """Write the earlier values back."""
        if self._undo is None:
            restore(self.regions, self._copies)
        else:
            self._undo()


@lru_cache(64)
def in_ratings(factors: int, scale: float) -> np.ndarray:
    """Return the factors that convert vectors from stars to the unit of the ratings."""
    weights = np.full(factors, scale**0.5, np.float32)
    weights[-1] = scale
    return weights
