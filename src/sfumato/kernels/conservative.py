"""Conservative counters: a key raises only those of its cells that are below its new count."""

import numpy as np

from ._jit import inline, kernel
from .hash import ROW, mix, row_slot

__all__ = ["VALUES", "raise_cells", "raise_levels", "smallest_value"]

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
