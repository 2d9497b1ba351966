"""Rows: ratings in columns that are shuffled by moving them, so that a pass reads in order."""

import math
from itertools import pairwise

import numpy as np
from numpy.random import Generator

from sfumato.kernels import shuffle

__all__ = ["Rows"]

FEW = 4096  # rows below which an exact permutation costs nothing


class Rows:
    """Columns of users, items and ratings that are shuffled by moving them."""

    def __init__(self, *columns: np.ndarray) -> None:
        self.columns = columns
        self._spare = tuple(np.empty_like(column) for column in columns)
        self._again = 1 + int(math.log(max(columns[0].size, 1), shuffle.PILES))

    def shuffle(self, random: Generator) -> None:
        """Move every row; the first time so often that it may end at any place."""
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
        """The rows from `end` on, which filled no group, change places with random ones."""
        size = self.columns[0].size
        there = random.choice(end, size - end, replace=False)
        for column in self.columns:
            column[end:], column[there] = column[there], column[end:].copy()

    def parts(self, count: int) -> list[tuple[np.ndarray, ...]]:
        """The rows in so many parts of equal length, for as many threads."""
        size = self.columns[0].size
        ends = [size * part // count for part in range(count + 1)]
        return [
            tuple(column[start:end] for column in self.columns) for start, end in pairwise(ends)
        ]
