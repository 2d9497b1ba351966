"""Tables of a RACE sketch and of its release: cells of points, estimates and error bounds.

Error bounds follow from the variance of one row, for a mean or a median of means.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.linear_algebra import one_numpy_thread
from sfumato.core.storage import Stored
from sfumato.core.typing import Matrix
from sfumato.core.validation import integer, one_of, optional, positive
from sfumato.kernels.alignment import aligned
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

NOISE_RATIO = 10  # rows are added until hashing adds a tenth to the variance of Gaussian noise
REFERENCE_CELLS = 2**12  # sigma grows with the square root of the number of cells
LARGEST_EPSILON = 2.0**30  # beyond it the noise is negligible and sigma underflows


def theorem_bound(std_bound: float, rows: int, noise_variance: float, miss: float) -> float:
    """The published error bound sqrt((std_bound**2 + noise_variance) / R * 32 log(1 / miss)).

    std_bound is the sum of sqrt(k(x, q)), noise_variance that of one cell: 2 R**2 / epsilon**2 for
    Laplace noise of scale R / epsilon (RACE, Theorem 3.4: error of a median of means), sigma**2 for
    Gaussian noise. It takes 8 log(1 / miss) groups, an integer that must divide R. It is loose: a
    cell's variance is at most std_bound**2 - f**2, and Hoeffding's inequality replaces the binomial
    distribution of `median_bound`.
    """
    return math.sqrt((std_bound**2 + noise_variance) / rows * 32 * math.log(1 / miss))


def median_bound(variance: float, rows: int, groups: int, miss: float) -> float:
    """Error of the median of group means with failure probability `miss`, given a row's variance.

    Chebyshev for the mean of rows // groups independent rows, binomial distribution for the median.
    """
    groups = min(groups, rows)
    return math.sqrt(variance / (rows // groups) / row_miss(groups, miss))


def mean_bound(
    std_bound: float, most: float, rows: int, noise_tail: Callable[[float], float], miss: float
) -> float:
    """Error of the mean of independent rows with failure probability `miss`.

    Bernstein for cells from 0 to `most` of variance at most std_bound**2; noise_tail(p) is what the
    mean of the noise exceeds with probability at most p.
    """

    def hashing(probability: float) -> float:
        log = math.log(2 / probability)
        return math.sqrt(2 * log / rows) * std_bound + most * log / (3 * rows)

    return narrowest(hashing, noise_tail, miss)


def any_bound(variance: float, median: bool, miss: float) -> float:
    """Error of a mean, or a median of means, of this variance each, however the means depend.

    Chebyshev; by Markov half of the means fail with at most twice the probability of one.
    """
    return math.sqrt((2 if median else 1) * variance / miss)


def best_rows(std_bound: float, epsilon: float, delta: float, most: int) -> int:
    """The number of rows, up to `most`, that minimises the variance of an estimate.

    Laplace: std_bound**2 / R + 2 R / epsilon**2 is least at R = std_bound epsilon / sqrt(2).
    Gaussian: a cell's variance grows like R, so the noise of the mean stays the same and more rows
    never hurt; they are added until hashing adds a tenth to it.
    """
    epsilon = min(epsilon, LARGEST_EPSILON)
    if not delta:
        return max(1, min(most, math.ceil(std_bound * epsilon / math.sqrt(2))))
    noise = float(gaussian_sigma(epsilon, delta, cells=REFERENCE_CELLS)) ** 2 / REFERENCE_CELLS
    return max(1, min(most, math.ceil(NOISE_RATIO * std_bound**2 / noise)))


POINTS = 2048  # at a time, and POSITIONS of them: they stay in the second cache
POSITIONS = 2**17
CODES = 2**21  # of a family without a matrix, at a time: 16 MiB
LANES = 16
SHORT = 2048  # cells of a row that may be counted in parts

Block = tuple[slice, slice, np.ndarray]  # rows, points, and their slots


@dataclass(frozen=True)
class RaceRows:
    """The cells of points in a table of `draw.rows` rows and `width` columns.

    A row whose codes all fit is addressed directly; the codes of other rows are hashed uniformly to
    all cells. used: number of cells of each row that points can fall into.
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
        """Rows, points and their cells, block by block."""
        for rows, part, positions in self._positions(points):
            slots = aligned(positions.shape, np.uint32)
            race.slots(positions, self.direct[rows], self.keys[rows], self.width, slots)
            yield rows, part, slots

    def _positions(self, points: Points) -> Iterator[Block]:
        """Rows, points and their codes, or positions before rounding, block by block."""
        if self.matrix is None:
            step = max(1, CODES // max(1, points.size))
            step -= step % LANES if step > LANES else 0  # sets are hashed in LANES rows at once
            for rows in _slices(self.draw.rows, step):
                codes = self.family.codes(points, self.draw, rows)
                yield rows, slice(0, points.size), np.ascontiguousarray(codes.T, np.int64)
            return
        blocks = -(-points.size // POINTS)
        for first in range(blocks):
            # Neighbours in a file are often similar, and cells that were just written are slow.
            part = slice(first, points.size, blocks)
            columns = np.ascontiguousarray(points.parts[0][:, part])
            for rows in _slices(self.draw.rows, max(16, POSITIONS // columns.shape[1])):
                with one_numpy_thread:
                    positions = self.matrix[rows] @ columns
                yield rows, part, positions


def _slices(size: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


COMBINE = one_of(("mean", "median"))
GROUPS = 9  # about the best number for a confidence from 0.99 to 0.9999
MOST_GROUPS = integer(1, 999)
MOST_ENTRIES = 2**26  # of all hash functions: 512 MiB
MOST_CELLS = 2**33


class RaceTable(Stored, in_files=False):
    """Rows of cells, one hash function each: counts in a sketch, noisy counts in a release."""

    rows: Annotated[int, integer(1, 2**20)]
    width: Annotated[int, integer(2, 2**31)]
    kernel: Annotated[Family, FAMILY]
    seed: Annotated[int, SEED]
    strata: Annotated[str, STRATA]
    _table: np.ndarray

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters it was built with; the kernel as its description in files."""
        return {**super().parameters, "kernel": self.kernel.to_dict()}

    def size(self) -> float:
        """The total weight of all points."""
        raise NotImplementedError

    def estimate(self, queries: Matrix, combine: str = "mean", groups: int = GROUPS) -> np.ndarray:
        """Estimate the kernel sum over all points at every query.

        Parameters
        ----------
        queries : array_like
            Points of the kernel's family; those outside its bounds are moved to the nearest point
            inside.
        combine : {"mean", "median"}, default="mean"
            "mean" averages all rows; "median" takes the median of the means of `groups` groups of
            rows, which a few outlying rows cannot shift.
        groups : int, default=9
            Number of groups for "median", 1 to 999; at most the rows of the smallest term of a sum.

        Returns
        -------
        ndarray
            One float64 estimate per query. It may be negative.
        """
        owner = type(self).__name__
        combine = COMBINE.check(owner, "combine", combine)
        count = MOST_GROUPS.check(owner, "groups", groups) if combine == "median" else 1
        return self._sums(self.kernel.read(owner, queries), count)

    def mean(self, queries: Matrix, combine: str = "mean", groups: int = GROUPS) -> np.ndarray:
        """Estimate the mean kernel over all points at every query.

        Parameters
        ----------
        queries : array_like
            As in `estimate`.
        combine : {"mean", "median"}, default="mean"
            As in `estimate`.
        groups : int, default=9
            As in `estimate`.

        Returns
        -------
        ndarray
            `estimate` divided by `size`, or by 1 if that is less.
        """
        return self.estimate(queries, combine, groups) / max(self.size(), 1.0)

    def _sums(self, points: Points, count: int) -> np.ndarray:
        """The median over groups of their estimates of the kernel sum, for each point."""
        scales, groups, collided = self._coefficients(count)
        sums = self._hashes.gather(points, self._table, scales, groups)
        sums /= np.bincount(groups)[:, None]
        if collided.any():
            sums -= self.size() * collided[:, None]
        return np.asarray(np.median(sums, axis=0) if len(sums) > 1 else sums[0])

    def _coefficients(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Factor and group of each row; for each group, the mean fraction of collided points.

        A hashed row's cell also counts 1 / W of all points with other codes: (cell - N / W) / (1 -
        1 / W) is unbiased. Rows of one term in a group together have that term's weight, whatever
        their number.
        """
        blocks = self.kernel.shares(self._draw)
        count = min(count, *(each.rows.stop - each.rows.start for each in blocks))
        groups = np.concatenate([np.arange(s.rows.stop - s.rows.start) % count for s in blocks])
        every = np.bincount(groups)
        scales = np.empty(self.rows)
        for block in blocks:
            inside = groups[block.rows]
            scales[block.rows] = block.weight * (every / np.bincount(inside))[inside]
        hashed = ~self._hashes.direct
        scales[hashed] /= 1 - 1 / self.width
        collided = np.bincount(groups, np.where(hashed, scales, 0)) / every / self.width
        return scales, groups, collided

    def _bound(
        self,
        miss: float,
        most: float,
        unsure: float,
        distribution: NoiseDistribution | None,
        spread: float | None,
        combine: str,
        groups: int,
    ) -> float:
        """Error of an estimate of at most `most` points, known up to `unsure`, under this noise.

        A hashed cell, corrected, is (cell - N / W) / (1 - 1 / W). Its variance is that of the
        points of one code, at most spread**2, plus that of collisions of other codes,
        N**2 / (W - 1).
        """
        owner = type(self).__name__
        known = optional(positive).check(owner, "spread", spread)
        median = COMBINE.check(owner, "combine", combine) == "median"
        count = MOST_GROUPS.check(owner, "groups", groups) if median else 1
        std_bound = most if known is None else min(known, most)
        scales, group, collided = self._coefficients(count)
        if collided.any():
            std_bound = math.hypot(std_bound, most / math.sqrt(self.width - 1))
        grow = float(np.abs(scales).max())
        variance = distribution.variance if distribution else 0.0
        unsure *= float(np.abs(collided).max())
        blocks = self.kernel.shares(self._draw)
        if self.strata != "independent" or len(blocks) > 1:
            std_bound *= sum(abs(each.weight) for each in blocks)
            noise = variance * float(
                (np.bincount(group, scales**2) / np.bincount(group) ** 2).max()
            )
            return any_bound(std_bound**2 + noise, median, miss) + unsure
        if median:
            return median_bound(std_bound**2 + grow**2 * variance, self.rows, count, miss) + unsure

        def noise_tail(probability: float) -> float:
            if distribution is None:
                return 0.0
            return grow * distribution.mean_tail_bound(self.rows, probability)

        return mean_bound(std_bound, grow * most, self.rows, noise_tail, miss) + unsure

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
        self.kernel.shares(self._draw)  # raises if a sum has more terms than rows
        if self.rows * self.width > MOST_CELLS:
            raise ValueError(f"{owner}: rows times width must be at most 2**33 cells.")
