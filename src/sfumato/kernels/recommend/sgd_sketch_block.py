"""Stochastic gradient descent on a count sketch of factors whose cells are blocks of 16 numbers.

Block b of an entity with hash h lies, in row r, in the cell that the high half of h * keys[r, b]
chooses, its 16 signs are bits 16 to 31 of the product. Its read-out x is the mean over rows of
sign * cell (4.1); the prediction is mean + x.y - (n.x)(n.y) + lift (n.x + n.y): the biases are the
parts of x and y along the unit vector n, times lift, the components are what is left. So a bias,
the largest number of an entity, is spread over 16 lanes and collides no worse than a component.
Every update goes to all rows with the whole gradient (4.3), (4.4): so a read-out moves by step
times the gradient whatever the depth, and the 1/k of (4.7) is part of the learning rate.
"""

import functools

import numpy as np

from sfumato.kernels.hash import GOLDEN, MASK, key_of, row_slot
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import f32x16, flip, fma, load, prefetch_write, store, total

__all__ = ["descender", "multipliers", "read"]

ZERO, ONE, LANES = np.float32(0), np.float32(1), np.uint64(16)
AHEAD = 8  # ratings whose blocks are prefetched before they are needed


def multipliers(depth: int, blocks: int) -> np.ndarray:
    """Odd 64-bit multipliers, one for each row and block; those of one block do not depend on how
    many there are, so that an entity keeps its cells when it gains or loses blocks."""
    numbers = [
        key_of((r * int(GOLDEN) + b * 0xD1342543DE82EF95) & MASK) | np.uint64(1)
        for r in range(1, depth + 1)
        for b in range(blocks)
    ]
    return np.array(numbers, np.uint64).reshape(depth, blocks)


@inline
def _position(h, key, r, width):
    """Where the block of row r begins in the flat table, and its signs."""
    product = h * key
    cell = np.uint64(r) * width + row_slot(product, width)
    return np.int64(cell * LANES), product >> LANES


@inline
def _gather(table, keys, h, width, scale, x):
    depth, blocks = keys.shape
    for b in range(blocks):
        lanes = f32x16(ZERO)
        for r in range(depth):
            at, signs = _position(h, keys[r, b], r, width)
            lanes = lanes + flip(load(table, at), signs)
        store(x, 16 * b, lanes * load(scale, 16 * b))


@inline
def _scatter(table, keys, h, width, b, lanes):
    for r in range(keys.shape[0]):
        at, signs = _position(h, keys[r, b], r, width)
        store(table, at, load(table, at) + flip(lanes, signs))


@inline
def _ask(table, keys, h, width):
    for r in range(keys.shape[0]):
        for b in range(keys.shape[1]):
            prefetch_write(table, _position(h, keys[r, b], r, width)[0])


@kernel
def read(table, keys, width, hashes, scale, out):
    """out[i] = read-out of the entity with hashes[i]; scale is 1/depth, and 0 in unused lanes."""
    size = out.shape[1]
    x = np.empty(size, np.float32)
    for i in range(hashes.size):
        _gather(table, keys, hashes[i], np.uint64(width), scale, x)
        for j in range(size):
            out[i, j] = x[j]


@functools.cache
def descender(blocks, depth):
    """The kernel descend(users, items, ratings, width, clip, rates, spread, scale, table).

    One pass over rows where error**2 <= clip; rates: step, shrink, lift, back. In units of step x
    moves by error y + f n - regularization x; f = error (1 / lift - n.y) makes the bias, lift n.x,
    move by error as in a dense model, whatever lift is. `back` n.x of the bias is not shrunk.
    The multipliers are constants of the code: those in an array might, for all that the compiler
    knows, be changed by every store to the table, and would be read and multiplied again.
    """
    return _in_registers(blocks, depth) if blocks <= 2 else _in_memory(blocks, depth)


