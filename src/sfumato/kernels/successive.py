"""Bits of a code chosen atom after atom, each by the sign of what is left, then turned in turn.

A code b in {-1, 1}^L of a vector r stands for the sum of b_j a_j. With e = r minus that sum and a
direction x, what is made small is |e|^2 + <x, e>^2. Turning bit j adds 4 d_j to it, where d_j =
b_j <a_j, e> + b_j u_j <x, e> + |a_j|^2 + u_j^2 and u_j = <a_j, x>; and turning bit k adds
2 b_j b_k (<a_j, a_k> + u_j u_k) to d_j. Columns past the code have Gram, products and u of 0:
turning one changes nothing, so none is ever chosen.
"""

import numpy as np

from ._jit import inline, kernel
from .lanes import (
    bits,
    count_trailing_zeros,
    f32x16,
    fma,
    lane,
    load,
    select,
    smallest,
    store,
    u32x16,
)

__all__ = ["settle"]

LEAST = np.float32(1e-5)  # of an atom's squared length: a gain below is one of rounding


@kernel
def settle(gram, products, along, missing, count, steps, sides):
    """sides[r] = the code of vector r: signs of what is left, then at most `steps` best turns.

    gram[j, k] = <a_j, a_k>, products[r, j] = <a_j, r>, along[r] = u and missing[r] = <x, r>, all
    float32; as wide as the sides, of which the first `count` columns are the code. Atoms that stand
    first are chosen first, so the longest should.
    """
    width = sides.shape[1]
    left, change = np.empty(width, np.float32), np.empty(width, np.float32)
    squares = np.diag(gram).copy()
    for r in range(sides.shape[0]):
        _signs(gram, products[r], count, left, sides[r])
        _begin(squares, left, along[r], missing[r], sides[r], change)
        turned, by = 0, np.float32(0.0)
        for _ in range(steps):
            j, value = _best(gram, turned, by, along[r], sides[r], change)
            if not value < -LEAST * squares[j]:
                break
            # Learning of its own turn adds 2 * squares: this leaves it at minus what it was.
            change[j] = -value + np.float32(2.0) * (squares[j] + along[r, j] * along[r, j])
            by = np.float32(2.0) * sides[r, j]
            sides[r, j], turned = -sides[r, j], j


@inline
def _signs(gram, product, count, left, side):
    """Each sign takes its atom off what is left of the products; past the code, 0."""
    for k in range(0, side.size, 16):
        store(left, k, load(product, k))
        store(side, k, f32x16(0.0))
    for j in range(count):
        side[j] = np.float32(1.0) if left[j] > 0 else np.float32(-1.0)
        by, row = f32x16(-side[j]), j * side.size
        for k in range(0, side.size, 16):
            store(left, k, fma(by, load(gram, row + k), load(left, k)))


@inline
def _begin(squares, left, along, missing, side, change):
    """Fill d of the code as it is."""
    for j in range(side.size):
        missing -= side[j] * along[j]
    for j in range(0, side.size, 16):
        u = load(along, j)
        back = fma(u, f32x16(missing), load(left, j))
        store(change, j, fma(load(side, j), back, fma(u, u, load(squares, j))))


@inline
def _best(gram, turned, by, along, side, change):
    """The bit that lowers the sum most, and its d; on the way d learns of the last turn."""
    best, where = f32x16(np.inf), u32x16(0)
    row, beside = turned * side.size, f32x16(along[turned])
    for j in range(0, side.size, 16):
        tied = fma(load(along, j), beside, load(gram, row + j))
        bent = fma(load(side, j) * by, tied, load(change, j))
        store(change, j, bent)
        better = bent < best
        best = select(better, bent, best)
        where = select(better, u32x16(j), where)
    value = smallest(best)
    hits = bits(best == value)
    i = count_trailing_zeros(hits)
    return np.int64(lane(where, i)) + i, value
