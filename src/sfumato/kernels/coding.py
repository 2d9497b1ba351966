"""Whole numbers as places in a list of those that occur, by an open table of 2**k slots."""

import numpy as np

from ._jit import kernel
from .hash import mix

__all__ = ["code"]


@kernel
def code(values, start, keys, places, known, distinct, out):
    """out[i] = the place of values[i] in `distinct`, which grows in order of first appearance.

    From row `start` on, and until the table would be more than half full: returns the first row not
    done and how many are known. places: -1 in empty slots; keys and places have 2**k of them.
    """
    mask = np.uint64(keys.size - 1)
    for i in range(start, values.size):
        value = values[i]
        if i > start and value == values[i - 1]:  # rows often come user by user
            out[i] = out[i - 1]
            continue
        slot = mix(np.uint64(value)) & mask
        while places[slot] >= 0 and keys[slot] != value:
            slot = (slot + np.uint64(1)) & mask
        if places[slot] < 0:
            if 2 * known >= keys.size:
                return i, known
            keys[slot], places[slot], distinct[known] = value, known, value
            known += 1
        out[i] = places[slot]
    return values.size, known
