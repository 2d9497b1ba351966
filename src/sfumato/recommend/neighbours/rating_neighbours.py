"""RatingNeighbours: ratings foretold from similar items of a user, or from similar users."""

from typing import Any, ClassVar

import numpy as np

from sfumato.core.ids import is_one
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, between, integer, one_of, optional
from sfumato.recommend.implicit.item_weights import SparseWeights
from sfumato.recommend.neighbours.rating_neighbourhood import RatingNeighbourhood
from sfumato.recommend.neighbours.similarity import METRICS
from sfumato.recommend.ranking import fitting, listing
from sfumato.recommend.ratings.base import COUNT, RatingModel
from sfumato.recommend.ratings.baseline import Baseline
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["RatingNeighbours"]

FINITE = between(0, np.inf)


class RatingNeighbours(RatingModel):
    """Nearest-neighbour model of ratings, item-based or user-based.

    Parameters
    ----------
    by : {"items", "users"}, default="items"
        What is compared: items, so that a user's own ratings of similar items count, or users, so
        that similar users' ratings of the item count.
    metric : {"residual", "centred", "cosine", "jaccard", "pearson"}, default="residual"
        Similarity of two rows of ratings; see Notes.
    neighbours : int, default=30
        Largest number of neighbours of a prediction, at least 1.
    prediction : {"baseline", "average"}, default="baseline"
        Weighted mean of the neighbours' residuals, added to the baseline of the pair, or weighted
        mean of their ratings.
    shrinkage : float, default=20.0
        A similarity that rests on n common ratings is multiplied by ``n / (n + shrinkage)``.
    significance : int, default=1
        It is also multiplied by ``min(n, significance) / significance``; 1 changes nothing.
    min_overlap : int, default=1
        Smallest number of common ratings of two neighbours, at least 1.
    exponent : float, default=1.5
        The weight of a neighbour is this power of the similarity, at least 0; 0 is the plain mean.
    damping : float, default=0.03
        Weight of the baseline beside those of the neighbours, at least 0.
    slope : float or None, default=None
        Factor of what neighbours add to the baseline, at least 0. None estimates it, from 0 to
        1, on ratings that are held out for the purpose: neighbours that foretell nothing do no
        harm.
    stored : int or None, default=None
        Number of most similar rows that are stored for each; None for 20 times `neighbours`.
        Neighbours of a prediction are chosen among these.
    search : {"exact", "lsh"}, default="exact"
        Whether all rows are compared, or only those that share a bucket of random hash tables.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None means those of the training data.
    random_state : int, default=0
        Seed of the hash tables of "lsh".

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    slope_ : float
        The factor of what neighbours add, given or estimated.
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
    **Guarantee.** With neighbours j of weights ``w_j = s_j ** exponent``, "average" predicts
    ``b + slope * sum w_j (r_j - b) / (damping + sum w_j)``, which for slope 1 and damping 0 is the
    weighted mean, and "baseline" ``b + slope * sum w_j (r_j - b_j) / (damping + sum w_j)``. Here b
    is the baseline of a pair: the mean plus damped biases of user and item (dampings as estimated
    from the data). The neighbours are
    the `neighbours` most similar ones, of similarity above 0, among the items that the user rated,
    or the users who rated the item. Without neighbours the prediction is b; an unknown user or item
    has bias 0. All similarities are exact, in "lsh" those of the pairs that it finds.

    For rows x and y of ratings of two items (or users), "jaccard" is the fraction of the columns of
    either that are in both, "cosine" that of x and y where a missing rating is 0, "centred" the
    cosine after each row's mean is subtracted and missing ratings stay 0, "residual" the cosine
    after the baseline is subtracted, and "pearson" the correlation over the common columns alone.

    Not private: the model stores all ratings. Time is proportional to the sum over users (items, if
    by users) of the squared number of their ratings; memory to the number of ratings and
    `stored` times the number of items (users). "lsh" finds similar rows only; where similarities
    are low, as between most users, it misses most of the neighbours.

    References
    ----------
    .. [1] Sarwar, Karypis, Konstan, Riedl. "Item-Based Collaborative Filtering Recommendation
       Algorithms". WWW 2001. https://doi.org/10.1145/371920.372071
    .. [2] Koren. "Factor in the Neighbors: Scalable and Accurate Collaborative Filtering". ACM TKDD
       2010 (baseline and shrinkage). https://doi.org/10.1145/1644873.1644874
    .. [3] Herlocker, Konstan, Borchers, Riedl. "An Algorithmic Framework for Performing
       Collaborative Filtering". SIGIR 1999 (significance weighting).
       https://doi.org/10.1145/312624.312682
    .. [4] Breese, Heckerman, Kadie. "Empirical Analysis of Predictive Algorithms for Collaborative
       Filtering". UAI 1998 (powers of similarities). https://arxiv.org/abs/1301.7363

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> world = generate_world(users=60, items=40, ratings=900, random_state=1)
    >>> model = RatingNeighbours().fit(world.interactions)
    >>> user, item = world.interactions.users[0], world.interactions.items[0]
    >>> bool(model.low_ <= model.predict(user, item)[0] <= model.high_)
    True
    >>> len(model.similar_items(item, n=3)[0])
    3
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "by": one_of(("items", "users")),
        "metric": one_of(METRICS),
        "neighbours": integer(1, 1 << 20),
        "prediction": one_of(("baseline", "average")),
        "shrinkage": FINITE,
        "significance": integer(1, 1 << 20),
        "min_overlap": integer(1, 1 << 20),
        "exponent": FINITE,
        "damping": FINITE,
        "slope": optional(FINITE),
        "stored": optional(integer(1, 1 << 20)),
        "search": one_of(("exact", "lsh")),
        **RatingModel.LIMITS,
        "random_state": integer(0, 2**32 - 1),
    }

    def __init__(
        self,
        *,
        by: str = "items",
        metric: str = "residual",
        neighbours: int = 30,
        prediction: str = "baseline",
        shrinkage: float = 20.0,
        significance: int = 1,
        min_overlap: int = 1,
        exponent: float = 1.5,
        damping: float = 0.03,
        slope: float | None = None,
        stored: int | None = None,
        search: str = "exact",
        bounds: tuple[float, float] | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(bounds=bounds)
        self.by: str
        self.metric: str
        self.neighbours: int
        self.prediction: str
        self.by, self.metric, self.neighbours, self.prediction = by, metric, neighbours, prediction
        self.shrinkage: float
        self.significance: int
        self.min_overlap: int
        self.shrinkage, self.significance, self.min_overlap = shrinkage, significance, min_overlap
        self.exponent: float
        self.damping: float
        self.slope: float | None
        self.exponent, self.damping, self.slope = exponent, damping, slope
        self.stored: int | None
        self.search: str
        self.random_state: int
        self.stored, self.search, self.random_state = stored, search, random_state

    @property
    def slope_(self) -> float:
        """Factor of what neighbours add to the baseline, given or estimated."""
        self._check_fitted()
        return self._near.slope

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """List the items most similar to each item; only for models by items.

        Parameters
        ----------
        items : array_like or scalar
            Item ids; an item outside of the catalogue has no similar ones.
        n : int, default=10
            Number of items, at least 1; at most `stored` are found.

        Returns
        -------
        items : ndarray of shape (n_items, n)
            Item ids, most similar first; -1 or None as padding. Of shape (k,) for a single id.
        similarities : ndarray of shape (n_items, n)
            Their similarities, above 0; -inf as padding.
        """
        return self._similar("items", items, n)

    def similar_users(self, users: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """List the users most similar to each user; only for models by users.

        Parameters
        ----------
        users : array_like or scalar
            User ids; an unknown user has no similar ones.
        n : int, default=10
            Number of users, at least 1; at most `stored` are found.

        Returns
        -------
        users : ndarray of shape (n_users, n)
            User ids, most similar first; -1 or None as padding. Of shape (k,) for a single id.
        similarities : ndarray of shape (n_users, n)
            Their similarities, above 0; -inf as padding.
        """
        return self._similar("users", users, n)

    def predict_fold_in(self, items: Ids, ratings: Any, wanted: Ids) -> np.ndarray:
        """Predict ratings of a new user with these ratings; nothing about the user is stored.

        Parameters
        ----------
        items : array_like or scalar
            Item ids that the new user rated; unknown ids are ignored.
        ratings : array_like of shape (n_items,) or None
            Ratings of these items, clipped to the bounds; None: all have the highest rating.
        wanted : array_like or scalar
            Item ids to predict.

        Returns
        -------
        ndarray of shape (n_wanted,)
            Predicted ratings, float64, clipped to [`low_`, `high_`].
        """
        self._check_fitted()
        owner = type(self).__name__
        what = fitting(owner, "items", items, self.catalogue_.kind)
        own = self._rated_positions(what, ratings)
        scores, bias = self._folded_in(*own), self._near.baseline.user_bias(*own)
        columns = self.catalogue_.positions(fitting(owner, "wanted", wanted, self.catalogue_.kind))
        known = np.where(columns >= 0, scores[columns], self.mean_ + bias)
        return np.asarray(np.clip(known, self.low_, self.high_))

    def _similar(self, by: str, ids: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
        self._check_fitted()
        owner, listed = type(self).__name__, self.catalogue_ if by == "items" else self.users_
        if self._near.by != by:
            raise ValueError(
                f"{owner}: similar_{by} needs a model by {by}; fit RatingNeighbours(by={by!r})."
            )
        n = min(COUNT.check(owner, "n", n), len(listed))
        at = listed.positions(fitting(owner, by, ids, listed.kind))
        found, near = np.full((at.size, n), -1, np.int64), np.full((at.size, n), -np.inf)
        for q, row in enumerate(at):
            if row >= 0:
                rows, similar = self._near.listed(row)
                found[q, : rows.size], near[q, : rows.size] = rows[:n], similar[:n]
        return listing(listed, found, near, is_one(ids))

    def _learn(self, rows: RatedRows, plain: dict[str, Any]) -> bool:
        self._near = RatingNeighbourhood.learned(rows, self._settings(plain))
        return True

    @staticmethod
    def _settings(plain: dict[str, Any]) -> dict[str, Any]:
        """Parameters that a neighbourhood is learned with."""
        return {name: plain[name] for name in RatingNeighbours.LIMITS if name != "bounds"}

    def _predicted(
        self, rows: np.ndarray, columns: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        return self._near.at(rows, columns)

    def _table(self, rows: np.ndarray) -> np.ndarray:
        return super()._table(rows) if self._near.by == "items" else self._near.table(rows)

    def _folded_in(self, positions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
        return self._near.folded_in(positions, ratings)

    def _explained(self, row: int, column: int, n: int) -> dict[str, Any]:
        ids = self.catalogue_ if self._near.by == "items" else self.users_
        name, (terms, parts) = self._near.by[:-1], self._parts(row, column)
        parts.sort(key=lambda part: -abs(part[-1]))
        rest = sum(part[-1] for part in parts[n:])
        listed = [
            {name: ids.ids[at : at + 1].tolist()[0], "similarity": similar, "part": part}
            for at, similar, part in parts[:n]
        ]
        score = sum(terms.values()) + sum(part[-1] for part in parts[:n]) + rest
        return {**terms, "neighbours": listed, "rest": rest, "score": score}

    def _parts(
        self, row: int, column: int
    ) -> tuple[dict[str, float], list[tuple[int, float, float]]]:
        """Return terms of the baseline, and row, similarity and contribution of neighbours."""
        return self._near.parts(row, column)

    def _learned_layout(self) -> dict[str, Cells]:
        biases = {name: Cells(np.float64, (-1,)) for name in ("user_biases", "item_biases")}
        return {**RatedRows.layout(), **biases, **SparseWeights.layout()}

    def _learned_arrays(self) -> dict[str, np.ndarray]:
        biases = {
            "user_biases": self._near.baseline.users,
            "item_biases": self._near.baseline.items,
        }
        return {**self._near.rated.arrays(), **biases, **self._near.lists.arrays()}

    def _restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        items = len(self.catalogue_)
        rated = RatedRows.from_arrays(self.users_, arrays, items)
        users, columns = arrays["user_biases"], arrays["item_biases"]
        if users.shape != (len(self.users_),) or columns.shape != (items,):
            raise ValueError("biases must be one for each user and item.")
        compared = items if self._fitted["by"] == "items" else len(self.users_)
        lists = SparseWeights.from_arrays(arrays, compared)
        if not (lists.values > 0).all():
            raise ValueError("similarities must be above 0.")
        baseline = Baseline(self.mean_, users, columns, self._damped)
        self._near = RatingNeighbourhood(rated, baseline, lists, self._fitted, self._slope)
        del self._damped, self._fitted, self._slope

    def _state(self) -> dict[str, Any]:
        near = self._near
        learned = {"user_damping": near.baseline.user_damping, "slope": near.slope}
        return {**super()._state(), **learned, "fitted": near.settings}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._damped = float(FINITE.check("state", "user_damping", state["user_damping"]))
        self._slope = float(FINITE.check("state", "slope", state["slope"]))
        fitted = state["fitted"]
        self._fitted = {
            name: limit.check("state", name, fitted[name])
            for name, limit in RatingNeighbours.LIMITS.items()
            if name != "bounds"
        }
