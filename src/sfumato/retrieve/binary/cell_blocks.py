"""Which blocks of rows belong to which cell of an index, in chains that grow behind readers."""

from typing import NamedTuple, Self

import numpy as np

from sfumato.kernels.retrieve import cell_scan
from sfumato.kernels.retrieve.layout import BLOCK

__all__ = ["CellBlocks", "Chains"]


class Chains(NamedTuple):
    """First block of each cell, and the block after each block; -1 for none.

    Blocks past those of a snapshot may appear in it; a reader ignores them.
    """

    first: np.ndarray
    following: np.ndarray


class CellBlocks:
    """Blocks of BLOCK rows, each of one cell; a row is never given twice.

    >>> cells = CellBlocks.empty(2)
    >>> cells.rows(np.array([1, 0, 1])), cells.used, cells.of(np.array([1, 64]))
    (array([64,  0, 65]), 2, array([0, 1], dtype=int32))
    """

    def __init__(self, cells: int, owners: np.ndarray, fill: np.ndarray) -> None:
        self.used = len(owners)
        self._owners = owners.astype(np.int32)
        self._first, self._last = np.full((2, cells), -1, np.int64)
        self._following = np.full(len(owners), -1, np.int64)
        self._fill = fill.astype(np.int64)
        order = np.argsort(owners, kind="stable")
        same = owners[order[1:]] == owners[order[:-1]]
        self._following[order[:-1][same]] = order[1:][same]
        self._last[owners] = np.arange(len(owners))
        self._first[owners[::-1]] = np.arange(len(owners))[::-1]
        self._chains = Chains(self._first, self._following)

    @classmethod
    def empty(cls, cells: int) -> Self:
        """Cells without blocks."""
        return cls(cells, np.empty(0, np.int32), np.full(cells, BLOCK))

    @classmethod
    def over(cls, cells: int, owners: np.ndarray, alive: np.ndarray) -> Self:
        """Cells of stored blocks; the rows taken in the last of each are those with a bit."""
        fill = np.full(cells, BLOCK)
        fill[owners] = np.bitwise_count(alive)  # of several blocks, the last counts
        return cls(cells, owners, fill)

    def __len__(self) -> int:
        return len(self._first)

    @property
    def owners(self) -> np.ndarray:
        """Cell of each block, int32."""
        return self._owners[: self.used]

    @property
    def chains(self) -> Chains:
        """The chains as they are, for readers."""
        return self._chains

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Cell of each of these rows."""
        return np.asarray(self._owners[rows // BLOCK])

    def rows(self, cells: np.ndarray) -> np.ndarray:
        """Take the next free row of each cell, in new blocks where the last is full."""
        needed = self.used + min(cells.size, len(self._first)) + cells.size // BLOCK
        if needed > len(self._following):
            self._reserve(needed)
        if cells.size == 1:
            return self._allocated(cells)
        order = np.argsort(cells, kind="stable")  # so that the blocks of a chain lie side by side
        out = np.empty(cells.size, np.int64)
        out[order] = self._allocated(cells[order])
        return out

    def _allocated(self, cells: np.ndarray) -> np.ndarray:
        out = np.empty(cells.size, np.int64)
        self.used = cell_scan.allocate(
            cells, self.used, self._first, self._following, self._owners, self._last, self._fill,
            out,
        )  # fmt: skip
        return out

    def _reserve(self, blocks: int) -> None:
        more = max(blocks, 2 * self.used) - len(self._following)
        self._following = np.append(self._following, np.full(more, -1))
        self._owners = np.append(self._owners, np.zeros(more, np.int32))
        self._chains = Chains(self._first, self._following)
