"""Counter tables t[r, h_r(key)]: one row of cells for each independent hash h_r.

A row is swept for a whole block of keys before the next, so that it stays in the cache; its cells'
positions go through `slots`, an array of 32-bit scratch as long as the block, so that finding them
is vectorised.
"""

import numpy as np

from ._jit import inline, kernel
from .hash import ROW, row_slot

__all__ = ["add", "add_one", "add_one_signed", "add_signed", "mean", "median", "middle", "smallest"]


@inline
def _find(hashes, r, width, slots):
    for i in range(hashes.size):
        slots[i] = row_slot(hashes[i] * ROW[r], np.uint64(width))


@kernel
def add_one(table, hashes, slots):
    """t[r, h_r(key)] += 1."""
    for r in range(table.shape[0]):
        _find(hashes, r, table.shape[1], slots)
        row = table[r]
        for i in range(hashes.size):
            row[slots[i]] += 1


@kernel
def add(table, hashes, slots, weights):
    """t[r, h_r(key)] += weight."""
    for r in range(table.shape[0]):
        _find(hashes, r, table.shape[1], slots)
        row = table[r]
        for i in range(hashes.size):
            row[slots[i]] += weights[i]


@kernel
def smallest(table, hashes, slots, out):
    """out[i] = min over r of t[r, h_r(key)]."""
    for r in range(table.shape[0]):
        _find(hashes, r, table.shape[1], slots)
        row = table[r]
        if r == 0:
            for i in range(hashes.size):
                out[i] = row[slots[i]]
        else:
            for i in range(hashes.size):
                out[i] = min(out[i], np.int64(row[slots[i]]))


@inline
def _find_signed(hashes, r, width, slots):
    """Twice the cell's position, plus one where the sign is -1; width is at most 2**31."""
    for i in range(hashes.size):
        product = hashes[i] * ROW[r]
        sign = product >> np.uint64(31) & np.uint64(1)
        slots[i] = row_slot(product, np.uint64(width)) << np.uint64(1) | sign


@inline
def _turned(value, slot):
    return -value if slot & np.uint32(1) else value


@kernel
def add_one_signed(table, hashes, slots):
    """t[r, h_r(key)] += s_r(key)."""
    for r in range(table.shape[0]):
        _find_signed(hashes, r, table.shape[1], slots)
        row = table[r]
        for i in range(hashes.size):
            row[slots[i] >> np.uint32(1)] += 1 - 2 * np.int32(slots[i] & np.uint32(1))


@kernel
def add_signed(table, hashes, slots, weights):
    """t[r, h_r(key)] += s_r(key) weight."""
    for r in range(table.shape[0]):
        _find_signed(hashes, r, table.shape[1], slots)
        row = table[r]
        for i in range(hashes.size):
            row[slots[i] >> np.uint32(1)] += _turned(weights[i], slots[i])


@kernel
def mean(table, hashes, slots, out):
    """out[i] = mean over r of s_r(key) t[r, h_r(key)]."""
    depth = table.shape[0]
    for r in range(depth):
        _find_signed(hashes, r, table.shape[1], slots)
        row = table[r]
        if r == 0:
            for i in range(hashes.size):
                out[i] = _turned(np.float64(row[slots[i] >> np.uint32(1)]), slots[i])
        else:
            for i in range(hashes.size):
                out[i] += _turned(np.float64(row[slots[i] >> np.uint32(1)]), slots[i])
    for i in range(out.size):
        out[i] /= depth


@kernel
def median(table, hashes, slots, rows, out):
    """out[i] = median over r of s_r(key) t[r, h_r(key)]; rows is scratch, depth x keys."""
    for r in range(table.shape[0]):
        _find_signed(hashes, r, table.shape[1], slots)
        row, read = table[r], rows[r]
        for i in range(hashes.size):
            read[i] = _turned(row[slots[i] >> np.uint32(1)], slots[i])
    _middle_of(rows, out)


@kernel
def middle(table, hashes, slots, rows, out):
    """out[i] = median over r of t[r, h_r(key)]; rows is scratch, depth x keys."""
    for r in range(table.shape[0]):
        _find(hashes, r, table.shape[1], slots)
        row, read = table[r], rows[r]
        for i in range(hashes.size):
            read[i] = row[slots[i]]
    _middle_of(rows, out)


@inline
def _middle_of(rows, out):
    """The medians of columns, which end up sorted.

    The rows are sorted for all keys at once by odd-even transposition: each step is a vectorised
    minimum and maximum of two rows.
    """
    depth = rows.shape[0]
    for step in range(depth):
        for r in range(step & 1, depth - 1, 2):
            low, high = rows[r], rows[r + 1]
            for i in range(out.size):
                a, b = low[i], high[i]
                low[i] = a if a < b else b
                high[i] = b if a < b else a
    low, high = rows[(depth - 1) // 2], rows[depth // 2]
    for i in range(out.size):
        out[i] = (np.float64(low[i]) + np.float64(high[i])) / 2
