"""Factorization: the base of models that predict and rank by vectors of users and items."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.core.deprecation import keyword_only, renamed_method
from sfumato.core.ids import distinct, is_one, kind_of
from sfumato.core.typing import Ids
from sfumato.core.validation import integer, one_of, optional, positive
from sfumato.data.interactions import Interactions
from sfumato.kernels.recommend import sgd_dense as pairs
from sfumato.recommend.base import BOUNDS, OPTIONAL_BOUNDS, Estimator, NotFittedError
from sfumato.recommend.factorization.vector_cache import VectorCache, directions
from sfumato.recommend.ranking import (
    CatalogueVectors,
    ExcludedItems,
    Ranking,
    beside,
    check_filter,
    excluded_by,
    given_ratings,
    id_column,
    listed,
)

if TYPE_CHECKING:
    from sfumato.recommend.item_index import ItemIndex

__all__ = [
    "BOUNDS",
    "OPTIONAL_BOUNDS",
    "Factorization",
    "NotFittedError",
    "directions",
    "fold_in",
    "nearest",
    "parts",
]

RIDGE = optional(positive)


def nearest(model: "Factorization", items: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return catalogue positions and cosines of the n other items nearest to each item."""
    queries = directions(model._in_blocks(model._item_vectors, items))
    itself = model.catalogue_.positions(items)
    rows = np.where(itself >= 0, np.arange(items.size), -1)
    excluded = ExcludedItems(np.arange(items.size + 1), np.maximum(itself, 0), rows)
    return model._vectors_for("cosines").best(queries, n, excluded=excluded)


def parts(model: "Factorization", user: Any, item: Any, n: int) -> dict[str, Any]:
    """Return the terms of one prediction as plain values that add up to its score."""
    who, what = model._pairs(user, item)
    if who.size != 1:
        raise ValueError(f"{type(model).__name__}: explain takes one user and one item.")
    p, q = model._user_vectors(who)[0], model._item_vectors(what)[0]
    products = p[:-1].astype(np.float64) * q[:-1]
    strongest = np.argsort(-np.abs(products), kind="stable")[:n]
    biases = float(p[-1]), float(q[-1])
    score = model.mean_ + sum(biases) + float(products.sum())
    ids, cosines = model.similar_items(what[0], n)
    return {
        "mean": model.mean_,
        "user_bias": biases[0],
        "item_bias": biases[1],
        "components": [
            {
                "component": at,
                "user": float(p[at]),
                "item": float(q[at]),
                "part": float(products[at]),
            }
            for at in strongest.tolist()
        ],
        "rest": float(np.delete(products, strongest).sum()),
        "score": score,
        "prediction": float(model._clipped(np.array(score))),
        "similar": list(zip(ids.tolist(), cosines.tolist(), strict=True)),
    }


