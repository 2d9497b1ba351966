"""Releases of private clusters: noisy centres and counts, with BFR also variances."""

from typing import Annotated, Any

import numpy as np

from sfumato.core.bounds import BOUNDS, Pair, points
from sfumato.core.file_format import Packed
from sfumato.core.storage import Cells
from sfumato.core.typing import Matrix
from sfumato.core.validation import integer
from sfumato.kernels.mine.cluster import nearest_centres as kernels
from sfumato.mine.cluster.bfr.bfr_summary import nearest_clusters
from sfumato.privacy.release import Release

__all__ = ["CLUSTERS", "ReleasedBFR", "ReleasedKMeans"]

CLUSTERS = integer(1, 2**12)
LARGEST = 1e150


class _ReleasedClusters(Release, in_files=False):
    """Noisy centres and counts of clusters."""

    n_clusters: Annotated[int, CLUSTERS]
    bounds: Annotated[Pair, BOUNDS]
    _centres: np.ndarray
    _counts: np.ndarray
    _deviation: np.ndarray

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return len(self.bounds[0])

    @property
    def cluster_centers(self) -> np.ndarray:
        """Noisy centres, inside the bounds."""
        return self._centres

    @property
    def counts(self) -> np.ndarray:
        """Noisy number of rows around each centre before it last moved; may be below 0."""
        return self._counts

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of a count."""
        return float(self._deviation[0])

    def _layout(self) -> dict[str, Cells]:
        table = self.n_clusters, self.dimension
        return {
            "_centres": Cells(np.float64, table, ""),
            "_counts": Cells(np.float64, (self.n_clusters,), ""),
            "_deviation": Cells(np.float64, (1,), ""),
        }

    def _restore(self, packed: Packed) -> None:
        super()._restore(packed)
        arrays = self._arrays().values()
        if not all(np.isfinite(each).all() for each in arrays):
            raise ValueError("a number is not finite.")
        low, high = (np.array(side) for side in self.bounds)
        if (self._centres < low).any() or (self._centres > high).any() or self.deviation < 0:
            raise ValueError("the clusters do not fit the bounds.")

    def _points(self, X: Any) -> np.ndarray:
        found = points(type(self).__name__, X, self.dimension)
        return np.ascontiguousarray(np.clip(found, -LARGEST, LARGEST))


class ReleasedKMeans(_ReleasedClusters):
    """Differentially private clusters; made by `PrivateKMeans.fit`.

    Attributes
    ----------
    n_clusters : int
        Number of clusters.
    bounds : Pair
        Public bounds of the columns.
    statement : PrivacyStatement
        The guarantee.

    Notes
    -----
    **Guarantee.** That of its `statement`, for all numbers together. No row is stored, nor any sum
    without noise; predictions are computed from the noisy centres at no further cost.

    Examples
    --------
    >>> from sfumato.mine.cluster import PrivateKMeans
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(x, 0.5, (2000, 2)) for x in (-3, 3)])
    >>> release = PrivateKMeans(2, 5.0, bounds=([-6, -6], [6, 6])).fit(rows).release_
    >>> sorted(release.cluster_centers.round().tolist())
    [[-3.0, -3.0], [3.0, 3.0]]
    """

    _of = "PrivateKMeans"

    def predict(self, X: Matrix) -> np.ndarray:
        """Return the nearest centre of each row.

        Parameters
        ----------
        X : array_like of shape (n_rows, dimension)
            Numbers; infinite ones are allowed, NaN is not.

        Returns
        -------
        ndarray of shape (n_rows,)
            Numbers of the clusters.
        """
        rows = self._points(X)
        labels, squared = np.empty(len(rows), np.int32), np.empty(len(rows))
        kernels.nearest(rows, np.array(self._centres), labels, squared)
        return labels


class ReleasedBFR(_ReleasedClusters):
    """Differentially private clusters with variances; made by `PrivateBFR.fit`.

    Attributes
    ----------
    n_clusters : int
        Number of clusters.
    bounds : Pair
        Public bounds of the columns.
    statement : PrivacyStatement
        The guarantee.

    Notes
    -----
    **Guarantee.** That of its `statement`, for all numbers together. No row is stored, nor any sum
    without noise; predictions are computed from the noisy numbers at no further cost.

    Examples
    --------
    >>> from sfumato.mine.cluster import PrivateBFR
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(x, 0.5, (2000, 2)) for x in (-3, 3)])
    >>> release = PrivateBFR(2, 5.0, bounds=([-6, -6], [6, 6])).fit(rows).release_
    >>> bool((abs(release.variances - 0.25) < 0.25).all())
    True
    """

    _variances: np.ndarray
    _of = "PrivateBFR"

    @property
    def variances(self) -> np.ndarray:
        """Noisy variances of the columns of each cluster, from 0 to a quarter of the width squared.

        Where a count is not clear of its noise, that of a uniform column.
        """
        return self._variances

    def _layout(self) -> dict[str, Cells]:
        table = self.n_clusters, self.dimension
        return {**super()._layout(), "_variances": Cells(np.float64, table, "")}

    def _restore(self, packed: Packed) -> None:
        super()._restore(packed)
        if (self._variances < 0).any():
            raise ValueError("a variance is below 0.")

    def predict(self, X: Matrix) -> np.ndarray:
        """Return the cluster of each row, by Mahalanobis distance.

        Parameters
        ----------
        X : array_like of shape (n_rows, dimension)
            Numbers; infinite ones are allowed, NaN is not.

        Returns
        -------
        ndarray of shape (n_rows,)
            Numbers of the clusters.
        """
        half = (np.array(self.bounds[1]) - np.array(self.bounds[0])) / 2
        rows = np.clip(self._points(X), -1e100, 1e100)
        # Clusters of a very small noisy variance would have no rows of their own.
        least = np.square(half) * 1e-4
        variances = np.maximum(self._variances, least)
        return nearest_clusters(rows, np.array(self._centres), variances, np.square(half))[0]
