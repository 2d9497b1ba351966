"""Dense factorization: a vector of its own for every user and item."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator

from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, RandomState, between
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.kernels.alignment import aligned
from sfumato.kernels.recommend import sgd_dense as factor_dense
from sfumato.kernels.recommend import sgd_ranking
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue
from sfumato.recommend.factorization.damping import BiasPrior
from sfumato.recommend.factorization.passes import Regions, in_ratings
from sfumato.recommend.factorization.preferences import shrinkages, trust
from sfumato.recommend.factorization.sgd import START, Descent
from sfumato.recommend.factorization.vector_cache import VectorCache

__all__ = ["DenseFactorization"]

PADDING = 16  # numbers after the last row: kernels read complete blocks
SIDES = ("user", "item")
FEW = 256  # rows whose ids are looked up one by one


class _PenaltiesLimit:
    """Limit of penalties: a number from 0 up, or four, of users, items and the biases of both."""

    number = between(0, math.inf)

    def check(self, owner: str, name: str, value: Any) -> float | tuple[float, ...]:
        if not isinstance(value, tuple | list):
            return self.number.check(owner, name, value)
        if len(value) != 4:
            wanted = "a number from 0 up, or four: of users, items, user biases and item biases"
            raise ParameterError.of(owner, name, f"must be {wanted}, not {value!r:.200}.")
        return tuple(self.number.check(owner, name, each) for each in value)

    def bad(self) -> list[Any]:
        return [*self.number.bad(), (), (0.1, 0.1), (0.1, 0.1, 0.1, -0.1)]


class DenseFactorization(Descent):
    """Matrix factorization fitted by stochastic gradient descent, one vector per user and item.

    Memory grows with the number of users and items; `SketchFactorization` has a fixed size. Not
    differentially private.

    Parameters
    ----------
    objective : {"ratings", "ranking"}, default="ratings"
        What is learned: to predict ratings, or to rank items. For "ranking" every row is a
        preference whatever its rating (drop low ones with `Interactions.filter`), learned by a
        softmax against items drawn by popularity; scores are log P(item) plus what the components
        add, up to a constant for each user.
    factors : int, default=32
        Number of factors per user and item, including the bias, from 1 to 4096.
    epochs : int, default=20
        Passes of `fit` over the data, at least 1.
    learning_rate : float, default=0.05
        Initial learning rate eta, above 0, for ratings in stars; epoch t of T uses `eta / (1 +
        decay * t / T)`.
    decay : float, default=6.0
        Decay of the learning rate, at least 0.
    regularization : float or tuple of float, default=0.05
        L2 penalty lambda of components per rating, at least 0. Above 0, `fit` also damps biases;
        see Notes. Four numbers are the penalties per rating of users' components, items'
        components, user biases and item biases, without damping; for ratings only.
    clip : float or None, default=None
        Largest loss `(rating - prediction)**2 / 2`, above 0; in an epoch, ratings with a larger
        loss are skipped. None skips none.
    noise : float or None, default=None
        Temperature of Langevin dynamics, above 0; 1 samples the posterior for ratings of variance
        1. None adds no noise.
    threads : int, default=1
        Most threads of a pass, from 1 to 256. They update shared tables without locks, so that two
        runs with several threads differ. Passes over fewer than 65,536 rows, and tables of less
        than 8 MiB, take one: threads would wait for each other's cache lines.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None takes them from the data.
    random_state : int, Generator or None, default=0
        Seed of initialisation, shuffling and noise.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    hides_ : bool
        Whether all training used `clip` or `noise`.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    history_ : list of dict
        "epoch" and "valid_rmse" (for rankings "valid_ndcg"; None without validation data) of each
        epoch of `fit`.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean of all training ratings.
    scale_ : float
        Rating units per star, in which learning rates are: the range of the ratings divided by
        that of five stars, 4, or, in `fit`, their deviation around the biases divided by 0.9 if
        that is more.
    seen_ : int
        Number of ratings learned from.
    user_kind_ : str
        Type of user ids, "integers" or "text".

    Notes
    -----
    **Guarantee.** With one thread, the same `random_state` gives bitwise the same model. A user or
    item that was not in the training data has a zero vector, so that the other side's bias decides.
    For rankings the bias of an item is its log-probability, so an unknown user gets the items by
    popularity, and a user's components are weighted by n / (n + 5) for n rows.
    No privacy is proved: with `clip` or `noise`, `privacy_label` is "measured", otherwise "none".

    `fit` shrinks all biases after each epoch as if every user and item came with more ratings equal
    to the mean. How many is estimated from the variances of biases and residuals in the data
    (empirical Bayes), for users and items apart, so that ids with few ratings are not overfitted.
    There is no damping with `clip` or `noise`, nor in `partial_fit`, which makes a single pass.

    References
    ----------
    .. [1] Koren, Bell, Volinsky. "Matrix Factorization Techniques for Recommender Systems". IEEE
       Computer 2009. https://doi.org/10.1109/MC.2009.263
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.2.5 (matrix factorization).
       https://theses.hal.science/tel-01430156
    .. [3] Oord, Li, Vinyals. "Representation Learning with Contrastive Predictive Coding". 2018,
       section 2.3 (softmax against samples of the marginal). https://arxiv.org/abs/1807.03748

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> ratings = Interactions(users=[1, 1, 2, 2], items=[10, 20, 10, 30], ratings=[5, 1, 4, 2])
    >>> model = DenseFactorization(factors=4).fit(ratings)
    >>> bool(model.predict(1, 10)[0] > model.predict(1, 20)[0])
    True
    """

    LIMITS: ClassVar[dict[str, Limit]] = {**Descent.LIMITS, "regularization": _PenaltiesLimit()}
    _known_users: SortedCatalogue
    _known_items: SortedCatalogue
    _factors: int
    _user_table: np.ndarray
    _item_table: np.ndarray
    _user_counts: np.ndarray  # of a model that ranks: rows of each user

    def __init__(
        self,
        *,
        objective: str = "ratings",
        factors: int = 32,
        epochs: int = 20,
        learning_rate: float = 0.05,
        decay: float = 6.0,
        regularization: float | tuple[float, ...] = 0.05,
        clip: float | None = None,
        noise: float | None = None,
        threads: int = 1,
        bounds: tuple[float, float] | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.objective = objective
        self.epochs: int
        self.factors, self.epochs = factors, epochs
        self.learning_rate: float
        self.decay: float
        self.learning_rate, self.decay = learning_rate, decay
        self.regularization: float | tuple[float, ...]
        self.regularization, self.clip, self.noise = regularization, clip, noise
        self.threads: int
        self.bounds: tuple[float, float] | None
        self.threads, self.bounds, self.random_state = threads, bounds, random_state

    def resize(self, factors: int) -> Self:
        """Change the number of factors of a fitted model.

        Biases and the first components stay; new components start at small random values.

        Parameters
        ----------
        factors : int
            Number of factors per user and item, including the bias, from 1 to 4096.

        Returns
        -------
        Self
            The object itself.
        """
        self._check_fitted()
        wanted = self.LIMITS["factors"].check(type(self).__name__, "factors", factors)
        random = np.random.default_rng([self._check()["random_state"], wanted])
        tables = [_resized(_rows(table, self._factors), wanted, random) for table in self._tables()]
        self.factors = self._factors = wanted
        (self._user_table, self._item_table) = tables
        self._changed()
        return self

    def _begin(self, plain: dict[str, Any], train: Interactions, random: Generator) -> None:
        coded = train.coded()
        self._factors = plain["factors"]
        self._known_users, self._known_items = (
            SortedCatalogue(coded.user_ids),
            SortedCatalogue(coded.item_ids),
        )
        self._user_table = _padded(_started(len(self._known_users), self._factors, random))
        self._item_table = _padded(_started(len(self._known_items), self._factors, random))
        self._user_counts = np.zeros(len(self._known_users), np.int64)

    def _make_room(
        self, plain: dict[str, Any], batch: Interactions
    ) -> tuple[np.ndarray, np.ndarray]:
        columns = self._columns(batch)
        if all(np.minimum.reduce(codes) >= 0 for codes in columns):
            return columns
        random = np.random.default_rng([plain["random_state"], self.seen_, 1])
        coded = batch.coded()
        for side, ids in zip(SIDES, (coded.user_ids, coded.item_ids), strict=True):
            known, table = getattr(self, f"_known_{side}s"), getattr(self, f"_{side}_table")
            more = ids[known.positions(ids) < 0]
            if more.size:
                rows = _rows(table, self._factors), _started(more.size, self._factors, random)
                setattr(self, f"_known_{side}s", SortedCatalogue(np.concatenate([known.ids, more])))
                setattr(self, f"_{side}_table", _padded(np.concatenate(rows)))
        new = np.zeros(len(self._known_users) - self._user_counts.size, np.int64)
        self._user_counts = np.append(self._user_counts, new)
        return self._columns(batch)

    def _columns(self, data: Interactions) -> tuple[np.ndarray, np.ndarray]:
        if len(data) < FEW:  # codes cost more than they save
            users = self._known_users._few(data.users).astype(np.int32)
            return users, self._known_items._few(data.items).astype(np.int32)
        coded = data.coded()
        users = self._known_users.positions(coded.user_ids).astype(np.int32)
        items = self._known_items.positions(coded.item_ids).astype(np.int32)
        return users[coded.user_codes], items[coded.item_codes]

    def _tables(self) -> list[np.ndarray]:
        return [self._user_table, self._item_table]

    def _regions(self, users: np.ndarray, items: np.ndarray) -> Regions:
        both = zip(self._tables(), (users, items), strict=True)
        return [(table, _blocks(rows, self._factors, table.size)) for table, rows in both]

    def _check(self) -> dict[str, Any]:
        plain = super()._check()
        if plain["objective"] == "ranking" and isinstance(plain["regularization"], tuple):
            wanted = 'must be one number for objective="ranking", which learns no biases.'
            raise ParameterError.of(type(self).__name__, "regularization", wanted)
        return plain

    def _step(
        self, plain: dict[str, Any], rate: float, clip: float, log: np.ndarray
    ) -> Callable[..., float | None]:
        weights = plain["regularization"]
        if not isinstance(weights, tuple):
            weights = (weights, weights, *2 * [0.0 if self._damps_biases(plain) else weights])
        steps = _steps(self._factors, rate, weights)
        kernel = factor_dense.descend_two if self._factors == 32 else factor_dense.descend

        def run(users: np.ndarray, items: np.ndarray, ratings: np.ndarray) -> float:
            given = np.float32(clip), *steps, log, *self._tables()
            return float(kernel(users, items, ratings, *given))

        return run

    def _log(self, rows: int) -> np.ndarray | None:
        size = 2 * rows * -(-self._factors // PADDING) * PADDING
        tables = self._user_table.size + self._item_table.size
        return np.empty(size, np.float32) if 2 * size <= tables else None

    def _restore(self, users: np.ndarray, items: np.ndarray, log: np.ndarray) -> None:
        factor_dense.undo(users, items, self._factors, log, *self._tables())

    def _own_tables(self) -> None:
        self._user_table, self._item_table = (
            _padded(_rows(table, self._factors)) for table in self._tables()
        )
        self._user_counts = self._user_counts.copy()
        if self._popularity is not None:
            self._popularity = self._popularity.copy()

    def _changes(self, batch: Interactions, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        if self._popularity is None:
            return batch.items
        learned = self._known_items.ids[items]  # drawn items among them
        return np.concatenate([batch.items, learned])

    def _most_changes(self) -> int:
        return len(self.catalogue_) // 4

    def _changed_positions(self, changes: list[np.ndarray], cache: VectorCache) -> np.ndarray:
        found = np.unique(self.catalogue_._few(np.concatenate(changes)))
        return found[found >= 0]

    def _pair_score(self, users: Any, items: Any) -> float | None:
        one = self._one_pair(users, items)
        if one is None or self._popularity is not None:
            return None
        rows = self._known_users._position(one[0]), self._known_items._position(one[1])
        weights = in_ratings(self._factors, self.scale_)
        return float(factor_dense.pair(*self._tables(), *rows, weights, self.mean_))

    def _ranking_step(self, plain: dict[str, Any], rate: float, seed: int) -> Callable[..., Any]:
        assert self._popularity is not None
        blocks, negatives = -(-self._factors // PADDING), self._popularity.negatives
        scale = np.zeros(blocks * PADDING, np.float32)
        scale[: self._factors - 1] = 1  # no bias is learned
        rates, kernel = shrinkages(rate, plain["regularization"]), sgd_ranking.ranker(blocks, 0)

        def run(users: np.ndarray, items: np.ndarray, rows: np.ndarray) -> None:
            if negatives is not None:
                given = np.uint64(seed), *negatives, self._factors, rates, scale
                kernel(users, items, rows, *given, *self._tables())

        return run

    def _remember(self, users: np.ndarray) -> None:
        if self._popularity is not None:
            np.add.at(self._user_counts, users, 1)

    def _codes(self, items: np.ndarray) -> np.ndarray:
        return self._known_items.positions(items).astype(np.int32)

    def _damper(self, train: Interactions, prior: BiasPrior) -> Callable[[float], Any]:
        tables = [_rows(table, self._factors) for table in self._tables()]
        coded = train.coded()
        for table, biases, known, ids in (
            (tables[0], prior.user_biases, self._known_users, coded.user_ids),
            (tables[1], prior.item_biases, self._known_items, coded.item_ids),
        ):
            table[known.positions(ids), -1] = biases

        def damp(rate: float) -> None:
            for table, damping in zip(
                tables, (prior.user_damping, prior.item_damping), strict=True
            ):
                table[:, -1] /= np.float32(1 + rate * damping)

        return damp

    def _add_noise(self, deviation: float, random: Generator) -> None:
        for table in self._tables():
            size = table.size - PADDING
            table[:-PADDING] += random.standard_normal(size, np.float32) * np.float32(deviation)

    def _vectors(self, known: SortedCatalogue, table: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the vectors of these ids in the unit of the ratings; zeros for unknown ids."""
        found = known.positions(ids)
        out: np.ndarray = _rows(table, self._factors)[found] * in_ratings(
            self._factors, self.scale_
        )
        out[found < 0] = 0
        return out

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        vectors = self._vectors(self._known_users, self._user_table, ids)
        if self._popularity is None:
            return vectors
        found = self._known_users.positions(ids)
        rows = np.where(found >= 0, self._user_counts[found], 0)
        return np.asarray(vectors * trust(rows))

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        vectors = self._vectors(self._known_items, self._item_table, ids)
        return vectors if self._popularity is None else self._ranked_items(ids, vectors)

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays: dict[str, np.ndarray] = {}
        for side, table in zip(SIDES, self._tables(), strict=True):
            known = getattr(self, f"_known_{side}s")
            arrays |= {f"{side}_{name}": array for name, array in known.arrays().items()}
            arrays[f"{side}_rows"] = _rows(table, self._factors)
        if self._popularity is not None:
            arrays["user_counts"] = self._user_counts
        return {**arrays, **super()._arrays()}

    def _layout(self) -> dict[str, Cells]:
        layout: dict[str, Cells] = {}
        for side, kind in zip(SIDES, self._kinds, strict=True):
            layout |= {f"{side}_{name}": cells for name, cells in Catalogue.layout(kind).items()}
            layout[f"{side}_rows"] = Cells(np.float32, (-1, self._factors))
        if self._ranks:
            layout["user_counts"] = Cells(np.int64, (-1,))
        return {**layout, **super()._layout()}

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "users": self._known_users.kind,
            "items": self._known_items.kind,
            "factors": self._factors,
        }

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._kinds = state["users"], state["items"]
        self._factors = self.LIMITS["factors"].check("state", "factors", state["factors"])

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_arrays(arrays)
        counts = arrays.pop("user_counts", None)
        for side in SIDES:
            own = {name: array for name, array in arrays.items() if name.startswith(side)}
            rows = own.pop(f"{side}_rows")
            ids = {name.removeprefix(f"{side}_"): array for name, array in own.items()}
            known = SortedCatalogue.from_arrays(ids)
            if rows.shape[0] != len(known) or not np.isfinite(rows).all():
                raise ValueError(f"{side}_rows must be finite, one row for each {side}.")
            setattr(self, f"_known_{side}s", known)
            setattr(self, f"_{side}_table", _padded(rows))
        self._user_counts = np.zeros(len(self._known_users), np.int64)
        if counts is not None:
            if counts.shape != self._user_counts.shape or (counts < 0).any():
                raise ValueError("user_counts must be at least 0, one for each user.")
            self._user_counts = counts


