"""Temporal means: biases of users and items that change in time."""

import copy
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, between, flag, optional, positive
from sfumato.data.interactions import Coded
from sfumato.errors import ParameterError
from sfumato.kernels.recommend import crossed_effects
from sfumato.recommend.base import OPTIONAL_BOUNDS, finite_number
from sfumato.recommend.bias import DAMPING, Dampings, at_positions, chosen_dampings
from sfumato.recommend.ratings.base import RatingModel
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["TemporalMeans"]

PENALTY = optional(positive)
BINS = 2000  # more are taken for times of another unit than that of `day`
MEMORY = 100.0  # days after which a session's effect on other days has fallen to 1/e
STEPS = 500  # of conjugate gradients; about 60 suffice
HELD_OUT, SEED = 0.1, 21  # fraction of the ratings that terms are chosen by, and their draw
FEWEST = 100  # held-out ratings that a choice takes
# The terms in time, and the parameter that leaves each out.
TERMS = {
    "trend": "trend_damping",
    "item_bin": "bin_damping",
    "drift": "drift_damping",
    "session": "session_damping",
}
ENOUGH = 1e-12  # squared length of the gradient, as a fraction of the first, at which they end


class TemporalMeans(RatingModel):
    """Mean plus biases of users and items that depend on the time of the rating.

    The prediction for user u and item i at time t is the sum of the mean, the overall trend of t's
    bin, the item's bias and that of its bin, the user's bias, drift and session bias. A damping of
    None leaves a term out; without all four, and without times, it is `DampedMeans` with biases
    fitted together. Terms that do not help to predict held-out ratings are left out too.

    Parameters
    ----------
    bin_days : float, default=70.0
        Length of a bin of time in days, above 0.
    trend_damping : float or None, default=10.0
        Damping of the overall trend, one number per bin; None for no trend.
    bin_damping : float or None, default=300.0
        Damping of the bias of an item in a bin; None for constant items.
    drift_damping : float or None, default=1000.0
        Damping of a user's slope over ``sign(t - m) |t - m|**exponent``, with m the mean time of
        the user's ratings, in days; None for no drift.
    session_damping : float or None, default=20.0
        Damping of the bias of a user on one day; None for no sessions.
    exponent : float, default=0.4
        Exponent of the drift, from 0 to below 1e9.
    day : float, default=86400.0
        Length of a day in the unit of the times; the default is for seconds.
    damping : float, tuple of float or None, default=None
        Damping of the constant biases, as in `DampedMeans`: a number, a pair for users and items,
        or None to estimate both from the data.
    select : bool, default=True
        Whether to leave out terms in time that do not lower the error of a held-out tenth of the
        ratings by at least a standard error; only where that tenth has 100 ratings or more.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None means those of the training data.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    dampings_ : Dampings
        Damping of the constant biases of users and of items.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    last_time_ : float
        Latest time of the training data, which lists are made for.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean rating of the training data.
    terms_ : tuple of str
        Terms in time that are used, of "trend", "item_bin", "drift" and "session".
    users_ : Catalogue
        Users with training ratings.

    Notes
    -----
    **Guarantee.** The coefficients of the terms in use minimise the sum of squared residuals plus,
    for each term, its damping times the sum of squares (a damping is a number of prior ratings of
    residual 0, as in `DampedMeans`), up to a relative gradient of 1e-6. Before the first bin the
    first one counts, beyond the last the last one; a drift stays where the user's first or last
    rating left it; on a day without ratings of the user the nearest session counts, times
    ``exp(-days / 100)``. An unknown user or item has no bias. Fitting takes about 4 s for a million
    ratings. Not private.

    References
    ----------
    .. [1] Koren. "Collaborative Filtering with Temporal Dynamics". KDD 2009, section 3.
       https://doi.org/10.1145/1557019.1557072

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> ratings = Interactions([1, 1, 2, 2], ["a", "b", "a", "b"], [5, 4, 2, 1], times=[0, 1, 8, 9])
    >>> model = TemporalMeans(day=1.0, bin_days=5.0, session_damping=1.0).fit(ratings)
    >>> model.predict([1, 2], "a", times=[0, 9]).round(1)
    array([4.2, 1.9])
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "bin_days": positive,
        "trend_damping": PENALTY,
        "bin_damping": PENALTY,
        "drift_damping": PENALTY,
        "session_damping": PENALTY,
        "exponent": between(0, 1e9),
        "day": positive,
        "damping": DAMPING,
        "select": flag,
        "bounds": OPTIONAL_BOUNDS,
    }
    dampings_: Dampings
    last_time_: float
    terms_: tuple[str, ...]
    _clock: dict[str, float]
    _trend: np.ndarray
    _items: np.ndarray
    _item_bins: np.ndarray
    _users: np.ndarray
    _drifts: np.ndarray
    _sessions: np.ndarray

    def __init__(
        self,
        *,
        bin_days: float = 70.0,
        trend_damping: float | None = 10.0,
        bin_damping: float | None = 300.0,
        drift_damping: float | None = 1000.0,
        session_damping: float | None = 20.0,
        exponent: float = 0.4,
        day: float = 86400.0,
        damping: float | tuple[float, float] | None = None,
        select: bool = True,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(bounds=bounds)
        self.bin_days: float
        self.exponent: float
        self.day: float
        self.damping: float | tuple[float, float] | None
        self.bin_days, self.exponent, self.day, self.damping = bin_days, exponent, day, damping
        self.trend_damping: float | None
        self.bin_damping: float | None
        self.trend_damping, self.bin_damping = trend_damping, bin_damping
        self.drift_damping: float | None
        self.session_damping: float | None
        self.drift_damping, self.session_damping = drift_damping, session_damping
        self.select = select

    @property
    def uses_times(self) -> bool:
        return True

    def predict(self, users: Ids, items: Ids, times: Any = None) -> np.ndarray:
        """Predict the rating of each user for the corresponding item at a time.

        Parameters
        ----------
        users : array_like or scalar
            User ids; a single id is paired with every item.
        items : array_like or scalar
            Item ids of the same length; a single id is paired with every user.
        times : array_like or scalar or None, default=None
            Time of each rating, or one for all; None means `last_time_`.

        Returns
        -------
        ndarray of shape (n,)
            Predicted ratings, float64, clipped to [`low_`, `high_`].
        """
        return self._clipped_pairs(users, items, times)

    def _learn(self, rows: RatedRows, plain: dict[str, Any]) -> None:
        if plain["select"]:
            plain = plain | dict.fromkeys(self._useless(rows, plain))
        self._learn_terms(rows, plain)

    def _useless(self, rows: RatedRows, plain: dict[str, Any]) -> list[str]:
        """Return the dampings of the terms without which held-out ratings are predicted as well."""
        held_out = np.random.default_rng(SEED).random(len(rows)) < HELD_OUT
        if held_out.sum() < FEWEST or rows.times is None:
            return []
        part = copy.copy(self)
        part._learn_terms(rows.filtered(~held_out), plain)
        at = rows.user_rows[held_out], rows.positions[held_out], rows.times[held_out]
        terms = part._terms(*at)
        misses = rows.ratings[held_out] - rows.ratings[~held_out].mean() - sum(terms.values())
        gains = {name: (misses + terms[term]) ** 2 - misses**2 for term, name in TERMS.items()}
        return [name for name, gain in gains.items() if gain.sum() < np.sqrt(gain @ gain)]

    def _learn_terms(self, rows: RatedRows, plain: dict[str, Any]) -> None:
        assert rows.times is not None
        mean = float(rows.ratings.mean(dtype=np.float64))
        targets = rows.ratings - mean
        clock = _clock_of(rows.times, plain)
        who, what = rows.user_rows, rows.positions
        coded = Coded(who, what, rows.users.ids, np.empty(rows.items))
        dampings = chosen_dampings(plain["damping"], coded, targets)
        users, items, bins = len(rows.users), rows.items, int(clock["bins"])
        first, middle, last = rows.user_times()
        drift = _deviations(rows.times, middle[who], clock)
        bin_of = _bins(rows.times, clock)
        sessions, session_of = np.unique(_session_keys(who, rows.times, clock), return_inverse=True)
        # The drift comes first: it is the one term with factors.
        terms = {
            "_drifts": (who, users, plain["drift_damping"]),
            "_users": (who, users, dampings.users),
            "_items": (what, items, dampings.items),
            "_trend": (bin_of, bins, plain["trend_damping"]),
            "_item_bins": (
                what.astype(np.int64) * bins + bin_of,
                items * bins,
                plain["bin_damping"],
            ),
            "_sessions": (session_of, sessions.size, plain["session_damping"]),
        }
        found = _ridge(terms, drift, targets)
        for name, values in found.items():
            setattr(self, name, values)
        self._item_bins = found["_item_bins"].reshape(items, bins)
        self._session_keys, self._clock, self.dampings_ = sessions, clock, dampings
        self._first, self._middle, self._last = first, middle, last
        self.last_time_ = float(rows.times.max())
        self.terms_ = tuple(term for term, name in TERMS.items() if plain[name] is not None)

    def _predicted(
        self, rows: np.ndarray, columns: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        return np.asarray(self.mean_ + sum(self._terms(rows, columns, times).values()))

    def _terms(
        self, rows: np.ndarray, columns: np.ndarray, times: np.ndarray | None
    ) -> dict[str, np.ndarray]:
        """The terms of pairs, beside the mean."""
        when = np.full(rows.size, self.last_time_) if times is None else times
        bins = _bins(when, self._clock)
        return {
            **self._user_terms(rows, when),
            "trend": self._trend[bins],
            "item": at_positions(self._items, columns),
            "item_bin": np.where(columns >= 0, self._item_bins[columns, bins], 0.0),
        }

    def _user_terms(self, rows: np.ndarray, when: np.ndarray) -> dict[str, np.ndarray]:
        """The terms of users at times."""
        within = np.clip(when, self._first[rows], self._last[rows])
        drift = self._drifts[rows] * _deviations(within, self._middle[rows], self._clock)
        return {
            "user": at_positions(self._users, rows),
            "drift": np.where(rows >= 0, drift, 0.0),
            "session": np.where(rows >= 0, self._nearest_sessions(rows, when), 0.0),
        }

    def _nearest_sessions(self, rows: np.ndarray, when: np.ndarray) -> np.ndarray:
        """The bias of each user's session nearest in time, less the further away it is."""
        days = np.floor(when / self._clock["day"]) - self._clock["first_day"]
        width = int(self._clock["days"])
        wanted = rows * width + np.clip(days, 0, width - 1).astype(np.int64)
        after = np.searchsorted(self._session_keys, wanted)
        nearest, effect = np.full(rows.size, np.inf), np.zeros(rows.size)
        for at in (after - 1, after):
            at = np.clip(at, 0, self._session_keys.size - 1)
            user, there = np.divmod(self._session_keys[at], width)
            apart = np.where(user == rows, np.abs(there - days), np.inf)
            effect = np.where(apart < nearest, self._sessions[at], effect)
            nearest = np.minimum(apart, nearest)
        return np.asarray(effect * np.exp(-nearest / MEMORY))

    def _table(self, rows: np.ndarray) -> np.ndarray:
        when = np.full(rows.size, self.last_time_)
        users = sum(self._user_terms(rows, when).values())
        return np.asarray(np.asarray(users)[:, None] + self._item_scores())

    def _item_scores(self) -> np.ndarray:
        """The terms of all items at the latest time, with the mean."""
        return np.asarray(self.mean_ + self._trend[-1] + self._items + self._item_bins[:, -1])

    def _folded_in(self, positions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
        scores = self._item_scores()
        residuals = ratings - scores[positions]
        own = residuals.sum() / max(positions.size + self.dampings_.users, 1e-300)
        return np.asarray(scores + own)

    def _explained(self, row: int, column: int, n: int) -> dict[str, Any]:
        terms = self._terms(np.array([row]), np.array([column]), None)
        plain = {"mean": self.mean_, **{name: float(each[0]) for name, each in terms.items()}}
        return {**plain, "score": sum(plain.values())}

    def _learned_layout(self) -> dict[str, Cells]:
        names = ("_trend", "_items", "_users", "_drifts", "_first", "_middle", "_last", "_sessions")
        return {
            **{name: Cells(np.float64, (-1,)) for name in names},
            "_session_keys": Cells(np.int64, (-1,)),
            "_item_bins": Cells(np.float64, (-1, -1)),
        }

    def _restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        users, items, bins = len(self.users_), len(self.catalogue_), int(self._clock["bins"])
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
            ("_users", "_drifts", "_first", "_middle", "_last"), (users,)
        )
        shapes |= {"_trend": (bins,), "_items": (items,), "_item_bins": (items, bins)}
        shapes |= {"_sessions": arrays["_session_keys"].shape}
        keys = arrays["_session_keys"]
        sound = (
            all(arrays[name].shape == shape for name, shape in shapes.items())
            and all(np.isfinite(arrays[name]).all() for name in shapes)
            and keys.size
            and (np.diff(keys) > 0).all()
            and keys[0] >= 0
            and keys[-1] < users * self._clock["days"]
            and (arrays["_first"] <= arrays["_last"]).all()
        )
        if not sound:
            raise ValueError("biases must be finite, one per user, item, bin and session.")
        super()._restore_learned(arrays)

    def _state(self) -> dict[str, Any]:
        clock = {name: float(value) for name, value in self._clock.items()}
        times = {"clock": clock, "last_time_": self.last_time_}
        more = {"dampings": list(self.dampings_), "terms": list(self.terms_)}
        return {**super()._state(), **times, **more}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.dampings_ = Dampings.restored(state["dampings"])
        self.terms_ = tuple(term for term in TERMS if term in state["terms"])
        self._clock = {name: finite_number(state["clock"], name) for name in CLOCK}
        self.last_time_ = finite_number(state, "last_time_")
        whole = [self._clock[name] for name in ("bins", "days", "first_day")]
        if not all(each.is_integer() for each in whole) or not (
            1 <= whole[0] <= BINS and 1 <= whole[1] < 2**31
        ):
            raise ValueError("the clock must count bins and days by integers.")
        if min(self._clock["day"], self._clock["bin"]) <= 0 or self._clock["exponent"] < 0:
            raise ValueError("the clock must have a day and a bin above 0.")


