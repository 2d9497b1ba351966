"""Counters of itemsets in a table of fixed size (Misra and Gries)."""

from dataclasses import dataclass, replace

import numpy as np

from sfumato.core.ids import (
    positions,
)
from sfumato.kernels.mine.itemsets import basket_streams as kernels

__all__ = ["CounterTable", "Counters", "as_int32", "codes_of", "keys_of"]

ROOM = 2**18  # counters while a column is counted; 2**19 slots are 8 MiB


@dataclass(frozen=True)
class Counters:
    """Counts of itemsets, rows of `codes` into `items`, each at most `undercount` too low."""

    items: np.ndarray
    codes: np.ndarray
    counts: np.ndarray
    undercount: int = 0

    def over(self, items: np.ndarray) -> "Counters":
        """Return the same counters by codes into these items, followed by their own others."""
        if not self.items.size:
            return replace(self, items=items)
        known = positions(self.items, items)
        new = known < 0
        known[new] = items.size + np.arange(new.sum())
        codes = np.sort(known.astype(np.int32)[self.codes], axis=1)
        pool = np.concatenate([items, self.items[new]]) if items.size else self.items[new]
        return replace(self, items=pool, codes=codes)

    def compact(self) -> "Counters":
        """Return the same counters with the items that occur in them alone."""
        used, at = np.unique(self.codes, return_inverse=True)
        return replace(self, items=self.items[used], codes=as_int32(at.reshape(self.codes.shape)))


class CounterTable:
    """Hash table of counters; when it is full, the smallest give way, as Misra and Gries do it.

    The largest count that does not fit is taken from all, so that each unit that a count lacks
    stands beside one of `size` others. The table has room for more than `size`, since that makes
    this rare, and so the counts closer.
    """

    def __init__(self, size: int) -> None:
        self.size: int
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


def as_int32(codes: np.ndarray) -> np.ndarray:
    return codes.astype(np.int32)


def keys_of(rows: np.ndarray) -> np.ndarray:
    """One integer for each row of one or two codes."""
    first = rows[:, 0].astype(np.int64)
    return first if rows.shape[1] == 1 else first << 32 | rows[:, 1]


def codes_of(keys: np.ndarray, width: int) -> np.ndarray:
    """The rows of codes of keys."""
    columns = [keys] if width == 1 else [keys >> 32, keys & (2**32 - 1)]
    return np.stack(columns, axis=1)
