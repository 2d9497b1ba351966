"""Baskets of items, in memory or read again pass by pass: items numbered by frequency."""

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from sfumato.core.tables import described
from sfumato.core.validation import integer, optional
from sfumato.kernels.mine.itemsets import basket_rows as kernels
from sfumato.mine.itemsets.sources.by_row import basket_rows
from sfumato.mine.itemsets.sources.columns import RawChunk, as_rows, of_table
from sfumato.mine.itemsets.sources.vocabulary import coded, codes_for, rising

__all__ = ["CHUNK_BYTES", "BasketChunk", "BasketSource", "Baskets"]

CHUNK_BYTES = 8 << 20  # of one chunk of a source: in memory it takes several times as much
BYTES = optional(integer(1))
CODE = optional(integer(0, 2**31 - 1))


class BasketChunk(NamedTuple):
    """Some baskets in order: basket b has the codes ``items[offsets[b] : offsets[b + 1]]``.

    Parameters
    ----------
    offsets : ndarray of shape (n + 1,)
        Where each basket starts, and the end of the last; int64.
    items : ndarray
        Codes of items, int32, rising within a basket.

    Examples
    --------
    >>> chunk = next(Baskets([["tea", "milk"], ["tea"]]).read())
    >>> chunk.offsets, chunk.items
    (array([0, 2, 3]), array([0, 1, 0], dtype=int32))
    """

    offsets: np.ndarray
    items: np.ndarray

    def __repr__(self) -> str:
        return described(self, offsets=self.offsets, items=self.items)


class BasketSource(Protocol):
    """Baskets outside memory, that can be read again."""

    name: str

    def chunks(self, chunk_bytes: int) -> Iterator[RawChunk]: ...

    def by_row(self) -> "BasketSource":
        """The same baskets for private use: none is refused or changes how another is read."""


