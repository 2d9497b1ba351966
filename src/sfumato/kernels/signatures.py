"""How alike rows of signatures are: the part of equal places, or of shared lowest values."""

import numpy as np

from ._jit import inline, kernel
from .minhash import EMPTY

__all__ = ["equal_pairs", "equal_table", "shared_pairs", "shared_table"]

TILE = 32  # rows of the left matrix that stay in the cache while the right one passes


@inline
def _equal(left, i, right, j):
    hits = np.int32(0)  # as wide as a place: the sum is then vectorised without widening
    for place in range(left.shape[1]):
        hits = np.int32(hits + np.int32(left[i, place] == right[j, place]))
    return hits / left.shape[1]


@inline
def _shared(left, i, right, j):
    """The part of the lowest values of both ascending rows together that is in each of them."""
    size = hits = a = b = 0
    kept = left.shape[1]
    while size < kept and (a < kept or b < kept):
        x = left[i, a] if a < kept else EMPTY
        y = right[j, b] if b < kept else EMPTY
        if x == EMPTY and y == EMPTY:
            break
        size += 1
        hits += x == y
        a += x <= y
        b += y <= x
    return hits / size if size else 1.0


@kernel
def equal_pairs(left, right, out):
    """out[i] = the part of places where row i of both matrices is equal."""
    for i in range(out.size):
        out[i] = _equal(left, i, right, i)


@kernel
def equal_table(left, right, out):
    """out[i, j] = the part of places where row i of left equals row j of right."""
    for start in range(0, out.shape[0], TILE):
        for j in range(out.shape[1]):
            for i in range(start, min(start + TILE, out.shape[0])):
                out[i, j] = _equal(left, i, right, j)


@kernel
def shared_pairs(left, right, out):
    """out[i] = the part of the lowest values of row i of both matrices that is in each."""
    for i in range(out.size):
        out[i] = _shared(left, i, right, i)


@kernel
def shared_table(left, right, out):
    """out[i, j] = the part of the lowest values of rows i and j together that is in each."""
    for start in range(0, out.shape[0], TILE):
        for j in range(out.shape[1]):
            for i in range(start, min(start + TILE, out.shape[0])):
                out[i, j] = _shared(left, i, right, j)
