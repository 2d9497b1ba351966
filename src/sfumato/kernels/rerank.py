"""The best of given rows by their true scores, summed as `top.best` sums them, bit for bit.

Rows are taken sixteen abreast: their numbers are laid side by side, so that lane i sums row i in
the order of the components, whichever rows stand beside it.
"""

import numpy as np

from ._jit import inline, kernel
from .lanes import f32x16, fma, load, prefetch, store
from .largest import offer, order

__all__ = ["nearest", "products"]

AHEAD = 32  # rows that are asked for before their turn


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
def _ranked(vectors, queries, starts, rows, far, places, scores):
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
                offer(rows[low + i], -np.sqrt(out[i]) if far else out[i], places[q], scores[q])
        order(places[q], scores[q])


@kernel
def products(vectors, queries, starts, rows, places, scores):
    """scores[q], places[q] = the largest of queries[q] . vectors[r], r in rows[starts[q] : ...].

    Lists begin as -1 and -inf and stay so where no row is left; equal scores go to the row that is
    given first, rows ascend.
    """
    _ranked(vectors, queries, starts, rows, False, places, scores)


@kernel
def nearest(vectors, queries, starts, rows, places, scores):
    """As `products`, for scores that are minus the Euclidean distance."""
    _ranked(vectors, queries, starts, rows, True, places, scores)