def _in_memory(blocks, depth):
    """The kernel for any number of blocks: read-outs go through two small arrays."""
    keys, size = multipliers(depth, blocks), 16 * blocks

    @kernel
    def descend(users, items, ratings, width, clip, rates, spread, scale, table):
        step, shrink, lift, push, back = rates[0], rates[1], rates[2], ONE / rates[2], rates[3]
        width, count, first = np.uint64(width), users.size, load(spread, 0)
        x, y = np.empty(size, np.float32), np.empty(size, np.float32)
        for i in range(count):
            u, v, ahead = users[i], items[i], min(i + AHEAD, count - 1)
            _ask(table, keys, users[ahead], width)
            _ask(table, keys, items[ahead], width)
            _gather(table, keys, u, width, scale, x)
            _gather(table, keys, v, width, scale, y)
            both = f32x16(ZERO)
            for b in range(0, size, 16):
                both = fma(load(x, b), load(y, b), both)
            p, q = total(load(x, 0) * first), total(load(y, 0) * first)
            error = ratings[i] - total(both) + p * q - lift * (p + q)
            if error * error <= clip:
                e = error * step
                f, g = f32x16(e * (push - q) + back * p), f32x16(e * (push - p) + back * q)
                for b in range(blocks):
                    n, a, c = load(spread, 16 * b), load(x, 16 * b), load(y, 16 * b)
                    _scatter(table, keys, u, width, b, fma(n, f, c * e + a * shrink))
                    _scatter(table, keys, v, width, b, fma(n, g, a * e + c * shrink))

    return descend


@inline
def _gather_two(table, keys, h, width, blocks, depth):
    first, second = f32x16(ZERO), f32x16(ZERO)
    for r in range(depth):
        at, signs = _position(h, keys[r, 0], r, width)
        first = first + flip(load(table, at), signs)
        if blocks == 2:
            at, signs = _position(h, keys[r, 1], r, width)
            second = second + flip(load(table, at), signs)
    return first, second


@inline
def _scatter_two(table, keys, h, width, blocks, depth, first, second):
    for r in range(depth):
        at, signs = _position(h, keys[r, 0], r, width)
        store(table, at, load(table, at) + flip(first, signs))
        if blocks == 2:
            at, signs = _position(h, keys[r, 1], r, width)
            store(table, at, load(table, at) + flip(second, signs))


def _in_registers(blocks, depth):
    """The kernel for one or two blocks: all numbers of a rating stay in registers."""
    keys, parts = multipliers(depth, blocks), (blocks, depth)

    @kernel
    def descend(users, items, ratings, width, clip, rates, spread, scale, table):
        step, lift, push, back = rates[0], rates[2], ONE / rates[2], rates[3]
        width, count, shrink, n = np.uint64(width), users.size, f32x16(rates[1]), load(spread, 0)
        w0, w1 = load(scale, 0), load(scale, 16 * (blocks - 1))
        for i in range(count):
            u, v, ahead = users[i], items[i], min(i + AHEAD, count - 1)
            _ask(table, keys, users[ahead], width)
            _ask(table, keys, items[ahead], width)
            x0, x1 = _gather_two(table, keys, u, width, *parts)
            y0, y1 = _gather_two(table, keys, v, width, *parts)
            x0, x1, y0, y1 = x0 * w0, x1 * w1, y0 * w0, y1 * w1
            p, q = total(x0 * n), total(y0 * n)
            error = ratings[i] - total(fma(x0, y0, x1 * y1)) + p * q - lift * (p + q)
            if error * error <= clip:
                e = error * step
                f, g = n * (e * (push - q) + back * p), n * (e * (push - p) + back * q)
                s = f32x16(e)
                dx0, dx1 = fma(s, y0, fma(shrink, x0, f)), fma(s, y1, shrink * x1)
                dy0, dy1 = fma(s, x0, fma(shrink, y0, g)), fma(s, x1, shrink * y1)
                _scatter_two(table, keys, u, width, *parts, dx0, dx1)
                _scatter_two(table, keys, v, width, *parts, dy0, dy1)

    return descend
