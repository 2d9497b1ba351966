"""Posterior means of released rows, whose noise is reduced by what all rows have in common."""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

__all__ = ["CELLS", "Population", "Posterior"]

FITTED = 2000  # rows, evenly spaced, that the population is estimated from
DIRECTIONS = 64  # at most, along which rows differ together
CELLS = 2**25  # posterior means in memory: 128 MiB
AT_ONCE = 2**22
# Gain of a direction, at least. Directions that barely stand out hide pairs of rows that are alike
# by themselves; in a world of groups and a world of pairs, 0.2 and 0.3 were about as good.
CLEAR = 0.2
SMALLEST = 1e-12  # variance of noise, and square of a length


class Population(NamedTuple):
    """Rows as a common mean, a few common directions and independent entries, all normal.

    All in `units`, standard deviations of each entry over the noisy rows. mean: of all rows.
    directions, gains: singular vectors of the centred rows, and the part of the coordinate along
    each that is common to rows. trust: the part of what remains in each entry that is not noise.
    """

    units: np.ndarray
    mean: np.ndarray
    directions: np.ndarray
    gains: np.ndarray
    trust: np.ndarray

    @classmethod
    def fit(cls, rows: np.ndarray, noise: np.ndarray) -> "Population":
        """Estimate from noisy rows, at least 2; noise: the variance of that of each entry."""
        units = np.sqrt(np.maximum(noise, SMALLEST)).astype(np.float32)
        scaled = rows / units
        mean = _shrunk_means(scaled)
        centred = scaled - mean
        variances = _shrunk_means(centred**2) * (len(rows) / (len(rows) - 1)) - 1
        variances = np.maximum(variances, 0)
        # Beside a direction, what is particular to a row is noise as well.
        deviations = np.sqrt(1 + variances)
        centred /= deviations
        directions, gains = _shrunk_directions(centred)
        common = (centred @ directions) * gains @ directions.T * deviations
        left = np.maximum(variances - (common**2).mean(axis=0), 0)
        return cls(units * deviations, mean / deviations, directions, gains, left / (left + 1))

    def posterior(self, rows: np.ndarray) -> np.ndarray:
        """Posterior means of the rows without their noise."""
        centred = rows / self.units - self.mean
        common = (centred @ self.directions) * self.gains @ self.directions.T
        return np.asarray((self.mean + common + self.trust * (centred - common)) * self.units)


def _shrunk_means(rows: np.ndarray) -> np.ndarray:
    """Means of the columns, shrunk towards the mean of all by empirical Bayes."""
    means = rows.mean(axis=0)
    spread, error = float(means.var()), float(rows.var(axis=0).mean()) / (len(rows) - 1)
    weight = max(0.0, 1 - error / spread) if spread else 0.0
    return np.asarray(means.mean() + weight * (means - means.mean()))


def _shrunk_directions(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Right singular vectors above noise of variance 1, and how much of each value is signal.

    The shrinkage sqrt((y**2 - b - 1)**2 - 4 b) / y of a singular value y, relative to that of noise
    in square matrices, is optimal for squared error when both sides grow in the proportion b.
    """
    least, most = sorted(rows.shape)
    flat = len(rows) == least
    gram = (rows @ rows.T if flat else rows.T @ rows).astype(np.float64)
    largest = max(least - DIRECTIONS, 0), least - 1
    squares, vectors = scipy.linalg.eigh(gram, subset_by_index=largest)
    share, relative = least / most, squares / most
    above = relative > (1 + math.sqrt(share)) ** 2
    squares, vectors, relative = squares[above], vectors[:, above], relative[above]
    gains = np.sqrt(np.maximum((relative - share - 1) ** 2 - 4 * share, 0)) / relative
    clear = gains > CLEAR
    squares, vectors, gains = squares[clear], vectors[:, clear], gains[clear]
    directions = rows.T @ (vectors / np.sqrt(squares)) if flat else vectors
    return directions.astype(np.float32), gains.astype(np.float32)


class Posterior(NamedTuple):
    """Posterior means of all rows of a release, and posterior means of their squared lengths."""

    means: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, release: Any) -> "Posterior":
        noise, rows = release._vector_noise, len(release)
        sample = np.unique(np.linspace(0, rows - 1, min(FITTED, rows)).astype(np.int64))
        population = Population.fit(release._noisy_vectors(sample), noise)
        means, energy = np.empty((rows, noise.size), np.float32), 0.0
        step = max(1, AT_ONCE // noise.size)
        for start in range(0, rows, step):
            part = np.arange(start, min(start + step, rows))
            noisy = release._noisy_vectors(part)
            energy += float(np.einsum("ij,ij->", noisy, noisy, dtype=np.float64))
            means[part] = population.posterior(noisy)
        # What the means leave of the squared lengths, at least its standard error by the noise.
        left = (energy - float(_squares(means).sum())) / rows - noise.sum()
        left = max(left, math.sqrt(2 * float((noise**2).sum()) / rows))
        means = release._rectified(means)
        return cls(means, _squares(means) + left)

    def scores(self, rows: np.ndarray, there: "Posterior", metric: str) -> np.ndarray:
        """Similarity of each of these rows to all rows there."""
        inner = np.asarray(self.means[rows] @ there.means.T)
        if metric == "inner":
            return inner
        left, right = self.squares[rows][:, np.newaxis], there.squares
        if metric == "cosine":
            return np.asarray(inner / np.sqrt(np.maximum(left * right, SMALLEST)))
        return np.asarray(inner / np.maximum(left + right - inner, np.maximum(left, right)))


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
