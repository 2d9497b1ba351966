"""Rows made unit vectors, and codes of bits as +1 and -1 in float32 columns or packed in words.

Sides are matrices of +1 and -1, as wide as the projections they come from (a multiple of 32), with
0 in the columns past the bits of a code, so that these count in no sum.
"""

import math

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import bits, f64x8, fma, lane, load, widen_high, widen_low

__all__ = ["nearest_factors", "normalise", "pack", "products", "sides", "units", "unpack"]


@kernel
def normalise(rows, centre, lengths, out):
    """lengths[r] = |rows[r] - centre| and out[r] = the unit vector from the centre, or zeros.

    In float64, so that no float32 overflows; a length that is not finite tells of a bad number.
    """
    for r in range(rows.shape[0]):
        length = math.sqrt(_square(rows[r], centre))
        lengths[r] = length
        scale = 1.0 / length if length > 0 else 0.0
        for i in range(centre.size):
            gap = np.float64(rows[r, i]) - np.float64(centre[i])
            out[r, i] = np.float32(gap * scale)


def units(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Float32 rows divided by their lengths in float64, or zeros; and these lengths.

    >>> units(np.array([[3.0, 4.0]], np.float32))
    (array([[0.6, 0.8]], dtype=float32), array([5.]))
    """
    out, lengths = np.empty_like(rows), np.empty(len(rows))
    normalise(rows, np.zeros(rows.shape[1], np.float32), lengths, out)
    return out, lengths


@inline
def _sum(lanes):
    """The sum of eight lanes, from the first to the last."""
    out = 0.0
    for i in range(8):
        out += lane(lanes, i)
    return out


@inline
def _square(row, centre):
    """The squared distance of a row from the centre, summed in one written order."""
    whole = centre.size // 16 * 16
    low, high = f64x8(0.0), f64x8(0.0)
    for i in range(0, whole, 16):
        x, c = load(row, i), load(centre, i)
        a, b = widen_low(x) - widen_low(c), widen_high(x) - widen_high(c)
        low, high = fma(a, a, low), fma(b, b, high)
    square = _sum(low + high)
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


@inline
def _dot(left, i, right, j, width):
    """The float64 product of `width` numbers, a multiple of 16, from flat elements i and j on."""
    low, high = f64x8(0.0), f64x8(0.0)
    for at in range(0, width, 16):
        a, b = load(left, i + at), load(right, j + at)
        low = fma(widen_low(a), widen_low(b), low)
        high = fma(widen_high(a), widen_high(b), high)
    return _sum(low + high)


@kernel
def products(left, right, out):
    """out[r] = the inner product of row r here and there, in float64."""
    width = left.shape[1]
    for r in range(out.size):
        out[r] = _dot(left, r * width, right, r * width, width)


@kernel
def nearest_factors(sides, projections, middle, squares, unit, lengths, centre, weight, out):
    """out[r] = the f of least |e|^2 + weight <e, x / |x|>^2 for e = centre + f W b - x, or else 0.

    x = centre + lengths[r] * unit[r], projections[r] its unit vector's products with the atoms,
    middle those of the centre, squares[r] = |W b|^2. Weight 0: |x - centre|^2 / <x - centre, W b>.
    """
    width = sides.shape[1]
    own = 0.0
    for i in range(centre.size):
        own += np.float64(centre[i]) * np.float64(centre[i])
    for r in range(out.size):
        far, beside = lengths[r], 0.0
        for i in range(centre.size):
            beside += np.float64(unit[r, i]) * np.float64(centre[i])
        beside *= far
        residual = far * _dot(sides, r * width, projections, r * width, width)
        if weight == 0:
            out[r] = far * far / residual if residual > 0 else 0.0
            continue
        total = residual + _dot(sides, r * width, middle, 0, width)
        square = own + 2 * beside + far * far
        by = weight / square if square > 1e-12 * far * far else 0.0
        above = residual + by * (beside + far * far) * total
        below = squares[r] + by * total * total
        out[r] = above / below if far > 0 and below > 0 else 0.0
