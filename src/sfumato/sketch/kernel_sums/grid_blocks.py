"""Sums of a grid's nodes over blocks of the box, and the cosines of the masses that they imply."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sfumato.sketch.kernel_sums.grid_field import Nodes

__all__ = ["GridBlocks", "blocks_for", "uniform_masses"]

DRAWN = 64  # points per space whose assignment stands for that of uniform ones
STEP = 1.15  # ratio of neighbouring numbers of blocks, at least
NARROWEST = 2  # spaces of a block along an axis, unless all have one
FASTEST = 4  # frequencies that look like slower ones, as a multiple of the number of blocks


@dataclass(frozen=True)
class GridBlocks:
    """Blocks of spaces along every axis of the box, as equal as whole spaces allow.

    Each space has one node; the nodes beyond the box belong to the outermost spaces. So each node
    is in exactly one block. Parameters: nodes; counts, blocks along every axis, from 1 to its
    number of spaces.
    """

    nodes: Nodes
    counts: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Number of all blocks."""
        return math.prod(self.counts)

    def sums(self, masses: np.ndarray) -> np.ndarray:
        """The sum of each block."""
        for axis, side in enumerate(self._sides):
            masses = np.add.reduceat(masses, side.first_nodes, axis=axis)
        return masses

    @cached_property
    def even(self) -> np.ndarray:
        """The share of uniform points that is in each block."""
        return self.sums(uniform_masses(self.nodes))

    def waves(self, sums: np.ndarray) -> np.ndarray:
        """Cosine coefficients of the masses whose block sums are these, the slowest ones alone.

        Masses are those of uniform points times a sum of as many cosines as there are blocks.
        """
        for axis, side in enumerate(self._sides):
            sums = np.moveaxis(side.waves(np.moveaxis(sums, axis, 0)), 0, axis)
        return sums

    @cached_property
    def unit_noise(self) -> np.ndarray:
        """Noise variance of each coefficient of `waves` if a cell's noise has variance 1."""
        out = np.ones(())
        for side in self._sides:
            out = np.multiply.outer(out, side.noise)
        return np.asarray(out)

    def aliased(self, energy: np.ndarray) -> np.ndarray:
        """Energy that faster coefficients add to those of `waves`, axis by axis."""
        out = np.zeros(self.counts)
        for axis, side in enumerate(self._sides):
            count = self.counts[axis]
            places = tuple(slice(0, k) for k in self.counts)
            fast = slice(count, count + side.aliases.shape[1])
            part = energy[(*places[:axis], fast, *places[axis + 1 :])]
            rows = np.moveaxis(part, axis, 0)
            added = side.aliases @ rows.reshape(len(rows), math.prod(rows.shape[1:]))
            out += np.moveaxis(added.reshape(count, *rows.shape[1:]), 0, axis)
        return out

    @property
    def corner(self) -> tuple[slice, ...]:
        """Where these coefficients are among those of all spaces."""
        return tuple(slice(0, count) for count in self.counts)

    @cached_property
    def _sides(self) -> list["_BlockAxis"]:
        nodes = self.nodes
        parts = zip(self.counts, nodes.spaces, nodes.firsts, nodes.offsets, strict=True)
        return [_BlockAxis(k, spaces, first, float(far)) for k, spaces, first, far in parts]


