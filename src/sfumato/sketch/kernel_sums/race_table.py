"""What a RACE sketch and its release share: kernel sums told from the cells of a query.

How far off a RACE estimate may be: from the variance of one row, by a mean or by a median. The
rows of a RACE sketch: hash functions of a family, and in which cell each code stands.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.storage import Stored
from sfumato.core.typing import Matrix
from sfumato.core.validation import integer, one_of, optional, positive
from sfumato.kernels.lanes import aligned
from sfumato.kernels.sketch import kernel_sums as race
from sfumato.privacy.accounting.calibration import gaussian_sigma
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.sketch.base import SEED
from sfumato.sketch.concentration import row_miss
from sfumato.sketch.frequency.noisy_table import narrowest
from sfumato.sketch.kernel_sums.stratified_sampling import STRATA
from sfumato.sketch.lsh.base import FAMILY, Draw, Family, Points

__all__ = [
    "GROUPS",
    "RaceRows",
    "RaceTable",
    "any_bound",
    "best_rows",
    "mean_bound",
    "median_bound",
    "theorem_bound",
]

QUIET = 10  # rows of Gaussian noise end where hashing adds a tenth to its variance
ONE = 2**12  # cells that stand for many: sigma grows with their root
LOUD = 2.0**30  # an epsilon beyond which there is next to no noise, and no float to tell it


def theorem_bound(spread: float, rows: int, noise_variance: float, miss: float) -> float:
    """The published bound: sqrt((spread**2 + variance of a cell's noise) / R * 32 log(1 / miss)).

    Laplace noise of scale R / epsilon has variance 2 R**2 / epsilon**2 (theorem 3.4), Gaussian
    noise sigma**2. It takes 8 log(1 / miss) groups, an integer that must divide R. It is loose:
    a cell's variance is at most spread**2 - f**2, not spread**2, and Hoeffding's inequality stands
    where `median_bound` takes the binomial law.
    """
    return math.sqrt((spread**2 + noise_variance) / rows * 32 * math.log(1 / miss))


def median_bound(variance: float, rows: int, groups: int, miss: float) -> float:
    """What the median of group means is off by with at most this chance, given a row's variance.

    Chebyshev for the mean of rows // groups independent rows, the binomial law for the median.
    """
    groups = min(groups, rows)
    return math.sqrt(variance / (rows // groups) / row_miss(groups, miss))


def mean_bound(
    spread: float, most: float, rows: int, reach: Callable[[float], float], miss: float
) -> float:
    """What the mean of independent rows is off by with at most this chance.

    Bernstein for cells from 0 to `most` of variance at most spread**2; reach(p) is what the mean of
    the noise passes with chance at most p.
    """

    def hashing(chance: float) -> float:
        log = math.log(2 / chance)
        return math.sqrt(2 * log / rows) * spread + most * log / (3 * rows)

    return narrowest(hashing, reach, miss)


def any_bound(variance: float, median: bool, miss: float) -> float:
    """What a mean, or a median of means, of this variance each is off by, however they depend.

    Chebyshev; and by Markov half of the means are off with at most twice the chance of one.
    """
    return math.sqrt((2 if median else 1) * variance / miss)


def best_rows(spread: float, epsilon: float, delta: float, most: int) -> int:
    """The number of rows, up to `most`, that makes an estimate's variance least.

    Laplace: spread**2 / R + 2 R / epsilon**2 is least at R = spread epsilon / sqrt(2). Gaussian:
    a cell's variance grows like R, so that the mean's noise stays the same and more rows never
    hurt; they are taken until hashing adds a tenth to it.
    """
    epsilon = min(epsilon, LOUD)
    if not delta:
        return max(1, min(most, math.ceil(spread * epsilon / math.sqrt(2))))
    noise = float(gaussian_sigma(epsilon, delta, cells=ONE)) ** 2 / ONE
    return max(1, min(most, math.ceil(QUIET * spread**2 / noise)))


POINTS = 2048  # at a time, and so many positions: they stay in the second cache
POSITIONS = 2**17
CODES = 2**21  # of a family without a matrix, at a time: 16 MiB
LANES = 16
SHORT = 2048  # cells of a row that may be counted in parts

Block = tuple[slice, slice, np.ndarray]  # rows, points, and their slots


@dataclass(frozen=True)
class RaceRows:
    """Where points fall in a table of `draw.rows` rows and `width` cells.

    A row whose codes all fit is addressed directly; the others are hashed to all cells, uniformly.
    used: how many cells of each row can be reached.
    """

    family: Family
    draw: Draw
    width: int
    matrix: np.ndarray | None
    direct: np.ndarray
    used: np.ndarray
    keys: np.ndarray

    @classmethod
    def of(cls, family: Family, draw: Draw, width: int) -> Self:
        """The rows of a family's hash functions."""
        buckets = family.buckets(draw)
        if buckets is None:
            buckets = np.full(draw.rows, np.iinfo(np.int64).max)
        keys = hash_column(np.arange(draw.rows), draw.child(-1).seed)
        used = np.minimum(buckets, width)
        return cls(family, draw, width, family.linear(draw), buckets <= width, used, keys)

    def tally(self, points: Points, weights: np.ndarray | None, table: np.ndarray) -> None:
        """Add every point, by its weight or by one, to its cell in every row."""
        parts = np.zeros((4 if self.width <= SHORT else 0, self.width), np.int32)
        for rows, part, slots in self._blocks(points):
            if weights is None:
                race.tally(slots, self.used[rows], parts, table[rows])
            else:
                race.tally_weighted(slots, np.ascontiguousarray(weights[part]), table[rows])

    def gather(
        self, points: Points, table: np.ndarray, scales: np.ndarray, groups: np.ndarray
    ) -> np.ndarray:
        """For every group (down) and point (across): the sum of its rows' cells times scales."""
        out = np.zeros((int(groups.max()) + 1, points.size))
        for rows, part, slots in self._blocks(points):
            sums = np.ascontiguousarray(out[:, part])
            race.gather(table[rows], slots, scales[rows], groups[rows], sums)
            out[:, part] = sums
        return out

    def _blocks(self, points: Points) -> Iterator[Block]:
        for rows, part, positions in self._positions(points):
            slots = aligned(positions.shape, np.uint32)
            race.slots(positions, self.direct[rows], self.keys[rows], self.width, slots)
            yield rows, part, slots

    def _positions(self, points: Points) -> Iterator[Block]:
        if self.matrix is None:
            step = max(1, CODES // max(1, points.size))
            step -= step % LANES if step > LANES else 0  # sets are hashed in so many rows at once
            for rows in _slices(self.draw.rows, step):
                codes = self.family.codes(points, self.draw, rows)
                yield rows, slice(0, points.size), np.ascontiguousarray(codes.T, np.int64)
            return
        blocks = -(-points.size // POINTS)
        for first in range(blocks):
            # Neighbours in a file are often alike, and cells that were just written are slow.
            part = slice(first, points.size, blocks)
            columns = np.ascontiguousarray(points.parts[0][:, part])
            for rows in _slices(self.draw.rows, max(16, POSITIONS // columns.shape[1])):
                yield rows, part, self.matrix[rows] @ columns


def _slices(size: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


COMBINE = one_of(("mean", "median"))
GROUPS = 9  # whose median is about the best one from a confidence of 0.99 to 0.9999
MOST_GROUPS = integer(1, 999)
MOST_ENTRIES = 2**26  # of all hash functions: 512 MiB
MOST_CELLS = 2**33


class RaceTable(Stored, in_files=False):
    """Rows of cells, one hash function each; a sketch's hold counts, a release's noisy ones."""

    rows: Annotated[int, integer(1, 2**20)]
    width: Annotated[int, integer(2, 2**31)]
    kernel: Annotated[Family, FAMILY]
    seed: Annotated[int, SEED]
    strata: Annotated[str, STRATA]
    _table: np.ndarray

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters it was built with; the kernel as the description that files keep."""
        return {**super().parameters, "kernel": self.kernel.to_dict()}

    def size(self) -> float:
        """How many points there are, by weight."""
        raise NotImplementedError

    def estimate(self, queries: Matrix, combine: str = "mean", groups: int = GROUPS) -> np.ndarray:
        """The kernel sum over all points at every query.

        Parameters
        ----------
        queries : array_like
            As points of the kernel's family.
        combine : str, default="mean"
            "mean" of all rows or "median" of the means of `groups` groups of rows, which rare rows
            cannot pull away.
        groups : int, default=9
            TODO.

        Returns
        -------
        ndarray
            The kernel sum over all points at every query.
        """
        owner = type(self).__name__
        combine = COMBINE.check(owner, "combine", combine)
        count = MOST_GROUPS.check(owner, "groups", groups) if combine == "median" else 1
        return self._sums(self.kernel.read(owner, queries), count)

    def mean(self, queries: Matrix, combine: str = "mean", groups: int = GROUPS) -> np.ndarray:
        """The mean kernel over all points at every query; of less than one point, their sum.

        Parameters
        ----------
        queries : array_like
            TODO.
        combine : str, default="mean"
            TODO.
        groups : int, default=9
            TODO.

        Returns
        -------
        ndarray
            The mean kernel over all points at every query; of less than one point, their sum.
        """
        return self.estimate(queries, combine, groups) / max(self.size(), 1.0)

    def _sums(self, points: Points, count: int) -> np.ndarray:
        scales, groups, collided = self._coefficients(count)
        sums = self._hashes.gather(points, self._table, scales, groups)
        sums /= np.bincount(groups)[:, None]
        if collided.any():
            sums -= self.size() * collided[:, None]
        return np.asarray(np.median(sums, axis=0) if len(sums) > 1 else sums[0])

    def _coefficients(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each row its factor and group; of each group, the mean share of collided points.

        A hashed row's cell also holds 1 / W of all points at other codes: (cell - N / W) / (1 -
        1 / W) is unbiased. A group's rows of one share count for its weight, however many.
        """
        shares = self.kernel.shares(self._draw)
        count = min(count, *(each.rows.stop - each.rows.start for each in shares))
        groups = np.concatenate([np.arange(s.rows.stop - s.rows.start) % count for s in shares])
        every = np.bincount(groups)
        scales = np.empty(self.rows)
        for share in shares:
            inside = groups[share.rows]
            scales[share.rows] = share.weight * (every / np.bincount(inside))[inside]
        hashed = ~self._hashes.direct
        scales[hashed] /= 1 - 1 / self.width
        collided = np.bincount(groups, np.where(hashed, scales, 0)) / every / self.width
        return scales, groups, collided

    def _bound(
        self,
        miss: float,
        most: float,
        unsure: float,
        law: NoiseDistribution | None,
        spread: float | None,
        combine: str,
        groups: int,
    ) -> float:
        """The error of an estimate of at most `most` points, known up to `unsure`, under a noise.

        A hashed cell, corrected, is (cell - N / W) / (1 - 1 / W). Its variance is that of the
        points of one code, at most spread**2, and of other codes' collisions, N**2 / (W - 1).
        """
        owner = type(self).__name__
        known = optional(positive).check(owner, "spread", spread)
        median = COMBINE.check(owner, "combine", combine) == "median"
        count = MOST_GROUPS.check(owner, "groups", groups) if median else 1
        spread = most if known is None else min(known, most)
        scales, group, collided = self._coefficients(count)
        if collided.any():
            spread = math.hypot(spread, most / math.sqrt(self.width - 1))
        grow, variance = float(np.abs(scales).max()), law.variance if law else 0.0
        unsure *= float(np.abs(collided).max())
        shares = self.kernel.shares(self._draw)
        if self.strata != "independent" or len(shares) > 1:
            spread *= sum(abs(each.weight) for each in shares)
            noise = variance * float(
                (np.bincount(group, scales**2) / np.bincount(group) ** 2).max()
            )
            return any_bound(spread**2 + noise, median, miss) + unsure
        if median:
            return median_bound(spread**2 + grow**2 * variance, self.rows, count, miss) + unsure

        def reach(chance: float) -> float:
            return grow * law.mean_tail_bound(self.rows, chance) if law else 0.0

        return mean_bound(spread, grow * most, self.rows, reach, miss) + unsure

    @property
    def _draw(self) -> Draw:
        return Draw(self.rows, self.seed, self.strata)

    @cached_property
    def _hashes(self) -> RaceRows:
        return RaceRows.of(self.kernel, self._draw, self.width)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        owner = type(self).__name__
        if self.rows * self.kernel.entries > MOST_ENTRIES:
            raise ValueError(
                f"{owner}: rows times the numbers of a row's hash functions must be at most 2**26, "
                f"not {self.rows} times {self.kernel.entries}; take fewer rows, or fewer columns, "
                "bits or factors in the kernel."
            )
        self.kernel.shares(self._draw)  # raises where a sum has more terms than there are rows
        if self.rows * self.width > MOST_CELLS:
            raise ValueError(f"{owner}: rows times width must be at most 2**33 cells.")
