"""CURE: clusters of any shape by scattered representatives, of data larger than memory."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sfumato.core.estimator import BaseEstimator, not_fitted
from sfumato.core.estimator_mixins import ClusterMixin
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import (
    RANDOM_STATE,
    Limit,
    RandomState,
    between,
    check_random_state,
    checked_values,
    integer,
    optional,
)
from sfumato.errors import ParameterError
from sfumato.kernels.mine.cluster import representatives as representatives_kernels
from sfumato.mine.cluster.cure.cure_sample import clustered_sample, represented
from sfumato.mine.cluster.cure.cure_source import PointBatches, uniform_sample
from sfumato.mine.cluster.estimator_input import (
    checked_points,
    unchanged_on_error,
)

__all__ = ["CURE"]

LABEL = "cluster"  # the column that `assign` writes
INITIAL = 100  # sampled points per initial cluster, where a threshold merges them


class CURE(ClusterMixin, BaseEstimator):
    """Clustering using representatives: clusters of any shape from a sample, then all points.

    A sample is agglomerated by nearest points. Each cluster is represented by a few of its points,
    far apart and moved towards its centre. Clusters with near representatives are merged, and every
    point goes to the cluster of the nearest representative. Distances are Euclidean.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters, from 1 to the number of rows; with a `threshold` the fewest.
    representatives : int, default=10
        Most representatives of a cluster, from 1 up.
    shrink : float, default=0.2
        How far representatives move towards the centre, from 0 (not) to below 1.
    sample : int, default=5000
        Most rows to sample, from 1 up. Time grows with its square.
    initial : int or None, default=None
        Number of clusters, at least `n_clusters`, at which agglomeration by nearest points ends and
        merging by representatives begins. None for `n_clusters`, or, with a `threshold`, for a
        hundredth of the sample if that is more. The size of the sample or more merges by
        representatives from the start, as in [1]_.
    threshold : float or None, default=None
        Distance of nearest representatives up to which clusters are merged. None for any, until
        `n_clusters` are left.
    outliers : float, default=0.005
        Fraction of the sample, from 0 to below 1, below which a cluster is left out of the sample,
        as are isolated points: those alone when a third of the clusters are left. They do not bend
        clusters, and are assigned in the end as all other points. 0 leaves nothing out, nor does
        any value in a sample so small that the fraction is one point.
    random_state : int, Generator or None, default=None
        Seed of the sample.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each row; not after `fit_source`.
    n_clusters_ : int
        Number of clusters.
    representatives_ : ndarray of shape (r, columns)
        Representatives of all clusters, moved towards the centres.
    representative_labels_ : ndarray of shape (r,)
        Cluster of each.
    sample_size_ : int
        Number of rows sampled.
    outliers_ : int
        How many of them were left out.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    **Guarantee.** Every point is assigned to a cluster whose representative is nearest, up to
    rounding. Memory is O(sample x columns), plus representatives x columns for each initial
    cluster, plus one batch of rows, whatever the size of the source. Equal data, parameters and
    `random_state` give equal clusters. A fit that raises or is interrupted leaves the object as it
    was.

    References
    ----------
    .. [1] Guha, Rastogi, Shim. "CURE: an efficient clustering algorithm for large databases".
       SIGMOD 1998. https://doi.org/10.1145/276304.276312
    .. [2] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets", section 7.4.
       http://www.mmds.org

    Examples
    --------
    >>> angle = np.linspace(0, 2 * np.pi, 200)
    >>> ring = np.c_[np.cos(angle), np.sin(angle)]
    >>> found = CURE(2, random_state=0).fit(np.r_[ring, 0.3 * ring])
    >>> np.unique(found.labels_[:200]), np.unique(found.labels_[200:])
    (array([0]), array([1]))
    >>> found.predict([[0.9, 0.1], [0.2, 0.2]])
    array([0, 1])
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "n_clusters": integer(1),
        "representatives": integer(1, 2**20),
        "shrink": between(0, 1),
        "sample": integer(1, 2**24),
        "initial": optional(integer(1)),
        "threshold": optional(between(0, np.inf)),
        "outliers": between(0, 1),
        "random_state": RANDOM_STATE,
    }

    labels_: np.ndarray
    n_clusters_: int
    representatives_: np.ndarray
    representative_labels_: np.ndarray
    sample_size_: int
    outliers_: int
    n_features_in_: int

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        representatives: int = 10,
        shrink: float = 0.2,
        sample: int = 5000,
        initial: int | None = None,
        threshold: float | None = None,
        outliers: float = 0.005,
        random_state: RandomState = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.representatives = representatives
        self.shrink = shrink
        self.sample = sample
        self.initial = initial
        self.threshold = threshold
        self.outliers = outliers
        self.random_state = random_state

    def fit(self, X: Matrix, y: Column | None = None) -> Self:
        """Find clusters in a sample of rows, and assign all rows.

        Parameters
        ----------
        X : array_like of shape (n, columns)
            Finite numbers, at least one row.
        y : array_like or None, default=None
            Ignored.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ParameterError
            If a parameter is invalid, or there are fewer rows than clusters.
        """
        plain = self._check()
        with unchanged_on_error(self):
            rows = checked_points(self, X, reset=True, narrow=False)
            draws = check_random_state(type(self).__name__, self.random_state)
            some = np.sort(draws.permutation(len(rows))[: plain["sample"]])
            self._represent(rows[some], len(rows), plain)
            self.labels_ = self._assigned(rows)
        return self

    def fit_source(
        self, source: Any, columns: Sequence[str], *, batch_rows: int | None = None
    ) -> Self:
        """Find clusters in a sample of a source that is read once, a batch at a time.

        Parameters
        ----------
        source : path_like, list of paths, table, frame, dict of columns or iterator
            As in `sfumato.data.read_batches`.
        columns : sequence of str
            Columns of the points.
        batch_rows : int or None, default=None
            Maximum number of rows of a batch; None for 65,536.

        Returns
        -------
        Self
            The fitted estimator, without `labels_`; call `assign`.
        """
        plain = self._check()
        with unchanged_on_error(self):
            owner = type(self).__name__
            batches = PointBatches(owner, source, columns, batch_rows)
            draws = check_random_state(owner, self.random_state)
            points, count = uniform_sample(batches, plain["sample"], draws)
            if not count:
                raise ValueError(f"{owner}: the source must have at least one row.")
            self._represent(points, count, plain)
            self.n_features_in_ = len(batches.columns)
            self.feature_names_in_: np.ndarray = np.array(batches.columns, object)
            self.__dict__.pop("labels_", None)
        return self

    def predict(self, X: Matrix) -> np.ndarray:
        """Assign rows to the clusters of their nearest representatives.

        Parameters
        ----------
        X : array_like of shape (n, columns)
            Finite numbers.

        Returns
        -------
        ndarray of shape (n,)
            Cluster of each row, int64.
        """
        self._check_fitted()
        return self._assigned(checked_points(self, X, reset=False, narrow=False))

    def assign(
        self,
        source: Any,
        columns: Sequence[str] | None = None,
        *,
        output: str | os.PathLike[str] | None = None,
        batch_rows: int | None = None,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Any:
        """Assign the rows of a source, a batch at a time.

        Parameters
        ----------
        source : path_like, list of paths, table, frame, dict of columns or iterator
            As in `sfumato.data.read_batches`.
        columns : sequence of str or None, default=None
            Columns of the points, in the order of the fit; None for those of the fit.
        output : path_like or None, default=None
            Parquet file to write: the columns and "cluster". It appears once it is complete.
        batch_rows : int or None, default=None
            Maximum number of rows of a batch; None for 65,536.
        progress : callable or None, default=None
            Called with the number of rows done and of all rows, or None if that is not known.

        Returns
        -------
        iterator of ndarray or pyarrow.dataset.Dataset
            Clusters of the rows of each batch, computed as they are read; with `output`, the data
            set of the file.

        Examples
        --------
        >>> table = {"x": [0.0, 0.1, 5.0, 5.1], "y": [0.0, 0.1, 5.0, 5.1]}
        >>> model = CURE(2).fit_source(table, ["x", "y"])
        >>> [labels.tolist() for labels in model.assign(table, batch_rows=3)]
        [[0, 0, 1], [1]]
        """
        self._check_fitted()
        owner = type(self).__name__
        names = self._columns(columns)
        batches = PointBatches(owner, source, names, batch_rows)
        if output is None:
            return (labels for _, labels in self._passed(batches, progress))
        if LABEL in names:
            raise ParameterError.of(owner, "columns", f"must not be called {LABEL!r}; rename it.")
        return self._written(Path(output), batches, progress)

    def _check(self) -> dict[str, Any]:
        owner = type(self).__name__
        plain = checked_values(owner, self.LIMITS, self.get_params(deep=False))
        if plain["initial"] is not None and plain["initial"] < plain["n_clusters"]:
            raise ParameterError.of(
                owner,
                "initial",
                f"must be at least n_clusters, {plain['n_clusters']}, not {plain['initial']}.",
            )
        return plain

    def _represent(self, points: np.ndarray, rows: int, plain: dict[str, Any]) -> None:
        """Find clusters and representatives of the sample."""
        goal, size = plain["n_clusters"], len(points)
        if goal > size:
            few = f"rows (n_samples={rows})" if size == rows else f"sampled rows ({size})"
            raise ParameterError.of(
                type(self).__name__,
                "n_clusters",
                f"must be at most the number of {few}, not {goal}.",
            )
        initial = plain["initial"]
        if initial is None:
            initial = goal if plain["threshold"] is None else max(goal, size // INITIAL)
        least = int(np.ceil(plain["outliers"] * size))
        labels = clustered_sample(points, min(initial, size), least, goal)
        limit = np.inf if plain["threshold"] is None else plain["threshold"]
        places, owners, labels = represented(
            points, labels, plain["representatives"], plain["shrink"], goal, limit
        )
        self.representatives_, self.representative_labels_ = places, owners
        self.n_clusters_, self.sample_size_ = int(owners.max()) + 1, size
        self.outliers_ = int((labels < 0).sum())

    def _assigned(self, points: np.ndarray) -> np.ndarray:
        out = np.empty(len(points), np.int64)
        places = np.ascontiguousarray(self.representatives_.T)
        representatives_kernels.nearest(points, places, self.representative_labels_, out)
        return out

    def _columns(self, columns: Sequence[str] | None) -> list[str]:
        names = getattr(self, "feature_names_in_", None) if columns is None else columns
        if names is None:
            raise ParameterError.of(
                type(self).__name__, "columns", "must be given: the fit was of rows without names."
            )
        if len(names) != self.n_features_in_:
            raise ParameterError.of(
                type(self).__name__,
                "columns",
                f"must be {self.n_features_in_}, as in the fit, not {len(names)}.",
            )
        return list(names)

    def _passed(
        self, batches: PointBatches, progress: Callable[[int, int | None], None] | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        done = 0
        for points in batches:
            yield points, self._assigned(points)
            done += len(points)
            if progress is not None:
                progress(done, batches.rows)

    def _written(
        self,
        path: Path,
        batches: PointBatches,
        progress: Callable[[int, int | None], None] | None,
    ) -> Any:
        import pyarrow.dataset  # imported here: it is slow to import
        import pyarrow.parquet as pq

        kinds = {name: pa.float64() for name in batches.columns}
        schema = pa.schema({**kinds, LABEL: pa.int64()})
        partial = path.with_name(f".{path.name}.partial")
        try:
            with pq.ParquetWriter(partial, schema) as writer:
                for points, labels in self._passed(batches, progress):
                    writer.write_table(pa.table([*points.T, labels], schema=schema))
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        return pyarrow.dataset.dataset(path)

    def _check_fitted(self) -> None:
        if not hasattr(self, "representatives_"):
            raise not_fitted(
                f"{type(self).__name__}: not fitted yet; call fit or fit_source first."
            )
