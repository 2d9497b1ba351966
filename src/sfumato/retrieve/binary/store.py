"""The rows of an index: codes, factors, ids and vectors that grow while readers hold an older view.

A row is written once, behind those that anybody was shown; a removal makes new bits of what lives.
So whoever took `RowWriter.held` keeps an index that does not change.

Panels: packed codes that grow, laid out for the scan, and never move under a reader. Ids of an
index: integers from 0 up, each once; errors name the position, never the id.
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
    "Held",
    "Panels",
    "RowWriter",
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
    """A store of codes, word after word in blocks of BLOCK codes.

    Guarantee: codes come back as they were added, row by row. A row once added is never written
    again, so who holds `blocks` and `count` keeps reading the same codes while others are appended.
    One thread appends at a time; another that reads takes `count` first, then `blocks`.
    Parameters: words, 64-bit words of a code, from 1 to 1024.

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

        Parameters: blocks, uint64 (ceil(count / BLOCK), words, BLOCK), C-contiguous, read-only or
        not; count, how many rows they hold.
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
        """The blocks that hold rows, uint64 (ceil(count / BLOCK), words, BLOCK), not writable."""
        return frozen(self._blocks[: -(-self.count // BLOCK)])

    @property
    def nbytes(self) -> int:
        """Bytes of memory, room for later rows included."""
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
        """The codes of these rows, uint64 (m, words)."""
        rows = np.asarray(rows, np.int64)
        if rows.size and not 0 <= rows.min() <= rows.max() < self.count:
            raise IndexError(f"Panels: rows must be from 0 to {self.count - 1}.")
        return self._blocks[rows // BLOCK, :, rows % BLOCK]

    def codes(self) -> np.ndarray:
        """All codes in the order of rows, uint64 (count, words), a copy."""
        rows = self.blocks.transpose(0, 2, 1).reshape(-1, self.words)
        return rows[: self.count].copy()

    def _reserve(self, count: int) -> None:
        """Make room; readers keep the old array, whose rows stay as they are."""
        needed = -(-count // BLOCK)
        if needed > len(self._blocks) or not self._blocks.flags.writeable:
            room = max(needed, 2 * len(self._blocks))
            grown = aligned((room, self.words, BLOCK), np.uint64)
            grown[: len(self.blocks)] = self.blocks
            self._blocks = grown

    def _write(self, codes: np.ndarray) -> None:
        """Put codes behind row count - 1: the rest of a block, whole blocks, the start of one."""
        at, start = self.count, 0
        head = min(-at % BLOCK, len(codes))
        if head:
            self._blocks[at // BLOCK, :, at % BLOCK : at % BLOCK + head] = codes[:head].T
            at, start = at + head, head
        full = (len(codes) - start) // BLOCK
        whole_blocks = codes[start : start + full * BLOCK].reshape(full, BLOCK, self.words)
        self._blocks[at // BLOCK : at // BLOCK + full] = whole_blocks.transpose(0, 2, 1)
        rest = codes[start + full * BLOCK :]
        if len(rest):
            self._blocks[at // BLOCK + full, :, : len(rest)] = rest.T


@dataclass(frozen=True)
class Held:
    """What a reader holds: `count` rows, of which those with a bit in `alive` can be found.

    words and short are blocks of `Panels`; alive is None where no row was removed; factors and
    vectors are None where none are kept. Columns may be longer than `count`: the rest is not to be
    read.
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
        """Which of these rows live."""
        if self.alive is None:
            return np.ones(rows.size, bool)
        words = self.alive[rows >> 6] >> (rows & 63).astype(np.uint64)
        return np.asarray(words & np.uint64(1), bool)

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns that are there, cut to `count` rows; blocks are as they are."""
        named = {"ids": self.ids, "factors": self.factors, "vectors": self.vectors}
        cut = {name: array[: self.count] for name, array in named.items() if array is not None}
        blocks = {"words": self.words, "short": self.short, "alive": self.alive}
        return {**{name: array for name, array in blocks.items() if array is not None}, **cut}


NOTHING = Held(
    0, 0, np.empty(0, np.int64), Panels(1).blocks, None, np.empty(0, np.float32), None, None
)


class RowWriter:
    """The writer's side: appends, removals, and where each id stands.

    Guarantee: a call that raises leaves `held` as it was. One thread writes at a time; `held` and
    `find` may be asked by any thread.
    Parameters: held, what there is already, which may be memory that cannot be written.
    """

    def __init__(self, held: Held) -> None:
        self.held = held
        self._words = Panels.over(held.words, held.count)
        self._short = None if held.short is None else Panels.over(held.short, held.count)
        self._looking = threading.Lock()
        self._table: _Table | None = None

    @classmethod
    def empty(cls, words: int, *, short: bool, factored: bool, dimension: int | None) -> Self:
        """No rows yet; dimension is that of the vectors to keep, None to keep none."""
        blocks = Panels(words).blocks
        vectors = None if dimension is None else aligned((0, dimension), np.float32)
        ids, factors = aligned(0, np.int64), aligned(0, np.float32) if factored else None
        return cls(Held(0, 0, ids, blocks, blocks if short else None, factors, vectors, None))

    def find(self, ids: np.ndarray) -> tuple[Held, np.ndarray]:
        """What is held now, and the living row of each id in it, -1 for one that is not there."""
        with self._looking:
            held = self.held
            if self._table is None:
                self._table = _Table.of(held)
            rows = self._table.find(ids)
        known = rows[rows >= 0]
        rows[rows >= 0] = np.where(held.has(known), known, -1)
        return held, rows

    def append(
        self,
        ids: np.ndarray,
        words: np.ndarray,
        short: np.ndarray | None,
        factors: np.ndarray | None,
        vectors: np.ndarray | None,
    ) -> None:
        """Add rows; none of the ids is alive."""
        held, total = self.held, self.held.count + ids.size
        alive = held.alive
        if alive is not None:
            alive = bits_of(np.append(mask_of(alive, held.count), np.ones(ids.size, bool)))
        grown = Held(
            total,
            held.living + ids.size,
            extended(held.ids, held.count, ids),
            _appended(self._words, held.count, words),
            None if self._short is None else _appended(self._short, held.count, short),
            None if held.factors is None else extended(held.factors, held.count, factors),
            None if held.vectors is None else extended(held.vectors, held.count, vectors),
            alive,
        )
        with self._looking:
            if self._table is not None:
                self._table = self._table.with_rows(ids, held.count)
            self.held = grown

    def remove(self, rows: np.ndarray) -> None:
        """Let these living rows, all different, not be found any more."""
        held = self.held
        mask = np.ones(held.count, bool) if held.alive is None else mask_of(held.alive, held.count)
        mask[rows] = False
        self.held = replace(held, alive=bits_of(mask), living=held.living - rows.size)

    def compacted(self) -> "RowWriter":
        """The living rows alone, in memory of their own if any was removed."""
        held, rows = self.held, self.held.rows()
        if held.alive is None:
            return self
        fresh = Held(
            rows.size,
            rows.size,
            held.ids[rows],
            _taken(self._words, rows),
            None if self._short is None else _taken(self._short, rows),
            None if held.factors is None else held.factors[rows],
            None if held.vectors is None else held.vectors[rows],
            None,
        )
        return RowWriter(fresh)


class _Table:
    """Where every id stands that was ever added: a hash table at most half full."""

    def __init__(self, size: int) -> None:
        self._keys = np.full(size, -1, np.int64)
        self._values = np.empty(size, np.int64)
        self._used = 0

    @classmethod
    def of(cls, held: Held) -> Self:
        table = cls(_size(held.count))
        table._put(held.ids[: held.count], np.arange(held.count))
        return table

    def find(self, ids: np.ndarray) -> np.ndarray:
        out = np.empty(ids.size, np.int64)
        positions.find(self._keys, self._values, ids, out)
        return out

    def with_rows(self, ids: np.ndarray, first: int) -> "_Table":
        """This table, or a larger one where it would be too full, with rows from `first` on."""
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
    """A power of two of which `count` fill between a quarter and an eighth, or half later."""
    return 1 << max(6, (4 * count).bit_length())


def extended(array: np.ndarray, count: int, values: np.ndarray | None) -> np.ndarray:
    """The array with values from row `count` on: itself where there is room, or a larger copy."""
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
    """A boolean mask as bits, 64 to a word, lowest first."""
    packed = np.zeros(-(-mask.size // 64) * 8, np.uint8)
    packed[: -(-mask.size // 8)] = np.packbits(mask, bitorder="little")
    return packed.view(np.uint64)


def mask_of(bits: np.ndarray, count: int) -> np.ndarray:
    """The first `count` bits as a boolean mask."""
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
    """A column of ids, or one, as int64 from 0 up."""
    column = ids_of(ids, f"{owner}: ids")
    if kind_of(column) == "text" and column.size:
        raise TypeError(f"{owner}: ids must be integers from 0 up, not text at row 0.")
    column = column.astype(np.int64, copy=False)
    if column.size and column.min() < 0:
        at = int((column < 0).argmax())
        raise ValueError(f"{owner}: ids must be from 0 up; row {at} is negative.")
    return column


def check_distinct(owner: str, ids: np.ndarray) -> None:
    """Raise ValueError where an id stands twice in a column."""
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
    """Raise ValueError where an id is in the index already; rows say where, or -1."""
    if (rows >= 0).any():
        at = int((rows >= 0).argmax())
        raise ValueError(
            f"{owner}: an id is in the index already, at row {at}; remove it first to replace it."
        )


def check_known(owner: str, rows: np.ndarray) -> None:
    """Raise ValueError where an id is not in the index; rows say where it is, or -1."""
    if (rows < 0).any():
        at = int((rows < 0).argmax())
        raise ValueError(f"{owner}: an id is not in the index, at row {at}; see `ids`.")


def allowed_bits(owner: str, allowed: Any, held: Living) -> np.ndarray | None:
    """The rows that may be found, as bits: those that live, less what the filter leaves out."""
    if allowed is None:
        return held.alive
    try:
        mask = np.asarray(allowed)
    except ValueError:  # rows of several lengths
        mask = np.empty(0)
    if mask.dtype != bool or mask.shape != (held.living,):
        raise ValueError(
            f"{owner}: filter must be a boolean mask with {held.living} entries, one an id of "
            f"`ids` (see `mask`), not {mask.dtype} of shape {mask.shape}."
        )
    if held.alive is None:
        return bits_of(mask)
    rows = mask_of(held.alive, held.count).copy()
    rows[rows] = mask
    return bits_of(rows)
