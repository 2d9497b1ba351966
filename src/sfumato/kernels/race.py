"""Rows of counters that points fall into: slots from codes, tallies, and weighted sums of cells.

Positions and slots have a row for each hash function and a column for each point, so that the cells
of one row stay in the first cache while a block of points goes through.
"""

import numpy as np

from ._jit import kernel
from .hash import mix, row_slot

__all__ = ["gather", "slots", "tally", "tally_weighted"]


@kernel
def slots(positions, direct, keys, width, out):
    """out[r, i] = floor(positions[r, i]) where the row is direct, else its hash to 0..width-1."""
    cells = np.uint64(width)
    for r in range(out.shape[0]):
        row = positions[r]
        if direct[r]:
            for i in range(row.size):
                out[r, i] = np.uint32(np.int32(row[i]))
        else:
            for i in range(row.size):
                code = np.uint64(np.int64(row[i])) ^ keys[r]
                out[r, i] = np.uint32(row_slot(mix(code), cells))


@kernel
def tally(slots, used, parts, table):
    """table[r, slots[r, i]] += 1, of cells below used[r].

    `parts` are zeroed 32-bit rows, of which neighbours take different ones: adding to a cell that
    was just written waits for the write. They end zeroed; where cells are many, there are none.
    """
    for r in range(slots.shape[0]):
        row, cells = slots[r], table[r]
        if parts.shape[0] == 0:
            for i in range(row.size):
                cells[row[i]] += 1
            continue
        quads = row.size // 4 * 4
        for i in range(0, quads, 4):
            parts[0, row[i]] += 1
            parts[1, row[i + 1]] += 1
            parts[2, row[i + 2]] += 1
            parts[3, row[i + 3]] += 1
        for i in range(quads, row.size):
            parts[0, row[i]] += 1
        for b in range(used[r]):
            cells[b] += parts[0, b] + parts[1, b] + parts[2, b] + parts[3, b]
            parts[0, b] = parts[1, b] = parts[2, b] = parts[3, b] = 0


@kernel
def tally_weighted(slots, weights, table):
    """table[r, slots[r, i]] += weights[i]."""
    for r in range(slots.shape[0]):
        row, cells = slots[r], table[r]
        for i in range(row.size):
            cells[row[i]] += weights[i]


@kernel
def gather(table, slots, scales, groups, out):
    """out[groups[r], i] += scales[r] table[r, slots[r, i]], r ascending."""
    for r in range(slots.shape[0]):
        row, cells, sums, scale = slots[r], table[r], out[groups[r]], scales[r]
        for i in range(row.size):
            sums[i] += scale * cells[row[i]]
