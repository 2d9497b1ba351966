"""Counter tables t[r, h_r(key)]: one row of cells for each independent hash h_r.

A row is swept for a whole block of keys before the next, so that it stays in the cache; its cells'
positions go through `slots`, an array of 32-bit scratch as long as the block, so that finding them
is vectorised.
"""

import numpy as np

from ._jit import inline, kernel
from .hash import ROW, row_sign, row_slot

__all__ = ["add", "add_one", "add_one_signed", "add_signed", "mean", "signed", "smallest"]


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
        _find(hashes, r, table.shape[1], slots)
        row = table[r]
        for i in range(hashes.size):
            row[slots[i]] += row_sign(hashes[i] * ROW[r]) * weights[i]


@inline
def _find_signed(hashes, r, width, slots):
    for i in range(hashes.size):
        product = hashes[i] * ROW[r]
        slots[i] = row_slot(product, np.uint64(width)) << np.uint64(1) | (
            product >> np.uint64(31) & np.uint64(1)
        )


@kernel
def signed(table, hashes, slots, out):
    """out[r, i] = s_r(key) t[r, h_r(key)]."""
    for r in range(table.shape[0]):
        _find(hashes, r, table.shape[1], slots)
        row = table[r]
        for i in range(hashes.size):
            out[r, i] = row_sign(hashes[i] * ROW[r]) * row[slots[i]]


@kernel
def mean(table, hashes, slots, out):
    """out[i] = mean over r of s_r(key) t[r, h_r(key)]."""
    depth = table.shape[0]
    out[:] = 0
    for r in range(depth):
        _find_signed(hashes, r, table.shape[1], slots)
        row = table[r]
        for i in range(hashes.size):
            value = row[slots[i] >> np.uint32(1)]
            out[i] += -value if slots[i] & np.uint32(1) else value
    for i in range(out.size):
        out[i] /= depth
