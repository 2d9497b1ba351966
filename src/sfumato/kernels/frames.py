"""Columns made orthonormal and rows made equally long, by the same operations on every machine."""

import math

import numpy as np

from ._jit import inline, kernel
from .lanes import f64x8, fma, load, store

__all__ = ["even_rows", "orthonormalise"]


@kernel
def orthonormalise(panels, count, done):
    """Gram and Schmidt on the columns, in place; run twice, they are orthogonal to rounding.

    Column 16 p + c is panels[p, :, c], of which the first `count` are made orthonormal, each
    against all before; done[j] becomes a copy of column j.
    """
    shares = np.empty(16)
    for p in range(panels.shape[0]):
        panel = panels[p]
        for j in range(16 * p):
            _subtract(panel, done[j], shares, 0)
        for c in range(min(16, count - 16 * p)):
            _normalise(panel, c, done[16 * p + c])
            _subtract(panel, done[16 * p + c], shares, c + 1)


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
def _subtract(panel, column, shares, start):
    """Take out of the panel's columns from start on their shares along this one."""
    low, high = f64x8(0.0), f64x8(0.0)
    for i in range(column.size):
        x = f64x8(column[i])
        low = fma(x, load(panel, 16 * i), low)
        high = fma(x, load(panel, 16 * i + 8), high)
    store(shares, 0, low)
    store(shares, 8, high)
    shares[:start] = 0
    low, high = load(shares, 0), load(shares, 8)
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
