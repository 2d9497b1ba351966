"""The Walsh-Hadamard transform of rows: n log n additions, norms kept up to the factor sqrt(n)."""

from ._jit import inline, kernel
from .lanes import load, store

__all__ = ["transform"]


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
