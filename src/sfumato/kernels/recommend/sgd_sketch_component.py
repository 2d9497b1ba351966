"""Stochastic gradient descent on a count sketch of factors, number by number.

`lanes` numbers of an entity lie side by side: 1 where every component is hashed on its own (as in
the thesis), 16 in blocks, where this gives the median. Cells, signs and formulas are those of
factor_block.py; where every component is hashed, n picks the first one, which is the bias.
`descend` serves any layout and the median, slowly; `descend_mean` the mean of single numbers.
"""

import numpy as np

from sfumato.kernels.hash import row_slot
from sfumato.kernels.jit import inline, kernel

__all__ = ["damp", "descend", "descend_mean", "read"]

ONE, SIGNS = np.float32(1), np.uint64(16)


@inline
def _position(h, key, r, width, lanes):
    product = h * key
    cell = np.uint64(r) * width + row_slot(product, width)
    return np.int64(cell) * lanes, product >> SIGNS


@inline
def _sign(signs, lane):
    return ONE - np.float32(2) * np.float32((signs >> np.uint64(lane)) & np.uint64(1))


@inline
def _middle(values, column):
    """The median of a column of a few numbers, which it sorts."""
    count = values.shape[0]
    for i in range(1, count):
        j, value = i, values[i, column]
        while j > 0 and values[j - 1, column] > value:
            values[j, column] = values[j - 1, column]
            j -= 1
        values[j, column] = value
    return (values[count // 2, column] + values[(count - 1) // 2, column]) * np.float32(0.5)


@inline
def _gather(table, keys, h, width, median, scale, rows, x):
    depth, lanes = rows.shape
    for b in range(keys.shape[1]):
        for r in range(depth):
            at, signs = _position(h, keys[r, b], r, width, lanes)
            for j in range(lanes):
                rows[r, j] = table[at + j] * _sign(signs, j)
        for j in range(lanes):
            number = np.float32(0)
            if median:
                number = _middle(rows, j) * np.float32(depth)
            else:
                for r in range(depth):
                    number += rows[r, j]
            x[b * lanes + j] = number * scale[b * lanes + j]


@inline
def _scatter(table, keys, h, width, lanes, delta):
    for b in range(keys.shape[1]):
        for r in range(keys.shape[0]):
            at, signs = _position(h, keys[r, b], r, width, lanes)
            for j in range(lanes):
                table[at + j] += delta[b * lanes + j] * _sign(signs, j)


@kernel
def read(table, keys, width, hashes, median, scale, out):
    """out[i] = read-out of the entity with hashes[i]; scale is 1/depth, and 0 in unused lanes."""
    size = out.shape[1]
    rows = np.empty((keys.shape[0], size // keys.shape[1]), np.float32)
    x = np.empty(size, np.float32)
    for i in range(hashes.size):
        _gather(table, keys, hashes[i], np.uint64(width), median, scale, rows, x)
        for j in range(size):
            out[i, j] = x[j]


@kernel
def descend(users, items, ratings, keys, width, clip, rates, spread, scale, median, table):
    """One pass over rows where error**2 <= clip; rates: step, shrink, lift, back."""
    step, shrink, lift, push, back = rates[0], rates[1], rates[2], ONE / rates[2], rates[3]
    width, size = np.uint64(width), spread.size
    rows = np.empty((keys.shape[0], size // keys.shape[1]), np.float32)
    x, y = np.empty(size, np.float32), np.empty(size, np.float32)
    for i in range(users.size):
        _gather(table, keys, users[i], width, median, scale, rows, x)
        _gather(table, keys, items[i], width, median, scale, rows, y)
        both, p, q = np.float32(0), np.float32(0), np.float32(0)
        for j in range(size):
            both += x[j] * y[j]
            p += x[j] * spread[j]
            q += y[j] * spread[j]
        error = ratings[i] - both + p * q - lift * (p + q)
        if error * error <= clip:
            e = error * step
            f, g = e * (push - q) + back * p, e * (push - p) + back * q
            for j in range(size):
                a, c = x[j], y[j]
                x[j] = e * c + shrink * a + f * spread[j]
                y[j] = e * a + shrink * c + g * spread[j]
            _scatter(table, keys, users[i], width, rows.shape[1], x)
            _scatter(table, keys, items[i], width, rows.shape[1], y)


@kernel
def damp(hashes, keys, width, fraction, median, spread, scale, table):
    """Take a fraction off the bias of each entity; all arguments are of its first block alone.

    One entity after the other: what they share is then never taken off more than once at a time.
    """
    width, size = np.uint64(width), spread.size
    rows, x = np.empty((keys.shape[0], size), np.float32), np.empty(size, np.float32)
    for i in range(hashes.size):
        _gather(table, keys, hashes[i], width, median, scale, rows, x)
        bias = np.float32(0)
        for j in range(size):
            bias += x[j] * spread[j]
        for j in range(size):
            x[j] = -fraction * bias * spread[j]
        _scatter(table, keys, hashes[i], width, size, x)


@inline
def _gather_mean(table, keys, h, width, part, at, signs, x):
    """The read-out of an entity, and where its numbers lie, so that they are hashed once."""
    depth, size = keys.shape
    x[:] = np.float32(0)
    for r in range(depth):
        start = np.uint64(r) * width
        for b in range(size):
            product = h * keys[r, b]
            at[r, b] = np.int64(start + row_slot(product, width))
            signs[r, b] = _sign(product >> SIGNS, 0)
        for b in range(size):
            x[b] += table[at[r, b]] * signs[r, b]
    for b in range(size):
        x[b] *= part


@inline
def _scatter_mean(table, at, signs, delta):
    for r in range(at.shape[0]):
        for b in range(at.shape[1]):
            table[at[r, b]] += delta[b] * signs[r, b]


@kernel
def descend_mean(users, items, ratings, keys, width, clip, rates, table):
    """`descend` by the mean where every number is hashed: its first is the bias, lift is 1."""
    step, shrink, biased, width = rates[0], rates[1], rates[1] + rates[3], np.uint64(width)
    depth, size = keys.shape
    part = ONE / np.float32(depth)
    x, y = np.empty(size, np.float32), np.empty(size, np.float32)
    x_at, y_at = np.empty((depth, size), np.int64), np.empty((depth, size), np.int64)
    x_signs, y_signs = np.empty((depth, size), np.float32), np.empty((depth, size), np.float32)
    for i in range(users.size):
        _gather_mean(table, keys, users[i], width, part, x_at, x_signs, x)
        _gather_mean(table, keys, items[i], width, part, y_at, y_signs, y)
        p, q = x[0], y[0]
        error = ratings[i] - p - q
        for j in range(1, size):
            error -= x[j] * y[j]
        if error * error <= clip:
            e = error * step
            for j in range(size):
                a, c = x[j], y[j]
                x[j] = e * c + shrink * a
                y[j] = e * a + shrink * c
            x[0], y[0] = e + biased * p, e + biased * q
            _scatter_mean(table, x_at, x_signs, x)
            _scatter_mean(table, y_at, y_signs, y)
