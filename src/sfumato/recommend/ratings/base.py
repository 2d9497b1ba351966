"""RatingModel: the base of models that predict ratings otherwise than by vectors."""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, one_of
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.recommend.base import OPTIONAL_BOUNDS, Estimator
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue
from sfumato.recommend.ranking import (
    COUNT,
    one_pair,
    pairs,
    ranked_fold_in,
    ranked_tables,
    rated_positions,
    row_blocks,
)
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["COUNT", "RatingModel", "times_of"]

KIND = one_of(("integers", "text"))


class RatingModel(Estimator, in_files=False):
    """Base of models that predict ratings of pairs of a user and an item.

    A subclass learns in `_learn`, scores pairs in `_predicted`, a new user in `_folded_in`, splits
    a score in `_explained`, and names its arrays in `_learned_layout`. It may override `_table`,
    where the scores of all items at once are cheaper than those of pairs.

    Parameters
    ----------
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None means those of the training data.

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
    users_ : Catalogue
        Users with training ratings.

    Notes
    -----
    **Guarantee.** Predictions are clipped to [`low_`, `high_`]; scores of lists are predictions
    before they are clipped, since clipping would tie the best items. Rows of items outside of a
    given catalogue are ignored. Not private: the model stores the ids of its users.

    Examples
    --------
    >>> issubclass(RatingModel, Estimator)
    True
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"bounds": OPTIONAL_BOUNDS}
    users_: SortedCatalogue

    def __init__(self, *, bounds: tuple[float, float] | None = None) -> None:
        self.bounds = bounds

    @property
    def user_kind_(self) -> str:
        """Kind of the user ids: "integers" or "text"."""
        self._check_fitted()
        return self.users_.kind

    def fit(self, train: Interactions, *, catalogue: Any = None) -> Self:
        """Learn from ratings.

        Parameters
        ----------
        train : Interactions
            Ratings, at least one; with times if `uses_times`.
        catalogue : object, default=None
            Ids of the items that may be recommended, a `Catalogue` or a column; None for those of
            `train`. Rows of other items are ignored.

        Returns
        -------
        Self
            The object itself.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C; the model holds its last complete epoch, if there was one.
        """
        plain = self._check()
        rows, items = self._rows_of(train, catalogue, plain)
        return self._adopt(train, plain, rows, items, self._learn(rows, plain))

    def predict(self, users: Ids, items: Ids) -> np.ndarray:
        """Predict the rating of each user for the corresponding item.

        Parameters
        ----------
        users : array_like or scalar
            User ids; a single id is paired with every item.
        items : array_like or scalar
            Item ids of the same length; a single id is paired with every user.

        Returns
        -------
        ndarray of shape (n,)
            Predicted ratings, float64, clipped to [`low_`, `high_`].
        """
        return self._clipped_pairs(users, items, None)

    def recommend(
        self, users: Ids, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
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

        Returns
        -------
        items : ndarray of shape (n_users, n)
            Item ids, best first; -1 or None as padding. Of shape (k,), k <= n, for a single user.
        scores : ndarray of shape (n_users, n)
            Their predictions before clipping; -inf as padding.
        """
        self._check_fitted()
        owner, kind = type(self).__name__, self.users_.kind
        chosen = self.catalogue_, kind, users, n, exclude, filter
        return ranked_tables(owner, *chosen, lambda who: self._tables(self.users_.positions(who)))

    def recommend_fold_in(
        self, items: Ids, ratings: Any = None, *, n: int = 10, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend items to a new user with these ratings; nothing about the user is stored.

        Parameters
        ----------
        items : array_like or scalar
            Item ids of the new user, which are not recommended again; unknown ids are ignored.
        ratings : array_like of shape (n_items,) or None, default=None
            Ratings of these items, clipped to the bounds, of which an item has the mean; None: all
            have the highest rating.
        n : int, default=10
            Number of items, at least 1.
        filter : object, default=None
            Boolean mask over `catalogue_`: only items that are True are recommended.

        Returns
        -------
        items : ndarray of shape (k,)
            Item ids, best first, k <= n.
        scores : ndarray of shape (k,)
            Their predictions before clipping.
        """
        self._check_fitted()

        def scored(what: np.ndarray) -> np.ndarray:
            return self._folded_in(*self._rated_positions(what, ratings))[None]

        return ranked_fold_in(type(self).__name__, self.catalogue_, items, n, filter, scored)

    def explain(self, user: Ids, item: Ids, n: int = 5) -> dict[str, Any]:
        """Split one prediction into terms that add up to its score.

        Parameters
        ----------
        user : array_like or scalar
            One user id.
        item : array_like or scalar
            One item id.
        n : int, default=5
            Number of contributions to list where there are many, at least 1.

        Returns
        -------
        dict
            Plain values: the terms, "score" (their sum) and "prediction" (the score clipped to the
            bounds).
        """
        self._check_fitted()
        owner = type(self).__name__
        n = COUNT.check(owner, "n", n)
        who, what = one_pair(owner, user, item, (self.users_.kind, self.catalogue_.kind))
        row, column = self.users_.positions(who)[0], self.catalogue_.positions(what)[0]
        terms = self._explained(int(row), int(column), n)
        return {**terms, "prediction": float(np.clip(terms["score"], self.low_, self.high_))}

    def _rows_of(
        self, train: Interactions, catalogue: Any, plain: dict[str, Any]
    ) -> tuple[RatedRows, Catalogue]:
        """Check the training data and return its ratings by user, and the catalogue."""
        self._check_train(train)
        owner = type(self).__name__
        if self.uses_times and train.times is None:
            raise ParameterError(
                f"{owner}: train has no times to learn from; give them to Interactions, or fit a "
                "model without times.",
                owner=owner,
                parameter="times",
            )
        items = self._catalogue_of(train, catalogue)
        self._bounds_of(train, plain["bounds"])
        rows = RatedRows.of(train, items)
        if not len(rows):
            raise ParameterError.of(owner, "catalogue", "must have an item that train has.")
        return rows, items

    def _adopt(
        self,
        train: Interactions,
        plain: dict[str, Any],
        rows: RatedRows,
        items: Catalogue,
        complete: bool | None,
    ) -> Self:
        """Set what all fitted models have; raise KeyboardInterrupt if learning was interrupted."""
        self.low_, self.high_ = self._bounds_of(train, plain["bounds"])
        self.mean_: float = float(rows.ratings.mean(dtype=np.float64))
        self.users_, self.catalogue_ = rows.users, items
        if complete is False:
            raise KeyboardInterrupt
        return self

    def _clipped_pairs(self, users: Ids, items: Ids, times: Any) -> np.ndarray:
        """Return the clipped predictions of pairs."""
        self._check_fitted()
        owner = type(self).__name__
        who, what = pairs(owner, users, items, (self.users_.kind, self.catalogue_.kind))
        when = None if times is None else times_of(owner, times, who.size)
        rows, columns = self.users_.positions(who), self.catalogue_.positions(what)
        return np.asarray(np.clip(self._predicted(rows, columns, when), self.low_, self.high_))

    def _rated_positions(self, items: np.ndarray, ratings: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and ratings of a new user's items, as `_folded_in` takes them."""
        bounds = self.low_, self.high_
        return rated_positions(type(self).__name__, self.catalogue_, items, ratings, bounds)

    def _tables(self, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Scores of some of the rows at a time."""
        for part in row_blocks(rows.size, len(self.catalogue_)):
            yield part, self._table(rows[part])

    def _table(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores of all items for these user rows, float64 (n, n_items), writeable."""
        columns = np.arange(len(self.catalogue_))
        every = np.repeat(rows, columns.size), np.tile(columns, rows.size)
        return self._predicted(*every, None).reshape(rows.size, columns.size)

    def _learn(self, rows: RatedRows, plain: dict[str, Any]) -> bool | None:
        """Learn from the ratings, setting attributes last; False if Ctrl-C ended it early."""
        raise NotImplementedError

    def _predicted(
        self, rows: np.ndarray, columns: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        """Return scores of pairs of a user row and an item column, -1 for unknown ones."""
        raise NotImplementedError

    def _folded_in(self, positions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
        """Return the scores of all items for a new user with these ratings, perhaps none."""
        raise NotImplementedError

    def _explained(self, row: int, column: int, n: int) -> dict[str, Any]:
        """Return the terms of a score by name, and their sum as "score"; -1 is unknown."""
        raise NotImplementedError

    def _learned_layout(self) -> dict[str, Cells]:
        """The learned arrays of a file."""
        return {}

    def _learned_arrays(self) -> dict[str, np.ndarray]:
        """The learned arrays, named and ordered as in `_learned_layout`."""
        return {name: getattr(self, name) for name in self._learned_layout()}

    def _restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over learned arrays; ValueError where they do not fit users and catalogue."""
        for name, array in arrays.items():
            setattr(self, name, array)

    def _layout(self) -> dict[str, Cells]:
        kind = self.__dict__.get("_kind") or self.users_.kind
        ids = {f"user_{name}": cells for name, cells in Catalogue.layout(kind).items()}
        return {**ids, **self._learned_layout()}

    def _arrays(self) -> dict[str, np.ndarray]:
        ids = {f"user_{name}": array for name, array in self.users_.arrays().items()}
        return {**ids, **self._learned_arrays()}

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        learned = {name: arrays.pop(name) for name in self._learned_layout()}
        ids = {name.removeprefix("user_"): array for name, array in arrays.items()}
        self.users_ = SortedCatalogue.from_arrays(ids)
        del self._kind
        self._restore_learned(learned)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "users": self.users_.kind}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._kind = KIND.check("state", "users", state["users"])


def times_of(owner: str, times: Any, size: int) -> np.ndarray:
    """Return times as float64, one per pair; a single one is repeated."""
    try:
        given = np.broadcast_to(np.asarray(times, np.float64), (size,))
    except (TypeError, ValueError):
        given = np.full(1, np.nan)
    if not np.isfinite(given).all():
        raise ValueError(f"{owner}: times must be finite numbers, one per pair, or one for all.")
    return given
