"""Factorization: predictions and rankings from the vectors of users and items.

What vectors tell: parts of a prediction, nearest items, a guest's vector from a few items.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.core.deprecation import keyword_only, renamed_method
from sfumato.core.typing import Ids
from sfumato.core.validation import optional, positive
from sfumato.recommend.ranking import ExcludedItems

if TYPE_CHECKING:
    pass

from sfumato.core.ids import distinct, ids_of, is_one, kind_of
from sfumato.core.validation import integer, one_of
from sfumato.data.interactions import Interactions
from sfumato.kernels.recommend import sgd_dense as pairs
from sfumato.recommend.base import BOUNDS, OPTIONAL_BOUNDS, Estimator, NotFittedError
from sfumato.recommend.item_index import ItemIndex, Ranking
from sfumato.recommend.ranking import Shelf, beside, check_filter, listed, seen_by

__all__ = [
    "BOUNDS",
    "OPTIONAL_BOUNDS",
    "Factorization",
    "NotFittedError",
    "directions",
    "guest",
    "nearest",
    "parts",
]

RIDGE = optional(positive)


def directions(vectors: np.ndarray) -> np.ndarray:
    """The components of each row, without the bias, at length 1; rows of zeros stay zeros."""
    components = np.ascontiguousarray(vectors[:, :-1])
    lengths = np.sqrt(np.einsum("ij,ij->i", components, components, dtype=np.float64))
    lengths[lengths == 0] = 1
    return np.asarray(components / lengths[:, None], np.float32)


def nearest(model: "Factorization", items: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Places in the catalogue and cosines of the n nearest to each item, itself left out."""
    queries = directions(model._in_blocks(model._item_vectors, items))
    itself = model.catalogue_.positions(items)
    rows = np.where(itself >= 0, np.arange(items.size), -1)
    seen = ExcludedItems(np.arange(items.size + 1), np.maximum(itself, 0), rows)
    return model._shelf("cosines").best(queries, n, seen=seen)


def parts(model: "Factorization", user: Any, item: Any, n: int) -> dict[str, Any]:
    """The parts of one prediction, as plain values that add up to its score."""
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
        "prediction": min(max(score, model.low_), model.high_),
        "similar": list(zip(ids.tolist(), cosines.tolist(), strict=True)),
    }


def guest(
    model: "Factorization", items: np.ndarray, ratings: Any, ridge: float | None
) -> np.ndarray:
    """Components and, last, the bias of someone who gave these ratings, by ridge regression."""
    ridge = RIDGE.check(type(model).__name__, "ridge", ridge) or model.high_ - model.low_ or 1.0
    vectors = model._in_blocks(model._item_vectors, items).astype(np.float64)
    told = _above_bias(model, vectors[:, -1], ratings)
    vectors[:, -1] = ratings is not None  # the column of the guest's bias
    square = vectors.T @ vectors + ridge * np.eye(vectors.shape[1])
    return np.linalg.solve(square, vectors.T @ told).astype(np.float32)


def _above_bias(model: "Factorization", biases: np.ndarray, ratings: Any) -> np.ndarray:
    """How far each rating is above what the item's bias alone predicts."""
    if ratings is None:
        return np.full(biases.size, model.high_ - model.mean_)
    try:
        given = np.asarray(ratings, np.float64).reshape(-1)
    except (TypeError, ValueError):
        given = np.full(biases.size, np.nan)
    if given.size != biases.size or not np.isfinite(given).all():
        raise ValueError(
            f"{type(model).__name__}: ratings must be {biases.size} finite numbers, one an item."
        )
    return np.asarray(np.clip(given, model.low_, model.high_) - model.mean_ - biases)


ROWS = 1 << 18  # vectors read at a time
PAIRS = 1 << 18  # predictions at a time: at most 64 MiB of vectors of 32 factors
LANES = 16
COUNT = integer(1)
USER_KIND = one_of(("", "integers", "text"))