class Baskets:
    """Baskets of items, numbered by frequency.

    Parameters
    ----------
    baskets : array_like
        Items of each basket, integers or texts: lists of lists, an Arrow, pandas or polars column
        of lists, a SciPy sparse matrix (one row per basket, items are columns), or a tuple
        ``(offsets, items)``. A repeated item counts once; a basket may be empty.

    Attributes
    ----------
    passes : int
        Number of passes over the baskets so far; the first one counts the items.
    progress : callable or None
        Called with the number of the pass, the baskets done in it, and their total, None while it
        is not known; set it to follow long passes. None, as at first, reports nothing.

    See Also
    --------
    read_baskets : The same from files, which are not held in memory.

    Notes
    -----
    **Guarantee.** Codes of items are ``0, 1, ...`` in order of decreasing frequency, ties in order
    of their ids. So the items in at least ``s`` baskets are the codes below some number.

    Examples
    --------
    >>> baskets = Baskets([["milk", "tea"], ["tea"], [], ["rum", "tea", "tea"]])
    >>> baskets.size, baskets.items.tolist(), baskets.item_counts.tolist()
    (4, ['tea', 'milk', 'rum'], [3, 1, 1])
    """

    passes: int
    progress: Callable[[int, int, int | None], None] | None = None
    _source: BasketSource | None
    _held: BasketChunk | None
    _raw: RawChunk
    _counts: np.ndarray
    _ids: np.ndarray

    def __init__(self, baskets: Any) -> None:
        self._hold(as_rows(baskets))

    @classmethod
    def from_table(cls, table: Any, basket: str = "basket", item: str = "item") -> "Baskets":
        """Gather the baskets of a long table: one row per basket and item, in any order.

        Parameters
        ----------
        table : array_like
            An Arrow table, a pandas or polars frame, or a dict of columns.
        basket : str, default="basket"
            Name of the column of baskets, integers or texts.
        item : str, default="item"
            Name of the column of items, integers or texts.

        Returns
        -------
        Baskets
            In order of first appearance.

        Examples
        --------
        >>> rows = {"basket": [7, 8, 7], "item": ["tea", "tea", "milk"]}
        >>> Baskets.from_table(rows).size
        2
        """
        made = cls.__new__(cls)
        made._hold(of_table(table, basket, item))
        return made

    @classmethod
    def _of_source(cls, source: BasketSource) -> "Baskets":
        made = cls.__new__(cls)
        made._source, made._held, made._counted, made.passes = source, None, False, 0
        return made

    @classmethod
    def _by_row(cls, baskets: Any) -> "Baskets":
        """Baskets for private use: files and columns are read row by row, as texts."""
        if not isinstance(baskets, Baskets):
            made = cls.__new__(cls)
            made._hold(basket_rows(baskets))
        elif baskets._source is None:
            return baskets
        else:
            made = cls._of_source(baskets._source.by_row())
            made.progress = baskets.progress
        return made

    def _hold(self, rows: RawChunk) -> None:
        """Count and code rows in memory; they are sorted when they are first read."""
        self._source, self._held, self._counted, self.passes = None, None, True, 1
        codes, ids = coded(rows.ids)
        counts = np.zeros(ids.size, np.int64)
        kernels.tally(rows.offsets, codes, np.full(ids.size, -1, np.int32), counts)
        self._rank(ids, counts, rows.offsets.size - 1)
        self._raw = RawChunk(rows.offsets, codes)

    def _rank(self, ids: np.ndarray, counts: np.ndarray, size: int) -> None:
        """Fix the codes: by decreasing count, ties by id."""
        present = np.flatnonzero(counts)
        present = present[rising(ids[present])]
        order = present[np.argsort(-counts[present], kind="stable")]
        self._ranks = np.empty(counts.size, np.int32)
        self._ranks[order] = np.arange(order.size, dtype=np.int32)
        self._ids, self._counts, self._size = ids[order], counts[order], size

    def _arranged(self, rows: RawChunk, limit: int) -> BasketChunk:
        offsets = np.empty(rows.offsets.size, np.int64)
        items = np.empty(len(rows.ids), np.int32)
        end = kernels.arrange(rows.offsets, rows.ids, self._ranks, limit, offsets, items)
        return BasketChunk(offsets, items if end == items.size else items[:end].copy())

    def _unsorted(self, limit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One pass: offsets, numbers of items, and the code of each number, maybe past `limit`.

        Items may be in any order and repeated, as they came; a source is read into memory.
        """
        if self._held is None and self._source is None:
            self.passes += 1
            return (*self._raw, self._ranks)
        chunks = list(self.read(max_code=limit))
        sizes = [np.diff(chunk.offsets) for chunk in chunks]
        offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, np.int64), *sizes]))])
        items = np.concatenate([np.empty(0, np.int32), *(chunk.items for chunk in chunks)])
        return offsets, items, np.arange(limit, dtype=np.int32)

    def _count(self) -> None:
        """Make the first pass over a source, unless it is done."""
        if self._counted or self._source is None:
            return
        vocabulary, counts, size = None, np.zeros(0, np.int64), 0
        for rows in self._source.chunks(CHUNK_BYTES):
            size += rows.offsets.size - 1
            self._report(self.passes + 1, size, None)
            if not len(rows.ids):
                continue
            vocabulary = codes_for(rows.ids) if vocabulary is None else vocabulary
            codes = vocabulary.encode(rows.ids)
            counts = np.concatenate([counts, np.zeros(vocabulary.known - counts.size, np.int64)])
            kernels.tally(rows.offsets, codes, np.full(counts.size, -1, np.int32), counts)
        self._vocabulary = codes_for(np.empty(0, np.int64)) if vocabulary is None else vocabulary
        self._rank(self._vocabulary.ids, counts, size)
        self._counted, self.passes = True, self.passes + 1

    @property
    def size(self) -> int:
        """Number of baskets, empty ones included."""
        self._count()
        return self._size

    @property
    def items(self) -> np.ndarray:
        """Id of each code: int64, or an object array of texts."""
        self._count()
        return self._ids

    @property
    def item_counts(self) -> np.ndarray:
        """Number of baskets with each item, by code; decreasing."""
        self._count()
        return self._counts

    @property
    def nbytes(self) -> int:
        """Bytes held: of a source its vocabulary, in memory also the baskets."""
        if not self._counted:
            return 0
        rows = self._held if self._held is not None else getattr(self, "_raw", ())
        held = sum(each.nbytes for each in rows)
        coded = self._vocabulary.nbytes if self._source is not None else 0
        return int(held + coded + self._ids.nbytes + self._counts.nbytes + self._ranks.nbytes)

    def frequent(self, min_count: int) -> int:
        """Count the items that are in at least so many baskets.

        Parameters
        ----------
        min_count : int
            Number of baskets.

        Returns
        -------
        int
            Number of such items; their codes are those below it.

        Examples
        --------
        >>> Baskets([["milk", "tea"], ["tea"]]).frequent(2)
        1
        """
        return int(np.searchsorted(-self.item_counts, -min_count, side="right"))

    def read(
        self, chunk_bytes: int | None = None, max_code: int | None = None
    ) -> Iterator[BasketChunk]:
        """Make one pass over all baskets.

        Parameters
        ----------
        chunk_bytes : int or None, default=None
            Approximate size of a chunk; None for all baskets that are in memory at once, and for
            8 MiB of a file.
        max_code : int or None, default=None
            Leave out items whose code is not below it; None for no item. Baskets stay, maybe empty.

        Yields
        ------
        BasketChunk
            Baskets in order, each with sorted codes without repeats.
        """
        most = BYTES.check("Baskets", "chunk_bytes", chunk_bytes)
        limit = CODE.check("Baskets", "max_code", max_code)
        self._count()
        self.passes += 1
        limit = self._ids.size if limit is None else min(limit, self._ids.size)
        this, done = self.passes, 0
        for chunk in self._chunks(most, limit):
            yield chunk
            done += chunk.offsets.size - 1
            self._report(this, done, self._size)

    def _report(self, this: int, done: int, total: int | None) -> None:
        if self.progress is not None:
            self.progress(this, done, total)

    def _chunks(self, most: int | None, limit: int) -> Iterator[BasketChunk]:
        """Chunks of at most so many bytes, of items below a code."""
        if self._source is None:
            if self._held is None:
                self._held = self._arranged(self._raw, self._ids.size)
                del self._raw
            for chunk in _sliced(self._held, most):
                yield chunk if limit == self._ids.size else _below(chunk, limit)
            return
        for rows in self._source.chunks(CHUNK_BYTES if most is None else most):
            nothing = np.empty(0, np.int32)
            codes = self._vocabulary.encode(rows.ids) if len(rows.ids) else nothing
            if self._vocabulary.known != self._ids.size:
                raise ValueError(f"{self._source.name}: has changed since the items were counted.")
            yield self._arranged(RawChunk(rows.offsets, codes), limit)

    def write(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the baskets to a file that `read_baskets` reads, in one pass.

        Parameters
        ----------
        path : path_like
            The file; it replaces one that is there. Text formats may end in .gz.
        format : str or None, default=None
            "fimi" (.dat), "lines" (.csv), "flat" (integers, -1 ends a basket; .flat) or "lists"
            (.parquet); None for the one of the ending.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "baskets.flat")
        >>> Baskets([[20, 52], [], [20]]).write(path)
        >>> path.read_text()
        '20,52,-1,-1,20,-1,'
        """
        from sfumato.mine.itemsets.sources.files import write_baskets

        write_baskets(self, path, format)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        name: dict[str, Any] = {} if self._source is None else {"source": self._source.name}
        if not self._counted:
            return described(self, **name, passes=0)
        return described(self, **name, size=self._size, items=self._ids.size, passes=self.passes)


def _sliced(chunk: BasketChunk, most: int | None) -> Iterator[BasketChunk]:
    """Chunks of at most so many bytes, or of one basket; one chunk of no basket at least."""
    offsets, items = chunk
    start, size = 0, offsets.size - 1
    ends = 4 * offsets + 8 * np.arange(size + 1) if most is not None else offsets
    while start < size or start == 0:
        stop = size
        if most is not None:
            stop = int(np.searchsorted(ends, ends[start] + most, side="right")) - 1
            stop = min(max(stop, start + 1), size)
        first = offsets[start]
        yield BasketChunk(offsets[start : stop + 1] - first, items[first : offsets[stop]])
        start = max(stop, 1)


def _below(chunk: BasketChunk, limit: int) -> BasketChunk:
    offsets, items = np.empty_like(chunk.offsets), np.empty_like(chunk.items)
    end = kernels.prefixes(*chunk, limit, offsets, items)
    return BasketChunk(offsets, items[:end])
