"""Rows of a BinaryIndex: codes, factors, ids and vectors, appended while readers keep snapshots.

A row is written once, behind all rows that a reader has; a removal makes new bits of the living
rows. So a snapshot taken from `RowWriter.stored` does not change. Codes are packed in panels for
the scan. Ids are distinct integers from 0; errors name the position, never the id.
"""

import threading
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from sfumato.core.ids import ids_of, kind_of
from sfumato.core.validation import integer
from sfumato.kernels import hash_tables as positions
from sfumato.kernels.lanes import aligned
from sfumato.kernels.retrieve.hamming_scan import BLOCK, frozen

__all__ = [
    "NOTHING",
    "Panels",
    "RowWriter",
    "StoredRows",
    "allowed_bits",
    "bits_of",
    "check_distinct",
    "check_ids",
    "check_known",
    "check_new",
    "extended",
    "integer_ids",
    "mask_of",
]

WORDS = integer(1, 1024)


class Panels:
    """Packed codes, word by word in blocks of BLOCK codes.

    **Guarantee.** Codes come back as they were added, row by row. A row is never written again, so
    a reader with `blocks` and `count` reads the same codes while others are appended. One thread
    appends at a time; a reader takes `count` first, then `blocks`. `words`, the 64-bit words of a
    code, is from 1 to 1024.

    >>> panels = Panels(2).append(np.array([[1, 2], [3, 4]], np.uint64))
    >>> panels.count, panels.take(np.array([1]))
    (2, array([[3, 4]], dtype=uint64))
    """

    def __init__(self, words: int) -> None:
        self.words = WORDS.check("Panels", "words", words)
        self.count = 0
        self._blocks = aligned((0, self.words, BLOCK), np.uint64)

    @classmethod
    def over(cls, blocks: np.ndarray, count: int) -> Self:
        """Panels that read stored blocks in place; the first append copies them.

        blocks: uint64 (ceil(count / BLOCK), words, BLOCK), C-contiguous; count: number of rows.
        """
        fits = blocks.ndim == 3 and blocks.shape[0] == -(-count // BLOCK) and count >= 0
        if not fits or blocks.shape[2] != BLOCK or blocks.dtype != np.uint64:
            raise ValueError(
                f"Panels: blocks must be uint64 of shape (ceil(count / {BLOCK}), words, {BLOCK}) "
                f"for count {count}, not {blocks.dtype} of shape {blocks.shape}."
            )
        panels = cls(blocks.shape[1])
        panels._blocks, panels.count = frozen(blocks), count
        return panels

    @property
    def blocks(self) -> np.ndarray:
        """Blocks in use, uint64 (ceil(count / BLOCK), words, BLOCK), not writable."""
        return frozen(self._blocks[: -(-self.count // BLOCK)])

    @property
    def nbytes(self) -> int:
        """Bytes of memory, including capacity for later rows."""
        return self._blocks.nbytes

    def append(self, codes: np.ndarray) -> Self:
        """Add codes, uint64 (n, words), as rows count to count + n - 1."""
        codes = np.asarray(codes)
        if codes.ndim != 2 or codes.shape[1] != self.words or codes.dtype != np.uint64:
            raise ValueError(
                f"Panels: codes must be uint64 of shape (n, {self.words}), "
                f"not {codes.dtype} of shape {codes.shape}."
            )
        self._reserve(self.count + len(codes))
        self._write(codes)
        self.count += len(codes)
        return self

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Codes of these rows, uint64 (m, words)."""
        rows = np.asarray(rows, np.int64)
        if rows.size and not 0 <= rows.min() <= rows.max() < self.count:
            raise IndexError(f"Panels: rows must be from 0 to {self.count - 1}.")
        return self._blocks[rows // BLOCK, :, rows % BLOCK]

    def codes(self) -> np.ndarray:
        """All codes in the order of rows, uint64 (count, words), a copy."""
        rows = self.blocks.transpose(0, 2, 1).reshape(-1, self.words)
        return rows[: self.count].copy()

    def _reserve(self, count: int) -> None:
        """Grow the capacity; readers keep the old array, whose rows stay as they are."""
        needed = -(-count // BLOCK)
        if needed > len(self._blocks) or not self._blocks.flags.writeable:
            room = max(needed, 2 * len(self._blocks))
            grown = aligned((room, self.words, BLOCK), np.uint64)
            grown[: len(self.blocks)] = self.blocks
            self._blocks = grown

    def _write(self, codes: np.ndarray) -> None:
        """Write codes after the last row: to the end of a block, to full blocks, to a new block."""
        at, start = self.count, 0
        head = min(-at % BLOCK, len(codes))
        if head:
            self._blocks[at // BLOCK, :, at % BLOCK : at % BLOCK + head] = codes[:head].T
            at, start = at + head, head
        full = (len(codes) - start) // BLOCK
        full_blocks = codes[start : start + full * BLOCK].reshape(full, BLOCK, self.words)
        self._blocks[at // BLOCK : at // BLOCK + full] = full_blocks.transpose(0, 2, 1)
        tail = codes[start + full * BLOCK :]
        if len(tail):
            self._blocks[at // BLOCK + full, :, : len(tail)] = tail.T


@dataclass(frozen=True)
class StoredRows:
    """Snapshot of an index: `count` rows, of which those with a bit in `alive` can be found.

    words and short are blocks of `Panels`; alive is None where no row was removed; factors and
    vectors are None where none are stored. Columns may be longer than `count`.
    """

    count: int
    living: int
    ids: np.ndarray
    words: np.ndarray
    short: np.ndarray | None
    factors: np.ndarray | None
    vectors: np.ndarray | None
    alive: np.ndarray | None

    def rows(self) -> np.ndarray:
        """The living rows, ascending."""
        if self.alive is None:
            return np.arange(self.count)
        return np.flatnonzero(mask_of(self.alive, self.count))

    def has(self, rows: np.ndarray) -> np.ndarray:
        """Mask of those of these rows that are living."""
        if self.alive is None:
            return np.ones(rows.size, bool)
        words = self.alive[rows >> 6] >> (rows & 63).astype(np.uint64)
        return np.asarray(words & np.uint64(1), bool)

    def arrays(self) -> dict[str, np.ndarray]:
        """Existing columns, cut to `count` rows; blocks are not cut."""
        named = {"ids": self.ids, "factors": self.factors, "vectors": self.vectors}
        cut = {name: array[: self.count] for name, array in named.items() if array is not None}
        blocks = {"words": self.words, "short": self.short, "alive": self.alive}
        return {**{name: array for name, array in blocks.items() if array is not None}, **cut}


NOTHING = StoredRows(
    0, 0, np.empty(0, np.int64), Panels(1).blocks, None, np.empty(0, np.float32), None, None
)


class RowWriter:
    """Writer of rows: appends, removals, and the lookup of ids.

    **Guarantee.** A call that raises leaves `stored` as it was. One thread writes at a time; any
    thread may read `stored` and call `find`. The rows given may be read-only memory.
    """

    def __init__(self, stored: StoredRows) -> None:
        self.stored = stored
        self._words = Panels.over(stored.words, stored.count)
        self._short = None if stored.short is None else Panels.over(stored.short, stored.count)
        self._looking = threading.Lock()
        self._table: _Table | None = None

    @classmethod
    def empty(cls, words: int, *, short: bool, factored: bool, dimension: int | None) -> Self:
        """Writer without rows; dimension is that of vectors to store, None to store none."""
        blocks = Panels(words).blocks
        vectors = None if dimension is None else aligned((0, dimension), np.float32)
        ids, factors = aligned(0, np.int64), aligned(0, np.float32) if factored else None
        return cls(StoredRows(0, 0, ids, blocks, blocks if short else None, factors, vectors, None))

    def find(self, ids: np.ndarray) -> tuple[StoredRows, np.ndarray]:
        """Current snapshot, and the living row of each id in it, -1 for an unknown id."""
        with self._looking:
            stored = self.stored
            if self._table is None:
                self._table = _Table.of(stored)
            rows = self._table.find(ids)
        known = rows[rows >= 0]
        rows[rows >= 0] = np.where(stored.has(known), known, -1)
        return stored, rows

    def append(
        self,
        ids: np.ndarray,
        words: np.ndarray,
        short: np.ndarray | None,
        factors: np.ndarray | None,
        vectors: np.ndarray | None,
    ) -> None:
        """Append rows; none of the ids may be alive."""
        stored, total = self.stored, self.stored.count + ids.size
        alive = stored.alive
        if alive is not None:
            alive = bits_of(np.append(mask_of(alive, stored.count), np.ones(ids.size, bool)))
        grown = StoredRows(
            total,
            stored.living + ids.size,
            extended(stored.ids, stored.count, ids),
            _appended(self._words, stored.count, words),
            None if self._short is None else _appended(self._short, stored.count, short),
            None if stored.factors is None else extended(stored.factors, stored.count, factors),
            None if stored.vectors is None else extended(stored.vectors, stored.count, vectors),
            alive,
        )
        with self._looking:
            if self._table is not None:
                self._table = self._table.with_rows(ids, stored.count)
            self.stored = grown

    def remove(self, rows: np.ndarray) -> None:
        """Remove these living, distinct rows from the results."""
        stored = self.stored
        mask = (
            np.ones(stored.count, bool)
            if stored.alive is None
            else mask_of(stored.alive, stored.count)
        )
        mask[rows] = False
        self.stored = replace(stored, alive=bits_of(mask), living=stored.living - rows.size)

    def compacted(self) -> "RowWriter":
        """Writer of the living rows alone, copied if any was removed."""
        stored, rows = self.stored, self.stored.rows()
        if stored.alive is None:
            return self
        fresh = StoredRows(
            rows.size,
            rows.size,
            stored.ids[rows],
            _taken(self._words, rows),
            None if self._short is None else _taken(self._short, rows),
            None if stored.factors is None else stored.factors[rows],
            None if stored.vectors is None else stored.vectors[rows],
            None,
        )
        return RowWriter(fresh)


class _Table:
    """Rows of all ids ever added: a hash table at most half full."""

    def __init__(self, size: int) -> None:
        self._keys = np.full(size, -1, np.int64)
        self._values = np.empty(size, np.int64)
        self._used = 0

    @classmethod
    def of(cls, stored: StoredRows) -> Self:
        table = cls(_size(stored.count))
        table._put(stored.ids[: stored.count], np.arange(stored.count))
        return table

    def find(self, ids: np.ndarray) -> np.ndarray:
        out = np.empty(ids.size, np.int64)
        positions.find(self._keys, self._values, ids, out)
        return out

    def with_rows(self, ids: np.ndarray, first: int) -> "_Table":
        """This table, or a larger one if it would be too full, with rows from `first` on."""
        table = self
        if 2 * (self._used + ids.size) > self._keys.size:
            table = _Table(_size(self._used + ids.size))
            known = self._keys >= 0
            table._put(self._keys[known], self._values[known])
        table._put(ids, np.arange(first, first + ids.size))
        return table

    def _put(self, ids: np.ndarray, rows: np.ndarray) -> None:
        self._used += positions.put(ids, rows, self._keys, self._values)


def _size(count: int) -> int:
    """Power of two, of which `count` entries fill an eighth to a quarter."""
    return 1 << max(6, (4 * count).bit_length())


def extended(array: np.ndarray, count: int, values: np.ndarray | None) -> np.ndarray:
    """Array with values from row `count` on: in place if there is room, else a larger copy."""
    assert values is not None
    needed = count + len(values)
    if needed > len(array) or not array.flags.writeable:  # as one that is mapped
        room = aligned((max(needed, 2 * count), *array.shape[1:]), array.dtype)
        room[:count] = array[:count]
        array = room
    array[count:needed] = values
    return array


def _appended(panels: Panels, count: int, codes: np.ndarray | None) -> np.ndarray:
    assert codes is not None
    panels.count = count  # where an append before was given up, its rows are written over
    return panels.append(codes).blocks


def _taken(panels: Panels, rows: np.ndarray) -> np.ndarray:
    return Panels(panels.words).append(panels.take(rows)).blocks


def bits_of(mask: np.ndarray) -> np.ndarray:
    """Pack a boolean mask into bits, 64 to a word, lowest first."""
    packed = np.zeros(-(-mask.size // 64) * 8, np.uint8)
    packed[: -(-mask.size // 8)] = np.packbits(mask, bitorder="little")
    return packed.view(np.uint64)


def mask_of(bits: np.ndarray, count: int) -> np.ndarray:
    """Unpack the first `count` bits to a boolean mask."""
    return np.unpackbits(bits.view(np.uint8), count=count, bitorder="little").view(bool)


class Living(Protocol):
    """Rows, and the bits of those that can be found; None where all can."""

    @property
    def count(self) -> int: ...

    @property
    def living(self) -> int: ...

    @property
    def alive(self) -> np.ndarray | None: ...


def integer_ids(owner: str, ids: Any) -> np.ndarray:
    """Validate ids, or one id, as int64 from 0."""
    column = ids_of(ids, f"{owner}: ids")
    if kind_of(column) == "text" and column.size:
        raise TypeError(f"{owner}: ids must be integers from 0 up, not text at row 0.")
    column = column.astype(np.int64, copy=False)
    if column.size and column.min() < 0:
        at = int((column < 0).argmax())
        raise ValueError(f"{owner}: ids must be from 0 up; row {at} is negative.")
    return column


def check_distinct(owner: str, ids: np.ndarray) -> None:
    """Raise ValueError where an id occurs twice."""
    order = np.argsort(ids, kind="stable")
    again = order[1:][ids[order[1:]] == ids[order[:-1]]]
    if again.size:
        raise ValueError(
            f"{owner}: an id stands twice; row {int(again.min())} repeats one before it."
        )


def check_ids(ids: np.ndarray) -> None:
    """Raise ValueError for ids of a file that no index could have written."""
    if (ids < 0).any():
        raise ValueError("an id is negative.")
    check_distinct("file", ids)


def check_new(owner: str, rows: np.ndarray) -> None:
    """Raise ValueError where an id is in the index already; `rows` is its row, or -1."""
    if (rows >= 0).any():
        at = int((rows >= 0).argmax())
        raise ValueError(
            f"{owner}: an id is in the index already, at row {at}; remove it first to replace it."
        )


def check_known(owner: str, rows: np.ndarray) -> None:
    """Raise ValueError where an id is not in the index; `rows` is its row, or -1."""
    if (rows < 0).any():
        at = int((rows < 0).argmax())
        raise ValueError(f"{owner}: an id is not in the index, at row {at}; see `ids`.")


def allowed_bits(owner: str, allowed: Any, stored: Living) -> np.ndarray | None:
    """Bits of the living rows that pass the filter."""
    if allowed is None:
        return stored.alive
    try:
        mask = np.asarray(allowed)
    except ValueError:  # rows of several lengths
        mask = np.empty(0)
    if mask.dtype != bool or mask.shape != (stored.living,):
        raise ValueError(
            f"{owner}: filter must be a boolean mask with {stored.living} entries, one per id of "
            f"`ids` (see `mask`), not {mask.dtype} of shape {mask.shape}."
        )
    if stored.alive is None:
        return bits_of(mask)
    rows = mask_of(stored.alive, stored.count).copy()
    rows[rows] = mask
    return bits_of(rows)