CLOCK = ("start", "day", "bin", "bins", "first_day", "days", "exponent")


def _clock_of(times: np.ndarray, plain: dict[str, Any]) -> dict[str, float]:
    """How times are counted in bins and days; ParameterError where these are too many."""
    start, last, day = float(times.min()), float(times.max()), plain["day"]
    length = plain["bin_days"] * day
    bins, days = (last - start) / length, last / day - start / day
    if not (bins < BINS - 1 and days < 2**31 - 2):
        wanted = "must be the length of a day in the unit of the times: these would span"
        span = f"more than {BINS} bins of {plain['bin_days']:g} days"
        raise ParameterError.of("TemporalMeans", "day", f"{wanted} {span}.")
    first = math.floor(start / day)
    values = start, day, length, math.floor(bins) + 1, first, math.floor(last / day) - first + 1
    return dict(zip(CLOCK, map(float, (*values, plain["exponent"])), strict=True))


def _bins(times: np.ndarray, clock: dict[str, float]) -> np.ndarray:
    """The bin of each time, the first or last one for times outside of the training data."""
    bins = np.floor((times - clock["start"]) / clock["bin"])
    return np.asarray(np.clip(bins, 0, clock["bins"] - 1), np.int64)


def _deviations(times: np.ndarray, middle: np.ndarray, clock: dict[str, float]) -> np.ndarray:
    """How far times are from the middle, by the power of the drift; 0 in the middle."""
    apart = (times - middle) / clock["day"]
    return np.asarray(np.sign(apart) * np.abs(apart) ** clock["exponent"])


