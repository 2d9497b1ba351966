"""Popularity: the same list for everybody, the baseline of every list."""

from typing import Any, ClassVar

import numpy as np

from sfumato.core.validation import Limit
from sfumato.recommend.implicit.base import HistoryModel
from sfumato.recommend.implicit.histories import Histories, History

__all__ = ["Popular"]


class Popular(HistoryModel):
    """Most popular items: the fraction of users who have each item.

    The baseline that every other list must beat.

    Parameters
    ----------
    relevant_from : float or None, default=None
        Smallest rating that counts; None counts all rows.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    histories_ : Histories
        Items of each user, as positions in the catalogue.
    mean_, low_, high_ : float
        0, 0 and 1: the range of scores.

    Notes
    -----
    **Guarantee.** The score of an item is the exact fraction of users who have it. Not private.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> train = Interactions([1, 1, 2, 3], ["tea", "milk", "tea", "rum"], [1, 1, 1, 1])
    >>> model = Popular().fit(train)
    >>> model.recommend(3, n=1, exclude=train)
    (array(['tea'], dtype=object), array([0.66666667]))
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"relevant_from": HistoryModel.LIMITS["relevant_from"]}

    def __init__(self, *, relevant_from: float | None = None) -> None:
        super().__init__(relevant_from=relevant_from)

    def _learn(self, histories: Histories, plain: dict[str, Any]) -> None:
        pass

    def _scored(self, history: History) -> np.ndarray:
        return np.tile(self._popularity, (history.starts.size - 1, 1))

    def _explained(self, history: History, at: int, n: int) -> dict[str, Any]:
        score = float(self._popularity[at]) if at >= 0 else 0.0
        return {"history": [], "rest": 0.0, "popularity": score, "score": score}
