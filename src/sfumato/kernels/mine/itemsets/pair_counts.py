"""Pairs of items in baskets: hashed into capped buckets, filtered by bitmaps, counted exactly.

Baskets are compressed rows of rising codes. A hash function is a random uint32 h of each item; a
pair (x, y) falls into bucket (h(x) + h(y) mod 2**32) * width / 2**32. Three pairs fall
independently, as with simple tabulation. Indices are unsigned, which saves a test per pair.
"""

import numpy as np

from sfumato.kernels.hash import mix
from sfumato.kernels.jit import inline, kernel

__all__ = [
    "EMPTY",
    "count_surviving",
    "hash_pairs",
    "hash_surviving",
    "rehash",
    "surviving_share",
    "triangle",
]

ONE = np.uint64(1)
HALF = np.uint64(32)
EMPTY = np.uint64(2**64 - 1)


@inline
def _bucket(x, y, width):
    return (np.uint64(np.uint32(x + y)) * width) >> HALF


@kernel
def hash_pairs(offsets, hashes, width, cap, counts):
    """Count each pair in its bucket; a count stops at `cap`, which its type can hold.

    hashes: of the items of all baskets.
    """
    for basket in range(offsets.size - 1):
        start, stop = np.uint64(offsets[basket]), np.uint64(offsets[basket + 1])
        for i in range(start, max(stop, ONE) - ONE):
            x = hashes[i]
            for j in range(i + ONE, stop):
                slot = _bucket(x, hashes[j], width)
                count = counts[slot]
                counts[slot] = count + (count < cap)


@inline
def _survives(i, j, hashes, widths, starts, bitmap):
    """Whether the bucket of items i, j is frequent in every bitmap; these stand in one array."""
    for t in range(widths.size):
        bit = starts[t] + _bucket(hashes[t, i], hashes[t, j], widths[t])
        if not (bitmap[bit >> np.uint64(3)] >> (bit & np.uint64(7))) & ONE:
            return False
    return True


@kernel
def hash_surviving(offsets, hashes, widths, starts, bitmap, width, cap, counts):
    """`hash_pairs` of those pairs alone whose buckets are frequent in every bitmap so far.

    hashes: a row for each bitmap, and a last one for the new table.
    """
    own = hashes[widths.size]
    for basket in range(offsets.size - 1):
        start, stop = np.uint64(offsets[basket]), np.uint64(offsets[basket + 1])
        for i in range(start, max(stop, ONE) - ONE):
            for j in range(i + ONE, stop):
                if _survives(i, j, hashes, widths, starts, bitmap):
                    slot = _bucket(own[i], own[j], width)
                    count = counts[slot]
                    counts[slot] = count + (count < cap)


@kernel
def count_surviving(
    offsets, items, hashes, widths, starts, bitmap, basket, position, keys, counts, known
):
    """Count pairs that survive all bitmaps (none: all pairs) in an open table of 2**k slots.

    keys: x * 2**32 + y, EMPTY in free slots. From a basket and a position in items on, until the
    table may become more than 3/4 full. Returns where to go on, and how many pairs are known.
    """
    mask, room = np.uint64(keys.size - 1), np.uint64(keys.size // 4 * 3)
    for row in range(basket, offsets.size - 1):
        start, stop = max(position, np.uint64(offsets[row])), np.uint64(offsets[row + 1])
        for i in range(start, max(stop, ONE) - ONE):
            if known + stop - i > room:
                return row, i, known
            for j in range(i + ONE, stop):
                if _survives(i, j, hashes, widths, starts, bitmap):
                    key = np.uint64(items[i]) << HALF | np.uint64(items[j])
                    slot = mix(key) & mask
                    while keys[slot] != key and keys[slot] != EMPTY:
                        slot = (slot + ONE) & mask
                    known += np.uint64(keys[slot] == EMPTY)
                    keys[slot] = key
                    counts[slot] += np.uint32(1)
    return offsets.size - 1, position, known


@kernel
def rehash(old_keys, old_counts, keys, counts):
    """Move the pairs of one open table into a larger, empty one."""
    mask = np.uint64(keys.size - 1)
    for k in range(old_keys.size):
        if old_keys[k] != EMPTY:
            slot = mix(old_keys[k]) & mask
            while keys[slot] != EMPTY:
                slot = (slot + ONE) & mask
            keys[slot], counts[slot] = old_keys[k], old_counts[k]


@kernel
def triangle(offsets, items, rows, counts):
    """counts[rows[x] + y] += 1 for each pair x < y of each basket."""
    for basket in range(offsets.size - 1):
        start, stop = np.uint64(offsets[basket]), np.uint64(offsets[basket + 1])
        for i in range(start, max(stop, ONE) - ONE):
            row = rows[items[i]]
            for j in range(i + ONE, stop):
                counts[row + items[j]] += np.uint32(1)


@kernel
def surviving_share(step, hashes, widths, starts, bitmap):
    """How many pairs of items survive all bitmaps, and of how many: those of every step-th item.

    hashes: of each item once, a row for each bitmap.
    """
    survivors, pairs, n = 0, 0, hashes.shape[1]
    for x in range(0, n, step):
        pairs += n - 1 - x
        for y in range(x + 1, n):
            survivors += _survives(x, y, hashes, widths, starts, bitmap)
    return survivors, pairs
