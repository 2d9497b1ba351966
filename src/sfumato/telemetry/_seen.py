"""The ids that were counted, as sorted 64-bit hashes: 8 bytes a report, looked up in order."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sfumato.hashing import hash_column
from sfumato.kernels import runs

__all__ = ["Seen", "hashes"]


def hashes(ids: np.ndarray) -> np.ndarray:
    """A 64-bit hash of every id, a row of 16 bytes."""
    rows, width = ids.shape
    buffer = pa.py_buffer(np.ascontiguousarray(ids))
    return hash_column(pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, buffer]))


class Seen:
    """A set of hashes that never changes; adding makes another that shares what it can.

    It holds sorted runs, each more than twice as long as the next, so that n hashes are sorted into
    longer runs log2(n) times each and looked up in as many runs at most. Two ids that differ have
    one hash with chance 2**-64: among a hundred million reports that happens once in 3,700 times.
    """

    def __init__(self, runs: Sequence[np.ndarray] = ()) -> None:
        self._runs = tuple(runs)

    def __len__(self) -> int:
        return sum(run.size for run in self._runs)

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs)

    def sorted(self) -> np.ndarray:
        """All hashes, in order."""
        return np.sort(np.concatenate([np.empty(0, np.uint64), *self._runs]))

    def holds(self, asked: np.ndarray) -> np.ndarray:
        """Which of the hashes, which are sorted, are here."""
        found, here = np.zeros(asked.size, bool), np.empty(asked.size, bool)
        for run in self._runs:
            runs.among(run, asked, here)
            found |= here
        return found

    def plus(self, asked: np.ndarray) -> tuple[np.ndarray, "Seen"]:
        """Which of the hashes are neither here nor earlier in the column, and a set of all."""
        run = np.sort(asked)
        if not (run[1:] == run[:-1]).any() and not self.holds(run).any():
            return np.ones(asked.size, bool), self._with(run)
        run, places = np.unique(asked, return_index=True)
        new = ~self.holds(run)
        first = np.zeros(asked.size, bool)
        first[places[new]] = True
        return first, self._with(run[new])

    def common(self, other: "Seen") -> int:
        """How many hashes are in both."""
        few, many = sorted((self, other), key=len)
        return int(sum(many.holds(run).sum() for run in few._runs))

    def joined(self, other: "Seen") -> "Seen":
        """The set of both, which have nothing in common."""
        few, many = sorted((self, other), key=len)
        return many._with(few.sorted())

    def _with(self, run: np.ndarray) -> "Seen":
        """A set with these hashes too, which are sorted, all different and not here."""
        longer = list(self._runs)
        while longer and longer[-1].size <= 2 * run.size:
            # A stable sort finds two sorted halves and merges them in one pass.
            run = np.sort(np.concatenate([longer.pop(), run]), kind="stable")
        return Seen([*longer, run] if run.size else longer)
