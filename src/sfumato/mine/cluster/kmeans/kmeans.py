"""KMeans: clusters around means, started on a sample, finished with few distances on all rows."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.core.estimator import BaseEstimator, not_fitted
from sfumato.core.estimator_mixins import (
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import (
    RANDOM_STATE,
    Limit,
    RandomState,
    between,
    check_random_state,
    integer,
    one_of,
    optional,
)
from sfumato.errors import ParameterError
from sfumato.kernels.mine.cluster import nearest_centres as kernels
from sfumato.mine.cluster.estimator_input import (
    check_clusters,
    checked_points,
    checked_weights,
)
from sfumato.mine.cluster.kmeans.engine_lloyd import EngineLloyd, EngineRows
from sfumato.mine.cluster.kmeans.lloyd import Lloyd, Progress
from sfumato.mine.cluster.kmeans.starts import Start, sample_size, variance_of

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["CLUSTERS", "KMeans"]

CLUSTERS = integer(1, 2**20)
STARTS = one_of(("k-means++", "furthest-first"))
PATIENCE = 10  # mini-batches without a better mean before a fit by batches ends


class _Sample:
    """The limit of `sample`: "auto", a number of rows, or None."""

    def check(self, owner: str, name: str, value: Any) -> Any:
        if value is None or (isinstance(value, str) and value == "auto"):
            return value
        return integer(1).check(owner, name, value)

    def bad(self) -> list[Any]:
        return [0, -1, 0.5, "all"]


LIMITS: dict[str, Limit] = {
    "n_clusters": CLUSTERS,
    "n_init": integer(1, 10_000),
    "max_iter": integer(1),
    "tol": between(0, np.inf),
    "sample": _Sample(),
    "batch_size": optional(integer(1)),
    "random_state": RANDOM_STATE,
}


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """K-means clustering of rows in memory, of a stream in mini-batches, or of rows of an engine.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k, from 1 to the number of rows.
    init : {"k-means++", "furthest-first"} or array_like of shape (n_clusters, n_features), \
            default="k-means++"
        First centres. "k-means++" draws rows with probability proportional to the squared distance
        from the nearest centre so far, and takes the best of ``2 + log k`` draws each time;
        "furthest-first" takes the furthest row. An array gives the centres themselves.
    n_init : int, default=2
        Number of starts on the sample, from 1. The best of them moves centres that two clusters
        hardly need to far rows as long as this helps, then continues on all rows. An array is one
        start, which begins with all rows.
    max_iter : int, default=300
        Largest number of iterations over all rows, from 1.
    tol : float, default=1e-05
        Iterations end when the squared moves of all centres sum to at most `tol` times the mean
        variance of the columns, from 0. With 0 they end when no row changes its cluster.
    sample : int, None or "auto", default="auto"
        Rows of the random sample that starts are tried on. "auto" takes ``50 k log2 n``, None all
        rows.
    batch_size : int or None, default=None
        None iterates over all rows. A number makes `fit` move the centres after each mini-batch of
        so many rows, as `partial_fit` does, until the mean distance of ten batches in a row is no
        better; `max_iter` is then in passes over all rows.
    random_state : int, Generator or None, default=None
        Source of the sample, the starts and the mini-batches.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centres.
    labels_ : ndarray of shape (n_rows,)
        Cluster of each row of the last `fit` or `partial_fit`: its nearest centre. None of the
        rows of an engine; `predict` labels them batch by batch.
    inertia_ : float
        Weighted sum of squared distances of those rows to their centres.
    loss_ : float
        The objective ``J = inertia_ / (2 N)``, with N the sum of weights.
    counts_ : ndarray of shape (n_clusters,)
        Sum of the weights of the rows in each cluster; in `partial_fit`, of all rows so far.
    n_iter_ : int
        Iterations over all rows.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    **Guarantee.** An iteration never increases the objective, up to rounding: every row goes to its
    nearest centre (the first of equal ones), then every centre to the mean of its rows. A cluster
    without rows gets the row that is furthest from its centre; if all rows are at their centres,
    as where there are fewer distinct rows than clusters, it stays empty and its centre where it is.
    Float32 rows are compared in float32 and summed in float64.

    Bounds on distances [1]_ skip most rows after the first iterations; they account for rounding,
    so that the result is that of Lloyd's algorithm. In `partial_fit` a centre is the mean of all
    rows that were nearest to it when they came [3]_.

    References
    ----------
    .. [1] Hamerly. "Making k-means even faster". SDM 2010.
       https://doi.org/10.1137/1.9781611972801.12
    .. [2] Arthur, Vassilvitskii. "k-means++: the advantages of careful seeding". SODA 2007.
    .. [3] Sculley. "Web-scale k-means clustering". WWW 2010.
       https://doi.org/10.1145/1772690.1772862

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> model = KMeans(2, random_state=0).fit(points)
    >>> sorted(model.cluster_centers_.tolist()), model.inertia_
    ([[1.0, 2.0], [10.0, 2.0]], 16.0)
    >>> bool(model.predict([[0, 0]])[0] == model.labels_[0])
    True
    """

    cluster_centers_: np.ndarray
    labels_: np.ndarray
    counts_: np.ndarray
    inertia_: float
    loss_: float
    n_iter_: int
    n_features_in_: int

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 2,
        max_iter: int = 300,
        tol: float = 1e-5,
        sample: Any = "auto",
        batch_size: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.sample = sample
        self.batch_size = batch_size
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Column | None = None,
        *,
        progress: Any = None,
        engine: "Engine | None" = None,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Find the clusters of all rows.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features), or source
            Finite numbers; float32 is used as it is, everything else as float64. With `engine` what
            the engine reads.
        y : object, default=None
            Not used.
        sample_weight : array_like of shape (n_rows,) or None, default=None
            Weights from 0 up; None for 1 each. A row of weight 0 only gets a label.
        progress : callable or None, default=None
            Called with the number of iterations over all rows and their largest number.
        engine : Engine or None, default=None
            Where the rows are; None for rows in memory. Starts are then tried on the distinct rows
            with the smallest hashes, so that the result depends on the rows and `random_state`
            alone, up to rounding; `batch_size` and `sample_weight` are None.
        columns : sequence of str or None, default=None
            Names of the columns; only with `engine`.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check()
        if engine is not None:
            self._check_engine(plain, sample_weight, columns)
            rows = EngineRows(engine, X, columns or ())
            try:
                self._fit_rows(plain, rows, progress)
            finally:
                rows.unpersist()
            return self
        points = checked_points(self, X, reset=True)
        weights = checked_weights("KMeans", sample_weight, points)
        used, masses = points, weights
        if weights is not None and not weights.all():
            used, masses = points[weights > 0], weights[weights > 0]
        check_clusters("KMeans", plain["n_clusters"], len(used))
        rng = check_random_state("KMeans", plain["random_state"])
        centres = self._start(plain, used, masses, rng)
        if plain["batch_size"] is None:
            lloyd = Lloyd(used, masses, centres)
            tol = plain["tol"] * variance_of(used)
            n_iter = lloyd.run(plain["max_iter"], tol, progress)
        else:
            centres, n_iter = _by_batches(plain, used, masses, centres, rng, progress)
            lloyd = Lloyd(used, masses, centres)
            lloyd.assign()
        self._store(lloyd, points if used is not points else None)
        self.n_iter_ = n_iter
        return self

    def _check_engine(
        self, plain: dict[str, Any], sample_weight: Any, columns: Sequence[str] | None
    ) -> None:
        """Refuse what only rows in memory can have."""
        if plain["batch_size"] is not None:
            raise ParameterError.of("KMeans", "batch_size", "must be None with an engine.")
        if sample_weight is not None:
            raise ParameterError.of("KMeans", "sample_weight", "must be None with an engine.")
        if columns is None or isinstance(columns, str) or not len(columns):
            problem = "must be a list of names of columns with an engine."
            raise ParameterError.of("KMeans", "columns", problem)

    def _fit_rows(self, plain: dict[str, Any], rows: EngineRows, progress: Progress) -> None:
        """Find the clusters of the rows of an engine."""
        moments = rows.moments()
        check_clusters("KMeans", plain["n_clusters"], moments.rows)
        lloyd = EngineLloyd(rows, self._start_rows(plain, rows, moments.rows))
        n_iter, found = lloyd.run(plain["max_iter"], plain["tol"] * moments.variance, progress)
        _warn_of_empty(found.counts)
        self.__dict__.pop("labels_", None)
        self.n_features_in_ = len(rows.columns)
        self.feature_names_in_: np.ndarray = np.array(rows.columns, object)
        self.cluster_centers_, self.counts_ = lloyd.centres, found.counts.astype(np.float64)
        self.inertia_, self.loss_ = found.inertia, found.inertia / (2 * moments.rows)
        self.n_iter_ = n_iter

    def _start_rows(self, plain: dict[str, Any], rows: EngineRows, n: int) -> np.ndarray:
        """The first centres on the rows of an engine."""
        k = plain["n_clusters"]
        if not isinstance(self.init, str):
            return _given(self.init, k, np.empty((0, len(rows.columns))))
        sizes = {None: n, "auto": sample_size(n, k)}
        sample = rows.sample(max(sizes.get(plain["sample"], plain["sample"]), k))
        points, copies = sample.points, sample.copies.astype(np.float64)
        if len(points) < k:  # as many centres as there are distinct rows, the others are copies
            return np.asarray(points[np.arange(k) % len(points)])
        rng = check_random_state("KMeans", plain["random_state"])
        start = Start(k, self.init, plain["n_init"], len(points), plain["tol"], rng)
        return start.centres(points, None if (copies == 1).all() else copies)

    def partial_fit(self, X: Matrix, y: Any = None, sample_weight: Column | None = None) -> Self:
        """Move the centres by one mini-batch.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features)
            Finite numbers. The first mini-batch must have at least `n_clusters` rows of a weight
            above 0: the centres start there.
        y : object, default=None
            Not used.
        sample_weight : array_like of shape (n_rows,) or None, default=None
            Weights from 0 up; None for 1 each.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check()
        begun = hasattr(self, "cluster_centers_")
        points = checked_points(self, X, reset=not begun)
        weights = checked_weights("KMeans", sample_weight, points)
        masses = np.ones(len(points), points.dtype) if weights is None else weights
        if begun:
            centres, counts = self.cluster_centers_.astype(np.float64), self.counts_.copy()
        else:
            used = masses > 0
            check_clusters("KMeans", plain["n_clusters"], int(used.sum()))
            rng = check_random_state("KMeans", plain["random_state"])
            start = self._start(plain, points[used], masses[used], rng)
            centres, counts = start.astype(np.float64), np.zeros(len(start))
        labels, total = _mini_batch(points, masses, centres, counts)
        self.cluster_centers_, self.counts_ = centres.astype(points.dtype), counts
        self.labels_, self.inertia_ = labels, total
        self.loss_ = total / (2 * float(masses.sum(dtype=np.float64)))
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1 if begun else 1
        return self

    def predict(self, X: Matrix) -> np.ndarray:
        """Return the nearest centre of each row.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features)
            Finite numbers.

        Returns
        -------
        ndarray of shape (n_rows,)
            Numbers of the clusters; the first of equally near ones.
        """
        return self._nearest(X)[0]

    def transform(self, X: Matrix) -> np.ndarray:
        """Return the distances of each row to all centres.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features)
            Finite numbers.

        Returns
        -------
        ndarray of shape (n_rows, n_clusters)
            Euclidean distances.
        """
        from scipy.spatial.distance import cdist

        points = self._queries(X)
        return np.asarray(cdist(points, self.cluster_centers_), points.dtype)

    def score(self, X: Matrix, y: Any = None, sample_weight: Column | None = None) -> float:
        """Return the negative inertia of rows: larger is better.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features)
            Finite numbers.
        y : object, default=None
            Not used.
        sample_weight : array_like of shape (n_rows,) or None, default=None
            Weights from 0 up; None for 1 each.

        Returns
        -------
        float
            Minus the weighted sum of squared distances to the nearest centres.
        """
        _, squared = self._nearest(X)
        weights = checked_weights("KMeans", sample_weight, squared)
        return -float(np.dot(squared, np.ones(len(squared)) if weights is None else weights))

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def _check(self) -> dict[str, Any]:
        """Return the parameters in plain types; ValueError for the first invalid one."""
        plain = {
            name: each.check("KMeans", name, getattr(self, name)) for name, each in LIMITS.items()
        }
        if isinstance(self.init, str):
            STARTS.check("KMeans", "init", self.init)
        return plain

    def _start(
        self,
        plain: dict[str, Any],
        points: np.ndarray,
        weights: np.ndarray | None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """The first centres on all rows."""
        k = plain["n_clusters"]
        if not isinstance(self.init, str):
            return _given(self.init, k, points)
        size = {None: len(points), "auto": sample_size(len(points), k)}.get(
            plain["sample"], plain["sample"]
        )
        start = Start(k, self.init, plain["n_init"], max(size, k), plain["tol"], rng)
        return start.centres(points, weights)

    def _store(self, lloyd: Lloyd, all_rows: np.ndarray | None) -> None:
        """Take over what was found; label all rows where some have no weight."""
        inertia = lloyd.inertia()
        mass = (
            float(lloyd.weights.sum(dtype=np.float64)) if lloyd.weights.size else len(lloyd.points)
        )
        labels = lloyd.labels
        if all_rows is not None:
            labels = np.empty(len(all_rows), np.int32)
            kernels.nearest(
                all_rows, lloyd.centres, labels, np.empty(len(all_rows), all_rows.dtype)
            )
        _warn_of_empty(lloyd.counts)
        self.cluster_centers_, self.labels_, self.counts_ = lloyd.centres, labels, lloyd.masses
        self.inertia_, self.loss_ = inertia, inertia / (2 * mass)

    def _queries(self, X: Any) -> np.ndarray:
        if not hasattr(self, "cluster_centers_"):
            raise not_fitted("KMeans: not fitted yet; call fit first.")
        return checked_points(self, X, reset=False)

    def _nearest(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        points = self._queries(X)
        labels, squared = np.empty(len(points), np.int32), np.empty(len(points), points.dtype)
        kernels.nearest(points, self.cluster_centers_.astype(points.dtype), labels, squared)
        return labels, squared


def _warn_of_empty(counts: np.ndarray) -> None:
    if not counts.all():
        from sklearn.exceptions import ConvergenceWarning

        full = int(np.count_nonzero(counts))
        warnings.warn(
            f"KMeans: {len(counts) - full} of {len(counts)} clusters are empty: "
            "there are fewer distinct rows than clusters.",
            ConvergenceWarning,
            stacklevel=4,
        )


def _given(init: Any, k: int, points: np.ndarray) -> np.ndarray:
    """Centres that the caller gave; ValueError where their shape or a number is invalid."""
    centres = np.asarray(init, np.float64) if not callable(init) else np.empty(0)
    if centres.shape != (k, points.shape[1]) or not np.isfinite(centres).all():
        wanted = "must be 'k-means++', 'furthest-first' or an array of finite numbers of shape "
        problem = f"{wanted}{(k, points.shape[1])}, not one of shape {centres.shape}."
        raise ParameterError.of("KMeans", "init", problem)
    return centres.astype(points.dtype)


def _mini_batch(
    points: np.ndarray, masses: np.ndarray, centres: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, float]:
    """Move centres to the means of all rows so far; return labels and inertia before the move."""
    labels, squared = np.empty(len(points), np.int32), np.empty(len(points), points.dtype)
    kernels.nearest(points, centres.astype(points.dtype), labels, squared)
    k = len(centres)
    added = np.bincount(labels, masses, k)
    sums = np.stack([np.bincount(labels, masses * column, k) for column in points.T], axis=1)
    full = added > 0
    counts += added
    apart = sums[full] - added[full, np.newaxis] * centres[full]
    centres[full] += apart / counts[full, np.newaxis]
    return labels, float(np.dot(squared.astype(np.float64), masses))


def _by_batches(
    plain: dict[str, Any],
    points: np.ndarray,
    weights: np.ndarray | None,
    start: np.ndarray,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[np.ndarray, int]:
    """Mini-batches of rows in random order until their mean distance is no better."""
    centres, counts = start.astype(np.float64), np.zeros(len(start))
    masses = np.ones(len(points), points.dtype) if weights is None else weights
    size, least, waited, mean = plain["batch_size"], np.inf, 0, None
    for done in range(1, plain["max_iter"] + 1):
        order = rng.permutation(len(points))
        for at in range(0, len(points), size):
            rows = order[at : at + size]
            _, total = _mini_batch(points[rows], masses[rows], centres, counts)
            found = total / max(float(masses[rows].sum()), np.finfo(np.float64).tiny)
            part = min(2 * size / (len(points) + 1), 1.0)
            mean = found if mean is None else mean * (1 - part) + found * part
            waited, least = (0, mean) if mean < least else (waited + 1, least)
            if waited >= PATIENCE:
                return centres, done
        if progress is not None:
            progress(done, plain["max_iter"])
    return centres, done
