"""What a RACE sketch and its release share: kernel sums told from the cells of a query."""

import math
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato._require import one_of, optional, positive, whole
from sfumato.privacy.noise_law import NoiseLaw
from sfumato.sketch._base import SEED
from sfumato.sketch._race_bounds import any_bound, mean_bound, median_bound
from sfumato.sketch._race_rows import Rows
from sfumato.sketch._stored import Stored
from sfumato.sketch._strata import STRATA
from sfumato.sketch.lsh._family import FAMILY, Draw, Family, Points

__all__ = ["GROUPS", "RaceTable"]

COMBINE = one_of(("mean", "median"))
GROUPS = 9  # whose median is about the best one from a confidence of 0.99 to 0.9999
MOST_GROUPS = whole(1, 999)
MOST_ENTRIES = 2**26  # of all hash functions: 512 MiB
MOST_CELLS = 2**33


class RaceTable(Stored, in_files=False):
    """Rows of cells, one hash function each; a sketch's hold counts, a release's noisy ones."""

    rows: Annotated[int, whole(1, 2**20)]
    width: Annotated[int, whole(2, 2**31)]
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

    def estimate(self, queries: Any, combine: str = "mean", groups: int = GROUPS) -> np.ndarray:
        """The kernel sum over all points at every query.

        Parameters: queries, as points of the kernel's family; combine, "mean" of all rows or
        "median" of the means of `groups` groups of rows, which rare rows cannot pull away.
        """
        owner = type(self).__name__
        combine = COMBINE.check(owner, "combine", combine)
        count = MOST_GROUPS.check(owner, "groups", groups) if combine == "median" else 1
        return self._sums(self.kernel.read(owner, queries), count)

    def mean(self, queries: Any, combine: str = "mean", groups: int = GROUPS) -> np.ndarray:
        """The mean kernel over all points at every query; of less than one point, their sum."""
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
        law: NoiseLaw | None,
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
            return grow * law.mean_reach(self.rows, chance) if law else 0.0

        return mean_bound(spread, grow * most, self.rows, reach, miss) + unsure

    @property
    def _draw(self) -> Draw:
        return Draw(self.rows, self.seed, self.strata)

    @cached_property
    def _hashes(self) -> Rows:
        return Rows.of(self.kernel, self._draw, self.width)

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
