"""Stochastic gradient descent on a count sketch of factors, number by number.

`lanes` numbers of an entity lie side by side: 1 where every component is hashed on its own (as in
the thesis), 16 in blocks, whose median is read here. Cells, signs and formulas are those of
sgd_sketch_block.py; where every component is hashed, n picks the first one, which is the bias.
"""

import numpy as np

from sfumato.kernels.hash import row_slot
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import bits, cells_at, f32x16, flip, fma, load, store, total
from sfumato.kernels.recommend.sgd_sketch_block import middle

__all__ = ["damp", "descend", "read"]

ZERO, ONE, SIGNS, SIGN = np.float32(0), np.float32(1), np.uint64(16), np.uint64(1 << 16)


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
def _sixteen(keys, r, b, h, width):
    """Where the numbers from b to b + 15 lie in row r, as two halves, and their signs."""
    k, start = r * keys.shape[1] + b, np.uint64(r) * width
    low, high = load(keys, k) * h, load(keys, k + 8) * h
    signs = bits((low & SIGN) > 0) | bits((high & SIGN) > 0) << np.uint64(8)
    return row_slot(low, width) + start, row_slot(high, width) + start, signs


@inline
def _gather_lanes(table, keys, h, width, median, scale, places, signs, rows, x):
    """x = the read-out; where its numbers lie, and their signs, are kept for `_scatter_lanes`."""
    depth, size = keys.shape
    for b in range(0, size, 16):
        lanes = f32x16(ZERO)
        for r in range(depth):
            at = r * size + b
            low, high, turned = _sixteen(keys, r, b, h, width)
            store(places, at, low)
            store(places, at + 8, high)
            signs[at >> 4] = turned
            row = flip(cells_at(table, low, high), turned)
            if median:
                store(rows, 16 * r, row)
            else:
                lanes = lanes + row
        if median:
            lanes = middle(rows, depth) * np.float32(depth)
        store(x, b, lanes * load(scale, b))


@inline
def _scatter_lanes(table, depth, size, places, signs, b, lanes, change):
    for r in range(depth):
        at = r * size + b
        store(change, 0, flip(lanes, signs[at >> 4]))
        for j in range(16):
            table[places[at + j]] += change[j]


@kernel
def descend(users, items, ratings, keys, width, clip, rates, spread, scale, median, table):
    """The pass of sgd_sketch_block.py where every number is hashed, 16 of them at a time.

    keys, spread and scale have columns up to a multiple of 16; those without a number have scale 0.
    """
    step, shrink, back, width = rates[0], rates[1], rates[3], np.uint64(width)
    depth, size = keys.shape
    rows, change = np.empty(16 * depth, np.float32), np.empty(16, np.float32)
    x, y = np.empty(size, np.float32), np.empty(size, np.float32)
    x_places, y_places = np.empty(keys.size, np.uint64), np.empty(keys.size, np.uint64)
    x_signs, y_signs = np.empty(keys.size >> 4, np.uint64), np.empty(keys.size >> 4, np.uint64)
    for i in range(users.size):
        _gather_lanes(table, keys, users[i], width, median, scale, x_places, x_signs, rows, x)
        _gather_lanes(table, keys, items[i], width, median, scale, y_places, y_signs, rows, y)
        both, p, q = f32x16(ZERO), x[0], y[0]
        for b in range(0, size, 16):
            both = fma(load(x, b), load(y, b), both)
        error = ratings[i] - total(both) + p * q - (p + q)
        if error * error <= clip:
            e = error * step
            f, g = f32x16(e * (ONE - q) + back * p), f32x16(e * (ONE - p) + back * q)
            for b in range(0, size, 16):
                n, a, c = load(spread, b), load(x, b), load(y, b)
                _scatter_lanes(
                    table, depth, size, x_places, x_signs, b, fma(n, f, c * e + a * shrink), change
                )
                _scatter_lanes(
                    table, depth, size, y_places, y_signs, b, fma(n, g, a * e + c * shrink), change
                )
