"""Heavy hitters: a bounded list of the keys with the largest estimates, stored with a sketch."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.core.hashing import MISSING, KeyColumn, hash_column

__all__ = ["Candidates", "largest", "shown"]

INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,19}")

Estimate = Callable[[np.ndarray], np.ndarray]


class Candidates:
    """Up to `size` keys with the largest estimates so far, stored as three arrays.

    `hashes` is sorted; the text of candidate i (digits for an integer) ends at ends[i] in letters.
    """

    def __init__(
        self, size: int, hashes: np.ndarray, ends: np.ndarray, letters: np.ndarray
    ) -> None:
        self.size, self.hashes = size, hashes
        starts = np.concatenate([[0], ends[:-1]]) if ends.size else ends
        data = letters.tobytes()
        self.names = [data[a:b] for a, b in zip(starts, ends, strict=True)]

    def offer(self, hashes: np.ndarray, column: KeyColumn, start: int, estimate: Estimate) -> None:
        """Add the keys of one block whose estimates exceed that of the smallest candidate."""
        value = np.abs(estimate(hashes))
        floor = np.abs(estimate(self.hashes)).min() if len(self.names) == self.size else 0.0
        above = np.flatnonzero(value > floor)
        above = above[~self._contains(hashes[above])]
        if not above.size:
            return
        found, at = np.unique(hashes[above], return_index=True)
        rows = above[at]
        if found.size > self.size:
            best = np.argpartition(-np.abs(estimate(found)), self.size)[: self.size]
            found, rows = found[best], rows[best]
        names = [_name(key) for key in column.take(start + rows)]
        self._retain(np.concatenate([self.hashes, found]), self.names + names, estimate)

    def absorb(self, other: "Candidates", estimate: Estimate) -> None:
        """Merge another list into this one, retaining the largest of both."""
        fresh = ~self._contains(other.hashes)
        names = [name for name, new in zip(other.names, fresh, strict=True) if new]
        hashes = np.concatenate([self.hashes, other.hashes[fresh]])
        self._retain(hashes, self.names + names, estimate)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ends = np.cumsum([len(name) for name in self.names], dtype=np.int64)
        letters = np.frombuffer(b"".join(self.names), np.uint8).copy()
        return self.hashes, ends, letters

    def _contains(self, hashes: np.ndarray) -> np.ndarray:
        if not self.hashes.size:
            return np.zeros(hashes.size, np.bool_)
        at = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        return np.asarray(self.hashes[at] == hashes)

    def _retain(self, hashes: np.ndarray, names: list[bytes], estimate: Estimate) -> None:
        best = np.argsort(-np.abs(estimate(hashes)), kind="stable")[: self.size]
        best = best[np.argsort(hashes[best])]
        self.hashes, self.names = hashes[best], [names[i] for i in best]


def largest(
    n: int, column: KeyColumn, seed: int, estimate: Estimate
) -> tuple[list[Any], np.ndarray]:
    """The n distinct keys of a column with the largest absolute estimates, and these estimates."""
    hashes, rows = np.unique(hash_column(column, seed), return_index=True)
    value = estimate(hashes)
    best = np.argsort(-np.abs(value), kind="stable")[:n]
    return [_readable(key) for key in column.take(rows[best])], value[best]


def shown(name: bytes) -> Any:
    """The key of a candidate: an integer if its text is one, None for the missing key."""
    if name == MISSING:
        return None
    return int(name) if INTEGER.fullmatch(name) else _readable(name)


def _readable(key: Any) -> Any:
    """Decode a text key; one that is not UTF-8 stays bytes."""
    try:
        return key.decode() if isinstance(key, bytes) else key
    except UnicodeDecodeError:
        return key


def _name(key: Any) -> bytes:
    if key is None:
        return MISSING
    return key if isinstance(key, bytes) else str(key).encode()
