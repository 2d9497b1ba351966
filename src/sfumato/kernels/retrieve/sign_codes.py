"""Rows made unit vectors, and codes of bits as +1 and -1 in float32 columns or packed in words.

Sides are matrices of +1 and -1, as wide as the projections they come from (a multiple of 32), with
0 in the columns past the bits of a code, so that these count in no sum.
"""

import math

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import bits, f64x8, fma, load, store, widen_high, widen_low

__all__ = ["normalise", "pack", "products", "sides", "unpack"]


@kernel
def normalise(rows, centre, lengths, out):
    """lengths[r] = |rows[r] - centre| and out[r] = the unit vector from the centre, or zeros.

    In float64, so that no float32 overflows; a length that is not finite tells of a bad number.
    """
    scratch = np.empty(8)
    for r in range(rows.shape[0]):
        length = math.sqrt(_square(rows[r], centre, scratch))
        lengths[r] = length
        scale = 1.0 / length if length > 0 else 0.0
        for i in range(centre.size):
            gap = np.float64(rows[r, i]) - np.float64(centre[i])
            out[r, i] = np.float32(gap * scale)


@inline
def _square(row, centre, scratch):
    """The squared distance of a row from the centre, summed in one written order."""
    whole = centre.size // 16 * 16
    low, high = f64x8(0.0), f64x8(0.0)
    for i in range(0, whole, 16):
        x, c = load(row, i), load(centre, i)
        a, b = widen_low(x) - widen_low(c), widen_high(x) - widen_high(c)
        low, high = fma(a, a, low), fma(b, b, high)
    store(scratch, 0, low + high)
    square = 0.0
    for i in range(8):
        square += scratch[i]
    for i in range(whole, centre.size):
        gap = np.float64(row[i]) - np.float64(centre[i])
        square += gap * gap
    return square


@kernel
def sides(projections, count, out):
    """out[r, j] = 1 where projections[r, j] > 0, else -1; 0 from column `count` on."""
    for r in range(projections.shape[0]):
        for j in range(count):
            out[r, j] = np.float32(1.0) if projections[r, j] > 0 else np.float32(-1.0)
        for j in range(count, projections.shape[1]):
            out[r, j] = np.float32(0.0)


@kernel
def pack(sides, out):
    """Bit j of out[r], lowest first, says sides[r, j] > 0."""
    width = sides.shape[1]
    for r in range(out.shape[0]):
        for word in range(out.shape[1]):
            packed = np.uint64(0)
            for j in range(64 * word, min(64 * word + 64, width), 16):
                packed |= bits(load(sides, r * width + j) > 0.0) << np.uint64(j - 64 * word)
            out[r, word] = packed


@kernel
def unpack(words, count, out):
    """The sides of packed codes of `count` bits."""
    for r in range(words.shape[0]):
        for j in range(count):
            bit = np.int64(words[r, j >> 6] >> np.uint64(j & 63)) & 1
            out[r, j] = np.float32(2 * bit - 1)
        for j in range(count, out.shape[1]):
            out[r, j] = np.float32(0.0)


@kernel
def products(left, right, out):
    """out[r] = the inner product of row r here and there, in float64."""
    scratch = np.empty(8)
    width = left.shape[1]
    for r in range(out.size):
        low, high = f64x8(0.0), f64x8(0.0)
        for j in range(r * width, r * width + width, 16):
            a, b = load(left, j), load(right, j)
            low = fma(widen_low(a), widen_low(b), low)
            high = fma(widen_high(a), widen_high(b), high)
        store(scratch, 0, low + high)
        out[r] = 0.0
        for i in range(8):
            out[r] += scratch[i]
