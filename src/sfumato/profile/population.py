"""Posterior means of released rows, whose noise is reduced by what all rows have in common."""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from sfumato.profile.row_prior import RowPrior, shrunk_entries

__all__ = ["CELLS", "CommonProfile", "Population", "Posterior"]

FITTED = 2000  # rows, evenly spaced, that the population is estimated from
DIRECTIONS = 64  # at most, along which rows differ together
CELLS = 2**25  # posterior means in memory: 128 MiB
AT_ONCE, ROWS = 2**22, 2**12  # numbers, and rows, that are read at a time
# Gain of a direction, at least. Directions that barely stand out hide pairs of rows that are alike
# by themselves; in a world of groups and a world of pairs, 0.2 and 0.3 were about as good.
CLEAR = 0.2
SMALLEST = 1e-12  # variance of noise, and length
NEARLY = 0.999  # gain of a direction that noise leaves as it is
FEWEST = -0.5  # inner product, at least, in cells of a filter


class CommonProfile(NamedTuple):
    """The direction of the mean of all rows, which noise hides far less than a row.

    direction: of length 1. own: what the noise of a row adds to its coordinate along it, on
    average, where the row itself is part of the mean. noise: variance of that coordinate.
    """

    direction: np.ndarray
    own: float
    noise: float

    @classmethod
    def fit(cls, rows: np.ndarray, noise: np.ndarray) -> "CommonProfile":
        """Estimate from noisy rows; noise: the variance of that of each entry."""
        units = np.sqrt(np.maximum(noise, SMALLEST))
        scaled = rows / units.astype(np.float32)
        variance = float(scaled.var(axis=0).mean()) / len(rows)
        shrunk, slopes = shrunk_entries(scaled.mean(axis=0), variance)
        mean = shrunk * units
        length = max(float(np.linalg.norm(mean)), SMALLEST)
        direction = (mean / length).astype(np.float32)
        own = float(slopes @ noise) / (len(rows) * length)
        return cls(direction, own, float(direction**2 @ noise))

    def split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates along the direction, and what is left of the rows."""
        along = rows @ self.direction
        return along.astype(np.float64), rows - along[:, np.newaxis] * self.direction


class Population(NamedTuple):
    """Deviations of rows as a few common directions and independent entries, all normal.

    All in `units`, standard deviations of each entry over the noisy rows. directions, gains:
    singular vectors of the rows, and the part of the coordinate along each that is common to rows.
    trust: the part of what remains in each entry that is not noise. Gains and trust are those of a
    row of average energy; variances grow with the energy of a row.
    """

    units: np.ndarray
    directions: np.ndarray
    gains: np.ndarray
    trust: np.ndarray

    @classmethod
    def fit(cls, rows: np.ndarray, noise: np.ndarray, energies: np.ndarray) -> "Population":
        """Estimate from noisy rows, at least 2.

        noise: the variance of that of each entry. energies: of each row, 1 on average.
        """
        units = np.sqrt(np.maximum(noise, SMALLEST)).astype(np.float32)
        scaled = rows / units
        variances = np.maximum(_shrunk_means(scaled**2) - 1, 0)
        # Beside a direction, what is particular to a row is noise as well.
        deviations = np.sqrt(1 + variances)
        scaled /= deviations
        directions, gains = _shrunk_directions(scaled)
        common = (scaled @ directions) * _gains(gains, energies) @ directions.T * deviations
        left = np.maximum(variances - (common**2).mean(axis=0), 0)
        return cls(units * deviations, directions, gains, left / (left + 1))

    def posterior(self, rows: np.ndarray, energies: np.ndarray) -> np.ndarray:
        """Posterior means of the rows without their noise."""
        scaled = rows / self.units
        common = (scaled @ self.directions) * _gains(self.gains, energies) @ self.directions.T
        scaled -= common
        scaled *= _gains(self.trust, energies)
        scaled += common
        scaled *= self.units
        return np.asarray(scaled)


def _gains(gains: np.ndarray, energies: np.ndarray) -> np.ndarray:
    """Gains for each row, whose variances are `energies` times those of an average row."""
    ratios = gains / (1 - np.minimum(gains, NEARLY))
    of_rows = energies[:, np.newaxis].astype(np.float32) * ratios
    of_rows /= of_rows + 1
    return np.asarray(of_rows, np.float32)


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


class RowFactors(NamedTuple):
    """Posterior means of what scales a row: of its coordinate and of what is left of it.

    along, rest: to count common items. along_of_length, rest_of_length: those relative to the
    length of the row, as its size and its posterior mean have it. items: the squared length.
    """

    along: np.ndarray
    rest: np.ndarray
    along_of_length: np.ndarray
    rest_of_length: np.ndarray
    items: np.ndarray


class Posterior(NamedTuple):
    """Posterior means of all rows of a release: along the common profile, and of what is left.

    cells: bits of a filter, where items in common number cells * log(1 + inner / cells) for the
    inner product of two vectors, as thesis, equation (3.6), has it for one; infinite for vectors
    whose inner products count them.
    """

    direction: np.ndarray
    rests: np.ndarray
    factors: RowFactors
    cells: float

    @classmethod
    def of(cls, release: Any) -> "Posterior":
        noise, rows = release._vector_noise, len(release)
        sample = np.unique(np.linspace(0, rows - 1, min(FITTED, rows)).astype(np.int64))
        common = CommonProfile.fit(release._noisy_vectors(sample), noise)
        along, rest = common.split(release._noisy_vectors(sample))
        sizes, size_noise = release._noisy_sizes(sample, rest)
        prior = RowPrior.fit(sizes, along - common.own, (size_noise, common.noise))

        def expected(sizes: np.ndarray, along: np.ndarray) -> np.ndarray:
            return prior.expect(
                sizes, along, lambda x, size: _of_shape(x, *release._shape(x, size))
            )

        energies = expected(sizes, along - common.own)[:, 5]
        average = max(float(energies.mean()), SMALLEST)
        population = Population.fit(rest, noise, energies / average)
        rests, factors = np.empty((rows, noise.size), np.float32), np.empty((5, rows))
        explained, squares = np.empty(rows), np.empty(rows)
        step = max(1, min(AT_ONCE // noise.size, ROWS))
        for start in range(0, rows, step):
            part = np.arange(start, min(start + step, rows))
            along, rest = common.split(release._noisy_vectors(part))
            sizes, _ = release._noisy_sizes(part, rest)
            along[np.isin(part, sample, assume_unique=True)] -= common.own
            found = expected(sizes, along)
            factors[:, part] = found[:, :5].T
            rests[part] = population.posterior(rest, found[:, 5] / average)
            explained[part] = _squares(rests[part]) + (found[:, 0] / found[:, 1]) ** 2
            squares[part] = np.maximum(found[:, 5:].sum(axis=1), SMALLEST)
        # A mean that is longer than the size of its row explains was made longer by noise.
        share = min(float(explained.sum() / squares.sum()), 1.0)
        factors[2:4] /= np.sqrt(explained / squares + (1 - share) + SMALLEST)
        return cls(common.direction, rests, RowFactors(*factors), release._cells_of_collisions)

    def scores(self, rows: np.ndarray, there: "Posterior", metric: str) -> np.ndarray:
        """Expected similarity of each of these rows to all rows there; of cosines, up to a factor.

        That factor is the same for all rows there.
        """
        mine, yours = self.factors, there.factors
        queries = self.rests[rows] * mine.rest[rows, np.newaxis].astype(np.float32)
        queries += np.outer(mine.along[rows], self.direction).astype(np.float32)
        products = queries @ there.direction, queries @ there.rests.T
        inner = None
        if metric != "cosine" or math.isfinite(self.cells):
            inner = _sums(*products, yours.along, yours.rest)
        if metric == "cosine":
            cosines = _sums(*products, yours.along_of_length, yours.rest_of_length)
            return cosines if inner is None else cosines * self._without_collisions(inner)
        assert inner is not None
        inner *= self._without_collisions(inner)
        if metric == "inner":
            return inner
        left, right = mine.items[rows][:, np.newaxis], yours.items
        union = np.maximum(left + right - inner, np.maximum(left, right))
        return np.asarray(inner / np.maximum(union, SMALLEST))

    def _without_collisions(self, inner: np.ndarray) -> Any:
        """Items in common as a part of the inner product."""
        if math.isinf(self.cells):
            return 1.0
        ratios = np.maximum(inner * np.float32(1 / self.cells), FEWEST)
        ratios += (ratios == 0) * np.float32(SMALLEST)
        return np.log1p(ratios) / ratios


def _of_shape(
    along: np.ndarray, scale: np.ndarray, items: np.ndarray, energy: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The factors of a row of this shape, and its energy: of what is left, and along."""
    length = np.maximum(scale * np.sqrt(items), SMALLEST)
    return along / scale, 1 / scale, along / length, 1 / length, items, energy, along**2


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def _sums(
    of_common: np.ndarray, of_rest: np.ndarray, along: np.ndarray, rest: np.ndarray
) -> np.ndarray:
    """Sum of both parts of the products, each with its factor of the row there."""
    out = of_rest * rest.astype(np.float32)
    out += np.outer(of_common, along.astype(np.float32))
    return np.asarray(out)
