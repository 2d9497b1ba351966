"""Items as integer codes: ids are coded as they come, and ranked by frequency once counted."""

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.arrow_arrays import cells, text_array, text_cells
from sfumato.core.ids import FIRST
from sfumato.kernels import hash_tables

__all__ = ["Ids", "IntegerCodes", "TextCodes", "coded", "codes_for", "rising"]

Ids: TypeAlias = "np.ndarray | pa.Array"  # int64, or texts


class IntegerCodes:
    """Positions of integers among the distinct ones so far; the table doubles as it fills."""

    def __init__(self) -> None:
        self.known = 0
        self._distinct = np.empty(0, np.int64)
        self._grow(FIRST)

    def encode(self, ids: np.ndarray) -> np.ndarray:
        """Positions of ids, new ones appended."""
        if not len(ids):  # of a file of empty baskets, whose items may be texts
            return np.empty(0, np.int32)
        out, done = np.empty(ids.size, np.int32), 0
        while True:
            done, self.known = hash_tables.code(
                ids, done, *self._table, self.known, self._distinct, out
            )
            if done == ids.size:
                return out
            self._grow(4 * self._table[0].size)

    def _grow(self, slots: int) -> None:
        table = np.empty(slots, np.int64), np.full(slots, -1, np.int32)
        distinct = np.empty(slots // 2 + 1, np.int64)
        if self.known:
            again = np.empty(self.known, np.int32)
            hash_tables.code(self._distinct[: self.known], 0, *table, 0, distinct, again)
        self._table, self._distinct = table, distinct

    @property
    def ids(self) -> np.ndarray:
        """The distinct ids by position."""
        return self._distinct[: self.known]

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in (*self._table, self._distinct))


class TextCodes:
    """Positions of texts among the distinct ones so far."""

    def __init__(self) -> None:
        self._words = text_array([])

    @property
    def known(self) -> int:
        return len(self._words)

    def encode(self, ids: pa.Array) -> np.ndarray:
        """Positions of ids, new ones appended."""
        coded = ids if isinstance(ids, pa.DictionaryArray) else ids.dictionary_encode()
        words = coded.dictionary.cast(pa.large_string())
        found = pc.index_in(words, value_set=self._words)
        fresh = words.filter(found.is_null()).unique()
        if len(fresh):
            self._words = pa.concat_arrays([self._words, fresh])
            found = pc.index_in(words, value_set=self._words)
        return np.take(cells(found), cells(coded.indices))

    @property
    def ids(self) -> np.ndarray:
        """The distinct ids by position."""
        return text_cells(self._words)

    @property
    def nbytes(self) -> int:
        return int(self._words.nbytes)


def codes_for(ids: Any) -> IntegerCodes | TextCodes:
    """An empty vocabulary of the kind of these ids."""
    return IntegerCodes() if isinstance(ids, np.ndarray) else TextCodes()


def coded(ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Codes of a whole column, and the id of each code; not every one of them need occur.

    >>> coded(np.array([30, 10, 30]))[0].tolist()
    [20, 0, 20]
    """
    if isinstance(ids, np.ndarray) and ids.size:
        low, high = int(ids.min()), int(ids.max())
        if high - low < max(4 * ids.size, 1 << 16):  # their own table
            return np.subtract(ids, low, dtype=np.int32, casting="unsafe"), np.arange(low, high + 1)
    vocabulary = codes_for(ids)
    return vocabulary.encode(ids), vocabulary.ids


def rising(ids: np.ndarray) -> np.ndarray:
    """The positions of ids in rising order: integers by value, texts by code point."""
    if ids.dtype != object:
        return np.argsort(ids, kind="stable")
    return cells(pc.sort_indices(text_array(ids.tolist()))).astype(np.int64)
