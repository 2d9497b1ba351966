"""Lloyd's iterations on points in memory, which skip distances that bounds decide."""

from typing import Any

import numpy as np

from sfumato.kernels.mine.cluster import nearest_centres as kernels

__all__ = ["Lloyd", "Progress"]

Progress = Any  # callable of (iterations done, most iterations), or None


class Lloyd:
    """Centres, labels and sums of points, one iteration of k-means at a time.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Contiguous rows, float32 or float64.
    weights : ndarray of shape (n,) or None
        Weights above 0 in the dtype of the points.
    centres : ndarray of shape (k, d)
        First centres.
    """

    def __init__(self, points: np.ndarray, weights: np.ndarray | None, centres: np.ndarray) -> None:
        kind, k = points.dtype, len(centres)
        self.points = points
        self.weights: np.ndarray = np.empty(0, kind) if weights is None else weights
        self.centres = np.ascontiguousarray(centres, kind)
        self.labels: np.ndarray = np.full(len(points), -1, np.int32)
        self.sums: np.ndarray
        self.masses: np.ndarray
        self.sums, self.masses = np.zeros((k, points.shape[1])), np.zeros(k)
        self.counts: np.ndarray = np.zeros(k, np.int64)
        self._upper, self._lower = np.zeros(len(points), kind), np.zeros(len(points), kind)
        # Products of d + 2 rounded factors, and a root: the relative error of a distance.
        self._slack = kind.type((points.shape[1] + 4) * np.finfo(kind).eps)
        self._moved = self._far = self._near = np.zeros(k, kind)

    def assign(self) -> int:
        """Move every point to its nearest centre; return how many changed."""
        changed: int = kernels.assign(
            self.points,
            self.weights,
            self.centres,
            self._moved,
            self._far,
            self._near,
            self._slack,
            self.labels,
            self._upper,
            self._lower,
            self.sums,
            self.masses,
            self.counts,
        )
        self._moved = self._far = np.zeros_like(self._moved)  # the bounds are of these centres
        return changed

    def update(self) -> float:
        """Move every centre to the mean of its points; return the sum of squared moves."""
        self._fill_empty()
        full = self.counts > 0
        means = self.centres.astype(np.float64)
        means[full] = self.sums[full] / self.masses[full, np.newaxis]
        fresh = means.astype(self.points.dtype)
        moves = np.sqrt(np.square(fresh.astype(np.float64) - self.centres).sum(axis=1))
        self.centres = fresh
        self._widen(moves)
        return float(np.square(moves).sum())

    def run(self, max_iter: int, tol: float, progress: Progress = None) -> int:
        """Iterate until no point changes, or the squared moves are at most `tol`.

        Returns the number of iterations; the labels are then those of the last centres.
        """
        for done in range(1, max_iter + 1):
            changed = self.assign()
            if not changed:
                return done - 1 or 1
            moved = self.update()
            if progress is not None:
                progress(done, max_iter)
            if moved <= tol:
                break
        self.assign()
        return done

    def inertia(self, squared: np.ndarray | None = None) -> float:
        """Weighted sum of squared distances of the points to the centres of their labels."""
        squared = np.empty(len(self.points)) if squared is None else squared
        centres = self.centres.astype(np.float64)
        return float(kernels.within(self.points, self.weights, centres, self.labels, squared))

    def _widen(self, moves: np.ndarray) -> None:
        """Set by how much centres have moved, and half the distance of each to the next one."""
        grow = 1 + 2 * float(self._slack)
        kind, k = self.points.dtype, len(moves)
        order = np.argsort(moves)
        far = np.full(k, moves[order[-1]])
        far[order[-1]] = moves[order[-2]] if k > 1 else 0.0
        self._moved, self._far = (moves * grow).astype(kind), (far * grow).astype(kind)
        centres = self.centres.astype(np.float64)
        apart = np.square(centres[:, np.newaxis] - centres).sum(axis=2)
        np.fill_diagonal(apart, np.inf)
        self._near = (np.sqrt(apart.min(axis=1)) / 2 / grow).astype(kind)

    def _fill_empty(self) -> None:
        """Give each cluster without points the point that is furthest from its own centre.

        A cluster stays empty, and its centre where it is, once all points are at their centres.
        """
        empty = np.flatnonzero(self.counts == 0)
        if not empty.size:
            return
        self.sums[empty], self.masses[empty] = 0.0, 0.0
        squared = np.empty(len(self.points))
        self.inertia(squared)
        furthest = np.argsort(-squared, kind="stable")[: empty.size]
        for cluster, row in zip(empty, furthest, strict=False):
            own = self.labels[row]
            if squared[row] > 0 and self.counts[own] > 1:
                weight = float(self.weights[row]) if self.weights.size else 1.0
                for at, sign in ((own, -1), (cluster, 1)):
                    self.counts[at] += sign
                    self.masses[at] += sign * weight
                    self.sums[at] += sign * weight * self.points[row].astype(np.float64)
                self.labels[row], self._upper[row] = cluster, np.inf
