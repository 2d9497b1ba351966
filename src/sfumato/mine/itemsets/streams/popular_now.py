"""What is popular now: scores of items that fade with every step of a stream."""

from typing import Annotated, Self

import numpy as np

from sfumato.core.ids import (
    distinct,
    ids_of,
    kind_of,
    positions,
)
from sfumato.core.storage import Cells
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import fraction, integer
from sfumato.kernels.mine.itemsets import basket_streams as kernels
from sfumato.mine.itemsets.streams.item_stream import ItemStream

__all__ = ["PopularNow"]


class PopularNow(ItemStream):
    """Most popular items of a stream now: scores that fade with every step.

    Parameters
    ----------
    decay : float
        Part c of all scores that is lost with every step, above 0 and below 1. About the last
        1 / c steps count.

    Attributes
    ----------
    total : int
        Number of steps so far.

    Notes
    -----
    **Guarantee.** The score of an item is the sum of ``(1 - decay)**age`` over its occurrences,
    where the last step has age 0. A score that falls below 1/2 is forgotten, and starts at 1 when
    its item returns: so a score is too low by less than ``1/2`` for every time that it was
    forgotten, which fades as well. All scores sum to less than ``1 / decay``, so at most ``2 /
    decay`` of them are alive at any time [1]_. Columns may be split anywhere. Streams do not
    merge: where they ran side by side, the ages of the union are not known.

    References
    ----------
    .. [1] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets". 3rd edition, 2020, section
       4.7 (decaying windows). http://www.mmds.org

    Examples
    --------
    >>> now = PopularNow(decay=0.1).update(["tea", "milk", "milk"])
    >>> items, scores = now.top(2)
    >>> items.tolist(), scores.round(2).tolist()
    (['milk', 'tea'], [1.9, 0.81])
    """

    decay: Annotated[float, fraction]
    _scores: np.ndarray
    _times: np.ndarray
    _cells = {"_scores": Cells(np.float64, (-1,), ""), "_times": Cells(np.int64, (-1,), "")}

    def __init__(self, decay: float) -> None:
        self._set_parameters(decay=decay)
        self._start()

    def update(self, items: Ids) -> Self:
        """Take one step for each item of a column, in order.

        Parameters
        ----------
        items : array_like or scalar
            Item ids, all integers or all texts.

        Returns
        -------
        Self
            The object itself.
        """
        ids = ids_of(items, "PopularNow: items")
        self._check_kind(ids)
        names, codes = distinct(ids)
        known = positions(names, self._items)
        new = known < 0
        known[new] = self._items.size + np.arange(new.sum())
        scores = np.concatenate([self._scores, np.zeros(new.sum())])
        times = np.concatenate([self._times, np.full(new.sum(), self.total)])
        kernels.fade(known[codes], self.total, 1 - self.decay, scores, times)
        self.total += ids.size
        pool = np.concatenate([self._items, names[new]]) if self._items.size else names
        live = np.flatnonzero(self._faded(scores, times) >= 0.5)
        live = live[np.argsort(times[live])]  # by last step, the same for every split
        self._items, self._scores, self._times = pool[live], scores[live], times[live]
        self.kind: str = kind_of(self._items)
        return self

    def merge(self, other: Self) -> Self:
        """Raise TypeError: streams of steps do not merge.

        Parameters
        ----------
        other : Self
            Another stream.

        Returns
        -------
        Self
            Never returns.

        Raises
        ------
        TypeError
            Always: the order of the steps of both is not known.
        """
        raise TypeError(
            "PopularNow: cannot merge, since the order in which the steps of both streams came is "
            "not known; update one with the columns of both in order."
        )

    def scores(self, items: Ids) -> np.ndarray:
        """Return the score of each item now.

        Parameters
        ----------
        items : array_like or scalar
            Item ids.

        Returns
        -------
        ndarray of shape (n,)
            Scores of at least 1/2; 0 for an item that is not alive.
        """
        at = positions(ids_of(items, "PopularNow: items"), self._items)
        now = np.append(self._faded(self._scores, self._times), 0.0)
        return np.asarray(now[at])

    def top(self, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Return the items with the largest scores.

        Parameters
        ----------
        n : int, default=10
            Number of items, at least 1.

        Returns
        -------
        tuple of ndarray
            Item ids and their scores, by decreasing score; fewer than n if fewer are alive.
        """
        n = integer(1).check("PopularNow", "n", n)
        now = self._faded(self._scores, self._times)
        best = np.argsort(-now, kind="stable")[:n]
        return self._items[best], now[best]

    @property
    def live(self) -> int:
        """Number of scores that are alive, at most 2 / decay."""
        return int(self._items.size)

    def _faded(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        return np.asarray(scores * (1 - self.decay) ** (self.total - times).astype(np.float64))

    def _check_items(self) -> None:
        sizes = {self._scores.size, self._times.size, self._items.size}
        times, scores = self._times, self._scores
        fits = len(sizes) == 1 and np.isfinite(scores).all() and (scores >= 0.5).all()
        if not fits or times.min(initial=0) < 0 or times.max(initial=0) > self.total:
            raise ValueError("the scores do not fit the items.")

    def __repr__(self) -> str:
        return described(self, **self.parameters, total=self.total, live=self.live)
