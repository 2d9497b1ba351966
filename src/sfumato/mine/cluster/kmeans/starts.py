"""First centres of k-means: the best of several short runs on a sample of the rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.kernels.alignment import aligned
from sfumato.kernels.mine.cluster import cluster_starts as kernels
from sfumato.mine.cluster.kmeans.lloyd import Lloyd

__all__ = ["Start", "sample_size", "variance_of"]

PER_CLUSTER = 50  # rows of a sample per cluster and binary logarithm of the number of rows
ITERATIONS = 100  # most of a run on the sample
REPAIRS = 10  # iterations after which a swap must be better
FAILURES = 8  # swaps in a row that are no better, after which they end
GAIN = 1e-4  # least relative gain of a swap


def sample_size(rows: int, n_clusters: int) -> int:
    """Rows of the sample, proportional to k log n."""
    return min(rows, int(PER_CLUSTER * n_clusters * max(np.log2(max(rows, 2)), 10)))


def variance_of(points: np.ndarray) -> float:
    """Mean variance of the columns, the unit of `tol`."""
    return float(np.var(points, axis=0, dtype=np.float64).mean())


@dataclass(frozen=True)
class Start:
    """How first centres are chosen.

    init: "k-means++" or "furthest-first"; n_init: number of runs; sample: rows of the sample; tol:
    the sum of squared moves at which a run ends.
    """

    n_clusters: int
    init: str
    n_init: int
    sample: int
    tol: float
    rng: np.random.Generator

    def centres(self, points: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """The centres of the run with the smallest inertia."""
        points, weights = self._sampled(points, weights)
        columns, masses = _columns(points, weights)
        tol = self.tol * variance_of(points)
        best, least = None, np.inf
        for _ in range(self.n_init):
            lloyd = Lloyd(points, weights, points[self._chosen(columns, masses)])
            lloyd.run(ITERATIONS, tol)
            found = lloyd.inertia()
            if best is None or found < least:
                best, least = lloyd, found
        assert best is not None
        return self._swapped(best, least, tol).centres

    def _swapped(self, best: Lloyd, least: float, tol: float) -> Lloyd:
        """Move one centre that is nearly superfluous to a far row, as long as it helps (swaps).

        A run of k-means cannot carry a centre from a cluster that has two to one that has none.
        """
        failures, squared = 0 if self.n_clusters > 1 else FAILURES, np.empty(len(best.points))
        while failures < FAILURES:
            best.inertia(squared)
            costs = _removal_costs(best)
            worst = np.argsort(costs)[: 1 + failures // 4]  # others too after some failures
            far = np.cumsum(squared * best.weights if best.weights.size else squared)
            if not far[-1] > 0:
                break
            row = int(np.searchsorted(far, self.rng.random() * far[-1], side="right"))
            centres = best.centres.copy()
            centres[self.rng.choice(worst)] = best.points[min(row, len(best.points) - 1)]
            trial = Lloyd(best.points, best.weights if best.weights.size else None, centres)
            trial.run(REPAIRS, tol)
            if trial.inertia() >= least * (1 - GAIN):
                failures += 1
                continue
            trial.run(ITERATIONS, tol)
            best, least, failures = trial, trial.inertia(), 0
        return best

    def _sampled(
        self, points: np.ndarray, weights: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Rows without replacement; by weight, with replacement and weight 1 each."""
        if len(points) <= self.sample:
            return points, weights
        if weights is None:
            rows = np.sort(self.rng.choice(len(points), self.sample, replace=False, shuffle=False))
            return points[rows], None
        ends = np.cumsum(weights, dtype=np.float64)
        rows = np.searchsorted(ends, self.rng.random(self.sample) * ends[-1], side="right")
        return points[np.sort(np.minimum(rows, len(points) - 1))], None

    def _chosen(self, columns: np.ndarray, masses: np.ndarray) -> np.ndarray:
        """Rows of the first centres of one run."""
        chosen = np.zeros(self.n_clusters, np.int64)
        closest = aligned(masses.shape, masses.dtype)
        if self.init == "furthest-first":
            ends = np.cumsum(masses, dtype=np.float64)
            chosen[0] = np.searchsorted(ends, self.rng.random() * ends[-1], side="right")
            kernels.furthest_first(columns, masses, closest, chosen)
            return chosen
        trials = 2 + int(np.log(self.n_clusters))
        closest.fill(1)
        draws = self.rng.random((self.n_clusters, trials))
        kernels.plus_plus(columns, masses, draws, closest, chosen)
        return chosen


def _removal_costs(lloyd: Lloyd) -> np.ndarray:
    """About how much the inertia grows where a centre's rows go to the next centre."""
    centres = lloyd.centres.astype(np.float64)
    apart = np.square(centres[:, np.newaxis] - centres).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    nearest, masses = apart.argmin(axis=1), lloyd.masses
    both = np.maximum(masses + masses[nearest], np.finfo(np.float64).tiny)
    return np.asarray(masses * masses[nearest] / both * apart.min(axis=1))


def _columns(points: np.ndarray, weights: np.ndarray | None) -> tuple[Any, Any]:
    """Columns of the points and weights of all lanes, 0 beyond the last point."""
    size = -(-len(points) // kernels.LANES) * kernels.LANES
    columns, masses = aligned((points.shape[1], size), points.dtype), aligned(size, points.dtype)
    columns[:, : len(points)] = points.T
    masses[: len(points)] = 1 if weights is None else weights
    return columns, masses