def _session_keys(rows: np.ndarray, times: np.ndarray, clock: dict[str, float]) -> np.ndarray:
    """One integer per user and day, ordered by both."""
    days = np.floor(times / clock["day"]) - clock["first_day"]
    return np.asarray(rows * np.int64(clock["days"]) + days.astype(np.int64))


def _ridge(
    terms: dict[str, tuple[np.ndarray, int, float | None]], drift: np.ndarray, targets: np.ndarray
) -> dict[str, np.ndarray]:
    """Fit all terms together by ridge regression; those of damping None are 0.

    Conjugate gradients on the normal equations, each coefficient in the unit of its diagonal.
    """
    sizes = [size for _, size, _ in terms.values()]
    ends = np.cumsum([0, *sizes])
    used = [each[2] is not None for each in terms.values()]
    codes = np.stack(
        [
            (codes + offset).astype(np.int32 if ends[-1] < 2**31 else np.int64)
            for (codes, _, _), offset, use in zip(terms.values(), ends, used, strict=False)
            if use or offset == 0
        ]
    )
    drift = drift if used[0] else np.zeros_like(drift)
    dampings = np.repeat([each[2] or 0.0 for each in terms.values()], sizes)
    squares, right, ones = np.zeros(ends[-1]), np.zeros(ends[-1]), np.ones_like(drift)
    crossed_effects.sums(codes, drift**2, ones, squares)
    crossed_effects.sums(codes, drift, targets.astype(np.float64), right)
    diagonal = squares + dampings
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))

    def product(vector: np.ndarray) -> np.ndarray:
        out = dampings * scale * vector
        crossed_effects.gram_product(codes, drift, scale * vector, out)
        return np.asarray(scale * out)

    solved = scale * _conjugate_gradients(product, scale * right)
    return {name: solved[a:b] for name, a, b in zip(terms, ends, ends[1:], strict=False)}


def _conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], right: np.ndarray
) -> np.ndarray:
    """Solve ``product(x) = right`` for a symmetric, positive definite product."""
    solved, rest = np.zeros_like(right), right.copy()
    direction, length = right.copy(), float(right @ right)
    smallest = ENOUGH * length
    for _ in range(STEPS):
        if length <= smallest:
            break
        moved = product(direction)
        step = length / float(direction @ moved)
        solved += step * direction
        rest -= step * moved
        length, before = float(rest @ rest), length
        direction = rest + length / before * direction
    return solved
