"""CandidateIndex: the base of indexes that rank only some candidates of a model's items."""

from typing import Any, ClassVar

import numpy as np

from sfumato.core.ids import ids_of
from sfumato.core.typing import Ids
from sfumato.data.interactions import Interactions
from sfumato.errors import StaleIndexError

__all__ = ["CandidateIndex"]


class CandidateIndex:
    """Base of indexes that find candidates for each user and rank them by the model's scores.

    A subclass lists candidates in `_listed`, and returns in `_state` an object that the model
    replaces whenever its fitted state changes. It sets `_model` and `_learned`, the state that it
    was built from.

    Notes
    -----
    **Guarantee.** Once the model has changed, `stale` is True and queries raise `StaleIndexError`.

    Examples
    --------
    >>> from sfumato.recommend import ContentIndex, ItemIndex
    >>> issubclass(ItemIndex, CandidateIndex) and issubclass(ContentIndex, CandidateIndex)
    True
    """

    _rounding: ClassVar[float] = 0.0  # of scores, which index and model may sum in other orders
    _model: Any
    _learned: Any

    @property
    def stale(self) -> bool:
        """Whether the model has changed since the index was built."""
        return self._state() is not self._learned

    def recommend(
        self, users: Ids, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend the n best candidates to each user.

        Parameters
        ----------
        users : array_like or scalar
            User ids, or a single id.
        n : int, default=10
            Number of items per user, at least 1.
        exclude : Interactions or None, default=None
            Interactions whose items are not recommended to the same user again.
        filter : array_like of bool or None, default=None
            Mask over the model's `catalogue_`; only items with True are recommended.

        Returns
        -------
        tuple of ndarray
            Item ids and scores, best first, in the shapes of the model's `recommend`.

        Raises
        ------
        StaleIndexError
            If the model has changed since the index was built.
        """
        self._check_fresh()
        return self._listed(users, n, exclude, filter)

    def recall(
        self, users: Ids, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> float:
        """Measure the fraction of the model's n best items that the index finds.

        An item whose score equals the model's n-th best counts as found. A filter that leaves only
        items with low scores makes buckets miss most of them: measure with the filter in use.

        Parameters
        ----------
        users : array_like or scalar
            User ids to measure on.
        n : int, default=10
            Length of the lists, at least 1.
        exclude : Interactions or None, default=None
            As in `recommend`.
        filter : array_like of bool or None, default=None
            As in `recommend`.

        Returns
        -------
        float
            Recall from 0 to 1, over all items of all users.
        """
        who = ids_of(users, "users")
        mine = self.recommend(who, n, exclude=exclude, filter=filter)[1]
        true = self._model.recommend(who, n, exclude=exclude, filter=filter)[1]
        there = true > -np.inf
        worst = np.where(there, true, np.inf).min(axis=1, keepdims=True)
        return float((mine >= worst - self._rounding).sum() / max(there.sum(), 1))

    def _check_fresh(self) -> None:
        """Raise StaleIndexError if the model has changed."""
        if self.stale:
            raise StaleIndexError(
                f"{type(self).__name__}: the model has changed since the index was made; call "
                "index again."
            )

    def _state(self) -> Any:
        """Return an object that the model replaces whenever its fitted state changes."""
        raise NotImplementedError

    def _listed(
        self, users: Ids, n: int, exclude: Interactions | None, filter: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return items and scores of the best candidates."""
        raise NotImplementedError
