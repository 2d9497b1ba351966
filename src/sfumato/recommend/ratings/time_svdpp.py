"""SVD++ in time: users who drift and have days, items whose popularity changes."""

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import RANDOM_STATE, Limit, RandomState, integer, positive
from sfumato.data.interactions import Interactions
from sfumato.recommend.base import finite_number
from sfumato.recommend.factorization.epochs import run_epochs
from sfumato.recommend.factorization.sgd import STARS
from sfumato.recommend.factorization.stored_vectors import FACTORS
from sfumato.recommend.factorization.svdpp_training import PENALTIES, PENALTY
from sfumato.recommend.ranking import ranked_tables, row_blocks
from sfumato.recommend.ratings.base import RatingModel, times_of
from sfumato.recommend.ratings.rated_rows import RatedRows
from sfumato.recommend.ratings.time_training import TimeTraining, bins_of, day_keys, deviations

__all__ = ["TimeSVDpp"]

RIDGE = 0.05  # of a new user's ratings, per item
FOLDED = 4.0  # and in all


class TimeSVDpp(RatingModel):
    """SVD++ whose biases and user vectors change with time.

    Beside what `SVDpp` learns, an item has a bias in each bin of time, a user a bias on each day
    with ratings, and bias and vector of a user drift with the time since the user's mean date. Not
    differentially private.

    Parameters
    ----------
    factors : int, default=128
        Number of factors per user and item, including the bias, from 1 to 4096.
    epochs : int, default=60
        Passes over the data, at least 1.
    learning_rate : float, default=0.02
        Initial learning rate eta, above 0, for ratings in stars; epoch t of T uses `eta / (1 +
        decay * t / T)`.
    decay : float, default=20.0
        Decay of the learning rate, at least 0.
    regularization : float, default=0.04
        L2 penalty of user and item vectors per rating, at least 0. Above 0, biases are damped as in
        `SVDpp`.
    implicit_regularization : float, default=0.5
        L2 penalty of the vectors of rated items, per rating, at least 0.
    bin_days : float, default=70.0
        Length of a bin of time of items in days, above 0.
    bin_regularization : float, default=10.0
        L2 penalty of an item's bias in a bin, per rating, at least 0.
    day_regularization : float, default=0.3
        L2 penalty of a user's bias on a day, per rating, at least 0.
    drift_regularization : float, default=0.3
        L2 penalty of the drift of a user, per rating, at least 0.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None takes them from the data.
    random_state : int, Generator or None, default=0
        Seed of initialisation and order.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    history_ : list of dict
        "epoch" of each epoch of `fit`.
    latest_ : float
        Latest time of the training data.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean rating of the training data.
    users_ : Catalogue
        Users with training ratings.

    Notes
    -----
    **Guarantee.** The prediction at time t, in seconds, is ``mean_ + b_u + alpha_u dev_u(t) +
    b_u,day(t) + b_i + b_i,bin(t) + q_i.(p_u + s_u + a_u dev_u(t))``, clipped to [`low_`, `high_`],
    with the sum s_u of `SVDpp` and ``dev_u(t) = sign(t - m) |(t - m) / year|**0.4`` for the mean
    time m of the user's ratings. A time before or after all ratings of a user counts as the first
    or last of them, one before or after all ratings as that of the first or last bin, and the bias
    of a day without ratings is 0. Unknown users and items have biases and vectors of 0. The same
    `random_state` gives bitwise the same model. A new user of `recommend_fold_in` has no days and
    no drift.

    `fit` takes about twice the time and memory of `SVDpp`.

    References
    ----------
    .. [1] Koren. "Collaborative Filtering with Temporal Dynamics". KDD 2009, sections 3 and 4.
       https://doi.org/10.1145/1557019.1557072

    Examples
    --------
    >>> times = [0, 864000, 0, 432000]
    >>> ratings = Interactions([1, 1, 2, 2], [10, 20, 10, 30], [5, 1, 4, 2], times)
    >>> model = TimeSVDpp(factors=4).fit(ratings)
    >>> bool(model.predict(1, 10, times=0)[0] > model.predict(1, 20, times=864000)[0])
    True
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "factors": FACTORS,
        "epochs": integer(1),
        "learning_rate": positive,
        "decay": PENALTY,
        "regularization": PENALTY,
        "implicit_regularization": PENALTY,
        "bin_days": positive,
        "bin_regularization": PENALTY,
        "day_regularization": PENALTY,
        "drift_regularization": PENALTY,
        **RatingModel.LIMITS,
        "random_state": RANDOM_STATE,
    }
    history_: list[dict[str, Any]]
    latest_: float
    random_state: RandomState
    _bin_seconds: float
    _earliest: float
    _user_rows: np.ndarray  # components with the implicit sum and, last, the bias of each user
    _drift_rows: np.ndarray  # what dev_u(t) multiplies, in the same order
    _item_rows: np.ndarray
    _implicit_rows: np.ndarray
    _bin_biases: np.ndarray  # (n_items, n_bins)
    _user_times: np.ndarray  # first, mean and last time of each user
    _days: np.ndarray  # user row * number of days + day, sorted
    _day_biases: np.ndarray

    def __init__(
        self,
        *,
        factors: int = 128,
        epochs: int = 60,
        learning_rate: float = 0.02,
        decay: float = 20.0,
        regularization: float = 0.04,
        implicit_regularization: float = 0.5,
        bin_days: float = 70.0,
        bin_regularization: float = 10.0,
        day_regularization: float = 0.3,
        drift_regularization: float = 0.3,
        bounds: tuple[float, float] | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.factors: int
        self.epochs: int
        self.factors, self.epochs = factors, epochs
        self.learning_rate: float
        self.decay: float
        self.regularization: float
        self.learning_rate, self.decay, self.regularization = learning_rate, decay, regularization
        self.implicit_regularization: float
        self.bin_days: float
        self.implicit_regularization, self.bin_days = implicit_regularization, bin_days
        self.bin_regularization = bin_regularization
        self.day_regularization = day_regularization
        self.drift_regularization = drift_regularization
        self.bounds, self.random_state = bounds, random_state

    @property
    def uses_times(self) -> bool:
        """True: predictions depend on times."""
        return True

    def predict(self, users: Ids, items: Ids, times: Any = None) -> np.ndarray:
        """Predict the rating of each user for the corresponding item at a time.

        Parameters
        ----------
        users : array_like or scalar
            User ids; a single id is paired with every item.
        items : array_like or scalar
            Item ids of the same length; a single id is paired with every user.
        times : array_like, scalar or None, default=None
            Time of each rating in seconds, or one for all; None means `latest_`.

        Returns
        -------
        ndarray of shape (n,)
            Predicted ratings, float64, clipped to [`low_`, `high_`].
        """
        return self._clipped_pairs(users, items, times)

    def recommend(
        self,
        users: Ids,
        n: int = 10,
        *,
        exclude: Interactions | None = None,
        filter: Any = None,
        times: Any = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend the items with the highest predictions to each user.

        Parameters
        ----------
        users : array_like or scalar
            User ids.
        n : int, default=10
            Number of items per user, at least 1.
        exclude : Interactions or None, default=None
            Items that the users beside them do not get, usually the training data.
        filter : object, default=None
            Boolean mask over `catalogue_`: only items that are True are recommended.
        times : array_like, scalar or None, default=None
            Time of each user's list in seconds, or one for all; None means `latest_`.

        Returns
        -------
        items : ndarray of shape (n_users, n)
            Item ids, best first; -1 or None as padding. Of shape (k,), k <= n, for a single user.
        scores : ndarray of shape (n_users, n)
            Their predictions before clipping; -inf as padding.
        """
        self._check_fitted()
        if times is None:
            return super().recommend(users, n, exclude=exclude, filter=filter)
        owner, kind = type(self).__name__, self.users_.kind

        def tables(who: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
            rows, when = self.users_.positions(who), times_of(owner, times, who.size)
            for part in row_blocks(who.size, len(self.catalogue_)):
                yield part, self._scores_at(rows[part], when[part])

        return ranked_tables(owner, self.catalogue_, kind, users, n, exclude, filter, tables)

    def _learn(self, rows: RatedRows, plain: dict[str, Any]) -> bool | None:
        seed = self._new_seed()
        history: list[dict[str, Any]] = []
        own = dict.fromkeys(PENALTIES) | {**plain, "random_state": seed}
        low, high = plain["bounds"] or (float(rows.ratings.min()), float(rows.ratings.max()))
        mean = float(rows.ratings.mean(dtype=np.float64))
        scale = (high - low) / STARS or 1.0
        training = TimeTraining(type(self).__name__, own, rows, mean, scale)

        def epoch() -> None:
            training.epoch(len(history))
            history.append({"epoch": len(history) + 1})

        complete = run_epochs(plain["epochs"], epoch)
        self._seed, self.history_ = seed, history
        self.__dict__.update(training.learned())
        return complete

    def _predicted(
        self, rows: np.ndarray, columns: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        p, drift, q = (
            _taken(table, at)
            for table, at in (
                (self._user_rows, rows),
                (self._drift_rows, rows),
                (self._item_rows, columns),
            )
        )
        when = np.full(rows.size, self.latest_) if times is None else times
        late, days = self._dated(rows, when)
        z = p + drift * late[:, None]
        bins = np.where(columns >= 0, self._bin_biases[columns, self._bins(when)], 0)
        products = np.einsum("ij,ij->i", z[:, :-1], q[:, :-1])
        return np.asarray(self.mean_ + products + z[:, -1] + q[:, -1] + bins + days)

    def _table(self, rows: np.ndarray) -> np.ndarray:
        return self._scores_at(rows, np.full(rows.size, self.latest_))

    def _scores_at(self, rows: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the scores of all items for these users, each at one time."""
        late, days = self._dated(rows, times)
        z = _taken(self._user_rows, rows) + _taken(self._drift_rows, rows) * late[:, None]
        q = self._item_rows.astype(np.float64)
        bins = self._bin_biases.T[self._bins(times)]
        fixed = self.mean_ + (z[:, -1] + days)[:, None] + q[:, -1] + bins
        return np.asarray(z[:, :-1] @ q[:, :-1].T + fixed)

    def _dated(self, rows: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the deviation and the day's bias of each user at a time; 0 for unknown users."""
        first, mean, last = self._user_times[rows].T
        late = deviations(np.clip(times, first, last) - mean)
        keys = day_keys(rows, times, self._earliest, self.latest_)
        at = np.minimum(np.searchsorted(self._days, keys), self._days.size - 1)
        inside = (rows >= 0) & (self._days[at] == keys)
        return np.where(rows >= 0, late, 0.0), np.where(inside, self._day_biases[at], 0.0)

    def _bins(self, times: np.ndarray) -> np.ndarray:
        """Return the bin of each time."""
        return bins_of(times, self._earliest, self._bin_seconds, self._bin_biases.shape[1])

    def _folded_in(self, positions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
        q = self._item_rows.astype(np.float64)
        base = self.mean_ + q[:, -1] + self._bin_biases[:, -1]
        z = np.zeros(q.shape[1])
        if positions.size:
            z[:-1] = self._implicit_rows[positions].sum(0) / math.sqrt(positions.size)
            own = np.column_stack([q[positions, :-1], np.ones(positions.size)])
            ridge = (FOLDED + RIDGE * positions.size) * np.eye(z.size)
            z += np.linalg.solve(own.T @ own + ridge, own.T @ (ratings - base[positions] - own @ z))
        return np.asarray(base + q[:, :-1] @ z[:-1] + z[-1])

    def _explained(self, row: int, column: int, n: int) -> dict[str, Any]:
        rows, columns, when = np.array([row]), np.array([column]), np.array([self.latest_])
        (late,), (day,) = self._dated(rows, when)
        p, drift = _taken(self._user_rows, rows)[0], _taken(self._drift_rows, rows)[0]
        q = _taken(self._item_rows, columns)[0]
        terms = {
            "mean": self.mean_,
            "user_bias": p[-1],
            "user_drift": late * drift[-1],
            "user_day": day,
            "item_bias": q[-1],
            "item_bin": self._bin_biases[column, self._bins(when)[0]] if column >= 0 else 0.0,
            "components": p[:-1] @ q[:-1],
            "components_drift": late * (drift[:-1] @ q[:-1]),
        }
        plain = {name: float(value) for name, value in terms.items()}
        return {**plain, "score": sum(plain.values())}

    def _learned_layout(self) -> dict[str, Cells]:
        layout = dict.fromkeys(
            ("user_rows", "drift_rows", "item_rows", "implicit_rows", "bin_biases"),
            Cells(np.float32, (-1, -1)),
        )
        return {
            **layout,
            "user_times": Cells(np.float64, (-1, 3)),
            "days": Cells(np.int64, (-1,)),
            "day_biases": Cells(np.float32, (-1,)),
        }

    def _learned_arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, f"_{name}") for name in self._learned_layout()}

    def _restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        users, items, factors = len(self.users_), len(self.catalogue_), arrays["item_rows"].shape[1]
        shapes = {
            "user_rows": (users, factors),
            "drift_rows": (users, factors),
            "item_rows": (items, factors),
            "implicit_rows": (items, factors - 1),
            "bin_biases": (items, self._bin_count()),
            "user_times": (users, 3),
            "days": arrays["day_biases"].shape,
        }
        days = arrays["days"]
        sound = all(arrays[name].shape == shape for name, shape in shapes.items()) and factors > 0
        finite = all(np.isfinite(array).all() for array in arrays.values())
        if not (sound and finite and days.size and (np.diff(days) > 0).all()):
            raise ValueError("the arrays must be finite, one row for each user or item.")
        for name, array in arrays.items():
            setattr(self, f"_{name}", array)

    def _bin_count(self) -> int:
        return int((self.latest_ - self._earliest) // self._bin_seconds) + 1

    def _state(self) -> dict[str, Any]:
        times = {"earliest": self._earliest, "latest_": self.latest_}
        return {**super()._state(), **times, "bin_seconds": self._bin_seconds}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._earliest, self.latest_ = (
            finite_number(state, name) for name in ("earliest", "latest_")
        )
        self._bin_seconds = positive.check("state", "bin_seconds", state["bin_seconds"])
        if self.latest_ < self._earliest:
            raise ValueError("latest_ must not be before the earliest time.")
        self.history_ = []


def _taken(table: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return rows in float64, zeros where the position is -1."""
    out = table[at].astype(np.float64)
    out[at < 0] = 0
    return np.asarray(out)
