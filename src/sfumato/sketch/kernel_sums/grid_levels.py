"""Levels of a grid: ever wider splines over its nodes, and the least-squares estimate from all.

The levels split the privacy budget by a public rule of dimension, size and noise.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.sketch.kernel_sums.noisy_cells import Sensitivity

__all__ = ["Filter", "Levels", "approximate_error", "tuned_levels"]


@dataclass(frozen=True)
class Filter:
    """A map that distributes each entry of an axis over `order` wider cells, as a B-spline.

    Blocks of `block` entries count as one; each adds integers that sum to `parts` to `order`
    neighbouring cells, which are `step` blocks apart. Order 2 makes hat functions.
    """

    step: int
    order: int
    block: int = 1

    @property
    def parts(self) -> int:
        """Sum of the integer weights of one entry."""
        return int(self.step ** (self.order - 1))

    @cached_property
    def weights(self) -> np.ndarray:
        """Integer weights (order, step): row t for the cell that begins t steps before."""
        spline = np.ones(1, np.int64)
        for _ in range(self.order):
            spline = np.convolve(spline, np.ones(self.step, np.int64))
        out = np.zeros(self.order * self.step, np.int64)
        out[: spline.size] = spline
        return out.reshape(self.order, self.step)

    @property
    def largest_square(self) -> int:
        """Largest sum of squares of one entry's weights."""
        return int((self.weights**2).sum(axis=0).max())

    def cells(self, entries: int) -> int:
        """Number of cells over `entries` entries."""
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
            position = self.order - 1 - t
            for s in range(self.step):
                out[position : position + blocks] += self.weights[t, s] * split[:, s]
        return np.moveaxis(out.reshape(len(out), *rows.shape[1:]), 0, axis)

    def scatter(self, cells: np.ndarray, axis: int, entries: int) -> np.ndarray:
        """The transpose of `gather`: `entries` entries from the cells."""
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
        """Row k: the product of each cell's spline with that of the k-th after it; block 1 only."""
        count = self.cells(entries)
        out = np.zeros((self.order, count))
        blocks = count - self.order + 1
        remainder = entries - (blocks - 1) * self.step
        for first in range(self.order):
            for second in range(first + 1):
                products = self.weights[first] * self.weights[second]
                cell = self.order - 1 - first
                out[first - second, cell : cell + blocks] += products.sum()
                out[first - second, cell + blocks - 1] -= products[remainder:].sum()
        return out

    def response(self, waves: np.ndarray) -> np.ndarray:
        """Mean factor by which scatter(gather()) multiplies each frequency."""
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


STEPS = 100  # of conjugate gradients, at most
EASE = -0.75  # exponent between those of the two summed terms, -0.5 and -1
CLOSE = 1e-7  # relative size of the residual at which the solver stops, in its own norm


