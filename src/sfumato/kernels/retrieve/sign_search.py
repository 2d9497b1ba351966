"""Bits of a code turned, one or two at a time, while that turns its reconstruction to the vector.

A code b in {-1, 1}^L of a vector x stands for W b, the sum of b_j w_j. With p_j = <x, w_j>,
s = <x, W b> and n = |W b|^2, turning bit j makes s - q_j of s and n + h_j of n, where q_j =
2 b_j p_j and h_j = 4 |w_j|^2 - 4 b_j <w_j, W b>; and turning bit k adds 8 b_j b_k <w_j, w_k> to
h_j. So no vector of the space is touched. Columns past the code have side, p and Gram 0: turning
one changes nothing, so none is ever chosen.

Bits of a code chosen atom after atom, each by the sign of what is left, then turned in turn. The
centroid on whose line each vector lies closest, by trying them all.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import (
    bits,
    count_trailing_zeros,
    f32x16,
    fma,
    lane,
    largest,
    load,
    maximum,
    select,
    smallest,
    store,
    total,
    u32x16,
)
from sfumato.kernels.retrieve.sign_codes import nearest_factors, normalise, pack, sides
from sfumato.kernels.top_k import abreast, every_of_one

__all__ = ["encode", "improve", "improve_pairs", "nearest", "settle"]

LEAST = np.float32(1 + 2.0**-20)  # a gain below this factor is one of rounding
TINY = np.float32(1e-30)  # squared lengths up to this are 0, and have no direction
FAR = np.float32(1e30)  # beyond any product of unit vectors


@kernel
def improve(projections, products, gram, squares, steps, scratch, sums, sides):
    """Turn bits of sides[r], each time the one of (5.12), at most `steps` times.

    projections[r] = p, products[r, j] = <w_j, W b>, gram[j, k] = <w_j, w_k>, squares its diagonal,
    all float32 of the sides' width, as are the two rows of scratch. It ends where nothing helps,
    with sums[r] = |W b|^2.
    """
    q, h = scratch[0], scratch[1]
    for r in range(sums.size):
        sums[r] = _improved(projections[r], products[r], squares, gram, steps, sides[r], q, h)


@inline
def _improved(p, product, squares, gram, steps, side, q, h):
    """Turn bits of one code; the squared length of its sum then. q and h are scratch."""
    s, n = _begin(p, product, squares, side, q, h)
    return _turned(gram, steps, s, n, side, q, h)[1]


@kernel
def improve_pairs(projections, products, gram, steps, sides):
    """As `improve`, with at most `steps` turns more of the best two bits, or of the best one."""
    width = sides.shape[1]
    q, h = np.empty(width, np.float32), np.empty(width, np.float32)
    squares = _diagonal(gram)
    for r in range(sides.shape[0]):
        side = sides[r]
        s, n = _begin(projections[r], products[r], squares, side, q, h)
        s, n, turned, by = _turned(gram, steps, s, n, side, q, h)
        for _ in range(steps):
            j, value = _best(gram, turned, by, side, s, n, q, h)
            by = np.float32(0.0)
            first, second = _best_pair(gram, side, s, n, q, h)
            if first >= 0 and _of_pair(first, second, gram, side, s, n, q, h) > value:
                s, n, by = _turn(first, gram, s, n, side, q, h)
                _spread(gram, first, by, side, h)
                s, n, by = _turn(second, gram, s, n, side, q, h)
                turned = second
            elif value > LEAST * s * s / n:
                s, n, by = _turn(j, gram, s, n, side, q, h)
                turned = j
            else:
                break


@inline
def _turned(gram, steps, s, n, side, q, h):
    """Turn single bits; s and n then, the last bit turned, and what h has yet to learn of it."""
    turned, by = np.int64(side.size - side.size), np.float32(0.0)
    for _ in range(steps):
        j, value = _best(gram, turned, by, side, s, n, q, h)
        if not value > LEAST * s * s / n:
            by = np.float32(0.0)  # h has learned of the last turn
            break
        s, n, by = _turn(j, gram, s, n, side, q, h)
        turned = j
    return s, n, turned, by


@kernel
def encode(
    rows, centre, frame, gram, squares, slope, weight, count, steps, lengths, words, short, factors
):  # fmt: skip
    """words[r] = the code of rows[r] - centre: signs along the frame, then turns as in `improve`.

    For few rows, taken one by one. frame are panels of the directions, squares the diagonal of
    their Gram matrix; slope, weight and factors as in `nearest_factors`. lengths[r] =
    |rows[r] - centre|, of which 0 has the code 0. short and factors have no rows where they are
    not wanted.
    """
    wide = 32 * frame.shape[0]
    unit, along = np.empty((1, centre.size), np.float32), np.empty((1, wide), np.float32)
    side, scratch = np.empty((1, wide), np.float32), np.empty((3, wide), np.float32)
    back, q, h, sums = scratch[0], scratch[1], scratch[2], np.empty(1)
    for r in range(rows.shape[0]):
        far = lengths[r : r + 1]
        normalise(rows[r : r + 1], centre, far, unit)
        every_of_one(frame, unit[0], along[0])
        sides(along, count, side)
        if short.shape[0]:
            pack(side, short[r : r + 1])
            _clear(far, short[r : r + 1])
        _multiply(gram, side[0], back)
        sums[0] = _improved(along[0], back, squares, gram, steps, side[0], q, h)
        pack(side, words[r : r + 1])
        _clear(far, words[r : r + 1])
        if factors.size:
            nearest_factors(
                side, along, slope, sums, unit, far, centre, weight, factors[r : r + 1]
            )  # fmt: skip


@inline
def _multiply(gram, side, out):
    """out = Gram times side, summed as `every` does, from the table that turns read as well."""
    last = side.size - 16
    for k in range(0, side.size, 128):  # past the last column, the last sixteen again
        a = b = c = d = e = f = g = h = f32x16(0.0)
        k1, k2, k3 = min(k + 16, last), min(k + 32, last), min(k + 48, last)
        k4, k5 = min(k + 64, last), min(k + 80, last)
        k6, k7 = min(k + 96, last), min(k + 112, last)
        for j in range(side.size):
            row, by = j * side.size, f32x16(side[j])
            a, b = fma(load(gram, row + k), by, a), fma(load(gram, row + k1), by, b)
            c, d = fma(load(gram, row + k2), by, c), fma(load(gram, row + k3), by, d)
            e, f = fma(load(gram, row + k4), by, e), fma(load(gram, row + k5), by, f)
            g, h = fma(load(gram, row + k6), by, g), fma(load(gram, row + k7), by, h)
        store(out, k, a)
        store(out, k1, b)
        store(out, k2, c)
        store(out, k3, d)
        store(out, k4, e)
        store(out, k5, f)
        store(out, k6, g)
        store(out, k7, h)


@inline
def _diagonal(gram):
    out = np.empty(gram.shape[0], np.float32)
    for j in range(out.size):
        out[j] = gram[j, j]
    return out


@inline
def _clear(lengths, words):
    """The code of a zero vector is 0."""
    for r in range(words.shape[0]):
        if lengths[r] == 0:
            for w in range(words.shape[1]):
                words[r, w] = 0


@inline
def _begin(p, product, squares, side, q, h):
    """Fill q and h of the code as it is; its s and n."""
    s, n = f32x16(0.0), f32x16(0.0)
    for j in range(0, side.size, 16):
        b = load(side, j)
        along, back = b * load(p, j), b * load(product, j)
        s, n = s + along, n + back
        store(q, j, along + along)
        store(h, j, (load(squares, j) - back) * 4.0)
    return total(s), total(n)


@inline
def _best(gram, turned, by, side, s, n, q, h):
    """The bit to turn and (s / sqrt(n))^2 after that; on the way h learns of the last turn."""
    best, where = f32x16(0.0), u32x16(0)
    row = turned * side.size
    for j in range(0, side.size, 16):
        bent = fma(load(side, j) * by, load(gram, row + j), load(h, j))
        store(h, j, bent)
        along, square = maximum(s - load(q, j), f32x16(0.0)), bent + n
        value = select(square > TINY, along * along / square, f32x16(0.0))
        better = value > best
        best = select(better, value, best)
        where = select(better, u32x16(j), where)
    value = largest(best)
    hits = bits(best == value)
    i = count_trailing_zeros(hits)
    return np.int64(lane(where, i)) + i, value


@inline
def _turn(j, gram, s, n, side, q, h):
    """Turn bit j; s, n, and what h has yet to learn: `by` times side times its row of the Gram."""
    s, n = s - q[j], n + h[j]
    by = np.float32(8.0) * side[j]
    side[j], q[j] = -side[j], -q[j]
    h[j] = np.float32(8.0) * gram[j, j] - h[j]  # what is learned will leave it at minus what it was
    return s, n, by


@inline
def _spread(gram, turned, by, side, h):
    row = turned * side.size
    for j in range(0, side.size, 16):
        store(h, j, fma(load(side, j) * by, load(gram, row + j), load(h, j)))


@inline
def _of_pair(j, k, gram, side, s, n, q, h):
    """(s / sqrt(n))^2 after bits j and k are turned together."""
    along = s - q[j] - q[k]
    return along * along / (n + h[j] + h[k] + np.float32(8.0) * side[j] * side[k] * gram[j, k])


@inline
def _best_pair(gram, side, s, n, q, h):
    """Bits j < k for which along^2 - (s^2 / n) square is largest, or -1 where none is above 0.

    That difference is above 0 exactly where turning both raises along / sqrt(square) above
    s / sqrt(n), and costs no division for each of the L^2 / 2 pairs.
    """
    rate = LEAST * s * s / n
    found, first, second = np.float32(0.0), -1, -1
    for j in range(side.size):
        best, where = f32x16(found), u32x16(0)
        q_j, s_j, n_j, by = q[j], s - q[j], n + h[j], np.float32(8.0) * side[j]
        q[j] = FAR  # a bit turned twice is no pair: rounding could find that it helps
        for k in range(j // 16 * 16, side.size, 16):
            both = fma(load(side, k) * by, load(gram, j * side.size + k), load(h, k))
            along, square = s_j - load(q, k), both + n_j
            gain = fma(along, maximum(along, f32x16(0.0)), square * -rate)
            better = (gain > best) & (square > TINY)
            best = select(better, gain, best)
            where = select(better, u32x16(k), where)
        q[j] = q_j
        value = largest(best)
        if value > found:
            hits = bits(best == value)
            i = count_trailing_zeros(hits)
            found, first, second = value, j, np.int64(lane(where, i)) + i
    return first, second


LEAST_DECREASE = np.float32(1e-5)  # of an atom's squared length: a gain below is one of rounding


@kernel
def settle(gram, products, along, missing, count, steps, sides):
    """sides[r] = the code of vector r: signs of what is left, then at most `steps` best turns.

    gram[j, k] = <a_j, a_k>, products[r, j] = <a_j, r>, along[r] = u and missing[r] = <x, r>, all
    float32; as wide as the sides, of which the first `count` columns are the code. Atoms that stand
    first are chosen first, so the longest should.
    """
    width = sides.shape[1]
    left, change = np.empty(width, np.float32), np.empty(width, np.float32)
    squares = _diagonal(gram)
    for r in range(sides.shape[0]):
        _signs(gram, products[r], count, left, sides[r])
        _begin_successive(squares, left, along[r], missing[r], sides[r], change)
        turned, by = 0, np.float32(0.0)
        for _ in range(steps):
            j, value = _best_successive(gram, turned, by, along[r], sides[r], change)
            if not value < -LEAST_DECREASE * squares[j]:
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
def _begin_successive(squares, left, along, missing, side, change):
    """Fill d of the code as it is."""
    for j in range(side.size):
        missing -= side[j] * along[j]
    for j in range(0, side.size, 16):
        u = load(along, j)
        back = fma(u, f32x16(missing), load(left, j))
        store(change, j, fma(load(side, j), back, fma(u, u, load(squares, j))))


@inline
def _best_successive(gram, turned, by, along, side, change):
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


@kernel
def nearest(panels, vectors, out):
    """out[u] = position of the first centroid of largest absolute product with vector u.

    ~position where that product is below 0, so that the mirror image is meant. The number of
    vectors is a multiple of 4, of which each reading of a panel serves all.
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
        out[u] = _position(panels, vectors[u], a, p)
        out[u + 1] = _position(panels, vectors[u + 1], b, q)
        out[u + 2] = _position(panels, vectors[u + 2], c, r)
        out[u + 3] = _position(panels, vectors[u + 3], d, s)


@inline
def _keep(low, high, block, best, where):
    """The largest squares so far in each lane, and in which half panel they were found."""
    low, high = low * low, high * high
    better = low > best
    best, where = select(better, low, best), select(better, u32x16(2 * block), where)
    better = high > best
    return select(better, high, best), select(better, u32x16(2 * block + 1), where)


@inline
def _position(panels, vector, best, where):
    """The position found in the lanes, or its complement where the product is negative."""
    hits = bits(best == largest(best))
    position = np.int64(2**62)
    while hits:
        i = count_trailing_zeros(hits)
        hits &= hits - np.uint64(1)
        position = min(position, 16 * np.int64(lane(where, i)) + i)
    product = np.float32(0.0)
    for i in range(vector.size):
        product += vector[i] * panels[position >> 5, i, position & 31]
    return ~position if product < 0 else position
