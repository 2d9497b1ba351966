"""One symbol a bin for each set, from its item of the lowest rank, and how rows of them agree.

An item has the rank mix(h + GOLDEN), whose high half chooses its bin, and a symbol of a few bits
made from the rank. Different hashes have different ranks, so a set decides its symbols.
"""

import numpy as np

from ._jit import inline, kernel
from .hash import GOLDEN, mix
from .lanes import load, popcount, total, u64x8

__all__ = ["agree", "lowest", "placed"]

HALF = np.uint64(32)
NONE = np.uint64(2**64 - 1)


@inline
def _place(rank, bins):
    return ((rank >> HALF) * bins) >> HALF


@inline
def _symbol(rank, last):
    return (mix(rank) >> HALF) & last


@kernel
def placed(hashes, bins, bits, places, ranks, symbols):
    """places[i], ranks[i], symbols[i] = the bin, the rank and the symbol of item i."""
    bins, last = np.uint64(bins), (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for i in range(hashes.size):
        rank = mix(hashes[i] + GOLDEN)
        places[i], ranks[i], symbols[i] = _place(rank, bins), rank, _symbol(rank, last)


@kernel
def lowest(hashes, starts, bits, out):
    """out[r, b] = the symbol of the lowest rank in bin b of set r, 2**bits where it is empty."""
    empty = np.uint64(1) << np.uint64(bits)
    last, bins = empty - np.uint64(1), np.uint64(out.shape[1])
    ranks = np.empty(out.shape[1], np.uint64)
    for r in range(out.shape[0]):
        ranks[:] = NONE
        out[r] = empty
        for k in range(starts[r], starts[r + 1]):
            rank = mix(hashes[k] + GOLDEN)
            place = _place(rank, bins)
            if rank <= ranks[place]:
                ranks[place] = rank
                out[r, place] = _symbol(rank, last)


@kernel
def agree(left, right, out):
    """out[i, j] = in how many bins both rows are full with one symbol, and in how many both are.

    Rows are planes of bits, 512 bins a vector: plane 0 says "full", the others spell the symbol.
    """
    planes, words = left.shape[1], left.shape[2]
    for i in range(left.shape[0]):
        for j in range(right.shape[0]):
            equal, both = u64x8(0), u64x8(0)
            for w in range(0, words, 8):
                at, there = i * planes * words + w, j * planes * words + w
                full = load(left, at) & load(right, there)
                same = full
                for p in range(1, planes):
                    differ = load(left, at + p * words) ^ load(right, there + p * words)
                    same = same & ~differ
                equal += popcount(same)
                both += popcount(full)
            out[i, j, 0] = total(equal)
            out[i, j, 1] = total(both)
