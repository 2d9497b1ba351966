"""Log odds of classes from cells of columns: weights of evidence, decorrelated and calibrated."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.density.classify.encoding import Bins
from sfumato.density.histogram_shrinkage import smoothed

__all__ = ["SCORE_CELLS", "EvidenceTable", "Scorer", "WeightsOfEvidence", "calibrated", "contrasts"]

MOST = 3.0  # largest absolute evidence of one column, in nats
FLOOR = 0.25  # smallest fraction, in deviations of its noise plus one row
LEAST_VARIANCE = 1e-3  # smallest variance of a column's evidence
LEAST_LENGTH = 0.1  # smallest eigenvalue of correlations
FEW = 64  # rows of which all columns are added in one call
SCORE_CELLS = 32  # cells of a histogram of scores
LEAST_LIMIT = 6.0  # scores are clipped at this or at 4 deviations if that is more, in nats


def contrasts(classes: int) -> list[int]:
    """The classes compared with all others; of two classes the second is enough."""
    return list(range(classes)) if classes > 2 else [1][: classes - 1]


@dataclass(frozen=True)
class WeightsOfEvidence:
    """Log ratio of cell fractions, of a class against all others, in every cell of every column.

    counts: classes by cells, with noise of this variance. Histograms of numeric columns are
    smoothed; a fraction below its noise counts as that noise, so that noise is not evidence.
    """

    bins: Bins
    counts: np.ndarray
    variance: float

    @cached_property
    def sizes(self) -> np.ndarray:
        """Estimated number of rows of each class, at least one."""
        return np.asarray(np.maximum(self.bins.sums(self.counts).mean(axis=1), 1.0))

    @cached_property
    def _smooth(self) -> tuple[np.ndarray, np.ndarray]:
        """Smoothed counts, none negative, and their remaining noise variance."""
        cells, variances = self.counts.astype(np.float64), np.full(self.counts.shape, self.variance)
        positions = self.bins.numeric
        for k, size in enumerate(self.sizes):
            # Counts have sampling variance besides noise: their mean, as Poisson counts.
            total_variance = np.full(len(positions), self.variance + size / self.bins.bins)
            cells[k][positions], residual = smoothed(cells[k][positions], total_variance)
            variances[k][positions] = residual * (self.variance / total_variance)[:, None]
        return np.maximum(cells, 0.0), variances

    def _groups(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sizes, cell fractions and their variance for the others (0) and class k (1)."""
        cells, variances = self._smooth
        others = np.arange(len(cells)) != k
        size = np.array([max(self.sizes[others].sum(), 1.0), self.sizes[k]])
        counted = np.stack([cells[others].sum(axis=0), cells[k]])
        noise = np.stack([variances[others].sum(axis=0), variances[k]])
        return size, counted / size[:, None], noise / size[:, None] ** 2

    def table(self, k: int) -> "EvidenceTable":
        """The evidence for class k, and its moments over both groups."""
        size, fraction, noise = self._groups(k)
        floor = FLOOR * (np.sqrt(noise.sum(axis=0)) + 1 / size.sum())
        cells = np.clip(np.log((fraction[1] + floor) / (fraction[0] + floor)), -MOST, MOST)
        probabilities = fraction + 1e-12
        probabilities /= self.bins.per_cell(self.bins.sums(probabilities))
        weights = size / size.sum()
        mean = self.bins.sums(probabilities * cells)
        centre = weights @ mean
        variance = self.bins.sums(weights @ probabilities * cells**2) - centre**2
        return EvidenceTable(cells, size, centre, mean - centre, variance)


@dataclass(frozen=True)
class EvidenceTable:
    """One class against the others: evidence by cell; centre, means and variance by column."""

    cells: np.ndarray
    sizes: np.ndarray
    centre: np.ndarray
    means: np.ndarray
    variance: np.ndarray

    @property
    def unit(self) -> float:
        """The evidence of a typical column: the root of the mean variance of all."""
        return math.sqrt(max(float(self.variance.mean()), LEAST_VARIANCE))

    def scorer(self, products: np.ndarray, noise: float) -> "Scorer":
        """Fisher's weights from mean products of columns' evidence and their noise deviation.

        The inverse of the within-group covariance times the difference of means, so that redundant
        columns count once. Correlations are shrunk by their noise.
        """
        fraction, differences = self.sizes / self.sizes.sum(), self.means[1] - self.means[0]
        pairs = np.triu_indices(len(differences), 1)
        within = np.diag(self.variance)
        within[pairs] = within.T[pairs] = products
        within -= fraction[0] * fraction[1] * np.outer(differences, differences)
        deviations = np.sqrt(np.maximum(np.diag(within), LEAST_VARIANCE))
        scales = np.outer(deviations, deviations)
        shrunk = _shrunk((within / scales)[pairs], (noise / scales[pairs]) ** 2)
        correlations = np.eye(len(differences))
        correlations[pairs] = correlations.T[pairs] = shrunk
        weights = _solved(correlations, differences / deviations) / deviations
        start = float(np.log(self.sizes[1] / self.sizes[0]) - weights @ self.means.mean(axis=0))
        deviation = math.sqrt(
            max(float(weights * deviations @ correlations @ (weights * deviations)), 0.0)
        )
        return Scorer(self, weights, start, max(LEAST_LIMIT, abs(start) + 4 * deviation))


