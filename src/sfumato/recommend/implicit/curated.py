"""CuratedList: the list that somebody made by hand, as a model like the others."""

from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.ids import as_ids, kind_of
from sfumato.core.tables import described
from sfumato.core.validation import Limit
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.recommend.implicit.base import HistoryModel
from sfumato.recommend.implicit.histories import Histories, History
from sfumato.recommend.ranking import fitting

__all__ = ["CuratedList"]


class _IdsLimit:
    """Limit of ids, all integers or all texts, at least one; a text holds them between commas."""

    def check(self, owner: str, name: str, value: Any) -> list[Any]:
        try:
            column = _split(value) if isinstance(value, str) else list(value)
            ids = as_ids(column, name) if column else None
        except (TypeError, ValueError):
            ids = None
        if ids is None:
            wanted = "a list of item ids, all integers or all texts, best first"
            raise ParameterError.of(owner, name, f"must be {wanted}, not {value!r:.100}.")
        plain = ids if isinstance(ids, np.ndarray) else ids.to_numpy(zero_copy_only=False)
        return list(plain.tolist())

    def bad(self) -> list[Any]:
        return [None, [], "", 7, [1, "tea"], [None], [1.5]]


def _split(text: str) -> list[Any]:
    """Return the ids between commas, as integers if all are."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [int(part) for part in parts] if all(map(str.isdecimal, parts)) else parts


class CuratedList(HistoryModel):
    """Recommends a list that was made by hand, to everybody alike.

    A baseline, and what a shop front shows before there is data.

    Parameters
    ----------
    items : list
        Item ids, best first; or a text with commas between them.
    relevant_from : float or None, default=None
        Smallest rating that counts for the popularity of the other items; None counts all rows.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    histories_ : Histories
        Items of each user, as positions in the catalogue.
    mean_, low_, high_ : float
        0, 0 and 1: the range of popularity.

    Notes
    -----
    **Guarantee.** The item at place k of n of the list has the score 1 + n - k; all other items
    follow by popularity, the fraction of users who have them. Listed items outside of the catalogue
    are left out. Not private.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> train = Interactions([1, 1, 2, 3], ["tea", "milk", "tea", "rum"])
    >>> CuratedList(items=["rum", "milk"]).fit(train).recommend(9, n=3)
    (array(['rum', 'milk', 'tea'], dtype=object), array([2.        , 1.        , 0.66666667]))
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "items": _IdsLimit(),
        "relevant_from": HistoryModel.LIMITS["relevant_from"],
    }

    def __init__(self, *, items: list[Any], relevant_from: float | None = None) -> None:
        super().__init__(relevant_from=relevant_from)
        self.items = items

    def __repr__(self) -> str:
        count = len(self.items) if isinstance(self.items, list | tuple) else 1
        return described(self, items=f"<{count}>", relevant_from=self.relevant_from)

    def fit(self, train: Interactions, *, catalogue: Any = None) -> Self:
        if isinstance(train, Interactions):
            fitting("CuratedList", "items", self._check()["items"], kind_of(train.items))
        return super().fit(train, catalogue=catalogue)

    def _learn(self, histories: Histories, plain: dict[str, Any]) -> None:
        self.__dict__.pop("_scores", None)

    def _listed(self) -> np.ndarray:
        """Return the score of every item; computed once for a fitted model."""
        if "_scores" not in self.__dict__:
            scores = self._popularity.copy()
            at = self.catalogue_.positions(self._check()["items"])
            places = np.arange(at.size, 0, -1.0)
            # Backwards, so that the first of equal ids decides.
            scores[at[at >= 0][::-1]] = places[at >= 0][::-1]
            self._scores = scores
        return self._scores

    def _scored(self, history: History) -> np.ndarray:
        return np.tile(self._listed(), (history.starts.size - 1, 1))

    def _explained(self, history: History, at: int, n: int) -> dict[str, Any]:
        score = float(self._listed()[at]) if at >= 0 else 0.0
        return {"history": [], "rest": 0.0, "popularity": score, "score": score}
