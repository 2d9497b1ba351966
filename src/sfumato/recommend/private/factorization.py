"""PrivateFactorization: matrix factorization with proved differential privacy, and its file."""

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sfumato.core import ids as _ids
from sfumato.core.hashing import SEED
from sfumato.core.ids import distinct, kind_of
from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, flag, fraction, integer, one_of, optional, positive
from sfumato.data.interactions import Interactions
from sfumato.privacy.parameters import PRIVACY, Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import ReleaseOptions, ReleaseRequest
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.base import BOUNDS
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.factorization.base import Factorization
from sfumato.recommend.private.als import Alternation, NoisyFactors, item_means, own_vectors
from sfumato.recommend.private.inputs import (
    STEPS,
    Accounts,
    Budget,
    accounts_of,
    bounded,
    catalogue_of,
    check_privacy,
    events_of,
    payer,
    published,
    release_request,
)
from sfumato.recommend.private.noisy_statistics import EventSums, NoisySums

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["MOST_ROWS", "PrivateFactorization", "PrivateFile", "centred", "learn", "sentence"]

MOST_ROWS = 2**26


class PrivateFile(Factorization, in_files=False):
    """Fitted state of `PrivateFactorization` and its conversion to and from a file.

    Guarantee: a file has the parameters that its statement was made with, whatever `set_params` did
    later, and never users' own vectors.
    """

    unit: str
    covers: str
    epsilon: Any
    delta: Any
    residual_: float
    user_bias_: float
    joint_: bool
    user_vectors_: np.ndarray
    item_vectors_: np.ndarray
    _accounts: Accounts
    _kind: str
    _fitted: dict[str, Any]  # the parameters that the model was fitted with
    _statement: PrivacyStatement | None = None

    @property
    def statement(self) -> PrivacyStatement | None:
        return self._statement

    @property
    def components_(self) -> int:
        """Number of components, which tell users apart; 0 if the budget was too small for any."""
        return int(self.item_vectors_[:, :-1].any(axis=0).sum())

    @property
    def one_list(self) -> str:
        """Why all users get one list, and what would personalise it; "" if each gets one's own."""
        self._check_fitted()
        if self.components_ == 0:
            return f"All users get one list, the items by their mean rating: {self._unshared()}"
        if self.joint_ and not len(self._accounts):
            return (
                "All users get one list until their own ratings are given, since the file holds "
                "items only (covers='joint'): use personal(own), or fold in a user's items with "
                "recommend_fold_in (recommend --likes)."
            )
        return ""

    def _unshared(self) -> str:
        """Why there are no components, and what to change."""
        fitted = self._fitted
        lists = "PrivateLinearItems (fit --epsilon, of lists) ranks by a user's own items"
        if fitted["unit"] == "user":
            return f"with unit 'user' only item means are released. Take unit 'event', or {lists}."
        if fitted["factors"] == 1:
            return f"factors is 1, means alone. Leave it at None, or {lists}."
        given = f"epsilon {fitted['epsilon']:g}"
        joint = "" if self.joint_ else ", with covers='joint' or without"
        return (
            f"{given} is too little for components with so few ratings a user and item, whose "
            f"noise would hide them. What would personalise: a larger epsilon{joint}; or {lists}."
        )

    def __repr__(self) -> str:
        shown = super().__repr__()
        fitted = "catalogue_" in self.__dict__
        return f"{shown}\n{self.one_list}" if fitted and self.one_list else shown

    def to_bytes(self) -> bytes:
        self._check_fitted()
        self._check_releasable()
        released = copy(self)
        released.__dict__.update(self._fitted)
        return Factorization.to_bytes(released)

    def _check_releasable(self) -> None:
        """Raise ValueError for a personal copy, which must not be published."""
        if self.joint_ and len(self._accounts):
            raise ValueError(
                "PrivateFactorization: a personal copy holds users' own vectors and is not saved "
                "or sketched; take the model that it was made from."
            )

    def _layout(self) -> dict[str, Cells]:
        wide = Cells(np.float32, (-1, -1))
        return {
            **_ids.id_layout("users", self._kind),
            "user_vectors": wide,
            "item_vectors": wide,
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        ids = _ids.id_arrays("users", self._accounts.ids)
        return {**ids, "user_vectors": self.user_vectors_, "item_vectors": self.item_vectors_}

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        ids = _ids.ids_from("users", arrays)
        self._accounts = Accounts(ids, self._accounts.shared, self._accounts.seed)
        self.user_vectors_, self.item_vectors_ = arrays["user_vectors"], arrays["item_vectors"]
        fits = (
            self.user_vectors_.shape == (len(self._accounts), self.item_vectors_.shape[1])
            and self.item_vectors_.shape[0] == len(self.catalogue_)
            and self.item_vectors_.shape[1] >= 2
            and np.isfinite(self.user_vectors_).all()
            and np.isfinite(self.item_vectors_).all()
        )
        if not fits:
            raise ValueError("the vectors do not fit the lists of users and items.")

    def _state(self) -> dict[str, Any]:
        assert self._statement is not None
        return {
            **super()._state(),
            "users": self._kind,
            "rows": self._accounts.shared,
            "seed": self._accounts.seed,
            "joint": self.joint_,
            "residual": self.residual_,
            "user_bias": self.user_bias_,
            "statement": self._statement.to_dict(),
        }

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        owner = type(self).__name__
        self._fitted = self.get_params()
        self._kind, self.joint_ = state["users"], flag.check(owner, "joint", state["joint"])
        shared = integer(0, MOST_ROWS).check(owner, "rows", state["rows"])
        seed = SEED.check(owner, "seed", state["seed"])
        self._accounts = Accounts(np.empty(0, np.int64), shared, seed)
        self.residual_ = positive.check(owner, "residual", state["residual"])
        self.user_bias_ = positive.check(owner, "user_bias", state["user_bias"])
        try:
            self._statement = PrivacyStatement.from_dict(state["statement"])
        except RecursionError:
            raise ValueError("the statement is nested too deep.") from None
        self._check_statement(self._statement)

    def _check_statement(self, stated: PrivacyStatement) -> None:
        """Raise ValueError unless the statement belongs to these parameters."""
        requested = (self.unit, self.covers == "joint", self.delta)
        if requested != (stated.unit, self.joint_, stated.delta) or stated.epsilon > self.epsilon:
            raise ValueError("the statement is not one of these parameters.")


def learn(plain: dict[str, Any], sums: NoisySums) -> NoisyFactors:
    """Fit the factors, spending the entire budget of the sums."""
    if plain["unit"] == "user":
        return item_means(sums)
    return Alternation(sums, _steps(plain), plain["factors"], plain["seed"]).run()


def centred(learned: NoisyFactors) -> NoisyFactors:
    """Return factors with equal predictions whose user rows have mean 0.

    A new user who shares a row then reads noise only; the common part moves to the mean and to the
    items' biases.
    """
    common = learned.users.mean(axis=0)
    items = learned.items.copy()
    items[:, 0] += items[:, 1:] @ common[1:]
    mean = learned.mean + float(common[0])
    return replace(learned, mean=mean, users=learned.users - common, items=items)


def sentence(plain: dict[str, Any]) -> str:
    """Return the mechanism's description for the privacy statement."""
    steps = f"{_steps(plain)} steps of alternating least squares"
    parts = "item means in turn with users' own" if plain["unit"] == "user" else steps
    return f"discrete Gaussian noise on sums of clipped residuals, {parts}"


def _steps(plain: dict[str, Any]) -> int:
    """Return the number of steps; items come last if users' vectors are not released."""
    return STEPS if plain["covers"] == "file" else STEPS - 1  # items come last where users stay


WIDEST = 33


class PrivateFactorization(PrivateFile):
    """Matrix factorization with proved (epsilon, delta)-differential privacy.

    It has no parameter to be tuned on the data, since tuning would cost privacy too.

    Parameters
    ----------
    epsilon : float or None, default=None
        Privacy parameter epsilon, above 0. Required unless `privacy` gives it.
    delta : float or None, default=None
        Privacy parameter delta, between 0 and 1. Required unless `privacy` gives it.
    bounds : tuple of float
        Lowest and highest rating; must be public. Ratings are clipped to them.
    unit : {"event", "user"}, default="event"
        What is protected: one rating, or all ratings of a user (of which `per_user` are used).
    covers : {"file", "joint"}, default="file"
        "file" releases user and item vectors, and all of the file may be published. "joint"
        releases items only; `personal` computes users' vectors from their own ratings, which only
        they may see. Unit "user" requires "joint".
    factors : int or None, default=None
        Components and a bias, from 1 (means alone) to 33. None applies a public rule of epsilon,
        delta, the numbers of users and items, and a noisy number of ratings.
    per_user : int or None, default=None
        Largest number of ratings of different items used per user, from 1 to 2**20; required for
        unit "user" and only for it.
    rows : int or None, default=None
        For unit "event" without a public list of users: number of rows, up to 2**26, that users
        share by a hash, preferably several times the number of users.
    seed : int, default=0
        Seed of that hash, of the public starting vectors and of the sample of a user's ratings. The
        noise has no seed.
    privacy : Privacy or None, default=None
        A `sfumato.privacy.Privacy` in place of epsilon, delta, unit and the ledger arguments of
        `fit`.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    components_ : int
        Number of components, which tell users apart; 0 if the budget was too small for any.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    item_vectors_ : ndarray of shape (n_items, factors)
        Noisy components and, last, bias of each item.
    joint_ : bool
        Whether the file covers items only.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Noisy mean rating.
    one_list : str
        Why all users get one list and what would personalise it, in words; "" if they do not.
    residual_ : float
        Noisy variance of the residuals, in units of half the rating range.
    user_bias_ : float
        Estimated variance of users' biases, in units of half the rating range.
    user_kind_ : str
        Type of the public user ids, "integers" or "text"; "" without a list.
    user_vectors_ : ndarray of shape (n_users, factors)
        Noisy components and, last, bias of each user; users' own in a personal copy.

    Notes
    -----
    **Guarantee.** The file is (epsilon, delta)-differentially private for one unit under add/remove
    adjacency. The data enters only as sums of clipped integers with discrete Gaussian noise
    (alternating least squares on noisy sufficient statistics); biases, components, their number and
    the mean are computed from those sums. With covers "joint", the vectors of `personal` depend on
    their user's own ratings, and what all others receive is private for that user (joint
    differential privacy). The model does not record which users were in the data; a user who is not
    listed gets the mean and the items' biases.

    References
    ----------
    .. [1] McSherry, Mironov. "Differentially Private Recommender Systems". KDD 2009.
       https://doi.org/10.1145/1557019.1557090
    .. [2] Chien, Jain, Krichene, Rendle, Song, Thakurta, Zhang. "Private Alternating Least Squares:
       Practical Private Matrix Completion with Tighter Rates". ICML 2021 (noisy alternating least
       squares, joint privacy). https://arxiv.org/abs/2107.09802

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> world = generate_world(users=60, items=40, ratings=900, random_state=1).interactions
    >>> model = PrivateFactorization(epsilon=8, delta=1e-6, bounds=(1, 5))
    >>> model.fit(world, users=range(60), catalogue=range(40)).predict(3, [1, 2]).shape
    (2,)
    >>> model.statement.unit, model.statement.epsilon <= 8
    ('event', True)
    """

    version = 2  # a key has one hash, whatever its type
    LIMITS: ClassVar[dict[str, Limit]] = {
        "epsilon": positive,
        "delta": fraction,
        "bounds": BOUNDS,
        "unit": one_of(("event", "user")),
        "covers": one_of(("file", "joint")),
        "factors": optional(integer(1, WIDEST)),
        "per_user": optional(integer(1, 2**20)),
        "rows": optional(integer(1, MOST_ROWS)),
        "seed": SEED,
        "privacy": PRIVACY,
    }

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        bounds: tuple[float, float],
        unit: str = "event",
        covers: str = "file",
        factors: int | None = None,
        per_user: int | None = None,
        rows: int | None = None,
        seed: int = 0,
        privacy: Privacy | None = None,
    ) -> None:
        self.bounds: tuple[float, float]
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.factors: int | None
        self.unit, self.covers, self.factors = unit, covers, factors
        self.per_user: int | None
        self.rows: int | None
        self.seed: int
        self.privacy: Privacy | None
        self.per_user, self.rows, self.seed, self.privacy = per_user, rows, seed, privacy

    def fit(
        self,
        train: Interactions,
        *,
        catalogue: Any = None,
        users: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        release_id: str | None = None,
        source: Source | None = None,
    ) -> Self:
        """Charge the budget, add the noise and fit the model.

        With a ledger, the charge and the model are stored there before the call returns.

        Parameters
        ----------
        train : Interactions
            Ratings. Rows outside of the public lists are ignored, ratings outside of the bounds
            clipped, and an empty data set is accepted, all silently, since a message would reveal
            data (`Interactions.outside` counts them for the curator). Make it with `invalid="drop"`
            and, if it is read from a file, `duplicates="keep"`: when duplicates replace each other,
            adding one row can change two.
        catalogue : array_like or None, default=None
            Public ids of the items. Required. They must not be taken from `train`.
        users : array_like or None, default=None
            Public ids of the users, for unit "event" without `rows`. They must not be taken from
            `train`; an integer id equals its text, 7 and "7".
        ledger : Ledger, path_like or None, default=None
            Ledger that is charged; None charges none.
        dataset : str or None, default=None
            Data set of the ledger.
        release_id : str or None, default=None
            Name of the release; repeating it with the same parameters returns the stored model at
            no cost.
        source : Source or None, default=None
            Source of the noise, for tests only.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check()
        self._check_train(train, empty=True)
        items, accounts = catalogue_of(catalogue), accounts_of(plain, train, users)
        request = self._request(plain, ledger, dataset, release_id, source)
        events = events_of(train, items, accounts, plain["bounds"])
        if plain["unit"] == "user":
            events = bounded(events, accounts, plain["per_user"], plain["seed"])
        return self._publish(plain, request, events, items, accounts)

    def fit_rows(
        self,
        source: Any,
        *,
        engine: "Engine",
        columns: tuple[str, str, str] = ("user", "item", "rating"),
        catalogue: Any = None,
        users: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        release_id: str | None = None,
        random_source: Source | None = None,
    ) -> Self:
        """Fit the model to ratings on an engine, whose partitions return exact sums alone.

        Parameters
        ----------
        source : object
            What the engine reads: see the engine. Rows are treated as by `fit`; a row without user,
            item or finite rating is ignored.
        engine : Engine
            Where the work runs: `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`.
        columns : tuple of str, default=('user', 'item', 'rating')
            Names of the columns of users, items and ratings.
        catalogue : array_like or None, default=None
            Public ids of the items. Required.
        users : array_like or None, default=None
            Public ids of the users, as in `fit`.
        ledger : Ledger, path_like or None, default=None
            Ledger that is charged; None charges none.
        dataset : str or None, default=None
            Data set of the ledger.
        release_id : str or None, default=None
            Name of the release, as in `fit`.
        random_source : Source or None, default=None
            Source of the noise, for tests only.

        Returns
        -------
        Self
            The object itself.

        Notes
        -----
        **Guarantee.** The guarantee and, for the same noise, the bytes of `fit` on the same rows,
        in any order and any partitions; at user level if no user rated an item twice, of which one
        rating is taken by a hash. The caller's process charges the budget once, after the rows
        were read, and adds noise once to each sum of all partitions, so that partitions which are
        computed again change nothing. If the engine fails for good after the charge, repeating the
        call with the same `release_id` costs nothing more.

        Examples
        --------
        >>> from sfumato.engine import LocalEngine
        >>> ratings = {"user": [1, 1, 2], "item": [10, 20, 10], "rating": [5, 1, 4]}
        >>> lists = {"users": [1, 2, 3], "catalogue": [10, 20, 30]}
        >>> model = PrivateFactorization(epsilon=8, delta=1e-6, bounds=(1, 5))
        >>> model = model.fit_rows(ratings, engine=LocalEngine(), **lists)
        >>> model.predict(3, [10, 20]).shape
        (2,)
        """
        from sfumato.recommend.private.event_rows import EventRows  # and with it the engines

        plain = self._check()
        items, accounts = catalogue_of(catalogue), accounts_of(plain, None, users)
        request = self._request(plain, ledger, dataset, release_id, random_source)
        rows = engine.rows(source, columns, private=True)
        events = EventRows(rows, columns, plain, items, accounts)
        try:
            return self._publish(plain, request, events, items, accounts)
        finally:
            events.unpersist()

    def _request(
        self,
        plain: dict[str, Any],
        ledger: Any,
        dataset: str | None,
        release_id: str | None,
        source: Source | None,
    ) -> ReleaseRequest:
        """Check who pays for what, before rows are read."""
        owner = type(self).__name__
        check_privacy(owner, self.privacy, plain)
        paid = payer(owner, self.privacy, ledger, dataset, release_id)
        return release_request(plain, ReleaseOptions(**paid, source=source), owner)  # type: ignore[typeddict-item]

    def _publish(
        self,
        plain: dict[str, Any],
        request: ReleaseRequest,
        events: EventSums,
        items: Catalogue,
        accounts: Accounts,
    ) -> Self:
        """Charge the budget, fit to noisy sums of the events, and take over the result."""
        budget = Budget.of(plain["epsilon"], plain["delta"])
        sums = NoisySums(events, budget, request.contributions, request.source)
        stored = len(items) + (len(accounts) if plain["covers"] == "file" else 0)
        request.check_room(4 * WIDEST * stored)

        def made(statement: PrivacyStatement) -> Any:
            learned = learn(plain, sums)
            file = plain["covers"] == "file"
            known = centred(learned) if accounts.shared and file else learned
            return self._made(plain, known, items, accounts, statement)

        new = published(request, budget.loss, sentence(plain), plain, type(self), made)
        self.__dict__.update({**new.__dict__, **self.get_params()})  # parameters stay as given
        self._changed()
        return self

    def personal(self, own: Interactions) -> Self:
        """Return a copy that has vectors for these users, from their own ratings.

        For covers "joint". What the copy predicts for a user may depend on that user's ratings; it
        is private for all other users. `save` refuses the copy.

        Parameters
        ----------
        own : Interactions
            Ratings of the users; may be empty.

        Returns
        -------
        Self
            A copy with `user_vectors_` of these users.
        """
        self._check_fitted()
        if not self.joint_:
            raise ValueError(
                "PrivateFactorization: personal is for covers='joint'; the users of this model "
                "have noisy vectors of their own."
            )
        self._check_train(own, "own", empty=True)
        twin = copy(self)
        twin._accounts = Accounts(distinct(own.by_row().users)[0])
        events = events_of(own, self.catalogue_, twin._accounts, (self.low_, self.high_))
        twin.user_vectors_ = _as_stored(own_vectors(events, self._noisy()), self._half, self._half)
        return twin

    def _check_together(self, plain: dict[str, Any]) -> None:
        if plain["unit"] == "user" and plain["covers"] == "file":
            raise ValueError(
                "PrivateFactorization: covers must be 'joint' for unit 'user': a user's vector in "
                "a published file is that user's own data, and noise that protects it would leave "
                "no signal."
            )
        if plain["unit"] == "user" and plain["rows"] is not None:
            raise ValueError(
                "PrivateFactorization: rows must be None for unit 'user': its file has no users."
            )
        if (plain["unit"] == "user") != (plain["per_user"] is not None):
            raise ValueError(
                "PrivateFactorization: per_user must be given for unit 'user', and only for it: "
                "the most ratings of a user that are used."
            )

    def _made(
        self,
        plain: dict[str, Any],
        learned: NoisyFactors,
        catalogue: Catalogue,
        accounts: Accounts,
        statement: PrivacyStatement,
    ) -> Self:
        """Return a new model of noisy factors and public lists."""
        new = type(self)(**self.get_params())
        new._fitted = {**plain, "privacy": None}
        new.low_, new.high_ = plain["bounds"]
        half = new._half
        new.mean_ = new.low_ + half * (1 + learned.mean)
        new.residual_, new.user_bias_ = learned.residual, learned.user_bias
        new.joint_ = plain["covers"] == "joint"
        new._accounts = Accounts(np.empty(0, np.int64)) if new.joint_ else accounts
        new._kind = kind_of(new._accounts.ids)
        new.user_kind_ = new._kind if new._accounts.ids.size else ""  # of the public list alone
        new.user_vectors_ = _as_stored(learned.users[: len(new._accounts)], half, half)
        new.item_vectors_ = _as_stored(learned.items, half, 1.0)
        new.catalogue_, new._statement = catalogue, statement
        return new

    @property
    def _half(self) -> float:
        """Half the range of the ratings."""
        return (self.high_ - self.low_) / 2

    def _noisy(self) -> NoisyFactors:
        """Return the items' factors in units of half the range."""
        items = self.item_vectors_.astype(np.float64)
        q = np.concatenate([items[:, -1:] / self._half, items[:, :-1]], axis=1)
        mean = (self.mean_ - self.low_) / self._half - 1
        return NoisyFactors(mean, q[:0], q, self.residual_, self.user_bias_)

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        return _rows(self.user_vectors_, self._accounts.positions(ids))

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        return _rows(self.item_vectors_, self.catalogue_.positions(ids))


def _as_stored(vectors: np.ndarray, bias: float, component: float) -> np.ndarray:
    """Return components, at least one, and last the bias, in the unit of the ratings."""
    parts = vectors[:, 1:] * component if vectors.shape[1] > 1 else np.zeros((len(vectors), 1))
    return np.concatenate([parts, vectors[:, :1] * bias], axis=1).astype(np.float32)


def _rows(vectors: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the rows at these positions, zeros for -1."""
    padded = np.concatenate([vectors, np.zeros((1, vectors.shape[1]), np.float32)])
    return np.asarray(padded[at])