@dataclass(frozen=True)
class _BlockAxis:
    """Blocks along one axis of so many spaces, whose first node is number `first`."""

    count: int
    spaces: int
    first: int
    offset: float

    @cached_property
    def starts(self) -> np.ndarray:
        """The first space of each block, and the end."""
        return np.arange(self.count + 1) * self.spaces // self.count

    @property
    def first_nodes(self) -> np.ndarray:
        """The first node of each block; the nodes beyond the box are in the outermost ones."""
        out = self.first + self.starts[:-1]
        out[0] = 0
        return np.asarray(out)

    @cached_property
    def shares(self) -> np.ndarray:
        """Uniform points in each space, relative to the mean."""
        along = _uniform_along(self.spaces, self.offset)
        starts = self.first + np.arange(self.spaces)
        starts[0] = 0
        return np.add.reduceat(along, starts) * self.spaces

    def waves(self, sums: np.ndarray) -> np.ndarray:
        """Coefficients along the first axis."""
        from scipy.fft import dct

        if self.count == self.spaces:
            relative = sums / self.shares.reshape(-1, *(1,) * (sums.ndim - 1))
            return np.asarray(dct(relative, axis=0, norm="ortho"))
        return np.asarray((self._inverse @ sums.reshape(self.count, -1)).reshape(sums.shape))

    @cached_property
    def noise(self) -> np.ndarray:
        """Noise variance of each coefficient if a block's noise has variance 1."""
        if self.count == self.spaces:
            return np.full(self.count, np.mean(self.shares**-2.0))
        return np.asarray((self._inverse**2).sum(axis=1))

    @cached_property
    def aliases(self) -> np.ndarray:
        """The fraction of the energy of each faster coefficient that each slow one takes over."""
        if self.count == self.spaces:
            return np.zeros((self.count, 0))
        fast = np.arange(self.count, min(FASTEST * self.count, self.spaces))
        return np.asarray((self._inverse @ self._sums(fast)) ** 2)

    @cached_property
    def _inverse(self) -> np.ndarray:
        return np.linalg.inv(self._sums(np.arange(self.count)))

    def _sums(self, waves: np.ndarray) -> np.ndarray:
        """The block sums (count, waves) of uniform points times cosines of these frequencies."""
        turn = np.pi * waves / self.spaces
        below = np.where(waves > 0, 2 * np.sin(turn / 2), 1.0)
        ends = np.sin(np.multiply.outer(self.starts, turn)) / below
        sums = np.where(waves > 0, np.diff(ends, axis=0), np.diff(self.starts)[:, None])
        for block, space in ((0, 0), (-1, self.spaces - 1)):
            sums[block] += (self.shares[space] - 1) * np.cos(turn * (space + 0.5))
        return np.asarray(sums * np.where(waves > 0, math.sqrt(2 / self.spaces), self.spaces**-0.5))


def blocks_for(nodes: Nodes, most: int) -> list[GridBlocks]:
    """Blocks of ever smaller sides, `most` at most along the longest axis, the first with one.

    Along the other axes they are in proportion.
    """
    longest = max(nodes.spaces)
    out = [GridBlocks(nodes, (1,) * len(nodes.spaces))]
    for count in range(2, min(most, longest) + 1):
        last = max(out[-1].counts)
        if count < min(most, longest) and count < last * STEP:
            continue
        if count * NARROWEST > longest and count != longest:
            continue
        counts = (max(1, round(count * spaces / longest)) for spaces in nodes.spaces)
        out.append(GridBlocks(nodes, tuple(counts)))
    return out


@lru_cache(maxsize=8)
def uniform_masses(nodes: Nodes) -> np.ndarray:
    """The expected mass at each node of one point that is uniform in the box."""
    out = np.ones(())
    for spaces, offset in zip(nodes.spaces, nodes.offsets, strict=True):
        out = np.multiply.outer(out, _uniform_along(spaces, float(offset)))
    return np.asarray(out)


@lru_cache(maxsize=16)
def _uniform_along(spaces: int, offset: float) -> np.ndarray:
    """The same along one axis."""
    positions = (np.arange(DRAWN * spaces) + 0.5) / DRAWN + offset
    nearest = np.rint(positions).astype(np.int64)
    far = positions - nearest
    along = np.zeros(spaces + 3)
    for step, part in (
        (-1, (0.5 - far) ** 2 / 2),
        (0, 0.75 - far**2),
        (1, (0.5 + far) ** 2 / 2),
    ):
        along += np.bincount(nearest + step, part, spaces + 3)[: spaces + 3]
    return np.asarray(along / along.sum())
