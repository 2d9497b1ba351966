"""Damped means: the baseline that every recommender is compared with."""

import math
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from sfumato.core.deprecation import renamed_arguments
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, between
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.recommend.base import OPTIONAL_BOUNDS
from sfumato.recommend.catalogue import SortedCatalogue
from sfumato.recommend.factorization.damping import BiasPrior
from sfumato.recommend.ranking import pairs
from sfumato.recommend.ratings.base import RatingModel

__all__ = ["DAMPING", "DampedMeans", "Dampings", "at_positions", "chosen_dampings"]

NUMBER = between(0, math.inf)


class Dampings(NamedTuple):
    """How many ratings of residual 0 each user, and each item, is given in advance."""

    users: float
    items: float

    @classmethod
    def restored(cls, values: Any) -> "Dampings":
        """Read them from the state of a file; ValueError where they are none."""
        users, items = (NUMBER.check("state", "dampings", each) for each in values)
        return cls(users, items)


class _DampingLimit:
    """Limit of a damping: a number from 0 up, a pair of them for users and items, or None."""

    def check(self, owner: str, name: str, value: Any) -> float | tuple[float, float] | None:
        if value is None:
            return None
        if not isinstance(value, tuple | list):
            return NUMBER.check(owner, name, value)
        if len(value) != 2:
            wanted = "a number from 0 up, a pair of them for users and items, or None"
            raise ParameterError.of(owner, name, f"must be {wanted}, not {value!r:.200}.")
        return NUMBER.check(owner, name, value[0]), NUMBER.check(owner, name, value[1])

    def bad(self) -> list[Any]:
        return [-1, math.nan, math.inf, "much", True, (1.0,), (1, 2, 3), (5, -1), (None, 5)]


DAMPING = _DampingLimit()


