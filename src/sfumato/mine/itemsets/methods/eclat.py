"""Eclat: itemsets depth first in memory, each branch with the baskets of its extensions."""

from typing import Any

import numpy as np

from sfumato.core.validation import integer
from sfumato.errors import ParameterError
from sfumato.kernels.mine.itemsets import eclat as kernels
from sfumato.mine.itemsets.methods.passes import OWNER, Passes
from sfumato.mine.itemsets.sources.baskets import Baskets

__all__ = ["eclat", "eclat_bytes"]

# A list of tids is worth it where a bitset has so many words per entry: intersecting bitsets takes
# a machine with 512-bit registers an eighth of a nanosecond per word, a list one per entry.
WORDS_PER_ENTRY = 8
PER_ENTRY = integer(0, 2**31)
ROWS = 1 << 16  # itemsets of one part of the output


def eclat(
    baskets: Baskets,
    min_count: int,
    *,
    max_size: int | None,
    memory_limit: int | None,
    explain: list[dict[str, Any]] | None,
    sparse: int = WORDS_PER_ENTRY,
    dense: int = WORDS_PER_ENTRY,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mine in memory; returns the levels of `Itemsets.from_codes`.

    `sparse` and `dense` are words per entry from which tids and diffsets replace bitsets.

    References
    ----------
    M. J. Zaki, Scalable Algorithms for Association Mining (2000), and with K. Gouda, Fast Vertical
    Mining Using Diffsets (2003).
    """
    lists = [
        PER_ENTRY.check(OWNER, name, value)
        for name, value in (("sparse", sparse), ("dense", dense))
    ]
    passes = Passes("eclat", baskets, memory_limit, explain)
    passes.frequent_items(min_count)
    with passes.record("search depth first") as facts:
        search = _Search(baskets, min_count, max_size, memory_limit, lists)
        levels = search.levels()
        facts.update(candidates=search.n, frequent=sum(counts.size for _, counts in levels))
        facts.update(memory=search.nbytes)
    return levels


def eclat_bytes(baskets: Baskets, min_count: int) -> int:
    """Bytes that mining takes about, without the itemsets found."""
    entries = int(baskets.item_counts[: baskets.frequent(min_count)].sum())
    # A basket: an offset, and up to 4 more cells of its row. An item of it: a cell, its place in
    # the list of the item, and its code, twice while chunks of a source are joined.
    return 24 * baskets.size + 20 * entries + (8 << 20)


class _Search:
    """The arrays of the kernel, which grow as it needs them."""

    def __init__(
        self,
        baskets: Baskets,
        min_count: int,
        max_size: int | None,
        memory_limit: int | None,
        lists: list[int],
    ) -> None:
        self.n, self.memory_limit = baskets.frequent(min_count), memory_limit
        counts = baskets.item_counts[: self.n]
        self.starts = np.concatenate([[0], np.cumsum(counts)])
        most = self.n + 1 if max_size is None else min(max_size, self.n + 1)
        self.state = np.array([min_count, most, *lists, 0, -1, 0, 0], np.int64)
        self._place_rows(*baskets._unsorted(self.n))
        spare = int(counts.max(initial=0)) // 64 + 64
        self.counters = np.zeros(self.n + 32, np.uint32)
        self.places = (8 * (np.arange(self.n + 32) % 4)).astype(np.int32)
        self.branches = np.empty((2 * self.n + 1, 4), np.int64)
        self.words = np.zeros(max(1 << 14, 2 * spare), np.uint64)
        self.lists = np.empty(1 << 12, np.int32)
        self.marks = np.zeros(int(counts.max(initial=0)), np.int32)
        self.parts: list[np.ndarray] = []

    def _place_rows(self, offsets: np.ndarray, items: np.ndarray, ranks: np.ndarray) -> None:
        entries, size = int(self.starts[-1]), offsets.size - 1
        room = entries + 4 * min(size, entries)
        self.tids = np.empty(entries, np.int32 if room < 2**31 else np.int64)
        self.rows = np.empty(room, np.uint16 if self.n < 2**16 - 4 else np.int32)
        last, ends = np.full(self.n, -1, np.int32), self.starts[:-1].copy()
        kernels.transpose(offsets, items, ranks, self.n, last, ends, self.tids, self.rows)
        longest = int(np.diff(offsets).max(initial=0))
        self.frames = np.zeros((min(longest, self.n) + 3, 8), np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, itemsets found so far included."""
        held = (self.tids, self.rows, self.branches, self.words, self.lists, self.marks)
        return int(sum(each.nbytes for each in (*held, *self.parts)))

    def levels(self) -> list[tuple[np.ndarray, np.ndarray]]:
        out, status = self._room(), kernels.RUNNING
        self._grow(status)
        while status != kernels.DONE:
            status = kernels.mine(
                self.state,
                self.starts,
                self.tids,
                self.rows,
                self.counters,
                self.places,
                self.frames,
                self.branches,
                self.words,
                self.lists,
                self.marks,
                out,
            )
            found = int(self.state[kernels.FOUND])
            self.parts.append(out[:found])
            out = self._room() if status == kernels.OUT_FULL else out[found:]
            self._grow(status)
        return self._by_size()

    def _room(self) -> np.ndarray:
        return np.empty((max(ROWS, self.n + 1), 3), np.int32)

    def _grow(self, status: int) -> None:
        """Double the array that is full, within the memory limit."""
        if status == kernels.WORDS_FULL:
            self.words = np.concatenate([self.words, np.zeros_like(self.words)])
        elif status == kernels.LISTS_FULL:
            self.lists = np.concatenate([self.lists, np.empty_like(self.lists)])
        elif status == kernels.BRANCHES_FULL:
            self.branches = np.concatenate([self.branches, np.empty_like(self.branches)])
        if self.memory_limit is not None and self.nbytes > self.memory_limit:
            raise ParameterError.of(
                OWNER,
                "memory_limit",
                f"of {self.memory_limit} bytes is too small for method 'eclat', which holds all "
                "baskets and itemsets; raise it or min_support, or give max_size.",
            )

    def _by_size(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The itemsets as one matrix of codes for each size, with their counts."""
        sizes = np.zeros(self.frames.shape[0] + 1, np.int64)
        for part in self.parts:
            sizes += np.bincount(part[:, 0], minlength=sizes.size)
        longest = int(np.flatnonzero(sizes).max(initial=0))
        ends = np.concatenate([[0], np.cumsum(sizes)])
        begins = np.concatenate([[0], np.cumsum(sizes * np.arange(sizes.size))])
        codes, counts = np.empty(begins[-1], np.int32), np.empty(ends[-1], np.int64)
        path, code_ends, count_ends = np.empty(sizes.size, np.int32), begins.copy(), ends.copy()
        for part in self.parts:
            kernels.unfold(part, path, code_ends, count_ends, codes, counts)
        return [
            (codes[begins[k] : begins[k + 1]].reshape(-1, k), counts[ends[k] : ends[k + 1]])
            for k in range(1, longest + 1)
        ]
