"""What cells of columns tell about classes: evidence by column, weighed against its repetition."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.density.classify.encoding import Bins
from sfumato.density.projection_histograms import smoothed

__all__ = ["SCORE_CELLS", "EvidenceTable", "Scorer", "WeightsOfEvidence", "calibrated", "contrasts"]

MOST = 3.0  # evidence of one column is within this, in nats
FLOOR = 0.25  # of a share: standard deviations of its noise, and rows
LEAST_SPREAD = 1e-3  # variance of a column's evidence that is taken as none
LEAST_LENGTH = 0.1  # of an eigenvalue of correlations
SCORE_CELLS = 32  # that scores are counted in
LEAST_REACH = 6.0  # of the scores that are counted, in nats; 4 deviations where that is more


def contrasts(classes: int) -> list[int]:
    """The classes that are held against all others; of two classes the second is enough."""
    return list(range(classes)) if classes > 2 else [1][: classes - 1]


@dataclass(frozen=True)
class WeightsOfEvidence:
    """The log ratio of shares, of a class against all others, in every cell of every column.

    counts: of classes by cells, with noise of this variance. Histograms of columns that measure
    are smoothed; a share below its noise counts as that, so that noise is no evidence.
    """

    bins: Bins
    counts: np.ndarray
    variance: float

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many rows each class has, by the mean of the columns' sums, at least one."""
        return np.asarray(np.maximum(self.bins.sums(self.counts).mean(axis=1), 1.0))

    @cached_property
    def _smooth(self) -> tuple[np.ndarray, np.ndarray]:
        cells, left = self.counts.astype(np.float64), np.full(self.counts.shape, self.variance)
        positions = self.bins.measures
        for k, size in enumerate(self.sizes):
            # Counts vary by themselves: by their mean, as Poisson's do.
            whole = np.full(len(positions), self.variance + size / self.bins.bins)
            cells[k][positions], kept = smoothed(cells[k][positions], whole)
            left[k][positions] = kept * (self.variance / whole)[:, None]
        return np.maximum(cells, 0.0), left

    def _groups(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, shares and the shares' variance of the others (0) and of class k (1)."""
        cells, left = self._smooth
        others = np.arange(len(cells)) != k
        size = np.array([max(self.sizes[others].sum(), 1.0), self.sizes[k]])
        counted = np.stack([cells[others].sum(axis=0), cells[k]])
        noise = np.stack([left[others].sum(axis=0), left[k]])
        return size, counted / size[:, None], noise / size[:, None] ** 2

    def table(self, k: int) -> "EvidenceTable":
        """The evidence for class k, and its moments over both groups."""
        size, share, noise = self._groups(k)
        floor = FLOOR * (np.sqrt(noise.sum(axis=0)) + 1 / size.sum())
        cells = np.clip(np.log((share[1] + floor) / (share[0] + floor)), -MOST, MOST)
        whole = share + 1e-12
        whole /= self.bins.spread(self.bins.sums(whole))
        part = size / size.sum()
        mean = self.bins.sums(whole * cells)
        centre = part @ mean
        spread = self.bins.sums(part @ whole * cells**2) - centre**2
        return EvidenceTable(cells, size, centre, mean - centre, spread)


@dataclass(frozen=True)
class EvidenceTable:
    """One class against the others: evidence by cell, and by column its centre, means, variance."""

    cells: np.ndarray
    sizes: np.ndarray
    centre: np.ndarray
    means: np.ndarray
    spread: np.ndarray

    @property
    def unit(self) -> float:
        """The evidence of a usual column: the root of the mean variance of all."""
        return math.sqrt(max(float(self.spread.mean()), LEAST_SPREAD))

    def rows(self, codes: np.ndarray) -> np.ndarray:
        """The centred evidence of rows, by column."""
        return np.asarray(self.cells[codes] - self.centre)

    def scorer(self, products: np.ndarray, noise: float) -> "Scorer":
        """Weights from the means of products of two columns' evidence and their noise's deviation.

        Fisher's: the inverse of the covariance within groups times the difference of means, so
        that what columns tell twice counts once. Correlations shrink as their noise asks.
        """
        part, apart = self.sizes / self.sizes.sum(), self.means[1] - self.means[0]
        pairs = np.triu_indices(len(apart), 1)
        within = np.diag(self.spread)
        within[pairs] = within.T[pairs] = products
        within -= part[0] * part[1] * np.outer(apart, apart)
        long = np.sqrt(np.maximum(np.diag(within), LEAST_SPREAD))
        both = np.outer(long, long)
        alike = _shrunk((within / both)[pairs], (noise / both[pairs]) ** 2)
        whole = np.eye(len(apart))
        whole[pairs] = whole.T[pairs] = alike
        weights = _solved(whole, apart / long) / long
        start = float(np.log(self.sizes[1] / self.sizes[0]) - weights @ self.means.mean(axis=0))
        spread = math.sqrt(max(float(weights * long @ whole @ (weights * long)), 0.0))
        return Scorer(self, weights, start, max(LEAST_REACH, abs(start) + 4 * spread))


def _shrunk(alike: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Correlations, each times the part of its square that is not noise."""
    true = max(float((alike**2 - noise).mean()), 0.0) if alike.size else 0.0
    return np.asarray(alike * true / (true + noise + 1e-12))


def _solved(alike: np.ndarray, apart: np.ndarray) -> np.ndarray:
    lengths, axes = np.linalg.eigh(alike)
    return np.asarray(axes @ ((axes.T @ apart) / np.maximum(lengths, LEAST_LENGTH)))


@dataclass(frozen=True)
class Scorer:
    """The log odds of one class against the others, before they are calibrated.

    reach: what scores are clipped to, so that none is past those that calibration has seen.
    """

    table: EvidenceTable
    weights: np.ndarray
    start: float
    reach: float

    def scores(self, codes: np.ndarray) -> np.ndarray:
        """The log odds of rows."""
        # One column after another: a product of matrices rounds a row by where it stands among the
        # others, so that one person's row could move another's score into the next cell.
        odds = np.full(len(codes), self.start)
        for cells, centre, weight in zip(codes.T, self.table.centre, self.weights, strict=True):
            odds += (self.table.cells[cells] - centre) * weight
        return np.asarray(np.clip(odds, -self.reach, self.reach))

    def cells(self, codes: np.ndarray) -> np.ndarray:
        """The cell of every row's score, of equal ones."""
        part = (self.scores(codes) / self.reach + 1) / 2 * SCORE_CELLS
        return np.asarray(np.minimum(part.astype(np.int64), SCORE_CELLS - 1))


def calibrated(
    others: np.ndarray, mine: np.ndarray, reach: float, variance: float
) -> tuple[float, float]:
    """Slope and start of the odds, from noisy counts of both groups' scores from -reach to reach.

    Logistic regression by Newton's method, drawn to slope 1 and start 0 by a penalty that grows
    with the noise; the slope does not go below 0.

    Platt 1999.
    """
    drawn = 1 + 7 * np.sqrt(variance)
    middles = reach * ((2 * np.arange(SCORE_CELLS) + 1) / SCORE_CELLS - 1)
    counted = np.stack([others, mine]).astype(np.float64)
    whole = variance + np.maximum(counted.mean(axis=1), 0)
    counted = np.maximum(smoothed(counted, whole)[0], 0)
    features = np.stack([middles, np.ones_like(middles)])
    at = np.array([1.0, 0.0])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-np.clip(at @ features, -30, 30)))
        weight = counted.sum(axis=0) * chance * (1 - chance)
        slope = features @ (counted[1] - counted.sum(axis=0) * chance) - drawn * (at - [1, 0])
        bend = features * weight @ features.T + drawn * np.eye(2)
        at += np.clip(np.linalg.solve(bend, slope), -1, 1)
    return max(float(at[0]), 0.0), float(at[1])
