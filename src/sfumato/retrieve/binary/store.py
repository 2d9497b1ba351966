"""Rows of a BinaryIndex: codes, factors, ids and vectors, appended while readers keep snapshots.

A row is written once, behind all rows that a reader has; a removal makes new bits of the living
rows. So a snapshot taken from `RowWriter.stored` does not change. Codes are packed in panels for
the scan. Ids are distinct integers from 0; errors name the position, never the id.
"""

import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np

from sfumato.core.ids import ids_of, kind_of
from sfumato.core.validation import integer
from sfumato.kernels import hash_tables as positions
from sfumato.kernels.alignment import aligned, frozen
from sfumato.kernels.retrieve import row_columns
from sfumato.kernels.retrieve.layout import BLOCK
from sfumato.retrieve.binary.cell_blocks import CellBlocks, Chains

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
        self.words: int = WORDS.check("Panels", "words", words)
        self.count = 0
        self._blocks = aligned((0, self.words, BLOCK), np.uint64)
        # The last `blocks`, and the array that they are part of.
        self._view: tuple[np.ndarray, Any] = self._blocks, None

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
        used, whole, (view, of) = -(-self.count // BLOCK), self._blocks, self._view
        if of is not whole or len(view) != used:
            view = frozen(whole[:used])
            self._view = view, whole
        return view

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

    def room(self, count: int) -> np.ndarray:
        """Blocks for `count` rows, to be written where nobody reads so far."""
        self._reserve(count)
        self.count = count
        return self._blocks

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
        if len(codes) == 1:
            self._blocks[at // BLOCK, :, at % BLOCK] = codes[0]
            return
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


@dataclass(eq=False)
class StoredRows:
    """Snapshot of an index: `count` rows, of which those with a bit in `alive` can be found.

    words and short are blocks of `Panels`; alive is None where no row was removed; factors and
    vectors are None where none are stored. Columns may be longer than `count`. With cells, rows
    that are not taken count too, without a bit in `alive`; `cells` has the blocks of each. shifts
    are None where scores have no term of the row alone. No field is ever assigned anew.
    """

    count: int
    living: int
    ids: np.ndarray
    words: np.ndarray
    short: np.ndarray | None
    factors: np.ndarray | None
    vectors: np.ndarray | None
    alive: np.ndarray | None
    cells: Chains | None = None
    shifts: np.ndarray | None = None

    @cached_property
    def frozen_factors(self) -> np.ndarray | None:
        """Factors as kernels take them."""
        return None if self.factors is None else frozen(self.factors[: self.count])

    @cached_property
    def frozen_shifts(self) -> np.ndarray | None:
        """Shifts as kernels take them."""
        return None if self.shifts is None else frozen(self.shifts[: self.count])

    @cached_property
    def frozen_vectors(self) -> np.ndarray | None:
        """Vectors as kernels take them."""
        return None if self.vectors is None else frozen(self.vectors[: self.count])

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
        named["shifts"] = self.shifts
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

    def __init__(self, stored: StoredRows, cells: CellBlocks | None = None) -> None:
        self.stored, self.cells = stored, cells
        self._words = Panels.over(stored.words, stored.count)
        self._short = None if stored.short is None else Panels.over(stored.short, stored.count)
        self._looking = threading.Lock()
        self._table: _Table | None = None

    @classmethod
    def empty(
        cls,
        words: int,
        *,
        short: bool,
        factored: bool,
        shifted: bool,
        dimension: int | None,
        cells: int = 0,
    ) -> Self:
        """Writer without rows; dimension is that of vectors to store, None to store none."""
        blocks = Panels(words).blocks
        vectors = None if dimension is None else aligned((0, dimension), np.float32)
        ids, factors = aligned(0, np.int64), aligned(0, np.float32) if factored else None
        short_blocks = blocks if short else None
        shifts = aligned(0, np.float32) if shifted else None
        stored = StoredRows(0, 0, ids, blocks, short_blocks, factors, vectors, None, shifts=shifts)
        if not cells:
            return cls(stored)
        made = CellBlocks.empty(cells)
        return cls(replace(stored, alive=np.empty(0, np.uint64), cells=made.chains), made)

    def find(self, ids: np.ndarray) -> tuple[StoredRows, np.ndarray]:
        """Current snapshot, and the living row of each id in it, -1 for an unknown id."""
        with self._looking:
            stored = self.stored
            if self._table is None:
                self._table = _Table.of(stored)
            rows = self._table.find(ids)
        if stored.alive is not None and _any_known(rows):
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
        cells: np.ndarray | None = None,
        shifts: np.ndarray | None = None,
    ) -> None:
        """Append rows; none of the ids may be alive."""
        stored = self.stored
        if cells is None or self.cells is None:
            total = stored.count + ids.size
            rows = np.arange(stored.count, total)
        else:
            rows, total = self.cells.rows(cells), BLOCK * self.cells.used
        blocks = self._room(self._words, total)
        if self._short is not None:
            self._room(self._short, total)[rows // BLOCK, :, rows % BLOCK] = short
        grown = StoredRows(
            total,
            stored.living + ids.size,
            _with_room(stored.ids, stored.count, total),
            self._words.blocks,
            None if self._short is None else self._short.blocks,
            None if stored.factors is None else _with_room(stored.factors, stored.count, total),
            None if stored.vectors is None else _with_room(stored.vectors, stored.count, total),
            None if stored.alive is None else _copied(stored.alive, total),
            None if self.cells is None else self.cells.chains,
            None if stored.shifts is None else _with_room(stored.shifts, stored.count, total),
        )
        if grown.vectors is not None:
            grown.vectors[rows] = vectors
        with self._looking:
            self._write(grown, blocks, rows, ids, words, factors, shifts)
            self.stored = grown

    def _write(
        self,
        grown: StoredRows,
        blocks: np.ndarray,
        rows: np.ndarray,
        ids: np.ndarray,
        words: np.ndarray,
        factors: np.ndarray | None,
        shifts: np.ndarray | None,
    ) -> None:
        """Write new rows to the columns that all indexes have, and to the table of ids."""
        table = NO_TABLE if self._table is None else self._table.with_room(ids.size)
        if ids.size >= MANY:
            _write_columns(grown, blocks, rows, ids, words, factors, shifts)
            if self._table is not None:
                self._table = table.put(ids, rows)
            return
        table.used += row_columns.write(
            rows,
            ids,
            words,
            NO_FACTORS if factors is None else factors,
            NO_FACTORS if shifts is None else shifts,
            grown.ids,
            blocks,
            NO_FACTORS if grown.factors is None else grown.factors,
            NO_FACTORS if grown.shifts is None else grown.shifts,
            NO_BITS if grown.alive is None else grown.alive,
            table.keys,
            table.values,
        )
        if self._table is not None:
            self._table = table

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
        """Writer of the living rows alone, copied if any was removed or there are cells."""
        stored = self.stored
        if stored.alive is None:
            return self
        rows = stored.rows()
        if self.cells is None:
            return self.arranged(rows)
        return self.arranged(rows, self.cells.of(rows), len(self.cells))

    def arranged(
        self, rows: np.ndarray, cells: np.ndarray | None = None, count: int = 0
    ) -> "RowWriter":
        """Writer of copies of these rows, cell by cell where cells, `count` of them, are given."""
        stored = self.stored
        writer = RowWriter.empty(
            self._words.words,
            short=self._short is not None,
            factored=stored.factors is not None,
            shifted=stored.shifts is not None,
            dimension=None if stored.vectors is None else stored.vectors.shape[1],
            cells=count,
        )
        short = None if self._short is None else self._short.take(rows)
        factors = None if stored.factors is None else stored.factors[rows]
        vectors = None if stored.vectors is None else stored.vectors[rows]
        shifts = None if stored.shifts is None else stored.shifts[rows]
        words = self._words.take(rows)
        writer.append(stored.ids[rows], words, short, factors, vectors, cells, shifts)
        return writer

    def codes(self, rows: np.ndarray) -> np.ndarray:
        """Words of these rows, uint64 (m, words)."""
        return self._words.take(rows)

    def _room(self, panels: Panels, total: int) -> np.ndarray:
        """Blocks to write to; where an append was given up, its rows are replaced."""
        panels.count = self.stored.count
        return panels.room(total)


class _Table:
    """Rows of all ids ever added: a hash table at most half full."""

    def __init__(self, size: int) -> None:
        self.keys = np.full(size, -1, np.int64)
        self.values = np.empty(size, np.int64)
        self.used = 0

    @classmethod
    def of(cls, stored: StoredRows) -> Self:
        rows = stored.rows()
        table = cls(_size(stored.living))
        return table.put(stored.ids[rows], rows)

    def find(self, ids: np.ndarray) -> np.ndarray:
        out = np.full(ids.size, -1)
        if self.used:
            positions.find(self.keys, self.values, ids, out)
        return out

    def with_room(self, count: int) -> "_Table":
        """This table, or a larger one if it would be too full with as many ids more."""
        if 2 * (self.used + count) <= self.keys.size:
            return self
        table, known = _Table(_size(self.used + count)), self.keys >= 0
        return table.put(self.keys[known], self.values[known])

    def put(self, ids: np.ndarray, rows: np.ndarray) -> Self:
        """Give ids their rows."""
        if ids.size:
            self.used += positions.put(ids, rows, self.keys, self.values)
        return self


def _write_columns(
    grown: StoredRows,
    blocks: np.ndarray,
    rows: np.ndarray,
    ids: np.ndarray,
    words: np.ndarray,
    factors: np.ndarray | None,
    shifts: np.ndarray | None,
) -> None:
    """As `row_columns.write` without a table, by NumPy: many rows need not wait for the kernel."""
    grown.ids[rows] = ids
    blocks[rows // BLOCK, :, rows % BLOCK] = words
    if factors is not None and grown.factors is not None:
        grown.factors[rows] = factors
    if shifts is not None and grown.shifts is not None:
        grown.shifts[rows] = shifts
    if grown.alive is not None:
        bits = np.uint64(1) << (rows % 64).astype(np.uint64)
        np.bitwise_or.at(grown.alive, rows // 64, bits)


MANY = 64  # rows from which on NumPy writes the columns in little of the time that they take
NO_TABLE = _Table(0)  # where nobody looked for an id so far
NO_FACTORS, NO_BITS = np.empty(0, np.float32), np.empty(0, np.uint64)


def _size(count: int) -> int:
    """Power of two, of which `count` entries fill an eighth to a quarter."""
    return 1 << max(6, (4 * count).bit_length())


def extended(array: np.ndarray, count: int, values: np.ndarray | None) -> np.ndarray:
    """Array with values from row `count` on: in place if there is room, else a larger copy."""
    assert values is not None
    needed = count + len(values)
    array = _with_room(array, count, needed)
    array[count:needed] = values
    return array


def _with_room(array: np.ndarray, count: int, needed: int) -> np.ndarray:
    """The array, or a larger copy of its first rows where it is too short or read-only."""
    if needed <= len(array) and array.flags.writeable:  # one that is mapped is not
        return array
    room = aligned((max(needed, 2 * count), *array.shape[1:]), array.dtype)
    room[:count] = array[:count]
    return room


def _copied(alive: np.ndarray, total: int) -> np.ndarray:
    """Copy of the bits for `total` rows, 0 for those that are new."""
    more = -(-total // 64) - alive.size
    return np.append(alive, np.zeros(more, np.uint64)) if more else alive.copy()


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
    if type(ids) is list and len(ids) == 1 and type(ids[0]) is int and 0 <= ids[0] < 2**63:
        return np.array(ids, np.int64)
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
    if ids.size < 2:
        return
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
    if _any_known(rows):
        at = int((rows >= 0).argmax())
        raise ValueError(
            f"{owner}: an id is in the index already, at row {at}; remove it first to replace it."
        )


def _any_known(rows: np.ndarray) -> bool:
    """Whether any row is not -1."""
    if rows.size == 1:
        return bool(rows[0] >= 0)
    return bool(rows.size and rows.max() >= 0)


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
