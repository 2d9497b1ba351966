"""Sums of a grid's nodes over equal blocks, and their cosines on the scale of the nodes."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["GridBlocks", "blocks_for", "padded"]

DIVISIBLE = 12  # nodes along an axis are padded to a multiple, so that many block sizes fit


@dataclass(frozen=True)
class GridBlocks:
    """Equal blocks of nodes along every axis; beyond the last node there are empty ones.

    Parameters: shape, nodes along every axis; counts, blocks along every axis, which divide the
    padded number of nodes.
    """

    shape: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Number of all blocks."""
        return math.prod(self.counts)

    @cached_property
    def sides(self) -> tuple[int, ...]:
        """Nodes of one block along every axis."""
        return tuple(m // k for m, k in zip(padded(self.shape), self.counts, strict=True))

    def sums(self, nodes: np.ndarray) -> np.ndarray:
        """The sum of each block: every node is in exactly one."""
        for axis, (count, side) in enumerate(zip(self.counts, self.sides, strict=True)):
            rows = np.moveaxis(nodes, axis, 0)
            wide = np.zeros((count * side, *rows.shape[1:]), nodes.dtype)
            wide[: len(rows)] = rows
            sums = wide.reshape(count, side, *rows.shape[1:]).sum(axis=1)
            nodes = np.moveaxis(sums, 0, axis)
        return nodes

    def waves(self, cells: np.ndarray) -> np.ndarray:
        """Cosine coefficients of the nodes whose block sums are these, the slowest ones alone."""
        from scipy.fft import dctn

        return np.asarray(dctn(cells, norm="ortho") / self._response)

    @cached_property
    def unit_noise(self) -> np.ndarray:
        """Noise variance of each coefficient of `waves` if a cell's noise has variance 1."""
        return np.asarray(1 / self._response**2)

    @cached_property
    def _response(self) -> np.ndarray:
        """The coefficient of a block sum's wave by that of the nodes' wave."""
        out = np.ones(())
        for count, side in zip(self.counts, self.sides, strict=True):
            turn = np.pi * np.arange(count) / (2 * count)
            below = side * np.sin(turn / side)
            mean = np.where(below > 0, np.sin(turn) / np.where(below > 0, below, 1.0), 1.0)
            out = np.multiply.outer(out, mean * math.sqrt(side))
        return np.asarray(out)


def padded(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The number of nodes along every axis, with empty ones, that many block sizes divide."""
    return tuple(-(-n // DIVISIBLE) * DIVISIBLE for n in shape)


def blocks_for(shape: tuple[int, ...], most: int) -> list[GridBlocks]:
    """All blocks with up to `most` along the longest axis, and in proportion along the others."""
    wide = padded(shape)
    out: dict[tuple[int, ...], GridBlocks] = {}
    for count in range(1, min(most, max(wide)) + 1):
        if max(wide) % count:
            continue
        counts = []
        for m in wide:
            fit = [k for k in range(1, m + 1) if m % k == 0 and k <= max(1, count * m / max(wide))]
            counts.append(fit[-1])
        out.setdefault(tuple(counts), GridBlocks(shape, tuple(counts)))
    return list(out.values())
