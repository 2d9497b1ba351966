"""Clusters as N, SUM and SUMSQ: their means and variances, which of them merge, and into how many.

Sums are about a common origin, so that variances of points far from 0 keep their digits.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from sfumato.kernels.mine.cluster import nearest_centres as kernels

__all__ = ["Summaries", "scales_of"]

LEAST = 1e-6  # smallest variance of a column in a cluster, as a fraction of that over all rows


@dataclass
class Summaries:
    """N, SUM and SUMSQ of some clusters, about an origin.

    counts: int64 of shape (m,); sums, squares: float64 of shape (m, d).
    """

    counts: np.ndarray
    sums: np.ndarray
    squares: np.ndarray

    @classmethod
    def empty(cls, size: int, dimension: int) -> Self:
        """Summaries of `size` clusters without points."""
        shape = size, dimension
        return cls(np.zeros(size, np.int64), np.zeros(shape), np.zeros(shape))

    @classmethod
    def of_rows(cls, rows: np.ndarray, labels: np.ndarray, size: int, origin: np.ndarray) -> Self:
        """Summaries of rows by their labels; rows of label -1 are in none."""
        made = cls.empty(size, rows.shape[1])
        kernels.summarise(rows, labels, origin, made.counts, made.sums, made.squares)
        return made

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def means(self) -> np.ndarray:
        """SUM / N, relative to the origin; 0 for a cluster without points."""
        return np.asarray(self.sums / np.maximum(self.counts, 1)[:, np.newaxis])

    @property
    def variances(self) -> np.ndarray:
        """SUMSQ / N - (SUM / N)**2, at least 0."""
        mean_squares = self.squares / np.maximum(self.counts, 1)[:, np.newaxis]
        return np.asarray(np.maximum(mean_squares - np.square(self.means), 0.0))

    def add(self, other: "Summaries") -> None:
        """Add the points of other summaries, cluster by cluster."""
        self.counts += other.counts
        self.sums += other.sums
        self.squares += other.squares

    def take(self, rows: np.ndarray) -> "Summaries":
        """The clusters of these positions, or of a mask."""
        return Summaries(self.counts[rows], self.sums[rows], self.squares[rows])

    def with_more(self, other: "Summaries") -> "Summaries":
        """These clusters, then the others."""
        pairs = zip(self.parts(), other.parts(), strict=True)
        return Summaries(*(np.concatenate(each) for each in pairs))

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """N, SUM and SUMSQ."""
        return self.counts, self.sums, self.squares

    def moved(self, shift: np.ndarray) -> "Summaries":
        """The same clusters about an origin that is lower by `shift`."""
        counts = self.counts[:, np.newaxis]
        squares = self.squares + 2 * shift * self.sums + counts * np.square(shift)
        return Summaries(self.counts.copy(), self.sums + counts * shift, squares)

    def total(self) -> "Summaries":
        """One cluster of all points."""
        return Summaries(*(each.sum(axis=0, keepdims=True) for each in self.parts()))

    def grouped(self, groups: np.ndarray, size: int) -> "Summaries":
        """One cluster for each group of clusters."""
        made = Summaries.empty(size, self.sums.shape[1])
        for mine, all_of in zip(made.parts(), self.parts(), strict=True):
            np.add.at(mine, groups, all_of)
        return made

    def merged_close(self, most: np.ndarray, size: int) -> "Summaries":
        """Merge the pair whose combined variance is smallest, while it is small or there are many.

        A pair merges if no column's combined variance is above `most`, or while there are more than
        `size` clusters.
        """
        found = self
        while len(found) > 1:
            costs = found._combined(most)
            at = int(costs.argmin())
            first, second = divmod(at, len(found))
            if costs.flat[at] > 1 and len(found) <= size:
                break
            groups = np.arange(len(found))
            groups[second] = first
            groups[groups > second] -= 1
            found = found.grouped(groups, len(found) - 1)
        return found

    def _combined(self, most: np.ndarray) -> np.ndarray:
        """Largest combined variance of a column of every pair, in units of `most`; inf below."""
        counts = (self.counts[:, np.newaxis] + self.counts)[..., np.newaxis]
        means = (self.sums[:, np.newaxis] + self.sums) / counts
        squares = (self.squares[:, np.newaxis] + self.squares) / counts
        costs = ((squares - np.square(means)) / most).max(axis=2)
        costs[np.tril_indices(len(self))] = np.inf
        return np.asarray(costs)

    def ward(self, size: int, scales: np.ndarray) -> np.ndarray:
        """Group the clusters into `size`, each time the two whose merge adds the least inertia.

        scales: of the columns. Groups are numbered by their first cluster; returned is the group of
        each cluster.
        """
        means, masses = self.means * scales, self.counts.astype(np.float64)
        groups, alive = np.arange(len(self)), np.ones(len(self), bool)
        costs = _ward_costs(means, masses)
        for _ in range(len(self) - size):
            first, second = sorted(divmod(int(costs.argmin()), len(self)))
            mass = masses[first] + masses[second]
            if mass:
                means[first] = (
                    masses[first] * means[first] + masses[second] * means[second]
                ) / mass
            masses[first], alive[second] = mass, False
            groups[groups == second] = first
            costs[second], costs[:, second] = np.inf, np.inf
            row = _ward_row(means, masses, first)
            row[~alive] = np.inf
            costs[first], costs[:, first] = row, row
        return np.asarray(np.unique(groups, return_inverse=True)[1])


def _ward_row(means: np.ndarray, masses: np.ndarray, at: int) -> np.ndarray:
    """By how much inertia grows where one cluster merges with each other one."""
    apart = np.square(means - means[at]).sum(axis=1)
    row = masses * masses[at] / np.maximum(masses + masses[at], 1) * apart
    row[at] = np.inf
    return np.asarray(row)


def _ward_costs(means: np.ndarray, masses: np.ndarray) -> np.ndarray:
    return np.array([_ward_row(means, masses, at) for at in range(len(means))])


def scales_of(variances: np.ndarray, overall: np.ndarray) -> np.ndarray:
    """1 / standard deviation of columns; 0 for a column that is the same in all rows.

    A column that is constant in one cluster alone counts as if it varied a little.
    """
    least = np.maximum(variances, LEAST * overall)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(least > 0, 1 / np.sqrt(least), 0.0))
