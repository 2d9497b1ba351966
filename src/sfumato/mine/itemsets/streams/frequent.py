"""Frequent items and pairs of a stream of baskets, in one pass within a stated error."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sfumato.core.ids import (
    ids_of,
    kind_of,
    positions,
)
from sfumato.core.storage import Cells
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import integer
from sfumato.kernels.mine.itemsets import basket_streams as kernels
from sfumato.mine.itemsets.mining import count_of
from sfumato.mine.itemsets.sources.baskets import BasketChunk, Baskets
from sfumato.mine.itemsets.streams.counter_table import (
    Counters,
    CounterTable,
    as_int32,
    codes_of,
    keys_of,
)
from sfumato.mine.itemsets.streams.item_stream import ItemStream

__all__ = ["FrequentItems", "FrequentPairs"]

SIZE = integer(1, 2**24)
BLOCK = 2**18  # pairs listed at a time


class _Frequent(ItemStream, in_files=False):
    """Frequent itemsets of `_width` items in a stream of baskets."""

    size: int
    baskets: int
    skipped: int
    undercount: int
    _codes: np.ndarray
    _counts: np.ndarray
    _width: ClassVar[int]
    _scalars: ClassVar[dict[str, int | float | str]] = {
        **ItemStream._scalars,
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
        self, counters: Counters, items: np.ndarray, counted: Iterator[tuple[Any, Any]]
    ) -> tuple[int, Counters]:
        """Add counts by keys of codes into `items`; return their sum and the counters."""
        counters, table, total = counters.over(items), CounterTable(self.size), 0
        table.add(keys_of(counters.codes), counters.counts)
        for keys, counts in counted:
            total += int(np.broadcast_to(counts, keys.shape).sum())
            table.add(keys, counts)
        keys, counts = table.retained()
        codes = as_int32(codes_of(keys, self._width))
        undercount = counters.undercount + table.undercount
        return total, Counters(counters.items, codes, counts, undercount).compact()

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
        theirs = keys_of(np.sort(other._codes, axis=1)), other._counts
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
        at = positions(keys_of(rows), keys_of(np.sort(self._codes, axis=1)))
        at[(rows < 0).any(axis=1)] = -1
        return np.asarray(np.append(self._counts, 0)[at])

    @property
    def _counters(self) -> Counters:
        return Counters(self._items, self._codes, self._counts, self.undercount)

    def _set(self, counters: Counters) -> None:
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
