"""Integers as positions in a list of those that occur, by an open table of 2**k slots.

Where ids stand: a hash table with open addressing, whose size is a power of two.
"""

import numpy as np

from sfumato.kernels.hash import mix
from sfumato.kernels.jit import inline, kernel

__all__ = ["code", "code_dense", "find", "put"]


@kernel
def code(values, start, keys, positions, known, distinct, out):
    """out[i] = the position of values[i] in `distinct`, which grows in order of first appearance.

    From row `start` on, and until the table would be more than half full: returns the first row not
    done and how many are known. positions: -1 in empty slots; keys and positions have 2**k of them.
    """
    mask = np.uint64(keys.size - 1)
    for i in range(start, values.size):
        value = values[i]
        if i > start and value == values[i - 1]:  # rows often come user by user
            out[i] = out[i - 1]
            continue
        slot = mix(np.uint64(value)) & mask
        while positions[slot] >= 0 and keys[slot] != value:
            slot = (slot + np.uint64(1)) & mask
        if positions[slot] < 0:
            if 2 * known >= keys.size:
                return i, known
            keys[slot], positions[slot], distinct[known] = value, known, value
            known += 1
        out[i] = positions[slot]
    return values.size, known


@kernel
def code_dense(values, low, positions, distinct, out):
    """As `code` for values from `low` on, by a table with a place for each; return how many.

    positions: -1 for each of the values that may occur.
    """
    known = 0
    for i in range(values.size):
        place = values[i] - low
        if positions[place] < 0:
            positions[place], distinct[known] = known, values[i]
            known += 1
        out[i] = positions[place]
    return known


@inline
def _cell(keys, id):
    """The cell that holds the id, or the free one where it would stand."""
    last = np.uint64(keys.size - 1)
    at = mix(np.uint64(id)) & last
    while keys[at] != id and keys[at] >= 0:
        at = (at + np.uint64(1)) & last
    return at


@kernel
def put(ids, rows, keys, values):
    """Give ids[i] the row rows[i], replacing any previous row; return the number of new ids."""
    new = 0
    for i in range(ids.size):
        at = _cell(keys, ids[i])
        new += keys[at] < 0
        keys[at], values[at] = ids[i], rows[i]
    return new


@kernel
def find(keys, values, ids, out):
    """out[i] = the row of ids[i], -1 for one that was never put."""
    for i in range(ids.size):
        at = _cell(keys, ids[i])
        out[i] = values[at] if keys[at] >= 0 else -1
