"""ClusteredMeans: the base of models that predict by the mean of an item in a cluster of users."""

from typing import Any

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import optional, positive
from sfumato.recommend.bias import at_positions
from sfumato.recommend.ratings.base import RatingModel
from sfumato.recommend.ratings.baseline import Baseline
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["DAMPING", "ClusteredMeans"]

DAMPING = optional(positive)
DAMPINGS = 5.0 * 2.0 ** np.arange(14)  # to choose from; the last ones leave no deviations
USUAL = 40.0  # damping where the ratings are too few to choose by
HELD_OUT, SEED = 0.1, 21  # fraction of the ratings that a damping is chosen by, and their draw


class ClusteredMeans(RatingModel, in_files=False):
    """Base of models whose prediction is ``mean + b_u + b_i + deviation of i in u's cluster``.

    A deviation is the mean residual of the baseline over the cluster's ratings of the item, and
    `damping` ratings of residual 0; None chooses it by the error on a tenth of the ratings, which
    the clusters must not depend on: they fit the ratings that they were made from. A subclass
    assigns users to clusters in `_clustered` and a new user in `_cluster_of`; cluster -1 is none,
    of deviation 0.
    """

    damping_: float
    _users: np.ndarray  # biases, as those of the items
    _items: np.ndarray
    _clusters: np.ndarray  # cluster of each user
    _deviations: np.ndarray  # of clusters and items
    _user_damping: float

    def _clustered(
        self, rows: RatedRows, residuals: np.ndarray, plain: dict[str, Any]
    ) -> tuple[np.ndarray, int, dict[str, np.ndarray]]:
        """Return the cluster of each user, their number, and arrays that `_cluster_of` needs."""
        raise NotImplementedError

    def _cluster_of(self, positions: np.ndarray, residuals: np.ndarray) -> int:
        """Return the cluster of a new user with these residuals, at least one."""
        raise NotImplementedError

    def _learn(self, rows: RatedRows, plain: dict[str, Any]) -> None:
        damping = plain["damping"] or self._chosen_damping(rows, plain)
        base = Baseline.of(rows)
        residuals = base.residuals(rows)
        clusters, count, learned = self._clustered(rows, residuals, plain)
        sums, counts = _totals(rows, residuals, clusters, count)
        deviations = (sums / (counts + damping)).astype(np.float32).reshape(count, rows.items)
        self.damping_ = damping
        self._users, self._items, self._user_damping = base.users, base.items, base.user_damping
        self._clusters, self._deviations = clusters.astype(np.int32), deviations
        for name, array in learned.items():
            setattr(self, name, array)

    def _chosen_damping(self, rows: RatedRows, plain: dict[str, Any]) -> float:
        """Return a damping by the error on ratings that are held out."""
        held = np.random.default_rng(SEED).random(len(rows)) < HELD_OUT
        if not held.any() or held.all():
            return USUAL
        part = rows.filtered(~held)
        base = Baseline.of(part)
        residuals = base.residuals(part)
        clusters, count, _ = self._clustered(part, residuals, plain)
        sums, counts = _totals(part, residuals, clusters, count)
        test = rows.filtered(held)
        cells, inside = _cells(test, clusters)
        sums, counts, over = sums[cells], counts[cells], base.residuals(test)[inside]
        return _largest_good(over, sums, counts) if inside.any() else USUAL

    def _predicted(
        self, rows: np.ndarray, columns: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        return np.asarray(self.mean_ + sum(self._terms(rows, columns)))

    def _terms(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """Biases of users and of items, and deviations of clusters, of pairs."""
        clusters = np.where(rows >= 0, self._clusters[rows], -1)
        known = (clusters >= 0) & (columns >= 0)
        deviations = np.where(known, self._deviations[clusters, columns], 0.0)
        users, items = at_positions(self._users, rows), at_positions(self._items, columns)
        return users, items, deviations

    def _table(self, rows: np.ndarray) -> np.ndarray:
        clusters = np.where(rows >= 0, self._clusters[rows], -1)
        deviations = self._deviations[clusters].astype(np.float64)
        deviations[clusters < 0] = 0
        users = at_positions(self._users, rows)[:, None]
        return np.asarray(self.mean_ + (users + self._items + deviations))

    def _folded_in(self, positions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
        scores: np.ndarray = self.mean_ + self._items
        if not positions.size:
            return scores
        over = ratings - scores[positions]
        bias = over.sum() / (over.size + self._user_damping)
        cluster = self._cluster_of(positions, over - bias)
        return np.asarray(scores + bias + (self._deviations[cluster] if cluster >= 0 else 0.0))

    def _explained(self, row: int, column: int, n: int) -> dict[str, Any]:
        terms = self._terms(np.array([row]), np.array([column]))
        names = ("user", "item", "cluster")
        plain = {name: float(each[0]) for name, each in zip(names, terms, strict=True)}
        return {"mean": self.mean_, **plain, "score": self.mean_ + sum(plain.values())}

    def _learned_layout(self) -> dict[str, Cells]:
        return {
            "_users": Cells(np.float64, (-1,)),
            "_items": Cells(np.float64, (-1,)),
            "_clusters": Cells(np.int32, (-1,)),
            "_deviations": Cells(np.float32, (-1, -1)),
        }

    def _restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        users, items = len(self.users_), len(self.catalogue_)
        clusters, deviations = arrays["_clusters"], arrays["_deviations"]
        sound = (
            arrays["_users"].shape == (users,) == clusters.shape
            and arrays["_items"].shape == (items,)
            and deviations.shape[1] == items
            and (clusters >= -1).all()
            and (clusters < len(deviations)).all()
            and len(deviations)
            and all(np.isfinite(each).all() for each in arrays.values())
        )
        if not sound:
            raise ValueError("deviations must be finite, one per cluster and item.")
        super()._restore_learned(arrays)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "user_damping": self._user_damping, "damping_": self.damping_}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._user_damping = positive.check("state", "user_damping", state["user_damping"])
        self.damping_ = positive.check("state", "damping_", state["damping_"])


def _largest_good(over: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> float:
    """Return the largest damping whose error is within one standard error of the least one."""

    def squares(damping: float) -> np.ndarray:
        return np.asarray((over - sums / (counts + damping)) ** 2)

    least = squares(min(DAMPINGS, key=lambda each: float(squares(each).sum())))
    for damping in DAMPINGS[::-1]:
        more = squares(damping) - least
        if more.mean() <= more.std() / np.sqrt(over.size):
            break
    return float(damping)


def _cells(rows: RatedRows, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cluster and item of each rating as one number, and which ratings have a cluster."""
    own = clusters[rows.user_rows]
    inside = own >= 0
    return own[inside].astype(np.int64) * rows.items + rows.positions[inside], inside


def _totals(
    rows: RatedRows, residuals: np.ndarray, clusters: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sums and numbers of the residuals of each cluster and item."""
    cells, inside = _cells(rows, clusters)
    size = count * rows.items
    return np.bincount(cells, residuals[inside], size), np.bincount(cells, minlength=size)
