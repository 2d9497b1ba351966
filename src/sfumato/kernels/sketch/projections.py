"""Products of rows with a codebook: floats summed in one written order, or integers.

The Walsh-Hadamard transform of rows: n log n additions, norms kept up to the factor sqrt(n).
Columns made orthonormal and rows made equally long, by the same operations on every machine.
"""

import math

import numpy as np

from sfumato.kernels.hash import ROW, row_sign, row_slot
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import f64x8, fma, load, mask8, select, store

__all__ = [
    "even_rows",
    "orthonormalise",
    "place",
    "project",
    "project_whole",
    "scatter",
    "transform",
]


@kernel
def project(rows, panels, out):
    """out[r, 16 p + c] += sum over i of rows[r, i] panels[p, i, c], i ascending."""
    count = rows.shape[0]
    for p in range(panels.shape[0]):
        for r in range(0, count, 4):
            # The last four rows may repeat one row: it is read and written twice, alike.
            last = count - 1
            _four(rows, r, min(r + 1, last), min(r + 2, last), min(r + 3, last), panels, p, out)


@inline
def _four(rows, r, s, t, u, panels, p, out):
    length, width = rows.shape[1], out.shape[1]
    at = p * length * 16
    low, high = 16 * p, 16 * p + 8
    r0, r1 = load(out, r * width + low), load(out, r * width + high)
    s0, s1 = load(out, s * width + low), load(out, s * width + high)
    t0, t1 = load(out, t * width + low), load(out, t * width + high)
    u0, u1 = load(out, u * width + low), load(out, u * width + high)
    for i in range(length):
        w0, w1 = load(panels, at + 16 * i), load(panels, at + 16 * i + 8)
        x = f64x8(rows[r, i])
        r0, r1 = fma(x, w0, r0), fma(x, w1, r1)
        x = f64x8(rows[s, i])
        s0, s1 = fma(x, w0, s0), fma(x, w1, s1)
        x = f64x8(rows[t, i])
        t0, t1 = fma(x, w0, t0), fma(x, w1, t1)
        x = f64x8(rows[u, i])
        u0, u1 = fma(x, w0, u0), fma(x, w1, u1)
    store(out, r * width + low, r0)
    store(out, r * width + high, r1)
    store(out, s * width + low, s0)
    store(out, s * width + high, s1)
    store(out, t * width + low, t0)
    store(out, t * width + high, t1)
    store(out, u * width + low, u0)
    store(out, u * width + high, u1)


@kernel
def project_whole(rows, directions, out):
    """out[r, j] = sum over i of rows[r, i] directions[i, j], in 64-bit integers."""
    out[:] = 0
    for r in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            entry = np.int64(rows[r, i])
            if entry != 0:  # rows of profiles are mostly zeros
                for j in range(out.shape[1]):
                    out[r, j] += entry * np.int64(directions[i, j])


@kernel
def scatter(rows, hashes, out):
    """out[r, b, h_b(i)] += s_b(i) rows[r, i]: block b is the count sketch of row r by hash b."""
    width = np.uint64(out.shape[2])
    for r in range(rows.shape[0]):
        for b in range(out.shape[1]):
            for i in range(hashes.size):
                product = hashes[i] * ROW[b]
                out[r, b, row_slot(product, width)] += row_sign(product) * rows[r, i]


@kernel
def place(hashes, width, slots, signs):
    """slots[i] = h_0(i) and signs[i] = s_0(i): where `scatter` puts key i in its first block."""
    for i in range(hashes.size):
        product = hashes[i] * ROW[0]
        slots[i] = row_slot(product, np.uint64(width))
        signs[i] = row_sign(product)


@kernel
def transform(rows):
    """rows[r] = H rows[r] in place, H[i, j] = (-1)**popcount(i & j).

    The length of a row is a power of 2 and at least 8.
    """
    length = rows.shape[1]
    for r in range(rows.shape[0]):
        row = rows[r]
        for start in range(0, length, 8):
            _eight(row, start)
        half = 8
        while half < length:
            _pass(row, half)
            half *= 2


