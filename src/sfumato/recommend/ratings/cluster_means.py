"""Cluster means: what users of the same cluster think of an item, by k-means."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, integer
from sfumato.recommend.base import OPTIONAL_BOUNDS
from sfumato.recommend.ratings.clustered import DAMPING, ClusteredMeans
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["ClusterMeans"]


class ClusterMeans(ClusteredMeans):
    """Mean plus biases plus the mean deviation of the item in the user's cluster.

    Users are clustered by k-means on the directions of their ratings, less the baseline. A cluster
    smooths over its users: the ratings of all count for each, also where nobody similar has rated.

    Parameters
    ----------
    clusters : int, default=8
        Number of clusters, from 1 to 65536; at most the number of users is used.
    damping : float or None, default=None
        Number of ratings of deviation 0 that every item has in every cluster, above 0. None chooses
        it by the error on a tenth of the ratings, in twice the time.
    iterations : int, default=20
        Most steps of k-means, at least 1; fewer where no user changes the cluster.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None means those of the training data.
    random_state : int, default=0
        Seed of the first centroids, from 0 to 2**32 - 1.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    damping_ : float
        Damping of the deviations, given or chosen.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean rating of the training data.
    users_ : Catalogue
        Users with training ratings.

    Notes
    -----
    **Guarantee.** The prediction for user u and item i is ``mean_ + b_u + b_i + s / (n +
    damping_)``, clipped to [`low_`, `high_`]: biases are damped as suits the data, and s is the sum
    of what they leave of the n ratings of i in the cluster of u. The same `random_state` gives
    bitwise the same model. A new user belongs to the cluster with the nearest centroid, by cosine.
    An unknown user, or one without ratings that differ from the baseline, is in no cluster, and an
    unknown item has no bias: the other terms remain.

    This is the smoothing of [1]_ without the search for neighbours after it. Starts are drawn by
    k-means++ [2]_. A step of k-means takes time in proportion to ratings times clusters, and the
    model has 8 bytes per cluster and item. Not private.

    References
    ----------
    .. [1] Xue et al. "Scalable Collaborative Filtering Using Cluster-based Smoothing". SIGIR 2005,
       section 3.2. https://doi.org/10.1145/1076034.1076056
    .. [2] Arthur, Vassilvitskii. "k-means++: The Advantages of Careful Seeding". SODA 2007.
       https://dl.acm.org/doi/10.5555/1283383.1283494

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> who, what = np.divmod(np.arange(48), 8)
    >>> ratings = Interactions(who, what, np.where((who + what) % 2, 1.0, 5.0))
    >>> model = ClusterMeans(clusters=2, damping=1.0).fit(ratings)
    >>> model.predict([0, 1], 4)
    array([4.5, 1.5])
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "clusters": integer(1, 1 << 16),
        "damping": DAMPING,
        "iterations": integer(1),
        "bounds": OPTIONAL_BOUNDS,
        "random_state": integer(0, 2**32 - 1),
    }
    _centroids: np.ndarray  # of length 1, or 0 for a cluster without users

    def __init__(
        self,
        *,
        clusters: int = 8,
        damping: float | None = None,
        iterations: int = 20,
        bounds: tuple[float, float] | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(bounds=bounds)
        self.clusters: int
        self.damping: float | None
        self.iterations: int
        self.clusters, self.damping, self.iterations = clusters, damping, iterations
        self.random_state = random_state

    def _clustered(
        self, rows: RatedRows, residuals: np.ndarray, plain: dict[str, Any]
    ) -> tuple[np.ndarray, int, dict[str, np.ndarray]]:
        unit, used = _unit_rows(rows, residuals)
        count = max(1, min(plain["clusters"], int(used.sum())))
        random = np.random.default_rng(plain["random_state"])
        centroids = _first_centroids(unit, used, count, random)
        clusters = _nearest(unit, centroids)
        for _ in range(plain["iterations"]):
            centroids, before = _centroids_of(unit, clusters, count), clusters
            clusters = _nearest(unit, centroids)
            if (clusters == before).all():
                break
        return np.where(used, clusters, -1), count, {"_centroids": centroids}

    def _cluster_of(self, positions: np.ndarray, residuals: np.ndarray) -> int:
        return int((self._centroids[:, positions] @ residuals).argmax())

    def _learned_layout(self) -> dict[str, Cells]:
        return {**super()._learned_layout(), "_centroids": Cells(np.float32, (-1, -1))}

    def _restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        if arrays["_centroids"].shape != arrays["_deviations"].shape:
            raise ValueError("centroids must have a row per cluster and a column per item.")
        super()._restore_learned(arrays)


def _unit_rows(rows: RatedRows, residuals: np.ndarray) -> tuple[sp.csr_matrix, np.ndarray]:
    """Residuals as sparse rows of length 1, and which rows are not 0."""
    users = len(rows.users)
    lengths = np.sqrt(np.bincount(rows.user_rows, residuals.astype(np.float64) ** 2, users))
    # Rounding leaves residuals where all ratings are equal: they are no direction.
    used = lengths > 1e-5 * float(np.abs(rows.ratings).max())
    scales = np.where(used, 1 / np.where(used, lengths, 1.0), 0.0)
    values = (residuals * scales[rows.user_rows]).astype(np.float32)
    return sp.csr_matrix((values, rows.positions, rows.starts), (users, rows.items)), used


def _first_centroids(
    unit: sp.csr_matrix, used: np.ndarray, count: int, random: np.random.Generator
) -> np.ndarray:
    """Rows drawn by k-means++: with probability in proportion to the squared distance."""
    out, apart = np.zeros((count, unit.shape[1]), np.float32), used.astype(np.float64)
    for at in range(count):
        if apart.sum() <= 0:
            break
        out[at] = unit[random.choice(apart.size, p=apart / apart.sum())].toarray()[0]
        nearer = np.maximum(1 - (unit @ out[at]).astype(np.float64), 0)
        apart = np.minimum(apart, np.where(nearer > 1e-6, nearer, 0)) * used
    return out


def _centroids_of(unit: sp.csr_matrix, clusters: np.ndarray, count: int) -> np.ndarray:
    """The mean direction of each cluster, 0 if it has no users."""
    users = np.arange(clusters.size + 1)
    members = sp.csr_matrix((np.ones(clusters.size, np.float32), clusters, users))
    members.resize(clusters.size, count)
    sums = (members.T @ unit).toarray()
    lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))[:, None]
    return np.asarray(sums / np.where(lengths > 0, lengths, 1), np.float32)


def _nearest(unit: sp.csr_matrix, centroids: np.ndarray) -> np.ndarray:
    """The cluster of each row, by cosine."""
    return np.asarray((unit @ np.ascontiguousarray(centroids.T)).argmax(1))
