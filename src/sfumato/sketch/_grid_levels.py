"""Levels of a grid: ever wider splines over its nodes, and the best estimate from them all."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.sketch._grid_filters import Filter
from sfumato.sketch._noisy_cells import Reach

__all__ = ["Levels"]

STEPS = 100  # of conjugate gradients, at most
EASE = -0.75  # between those of the two terms that are summed, -0.5 and -1
CLOSE = 1e-7  # how far the residual is brought down, in its own norm


@dataclass(frozen=True)
class Levels:
    """A linear map from nodes to cells, in whole numbers: the nodes, splines over them, a count.

    Parameters: shape, nodes along every axis; base, how nodes share themselves among the cells of
    the first spline; upper, how these do among the cells of further ones; times, what nodes, base
    and upper cells are multiplied by, and at last the sum of all nodes.
    """

    shape: tuple[int, ...]
    base: Filter
    upper: tuple[Filter, ...]
    times: tuple[int, ...]

    @cached_property
    def units(self) -> tuple[int, ...]:
        """What all cells of each level gain together for one unit in the nodes; the count last."""
        axes = len(self.shape)
        parts = [1, self.base.parts**axes]
        parts += [(self.base.parts * filter.parts) ** axes for filter in self.upper]
        return tuple(a * b for a, b in zip([*parts, 1], self.times, strict=True))

    @cached_property
    def middle(self) -> tuple[int, ...]:
        """Cells of the base along every axis."""
        return tuple(self.base.cells(n) for n in self.shape)

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Cells along every axis, for each level."""
        further = [tuple(filter.cells(n) for n in self.middle) for filter in self.upper]
        return [self.shape, self.middle, *further]

    @property
    def cells(self) -> int:
        """Cells of all levels, and one that counts."""
        return sum(math.prod(shape) for shape in self.shapes) + 1

    def reach(self, unit: int, longest: int, weight: int) -> Reach:
        """What one point does to all cells.

        Its shares among the nodes are not negative, sum to `unit`, and their squares to at most
        `longest`. So L1 is the sum of all units, exactly; at every level but the nodes, what a
        point gives is a mean of what nodes give, times its unit, and no longer than the longest of
        these; and the difference of two points is no longer than both together, in squares.
        """
        *each, count = (unit * level for level in self.units)
        nodes, *others = self._squares
        squares = nodes * longest + sum(others) * unit**2
        return Reach(
            l1=sum(each) + count,
            l2_squared=squares + count**2,
            replaced_l1=2 * sum(each) + count,
            replaced_l2_squared=2 * squares + count**2,
            weight=weight,
        )

    @cached_property
    def _squares(self) -> list[int]:
        """The most that the squares of what one node gives to each level sum to, without count.

        A cell of the base is shared again above it, where a node's cells are a mean once more.
        """
        axes = len(self.shape)
        most = [1, self.base.largest_square**axes]
        most += [(self.base.parts**2 * f.largest_square) ** axes for f in self.upper]
        return [square * times**2 for square, times in zip(most, self.times, strict=False)]

    def spread(self, nodes: np.ndarray) -> np.ndarray:
        """All cells, one level after another and the count last; whole where the nodes are."""
        base = _along(self.base, nodes)
        levels = [nodes, base, *(_along(filter, base) for filter in self.upper)]
        parts = [(level * times).ravel() for level, times in zip(levels, self.times, strict=False)]
        return np.concatenate([*parts, [nodes.sum() * self.times[-1]]])

    def best(self, cells: np.ndarray) -> np.ndarray:
        """The nodes, estimated from cells whose noise is all of one variance.

        Least squares over all levels, than which no linear unbiased estimate has less variance. It
        is the finest level alone, nodes, plus what the splines add to it: their scatter of v
        with (t**2 + H G) v = r. G are the overlaps of the base, H is what base cells are worth to
        all levels, and r what the levels tell beyond the nodes, which is noise and nothing else. So
        the estimate is unbiased wherever the solver ends.
        """
        *levels, count = self._split(cells)
        nodes = levels[0] / self.times[0]
        beyond = np.full(self.middle, self._count * float(count - self.times[-1] * nodes.sum()))
        base = _along(self.base, nodes)
        beyond += self.times[1] * (levels[1] - self.times[1] * base)
        for filter, times, level in zip(self.upper, self.times[2:], levels[2:], strict=False):
            left = times * (level - times * _along(filter, base))
            beyond += _back(filter, left, self.middle)
        return np.asarray(nodes + _back(self.base, self._solved(beyond), self.shape))

    def spread_of(self, weights: np.ndarray) -> float:
        """The variance of the sum of weights times nodes of `best`, where a cell's noise has 1."""
        base = _along(self.base, weights)
        gained = np.vdot(base, self._solved(self._worth(base)))
        return float((np.vdot(weights, weights) - gained) / self.times[0] ** 2)

    @property
    def _count(self) -> float:
        """What a unit in a cell of the base is of the count: the shares of a node are many."""
        return float(self.times[-1] / self.base.parts ** len(self.shape))

    def _split(self, cells: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        parts = np.split(cells.astype(np.float64), ends)
        return [*(p.reshape(s) for p, s in zip(parts, self.shapes, strict=False)), parts[-1][0]]

    def _worth(self, base: np.ndarray) -> np.ndarray:
        """H: base cells to all levels above the nodes and back."""
        out = self.times[1] ** 2 * base + self._count**2 * base.sum()
        for filter, times in zip(self.upper, self.times[2:], strict=False):
            out += times**2 * _back(filter, _along(filter, base), self.middle)
        return np.asarray(out)

    def _overlap(self, base: np.ndarray) -> np.ndarray:
        """G: base cells to nodes and back."""
        for axis, n in enumerate(self.shape):
            rows = np.moveaxis(base, axis, 0)
            bands = self.base.overlaps(n).reshape(self.base.order, -1, *(1,) * (base.ndim - 1))
            out = bands[0] * rows
            for k in range(1, min(self.base.order, len(rows))):
                out[:-k] += bands[k, :-k] * rows[k:]
                out[k:] += bands[k, :-k] * rows[:-k]
            base = np.moveaxis(out, 0, axis)
        return base

    def _solved(self, beyond: np.ndarray) -> np.ndarray:
        """v with (t**2 + H G) v = beyond: conjugate gradients in the product that G makes."""
        v = np.zeros(self.middle)
        left = self._overlap(beyond)
        wave = self._eased(left)
        along, size = wave, float(np.vdot(left, wave))
        enough = size * CLOSE**2
        for _ in range(STEPS):
            if size <= enough:
                break
            near = self._overlap(along)
            image = self.times[0] ** 2 * near + self._overlap(self._worth(near))
            step = size / float(np.vdot(along, image))
            v += step * along
            left = left - step * image
            wave = self._eased(left)
            size, before = float(np.vdot(left, wave)), size
            along = wave + size / before * along
        return v

    def _eased(self, left: np.ndarray) -> np.ndarray:
        """Nearly the inverse of t**2 G + G H G, on cosine waves, which those hardly mix."""
        from scipy.fft import dctn, idctn

        waves = dctn(left * self._edges, norm="ortho") / self._strength
        return np.asarray(idctn(waves, norm="ortho") * self._edges)

    @cached_property
    def _edges(self) -> np.ndarray:
        """Cells at the ends stand over fewer nodes; this puts them on a par with the others."""
        own = [self.base.overlaps(n)[0] for n in self.shape]
        return _outer([(row / row.max()) ** EASE for row in own])

    @cached_property
    def _strength(self) -> np.ndarray:
        waves = [np.pi * np.arange(n) / n for n in self.middle]
        overlap = _outer([_symbol(self.base, wave) for wave in waves])
        worth = np.full(self.middle, float(self.times[1]) ** 2)
        for filter, times in zip(self.upper, self.times[2:], strict=False):
            worth += times**2 * _outer([filter.kept(wave) for wave in waves])
        worth.flat[0] += self._count**2 * worth.size
        return np.asarray(overlap * (self.times[0] ** 2 + worth * overlap))


def _symbol(base: Filter, waves: np.ndarray) -> np.ndarray:
    """What overlaps of cells far from the ends multiply a wave by."""
    middle = base.overlaps(4 * base.order * base.step)[:, 2 * base.order]
    return np.asarray(
        middle[0] + 2 * sum(middle[k] * np.cos(k * waves) for k in range(1, base.order))
    )


def _outer(factors: list[np.ndarray]) -> np.ndarray:
    out = np.ones(())
    for factor in factors:
        out = np.multiply.outer(out, factor)
    return out


def _along(filter: Filter, entries: np.ndarray) -> np.ndarray:
    for axis in range(entries.ndim):
        entries = filter.gather(entries, axis)
    return entries


def _back(filter: Filter, cells: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    for axis in reversed(range(cells.ndim)):
        cells = filter.scatter(cells, axis, shape[axis])
    return cells
