"""Uniform subsets of cells without bias, by Floyd's algorithm, in the bits of a payload."""

import numpy as np

from ._jit import inline, kernel

FULL = 1 << 32  # a random word is one of so many


@inline
def _skip(index, own):
    """The cell that is number `index` among all but one."""
    return index + (index >= own)


@kernel
def choose(words, own, kept, chosen, cells, refused, out):
    """out[i] = the bits of a uniform set of `chosen` of the cells, own[i] being in it if kept[i].

    A word at or above the largest multiple of its limit would favour small numbers: such a row is
    left empty with refused[i] true and must be tried again with fresh words. out must be zero.
    """
    others = cells - 1
    for i in range(own.size):
        draws = chosen - kept[i]
        refused[i] = False
        for d in range(draws):
            last = others - draws + d
            limit = last + 1
            word = np.int64(words[i, d])
            if word >= FULL - FULL % limit:
                refused[i] = True
                break
            cell = _skip(word % limit, own[i])
            if out[i, cell >> 3] >> np.uint8(cell & 7) & 1:
                cell = _skip(last, own[i])
            out[i, cell >> 3] |= np.uint8(1 << (cell & 7))
        if refused[i]:
            out[i, :] = 0
        elif kept[i]:
            out[i, own[i] >> 3] |= np.uint8(1 << (own[i] & 7))
