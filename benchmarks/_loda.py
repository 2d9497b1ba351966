"""LODA: anomalies from one-dimensional histograms of sparse random projections (not private)."""

import numpy as np

__all__ = ["Loda"]


class Loda:
    """The mean over projections of the negative log of a histogram's density.

    Each projection has sqrt(d) columns with normal weights, all others 0; each histogram has
    equal cells over the range of its projected rows, as many as maximise the log likelihood less
    the penalty cells - 1 + log(cells)**2.5.

    Pevny 2016; the number of cells: Birge and Rozenholc 2006.
    """

    def __init__(self, projections: int = 100, seed: int = 0) -> None:
        self.projections, self.seed = projections, seed

    def fit(self, X: np.ndarray) -> "Loda":
        rng = np.random.default_rng(self.seed)
        columns = X.shape[1]
        used = max(1, round(np.sqrt(columns)))
        self.weights = np.zeros((self.projections, columns))
        for row in self.weights:
            row[rng.choice(columns, used, replace=False)] = rng.normal(size=used)
        most = max(2, min(int(len(X) / np.log(len(X))), 1000))
        self.tables = [_histogram(X @ row, most) for row in self.weights]
        return self

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        """The mean log density: the lower, the stranger."""
        total = np.zeros(len(X))
        for row, (low, high, logs, least) in zip(self.weights, self.tables, strict=True):
            part = (X @ row - low) / (high - low) * logs.size
            inside = (part >= 0) & (part <= logs.size)
            cell = np.clip(part, 0, logs.size - 1).astype(int)
            total += np.where(inside, logs[cell], least)
        return total / self.projections


def _histogram(values: np.ndarray, most: int) -> tuple[float, float, np.ndarray, float]:
    low, high = float(values.min()), float(values.max())
    high = high if high > low else low + 1.0
    best, retained = -np.inf, np.ones(1)
    tried = np.unique(np.r_[np.arange(1, 101), np.geomspace(100, max(most, 101), 60).astype(int)])
    for cells in tried[tried <= most]:
        counts, _ = np.histogram(values, int(cells), (low, high))
        some = counts[counts > 0]
        likelihood = (some * np.log(cells * some / len(values))).sum()
        result = likelihood - (cells - 1 + np.log(cells) ** 2.5)
        if result > best:
            best, retained = result, counts
    width = (high - low) / retained.size
    least = np.log(0.5 / len(values) / width)
    with np.errstate(divide="ignore"):
        logs = np.log(retained / len(values) / width)
    return low, high, np.maximum(logs, least), float(least)
