"""Compact counters: cells of one byte that join their neighbours when they are full.

Eight bytes form a group. joined[r, g] has a bit for each pair (0 to 3), quad (4, 5) and the whole
group (6) that has become one little-endian counter; when a block joins, the bits of all blocks
inside it are set too. A block joins when a counter inside it cannot hold its sum. Sums only grow,
so the final blocks, and with them every byte, depend on the counts alone and not on their order.
"""

import numpy as np

from sfumato.kernels.hash import ROW, row_slot
from sfumato.kernels.jit import inline, kernel

__all__ = ["add", "blocks", "fits", "merge", "smallest"]


@inline
def _level(bits, cell):
    """The level of the counter that holds this cell (0 to 7) of a group."""
    if bits & 64:
        return 3
    if (bits >> (4 + (cell >> 2))) & 1:
        return 2
    return (bits >> (cell >> 1)) & 1


@inline
def _read(row, start, level):
    value = np.uint64(0)
    for k in range(1 << level):
        value |= np.uint64(row[start + k]) << np.uint64(8 * k)
    return value


@inline
def _write(row, start, level, value):
    for k in range(1 << level):
        row[start + k] = np.uint8((value >> np.uint64(8 * k)) & np.uint64(255))


@inline
def _sum(row, bits, base, start, level):
    """The sum of the counters in the block of 2**level cells that begins at base + start."""
    total, cell = np.uint64(0), start
    while cell < start + (1 << level):
        size = _level(bits, cell)
        total += _read(row, base + cell, size)
        cell += 1 << size
    return total


@inline
def _put(row, joined, group, cell, level, weight):
    """Add weight to the counter of a cell, which joins others up to `level` first, or as needed."""
    base, bits = 8 * group, np.int64(joined[group])
    own = _level(bits, cell)
    level = max(level, own)
    while True:
        start = cell & ~((1 << level) - 1)
        value = _sum(row, bits, base, start, level) + weight
        if level == 3 or value >> np.uint64(8 << level) == np.uint64(0):
            break
        level += 1
    _write(row, base + start, level, value)
    if level != own:
        if level == 1:
            bits |= 1 << (start >> 1)
        elif level == 2:
            bits |= 0b0010011 if start == 0 else 0b0101100
        else:
            bits = 0b1111111
        joined[group] = np.uint8(bits)


@kernel
def add(table, joined, hashes, weights):
    """Add the weights; a weight is below 2**31 and a group's sum below 2**63."""
    for r in range(table.shape[0]):
        row, marks, width = table[r], joined[r], np.uint64(table.shape[1])
        for i in range(hashes.size):
            slot = np.int64(row_slot(hashes[i] * ROW[r], width))
            value = np.int64(row[slot]) + weights[i]
            if marks[slot >> 3] == 0 and value < 256:
                row[slot] = np.uint8(value)
            else:
                _put(row, marks, slot >> 3, slot & 7, 0, np.uint64(weights[i]))


@kernel
def merge(table, joined, other, other_joined):
    """Add every counter of the other table to this one."""
    for r in range(table.shape[0]):
        for group in range(joined.shape[1]):
            bits, cell = np.int64(other_joined[r, group]), 0
            while cell < 8:
                level = _level(bits, cell)
                value = _read(other[r], 8 * group + cell, level)
                _put(table[r], joined[r], group, cell, level, value)
                cell += 1 << level


@kernel
def blocks(table, joined, level, out):
    """out[r, b] = the sum of the counters in block b of 2**level cells, or of the larger one."""
    for r in range(table.shape[0]):
        for b in range(out.shape[1]):
            start = b << level
            group, cell = start >> 3, start & 7
            bits = np.int64(joined[r, group])
            size = max(level, _level(bits, cell))
            out[r, b] = _sum(table[r], bits, 8 * group, cell & ~((1 << size) - 1), size)


@inline
def _whole(bits):
    """Whether the bits of every block inside a joined one are set, and no other."""
    if bits & 128 or (bits & 64 and bits != 127):
        return False
    return not (bits & 16 and bits & 3 != 3) and not (bits & 32 and bits & 12 != 12)


@kernel
def fits(table, joined, total):
    """Whether the marks are well formed and no row's counters add up to more than the total."""
    for r in range(table.shape[0]):
        left = total
        for group in range(joined.shape[1]):
            bits, cell = np.int64(joined[r, group]), 0
            if not _whole(bits):
                return False
            while cell < 8:
                level = _level(bits, cell)
                value = _read(table[r], 8 * group + cell, level)
                if value > left:
                    return False
                left -= value
                cell += 1 << level
    return True


@kernel
def smallest(table, joined, hashes, out):
    """out[i] = the smallest of the key's counters, one a row."""
    for r in range(table.shape[0]):
        row, marks, width = table[r], joined[r], np.uint64(table.shape[1])
        for i in range(hashes.size):
            slot = np.int64(row_slot(hashes[i] * ROW[r], width))
            value = np.int64(row[slot])
            if marks[slot >> 3]:
                level = _level(np.int64(marks[slot >> 3]), slot & 7)
                value = np.int64(_read(row, slot & ~((1 << level) - 1), level))
            out[i] = value if r == 0 else min(out[i], value)
