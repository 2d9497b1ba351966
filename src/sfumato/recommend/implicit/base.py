"""Base of models that score items by the items of a user's history."""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, between, one_of, optional
from sfumato.data.interactions import Interactions
from sfumato.recommend.base import Estimator
from sfumato.recommend.implicit.histories import WEIGHTINGS, Histories, History
from sfumato.recommend.ranking import (
    COUNT,
    one_pair,
    pairs,
    ranked_fold_in,
    ranked_tables,
    row_blocks,
    table_pairs,
)

__all__ = ["COUNT", "TIE", "HistoryModel", "popularity"]

TIE = (
    1e-9  # times the popularity, added to scores: items that nothing speaks for come by popularity
)


class HistoryModel(Estimator, in_files=False):
    """Base of recommenders that learn from implicit feedback: who used which item.

    A row of the training data is a preference; its rating is used as `weighting` and
    `relevant_from` say. A subclass learns in `_learn` and adds scores in `_add_scores`. The model
    stores the histories of its users, so it is not private.

    Parameters
    ----------
    weighting : {"equal", "log"}, default="equal"
        Confidence of a row: 1, or ``log(1 + rating)`` scaled to a mean of 1, for counts of plays.
    relevant_from : float or None, default=None
        Smallest rating that counts as a preference; None uses all rows.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    histories_ : Histories
        Items of each user, as positions in the catalogue.

    Notes
    -----
    **Guarantee.** Scores are a function of the user's history and what was learned. A user without
    history gets the items by popularity, the fraction of users who have each item; so do items that
    nothing in a history supports.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import Popular
    >>> train = Interactions([1, 1, 2, 3], ["tea", "milk", "tea", "rum"], [1, 1, 1, 1])
    >>> isinstance(Popular().fit(train), HistoryModel)
    True
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "weighting": one_of(WEIGHTINGS),
        "relevant_from": optional(between(-1e15, 1e15)),
    }
    histories_: Histories

    def __init__(self, *, weighting: str = "equal", relevant_from: float | None = None) -> None:
        self.weighting: str
        self.relevant_from: float | None
        self.weighting, self.relevant_from = weighting, relevant_from

    @property
    def predicts_ratings(self) -> bool:
        """False: scores order items."""
        return False

    @property
    def user_kind_(self) -> str:
        """Kind of the user ids: "integers" or "text"."""
        self._check_fitted()
        return self.histories_.users.kind

    def fit(self, train: Interactions, *, catalogue: Any = None) -> Self:
        """Learn from the histories of users.

        Parameters
        ----------
        train : Interactions
            Who used which item; ratings are read as `weighting` and `relevant_from` say.
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
        weighting = plain.get("weighting", "equal")
        histories = Histories.of(train, items, weighting, plain["relevant_from"])
        self._learn(histories, plain)
        self.mean_, self.low_, self.high_ = 0.0, 0.0, 1.0
        self.histories_, self.catalogue_ = histories, items
        self._popularity = popularity(histories)
        return self

    def recommend(
        self, users: Ids, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend the highest-scoring items of the catalogue to each user.

        Parameters
        ----------
        users : array_like or scalar
            User ids; unknown users get the most popular items.
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
            Their scores; -inf as padding.
        """
        self._check_fitted()
        owner, kind = type(self).__name__, self.histories_.users.kind
        chosen = self.catalogue_, kind, users, n, exclude, filter
        return ranked_tables(owner, *chosen, lambda who: self._tables(self.histories_.rows(who)))

    def recommend_fold_in(
        self, items: Ids, *, n: int = 10, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend items to a new user with these items; nothing about the user is stored.

        Parameters
        ----------
        items : array_like or scalar
            Item ids of the new user, which are not recommended again; unknown ids are ignored.
        n : int, default=10
            Number of items, at least 1.
        filter : object, default=None
            Boolean mask over `catalogue_`: only items that are True are recommended.

        Returns
        -------
        items : ndarray of shape (k,)
            Item ids, best first, k <= n.
        scores : ndarray of shape (k,)
            Their scores.
        """
        self._check_fitted()

        def scored(what: np.ndarray) -> np.ndarray:
            return self._scored(self.histories_.fold_in(self.catalogue_.positions(what)))

        return ranked_fold_in(type(self).__name__, self.catalogue_, items, n, filter, scored)

    def predict(self, users: Ids, items: Ids) -> np.ndarray:
        """Score pairs of a user and an item, as `recommend` does; these are no ratings.

        Parameters
        ----------
        users : array_like or scalar
            User ids; a single id is paired with every item.
        items : array_like or scalar
            Item ids of the same length; a single id is paired with every user.

        Returns
        -------
        ndarray of shape (n,)
            Scores, 0 for items outside the catalogue.
        """
        self._check_fitted()
        kinds = self.histories_.users.kind, self.catalogue_.kind
        who, what = pairs(type(self).__name__, users, items, kinds)
        rows, columns = self.histories_.rows(who), self.catalogue_.positions(what)
        return table_pairs(rows, columns, self._tables)

    def explain(self, user: Ids, item: Ids, n: int = 5) -> dict[str, Any]:
        """Split the score of an item into what each item of the user's history adds to it.

        Parameters
        ----------
        user : array_like or scalar
            One user id.
        item : array_like or scalar
            One item id.
        n : int, default=5
            Number of history items to list, at least 1.

        Returns
        -------
        dict
            Plain values: "history" (the n items of the history with the largest absolute
            contributions, each with "item", its confidence "weight" and its contribution "part"),
            "rest" (the sum of all other contributions), "popularity" (all of the score of a user
            without history; else at least a billionth of the item's popularity, which orders items
            that nothing in the history supports) and "score", the sum of these terms.
        """
        self._check_fitted()
        owner = type(self).__name__
        n = COUNT.check(owner, "n", n)
        kinds = self.histories_.users.kind, self.catalogue_.kind
        who, what = one_pair(owner, user, item, kinds)
        history = self.histories_.take(self.histories_.rows(who))
        return self._explained(history, int(self.catalogue_.positions(what)[0]), n)

    def _explained(self, history: History, at: int, n: int) -> dict[str, Any]:
        """Return the terms of the score of the item at this position, -1 for an unknown one."""
        parts, popularity = np.zeros(history.positions.size), 0.0
        if at >= 0:
            popularity = float(self._popularity[at]) * (self._prior if parts.size else 1)
            parts += self._parts(history, at)
        largest = np.argsort(-np.abs(parts), kind="stable")[:n]
        largest = largest[parts[largest] != 0]
        items = self.catalogue_.take(history.positions[largest])
        columns = items.tolist(), history.weights[largest].tolist(), parts[largest].tolist()
        names = "item", "weight", "part"
        return {
            "history": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)],
            "rest": float(parts.sum() - parts[largest].sum()),
            "popularity": popularity,
            "score": float(parts.sum()) + popularity,
        }

    def _tables(self, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Scores of some of the rows at a time."""
        for part in row_blocks(rows.size, len(self.catalogue_)):
            yield part, self._scored(self.histories_.take(rows[part]))

    def _scored(self, history: History) -> np.ndarray:
        """Scores of all items; popularity for an empty history."""
        table = np.empty((history.starts.size - 1, len(self.catalogue_)))
        table[:] = self._prior * self._popularity
        self._add_scores(history, table)
        empty = history.starts[1:] == history.starts[:-1]
        if empty.any():
            table[empty] = self._popularity
        return table

    @property
    def _prior(self) -> float:
        """Weight of the popularity in the scores of users with a history."""
        return TIE

    def _learn(self, histories: Histories, plain: dict[str, Any]) -> None:
        """Learn the weights; called before anything else changes."""
        raise NotImplementedError

    def _add_scores(self, history: History, out: np.ndarray) -> None:
        """Add the scores of all items for each history to `out`, float64 of shape (n, n_items)."""
        raise NotImplementedError

    def _parts(self, history: History, position: int) -> np.ndarray:
        """What each item of a single history adds to the score of the item at this position."""
        raise NotImplementedError

    def _layout(self) -> dict[str, Cells]:
        return {**Histories.layout(self._user_kind), **self._weight_layout()}

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**self.histories_.arrays(), **self._weight_arrays()}

    def _weight_layout(self) -> dict[str, Cells]:
        """The learned arrays of a file."""
        return {}

    @property
    def _user_kind(self) -> str:
        return self.__dict__.get("_kind") or self.histories_.users.kind

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "users": self.histories_.users.kind}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._kind = one_of(("integers", "text")).check("state", "users", state["users"])

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        learned = {name: arrays.pop(name) for name in self._weight_layout()}
        self.histories_ = Histories.from_arrays(arrays, len(self.catalogue_))
        del self._kind
        self._popularity = popularity(self.histories_)
        self._restore_weights(learned)

    def _weight_arrays(self) -> dict[str, np.ndarray]:
        """The learned arrays, named and ordered as in `_weight_layout`."""
        return {}

    def _restore_weights(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over learned arrays; ValueError where they do not fit the catalogue."""


def popularity(histories: Histories) -> np.ndarray:
    """Fraction of the users with a history who have each item."""
    return np.asarray(histories.counts / max(histories.active, 1))