class DampedMeans(RatingModel):
    """Baseline predictor: global mean plus shrunken item and user deviations.

    Parameters
    ----------
    damping : float, tuple of float or None, default=5.0
        Shrinkage, at least 0: the number of prior ratings, equal to the mean, that every user and
        item is given. A pair is that of users and that of items. None estimates both from the data.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None means those of the training data.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    dampings_ : Dampings
        Damping of users and of items that the deviations were computed with.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    item_ids_ : ndarray of shape (n_items,)
        Item ids, sorted.
    item_means_ : ndarray of shape (n_items,)
        Deviation of each item of `item_ids_`.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean of all ratings.
    user_ids_ : ndarray of shape (n_users,)
        User ids, sorted.
    user_means_ : ndarray of shape (n_users,)
        Deviation of each user of `user_ids_`.
    users_ : Catalogue
        Users with training ratings.

    Notes
    -----
    **Guarantee.** The deviation of an item with n ratings is `sum(r - mean_) / (damping + n)`; that
    of a user is the same of the residuals `r - mean_ - item deviation`. So a mean deviation over n
    ratings is shrunk by `n / (n + damping)`. Unknown users and items have deviation 0. Predictions
    are clipped to [`low_`, `high_`]. Not differentially private.

    A damping of None is the ratio of the variance of a residual to that of the deviations
    (empirical Bayes), estimated from up to about 131,000 ratings.

    References
    ----------
    .. [1] Koren. "Factor in the Neighbors: Scalable and Accurate Collaborative Filtering". ACM TKDD
       2010, baseline estimates. https://doi.org/10.1145/1644873.1644874

    Examples
    --------
    >>> ratings = Interactions(users=[1, 1, 2], items=["tea", "rum", "tea"], ratings=[5, 3, 4])
    >>> model = DampedMeans(damping=0).fit(ratings)
    >>> model.predict([2, 9], ["rum", "rum"])
    array([3., 3.])
    >>> model.explain(2, "rum")
    {'mean': 4.0, 'user': -0.5, 'item': -1.0, 'score': 2.5, 'prediction': 3.0}
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"damping": DAMPING, "bounds": OPTIONAL_BOUNDS}
    dampings_: Dampings
    _users: np.ndarray
    _items: np.ndarray

    def __init__(
        self,
        *,
        damping: float | tuple[float, float] | None = 5.0,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(bounds=bounds)
        self.damping = damping

    @renamed_arguments(interactions="train")
    def fit(self, train: Interactions, *, catalogue: Any = None) -> Self:
        """Compute the mean and all deviations.

        Parameters
        ----------
        train : Interactions
            Ratings, at least one.
        catalogue : object, default=None
            Ids of the items that may be recommended, a `Catalogue` or a column; None for those of
            `train`. Rows of other items are ignored.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check()
        self._check_train(train)
        items = self._catalogue_of(train, catalogue)
        low, high = self._bounds_of(train, plain["bounds"])
        coded = train.coded()
        at = items.positions(coded.item_ids)[coded.item_codes]
        there = at >= 0
        if not there.any():
            owner = type(self).__name__
            raise ParameterError.of(owner, "catalogue", "must have an item that train has.")
        # Every row counts, where a pair has several: no need to group the rows by user.
        who, what, ratings = coded.user_codes[there], at[there], train.ratings[there]
        mean = float(ratings.mean(dtype=np.float64))
        residuals = ratings - mean
        dampings = chosen_dampings(
            plain["damping"], coded._replace(user_codes=who, item_codes=what), residuals
        )
        item_means = _damped(what, residuals, dampings.items, len(items))
        residuals = residuals - item_means[what]
        self._users = _damped(who, residuals, dampings.users, coded.user_ids.size)
        self._items, self.dampings_ = item_means, dampings
        self.mean_, self.low_, self.high_ = mean, low, high
        self.users_, self.catalogue_ = SortedCatalogue(coded.user_ids), items
        return self

    @property
    def item_ids_(self) -> np.ndarray:
        """Item ids, sorted."""
        self._check_fitted()
        return np.sort(self.catalogue_.ids)

    @property
    def item_means_(self) -> np.ndarray:
        """Deviation of each item of `item_ids_`."""
        self._check_fitted()
        return self._items[np.argsort(self.catalogue_.ids)]

    @property
    def user_ids_(self) -> np.ndarray:
        """User ids, sorted."""
        self._check_fitted()
        return np.sort(self.users_.ids)

    @property
    def user_means_(self) -> np.ndarray:
        """Deviation of each user of `user_ids_`."""
        self._check_fitted()
        return self._users[np.argsort(self.users_.ids)]

    def unclipped(self, users: Ids, items: Ids) -> np.ndarray:
        """Return the mean plus the deviations of each pair, which residuals are taken from.

        Parameters
        ----------
        users : array_like or scalar
            User ids; a single id is paired with every item.
        items : array_like or scalar
            Item ids of the same length; a single id is paired with every user.

        Returns
        -------
        ndarray of shape (n,)
            Predictions before they are clipped to the bounds, float64.
        """
        self._check_fitted()
        owner = type(self).__name__
        who, what = pairs(owner, users, items, (self.users_.kind, self.catalogue_.kind))
        return self._predicted(self.users_.positions(who), self.catalogue_.positions(what), None)

    def _predicted(
        self, rows: np.ndarray, columns: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        own = at_positions(self._users, rows) + at_positions(self._items, columns)
        return np.asarray(self.mean_ + own)

    def _table(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.mean_ + at_positions(self._users, rows)[:, None] + self._items)

    def _folded_in(self, positions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
        residuals = ratings - self.mean_ - self._items[positions]
        own = residuals.sum() / max(positions.size + self.dampings_.users, 1e-300)
        return np.asarray(self.mean_ + own + self._items)

    def _explained(self, row: int, column: int, n: int) -> dict[str, Any]:
        user, item = (
            float(at_positions(values, np.array([at]))[0])
            for values, at in ((self._users, row), (self._items, column))
        )
        return {"mean": self.mean_, "user": user, "item": item, "score": self.mean_ + user + item}

    def _learned_layout(self) -> dict[str, Cells]:
        return {"_users": Cells(np.float64, (-1,)), "_items": Cells(np.float64, (-1,))}

    def _restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        sizes = len(self.users_), len(self.catalogue_)
        if tuple(each.size for each in arrays.values()) != sizes:
            raise ValueError("deviations must be one per user and one per item.")
        if not all(np.isfinite(each).all() for each in arrays.values()):
            raise ValueError("deviations must be finite.")
        super()._restore_learned(arrays)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "dampings": list(self.dampings_)}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.dampings_ = Dampings.restored(state["dampings"])


def chosen_dampings(given: Any, coded: Any, residuals: np.ndarray) -> Dampings:
    """Return the dampings as given, or estimated where that is None."""
    if given is None:
        prior = BiasPrior.of(coded, residuals)
        return Dampings(prior.user_damping, prior.item_damping)
    return Dampings(*given) if isinstance(given, tuple) else Dampings(given, given)


def _damped(codes: np.ndarray, values: np.ndarray, damping: float, size: int) -> np.ndarray:
    """Return the damped mean of the values of each code, 0 without values."""
    counts = np.bincount(codes, minlength=size) + damping
    return np.bincount(codes, values, size) / np.where(counts > 0, counts, 1.0)


def at_positions(values: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the value at each position, 0 at -1."""
    return np.where(positions >= 0, values[positions], 0.0)
