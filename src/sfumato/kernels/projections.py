"""Products of rows with a codebook: floats summed in one written order, or whole numbers."""

import numpy as np

from ._jit import inline, kernel
from .hash import ROW, row_sign, row_slot
from .lanes import f64x8, fma, load, store

__all__ = ["place", "project", "project_whole", "scatter"]


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
