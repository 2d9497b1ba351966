"""Streams of baskets in one pass: frequent items and pairs within an error, popular items now."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sfumato.core.file_format import Packed
from sfumato.core.ids import (
    distinct,
    id_arrays,
    id_layout,
    ids_from,
    ids_of,
    kind_of,
    positions,
)
from sfumato.core.storage import Cells, Stored
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import fraction, integer
from sfumato.kernels.mine import basket_streams as kernels
from sfumato.mine.itemsets.baskets import BasketChunk, Baskets
from sfumato.mine.itemsets.mining import count_of

__all__ = ["FrequentItems", "FrequentPairs", "PopularNow"]

SIZE = integer(1, 2**24)
BLOCK = 2**18  # pairs listed at a time
ROOM = 2**18  # counters while a column is counted; 2**19 slots are 8 MiB


class _ItemStream(Stored, in_files=False):
    """State that is stored with the ids it speaks of: `_items`, all integers or all texts."""

    _items: np.ndarray
    _cells: ClassVar[dict[str, Cells]] = {}  # the other arrays
    _scalars: ClassVar[dict[str, int | float | str]] = {"total": 0, "kind": "integers"}
    total: int
    kind: str

    def _start(self) -> None:
        vars(self).update(self._scalars)
        self._items = np.empty(0, np.int64)
        for name, cells in self._cells.items():
            setattr(self, name, np.zeros([max(size, 0) for size in cells.shape], cells.dtype))

    def _layout(self) -> dict[str, Cells]:
        return {**self._cells, **id_layout("items", self.kind)}

    def _arrays(self) -> dict[str, np.ndarray]:
        own = {name: getattr(self, name) for name in self._cells}
        return {**own, **id_arrays("items", self._items)}

    def _restore(self, packed: Packed) -> None:
        super()._restore(packed)
        stored = {name: vars(self).pop(name) for name in id_layout("items", self.kind)}
        self._items = ids_from("items", stored)
        self._check_items()

    def _check_items(self) -> None:
        """Raise ValueError if the arrays of a file do not fit each other."""

    def _check_kind(self, ids: np.ndarray) -> None:
        """Raise TypeError if texts follow integers, or integers texts."""
        if ids.size and self._items.size and kind_of(ids) != self.kind:
            raise TypeError(
                f"{type(self).__name__}: items are {kind_of(ids)} here and {self.kind} before; "
                "give all of them as texts."
            )

    def copy(self) -> Self:
        """Copy the object.

        Returns
        -------
        Self
            An independent copy.
        """
        return type(self).from_bytes(self.to_bytes())


@dataclass(frozen=True)
class _Counters:
    """Counts of itemsets, rows of `codes` into `items`, each at most `undercount` too low."""

    items: np.ndarray
    codes: np.ndarray
    counts: np.ndarray
    undercount: int = 0

    def over(self, items: np.ndarray) -> "_Counters":
        """Return the same counters by codes into these items, followed by their own others."""
        if not self.items.size:
            return replace(self, items=items)
        known = positions(self.items, items)
        new = known < 0
        known[new] = items.size + np.arange(new.sum())
        codes = np.sort(known.astype(np.int32)[self.codes], axis=1)
        pool = np.concatenate([items, self.items[new]]) if items.size else self.items[new]
        return replace(self, items=pool, codes=codes)

    def compact(self) -> "_Counters":
        """Return the same counters with the items that occur in them alone."""
        used, at = np.unique(self.codes, return_inverse=True)
        return replace(self, items=self.items[used], codes=_int32(at.reshape(self.codes.shape)))


class _CounterTable:
    """Hash table of counters; when it is full, the smallest give way, as Misra and Gries do it.

    The largest count that does not fit is taken from all, so that each unit that a count lacks
    stands beside one of `size` others. The table has room for more than `size`, since that makes
    this rare, and so the counts closer.
    """

    def __init__(self, size: int) -> None:
        self.size, self.undercount = size, 0
        self._room = max(2 * size, ROOM)
        self._clear()

    def _clear(self) -> None:
        slots = 1 << (3 * self._room // 2).bit_length()
        self._table = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        self._used = 0

    def add(self, keys: np.ndarray, counts: np.ndarray) -> None:
        """Add counts to keys; one count is that of all keys."""
        start = 0
        while start < keys.size:
            start, self._used = kernels.count(
                keys, counts, start, self._room, *self._table, self._used
            )
            if start < keys.size:
                retained = self.retained()
                self._clear()
                self.add(*retained)

    def retained(self) -> tuple[np.ndarray, np.ndarray]:
        """Return keys and counts, at most `size`; what is taken away adds to the undercount."""
        rows = np.flatnonzero(self._table[1])
        keys, counts = (column[rows] for column in self._table)
        if counts.size > self.size:
            cut = int(np.sort(counts)[-self.size - 1])  # many are equal: faster than np.partition
            self.undercount += cut
            keys, counts = keys[counts > cut], counts[counts > cut] - cut
        return keys, counts


def _int32(codes: np.ndarray) -> np.ndarray:
    return codes.astype(np.int32)


class _Frequent(_ItemStream, in_files=False):
    """Frequent itemsets of `_width` items in a stream of baskets."""

    size: int
    baskets: int
    skipped: int
    undercount: int
    _codes: np.ndarray
    _counts: np.ndarray
    _width: ClassVar[int]
    _scalars: ClassVar[dict[str, int | float | str]] = {
        **_ItemStream._scalars,
        "baskets": 0,
        "skipped": 0,
        "undercount": 0,
    }

    def update(self, baskets: Any) -> Self:
        """Count the next baskets.

        Parameters
        ----------
        baskets : object
            Whatever `Baskets` takes, or a `Baskets`; a repeated item of a basket counts once. A
            `Baskets` that reads a file is read twice, the first time to number its items.

        Returns
        -------
        Self
            The object itself.
        """
        rows = baskets if isinstance(baskets, Baskets) else Baskets(baskets)
        self._check_kind(rows.items)
        skipped, total, counters = 0, 0, self._counters
        for chunk in rows.read():
            skipped += self._too_large(chunk)
            counts, counters = self._joined(counters, rows.items, self._counted(chunk))
            total += counts
        if skipped:
            self._warn(skipped)
        self.total, self.baskets = self.total + total, self.baskets + rows.size
        self.skipped += skipped
        self._set(counters)
        return self

    def _joined(
        self, counters: _Counters, items: np.ndarray, counted: Iterator[tuple[Any, Any]]
    ) -> tuple[int, _Counters]:
        """Add counts by keys of codes into `items`; return their sum and the counters."""
        counters, table, total = counters.over(items), _CounterTable(self.size), 0
        table.add(_keys(counters.codes), counters.counts)
        for keys, counts in counted:
            total += int(np.broadcast_to(counts, keys.shape).sum())
            table.add(keys, counts)
        keys, counts = table.retained()
        codes = _int32(_codes(keys, self._width))
        undercount = counters.undercount + table.undercount
        return total, _Counters(counters.items, codes, counts, undercount).compact()

    def merge(self, other: Self) -> Self:
        """Add the counts of another stream of baskets.

        Parameters
        ----------
        other : Self
            Summary of the same parameters, which does not change.

        Returns
        -------
        Self
            The object itself. Its guarantee holds for both streams together, though the counts may
            differ from those of one summary of both.
        """
        self._check_same(other, "merge")
        self._check_kind(other._items)
        theirs = _keys(np.sort(other._codes, axis=1)), other._counts
        _, counters = self._joined(self._counters, other._items, iter([theirs]))
        counters = replace(counters, undercount=counters.undercount + other.undercount)
        for name in ("total", "baskets", "skipped"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._set(counters)
        return self

    @property
    def error(self) -> int:
        """How much larger than its estimate any count may be."""
        return self.undercount + self.skipped

    def frequent(self, min_support: float) -> pa.Table:
        """List everything that may be frequent.

        Parameters
        ----------
        min_support : float
            Below 1 a share of the baskets, from 1 up a count.

        Returns
        -------
        Table
            Columns `items` (list), `count` and `max_count`, between which the true count lies, by
            decreasing count. No frequent one is missing; those with a `count` below the support
            may be false positives.

        Raises
        ------
        ValueError
            If the error is as large as the support, so that one that is not listed may be
            frequent.
        """
        least = count_of(min_support, lambda: self.baskets, type(self).__name__)
        if self.error >= least:
            raise ValueError(
                f"{type(self).__name__}: min_support must be above the error, {self.error} of "
                f"{self.baskets} baskets; take a larger support, or a size above {self.size}."
            )
        rows = np.flatnonzero(self._counts + self.error >= least)
        rows = rows[np.argsort(-self._counts[rows], kind="stable")]
        ids = pa.array(self._items[self._codes[rows].reshape(-1)])
        ends = pa.array(np.arange(0, len(ids) + 1, self._width), pa.int64())
        counts = self._counts[rows]
        return pa.table(
            {
                "items": pa.LargeListArray.from_arrays(ends, ids),
                "count": counts,
                "max_count": counts + self.error,
            }
        )

    def _find(self, *columns: Ids) -> np.ndarray:
        """Return the count of each row of ids, 0 where it is not retained."""
        owner = type(self).__name__
        ids = [ids_of(column, f"{owner}: items") for column in columns]
        if len({column.size for column in ids}) > 1:
            raise ValueError(f"{owner}: first and second must be of one length.")
        codes = [positions(column, self._items) for column in ids]
        rows = np.sort(np.stack(codes, axis=1), axis=1)
        at = positions(_keys(rows), _keys(np.sort(self._codes, axis=1)))
        at[(rows < 0).any(axis=1)] = -1
        return np.asarray(np.append(self._counts, 0)[at])

    @property
    def _counters(self) -> _Counters:
        return _Counters(self._items, self._codes, self._counts, self.undercount)

    def _set(self, counters: _Counters) -> None:
        self._items, self._codes = counters.items, counters.codes
        self._counts, self.undercount = counters.counts, counters.undercount
        self.kind = kind_of(self._items)

    def _counted(self, chunk: BasketChunk) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield keys of the itemsets of a chunk, and the count of each or of all."""
        raise NotImplementedError

    def _too_large(self, chunk: BasketChunk) -> int:
        """Return how many baskets are not counted."""
        return 0

    def _warn(self, skipped: int) -> None:
        """Warn of baskets that are not counted."""

    def _check_items(self) -> None:
        codes, counts = self._codes, self._counts
        fits = codes.shape[0] == counts.size <= self.size and (counts > 0).all()
        if not fits or codes.min(initial=0) < 0 or codes.max(initial=-1) >= self._items.size:
            raise ValueError("the counters do not fit the items.")
        if min(self.total, self.baskets, self.skipped, self.undercount) < 0:
            raise ValueError("a total is negative.")

    def __repr__(self) -> str:
        return described(self, **self.parameters, baskets=self.baskets, error=self.error)


