"""Splines over blocks of a grid's axis: whole shares, the way back, and their overlaps."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["Filter"]


@dataclass(frozen=True)
class Filter:
    """Every entry of an axis shares itself among `order` wider cells, as a B-spline would.

    Blocks of `block` entries count as one; each of these adds whole numbers that sum to `parts` to
    `order` neighbouring cells, which are `step` of them apart. Order 2 makes hats.
    """

    step: int
    order: int
    block: int = 1

    @property
    def parts(self) -> int:
        """What the shares of one entry sum to."""
        return int(self.step ** (self.order - 1))

    @cached_property
    def weights(self) -> np.ndarray:
        """The shares (order, step): row t for the cell that begins t steps before."""
        spline = np.ones(1, np.int64)
        for _ in range(self.order):
            spline = np.convolve(spline, np.ones(self.step, np.int64))
        out = np.zeros(self.order * self.step, np.int64)
        out[: spline.size] = spline
        return out.reshape(self.order, self.step)

    @property
    def largest_square(self) -> int:
        """The most that the squares of one entry's shares sum to."""
        return int((self.weights**2).sum(axis=0).max())

    def cells(self, entries: int) -> int:
        """How many cells there are over so many entries."""
        return -(-entries // (self.step * self.block)) + self.order - 1

    def gather(self, entries: np.ndarray, axis: int) -> np.ndarray:
        """The cells, from the entries along an axis."""
        rows = np.moveaxis(entries, axis, 0)
        blocks = self.cells(len(rows)) - self.order + 1
        padded = np.zeros((blocks * self.step * self.block, *rows.shape[1:]), entries.dtype)
        padded[: len(rows)] = rows
        split = padded.reshape(blocks, self.step, self.block, -1).sum(axis=2)
        out = np.zeros((blocks + self.order - 1, split.shape[2]), entries.dtype)
        for t in range(self.order):
            place = self.order - 1 - t
            for s in range(self.step):
                out[place : place + blocks] += self.weights[t, s] * split[:, s]
        return np.moveaxis(out.reshape(len(out), *rows.shape[1:]), 0, axis)

    def scatter(self, cells: np.ndarray, axis: int, entries: int) -> np.ndarray:
        """The transpose of `gather`: from cells to so many entries."""
        rows = np.moveaxis(cells, axis, 0)
        blocks = len(rows) - self.order + 1
        split = np.zeros((blocks, self.step, 1, *rows.shape[1:]))
        for t in range(self.order):
            part = rows[self.order - 1 - t :][:blocks]
            for s in range(self.step):
                split[:, s, 0] += self.weights[t, s] * part
        wide = np.broadcast_to(split, (blocks, self.step, self.block, *rows.shape[1:]))
        return np.moveaxis(wide.reshape(-1, *rows.shape[1:])[:entries], 0, axis)

    def overlaps(self, entries: int) -> np.ndarray:
        """Row k: gather(scatter()) of each cell with the k-th after it; for a block of 1."""
        count = self.cells(entries)
        out = np.zeros((self.order, count))
        blocks = count - self.order + 1
        rest = entries - (blocks - 1) * self.step
        for first in range(self.order):
            for second in range(first + 1):
                products = self.weights[first] * self.weights[second]
                cell = self.order - 1 - first
                out[first - second, cell : cell + blocks] += products.sum()
                out[first - second, cell + blocks - 1] -= products[rest:].sum()
        return out

    def kept(self, waves: np.ndarray) -> np.ndarray:
        """What scatter(gather()) multiplies waves by, on average over how they meet the blocks."""
        wide = self.block * self.step
        size = (
            _sine_ratio(waves, self.block)
            * _sine_ratio(self.block * waves, self.step) ** self.order
        )
        return np.asarray(size**2 / wide)


def _sine_ratio(waves: np.ndarray, width: int) -> np.ndarray:
    """The sum of `width` neighbours of a wave, as a multiple of it."""
    below = np.sin(waves / 2)
    flat = np.abs(below) < 1e-12
    return np.where(flat, float(width), np.sin(width * waves / 2) / np.where(flat, 1.0, below))
