"""Base of models that score items by the items of a user's history."""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.ids import is_one
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, between, integer, one_of, optional
from sfumato.data.interactions import Interactions
from sfumato.recommend.base import Estimator
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.implicit.histories import WEIGHTINGS, Histories
from sfumato.recommend.ranking import (
    barred,
    best,
    check_filter,
    excluded_by,
    fitting,
    listed,
    listing,
    pairs,
)

__all__ = ["COUNT", "HistoryModel", "ItemWeightModel", "check_size"]

COUNT = integer(1, 2**31 - 1)
BLOCK = 1 << 22  # scores that are computed at a time


class HistoryModel(Estimator, in_files=False):
    """Base of recommenders that learn from implicit feedback: who used which item.

    A row of the training data is a preference; its rating is used as `weighting` and
    `relevant_from` say. A subclass learns item-item weights in `_learn` and returns scores from
    `_scores`. The model stores the histories of its users, so it is not private.

    Parameters
    ----------
    weighting : {"equal", "log"}, default="equal"
        Confidence of a row: 1, or ``log(1 + rating)`` for counts such as plays.
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
    **Guarantee.** Scores are a function of the user's history and the learned weights. A user
    without history gets the items by popularity, the fraction of users who have each item.

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
        self.weighting, self.relevant_from = weighting, relevant_from

    @property
    def predicts_ratings(self) -> bool:
        """False: scores order items."""
        return False

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
        owner = type(self).__name__
        n = min(COUNT.check(owner, "n", n), len(self.catalogue_))
        who = fitting(owner, "users", users, self.histories_.users.kind)
        allowed = check_filter(owner, filter, self.catalogue_)
        excluded = excluded_by(owner, who, exclude, self.catalogue_)
        found, scores = np.full((who.size, n), -1, np.int64), np.full((who.size, n), -np.inf)
        for part, table in self._tables(self.histories_.rows(who)):
            found[part], scores[part] = best(barred(table, allowed, excluded, part), n)
        return listing(self.catalogue_, found, scores, is_one(users))

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
        owner = type(self).__name__
        n = min(COUNT.check(owner, "n", n), len(self.catalogue_))
        what = fitting(owner, "items", items, self.catalogue_.kind)
        allowed = check_filter(owner, filter, self.catalogue_)
        rows = self.histories_.one(self.catalogue_.positions(what))
        table = self._scores(rows) if rows.nnz else self._popularity[None].astype(np.float64)
        own = listed(what, self.catalogue_)
        return listing(self.catalogue_, *best(barred(table, allowed, own, slice(0, 1)), n), True)

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
        ids, codes = np.unique(self.histories_.rows(who), return_inverse=True)
        at, out = self.catalogue_.positions(what), np.zeros(who.size)
        order = np.argsort(codes, kind="stable")
        for part, table in self._tables(ids):
            first, last = np.searchsorted(codes[order], (part.start, part.stop))
            mine = order[first:last]
            mine = mine[at[mine] >= 0]
            out[mine] = table[codes[mine] - part.start, at[mine]]
        return out

    def _tables(self, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Scores of some of the rows at a time; popularity for rows without history."""
        matrix, step = self.histories_.matrix, max(1, BLOCK // len(self.catalogue_))
        for start in range(0, rows.size, step):
            part = slice(start, min(start + step, rows.size))
            known = rows[part]
            history = matrix[np.maximum(known, 0)]
            table = self._scores(history)
            cold = (known < 0) | (np.diff(history.indptr) == 0)
            table[cold] = self._popularity
            yield part, table

    def _learn(self, histories: Histories, plain: dict[str, Any]) -> None:
        """Learn the weights; called before anything else changes."""
        raise NotImplementedError

    def _scores(self, history: Any) -> np.ndarray:
        """Scores of all items for sparse histories, float64 of shape (n, n_items)."""
        raise NotImplementedError

    def _layout(self) -> dict[str, Cells]:
        return {**Histories.layout(self._user_kind), **self._weight_layout()}

    def _arrays(self) -> dict[str, np.ndarray]:
        learned = {name: getattr(self, name) for name in self._weight_layout()}
        return {**self.histories_.arrays(), **learned}

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

    def _restore_weights(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over learned arrays; ValueError where they do not fit the catalogue."""
        for name, array in arrays.items():
            setattr(self, name, array)


class ItemWeightModel(HistoryModel, in_files=False):
    """Base of models that learn a weight for every pair of a history item and another item."""

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """List the items with the largest learned weights for each item.

        Parameters
        ----------
        items : array_like or scalar
            Item ids; an item outside the catalogue has no similar ones.
        n : int, default=10
            Number of items, at least 1.

        Returns
        -------
        items : ndarray of shape (n_items, n)
            Item ids, largest weight first; -1 or None as padding. Of shape (k,) for a single id.
        weights : ndarray of shape (n_items, n)
            Their weights; -inf as padding.
        """
        self._check_fitted()
        owner = type(self).__name__
        n = min(COUNT.check(owner, "n", n), len(self.catalogue_))
        what = fitting(owner, "items", items, self.catalogue_.kind)
        at = self.catalogue_.positions(what)
        table = self._item_weights(np.maximum(at, 0))
        table[at < 0] = -np.inf
        return listing(self.catalogue_, *best(table, n), is_one(items))

    def _item_weights(self, at: np.ndarray) -> np.ndarray:
        """Weights of all items for these, float64; -inf for pairs without one."""
        raise NotImplementedError


def popularity(histories: Histories) -> np.ndarray:
    """Fraction of the users who have each item."""
    return np.asarray(histories.counts / max(len(histories.users), 1))


def check_size(items: int, catalogue: Catalogue) -> None:
    """Raise ValueError if learned weights are of another number of items."""
    if items != len(catalogue):
        raise ValueError("learned weights must have one row per item of the catalogue.")