def _shrunk(correlations: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Correlations, each multiplied by the part of its mean square that is not noise."""
    true = max(float((correlations**2 - noise).mean()), 0.0) if correlations.size else 0.0
    return np.asarray(correlations * true / (true + noise + 1e-12))


def _solved(correlations: np.ndarray, differences: np.ndarray) -> np.ndarray:
    """Solve a linear system with eigenvalues of the matrix floored."""
    lengths, axes = np.linalg.eigh(correlations)
    return np.asarray(axes @ ((axes.T @ differences) / np.maximum(lengths, LEAST_LENGTH)))


@dataclass(frozen=True)
class Scorer:
    """Log odds of one class against the others, before calibration.

    limit: scores are clipped to [-limit, limit], the range in which calibration counted scores.
    """

    table: EvidenceTable
    weights: np.ndarray
    start: float
    limit: float

    def scores(self, codes: np.ndarray) -> np.ndarray:
        """The log odds of rows, clipped to the limit."""
        # One column after another: a matrix product rounds a row by its position among the
        # others, so that one person's row could move another's score into the next cell.
        if len(codes) <= FEW:
            steps = np.empty((len(codes), 1 + codes.shape[1]))
            steps[:, 0] = self.start
            steps[:, 1:] = (self.table.cells[codes] - self.table.centre) * self.weights
            odds = np.add.accumulate(steps, axis=1)[:, -1]  # in the order of the columns
            return np.asarray(np.minimum(np.maximum(odds, -self.limit), self.limit))
        odds = np.full(len(codes), self.start)
        for cells, centre, weight in zip(codes.T, self.table.centre, self.weights, strict=True):
            odds += (self.table.cells[cells] - centre) * weight
        return np.asarray(np.clip(odds, -self.limit, self.limit))

    def cells(self, codes: np.ndarray) -> np.ndarray:
        """The cell of every row's score, of equal cells from -limit to limit."""
        part = (self.scores(codes) / self.limit + 1) / 2 * SCORE_CELLS
        return np.asarray(np.minimum(part.astype(np.int64), SCORE_CELLS - 1))


def calibrated(
    others: np.ndarray, mine: np.ndarray, limit: float, variance: float
) -> tuple[float, float]:
    """Slope and intercept of the log odds, from noisy histograms of both groups' scores.

    The histograms cover scores from -limit to limit. Logistic regression by Newton's method, shrunk
    towards slope 1 and intercept 0 by a penalty that grows with the noise; the slope is not
    negative.

    Platt 1999: probabilities by logistic regression on scores.
    """
    penalty = 1 + 7 * np.sqrt(variance)
    middles = limit * ((2 * np.arange(SCORE_CELLS) + 1) / SCORE_CELLS - 1)
    counted = np.stack([others, mine]).astype(np.float64)
    variances = variance + np.maximum(counted.mean(axis=1), 0)
    counted = np.maximum(smoothed(counted, variances)[0], 0)
    features = np.stack([middles, np.ones_like(middles)])
    estimate = np.array([1.0, 0.0])
    for _ in range(30):
        probability = 1 / (1 + np.exp(-np.clip(estimate @ features, -30, 30)))
        weight = counted.sum(axis=0) * probability * (1 - probability)
        gradient = features @ (counted[1] - counted.sum(axis=0) * probability) - penalty * (
            estimate - [1, 0]
        )
        hessian = features * weight @ features.T + penalty * np.eye(2)
        estimate += np.clip(np.linalg.solve(hessian, gradient), -1, 1)
    return max(float(estimate[0]), 0.0), float(estimate[1])