class Factorization(Estimator, in_files=False):
    """The base of all models that predict by the factors of a user and of an item.

    A subclass gives `_user_vectors` and `_item_vectors` beside what `Estimator` asks for, and calls
    `_changed` after every change of what it learned. Threads may ask one model together.

    Attributes
    ----------
    catalogue_ : Catalogue
        TODO.
    high_ : float
        TODO.
    low_ : float
        TODO.
    mean_ : float
        TODO.
    user_kind_ : str
        TODO.

    Notes
    -----
    **Guarantee.** Prediction = mean_ + sum of p_l q_l over the components + p_last + q_last, cut to
    [low_, high_]. An entity has `factors` numbers: components and, last, its bias. A user never
    seen is answered like any other, and no list of what was seen is kept.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import DenseFactorization
    >>> seen = Interactions(users=[1, 1, 2, 2], items=[10, 20, 10, 30], ratings=[5, 1, 4, 2])
    >>> model = DenseFactorization(factors=4).fit(seen)
    >>> model.recommend(1, n=2, exclude=seen)[0]
    array([30])
    >>> [part for part in model.explain(1, 10) if part != "components"]
    ['mean', 'user_bias', 'item_bias', 'rest', 'score', 'prediction', 'similar']
    """

    user_kind_: str = ""  # what ids of users are, "integers" or "text"; "" where it is not known

    def predict(self, users: Ids, items: Ids) -> np.ndarray:
        """The predicted rating of each user for the item beside it, cut to the bounds.

        Parameters
        ----------
        users : array_like or scalar
            Columns of one length; one single id stands for a whole column.
        items : array_like or scalar
            Columns of one length; one single id stands for a whole column.

        Returns
        -------
        ndarray
            The predicted rating of each user for the item beside it, cut to the bounds.
        """
        self._check_fitted()
        who, what = self._pairs(users, items)
        out = np.empty(who.size)
        for start in range(0, who.size, PAIRS):
            rows = slice(start, start + PAIRS)
            out[rows] = self._uncut(who[rows], what[rows])
        return np.clip(out, self.low_, self.high_, out=out)

    def recommend(
        self, users: Ids, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The n best items of the catalogue for each user, and their scores, best first.

        A score is the prediction before it is cut to the bounds, since cutting would tie the best;
        equal ones stand in the catalogue's order. A column of users gets two arrays of shape
        (users, n), with score -inf (and item -1 or None) where fewer are left; one single id gets
        two arrays of what is left.

        Parameters
        ----------
        users : array_like or scalar
            A column or one id.
        n : int, default=10
            From 1 up.
        exclude : Interactions or None, default=None
            Interactions whose items the user who stands beside them does not get (they are used and
            not kept).
        filter : object, default=None
            A boolean mask over `catalogue_`.

        Returns
        -------
        tuple
            The n best items of the catalogue for each user, and their scores, best first.
        """
        self._check_fitted()
        return self._recommended(users, n, exclude, filter)

    def index(self, kind: str = "codes", **options: Any) -> ItemIndex:
        """The catalogue as an index that recommends without scoring every item: see `ItemIndex`.

        Parameters
        ----------
        kind : str, default="codes"
            "codes" or "bands".
        **options : object
            Of `ItemIndex`.

        Returns
        -------
        ItemIndex
            The catalogue as an index that recommends without scoring every item: see `ItemIndex`.
        """
        self._check_fitted()
        return ItemIndex(self, kind, **options)

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The n items of the catalogue nearest to each item, and the cosines, nearest first.

        Cosines are of the components, without the biases, so popularity plays no part; the item
        itself is left out. Shapes and places without an item are as in `recommend`.

        Parameters
        ----------
        items : array_like or scalar
            A column or one id, also of items outside the catalogue.
        n : int, default=10
            From 1 up.

        Returns
        -------
        tuple
            The n items of the catalogue nearest to each item, and the cosines, nearest first.
        """
        self._check_fitted()
        n = COUNT.check(type(self).__name__, "n", n)
        what = self._item_ids(items)
        found, cosines = nearest(self, what, min(n, len(self.catalogue_)))
        return self._answer(found, cosines, n, is_one(items))

    def explain(self, user: Ids, item: Ids, n: int = 5) -> dict[str, Any]:
        """What a prediction is made of: parts that add up to its score, as plain values.

        score = mean + user_bias + item_bias + the contributions of the strongest n `components` +
        `rest`, those of all others; `prediction` is the score cut to the bounds; `similar` are the
        n nearest items of the catalogue with their cosines.

        Parameters
        ----------
        user : array_like or scalar
            One id each.
        item : array_like or scalar
            One id each.
        n : int, default=5
            From 1 up.

        Returns
        -------
        dict
            What a prediction is made of: parts that add up to its score, as plain values.
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
        """The n best items for someone the model never met, from items alone; nothing is kept.

        A guest's components p and bias g minimise, over the listed items, the sum of (rating -
        mean_ - item bias - p.q - g)^2, + ridge (p.p + g^2). Without ratings, each listed item
        counts as liked: rated high_ - mean_ above what its bias alone would predict, g = 0. Listed
        items are not recommended again.

        Parameters
        ----------
        items : object
            A column of ids, or one.
        ratings : object, default=None
            As many numbers, cut to the bounds, or None; n and filter as in `recommend`.
        n : int, default=10
            TODO.
        filter : object, default=None
            TODO.
        ridge : float or None, default=None
            Above 0, or None for high_ - low_: the variance of a rating over that of a component
            grows like the scale of the ratings.

        Returns
        -------
        tuple
            The n best items for someone the model never met, from items alone; nothing is kept.
        """
        self._check_fitted()
        n = COUNT.check(type(self).__name__, "n", n)
        what = self._item_ids(items)
        allowed = check_filter(type(self).__name__, filter, self.catalogue_)
        vector = guest(self, what, ratings, ridge)
        return self._ranked(vector[None], n, allowed, listed(what, self.catalogue_), True)

    recommend_guest = renamed_method("recommend_guest", "recommend_fold_in")

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        """float32 (len(ids), factors): components and, last, the bias of each user."""
        raise NotImplementedError

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        """float32 (len(ids), factors): components and, last, the bias of each item."""
        raise NotImplementedError

    def _changed(self) -> None:
        """Forget what was computed from the learned state; to be called after each change of it."""
        self.__dict__.pop("_shelves", None)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_shelves"}

    def _shelf(self, kind: str) -> Shelf:
        """The catalogue laid out for "scores" or "cosines", computed once per learned state."""
        shelves: dict[str, Shelf] = self.__dict__.setdefault("_shelves", {})
        if kind not in shelves:
            vectors = self._in_blocks(self._item_vectors, self.catalogue_.ids)
            shelves[kind] = Shelf.of(vectors if kind == "scores" else directions(vectors))
        return shelves[kind]

    def _in_blocks(self, read: Any, ids: np.ndarray) -> np.ndarray:
        """The vectors of many ids, as a new array that may be changed."""
        starts = range(0, max(ids.size, 1), ROWS)
        return np.concatenate([read(ids[start : start + ROWS]) for start in starts])

    def _user_ids(self, users: Any) -> np.ndarray:
        """Users as ids of the kind that was learned from; others would all be strangers."""
        who = ids_of(users, "users")
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
        """Items as ids of the catalogue's kind."""
        what = ids_of(items, "items")
        if what.size and kind_of(what) != self.catalogue_.kind:
            raise TypeError(
                f"{type(self).__name__}: items are {kind_of(what)}, but the catalogue holds "
                f"{self.catalogue_.kind}."
            )
        return what

    def _pairs(self, users: Any, items: Any) -> tuple[np.ndarray, np.ndarray]:
        who, what = self._user_ids(users), self._item_ids(items)
        return beside(type(self).__name__, users, items, who, what)

    def _uncut(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predictions before they are cut; the vectors of each id are read once."""
        (who, user_rows), (what, item_rows) = distinct(users), distinct(items)
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
        shelf: Ranking | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """What `recommend` answers, ranked by the whole catalogue or by another shelf of it."""
        n = COUNT.check(type(self).__name__, "n", n)
        who = self._user_ids(users)
        allowed = check_filter(type(self).__name__, filter, self.catalogue_)
        seen = seen_by(type(self).__name__, who, exclude, self.catalogue_)
        vectors = self._in_blocks(self._user_vectors, who)
        return self._ranked(vectors, n, allowed, seen, is_one(users), shelf)

    def _ranked(
        self,
        vectors: np.ndarray,
        n: int,
        allowed: np.ndarray | None,
        seen: ExcludedItems | None,
        one: bool,
        shelf: Ranking | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The n best for each row of users' vectors, which are changed."""
        offsets = self.mean_ + vectors[:, -1:].astype(np.float64)
        vectors[:, -1] = 1  # beside the items' biases
        width = min(n, len(self.catalogue_))
        shelf = self._shelf("scores") if shelf is None else shelf
        found, scores = shelf.best(vectors, width, allowed, seen)
        return self._answer(found, scores + offsets, n, one)

    def _answer(
        self, found: np.ndarray, scores: np.ndarray, n: int, one: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids and scores, for one single id cut to what is left, else filled up to n columns."""
        if one:
            left = found[0] >= 0
            return self.catalogue_.take(found[0][left]), scores[0][left].astype(np.float64)
        missing = ((0, 0), (0, n - found.shape[1]))
        found = np.pad(found, missing, constant_values=-1)
        scores = np.pad(scores.astype(np.float64), missing, constant_values=-np.inf)
        return self.catalogue_.take(found), scores


def _apart(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Components, filled up with zeros to whole lanes, and biases in float64."""
    count, factors = vectors.shape
    components = np.zeros((count, -(-factors // LANES) * LANES), np.float32)
    components[:, : factors - 1] = vectors[:, :-1]
    return components, vectors[:, -1].astype(np.float64)
