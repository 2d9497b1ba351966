"""BFR: k-means of data larger than memory, in one pass over a file, a stream or an array."""

import os
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core.estimator import BaseEstimator, not_fitted
from sfumato.core.estimator_mixins import ClusterMixin
from sfumato.core.typing import Matrix
from sfumato.core.validation import Limit, fraction, integer, one_of
from sfumato.data import Batches, read_batches
from sfumato.mine.cluster.bfr.bfr_summary import BFRSummary, nearest_clusters
from sfumato.mine.cluster.estimator_input import (
    check_clusters,
    checked_points,
)

__all__ = ["BFR"]

LIMITS: dict[str, Limit] = {
    "n_clusters": integer(1, 2**16),
    "confidence": fraction,
    "max_compressed": integer(2, 2**12),
    "max_retained": integer(2, 2**24),
    "outliers": one_of(("assign", "label")),
    "seed": integer(0, 2**64 - 1),
}


class BFR(ClusterMixin, BaseEstimator):
    """Clusters of data larger than memory, as sums of their rows, by Bradley, Fayyad and Reina.

    Clusters are taken for normally distributed, with independent columns. Memory does not grow with
    the number of rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, from 1 to the number of rows.
    confidence : float, default=0.999
        Probability with which a row of a cluster is recognised as such, between 0 and 1: its
        squared Mahalanobis distance is at most this quantile of a chi-square distribution.
    max_compressed : int, default=200
        Largest number of mini-clusters, from 2.
    max_retained : int, default=4096
        Number of single rows from which they are clustered, from 2.
    outliers : {"assign", "label"}, default="assign"
        "assign" counts mini-clusters and single rows in the nearest clusters at the end, and
        predicts a cluster for every row. "label" leaves them out, and predicts -1 for a row outside
        all clusters.
    seed : int, default=0
        Seed of the first clusters.

    Attributes
    ----------
    summary_ : BFRSummary
        N, SUM and SUMSQ of the clusters; it can be merged with others and saved.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Means of the clusters.
    variances_ : ndarray of shape (n_clusters, n_features)
        Variances of their columns.
    counts_ : ndarray of shape (n_clusters,)
        Numbers of their rows.
    labels_ : ndarray of shape (n_rows,)
        Cluster of each row; only after `fit` to rows in memory.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    **Guarantee.** As of `BFRSummary`: one pass, bounded memory, and N, SUM and SUMSQ over all
    clusters that are those of the rows, also after merges. The course's threshold of 3 sqrt(d)
    covers 99.7 % of a cluster for one column only; the quantile covers `confidence` for any number.

    For threads, fill summaries by `sfumato.engine.map_merge` and give the result to `from_summary`.

    References
    ----------
    .. [1] Bradley, Fayyad, Reina. "Scaling clustering algorithms to large databases". KDD 1998.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> points = np.concatenate([rng.normal(1, 1, (500, 2)), rng.normal(9, 1, (500, 2))])
    >>> model = BFR(2).fit(points)
    >>> sorted(model.cluster_centers_.round().tolist()), sorted(model.counts_.tolist())
    ([[1.0, 1.0], [9.0, 9.0]], [500, 500])
    """

    summary_: BFRSummary
    cluster_centers_: np.ndarray
    variances_: np.ndarray
    counts_: np.ndarray
    labels_: np.ndarray
    n_features_in_: int

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        confidence: float = 0.999,
        max_compressed: int = 200,
        max_retained: int = 4096,
        outliers: str = "assign",
        seed: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.confidence = confidence
        self.max_compressed = max_compressed
        self.max_retained = max_retained
        self.outliers = outliers
        self.seed = seed

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        columns: Any = None,
        progress: Any = None,
    ) -> Self:
        """Find the clusters in one pass.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features), or source
            Rows in memory; or with `columns` anything that `sfumato.data.read_batches` reads, such
            as a Parquet file; or its result.
        y : object, default=None
            Not used.
        columns : sequence of str or None, default=None
            Names of the columns of a source.
        progress : callable or None, default=None
            Called with the number of rows done, and of all rows or None, after each batch of a
            source.

        Returns
        -------
        Self
            The object itself.
        """
        self._check()
        batches = _source(X, columns)
        if batches is None:
            points = checked_points(self, X, reset=True)
            check_clusters("BFR", self.n_clusters, len(points))
            summary = self._empty(points.shape[1]).update(points)
            self._finish(summary)
            self.labels_ = self._labels(np.asarray(points, np.float64))
            return self
        summary, done = self._empty(len(batches.columns)), 0
        for batch in batches:
            summary.update(batch)
            done += batch.num_rows
            if progress is not None:
                progress(done, batches.rows)
        check_clusters("BFR", self.n_clusters, done)
        self._forget()
        self._take_names(batches.columns)
        self._finish(summary)
        return self

    def partial_fit(self, X: Matrix, y: Any = None) -> Self:
        """Add rows to the clusters.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features)
            Finite numbers; Arrow batches too.
        y : object, default=None
            Not used.

        Returns
        -------
        Self
            The object itself. Before there are `n_clusters` rows it has no clusters yet.
        """
        self._check()
        begun = hasattr(self, "summary_")
        if isinstance(X, pa.RecordBatch):
            X = pa.Table.from_batches([X])
        points = checked_points(self, X, reset=not begun)
        summary = self.summary_.copy() if begun else self._empty(points.shape[1])
        summary.update(points)
        if summary.total >= self.n_clusters:
            self._finish(summary)
            self.labels_ = self._labels(np.asarray(points, np.float64))
        self.summary_ = summary
        return self

    @classmethod
    def from_summary(cls, summary: BFRSummary, *, outliers: str = "assign") -> Self:
        """Make a fitted estimator from a summary, such as one that was merged or loaded.

        Parameters
        ----------
        summary : BFRSummary
            The summary; it is copied.
        outliers : {"assign", "label"}, default="assign"
            As in the class.

        Returns
        -------
        Self
            The estimator.
        """
        names = ("n_clusters", "confidence", "max_compressed", "max_retained", "seed")
        made = cls(outliers=outliers, **{name: getattr(summary, name) for name in names})
        made._check()
        made.n_features_in_ = summary.dimension
        made._finish(summary.copy())
        return made

    def merge(self, other: Self) -> Self:
        """Add the rows of another estimator of the same parameters.

        Parameters
        ----------
        other : Self
            A fitted estimator; it is not changed.

        Returns
        -------
        Self
            The object itself, of the rows of both; see `BFRSummary` for what is exact.
        """
        if not isinstance(other, BFR):
            raise TypeError(f"BFR: cannot merge with {type(other).__name__}.")
        for each in (self, other):
            each._check_fitted()
        self._forget()
        self._finish(self.summary_.copy().merge(other.summary_))
        return self

    def predict(self, X: Matrix) -> np.ndarray:
        """Return the cluster of each row, by Mahalanobis distance.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features)
            Finite numbers.

        Returns
        -------
        ndarray of shape (n_rows,)
            Numbers of the clusters; -1 outside all of them, where `outliers` is "label".
        """
        self._check_fitted()
        return self._labels(np.asarray(checked_points(self, X, reset=False), np.float64))

    def _check(self) -> None:
        for name, limit in LIMITS.items():
            limit.check("BFR", name, getattr(self, name))

    def _empty(self, dimension: int) -> BFRSummary:
        names = ("confidence", "max_compressed", "max_retained", "seed")
        return BFRSummary(
            self.n_clusters, dimension, **{name: getattr(self, name) for name in names}
        )

    def _forget(self) -> None:
        """Drop the labels of earlier rows."""
        if hasattr(self, "labels_"):
            del self.labels_

    def _take_names(self, names: list[str]) -> None:
        self.n_features_in_ = len(names)
        self.feature_names_in_: np.ndarray = np.array(names, object)

    def _finish(self, summary: BFRSummary) -> None:
        found = summary.clusters(finish=self.outliers == "assign")
        self.cluster_centers_, self.variances_, self.counts_ = found
        self.summary_ = summary

    def _check_fitted(self) -> None:
        if not hasattr(self, "cluster_centers_"):
            raise not_fitted("BFR: not fitted yet; call fit first.")

    def _labels(self, points: np.ndarray) -> np.ndarray:
        n, sums, squares = self.summary_.totals()
        overall = np.maximum(squares / n - np.square(sums / n), 0.0)
        labels, squared = nearest_clusters(points, self.cluster_centers_, self.variances_, overall)
        if self.outliers == "label":
            labels[squared > self.summary_.threshold] = -1
        return labels


def _source(X: Any, columns: Any) -> Batches | None:
    """The batches of a source; None for rows in memory."""
    if isinstance(X, Batches):
        return X
    streamed = isinstance(X, str | os.PathLike | Iterator)
    if columns is None and streamed:
        raise ValueError("BFR: columns must be given for a source: the names of its columns.")
    return None if columns is None else read_batches(X, list(columns))