@dataclass(frozen=True)
class Levels:
    """A linear map from nodes to cells, in integers: the nodes, splines over them, and a count.

    Parameters: shape, nodes along every axis; base, the filter from nodes to the first splines;
    upper, the filters from these to further ones; times, the integer factors of nodes, base and
    upper cells, and at last of the sum of all nodes.
    """

    shape: tuple[int, ...]
    base: Filter
    upper: tuple[Filter, ...]
    times: tuple[int, ...]

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Sum over the cells of each level per unit of mass in the nodes; the count last."""
        axes = len(self.shape)
        parts = [1, self.base.parts**axes]
        parts += [(self.base.parts * filter.parts) ** axes for filter in self.upper]
        return tuple(a * b for a, b in zip([*parts, 1], self.times, strict=True))

    @cached_property
    def middle(self) -> tuple[int, ...]:
        """Number of cells of the base along every axis."""
        return tuple(self.base.cells(n) for n in self.shape)

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Number of cells along every axis, for each level."""
        further = [tuple(filter.cells(n) for n in self.middle) for filter in self.upper]
        return [self.shape, self.middle, *further]

    @property
    def cells(self) -> int:
        """Number of cells of all levels, plus one for the count."""
        return sum(math.prod(shape) for shape in self.shapes) + 1

    def sensitivity(self, unit: int, longest: int, weight: int) -> Sensitivity:
        """The sensitivity of all cells to one point.

        Its weights on the nodes are non-negative, sum to `unit`, and their squares to at most
        `longest`. So L1 is the sum of all units, exactly. At every level above the nodes a point's
        change is a mean of those of nodes, times its unit, and no longer than the longest of these.
        The squared length of the difference of two points is at most the sum of theirs, since no
        entry is negative.
        """
        *each, count = (unit * level for level in self.units)
        nodes, *others = self._squares
        squares = nodes * longest + sum(others) * unit**2
        return Sensitivity(
            l1=sum(each) + count,
            l2_squared=squares + count**2,
            replaced_l1=2 * sum(each) + count,
            replaced_l2_squared=2 * squares + count**2,
            weight=weight,
        )

    @cached_property
    def _squares(self) -> list[int]:
        """Largest sum of squares that one node adds to each level, without the count.

        A cell of the base is distributed again above it, where a node's cells are a mean once more.
        """
        axes = len(self.shape)
        most = [1, self.base.largest_square**axes]
        most += [(self.base.parts**2 * f.largest_square) ** axes for f in self.upper]
        return [square * times**2 for square, times in zip(most, self.times, strict=False)]

    def cell_values(self, nodes: np.ndarray) -> np.ndarray:
        """All cells, level after level and the count last; integers if the nodes are."""
        base = _along(self.base, nodes)
        levels = [nodes, base, *(_along(filter, base) for filter in self.upper)]
        parts = [(level * times).ravel() for level, times in zip(levels, self.times, strict=False)]
        return np.concatenate([*parts, [nodes.sum() * self.times[-1]]])

    def best(self, cells: np.ndarray) -> np.ndarray:
        """The nodes, estimated from cells whose noise has one variance.

        Least squares over all levels, the linear unbiased estimate of least variance. It is the
        finest level alone (nodes) plus a correction by the splines: their scatter of v with (t**2 +
        H G) v = r, where G are the overlaps of the base, H maps base cells to all levels and back,
        and r is the residual of the levels given the nodes, which is noise alone. So the estimate
        is unbiased wherever the solver stops.
        """
        *levels, count = self._split(cells)
        nodes = levels[0] / self.times[0]
        beyond = np.full(self.middle, self._count * float(count - self.times[-1] * nodes.sum()))
        base = _along(self.base, nodes)
        beyond += self.times[1] * (levels[1] - self.times[1] * base)
        for filter, times, level in zip(self.upper, self.times[2:], levels[2:], strict=False):
            residual = times * (level - times * _along(filter, base))
            beyond += _back(filter, residual, self.middle)
        return np.asarray(nodes + _back(self.base, self._solved(beyond), self.shape))

    def variance_of(self, weights: np.ndarray) -> float:
        """The variance of sum(weights * best), if a cell's noise has variance 1."""
        base = _along(self.base, weights)
        gained = np.vdot(base, self._solved(self._worth(base)))
        return float((np.vdot(weights, weights) - gained) / self.times[0] ** 2)

    @property
    def _count(self) -> float:
        """Contribution of a unit in a base cell to the count: a node adds many units."""
        return float(self.times[-1] / self.base.parts ** len(self.shape))

    def _split(self, cells: np.ndarray) -> list[np.ndarray]:
        """The cells of each level in its shape, and the count."""
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
        """v with (t**2 + H G) v = beyond: conjugate gradients in the inner product of G."""
        v = np.zeros(self.middle)
        residual = self._overlap(beyond)
        wave = self._eased(residual)
        along, size = wave, float(np.vdot(residual, wave))
        enough = size * CLOSE**2
        for _ in range(STEPS):
            if size <= enough:
                break
            near = self._overlap(along)
            image = self.times[0] ** 2 * near + self._overlap(self._worth(near))
            step = size / float(np.vdot(along, image))
            v += step * along
            residual = residual - step * image
            wave = self._eased(residual)
            size, before = float(np.vdot(residual, wave)), size
            along = wave + size / before * along
        return v

    def _eased(self, residual: np.ndarray) -> np.ndarray:
        """Preconditioner: about the inverse of t**2 G + G H G, in the cosine basis."""
        from scipy.fft import dctn, idctn

        waves = dctn(residual * self._edges, norm="ortho") / self._strength
        return np.asarray(idctn(waves, norm="ortho") * self._edges)

    @cached_property
    def _edges(self) -> np.ndarray:
        """Factors that put cells at the ends, which cover fewer nodes, on a par with the others."""
        own = [self.base.overlaps(n)[0] for n in self.shape]
        return _outer([(row / row.max()) ** EASE for row in own])

    @cached_property
    def _strength(self) -> np.ndarray:
        waves = [np.pi * np.arange(n) / n for n in self.middle]
        overlap = _outer([_symbol(self.base, wave) for wave in waves])
        worth = np.full(self.middle, float(self.times[1]) ** 2)
        for filter, times in zip(self.upper, self.times[2:], strict=False):
            worth += times**2 * _outer([filter.response(wave) for wave in waves])
        worth.flat[0] += self._count**2 * worth.size
        return np.asarray(overlap * (self.times[0] ** 2 + worth * overlap))


