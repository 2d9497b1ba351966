"""Itemsets counted in blocks of baskets turned around: a row of bits per item, one per basket.

Candidates of one size are rows of codes in lexicographic order, so that neighbours share the
intersection of their common prefix.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import load, popcount, store, total, u64x8

__all__ = ["add_supports", "fill", "joined", "set_bits", "survivors"]

LANES = 8


@kernel
def set_bits(offsets, items, first, last, rows, bits):
    """Set bit b - first of row rows[i] for each item i of baskets first to last; -1 is no row."""
    for basket in range(first, last):
        word, bit = (basket - first) >> 6, np.uint64((basket - first) & 63)
        for k in range(offsets[basket], offsets[basket + 1]):
            row = rows[items[k]]
            if row >= 0:
                bits[row, word] |= np.uint64(1) << bit


@inline
def _common(codes, r):
    """Length of the prefix that rows r - 1 and r share."""
    if r == 0:
        return 0
    k = 0
    while k < codes.shape[1] and codes[r - 1, k] == codes[r, k]:
        k += 1
    return k


@inline
def _intersect(left, left_at, right, right_at, out, out_at, words, write):
    """How many bits two rows share; their intersection is written if needed below."""
    ones = u64x8(0)
    for w in range(0, words, LANES):
        both = load(left, left_at + w) & load(right, right_at + w)
        ones = ones + popcount(both)
        if write:
            store(out, out_at + w, both)
    return np.int64(total(ones))


@kernel
def add_supports(bits, codes, prefixes, counts):
    """counts[r] += in how many of these baskets all items of row r are.

    codes: rows of bits, at least two columns. prefixes: one row of scratch bits per column. Where
    a prefix is in no basket, the candidates that share it are passed over.
    """
    words, size = bits.shape[1], codes.shape[1]
    empty = size  # length of the shortest prefix of the last row that is in no basket
    for r in range(codes.shape[0]):
        common = _common(codes, r)
        if common >= empty:
            continue
        empty = size
        for k in range(max(common, 1), size):
            other = codes[r, k] * words
            if k == 1:
                found = _intersect(
                    bits, codes[r, 0] * words, bits, other, prefixes, words, words, size > 2
                )
            else:
                found = _intersect(
                    prefixes, (k - 1) * words, bits, other, prefixes, k * words, words, k < size - 1
                )
            if found == 0:
                empty = k + 1
                break
            if k == size - 1:
                counts[r] += found


@inline
def _contains(codes, wanted):
    """Whether a row is among rows in lexicographic order."""
    low, high = 0, codes.shape[0]
    while low < high:
        middle = (low + high) >> 1
        order = 0
        for k in range(wanted.size):
            if codes[middle, k] != wanted[k]:
                order = -1 if codes[middle, k] < wanted[k] else 1
                break
        if order == 0:
            return True
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return False


@kernel
def joined(codes, stops):
    """stops[r] = end of the rows that share all items but the last with r; returns all pairs."""
    size, pairs = codes.shape[1], 0
    for r in range(codes.shape[0] - 1, -1, -1):
        last = r + 1 == codes.shape[0]
        stops[r] = r + 1 if last or _common(codes, r + 1) < size - 1 else stops[r + 1]
        pairs += stops[r] - r - 1
    return pairs


@kernel
def survivors(codes, stops, valid):
    """valid[p] = 1 if all subsets of joined pair p, which are one item smaller, are rows of codes.

    Pairs in order of their first row, then of their second. Returns how many are valid.
    """
    size = codes.shape[1]
    wanted = np.empty(size, codes.dtype)
    pair, found = 0, 0
    for r in range(codes.shape[0]):
        for other in range(r + 1, stops[r]):
            whole = True
            for left_out in range(size - 1):  # without either last item it is a row already
                for k in range(size - 1):
                    wanted[k] = codes[r, k + (k >= left_out)]
                wanted[size - 1] = codes[other, size - 1]
                if not _contains(codes, wanted):
                    whole = False
                    break
            valid[pair] = whole
            found += whole
            pair += 1
    return found


@kernel
def fill(codes, stops, valid, out):
    """Write the valid joined pairs as rows of one item more, in lexicographic order."""
    size, pair, row = codes.shape[1], 0, 0
    for r in range(codes.shape[0]):
        for other in range(r + 1, stops[r]):
            if valid[pair]:
                out[row, :size] = codes[r]
                out[row, size] = codes[other, size - 1]
                row += 1
            pair += 1
