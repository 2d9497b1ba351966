"""Codes of many sets, sixteen table rows at a time: equal as often as the sets are alike.

Row j keeps, for each hash q, the least of ((x ^ k) a, its high bits folded in) b over the 32-bit
members x: the first member in a random order, one for each k, a and b. Its code mixes those minima.
"""

import numpy as np

from ._jit import inline, kernel
from .lanes import load, minimum, store, u32x16

__all__ = ["ROWS", "minima"]

ROWS = 16  # of a block, one lane each
LAST = np.uint32(0x9E3779B1)  # odd: takes what was folded down up to the high bits again


@inline
def _code(members, start, end, words):
    """The codes of one set, in all lanes."""
    code = u32x16(0)
    for q in range(words.shape[0]):
        k, a = load(words, 64 * q), load(words, 64 * q + 16)
        b, c = load(words, 64 * q + 32), load(words, 64 * q + 48)
        lowest = u32x16(np.uint32(2**32 - 1))
        for m in range(start, end):
            mixed = (u32x16(members[m]) ^ k) * a
            lowest = minimum(lowest, (mixed ^ mixed >> 15) * b)
        code = (code ^ lowest) * c
        code = code ^ code >> 16
    return code * LAST


@kernel
def minima(members, bounds, words, out):
    """out[j, i] = the code in row j of the set of members bounds[i] to bounds[i + 1].

    words[q, 0 to 3] are k, a, b and c of hash q in all lanes; all but k are odd. An empty set has
    the code of the minima 2**32 - 1, which a full one has with p = (size / 2**32) ** hashes.
    """
    rows, size = out.shape
    few = np.empty(ROWS * ROWS, np.uint32)
    for first in range(0, size, ROWS):  # so that rows are written in runs
        count = min(ROWS, size - first)
        for i in range(count):
            at = first + i
            store(few, ROWS * i, _code(members, bounds[at], bounds[at + 1], words))
        for j in range(rows):
            for i in range(count):
                out[j, first + i] = few[ROWS * i + j]
