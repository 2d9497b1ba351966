"""ALS: weighted matrix factorization of implicit feedback by alternating least squares."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy

from sfumato.core.ids import kind_of
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import (
    RANDOM_STATE,
    Limit,
    RandomState,
    between,
    integer,
    one_of,
    optional,
    positive,
)
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.kernels.alignment import aligned
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue
from sfumato.recommend.checkpoints import Checkpoint
from sfumato.recommend.factorization.base import COUNT, Factorization
from sfumato.recommend.factorization.epochs import Progress, run_epochs
from sfumato.recommend.implicit.als_training import (
    ConfidenceRows,
    ImplicitAlternation,
    choose_regularization,
    noise_level,
    padded,
    solve,
)
from sfumato.recommend.implicit.base import HistoryModel
from sfumato.recommend.implicit.histories import Histories
from sfumato.recommend.ranking import own_ratings

if TYPE_CHECKING:
    from sfumato.engine import Engine, Rows
    from sfumato.recommend.implicit.als_rounds import EngineAlternation, PreferenceRows

__all__ = ["ALS"]

# Popularity is a component of its own for users without history. The scale is exact, and makes its
# square vanish beside the other components in lengths and cosines of item vectors.
POPULAR = np.float32(2**20)
RIDGE = optional(positive)
NO_PREFERENCE = (
    "ALS: no row of {} is a preference for an item of the catalogue; lower relevant_from or extend "
    "the catalogue."
)
RULE = ("confidence", "weighting", "relevant_from")  # what a weight of a row means


class ALS(Factorization):
    """Matrix factorization of implicit feedback by weighted alternating least squares.

    Every pair of a user and an item is fitted: to 1 with confidence ``1 + confidence * weight`` if
    the user has the item, to 0 with confidence 1 if not. Users and items are solved in turn. Not
    differentially private.

    Parameters
    ----------
    factors : int, default=64
        Number of components per user and item, from 1 to 4096; multiples of 16 are fastest.
    regularization : float or None, default=None
        Penalty of squared lengths, above 0, in units of the noise level of the data (see Notes);
        0.2 to 1 are usual. None chooses it by lists for held-out rows, which takes as long as 21
        epochs.
    confidence : float, default=5.0
        Additional confidence of a row of weight 1, above 0 and at most 1e6.
    epochs : int, default=15
        Times that all items and all users are solved, at least 1.
    solver : {"cg", "cholesky"}, default="cg"
        Steps of conjugate gradient, or exact solutions, which take about twice as long for 64
        factors and much longer for more.
    cg_steps : int, default=3
        Steps of conjugate gradient for each user and item in an epoch, at least 1.
    weighting : {"equal", "log"}, default="equal"
        Weight of a row: 1, or ``log(1 + rating)`` scaled to a mean of 1, for counts of plays.
    relevant_from : float or None, default=None
        Smallest rating that counts as a preference; None uses all rows.
    threads : int, default=1
        Threads, from 1 to 256. The model is the same for any number.
    random_state : int, Generator or None, default=0
        Seed of the initial vectors.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    history_ : list of dict
        "epoch" and "loss" of each epoch of `fit`: the loss over all pairs, with the penalty.
    mean_, low_, high_ : float
        0, 0 and 1: scores are estimates of preferences of 1 and 0, not clipped.
    regularization_ : float
        Regularization that was given or chosen.
    ridge_ : float
        Penalty lambda of a vector, for each unit of confidence of its row.
    user_kind_ : str
        Type of user ids, "integers" or "text".

    Notes
    -----
    **Guarantee.** An epoch never raises the loss (exact solutions; rounding aside)

    ``sum over all pairs of c (r - p.q)^2 + lambda (sum of C_u |p|^2 + sum of C_i |q|^2)``,

    where C is the sum of the confidences c in a user's or an item's row. The model depends on data,
    parameters and `random_state` only. Users without history get the items by popularity, the
    fraction of users who have each item; items outside the catalogue have score 0. The model stores
    no histories. Not private.

    lambda is `regularization` times ``sqrt(mean of s_u) + sqrt(mean of s_i)``: about the largest
    singular value of noise with the variances ``c^2 / (C_u C_i)`` of the user's items, where s are
    sums of these in rows and columns, and their means are weighted by themselves. Components below
    lambda vanish, so that the data choose the rank up to `factors`. The best one stays, if
    `regularization` is below 0.5.

    If `regularization` is None, 15 % of the rows are held out, and of 0.2, 0.28, 0.4, 0.57, 0.8 and
    1.13 the one is taken whose lists of ten for at most 2,000 users have the best NDCG; 0.4 if
    fewer than 100 users have held-out rows.

    The model takes 4 `factors` bytes per user and item. `fit` takes about 50 bytes per row and
    three times the model, beside the data.

    References
    ----------
    .. [1] Hu, Koren, Volinsky. "Collaborative Filtering for Implicit Feedback Datasets". ICDM 2008.
       https://doi.org/10.1109/ICDM.2008.22
    .. [2] Takacs, Pilaszy, Tikk. "Applications of the Conjugate Gradient Method for Implicit
       Feedback Collaborative Filtering". RecSys 2011. https://doi.org/10.1145/2043932.2043987
    .. [3] Rendle, Krichene, Zhang, Koren. "Revisiting the Performance of iALS on Item
       Recommendation Benchmarks". RecSys 2022. https://arxiv.org/abs/2110.14037

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> users, items = [1, 1, 2, 2, 3, 4], ["tea", "milk", "tea", "milk", "tea", "rum"]
    >>> train = Interactions(users, items, [1] * 6)
    >>> model = ALS(factors=4).fit(train)
    >>> model.recommend(3, n=1, exclude=train)[0]
    array(['milk'], dtype=object)
    >>> model.recommend_fold_in(["tea"], n=1)[0]
    array(['milk'], dtype=object)
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "factors": integer(1, 4096),
        "regularization": optional(positive),
        "confidence": between(0, 1e6, above=True),
        "epochs": integer(1),
        "solver": one_of(("cg", "cholesky")),
        "cg_steps": integer(1),
        **HistoryModel.LIMITS,
        "threads": integer(1, 256),
        "random_state": RANDOM_STATE,
    }
    history_: list[dict[str, Any]]
    regularization_: float
    ridge_: float
    _factors: int
    _rule: dict[str, Any]  # RULE, as it was in fit
    _weight_mean: float  # before weights were scaled
    _known_users: SortedCatalogue  # users with a history
    _counts: np.ndarray  # of users who have each item
    _user_table: np.ndarray
    _item_table: np.ndarray

    def __init__(
        self,
        *,
        factors: int = 64,
        regularization: float | None = None,
        confidence: float = 5.0,
        epochs: int = 15,
        solver: str = "cg",
        cg_steps: int = 3,
        weighting: str = "equal",
        relevant_from: float | None = None,
        threads: int = 1,
        random_state: RandomState = 0,
    ) -> None:
        self.factors: int
        self.regularization: float | None
        self.confidence: float
        self.factors, self.regularization, self.confidence = factors, regularization, confidence
        self.epochs: int
        self.solver: str
        self.cg_steps: int
        self.epochs, self.solver, self.cg_steps = epochs, solver, cg_steps
        self.weighting: str
        self.relevant_from: float | None
        self.weighting, self.relevant_from = weighting, relevant_from
        self.threads: int
        self.threads, self.random_state = threads, random_state

    @property
    def predicts_ratings(self) -> bool:
        """False: scores order items."""
        return False

    def fit(
        self,
        train: Interactions,
        *,
        catalogue: Ids | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from the histories of users, from scratch.

        Ctrl-C ends training after the running epoch; the model keeps the epochs completed and
        KeyboardInterrupt is raised.

        Parameters
        ----------
        train : Interactions
            Who used which item; ratings are read as `weighting` and `relevant_from` say.
        catalogue : array_like, scalar or None, default=None
            Ids of the items that may be recommended; None means the items of `train`. Rows of
            other items are ignored.
        progress : callable or None, default=None
            Called as `progress(epoch, epochs, None)` after each epoch.

        Returns
        -------
        Self
            The object itself.

        Raises
        ------
        ValueError
            If a parameter is invalid, no row is a preference for an item of the catalogue, or
            numbers overflow. The model is then unchanged.
        """
        plain = self._check() | {"random_state": self._new_seed()}
        self._check_train(train)
        items = self._catalogue_of(train, catalogue)
        fresh = copy(self)
        vectors = fresh._begin(plain, train, items)
        complete = fresh._run(plain, vectors, progress)
        return self._adopt(fresh, complete)

    def fit_rows(
        self,
        source: Any,
        *,
        engine: Engine,
        columns: tuple[str, ...] = ("user", "item"),
        catalogue: Ids | None = None,
        checkpoint: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from histories on an engine, from scratch.

        Rows are shuffled by user and by item and kept there; in each half step partitions solve
        their own users or items. Ctrl-C is as in `fit`.

        Parameters
        ----------
        source : object
            What the engine reads: see the engine.
        engine : Engine
            Where the work runs: `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`.
        columns : tuple of str, default=('user', 'item')
            Names of the columns of users, items and, if `weighting` or `relevant_from` read them,
            ratings.
        catalogue : array_like, scalar or None, default=None
            Ids of the items that may be recommended; None means the items of the source, sorted.
            Rows of other items are ignored.
        checkpoint : path_like or None, default=None
            File that is replaced after each epoch. If it is there and of the same data and
            parameters, training goes on from its last epoch. It contains the vectors of users and
            is as sensitive as the model.
        progress : callable or None, default=None
            Called as `progress(epoch, epochs, None)` after each epoch.

        Returns
        -------
        Self
            The object itself.

        Raises
        ------
        ValueError
            If a parameter or row is invalid, no row is a preference for an item of the catalogue,
            the checkpoint is of another training, or numbers overflow. The model is then unchanged.

        Notes
        -----
        **Guarantee.** The model is that of `fit` on the same rows ordered by user, up to rounding,
        whatever their order in the source. Above about a million rows the regularization is chosen
        from all rows of every k-th user. The driver holds the vectors of all users and items; a
        task holds them too, and the rows of its partition. `threads` is ignored.

        Examples
        --------
        >>> from sfumato.engine import LocalEngine
        >>> users, items = [1, 1, 2, 2, 3, 4], ["tea", "milk", "tea", "milk", "tea", "rum"]
        >>> rows = {"user": users, "item": items}
        >>> model = ALS(factors=4).fit_rows(rows, engine=LocalEngine(threads=2))
        >>> model.similar_items("tea", n=1)[0]
        array(['milk'], dtype=object)
        """
        plain = self._check() | {"random_state": self._new_seed()}
        self._check_columns(columns)
        Checkpoint.check_seed("ALS", checkpoint, self.random_state)
        fresh = copy(self)
        rows, check = fresh._begin_rows(plain, engine.rows(source, columns), columns, catalogue)
        try:
            vectors = fresh._alternation(plain, rows)
            saved = Checkpoint.of("ALS", checkpoint, plain, check, len(fresh.catalogue_))
            fresh.history_.extend(vectors.resume(saved))
            fresh._user_table, fresh._item_table = vectors.users, vectors.items
            complete = fresh._run(plain, vectors, progress, saved)
        finally:
            rows.unpersist()
        return self._adopt(fresh, complete)

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

        The model does not change and stores nothing of the new user. The vector solves the normal
        equations of `fit` exactly, so a user of the training data gets the same scores, as closely
        as `solver` found them.

        Parameters
        ----------
        items : array_like or scalar
            Ids of the user's items; they are not recommended again. Without any in the catalogue,
            items are listed by popularity.
        ratings : array_like of shape (n_items,) or None, default=None
            Ratings of these items, read as in `fit`; None gives each item a weight of 1.
        n : int, default=10
            Number of items to recommend, at least 1.
        filter : array_like of bool or None, default=None
            Mask over `catalogue_`; only items with True are recommended.
        ridge : float or None, default=None
            Penalty of the new vector, above 0. None means that of `fit`: `ridge_` times the total
            confidence.

        Returns
        -------
        tuple of ndarray
            Item ids and scores of shape (m,), m <= n, best first.
        """
        return super().recommend_fold_in(items, ratings, n=n, filter=filter, ridge=ridge)

    def explain(
        self, user: Ids, item: Ids, n: int = 5, *, history: Interactions | None = None
    ) -> dict[str, Any]:
        """Split one score into terms that add up to it.

        Parameters
        ----------
        user : array_like or scalar
            One user id.
        item : array_like or scalar
            One item id.
        n : int, default=5
            Number of terms and of similar items to list, at least 1.
        history : Interactions or None, default=None
            Interactions that contain those of the user, usually the training data. They are not
            stored. None splits the score by components instead.

        Returns
        -------
        dict
            Plain values. With `history`: "history" (the n items of the user with the largest
            absolute contributions, each with "item", its "weight" and its contribution "part"),
            "rest" (the sum of all other contributions), "popularity" (all of the score of a user
            without history, else 0) and "score", the sum of these terms: the prediction from this
            history. Without: as in `Factorization.explain`; the last component is popularity, which
            only users without history have.
        """
        if history is None:
            return super().explain(user, item, n)
        self._check_fitted()
        self._check_train(history, "history", empty=True)
        n = COUNT.check("ALS", "n", n)
        who, what = self._pairs(user, item)
        if who.size != 1:
            raise ValueError("ALS: explain takes one user and one item.")
        own = self._weights_of(history.filter(history.users == who[0]))
        parts, vector = self._parts(own, what), self._item_vectors(what)[0]
        popularity = 0.0 if own.nnz else float(vector[self._factors] * POPULAR)
        largest = np.argsort(-np.abs(parts), kind="stable")[:n]
        ids = self.catalogue_.take(own.indices[largest]).tolist()
        weights = (own.data[largest] / self._rule["confidence"]).tolist()
        rows = zip(ids, weights, parts[largest].tolist(), strict=True)
        return {
            "history": [{"item": id, "weight": weight, "part": part} for id, weight, part in rows],
            "rest": float(np.delete(parts, largest).sum()),
            "popularity": popularity,
            "score": float(parts.sum()) + popularity,
        }

    def _run(
        self,
        plain: dict[str, Any],
        vectors: ImplicitAlternation | EngineAlternation,
        progress: Progress | None,
        checkpoint: Checkpoint | None = None,
    ) -> bool:
        """Run all epochs that are not done; False if Ctrl-C ended them early."""
        left = plain["epochs"] - len(self.history_)

        def report() -> None:
            if checkpoint is not None:
                table = np.concatenate([vectors.users, vectors.items])
                checkpoint.save(table, len(self.history_), self.history_)
            if progress is not None:
                progress(len(self.history_), plain["epochs"], None)

        return run_epochs(left, lambda: self._epoch(vectors), report)

    def _check_columns(self, columns: tuple[str, ...]) -> None:
        """Raise ValueError unless ratings are named if a parameter reads them."""
        if isinstance(columns, str) or len(columns) not in (2, 3):
            wanted = "must name users, items and, where they are read, ratings."
            raise ParameterError.of("ALS", "columns", wanted)
        if len(columns) == 2 and (self.weighting != "equal" or self.relevant_from is not None):
            wanted = "must name the ratings too, which weighting or relevant_from reads."
            raise ParameterError.of("ALS", "columns", wanted)

    def _begin_rows(
        self, plain: dict[str, Any], source: Rows, columns: tuple[str, ...], catalogue: Any
    ) -> tuple[PreferenceRows, int]:
        """Set what training leaves as it is; return the rows by user and by item, and their sum."""
        from sfumato.recommend.implicit.als_rounds import (
            PreferenceReading,
            PreferenceRows,
            PreferenceSummary,
        )

        given = None if catalogue is None else Catalogue(catalogue)
        reading = PreferenceReading(columns, plain["weighting"], plain["relevant_from"], given)
        summary = PreferenceSummary.of(source, reading)
        if not summary.used:
            raise ValueError(NO_PREFERENCE.format("the source"))
        self.catalogue_ = given or Catalogue(summary.item_ids)
        self._known_users = SortedCatalogue(summary.user_ids)
        self._set_facts(plain, kind_of(self._known_users.ids), summary.mean_weight)
        scale = plain["confidence"] / self._weight_mean
        rows = PreferenceRows(source, reading, self._known_users, self.catalogue_, scale)
        return rows, summary.check

    def _alternation(self, plain: dict[str, Any], rows: PreferenceRows) -> EngineAlternation:
        """Choose the penalty, and return the initial vectors."""
        from sfumato.recommend.implicit.als_rounds import EngineAlternation

        columns, random = rows.columns(), np.random.default_rng(plain["random_state"])
        self._counts, given = columns.counts, plain["regularization"]
        if given is None:
            sample = rows.sample(int(columns.counts.sum()))
            given = choose_regularization(sample, plain, random)
        self.regularization_ = given
        self.ridge_ = given * rows.noise_level(columns)
        return EngineAlternation(rows, plain, random)

    def _set_facts(self, plain: dict[str, Any], kind: str, mean: float) -> None:
        """Set what no row changes beside the mean weight."""
        self._factors, self._rule = plain["factors"], {name: plain[name] for name in RULE}
        self._weight_mean, self.user_kind_ = mean, kind
        self._seed, self.history_ = plain["random_state"], []
        self.mean_, self.low_, self.high_ = 0.0, 0.0, 1.0

    def _begin(
        self, plain: dict[str, Any], train: Interactions, items: Catalogue
    ) -> ImplicitAlternation:
        """Set what training leaves as it is, and return the initial vectors."""
        histories = Histories.of(train, items, plain["weighting"], plain["relevant_from"])
        some = np.diff(histories.starts) > 0
        if not some.any():
            raise ValueError(NO_PREFERENCE.format("train"))
        weights = histories.matrix if some.all() else histories.matrix[some]
        weights.data = weights.data * np.float32(plain["confidence"])
        self._set_facts(plain, kind_of(train.users), _mean_weight(train, items, plain))
        self.catalogue_ = items
        self._known_users = SortedCatalogue(histories.users.ids[some])
        self._counts = histories.counts
        random = np.random.default_rng(plain["random_state"])
        given = plain["regularization"]
        self.regularization_ = given or choose_regularization(weights, plain, random)
        self.ridge_ = self.regularization_ * noise_level(weights)
        return ImplicitAlternation(weights, plain, random)

    def _epoch(self, vectors: ImplicitAlternation | EngineAlternation) -> None:
        """Run one epoch and record it."""
        vectors.epoch(self.ridge_)
        loss = vectors.loss(self.ridge_)
        if not np.isfinite(loss):
            raise ValueError("ALS: numbers overflow; give a larger regularization.")
        self._user_table, self._item_table = vectors.users, vectors.items
        self.history_.append({"epoch": len(self.history_) + 1, "loss": loss})

    def _changed(self) -> None:
        super()._changed()
        self.__dict__.pop("_gram", None)
        self.__dict__.pop("_known_items", None)

    @cached_property
    def _gram(self) -> np.ndarray:
        """The sum of q q' of all items."""
        return np.asarray(self._item_table.T @ self._item_table)

    @cached_property
    def _known_items(self) -> SortedCatalogue:
        return SortedCatalogue(self.catalogue_.ids)

    def _weights_of(self, rows: Interactions) -> scipy.sparse.csr_matrix:
        """Return the history of one user as a row of weights, read as in `fit`."""
        rule = self._rule
        if not len(rows):
            return scipy.sparse.csr_matrix((1, len(self.catalogue_)), dtype=np.float32)
        own = Histories.of(rows, self.catalogue_, rule["weighting"], rule["relevant_from"]).matrix
        # These weights have a mean of 1 by themselves; the model's have one over all its users.
        scale = _mean_weight(rows, self.catalogue_, rule) / self._weight_mean
        own.data = own.data * np.float32(rule["confidence"] * scale)
        return own

    def _folded_in(self, items: np.ndarray, ratings: Any, ridge: float | None) -> np.ndarray:
        ridge = RIDGE.check("ALS", "ridge", ridge)
        out = np.zeros(self._factors + 2, np.float32)
        if ratings is None:
            found = np.unique(self._known_items.positions(items))
            found = found[found >= 0]
            weights = np.full(found.size, self._rule["confidence"], np.float32)
            shape = 1, len(self.catalogue_)
            own = scipy.sparse.csr_matrix((weights, found, [0, found.size]), shape)
        else:
            given = own_ratings("ALS", ratings, items.size)
            own = self._weights_of(Interactions(np.zeros(items.size, np.int64), items, given))
        if not own.nnz:
            out[self._factors] = POPULAR
            return out
        side = ConfidenceRows.of(own)
        ridges = self.ridge_ * side.totals if ridge is None else np.array([ridge])
        row = aligned((1, self._item_table.shape[1]), np.float32)
        plain = {"solver": "cholesky", "threads": 1}
        solve(plain, side, ridges, self._item_table, row, self._gram)
        out[: self._factors] = row[0, : self._factors]
        return out

    def _parts(self, own: scipy.sparse.csr_matrix, item: np.ndarray) -> np.ndarray:
        """Return what each item of a history adds to the score of an item ([1], section 5)."""
        q = self._item_table[own.indices].astype(np.float64)
        weights = own.data.astype(np.float64)
        ridge = self.ridge_ * (own.shape[1] + weights.sum())
        square = self._gram + (q.T * weights) @ q + ridge * np.eye(q.shape[1])
        wanted = np.zeros(q.shape[1])
        wanted[: self._factors] = self._item_vectors(item)[0, : self._factors]
        return np.asarray((1 + weights) * (q @ np.linalg.solve(square, wanted)))

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        found = self._known_users.positions(ids)
        out = _vectors(self._user_table, self._factors, found)
        out[found < 0, self._factors] = POPULAR
        return out

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        found = self._known_items.positions(ids)
        out = _vectors(self._item_table, self._factors, found)
        popularity = self._counts[np.maximum(found, 0)] / len(self._known_users)
        out[:, self._factors] = np.where(found >= 0, popularity, 0) / POPULAR
        return out

    def _layout(self) -> dict[str, Cells]:
        ids = Catalogue.layout(self.user_kind_)
        return {
            **{f"user_{name}": cells for name, cells in ids.items()},
            "user_rows": Cells(np.float32, (-1, self._factors)),
            "item_rows": Cells(np.float32, (-1, self._factors)),
            "counts": Cells(np.int64, (-1,)),
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        tables = {"user_rows": self._user_table, "item_rows": self._item_table}
        return {
            **{f"user_{name}": array for name, array in self._known_users.arrays().items()},
            **{name: np.array(each[:, : self._factors]) for name, each in tables.items()},
            "counts": self._counts,
        }

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        p, q, counts = (arrays.pop(name) for name in ("user_rows", "item_rows", "counts"))
        ids = {name.removeprefix("user_"): array for name, array in arrays.items()}
        self._known_users = SortedCatalogue.from_arrays(ids)
        if len(p) != len(self._known_users) or not len(q) == len(counts) == len(self.catalogue_):
            raise ValueError("vectors and counts must be one for each user and item.")
        if not (np.isfinite(p).all() and np.isfinite(q).all() and (counts >= 0).all()):
            raise ValueError("vectors must be finite, and counts at least 0.")
        self._user_table, self._item_table, self._counts = padded(p), padded(q), counts

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "regularization_": self.regularization_,
            "ridge_": self.ridge_,
            "factors": self._factors,
            "rule": self._rule,
            "weight_mean": self._weight_mean,
        }

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        for name in ("regularization_", "ridge_"):
            setattr(self, name, positive.check("state", name, state[name]))
        self._factors = self.LIMITS["factors"].check("state", "factors", state["factors"])
        rule = state["rule"]
        self._rule = {name: self.LIMITS[name].check("state", name, rule[name]) for name in RULE}
        self._weight_mean = positive.check("state", "weight_mean", state["weight_mean"])
        self.history_ = []


def _mean_weight(rows: Interactions, items: Catalogue, rule: dict[str, Any]) -> float:
    """Return by what `Histories` divides the weights of these rows."""
    if rule["weighting"] == "equal":
        return 1.0
    coded, limit = rows.coded(), rule["relevant_from"]
    used = (items.positions(coded.item_ids) >= 0)[coded.item_codes]
    used &= True if limit is None else rows.ratings >= limit
    mean = np.log1p(np.maximum(rows.ratings[used], 0)).mean() if used.any() else 0
    return float(mean) if mean > 0 else 1.0


def _vectors(table: np.ndarray, factors: int, found: np.ndarray) -> np.ndarray:
    """Return components at these rows, then a column of popularity and the bias, both 0."""
    out = np.zeros((found.size, factors + 2), np.float32)
    known = found >= 0
    out[known, :factors] = table[found[known], :factors]
    return out