@lru_cache(64)
def _steps(
    factors: int, rate: float, weights: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the step of each number, and its shrinkage for users and for items."""
    step = np.zeros(factors + PADDING, np.float32)
    step[:factors] = rate
    shrinks = [-step * np.float32(weight) for weight in weights[:2]]
    for shrink, weight in zip(shrinks, weights[2:], strict=True):
        shrink[factors - 1] = -step[factors - 1] * np.float32(weight)
    return step, shrinks[0], shrinks[1]


def _rows(flat: np.ndarray, factors: int) -> np.ndarray:
    """Return a flat table as rows, without the padding at its end."""
    return flat[:-PADDING].reshape(-1, factors)


def _blocks(rows: np.ndarray, factors: int, size: int) -> np.ndarray | None:
    """Return the positions that kernels write for these rows, in complete blocks; None if most."""
    lanes = np.arange(-(-factors // PADDING) * PADDING)
    if 4 * rows.size * lanes.size >= size:
        return None
    return np.asarray(rows.astype(np.int64)[:, None] * factors + lanes)


def _padded(rows: np.ndarray) -> np.ndarray:
    """Return these rows as a flat, aligned table with padding at its end."""
    flat = aligned(rows.size + PADDING, np.float32)
    flat[:-PADDING] = rows.ravel()
    return flat


def _started(count: int, factors: int, random: Generator) -> np.ndarray:
    """Return rows of small random components and biases of 0."""
    rows = random.standard_normal((count, factors), np.float32) * np.float32(START)
    rows[:, -1] = 0
    return rows


def _resized(rows: np.ndarray, factors: int, random: Generator) -> np.ndarray:
    """Return a table with the common components and biases of these rows."""
    resized = _started(rows.shape[0], factors, random)
    common = min(factors, rows.shape[1]) - 1
    resized[:, :common], resized[:, -1] = rows[:, :common], rows[:, -1]
    return _padded(resized)
