"""Codewords in integers, none longer than the scale, and their sums over sets of items.

Codewords are in panels, as the entries of kernels/codebooks.py that they are made from: entry
16 p + c of key i is [p, i, c], so that one panel of thousands of keys stays in the cache.

One symbol a bin for each set, from its item of the lowest rank, and how rows of them agree.
"""

import math

import numpy as np

from sfumato.kernels.hash import GOLDEN, mix
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import load, popcount, store, total, u32x16, u64x8

__all__ = ["add", "agree", "cut_to", "lowest", "placed", "round_inward"]

CHUNK = 2**16  # codewords summed in 32 bits: entries are at most 2**14, so 2**30 holds the sum


@inline
def _squares(panels, i, width):
    """The sum of the squares of key i's entries, in one written order."""
    even, odd = 0.0, 0.0
    for j in range(0, width - 1, 2):
        p, c = j >> 4, j & 15
        even += panels[p, i, c] * panels[p, i, c]
        odd += panels[p, i, c + 1] * panels[p, i, c + 1]
    if width & 1:
        last = panels[(width - 1) >> 4, i, (width - 1) & 15]
        even += last * last
    return even + odd


@inline
def _shorten(out, i, width, over):
    """Take steps toward 0 off the largest entries until the squares lose `over`."""
    while over > 0:
        p, c = 0, 0
        for j in range(width):
            if abs(out[j >> 4, i, j & 15]) > abs(out[p, i, c]):
                p, c = j >> 4, j & 15
        over -= 2 * abs(np.int64(out[p, i, c])) - 1
        out[p, i, c] -= 1 if out[p, i, c] > 0 else -1


@kernel
def round_inward(panels, width, scale, first, out):
    """out[:, first + i] = the direction of key i's entries, scaled, rounded toward 0, 0 past width.

    The squares of a codeword are summed in integers and never exceed scale**2, however floats
    rounded.
    """
    for i in range(panels.shape[1]):
        for j in range(16 * out.shape[0]):
            out[j >> 4, first + i, j & 15] = 0
        squares = _squares(panels, i, width)
        factor = scale / math.sqrt(squares) if squares > 0 else 0.0
        total = np.int64(0)
        for j in range(width):
            entry = np.int64(panels[j >> 4, i, j & 15] * factor)  # a cast cuts toward 0
            out[j >> 4, first + i, j & 15] = entry
            total += entry * entry
        _shorten(out, first + i, width, total - np.int64(scale) * np.int64(scale))


@kernel
def add(panels, first, positions, bounds, out):
    """out[r] += the codewords of row r's positions, bounds[r] to bounds[r + 1], in the table.

    Key i of the table is that of position first + i; other positions are left for another call. The
    number of panels is even.
    """
    held, width = panels.shape[1], out.shape[1]
    partial = np.empty(32, np.int32)
    for p in range(0, panels.shape[0], 2):
        used = min(32, width - 16 * p)
        here, next_panel = 16 * p * held, 16 * (p + 1) * held
        for r in range(out.shape[0]):
            at, end = bounds[r], bounds[r + 1]
            while at < end:
                stop = min(end, at + CHUNK)
                low, high = u32x16(0), u32x16(0)
                for k in range(at, stop):
                    position = np.int64(positions[k]) - first
                    if 0 <= position < held:
                        low += load(panels, here + 16 * position)
                        high += load(panels, next_panel + 16 * position)
                store(partial, 0, low)  # modulo 2**32, so signs come out right
                store(partial, 16, high)
                for c in range(used):
                    out[r, 16 * p + c] += partial[c]
                at = stop


@kernel
def cut_to(cells, low, high, out):
    """out = cells, or the nearer of low and high where a cell is beyond."""
    for r in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            out[r, j] = min(max(cells[r, j], low), high)


HALF = np.uint64(32)
NONE = np.uint64(2**64 - 1)


@inline
def _position(rank, bins):
    return ((rank >> HALF) * bins) >> HALF


@inline
def _symbol(rank, last):
    return (mix(rank) >> HALF) & last


@kernel
def placed(hashes, bins, bits, positions, ranks, symbols):
    """positions[i], ranks[i], symbols[i] = the bin, the rank and the symbol of item i."""
    bins, last = np.uint64(bins), (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for i in range(hashes.size):
        rank = mix(hashes[i] + GOLDEN)
        positions[i], ranks[i], symbols[i] = _position(rank, bins), rank, _symbol(rank, last)


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
            position = _position(rank, bins)
            if rank <= ranks[position]:
                ranks[position] = rank
                out[r, position] = _symbol(rank, last)


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
