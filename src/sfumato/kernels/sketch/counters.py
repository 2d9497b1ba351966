"""Counter tables t[r, h_r(key)]: one row of cells for each independent hash h_r.

A row is swept for a whole block of keys before the next, so that it stays in the cache; its cells'
positions go through `slots`, an array of 32-bit scratch as long as the block, so that finding them
is vectorised.

Conservative counters: a key raises only those of its cells that are below its new count. Tug-of-
war counters: every cell takes every key, with a sign of its own for each. HyperLogLog registers:
register [first p bits of a hash] = 1 + most leading zeros of the rest.
"""

import numpy as np

from sfumato.kernels.hash import GOLDEN, ROW, mix, row_slot
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import bits, count_leading_zeros, count_trailing_zeros, load
from sfumato.kernels.sketch import register_estimate

__all__ = [
    "VALUES",
    "add",
    "add_one",
    "add_one_signed",
    "add_signed",
    "distinct",
    "mean",
    "median",
    "middle",
    "observe",
    "pull",
    "raise_cells",
    "raise_levels",
    "smallest",
    "smallest_value",
]


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


BASE = 1.08  # of the logarithmic cells: level c stands for (BASE**c - 1) / (BASE - 1)
VALUES = (BASE ** np.arange(256) - 1) / (BASE - 1)


@inline
def _smallest(table, h):
    width = np.uint64(table.shape[1])
    least = table[0, row_slot(h * ROW[0], width)]
    for r in range(1, table.shape[0]):
        least = min(least, table[r, row_slot(h * ROW[r], width)])
    return least


@inline
def _raise(table, h, level):
    width = np.uint64(table.shape[1])
    for r in range(table.shape[0]):
        slot = row_slot(h * ROW[r], width)
        table[r, slot] = max(table[r, slot], level)


@kernel
def raise_cells(table, hashes, weights):
    """Every cell of a key becomes at least the smallest of them plus the weight."""
    for i in range(hashes.size):
        _raise(table, hashes[i], _smallest(table, hashes[i]) + weights[i])


@kernel
def smallest_value(table, hashes, values, out):
    """out[i] = what the smallest of the key's levels stands for."""
    for i in range(hashes.size):
        out[i] = values[_smallest(table, hashes[i])]


@kernel
def raise_levels(table, hashes, weights, values, draws):
    """Raise levels so that the expected value grows by the weight; level 255 is the last.

    The new value lies between two levels and goes to the upper one with the probability that keeps
    its mean. draws[0] counts the draws, so that the same stream gives the same cells again.
    """
    for i in range(hashes.size):
        level = np.int64(_smallest(table, hashes[i]))
        target = values[level] + weights[i]
        while level < 255 and values[level + 1] <= target:
            level += 1
        if level < 255:
            draws[0] += np.uint64(1)
            uniform = np.float64(mix(hashes[i] + draws[0] * ROW[0]) >> np.uint64(11)) * 2.0**-53
            gap = (target - values[level]) / (values[level + 1] - values[level])
            level += np.int64(uniform < gap)
        _raise(table, hashes[i], np.uint8(level))


@kernel
def pull(cells, hashes, weights):
    """cells[j] += s_j(key) weight; 64 signs come from each mixing of the hash; cells fill 64s."""
    for i in range(hashes.size):
        for block in range(cells.size // 64):
            signs = mix(hashes[i] ^ (np.uint64(block + 1) * GOLDEN))
            for j in range(64):
                up = np.int64(signs >> np.uint64(j) & np.uint64(1))
                cells[64 * block + j] += weights[i] * (2 * up - 1)


@inline
def _rank(h, precision):
    """The register of a hash, and the value that it raises it to."""
    guard = np.uint64(1) << np.uint64(precision - 1)  # caps the rank at 64 - precision + 1
    rank = np.uint8(count_leading_zeros(h << np.uint64(precision) | guard) + 1)
    return h >> np.uint64(64 - precision), rank


@kernel
def observe(registers, precision, hashes, tally):
    """Raise the registers, and keep the number of registers of every value unless it is empty.

    A hash whose rest has fewer leading zeros than the lowest register changes nothing; once that is
    above zero, eight hashes at a time are tested against it and most go no further. For few hashes
    the search of the lowest would take longer than it saves.
    """
    lowest = np.uint8(255)
    if hashes.size < registers.size >> 4:
        lowest = np.uint8(0)
    else:
        for register in registers:
            lowest = min(lowest, register)
    rest, limit = np.uint64(precision), np.uint64(1) << np.uint64(64 - max(lowest, 1))
    whole = hashes.size & ~7 if lowest else 0
    for i in range(0, whole, 8):
        left = bits(load(hashes, i) << rest < limit)
        while left:
            register, rank = _rank(hashes[i + count_trailing_zeros(left)], precision)
            before = registers[register]
            if before < rank:
                registers[register] = rank
                if tally.size:
                    tally[before] -= 1
                    tally[rank] += 1
            left &= left - np.uint64(1)
    for i in range(whole, hashes.size):
        register, rank = _rank(hashes[i], precision)
        before = registers[register]
        if before < rank:
            registers[register] = rank
            if tally.size:
                tally[before] -= 1
                tally[rank] += 1


distinct = kernel(register_estimate.distinct)
