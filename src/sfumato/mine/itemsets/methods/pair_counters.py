"""Exact counters of pairs: a triangular matrix (4 bytes a pair) or triples (12 bytes a slot)."""

from typing import NamedTuple, Protocol

import numpy as np

from sfumato.kernels.mine.itemsets import pair_counts as kernels
from sfumato.mine.itemsets.methods.passes import Level, Passes, level_of
from sfumato.mine.itemsets.sources.baskets import BasketChunk, Baskets

__all__ = [
    "MATRIX_BYTES",
    "TRIPLE_BYTES",
    "Bitmaps",
    "PairCounter",
    "Triangle",
    "Triples",
    "expected_share",
    "matrix_bytes",
    "pair_counter",
    "shortened",
]

MATRIX_BYTES = 4  # of a pair in the triangular matrix, whether it occurs or not
TRIPLE_BYTES = 12  # of a pair that occurs: two items and a count
FIRST_SLOTS = 1 << 12


class Bitmaps(NamedTuple):
    """Bitmaps of frequent buckets, one after the other, and the hash function of each.

    `hashes` has a row for each bitmap: a random uint32 for each item.
    """

    hashes: np.ndarray
    widths: np.ndarray
    starts: np.ndarray
    bitmap: np.ndarray

    @classmethod
    def none(cls, n: int) -> "Bitmaps":
        """No bitmap: every pair of n items survives."""
        empty = np.empty(0, np.uint64)
        return cls(np.empty((0, n), np.uint32), empty, empty, np.empty(0, np.uint8))

    def of(self, chunk: BasketChunk) -> "Bitmaps":
        """The same with the hashes of all items of a chunk, in their order."""
        return self._replace(hashes=self.hashes[:, chunk.items])


def matrix_bytes(n: int) -> int:
    """Bytes of the triangular matrix of n items: 4 a pair, about 2 n^2."""
    return MATRIX_BYTES * (n * (n - 1) // 2)


class PairCounter(Protocol):
    """A counter of pairs: chunks in, frequent pairs out."""

    name: str

    def add(self, chunk: BasketChunk) -> None: ...

    @property
    def pairs(self) -> int:
        """Number of pairs that are counted."""
        ...

    @property
    def nbytes(self) -> int: ...

    def frequent(self, min_count: int) -> Level: ...


class Triangle:
    """One count for each pair x < y of n items, at x (2 n - x - 1) / 2 + y - x - 1."""

    name = "triangle"

    def __init__(self, n: int) -> None:
        x = np.arange(n, dtype=np.int64)
        self._rows = x * (2 * n - x - 1) // 2 - x - 1
        self._counts = np.zeros(n * (n - 1) // 2, np.uint32)

    def add(self, chunk: BasketChunk) -> None:
        kernels.triangle(*chunk, self._rows, self._counts)

    @property
    def pairs(self) -> int:
        return int(np.count_nonzero(self._counts))

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes

    def frequent(self, min_count: int) -> Level:
        at = np.flatnonzero(self._counts >= min_count)
        x = np.searchsorted(self._rows + np.arange(self._rows.size) + 1, at, side="right") - 1
        codes = np.stack([x, at - self._rows[x]], axis=1)
        return level_of(codes, self._counts[at], min_count)


class Triples:
    """Counts of the pairs that occur and survive the filters, in an open hash table.

    The table doubles when three quarters full, within the budget of `passes`.
    """

    name = "triples"

    def __init__(self, passes: Passes, filters: Bitmaps) -> None:
        self._passes, self._filters = passes, filters
        self._known = np.uint64(0)
        self._keys, self._counts = _slots(FIRST_SLOTS)

    def add(self, chunk: BasketChunk) -> None:
        filters, basket, at = self._filters.of(chunk), 0, np.uint64(0)
        while basket < chunk.offsets.size - 1:
            table = self._keys, self._counts, self._known
            basket, at, known = kernels.count_surviving(*chunk, *filters, basket, at, *table)
            at, self._known = np.uint64(at), np.uint64(known)
            if basket < chunk.offsets.size - 1:
                self._grow(2 * self._keys.size)

    def _grow(self, slots: int) -> None:
        # While pairs move, the old table of half the size is there as well.
        bitmap = self._filters.bitmap.nbytes
        self._passes.reserve("triples of candidate pairs", TRIPLE_BYTES * slots * 3 // 2 + bitmap)
        keys, counts = _slots(slots)
        kernels.rehash(self._keys, self._counts, keys, counts)
        self._keys, self._counts = keys, counts

    @property
    def pairs(self) -> int:
        return int(self._known)

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._counts.nbytes

    def frequent(self, min_count: int) -> Level:
        at = np.flatnonzero(self._counts >= min_count)
        at = at[np.argsort(self._keys[at])]
        codes = np.stack(
            [self._keys[at] >> np.uint64(32), self._keys[at] & np.uint64(2**32 - 1)], 1
        )
        return level_of(codes, self._counts[at], min_count)


def _slots(size: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full(size, kernels.EMPTY, np.uint64), np.zeros(size, np.uint32)


def pair_counter(passes: Passes, n: int) -> PairCounter:
    """The smaller counter: triples if fewer than 1/3 of the pairs of n items should occur."""
    share = expected_share(passes.baskets, n)
    wanted = matrix_bytes(n)
    if share >= MATRIX_BYTES / TRIPLE_BYTES and wanted <= passes.budget:
        return Triangle(n)
    return Triples(passes, Bitmaps.none(n))


def expected_share(baskets: Baskets, n: int, steps: int = 512) -> float:
    """Expected fraction of the pairs of the n most frequent items that occur, if independent.

    Pair x, y is in none of N with probability (1 - c_x / N) ** c_y. Codes are in order of
    frequency, so some at equal distances stand for those around them.
    """
    if n < 2:
        return 1.0
    at = np.unique(np.linspace(0, n - 1, min(n, steps)).astype(np.int64))
    counts = baskets.item_counts[at].astype(np.float64)
    absent = 1 - counts / baskets.size
    x, y = np.triu_indices(at.size, 1)
    return float(1 - (absent[x] ** counts[y]).mean())


def shortened(chunk: BasketChunk, longest: int) -> tuple[BasketChunk, int]:
    """The chunk with at most the `longest` most frequent items per basket, and how many are cut."""
    sizes = np.diff(chunk.offsets)
    many = int(np.count_nonzero(sizes > longest))
    if not many:
        return chunk, 0
    position = np.arange(chunk.items.size) - np.repeat(chunk.offsets[:-1], sizes)
    offsets = np.concatenate([[0], np.cumsum(np.minimum(sizes, longest))])
    return BasketChunk(offsets, chunk.items[position < longest]), many
