"""Sums of clipped residuals times public vectors, in integers from the first to the last."""

import numpy as np

from sfumato.kernels.jit import inline, kernel

__all__ = ["collect", "grams", "residuals", "solve"]


@kernel
def residuals(users, items, ratings, p, q, shift, out):
    """out = rating - p[user, 0] - q[item, 0] - sum over l > 0 of p_l q_l / 2**shift, cut down."""
    for e in range(ratings.size):
        product = np.int64(0)
        for part in range(1, p.shape[1]):
            product += p[users[e], part] * q[items[e], part]
        out[e] = ratings[e] - p[users[e], 0] - q[items[e], 0] - (product >> shift)


@inline
def _cut(value, most):
    return min(max(value, -most), most)


@kernel
def collect(own, other, residual, most, scale, vectors, reach, out):
    """out[own, 0] += cut(residual, most) scale; out[own, 1 + l] += cut(residual, reach[other]) x_l.

    x is the row of the other in `vectors`.
    """
    for e in range(residual.size):
        row, x = own[e], other[e]
        out[row, 0] += _cut(residual[e], most) * scale
        value = _cut(residual[e], reach[x])
        for part in range(vectors.shape[1]):
            out[row, 1 + part] += value * vectors[x, part]


@kernel
def grams(own, other, residual, vectors, gram, out):
    """gram[own] += x x', out[own] += residual x, where x is the row of the other in `vectors`."""
    for e in range(residual.size):
        row, x = own[e], vectors[other[e]]
        for a in range(x.size):
            out[row, a] += residual[e] * x[a]
            for b in range(x.size):
                gram[row, a, b] += x[a] * x[b]


@kernel
def solve(gram, ridge, out):
    """out[row] = (gram[row] + diag(ridge))^-1 out[row], by Cholesky; gram is overwritten.

    Row by row and term by term, so that no row's answer depends on what stands beside it.
    """
    size = ridge.size
    for row in range(out.shape[0]):
        a, y = gram[row], out[row]
        for i in range(size):
            a[i, i] += ridge[i]
            for j in range(i + 1):
                left = a[i, j]
                for k in range(j):
                    left -= a[i, k] * a[j, k]
                a[i, j] = np.sqrt(left) if i == j else left / a[j, j]
            for k in range(i):
                y[i] -= a[i, k] * y[k]
            y[i] /= a[i, i]
        for i in range(size - 1, -1, -1):
            for k in range(i + 1, size):
                y[i] -= a[k, i] * y[k]
            y[i] /= a[i, i]