def _symbol(base: Filter, waves: np.ndarray) -> np.ndarray:
    """The factor by which overlaps of cells far from the ends multiply a wave."""
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


BASE = Filter(4, 2)
# Budget of the base and of upper levels, that of the nodes being 1, for 1 to 4 dimensions; these
# nearly minimise the variance of an answer amid grids of 1000, 150 x 150, 58 x 58 x 58 and 35 x 35
# x 35 x 35 nodes.
LEVEL_WEIGHTS: dict[str, dict[str, tuple[tuple[float, ...], ...]]] = {
    "Laplace": {
        "p-stable": ((1.9,), (0.7, 0.55), (0.55, 0.3, 0.05), (0.45,)),
        "exponential": ((1.9,), (1.15,), (0.7, 0.1), (0.25,)),
        "gaussian": ((1.8,), (0.8,), (0.5,), (0.15,)),
    },
    "Gaussian": {
        "p-stable": (
            (0.9, 0.25, 0.4, 0.17),
            (0.5, 0.4, 0.15, 0.05),
            (0.35, 0.3, 0.12, 0.05),
            (0.5, 0.25),
        ),
        "exponential": ((1.1, 0.2, 0.28, 0.05), (0.6, 0.37, 0.05), (0.5, 0.25, 0.1), (0.4,)),
        "gaussian": ((1.1, 0.1, 0.05), (0.55, 0.1, 0.05), (0.36, 0.07), (0.3,)),
    },
}
# Standard error of an answer for a sensitivity of 1, in 1 to 4 dimensions.
UNIT_ERRORS = {"Laplace": (1.9, 3.0, 4.3, 5.8), "Gaussian": (1.1, 1.3, 1.7, 3.6)}
COUNT = 0.04  # budget of the count of all points
FINE = 2  # the smallest multiple, so that no weight is rounded by more than a quarter


@lru_cache(maxsize=16)
def tuned_levels(shape: tuple[int, ...], kind: str, kernel: str) -> Levels:
    """The levels whose noise is nearly least for sums of this kernel over such a grid."""
    middle = max(BASE.cells(n) for n in shape)
    base, *upper = LEVEL_WEIGHTS[kind][kernel][len(shape) - 1]
    retained = [(Filter(4, 2, 4**k), u) for k, u in enumerate(upper) if 4 ** (k + 1) < middle]
    filters = tuple(filter for filter, _ in retained)
    weights = (1.0, base, *(weight for _, weight in retained), COUNT)
    parts = Levels(shape, BASE, filters, (1,) * len(weights)).units
    scale = FINE * max(part / weight for part, weight in zip(parts, weights, strict=True))
    times = [round(scale * weight / part) for part, weight in zip(parts, weights, strict=True)]
    return Levels(shape, BASE, filters, tuple(times))


def approximate_error(
    levels: Levels, sensitivity: Sensitivity, distribution: NoiseDistribution
) -> float:
    """Typical standard deviation of an answer's noise, to choose between distributions."""
    norm = sensitivity.l1 if distribution.kind == "Laplace" else math.sqrt(sensitivity.l2_squared)
    unit_error = UNIT_ERRORS[distribution.kind][len(levels.shape) - 1]
    return unit_error * math.sqrt(distribution.variance) / norm
