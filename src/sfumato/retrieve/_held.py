"""The rows of an index: codes, factors, ids and vectors that grow while readers hold an older view.

A row is written once, behind those that anybody was shown; a removal makes new bits of what lives.
So whoever took `Rows.held` keeps an index that does not change.
"""

import threading
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from sfumato.kernels import places
from sfumato.kernels.lanes import aligned
from sfumato.retrieve._panels import Panels

__all__ = ["NOTHING", "Held", "Rows", "bits_of", "extended", "mask_of"]


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


class Rows:
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

    def compacted(self) -> "Rows":
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
        return Rows(fresh)


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
        places.find(self._keys, self._values, ids, out)
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
        self._used += places.put(ids, rows, self._keys, self._values)


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