@inline
def _eight(row, i):
    """The first three passes, within eight neighbours."""
    a, b, c, d = row[i], row[i + 1], row[i + 2], row[i + 3]
    e, f, g, h = row[i + 4], row[i + 5], row[i + 6], row[i + 7]
    a, b, c, d, e, f, g, h = a + b, a - b, c + d, c - d, e + f, e - f, g + h, g - h
    a, b, c, d, e, f, g, h = a + c, b + d, a - c, b - d, e + g, f + h, e - g, f - h
    row[i], row[i + 1], row[i + 2], row[i + 3] = a + e, b + f, c + g, d + h
    row[i + 4], row[i + 5], row[i + 6], row[i + 7] = a - e, b - f, c - g, d - h


@inline
def _pass(row, half):
    for start in range(0, row.size, 2 * half):
        for i in range(start, start + half, 8):
            a, b = load(row, i), load(row, i + half)
            store(row, i, a + b)
            store(row, i + half, a - b)


@kernel
def orthonormalise(panels, count, done):
    """Gram and Schmidt on the columns, in place; run twice, they are orthogonal to rounding.

    Column 16 p + c is panels[p, :, c], of which the first `count` are made orthonormal, each
    against all before; done[j] becomes a copy of column j.
    """
    for p in range(panels.shape[0]):
        panel = panels[p]
        for j in range(16 * p):
            _subtract(panel, done[j], 0)
        for c in range(min(16, count - 16 * p)):
            _normalise(panel, c, done[16 * p + c])
            _subtract(panel, done[16 * p + c], c + 1)


@inline
def _normalise(panel, c, column):
    square = 0.0
    for i in range(column.size):
        column[i] = panel[i, c]
        square += column[i] * column[i]
    length = math.sqrt(square)
    for i in range(column.size):
        column[i] /= length
        panel[i, c] = column[i]


@inline
def _subtract(panel, column, start):
    """Take out of the panel's columns from start on their shares along this one."""
    low, high = f64x8(0.0), f64x8(0.0)
    for i in range(column.size):
        x = f64x8(column[i])
        low = fma(x, load(panel, 16 * i), low)
        high = fma(x, load(panel, 16 * i + 8), high)
    after = np.uint64(0xFFFF) << np.uint64(start)
    low = select(mask8(after), low, f64x8(0.0))
    high = select(mask8(after >> np.uint64(8)), high, f64x8(0.0))
    for i in range(column.size):
        x = f64x8(-column[i])
        store(panel, 16 * i, fma(x, low, load(panel, 16 * i)))
        store(panel, 16 * i + 8, fma(x, high, load(panel, 16 * i + 8)))


@kernel
def even_rows(matrix, squares):
    """Turn pairs of rows until all have the mean squared length, in place; squares is scratch.

    Turning two rows into each other leaves the product of the transposed matrix with itself as it
    was. A row too short and one too long can be turned so that the first is right, so that all are
    right after as many turns as there are rows (Bendel and Mickey 1978).
    """
    height = matrix.shape[0]
    goal = 0.0
    for i in range(height):
        squares[i] = _dot(matrix[i], matrix[i])
        goal += squares[i] / height
    for _ in range(height - 1):
        short, long = np.argmin(squares), np.argmax(squares)
        if squares[short] >= goal or squares[long] <= goal:
            break
        _turn(matrix[short], matrix[long], squares[short] - goal, squares[long] - goal)
        squares[long] = _dot(matrix[long], matrix[long])
        squares[short] = goal


@inline
def _dot(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@inline
def _turn(short, long, lacks, exceeds):
    """Give short the squared length it lacks: exceeds t**2 + 2 (short . long) t + lacks = 0."""
    both = _dot(short, long)
    root = math.sqrt(both * both - lacks * exceeds)
    # Of the two solutions the one whose terms do not cancel.
    t = -lacks / (both + root) if both > 0 else (root - both) / exceeds
    c = 1 / math.sqrt(1 + t * t)
    for i in range(short.size):
        a, b = short[i], long[i]
        short[i] = c * (a + t * b)
        long[i] = c * (b - t * a)
