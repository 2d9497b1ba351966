"""Popularity: the same list for everybody, the baseline of every list."""

import math
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, between, optional
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.recommend.implicit.base import HistoryModel, popularity
from sfumato.recommend.implicit.histories import Histories, History

__all__ = ["Popular"]


class Popular(HistoryModel):
    """Most popular items: the fraction of users who have each item.

    The baseline that every other list must beat.

    Parameters
    ----------
    relevant_from : float or None, default=None
        Smallest rating that counts; None counts all rows.
    window : float or None, default=None
        How long before the latest row a row counts, above 0, in the unit of the times (seconds, if
        they were dates): "most used in the past month". None counts all rows.

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
    **Guarantee.** The score of an item is the exact fraction of users who have it, among those with
    a row in the window if there is one. Not private.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> train = Interactions([1, 1, 2, 3], ["tea", "milk", "tea", "rum"], [1, 1, 1, 1])
    >>> model = Popular().fit(train)
    >>> model.recommend(3, n=1, exclude=train)
    (array(['tea'], dtype=object), array([0.66666667]))
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "relevant_from": HistoryModel.LIMITS["relevant_from"],
        "window": optional(between(0, math.inf, above=True)),
    }

    def __init__(self, *, relevant_from: float | None = None, window: float | None = None) -> None:
        super().__init__(relevant_from=relevant_from)
        self.window = window

    def fit(self, train: Interactions, *, catalogue: Any = None) -> Self:
        plain = self._check()
        self._check_train(train)
        if plain["window"] is None:
            return super().fit(train, catalogue=catalogue)
        if train.times is None:
            raise ParameterError.of(
                "Popular", "window", "needs times: give them to Interactions, or window=None."
            )
        items = self._catalogue_of(train, catalogue)
        recent = train.filter(train.times >= train.times.max() - plain["window"])
        counted = popularity(Histories.of(recent, items, "equal", plain["relevant_from"]))
        super().fit(train, catalogue=items)
        self._popularity = counted
        return self

    def _learn(self, histories: Histories, plain: dict[str, Any]) -> None:
        pass

    def _weight_layout(self) -> dict[str, Cells]:
        return {} if self.window is None else {"recent": Cells(np.float64, (-1,))}

    def _weight_arrays(self) -> dict[str, np.ndarray]:
        return {} if self.window is None else {"recent": self._popularity}

    def _restore_weights(self, arrays: dict[str, np.ndarray]) -> None:
        if "recent" not in arrays:
            return
        recent = arrays["recent"]
        if recent.shape != (len(self.catalogue_),) or not ((recent >= 0) & (recent <= 1)).all():
            raise ValueError("recent must be fractions of users, one per item.")
        self._popularity = recent

    def _scored(self, history: History) -> np.ndarray:
        return np.tile(self._popularity, (history.starts.size - 1, 1))

    def _explained(self, history: History, at: int, n: int) -> dict[str, Any]:
        score = float(self._popularity[at]) if at >= 0 else 0.0
        return {"history": [], "rest": 0.0, "popularity": score, "score": score}