def _keys(rows: np.ndarray) -> np.ndarray:
    """One integer for each row of one or two codes."""
    first = rows[:, 0].astype(np.int64)
    return first if rows.shape[1] == 1 else first << 32 | rows[:, 1]


def _codes(keys: np.ndarray, width: int) -> np.ndarray:
    """The rows of codes of keys."""
    columns = [keys] if width == 1 else [keys >> 32, keys & (2**32 - 1)]
    return np.stack(columns, axis=1)


class FrequentItems(_Frequent):
    """Frequent items of a stream of baskets, in one pass and fixed memory.

    Parameters
    ----------
    size : int
        Number of counters, from 1 to 2**24; memory grows with it alone.

    Attributes
    ----------
    total : int
        Number of items counted, each once for every basket that has it.
    baskets : int
        Number of baskets, empty ones included.
    error : int
        How much larger than its estimate any count may be.

    Notes
    -----
    **Guarantee.** For every item, ``estimate <= count <= estimate + error``, and ``error <= total /
    (size + 1)``. So an item in more than ``total / (size + 1)`` baskets is always listed. A merged
    summary has the same guarantee for the baskets of both. Columns are counted at once, and the
    summary of Misra and Gries [1]_ merges with these counts as with another summary [2]_.

    References
    ----------
    .. [1] Misra, Gries. "Finding repeated elements". Science of Computer Programming 2, 1982.
       https://doi.org/10.1016/0167-6423(82)90012-0
    .. [2] Agarwal, Cormode, Huang, Phillips, Wei, Yi. "Mergeable Summaries". PODS 2012, Theorem 1
       (merging retains the error). https://doi.org/10.1145/2213556.2213562

    Examples
    --------
    >>> stream = FrequentItems(size=2).update([["tea", "milk"], ["tea"], ["rum", "tea"]])
    >>> stream.estimate(["tea", "rum"]), stream.error, stream.total
    (array([2, 0]), 1, 5)
    """

    size: Annotated[int, SIZE]
    _width = 1
    _cells = {"_codes": Cells(np.int32, (-1, 1), ""), "_counts": Cells(np.int64, (-1,), "")}

    def __init__(self, size: int) -> None:
        self._set_parameters(size=size)
        self._start()

    def estimate(self, items: Ids) -> np.ndarray:
        """Estimate the number of baskets that have each item.

        Parameters
        ----------
        items : array_like or scalar
            Item ids.

        Returns
        -------
        ndarray of shape (n,)
            Counts, never too high, and too low by at most `error`.
        """
        return self._find(items)

    def _counted(self, chunk: BasketChunk) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        counts = np.bincount(chunk.items) if chunk.items.size else np.zeros(0, np.int64)
        keys = np.flatnonzero(counts)
        if keys.size:
            yield keys, counts[keys]


