"""Alternating least squares for implicit feedback: one ridge regression for each row of a table.

The row x of a user with items j of weights w_j solves A x = b (Hu, Koren, Volinsky 2008, (4)):
    A = G + ridge I + sum of w_j q_j q_j',   b = sum of (1 + w_j) q_j,   G = sum of q q' of all q.
A vector has `size` numbers, a multiple of 16; whatever stands after its components is 0 and stays
0. Tables and matrices are flat. Rows are independent: which thread solves one changes nothing.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import f32x16, fma, load, mask16, select, store, total

__all__ = ["CHUNK", "cholesky", "conjugate_gradient", "losses"]

ZERO, ONE = np.float32(0), np.float32(1)
CHUNK = 48  # vectors that are added to A at a time: with A they fit the first cache, for 64 numbers


@inline
def _at(array, i):
    """Sixteen times array[i]; an unsigned index spares the test for one from the end."""
    return f32x16(array[np.uint64(i)])


@inline
def _row(positions, j, size):
    """Where the vector of entry j begins."""
    return np.int64(positions[np.uint64(j)]) * size


@inline
def _dot(a, b, size):
    both = f32x16(ZERO)
    for i in range(0, size, 16):
        both = fma(load(a, i), load(b, i), both)
    return total(both)


@inline
def _times(gram, ridge, v, size, out):
    """out = (gram + ridge I) v, in four sums that need not wait for each other."""
    for b in range(0, size, 16):
        s0, s1, s2, s3 = load(v, b) * ridge, f32x16(ZERO), f32x16(ZERO), f32x16(ZERO)
        for i in range(0, size, 4):
            at = i * size + b
            s0 = fma(load(gram, at), _at(v, i), s0)
            s1 = fma(load(gram, at + size), _at(v, i + 1), s1)
            s2 = fma(load(gram, at + 2 * size), _at(v, i + 2), s2)
            s3 = fma(load(gram, at + 3 * size), _at(v, i + 3), s3)
        store(out, b, (s0 + s1) + (s2 + s3))


@inline
def _pull(weights, j, target, product):
    """The factor of q_j in b - A x: target 1 with product q.x; in -A p: target 0, q.p."""
    weight = weights[np.uint64(j)]
    return f32x16(target * (ONE + weight) - weight * product)


@inline
def _add_own(positions, weights, first, last, table, size, v, target, out):
    """out += sum over entries of (target (1 + w) - w q.v) q: four at a time, each read once."""
    j = first
    while j + 4 <= last:
        i0, i1 = _row(positions, j, size), _row(positions, j + 1, size)
        i2, i3 = _row(positions, j + 2, size), _row(positions, j + 3, size)
        d0, d1, d2, d3 = f32x16(ZERO), f32x16(ZERO), f32x16(ZERO), f32x16(ZERO)
        for b in range(0, size, 16):
            x = load(v, b)
            d0, d1 = fma(load(table, i0 + b), x, d0), fma(load(table, i1 + b), x, d1)
            d2, d3 = fma(load(table, i2 + b), x, d2), fma(load(table, i3 + b), x, d3)
        c0, c1 = _pull(weights, j, target, total(d0)), _pull(weights, j + 1, target, total(d1))
        c2, c3 = _pull(weights, j + 2, target, total(d2)), _pull(weights, j + 3, target, total(d3))
        for b in range(0, size, 16):
            even = fma(c2, load(table, i2 + b), fma(c0, load(table, i0 + b), load(out, b)))
            store(out, b, even + fma(c3, load(table, i3 + b), c1 * load(table, i1 + b)))
        j += 4
    while j < last:
        i0 = _row(positions, j, size)
        d0 = f32x16(ZERO)
        for b in range(0, size, 16):
            d0 = fma(load(table, i0 + b), load(v, b), d0)
        c0 = _pull(weights, j, target, total(d0))
        for b in range(0, size, 16):
            store(out, b, fma(c0, load(table, i0 + b), load(out, b)))
        j += 1


@kernel
def conjugate_gradient(starts, positions, weights, table, gram, ridges, steps, room, out):
    """Improve each row of out by so many steps; entries of row u: starts[u] to starts[u + 1].

    room : 3 vectors of scratch.
    """
    size = room.size // 3
    r, p, y = room[:size], room[size : 2 * size], room[2 * size :]
    for u in range(ridges.size):
        first, last, ridge = starts[u], starts[u + 1], ridges[u]
        x = out[u * size : (u + 1) * size]
        _times(gram, ridge, x, size, r)
        for b in range(0, size, 16):
            store(r, b, -load(r, b))
        _add_own(positions, weights, first, last, table, size, x, ONE, r)
        for b in range(0, size, 16):
            store(p, b, load(r, b))
        now = _dot(r, r, size)
        for _ in range(steps):
            _times(gram, ridge, p, size, y)
            for b in range(0, size, 16):
                store(y, b, -load(y, b))
            _add_own(positions, weights, first, last, table, size, p, ZERO, y)
            curve = -_dot(p, y, size)
            if not curve > ZERO:  # solved, as far as these numbers go
                break
            rate = f32x16(now / curve)
            for b in range(0, size, 16):
                store(x, b, fma(load(p, b), rate, load(x, b)))
                store(r, b, fma(load(y, b), rate, load(r, b)))
            before, now = now, _dot(r, r, size)
            turn = f32x16(now / before)
            for b in range(0, size, 16):
                store(p, b, fma(load(p, b), turn, load(r, b)))


@inline
def _eight(sums, left, at, q):
    """sums[i] += left[at + i] q, for eight rows of a block."""
    return (
        fma(_at(left, at), q, sums[0]),
        fma(_at(left, at + 1), q, sums[1]),
        fma(_at(left, at + 2), q, sums[2]),
        fma(_at(left, at + 3), q, sums[3]),
        fma(_at(left, at + 4), q, sums[4]),
        fma(_at(left, at + 5), q, sums[5]),
        fma(_at(left, at + 6), q, sums[6]),
        fma(_at(left, at + 7), q, sums[7]),
    )


@inline
def _add_to(a, at, size, sign, sums):
    """Add eight rows of a block to a matrix, times a sign."""
    store(a, at, fma(sign, sums[0], load(a, at)))
    store(a, at + size, fma(sign, sums[1], load(a, at + size)))
    store(a, at + 2 * size, fma(sign, sums[2], load(a, at + 2 * size)))
    store(a, at + 3 * size, fma(sign, sums[3], load(a, at + 3 * size)))
    store(a, at + 4 * size, fma(sign, sums[4], load(a, at + 4 * size)))
    store(a, at + 5 * size, fma(sign, sums[5], load(a, at + 5 * size)))
    store(a, at + 6 * size, fma(sign, sums[6], load(a, at + 6 * size)))
    store(a, at + 7 * size, fma(sign, sums[7], load(a, at + 7 * size)))


@inline
def _add_block(rows, count, size, r, c, sign, a):
    """a[r : r + 16, c : c + 16] += sign times that block of rows' rows, of the first `count`.

    The sixteen rows of the block stay in registers.
    """
    zero = f32x16(ZERO)
    low = (zero, zero, zero, zero, zero, zero, zero, zero)
    high = low
    for j in range(count):
        q = load(rows, j * size + c)
        low = _eight(low, rows, j * size + r, q)
        high = _eight(high, rows, j * size + r + 8, q)
    _add_to(a, r * size + c, size, f32x16(sign), low)
    _add_to(a, (r + 8) * size + c, size, f32x16(sign), high)


@inline
def _collect(positions, weights, first, last, table, size, rows, y):
    """Copy sqrt(w) q of some entries side by side, and add their (1 + w) q to y."""
    for j in range(first, last):
        i, weight = _row(positions, j, size), weights[np.uint64(j)]
        root, both = f32x16(np.sqrt(weight)), f32x16(ONE + weight)
        for b in range(0, size, 16):
            q = load(table, i + b)
            store(rows, (j - first) * size + b, q * root)
            store(y, b, fma(q, both, load(y, b)))


@inline
def _factor(a, size, inverse):
    """The upper triangle of a becomes U with a = U'U, in blocks of 16; inverse = 1 / diagonal.

    Within a block rows are eliminated unscaled: the square roots then wait for nobody.
    """
    for r in range(0, size, 16):
        for c in range(r, size, 16):
            _add_block(a, r, size, r, c, -ONE, a)
        for i in range(r, r + 16):
            pivot = -ONE / a[np.uint64(i * size + i)]
            for k in range(i + 1, r + 16):
                factor = _at(a, i * size + k) * pivot
                for b in range(r, size, 16):
                    at = k * size + b
                    store(a, at, fma(factor, load(a, i * size + b), load(a, at)))
        for i in range(r, r + 16):
            inverse[np.uint64(i)] = ONE / np.sqrt(a[np.uint64(i * size + i)])
            for b in range(r, size, 16):
                store(a, i * size + b, load(a, i * size + b) * inverse[np.uint64(i)])


@inline
def _substitute(a, inverse, size, y, z, x):
    """Solve U'z = y, which is overwritten, and U x = z.

    Lanes before the diagonal hold rounding errors. They meet numbers of y that are done with, and
    lanes of x that are still 0.
    """
    for k in range(size):
        value = y[np.uint64(k)] * inverse[np.uint64(k)]
        z[np.uint64(k)] = value
        for b in range(k & -16, size, 16):
            store(y, b, fma(f32x16(-value), load(a, k * size + b), load(y, b)))
    for done in range(16, size + 16, 16):
        r = size - done
        own = f32x16(ZERO)
        for lane in range(15, -1, -1):
            i = r + lane
            known = load(a, i * size + r) * own
            for b in range(r + 16, size, 16):
                known = fma(load(a, i * size + b), load(x, b), known)
            value = (z[np.uint64(i)] - total(known)) * inverse[np.uint64(i)]
            own = select(mask16(np.uint64(1) << np.uint64(lane)), f32x16(value), own)
        store(x, r, own)


@kernel
def cholesky(starts, positions, weights, table, gram, ridges, room, out):
    """Solve each row of out exactly; room: `size` + CHUNK + 3 vectors of scratch."""
    size = out.size // max(ridges.size, 1)
    a, rows = room[: size * size], room[size * size : (size + CHUNK) * size]
    vectors = room[(size + CHUNK) * size :]
    y, z, inverse = vectors[:size], vectors[size : 2 * size], vectors[2 * size :]
    for u in range(ridges.size):
        for i in range(size):
            for b in range(i & -16, size, 16):
                store(a, i * size + b, load(gram, i * size + b))
            a[np.uint64(i * size + i)] += ridges[u]
        y[:] = ZERO
        for first in range(starts[u], starts[u + 1], CHUNK):
            last = min(first + CHUNK, starts[u + 1])
            _collect(positions, weights, first, last, table, size, rows, y)
            for r in range(0, size, 16):
                for c in range(r, size, 16):
                    _add_block(rows, last - first, size, r, c, ONE, a)
        _factor(a, size, inverse)
        _substitute(a, inverse, size, y, z, out[u * size : (u + 1) * size])


@kernel
def losses(starts, positions, weights, users, items, out):
    """out[u] = sum over entries of (1 + w) (1 - p.q)**2 - (p.q)**2, beyond what all cells cost."""
    size = users.size // out.size
    for u in range(out.size):
        p = users[u * size : (u + 1) * size]
        excess = 0.0
        for j in range(starts[u], starts[u + 1]):
            i, both = _row(positions, j, size), f32x16(ZERO)
            for b in range(0, size, 16):
                both = fma(load(items, i + b), load(p, b), both)
            product = np.float64(total(both))
            excess += (1 + np.float64(weights[j])) * (1 - product) ** 2 - product * product
        out[u] = excess
