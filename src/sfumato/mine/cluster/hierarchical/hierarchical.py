"""Hierarchical clustering of rows under any distance: eight linkages, divisive, stopping rules."""

from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.estimator import BaseEstimator
from sfumato.core.estimator_mixins import ClusterMixin
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import (
    Limit,
    between,
    checked_values,
    integer,
    one_of,
    optional,
    positive,
)
from sfumato.errors import ParameterError
from sfumato.kernels.mine.cluster import linkage as linkage_kernels
from sfumato.mine.cluster.estimator_input import unchanged_on_error
from sfumato.mine.cluster.hierarchical.distance_matrix import (
    METRICS,
    RowDistances,
    distances_of,
    refuse_too_large,
)
from sfumato.mine.cluster.hierarchical.merges import (
    CLUSTROIDS,
    LINKAGES,
    STOPS,
    applied_merges,
    clustroids,
    merges_of,
    needs_matrix,
)

__all__ = ["Hierarchical"]


class Hierarchical(ClusterMixin, BaseEstimator):
    """Hierarchical clustering, agglomerative or divisive, of points, sets, texts or distances.

    Parameters
    ----------
    n_clusters : int or None, default=2
        Number of clusters, from 1 to the number of rows. With `stop`, the fewest clusters; None for
        no such limit.
    method : {"agglomerative", "divisive"}, default="agglomerative"
        "agglomerative" merges the closest clusters, from one per row up. "divisive" splits the
        cluster of the largest diameter, from one down, by a splinter group [2]_.
    linkage : str, default="auto"
        Which pair of clusters is merged: the one with the smallest

        - "centroid": distance of the means; metric "euclidean" only;
        - "clustroid": distance of the clustroids, see `clustroid`;
        - "single", "complete", "average": smallest, largest or mean distance of a point of one to a
          point of the other;
        - "diameter": largest distance within the union; the merges are those of "complete";
        - "within": mean distance of all pairs of points of the union;
        - "density": volume per point of the union, where the volume is the diameter to the `power`.

        "auto" is "centroid" for "euclidean" and "clustroid" for the other metrics. "divisive" has
        no linkage but "auto".
    metric : str, default="euclidean"
        "euclidean", "manhattan", "cosine" (angle / pi) or "hamming" for rows of numbers, "jaccard"
        for lists of tokens, "edit" for texts, as in `sfumato.mine.similar.distances`; or
        "precomputed" for a symmetric matrix of distances.
    clustroid : {"mean", "squares", "largest"}, default="mean"
        Which member of a cluster is its clustroid: the one with the smallest mean distance to the
        others, the smallest sum of squared distances, or the smallest largest distance.
    power : float or None, default=None
        Power of the diameter that is the volume in "density", above 0. None for the number of
        columns, or 1 if rows have none.
    stop : {"diameter", "density", "jump"} or None, default=None
        When to stop besides `n_clusters`: before the first merge that makes a cluster of more than
        `threshold` in diameter; or of less than `threshold` points per volume; or before the merge
        criterion jumps. A divisive method splits until no cluster is so wide or so sparse.
    threshold : float or None, default=None
        For "diameter" (from 0 up) and "density" the limit, to be given. For "jump" None stops
        before the largest rise of the height from one merge to the next; a number k stops before
        the first height above the mean of all heights plus k standard deviations [4]_.
    memory_limit : int, default=2147483648
        Most bytes for the distances. A fit of n rows stores one matrix of 8 n**2 bytes and O(n);
        only O(n) for "single" with metric "euclidean", unless it stops by diameter or density.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each row; clusters are numbered by their first row.
    n_clusters_ : int
        Number of clusters.
    merges_ : ndarray of shape (n - 1, 4)
        All merges down to one cluster, also those past the stop, as of
        `scipy.cluster.hierarchy.linkage`: two clusters, height, size. The height is the criterion
        in units of distance ("density": diameter / size ** (1 / power)), or the diameter of what
        was split. Those of "centroid", "clustroid", "within" and "density" may fall.
    applied_ : int
        How many of the first merges made the clusters.
    centroids_ : ndarray of shape (n_clusters_, columns)
        Means of the clusters; metric "euclidean" only.
    clustroids_ : ndarray of shape (n_clusters_,)
        Row of the clustroid of each cluster; other metrics, and linkage "clustroid".

    Notes
    -----
    **Guarantee.** Merges are exact: each is of a pair with the smallest criterion, up to rounding.
    Of equal pairs the choice depends on the order of rows only. Time is O(n**2) for "single" (a
    spanning tree) and for "complete", "average" and "diameter" (nearest-neighbour chains), and
    usually so for the others (lists of nearest neighbours), whose worst case is O(n**3). A fit that
    raises or is interrupted leaves the object as it was.

    References
    ----------
    .. [1] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets", section 7.2.
       http://www.mmds.org
    .. [2] Kaufman, Rousseeuw. "Finding groups in data", chapter 6 (DIANA). Wiley 1990.
    .. [3] Muellner. "Modern hierarchical, agglomerative clustering algorithms". 2011.
       https://arxiv.org/abs/1109.2378
    .. [4] Mojena. "Hierarchical grouping methods and stopping rules". The Computer Journal 20,
       1977. https://doi.org/10.1093/comjnl/20.4.359

    Examples
    --------
    >>> points = [[0, 0], [0, 1], [5, 5], [5, 6], [9, 0]]
    >>> Hierarchical(3).fit_predict(points)
    array([0, 0, 1, 1, 2])
    >>> words = ["kitten", "sitting", "mitten", "rose", "rise"]
    >>> found = Hierarchical(None, metric="edit", linkage="complete", stop="jump").fit(words)
    >>> found.labels_, [words[row] for row in found.clustroids_]
    (array([0, 0, 0, 1, 1]), ['kitten', 'rose'])
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "n_clusters": optional(integer(1)),
        "method": one_of(("agglomerative", "divisive")),
        "linkage": one_of(("auto", *LINKAGES)),
        "metric": one_of(METRICS),
        "clustroid": one_of(tuple(CLUSTROIDS)),
        "power": optional(positive),
        "stop": optional(one_of(STOPS)),
        "threshold": optional(between(0, np.inf)),
        "memory_limit": integer(1),
    }

    labels_: np.ndarray
    n_clusters_: int
    merges_: np.ndarray
    applied_: int
    centroids_: np.ndarray
    clustroids_: np.ndarray

    def __init__(
        self,
        n_clusters: int | None = 2,
        *,
        method: str = "agglomerative",
        linkage: str = "auto",
        metric: str = "euclidean",
        clustroid: str = "mean",
        power: float | None = None,
        stop: str | None = None,
        threshold: float | None = None,
        memory_limit: int = 2**31,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.linkage = linkage
        self.metric = metric
        self.clustroid = clustroid
        self.power = power
        self.stop = stop
        self.threshold = threshold
        self.memory_limit = memory_limit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.input_tags.string = self.metric == "edit"
        return tags

    def fit(self, X: Matrix, y: Column | None = None) -> Self:
        """Cluster rows.

        Parameters
        ----------
        X : array_like of n rows
            Rows of numbers, lists of tokens, texts or distances, as `metric` says; at least one.
        y : array_like or None, default=None
            Ignored.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ParameterError
            If a parameter is invalid, there are fewer rows than clusters, or the distances take
            more than `memory_limit`.
        """
        plain = self._check()
        with unchanged_on_error(self):
            source = distances_of(self, X, plain["metric"])
            if needs_matrix(source, plain["linkage"], plain["stop"]):
                refuse_too_large(type(self).__name__, len(source), plain["memory_limit"])
            self._refuse_few(plain, len(source))
            self._cluster(source, plain)
        return self

    def _check(self) -> dict[str, Any]:
        """Parameters in their plain types; `linkage` as it is used."""
        owner = type(self).__name__
        plain = checked_values(owner, self.LIMITS, self.get_params(deep=False))
        if plain["n_clusters"] is None and plain["stop"] is None:
            raise ParameterError.of(owner, "n_clusters", "must be given unless there is a stop.")
        if plain["stop"] is None and plain["threshold"] is not None:
            raise ParameterError.of(owner, "stop", "must be given with a threshold: its rule.")
        if plain["stop"] in ("diameter", "density") and plain["threshold"] is None:
            raise ParameterError.of(owner, "threshold", f"must be given to stop by {self.stop}.")
        plain["linkage"] = _linkage(owner, plain)
        return plain

    def _refuse_few(self, plain: dict[str, Any], n: int) -> None:
        if (plain["n_clusters"] or 1) > n:
            raise ParameterError.of(
                type(self).__name__,
                "n_clusters",
                f"must be at most the number of rows (n_samples={n}), not {plain['n_clusters']}.",
            )

    def _cluster(self, source: RowDistances, plain: dict[str, Any]) -> None:
        power = plain["power"] or float(source.dimension or 1)
        linkage = plain["linkage"]
        merges = merges_of(source, linkage, plain["clustroid"], power)
        applied = applied_merges(source, merges, linkage, plain, power)
        labels = np.empty(len(source), np.int64)
        count = int(linkage_kernels.cut(merges, applied, labels))
        for name in ("centroids_", "clustroids_"):
            self.__dict__.pop(name, None)
        if source.rows is None or linkage == "clustroid":
            self.clustroids_ = clustroids(source, labels, plain["clustroid"])
        if source.rows is not None:
            sums = np.zeros((count, source.rows.shape[1]))
            np.add.at(sums, labels, source.rows)
            self.centroids_ = sums / np.bincount(labels)[:, None]
        self.labels_, self.n_clusters_ = labels, count
        self.merges_, self.applied_ = merges, applied


def _linkage(owner: str, plain: dict[str, Any]) -> str:
    """The linkage that "auto" stands for, or "divisive"."""
    linkage, metric = str(plain["linkage"]), plain["metric"]
    if plain["method"] == "divisive":
        if linkage != "auto":
            raise ParameterError.of(
                owner, "linkage", f"must be 'auto' for the divisive method, not {linkage!r}."
            )
        return "divisive"
    if linkage == "auto":
        return "centroid" if metric == "euclidean" else "clustroid"
    if linkage == "centroid" and metric != "euclidean":
        raise ParameterError.of(
            owner,
            "linkage",
            f"must not be 'centroid' for the metric {metric!r}, in which rows have no mean; use "
            "'clustroid'.",
        )
    return linkage
