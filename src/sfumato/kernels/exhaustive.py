"""The centroid on whose line each vector lies closest, by trying them all.

Panels as in kernels/top.py: panels[b, l, i] is component l of centroid 32 b + i. A centroid and its
mirror image are tried together, by the size of their inner product with the vector.
"""

import numpy as np

from ._jit import inline, kernel
from .lanes import bits, count_trailing_zeros, f32x16, lane, largest, select, u32x16
from .top import abreast

__all__ = ["nearest"]


@kernel
def nearest(panels, vectors, out):
    """out[u] = place of the centroid whose product with vector u is largest in size, first of all.

    ~place where that product is below 0, so that the mirror image is meant. The number of vectors
    is a multiple of 4, of which each reading of a panel serves all.
    """
    for u in range(0, vectors.shape[0], 4):
        a = b = c = d = f32x16(0.0)
        p = q = r = s = u32x16(0)
        for block in range(panels.shape[0]):
            a0, a1, b0, b1, c0, c1, d0, d1 = abreast(panels, block, vectors, u)
            a, p = _keep(a0, a1, block, a, p)
            b, q = _keep(b0, b1, block, b, q)
            c, r = _keep(c0, c1, block, c, r)
            d, s = _keep(d0, d1, block, d, s)
        out[u] = _place(panels, vectors[u], a, p)
        out[u + 1] = _place(panels, vectors[u + 1], b, q)
        out[u + 2] = _place(panels, vectors[u + 2], c, r)
        out[u + 3] = _place(panels, vectors[u + 3], d, s)


@inline
def _keep(low, high, block, best, where):
    """The largest squares so far in each lane, and in which half panel they were found."""
    low, high = low * low, high * high
    better = low > best
    best, where = select(better, low, best), select(better, u32x16(2 * block), where)
    better = high > best
    return select(better, high, best), select(better, u32x16(2 * block + 1), where)


@inline
def _place(panels, vector, best, where):
    """The place found in the lanes, or its complement where the product is negative."""
    hits = bits(best == largest(best))
    place = np.int64(2**62)
    while hits:
        i = count_trailing_zeros(hits)
        hits &= hits - np.uint64(1)
        place = min(place, 16 * np.int64(lane(where, i)) + i)
    product = np.float32(0.0)
    for i in range(vector.size):
        product += vector[i] * panels[place >> 5, i, place & 31]
    return ~place if product < 0 else place