class FrequentPairs(_Frequent):
    """Frequent pairs of items in a stream of baskets, in one pass and fixed memory.

    Parameters
    ----------
    size : int
        Number of counters, from 1 to 2**24; memory grows with it alone.
    max_items : int, default=1000
        Largest basket whose pairs are counted, from 2 to 4096 items. A larger basket is left out,
        with a warning.

    Attributes
    ----------
    total : int
        Number of pairs counted, each once for every basket that has both items.
    baskets : int
        Number of baskets, those left out and empty ones included.
    skipped : int
        Number of baskets left out.
    error : int
        How much larger than its estimate any count may be.

    Notes
    -----
    **Guarantee.** For every pair, ``estimate <= count <= estimate + error``, and ``error <=
    skipped + total / (size + 1)``: a basket that is left out has a pair once. A merged summary has
    the same guarantee for the baskets of both [1]_.

    References
    ----------
    .. [1] Agarwal, Cormode, Huang, Phillips, Wei, Yi. "Mergeable Summaries". PODS 2012, Theorem 1
       (merging retains the error). https://doi.org/10.1145/2213556.2213562

    Examples
    --------
    >>> baskets = [["tea", "milk"], ["milk", "rum", "tea"], ["tea"]]
    >>> FrequentPairs(size=100).update(baskets).frequent(2).to_pylist()
    [{'items': ['tea', 'milk'], 'count': 2, 'max_count': 2}]
    """

    size: Annotated[int, SIZE]
    max_items: Annotated[int, integer(2, 4096)]
    _width = 2
    _cells = {"_codes": Cells(np.int32, (-1, 2), ""), "_counts": Cells(np.int64, (-1,), "")}

    def __init__(self, size: int, *, max_items: int = 1000) -> None:
        self._set_parameters(size=size, max_items=max_items)
        self._start()

    def estimate(self, first: Ids, second: Ids) -> np.ndarray:
        """Estimate the number of baskets that have both items of each pair.

        Parameters
        ----------
        first : array_like or scalar
            One item of each pair.
        second : array_like or scalar
            The other item of each pair.

        Returns
        -------
        ndarray of shape (n,)
            Counts, never too high, and too low by at most `error`.
        """
        return self._find(first, second)

    def _counted(self, chunk: BasketChunk) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        sizes = np.diff(chunk.offsets)
        ends = np.cumsum(np.where(sizes > self.max_items, 0, sizes * (sizes - 1) // 2))
        start = 0
        while start < sizes.size:
            before = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, before + BLOCK, side="right")), start + 1)
            out = np.empty(int(ends[stop - 1]) - before, np.int64)
            kernels.pairs(chunk.offsets[start : stop + 1], chunk.items, self.max_items, out)
            yield out, np.ones(1, np.int64)
            start = stop

    def _too_large(self, chunk: BasketChunk) -> int:
        return int((np.diff(chunk.offsets) > self.max_items).sum())

    def _warn(self, skipped: int) -> None:
        warnings.warn(
            f"FrequentPairs: {skipped} baskets have more than max_items={self.max_items} items; "
            "their pairs are not counted, and the error grows by one for each.",
            UserWarning,
            stacklevel=3,
        )


class PopularNow(_ItemStream):
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
        self.kind = kind_of(self._items)
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