def fold_in(
    model: "Factorization",
    items: np.ndarray,
    ratings: Any,
    ridge: float | None,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Return components and, last, bias of a new user with these ratings, by ridge regression.

    The penalty is of the distance from the components `start`, 0 if None.
    """
    ridge = RIDGE.check(type(model).__name__, "ridge", ridge) or model.high_ - model.low_ or 1.0
    vectors = model._in_blocks(model._item_vectors, items).astype(np.float64)
    targets = _above_bias(model, vectors[:, -1], ratings)
    vectors[:, -1] = ratings is not None  # the column of the new user's bias
    origin = np.zeros(vectors.shape[1])
    if start is not None:
        origin[:-1] = start
        targets = targets - vectors @ origin
    square = vectors.T @ vectors + ridge * np.eye(vectors.shape[1])
    return (origin + np.linalg.solve(square, vectors.T @ targets)).astype(np.float32)


def _above_bias(model: "Factorization", biases: np.ndarray, ratings: Any) -> np.ndarray:
    """Return each rating minus the prediction from the mean and the item's bias."""
    if ratings is None:
        return np.full(biases.size, model.high_ - model.mean_)
    bounds = model.low_, model.high_
    given = given_ratings(type(model).__name__, ratings, biases.size, bounds)
    return np.asarray(given - model.mean_ - biases)


ROWS = 1 << 18  # vectors read at a time
PAIRS = 1 << 18  # predictions at a time: at most 64 MiB of vectors of 32 factors
LANES = 16
ONE_ROW = np.zeros(1, np.int64)
LAST = 2**63  # ids are below
COUNT = integer(1)
CACHES = ("_catalogue_vectors", "_checked_parameters")  # no part of files, copies or pickles
USER_KIND = one_of(("", "integers", "text"))


class Factorization(Estimator, in_files=False):
    """Abstract base of models that predict from one vector per user and per item.

    A subclass implements `_user_vectors` and `_item_vectors` beside what `Estimator` requires, and
    calls `_changed` after every change of its fitted state. Several threads may query one model.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean rating of the training data.
    user_kind_ : str
        Type of user ids, "integers" or "text"; "" if unknown.

    Notes
    -----
    **Guarantee.** The prediction for user vector p and item vector q is `mean_ + sum(p[:-1] *
    q[:-1]) + p[-1] + q[-1]`, clipped to [`low_`, `high_`]: a vector has `factors` numbers, its
    components and, last, its bias. An unknown user gets an answer like any other, and the model
    stores no list of the items that a user has rated.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import DenseFactorization
    >>> ratings = Interactions(users=[1, 1, 2, 2], items=[10, 20, 10, 30], ratings=[5, 1, 4, 2])
    >>> model = DenseFactorization(factors=4).fit(ratings)
    >>> model.recommend(1, n=2, exclude=ratings)[0]
    array([30])
    >>> [part for part in model.explain(1, 10) if part != "components"]
    ['mean', 'user_bias', 'item_bias', 'rest', 'score', 'prediction', 'similar']
    """

    user_kind_: str = ""  # "integers" or "text"; "" where it is not known

    def predict(self, users: Ids, items: Ids) -> np.ndarray:
        """Predict the rating of each user for the corresponding item.

        Parameters
        ----------
        users : array_like or scalar
            User ids. A single id is paired with every item.
        items : array_like or scalar
            Item ids, as many as users. A single id is paired with every user.

        Returns
        -------
        ndarray of shape (n,)
            Predicted ratings, float64, clipped to [`low_`, `high_`]. Scores as they are, if
            `predicts_ratings` is False.
        """
        self._check_fitted()
        score = self._pair_score(users, items)
        if score is not None:
            return np.array([self._clipped_number(score)])
        who, what = self._pairs(users, items)
        out = np.empty(who.size)
        for start in range(0, who.size, PAIRS):
            rows = slice(start, start + PAIRS)
            out[rows] = self._uncut(who[rows], what[rows])
        return self._clipped(out)

    def recommend(
        self, users: Ids, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend the n items with the highest scores to each user.

        A score is the prediction before it is clipped to the bounds, since clipping would tie the
        best items. Ties are in the catalogue's order.

        Parameters
        ----------
        users : array_like or scalar
            User ids, or a single id.
        n : int, default=10
            Number of items per user, at least 1.
        exclude : Interactions or None, default=None
            Interactions whose items are not recommended to the same user again, usually the
            training data. They are not stored.
        filter : array_like of bool or None, default=None
            Mask over `catalogue_`; only items with True are recommended.

        Returns
        -------
        tuple of ndarray
            Item ids and scores, best first, both of shape (n_users, n). Where fewer than n items
            remain, the score is -inf and the item -1 (integer ids) or None (text ids). For a single
            user id, both are of shape (m,) with m <= n.
        """
        self._check_fitted()
        return self._recommended(users, n, exclude, filter)

    def index(self, kind: str = "codes", **options: Any) -> "ItemIndex":
        """Build an index that recommends without scoring every item.

        Parameters
        ----------
        kind : {"codes", "bands"}, default="codes"
            How candidates are found; see `ItemIndex`.
        **options : object
            Further parameters of `ItemIndex`.

        Returns
        -------
        ItemIndex
            An index of the model in its present state.
        """
        self._check_fitted()
        from sfumato.recommend.item_index import ItemIndex  # and with it retrieve and sketch

        return ItemIndex(self, kind, **options)

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Find the n items of the catalogue most similar to each item.

        The similarity is the cosine of the components without the biases, so that popularity has no
        influence. An item is not similar to itself.

        Parameters
        ----------
        items : array_like or scalar
            Item ids, or a single id; they need not be in the catalogue.
        n : int, default=10
            Number of items to return per item, at least 1.

        Returns
        -------
        tuple of ndarray
            Item ids and cosines, most similar first, in the shapes of `recommend`.
        """
        self._check_fitted()
        n = COUNT.check(type(self).__name__, "n", n)
        what = self._item_ids(items)
        found, cosines = nearest(self, what, min(n, len(self.catalogue_)))
        return self._answer(found, cosines, n, is_one(items))

    def explain(self, user: Ids, item: Ids, n: int = 5) -> dict[str, Any]:
        """Split one prediction into terms that add up to its score.

        Parameters
        ----------
        user : array_like or scalar
            One user id.
        item : array_like or scalar
            One item id.
        n : int, default=5
            Number of components and of similar items to list, at least 1.

        Returns
        -------
        dict
            Plain values: "mean", "user_bias", "item_bias", "components" (the n components with the
            largest contributions, each with "component", "user", "item" and its contribution
            "part"), "rest" (the contribution of all other components), "score" (the sum of all
            these terms), "prediction" (the score clipped to the bounds) and "similar" (pairs of id
            and cosine of the n most similar items).
        """
        self._check_fitted()
        n = COUNT.check(type(self).__name__, "n", n)
        return parts(self, user, item, n)

    @keyword_only("n")
    def recommend_fold_in(
        self,
        items: Any,
        ratings: Any = None,
        *,
        n: int = 10,
        filter: Any = None,
        ridge: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend items to a new user, given some of the user's items.

        The model does not change and stores nothing of the new user (fold-in of a cold-start user).

        Parameters
        ----------
        items : array_like or scalar
            Ids of the user's items; they are not recommended again.
        ratings : array_like of shape (n_items,) or None, default=None
            Ratings of these items, clipped to the bounds. If None, every item counts as liked: its
            rating is `high_ - mean_` above the prediction from its bias, and the user's bias is 0.
        n : int, default=10
            Number of items to recommend, at least 1.
        filter : array_like of bool or None, default=None
            Mask over `catalogue_`; only items with True are recommended.
        ridge : float or None, default=None
            Ridge penalty, above 0. None means `high_ - low_`: the ratio of the variance of a rating
            to that of a component grows like the scale of the ratings.

        Returns
        -------
        tuple of ndarray
            Item ids and scores of shape (m,), m <= n, best first.

        Notes
        -----
        The user's components p and bias g minimise the sum over the given items of `(rating - mean_
        - item bias - p.q - g)**2`, plus `ridge * (p.p + g**2)`. A model that ranks maximises the
        mean of the items' log-probabilities less `ridge * p.p / 2`, without ratings, and None means
        twice its `regularization`.
        """
        self._check_fitted()
        n = COUNT.check(type(self).__name__, "n", n)
        what = self._item_ids(items)
        allowed = check_filter(type(self).__name__, filter, self.catalogue_)
        vector = self._folded_in(what, ratings, ridge)
        return self._ranked(vector[None], n, allowed, listed(what, self.catalogue_), True)

    recommend_guest: Callable[..., Any] = renamed_method("recommend_guest", "recommend_fold_in")

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        """Return float32 (len(ids), factors): components and, last, the bias of each user."""
        raise NotImplementedError

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        """Return float32 (len(ids), factors): components and, last, the bias of each item."""
        raise NotImplementedError

    def _folded_in(self, items: np.ndarray, ratings: Any, ridge: float | None) -> np.ndarray:
        """Return the vector of a new user with these items."""
        return fold_in(self, items, ratings, ridge)

    def _pair_score(self, users: Any, items: Any) -> float | None:
        """Return the score of one user and one item, bitwise that of `_uncut`; None for others."""
        return None

    def _one_pair(self, users: Any, items: Any) -> tuple[int, int] | None:
        """Return a single user and item, scalars or lists of one, if both are plain integers."""
        if type(users) is list and len(users) == 1 and type(items) is list and len(items) == 1:
            users, items = users[0], items[0]
        if type(users) is not int or type(items) is not int or self.user_kind_ == "text":
            return None
        if self.catalogue_.ids.dtype != np.int64 or not -LAST <= users < LAST > items >= -LAST:
            return None
        return users, items

    def _clipped_number(self, score: float) -> float:
        """Return what `_clipped` does, of one score."""
        return min(max(score, self.low_), self.high_) if self.predicts_ratings else score

    def _clipped(self, scores: np.ndarray) -> np.ndarray:
        """Return predictions of ratings within the bounds, and other scores as they are."""
        return np.clip(scores, self.low_, self.high_) if self.predicts_ratings else scores

    def _check_enough(self, train: Interactions, hint: str = "") -> None:
        """Raise ValueError unless there are at least two users and two items."""
        for name, ids in (("user", train.users), ("item", train.items)):
            if (ids == ids[0]).all():
                raise ValueError(
                    f"{type(self).__name__}: train has one {name} only; at least two users and two "
                    f"items are needed.{hint}"
                )

    def _adopt(self, fresh: Self, complete: bool = True) -> Self:
        """Take over the fitted state of a copy; raise KeyboardInterrupt unless it is complete."""
        self.__dict__.update(fresh.__dict__)
        self._changed()
        if not complete:
            raise KeyboardInterrupt
        return self

    def _changed(self) -> None:
        """Drop the cached catalogue vectors; to be called after each change of the fitted state."""
        self.__dict__.pop("_catalogue_vectors", None)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in CACHES}

    def _twin(self) -> Self:
        """Return a model with the same attributes, arrays included, to be changed aside."""
        twin = object.__new__(type(self))
        own = twin.__dict__
        own.update(self.__dict__)
        for name in CACHES:
            own.pop(name, None)
        return twin

    @property
    def _vector_cache(self) -> VectorCache:
        """The vectors of the fitted state; a new object whenever the state changes."""
        cache = self.__dict__.get("_catalogue_vectors")
        if cache is None:
            cache = self.__dict__.setdefault("_catalogue_vectors", VectorCache())
        found: VectorCache = cache
        return found

    def _vectors_for(self, kind: str) -> CatalogueVectors:
        """Return the catalogue's vectors for "scores" or "cosines", cached per fitted state."""
        return self._vector_cache.get(self, kind)

    def _scored_vectors(self, ids: np.ndarray) -> np.ndarray:
        """Return item vectors whose products, plus `_common_score`, are scores; for rankings."""
        return self._item_vectors(ids)

    @property
    def _common_score(self) -> float:
        """What scores have beside the products with `_scored_vectors` and the user's bias."""
        return self.mean_

    def _changed_positions(self, changes: list[np.ndarray], cache: VectorCache) -> np.ndarray:
        """Return the positions in the catalogue that these changes concern."""
        raise NotImplementedError

    def _in_blocks(self, read: Any, ids: np.ndarray) -> np.ndarray:
        """Return the vectors of many ids as a new, writeable array."""
        if ids.size <= ROWS:
            return np.asarray(read(ids))
        starts = range(0, ids.size, ROWS)
        return np.concatenate([read(ids[start : start + ROWS]) for start in starts])

    def _user_ids(self, users: Any) -> np.ndarray:
        """Return users as a column of ids; raise TypeError if their kind differs from training."""
        who = id_column(users, "users")
        if who.size and self.user_kind_ not in ("", kind_of(who)):
            raise TypeError(
                f"{type(self).__name__}: users are {kind_of(who)}, but the model learned from "
                f"{self.user_kind_}."
            )
        return who

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "user_kind_": self.user_kind_}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.user_kind_ = USER_KIND.check("state", "user_kind_", state["user_kind_"])

    def _item_ids(self, items: Any) -> np.ndarray:
        """Return items as a column of ids; raise TypeError if their kind is not the catalogue's."""
        what = id_column(items, "items")
        if what.size and kind_of(what) != self.catalogue_.kind:
            raise TypeError(
                f"{type(self).__name__}: items are {kind_of(what)}, but the catalogue holds "
                f"{self.catalogue_.kind}."
            )
        return what

    def _pairs(self, users: Any, items: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return columns of user and item ids of equal length."""
        who, what = self._user_ids(users), self._item_ids(items)
        return beside(type(self).__name__, users, items, who, what)

    def _uncut(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return predictions before clipping; the vectors of each distinct id are read once."""
        one = users.size == 1
        (who, user_rows), (what, item_rows) = (
            (ids, ONE_ROW) if one else distinct(ids) for ids in (users, items)
        )
        p, user_biases = _apart(self._in_blocks(self._user_vectors, who))
        q, item_biases = _apart(self._in_blocks(self._item_vectors, what))
        both = np.empty(users.size)
        pairs.products(p, q, user_rows, item_rows, both)
        both += self.mean_ + user_biases[user_rows] + item_biases[item_rows]
        return both

    def _recommended(
        self,
        users: Any,
        n: int,
        exclude: Interactions | None,
        filter: Any,
        ranking: Ranking | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the result of `recommend`, from the full catalogue or from `ranking`."""
        n = COUNT.check(type(self).__name__, "n", n)
        who = self._user_ids(users)
        allowed = check_filter(type(self).__name__, filter, self.catalogue_)
        excluded = excluded_by(type(self).__name__, who, exclude, self.catalogue_)
        vectors = self._in_blocks(self._user_vectors, who)
        return self._ranked(vectors, n, allowed, excluded, is_one(users), ranking)

    def _ranked(
        self,
        vectors: np.ndarray,
        n: int,
        allowed: np.ndarray | None,
        excluded: ExcludedItems | None,
        one: bool,
        ranking: Ranking | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the n best items for each row of user vectors, which are overwritten."""
        offsets = self._common_score + vectors[:, -1:].astype(np.float64)
        vectors[:, -1] = 1  # beside the items' biases
        width = min(n, len(self.catalogue_))
        ranking = self._vectors_for("scores") if ranking is None else ranking
        found, scores = ranking.best(vectors, width, allowed, excluded)
        return self._answer(found, scores + offsets, n, one)

    def _answer(
        self, found: np.ndarray, scores: np.ndarray, n: int, one: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and scores: for a single query the items found, else padded to n columns."""
        if one:
            there = found[0] if found[0, -1] >= 0 else found[0][found[0] >= 0]
            return self.catalogue_.ids[there], scores[0, : there.size].astype(np.float64)
        if n == found.shape[1]:
            return self.catalogue_.take(found), scores.astype(np.float64)
        missing = ((0, 0), (0, n - found.shape[1]))
        found = np.pad(found, missing, constant_values=-1)
        scores = np.pad(scores.astype(np.float64), missing, constant_values=-np.inf)
        return self.catalogue_.take(found), scores


def _apart(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return components, zero-padded to a multiple of LANES, and biases in float64."""
    count, factors = vectors.shape
    components = np.zeros((count, -(-factors // LANES) * LANES), np.float32)
    components[:, : factors - 1] = vectors[:, :-1]
    return components, vectors[:, -1].astype(np.float64)
