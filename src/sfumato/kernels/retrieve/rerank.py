"""The best of given rows by their true scores, summed as `top.best` sums them, bit for bit.

Rows are taken sixteen abreast: their numbers are laid side by side, so that lane i sums row i in
the order of the components, whichever rows stand beside it.

The best of given codes by shift + factor * (offset + sum of weights, + where its bit is set, else
-).
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import f32x16, flip, fma, load, prefetch, store, total
from sfumato.kernels.retrieve.hamming_scan import BLOCK
from sfumato.kernels.top_k import offer_any, order

__all__ = ["best", "dots", "matches", "nearest", "products"]

AHEAD = 32  # rows that are prefetched before their turn
DOTS_AHEAD = 8  # where they are read one by one


@inline
def _abreast(vectors, rows, low, high, side):
    """side[c, i] = component c of the i-th of the rows low to high - 1, at most sixteen."""
    for i in range(high - low):
        row = rows[low + i]
        for c in range(vectors.shape[1]):
            side[c, i] = vectors[row, c]


@inline
def _ask(vectors, rows, low, high):
    width = vectors.shape[1]
    for i in range(low, high):
        for c in range(0, width, 16):
            prefetch(vectors, rows[i] * width + c)


@inline
def _sums(side, size, queries, q, far):
    """The products of query q with the vectors side by side, or their squared distances if far."""
    both = f32x16(0.0)
    for c in range(size):
        if far:
            apart = load(side, 16 * c) - f32x16(queries[q, c])
            both = fma(apart, apart, both)
        else:
            both = fma(load(side, 16 * c), f32x16(queries[q, c]), both)
    return both


@inline
def _ranked(vectors, queries, starts, rows, far, positions, scores):
    size = vectors.shape[1]
    side, out = np.zeros((size, 16), np.float32), np.empty(16, np.float32)
    for q in range(queries.shape[0]):
        end = starts[q + 1]
        for low in range(starts[q], end, 16):
            high = min(low + 16, end)
            _ask(vectors, rows, min(low + AHEAD, end), min(high + AHEAD, end))
            _abreast(vectors, rows, low, high, side)
            store(out, 0, _sums(side, size, queries, q, far))
            for i in range(high - low):
                offer_any(
                    rows[low + i], -np.sqrt(out[i]) if far else out[i], positions[q], scores[q]
                )
        order(positions[q], scores[q])


@kernel
def products(vectors, queries, starts, rows, positions, scores):
    """scores[q], positions[q] = the largest of queries[q] . vectors[r], r in rows[starts[q] : ...].

    Lists begin as -1 and -inf and stay so where no row is left; equal scores go to the lower row.
    """
    _ranked(vectors, queries, starts, rows, False, positions, scores)


@kernel
def nearest(vectors, queries, starts, rows, positions, scores):
    """As `products`, for scores that are minus the Euclidean distance."""
    _ranked(vectors, queries, starts, rows, True, positions, scores)


@inline
def _dot(vectors, at, queries, start, size):
    """The product of `size` numbers from flat elements on: of sixteen lanes, then of the rest."""
    even = odd = f32x16(0.0)
    whole, both = size // 16 * 16, size // 32 * 32
    for c in range(0, both, 32):
        even = fma(load(vectors, at + c), load(queries, start + c), even)
        odd = fma(load(vectors, at + c + 16), load(queries, start + c + 16), odd)
    if both < whole:
        even = fma(load(vectors, at + both), load(queries, start + both), even)
    return total(even + odd)


@kernel
def dots(vectors, queries, starts, rows, positions, scores):
    """As `products`, with sums of sixteen lanes: faster, and rounded otherwise."""
    size = vectors.shape[1]
    whole = size // 16 * 16
    for q in range(queries.shape[0]):
        end = starts[q + 1]
        _ask(vectors, rows, starts[q], min(starts[q] + DOTS_AHEAD, end))
        for i in range(starts[q], end):
            if i + DOTS_AHEAD < end:
                _ask(vectors, rows, i + DOTS_AHEAD, i + DOTS_AHEAD + 1)
            score = _dot(vectors, rows[i] * size, queries, q * size, size)
            for c in range(whole, size):
                score += vectors[rows[i], c] * queries[q, c]
            offer_any(rows[i], score, positions[q], scores[q])
        order(positions[q], scores[q])


@kernel
def matches(signatures, queries, starts, rows, positions, scores):
    """As `products`, for scores that are the fraction of equal columns of two signatures."""
    size = signatures.shape[1]
    for q in range(queries.shape[0]):
        for i in range(starts[q], starts[q + 1]):
            row, equal = rows[i], 0
            for c in range(size):
                equal += signatures[row, c] == queries[q, c]
            offer_any(row, np.float32(equal / size), positions[q], scores[q])
        order(positions[q], scores[q])


CODES_AHEAD = 16  # codes that are prefetched before their turn


@inline
def _sum(blocks, block, position, weights):
    """The weighted bits of one code; weights fill its words."""
    even = odd = f32x16(0.0)  # two sums side by side hide the latency of adding
    for w in range(blocks.shape[1]):
        clear = ~blocks[block, w, position]
        even += flip(load(weights, 64 * w), clear)
        odd += flip(load(weights, 64 * w + 16), clear >> np.uint64(16))
        even += flip(load(weights, 64 * w + 32), clear >> np.uint64(32))
        odd += flip(load(weights, 64 * w + 48), clear >> np.uint64(48))
    return total(even + odd)


@inline
def _prefetch_code(blocks, row):
    words = blocks.shape[1]
    at = (row // BLOCK) * words * BLOCK + row % BLOCK
    for w in range(words):
        prefetch(blocks, at + w * BLOCK)


@kernel
def best(blocks, factors, shifts, weights, offsets, starts, rows, positions, scores):
    """The largest scores shifts[r] + factors[r] * (offsets[q] + weighted bits of code r).

    r runs over rows[starts[q] : starts[q + 1]]; its word w is blocks[r // BLOCK, w, r % BLOCK], and
    weights fill all words. No factors at all stand for factors of 1, and no shifts for 0. Lists
    begin as -1 and -inf, and equal scores go to the lower row.
    """
    scaled, shifted = factors.size > 0, shifts.size > 0
    for q in range(weights.shape[0]):
        end, offset = starts[q + 1], offsets[q]
        for i in range(starts[q], end):
            if i + CODES_AHEAD < end:
                _prefetch_code(blocks, rows[i + CODES_AHEAD])
            row = rows[i]
            score = _sum(blocks, row // BLOCK, row % BLOCK, weights[q]) + offset
            if scaled:
                score *= factors[row]
            if shifted:
                score += shifts[row]
            offer_any(row, score, positions[q], scores[q])
        order(positions[q], scores[q])
