"""Candidate itemsets: joined from smaller ones, pruned by subsets, counted in one pass."""

from collections.abc import Iterable, Sequence

import numpy as np

from sfumato.kernels.alignment import aligned
from sfumato.kernels.mine.itemsets import itemset_counts as kernels
from sfumato.mine.itemsets.methods.passes import BLOCK_BYTES, ItemsetLevels, Level, Passes, level_of
from sfumato.mine.itemsets.sources.baskets import BasketChunk

__all__ = ["Supports", "add_larger", "candidate_bytes", "join", "union"]

LANE_BASKETS = 512  # baskets of one vector of bits
MOST_BASKETS = 1 << 16


def join(codes: np.ndarray, passes: Passes | None = None) -> np.ndarray:
    """Itemsets one item larger, all of whose subsets one item smaller are rows of `codes`.

    Rows are rising and in lexicographic order, before and after.
    """
    stops = np.empty(codes.shape[0], np.int64)
    pairs = kernels.joined(codes, stops)
    if passes is not None:
        passes.reserve(f"{pairs} pairs of itemsets to join", pairs + stops.nbytes)
    valid = np.empty(pairs, np.uint8)
    out = np.empty((kernels.survivors(codes, stops, valid), codes.shape[1] + 1), np.int32)
    kernels.fill(codes, stops, valid, out)
    return out


def union(groups: Iterable[np.ndarray]) -> np.ndarray:
    """All different rows of some matrices of one width, in lexicographic order."""
    rows = np.concatenate(list(groups))
    rows = rows[np.lexsort(rows.T[::-1])]
    fresh = np.ones(rows.shape[0], bool)
    fresh[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[fresh]


def candidate_bytes(codes: Iterable[np.ndarray]) -> int:
    """Bytes of candidates with their counts, and once more their codes as rows of bits."""
    return sum(2 * each.nbytes + 8 * each.shape[0] for each in codes)


class Supports:
    """Exact counts of candidates of several sizes, at least 2, each chunk in blocks of bits.

    Parameters
    ----------
    candidates : sequence of ndarray
        For each size the codes, rising in a row, rows in lexicographic order.
    n : int
        Items have codes below it.
    block_bytes : int, default=BLOCK_BYTES
        Bytes of a block of bits, if there are not very many items.
    """

    def __init__(
        self, candidates: Sequence[np.ndarray], n: int, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self.candidates: list[np.ndarray] = [each for each in candidates if each.size]
        self.counts: list[np.ndarray] = [
            np.zeros(each.shape[0], np.int64) for each in self.candidates
        ]
        used = np.zeros(n, bool)
        for each in self.candidates:
            used[each] = True
        self._rows = np.where(used, np.cumsum(used) - 1, -1).astype(np.int32)
        self._coded = [self._rows[each] for each in self.candidates]
        items, longest = int(used.sum()), max((e.shape[1] for e in self.candidates), default=2)
        # Few items: long blocks, to visit candidates less often; many: short ones, for the cache.
        fitting = block_bytes * 8 // max(items + longest, 1) // LANE_BASKETS * LANE_BASKETS
        self._block = int(np.clip(fitting, LANE_BASKETS, MOST_BASKETS))
        self._bits = aligned((items, self._block // 64), np.uint64)
        self._prefixes = aligned((longest, self._block // 64), np.uint64)

    @property
    def nbytes(self) -> int:
        return candidate_bytes(self.candidates) + self._bits.nbytes + self._prefixes.nbytes

    def add(self, chunk: BasketChunk) -> None:
        """Count the baskets of a chunk."""
        if not self.candidates:
            return
        size = chunk.offsets.size - 1
        for first in range(0, size, self._block):
            self._bits[:] = 0
            last = min(first + self._block, size)
            kernels.set_bits(*chunk, first, last, self._rows, self._bits)
            for codes, counts in zip(self._coded, self.counts, strict=True):
                kernels.add_supports(self._bits, codes, self._prefixes, counts)

    def frequent(self, min_count: int) -> list[Level]:
        """The frequent ones of each size."""
        pairs = zip(self.candidates, self.counts, strict=True)
        return [level_of(codes, counts, min_count) for codes, counts in pairs]


def add_larger(
    passes: Passes, levels: ItemsetLevels, min_count: int, max_size: int | None
) -> ItemsetLevels:
    """Append sizes 3, 4, ... to frequent items and pairs: join, prune and one pass for each."""
    n = levels[0][1].size
    while levels[-1][1].size and (max_size is None or len(levels) < max_size):
        candidates = join(levels[-1][0], passes)
        if not candidates.shape[0]:
            break
        size = candidates.shape[1]
        with passes.record(f"count itemsets of size {size}") as facts:
            supports = Supports([candidates], n, passes.block_bytes)
            passes.reserve(f"candidates of size {size}", supports.nbytes)
            for chunk in passes.read(n):
                supports.add(chunk)
            levels.append(supports.frequent(min_count)[0])
            facts.update(candidates=candidates.shape[0], frequent=levels[-1][1].size)
            facts.update(memory=supports.nbytes)
    return levels
