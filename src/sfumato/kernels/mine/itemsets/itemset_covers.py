"""Itemsets that have a superset of one item more, found by hashes of their subsets."""

import numpy as np

from sfumato.kernels.hash import mix
from sfumato.kernels.jit import inline, kernel

__all__ = ["cover"]


@inline
def _hash(codes, row):
    """The sum of the items' hashes, from which each can be taken away."""
    found = np.uint64(0)
    for k in range(codes.shape[1]):
        found += mix(np.uint64(codes[row, k]))
    return found


@inline
def _is_without(small, row, large, other, dropped):
    """Whether small[row] is large[other] without its item number `dropped`."""
    k = 0
    while k < small.shape[1] and small[row, k] == large[other, k + (k >= dropped)]:
        k += 1
    return k == small.shape[1]


@kernel
def cover(small, small_counts, large, large_counts, equal, table, covered):
    """covered[r] = True if a row of `large` has all items of small[r], with its count if `equal`.

    Rows of `large` have one item more, and all rows rise. table: -1 in each of 2**k slots, more
    than rows of `small`.
    """
    last = np.uint64(table.size - 1)
    for row in range(small.shape[0]):
        slot = mix(_hash(small, row)) & last
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        table[slot] = row
    for other in range(large.shape[0]):
        all_items = _hash(large, other)
        for dropped in range(large.shape[1]):
            slot = mix(all_items - mix(np.uint64(large[other, dropped]))) & last
            while table[slot] >= 0 and not _is_without(small, table[slot], large, other, dropped):
                slot = (slot + np.uint64(1)) & last
            row = table[slot]
            if row >= 0 and (not equal or small_counts[row] == large_counts[other]):
                covered[row] = True
