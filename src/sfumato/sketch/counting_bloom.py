"""Counting Bloom filter: a set of keys that can also forget, with one small counter a cell."""

import math
from typing import Annotated, Any, Self

import numpy as np

from sfumato._require import fraction, whole
from sfumato.hashing import KeyColumn
from sfumato.kernels import bloom
from sfumato.sketch._base import SEED, Cells
from sfumato.sketch._keyed import KeyedSketch
from sfumato.sketch.bloom import BloomFilter

__all__ = ["CountingBloomFilter"]


class CountingBloomFilter(KeyedSketch):
    """A set of keys, with removal.

    Guarantee: a key that was added and not removed is always found, provided that only added keys
    are removed; another is found with probability `error_bound()`. Parameters: cells, counters of
    eight bits, up to 2**32; hashes, cells per key; seed, of all hashes. A counter that reaches 255
    stays there for good: the key is then found for ever, but never lost. Merges exactly as long as
    no removal met such a counter.

    >>> here = CountingBloomFilter(4096).update(["tea", "milk"]).remove(["tea"])
    >>> here.contains(["tea", "milk"])
    array([False,  True])

    Fan, Cao, Almeida and Broder 2000; thesis 2.3.2.2.
    """

    cells: Annotated[int, whole(8, 2**32)]
    hashes: Annotated[int, whole(1, 64)]
    seed: Annotated[int, SEED]
    keys: str
    _counts: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _scalars = {"keys": ""}
    _no_release = (
        "a counter that reached 255 stays there when keys are removed, so that one event may "
        "change it by far more than one; release a CountMin instead."
    )

    def __init__(self, cells: int, hashes: int = 7, *, seed: int = 0) -> None:
        self._set_parameters(cells=cells, hashes=hashes, seed=seed)
        self._allocate()

    @classmethod
    def from_capacity(cls, n: int, false_positive_rate: float, *, seed: int = 0) -> Self:
        """The smallest filter that holding n different keys finds others at most at this rate."""
        sized = BloomFilter.from_capacity(n, false_positive_rate)
        return cls(sized.bits, sized.hashes, seed=seed)

    def update(self, keys: Any) -> Self:
        """Add every key once more."""
        column = self._key_column(keys)
        self._add(column, column.size)
        self._note_keys(column)
        return self

    def remove(self, keys: Any) -> Self:
        """Take every key out once; ValueError, and nothing changes, where one cannot be in."""
        column = self._key_column(keys)
        for rows, hashed in self._hashes(column):
            done = bloom.count_down(self._counts, self.hashes, hashed)
            if done < hashed.size:
                self._add(column, rows.start + done)
                raise ValueError(
                    f"CountingBloomFilter: the key at row {rows.start + done} is not in the "
                    "filter; remove only keys that were added."
                )
        return self

    def contains(self, keys: Any) -> np.ndarray:
        """True for every key that is in, and by chance for a few others."""
        return self.estimate(keys) > 0

    def estimate(self, keys: Any) -> np.ndarray:
        """How often each key is in: never too low below 255, where counters end."""
        column = self._key_column(keys)
        out = np.empty(column.size, np.int64)
        for rows, hashed in self._hashes(column):
            bloom.fewest(self._counts, self.hashes, hashed, out[rows])
        return out

    def error_bound(self, confidence: float = 0.99) -> float:
        """The chance that a key that is not in is found, given the counters as they are.

        It is the same at every confidence: the counters are known, and with them the chance.
        """
        fraction.check("CountingBloomFilter", "confidence", confidence)
        return float((np.count_nonzero(self._counts) / self.cells) ** self.hashes)

    def estimate_size(self) -> float:
        """How many different keys are in, from the share of counters that are not zero."""
        share = min(np.count_nonzero(self._counts) / self.cells, 1 - 0.5 / self.cells)
        return float(math.log1p(-share) / (self.hashes * math.log1p(-1 / self.cells)))

    def _add(self, column: KeyColumn, count: int) -> None:
        """Add the first `count` keys."""
        scratch = np.empty(bloom.CHUNK, np.uint32)
        for rows, hashed in self._hashes(column):
            first = hashed[: max(count - rows.start, 0)]
            bloom.count_up(self._counts, self.hashes, first, scratch)

    def _layout(self) -> dict[str, Cells]:
        return {"_counts": Cells(np.uint8, (self.cells,), "")}

    def _join(self, other: Self) -> None:
        room = 255 - self._counts
        self._counts += np.minimum(other._counts, room)
        self.keys = self.keys or other.keys
