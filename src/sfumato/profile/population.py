"""Posterior means of released rows: noise removed by what all rows of the release have in common."""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

__all__ = ["CELLS", "Population", "Posterior"]

FITTED = 2000  # rows, evenly spaced, that the population is estimated from
DIRECTIONS = 64  # at most, along which rows differ together
CELLS = 2**25  # posterior means in memory: 128 MiB
AT_ONCE = 2**22
# Part of the unexplained squared length that a row is divided by, as if it were explained. Of 0,
# 1/2 and 1, chosen on FilmTrust and MovieLens-100K.
UNEXPLAINED = 1 / 2


class Population(NamedTuple):
    """Rows as a common mean, a few common directions and independent entries, all normal.

    mean: of all rows. directions, gains: singular vectors of the centred rows, and the part of the
    coordinate along each that is not noise. trust: the part of what remains in each entry that is
    not noise.
    """

    mean: np.ndarray
    directions: np.ndarray
    gains: np.ndarray
    trust: np.ndarray

    @classmethod
    def fit(cls, rows: np.ndarray, noise: float) -> "Population":
        """Estimate from noisy rows, at least 2; noise: the variance of that of one entry."""
        mean = _shrunk_means(rows)
        centred = rows - mean
        variances = np.maximum(_shrunk_means(centred**2) * (len(rows) / (len(rows) - 1)) - noise, 0)
        directions, gains = _shrunk_directions(centred, noise)
        explained = (((centred @ directions) * gains @ directions.T) ** 2).mean(axis=0)
        left = np.maximum(variances - explained, 0)
        return cls(mean, directions, gains, left / np.maximum(left + noise, 1e-30))

    def posterior(self, rows: np.ndarray) -> np.ndarray:
        """Posterior means of the rows without their noise."""
        centred = rows - self.mean
        common = (centred @ self.directions) * self.gains @ self.directions.T
        return np.asarray(self.mean + common + self.trust * (centred - common))


def _shrunk_means(rows: np.ndarray) -> np.ndarray:
    """Means of the columns, shrunk towards the mean of all by empirical Bayes."""
    means = rows.mean(axis=0)
    spread, error = float(means.var()), float(rows.var(axis=0).mean()) / (len(rows) - 1)
    kept = max(0.0, 1 - error / spread) if spread else 0.0
    return np.asarray(means.mean() + kept * (means - means.mean()))


def _shrunk_directions(rows: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Right singular vectors above the noise, and how much of each singular value is signal.

    The shrinkage sqrt((y**2 - b - 1)**2 - 4 b) / y of a singular value y, in units of the noise,
    is optimal for squared error when both sides grow in the proportion b.
    """
    least, most = sorted(rows.shape)
    flat = len(rows) == least
    gram = (rows @ rows.T if flat else rows.T @ rows).astype(np.float64)
    squares, vectors = scipy.linalg.eigh(gram, subset_by_index=[max(least - DIRECTIONS, 0), least - 1])
    share, relative = least / most, squares / (most * max(noise, 1e-30))
    above = relative > (1 + math.sqrt(share)) ** 2
    squares, vectors, relative = squares[above], vectors[:, above], relative[above]
    gains = np.sqrt(np.maximum((relative - share - 1) ** 2 - 4 * share, 0)) / relative
    directions = rows.T @ (vectors / np.sqrt(squares)) if flat else vectors
    return directions.astype(np.float32), gains.astype(np.float32)


class Posterior(NamedTuple):
    """Posterior means of all rows of a release, and their squared lengths for similarities."""

    means: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, release: Any) -> "Posterior":
        noise, rows = release._vector_noise, len(release)
        sample = np.unique(np.linspace(0, rows - 1, min(FITTED, rows)).astype(np.int64))
        population = Population.fit(release._noisy_vectors(sample), noise)
        means, energy = None, 0.0
        step = max(1, AT_ONCE // population.mean.size)
        for start in range(0, rows, step):
            part = np.arange(start, min(start + step, rows))
            noisy = release._noisy_vectors(part)
            means = np.empty((rows, noisy.shape[1]), np.float32) if means is None else means
            energy += float(np.einsum("ij,ij->", noisy, noisy, dtype=np.float64))
            means[part] = population.posterior(noisy)
        squares = np.einsum("ij,ij->i", means, means, dtype=np.float64)
        left = max(energy - means.size * noise - squares.sum(), 0.0) / rows
        means = release._rectified(means)
        squares = np.einsum("ij,ij->i", means, means, dtype=np.float64)
        return cls(means, squares + UNEXPLAINED * left)

    def scores(self, rows: np.ndarray, there: "Posterior", metric: str) -> np.ndarray:
        """Similarity of each of these rows to all rows there."""
        inner = self.means[rows] @ there.means.T
        if metric == "inner":
            return inner
        left, right = self.squares[rows][:, np.newaxis], there.squares
        if metric == "cosine":
            return np.asarray(inner / np.sqrt(np.maximum(left * right, 1e-30)))
        return np.asarray(inner / np.maximum(left + right - inner, np.maximum(left, right)))
