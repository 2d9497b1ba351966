"""Stochastic gradient descent on a count sketch of factors whose cells are blocks of 16 numbers.

Block b of an entity with hash h lies, in row r, in the cell that the high half of h * keys[r, b]
chooses, its 16 signs are bits 16 to 31 of the product. Its read-out x is the mean over rows of
sign * cell (4.1); the prediction is mean + x.y - (n.x)(n.y) + lift (n.x + n.y): the biases are the
parts of x and y along the unit vector n, times lift, the components are what is left. So a bias,
the largest number of an entity, is spread over 16 lanes and collides no worse than a component.
Every update goes to all rows with the whole gradient (4.3), (4.4): so a read-out moves by step
times the gradient whatever the depth, and the 1/k of (4.7) is part of the learning rate.

A pass may write a log: for each row the lines of its user and its item before the step, from which
`undo` restores the table. A line is the cache line of a block; `by_line` lists the entities that
read each of them, so that after a few steps `readers_of` names all whose read-outs have changed.
"""

import functools

import numpy as np

from sfumato.kernels.hash import of_integer, row_slot
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import (
    f32x16,
    flip,
    fma,
    load,
    maximum,
    minimum,
    prefetch_write,
    store,
    total,
)
from sfumato.kernels.seed_keys import GOLDEN, MASK, key_of

__all__ = [
    "by_line",
    "damp",
    "descender",
    "middle",
    "multipliers",
    "pair",
    "readers_of",
    "undo",
    "vectors",
]

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
def _scatter(table, keys, h, width, b, lanes, check):
    for r in range(keys.shape[0]):
        at, signs = _position(h, keys[r, b], r, width)
        new = load(table, at) + flip(lanes, signs)
        store(table, at, new)
        check = fma(new, f32x16(ZERO), check)
    return check


@inline
def _ask(table, keys, h, width):
    for r in range(keys.shape[0]):
        for b in range(keys.shape[1]):
            prefetch_write(table, _position(h, keys[r, b], r, width)[0])


@inline
def _vector(table, keys, h, width, scale, mirror, weights, x):
    """x = the read-out, reflected so that its bias is one lane, in the unit of the weights."""
    _gather(table, keys, h, width, scale, x)
    both = f32x16(ZERO)
    for b in range(0, x.size, 16):
        both = fma(load(x, b), load(mirror, b), both)
    along = f32x16(-total(both))
    for b in range(0, x.size, 16):
        store(x, b, fma(along, load(mirror, b), load(x, b)) * load(weights, b))


@kernel
def vectors(table, keys, width, hashes, scale, mirror, weights, active, out):
    """out[i] = components and, last, bias of the entity with hashes[i].

    scale is 1/depth, and 0 in unused lanes; `active` numbers are read, the last of them the bias.
    """
    x = np.empty(16 * keys.shape[1], np.float32)
    last = out.shape[1] - 1
    for i in range(hashes.size):
        _vector(table, keys, hashes[i], np.uint64(width), scale, mirror, weights, x)
        for j in range(last):
            out[i, j] = x[j] if j < active - 1 else ZERO
        out[i, last] = x[active - 1]


@kernel
def pair(table, keys, width, scale, mirror, weights, active, seeds, user, item, mean):
    """The prediction for two integer ids, summed as for many pairs: see `vectors`, `products`."""
    size = 16 * keys.shape[1]
    x, y = np.empty(size, np.float32), np.empty(size, np.float32)
    u, v = of_integer(user, seeds[0]), of_integer(item, seeds[1])
    _vector(table, keys, u, np.uint64(width), scale, mirror, weights, x)
    _vector(table, keys, v, np.uint64(width), scale, mirror, weights, y)
    p, q = np.float64(x[active - 1]), np.float64(y[active - 1])
    x[active - 1] = ZERO
    both = f32x16(ZERO)
    for b in range(0, size, 16):
        both = fma(load(x, b), load(y, b), both)
    return np.float64(total(both)) + (mean + p + q)


@kernel
def damp(hashes, keys, width, fraction, spread, scale, table):
    """Take a fraction off the bias of each entity; all arguments are of its first block alone.

    One entity after the other: what they share is then never taken off more than once at a time.
    """
    depth, width, n, w = keys.shape[0], np.uint64(width), load(spread, 0), load(scale, 0)
    for i in range(hashes.size):
        lanes = f32x16(ZERO)
        for r in range(depth):
            at, signs = _position(hashes[i], keys[r, 0], r, width)
            lanes = lanes + flip(load(table, at), signs)
        change = n * (-fraction * total(lanes * w * n))
        for r in range(depth):
            at, signs = _position(hashes[i], keys[r, 0], r, width)
            store(table, at, load(table, at) + flip(change, signs))


@kernel
def by_line(hashes, keys, width, starts, entities):
    """entities[starts[l] : starts[l + 1]] = those with a block in line l; starts has two more."""
    depth, blocks = keys.shape
    width = np.uint64(width)
    for i in range(hashes.size):
        for r in range(depth):
            for b in range(blocks):
                starts[(_position(hashes[i], keys[r, b], r, width)[0] >> 4) + 2] += 1
    for line in range(1, starts.size):
        starts[line] += starts[line - 1]
    for i in range(hashes.size):
        for r in range(depth):
            for b in range(blocks):
                line = (_position(hashes[i], keys[r, b], r, width)[0] >> 4) + 1
                entities[starts[line]] = i
                starts[line] += 1


@kernel
def readers_of(hashes, keys, width, starts, entities, found):
    """Set found[i] for all entities that share a line with one of the hashes."""
    depth, blocks = keys.shape
    for i in range(hashes.size):
        for r in range(depth):
            for b in range(blocks):
                line = _position(hashes[i], keys[r, b], r, np.uint64(width))[0] >> 4
                for k in range(starts[line], starts[line + 1]):
                    found[entities[k]] = True


@kernel
def _save(table, keys, h, width, log, start):
    """Write the lines of an entity to the log; not inlined, since few passes have one."""
    for r in range(keys.shape[0]):
        for b in range(keys.shape[1]):
            store(log, start, load(table, _position(h, keys[r, b], r, width)[0]))
            start += 16
    return start


@kernel
def undo(users, items, keys, width, log, table):
    """Write the lines of a log back, the last first."""
    depth, blocks = keys.shape
    half = 16 * depth * blocks
    for i in range(users.size - 1, -1, -1):
        for side in range(2):
            h, start = (items[i] if side else users[i]), (2 * i + side) * half
            for r in range(depth):
                for b in range(blocks):
                    at = _position(h, keys[r, b], r, np.uint64(width))[0]
                    store(table, at, load(log, start))
                    start += 16


@functools.cache
def descender(blocks, depth, median=False):
    """The kernel descend(users, items, ratings, width, clip, rates, spread, scale, log, table).

    One pass over rows where error**2 <= clip; rates: step, shrink, lift, back. Returns 0, or NaN if
    a number became infinite or NaN. An empty log is not written. In units of step x
    moves by error y + f n - regularization x; f = error (1 / lift - n.y) makes the bias, lift n.x,
    move by error as in a dense model, whatever lift is. `back` n.x of the bias is not shrunk.
    The multipliers are constants of the code: those in an array might, for all that the compiler
    knows, be changed by every store to the table, and would be read and multiplied again.
    """
    if blocks <= 2 and not median:
        return _in_registers(blocks, depth)
    return _in_memory(blocks, depth, _median_reader(depth) if median else _mean_reader)


@inline
def _mean_reader(table, keys, h, width, scale, rows, x):
    _gather(table, keys, h, width, scale, x)


@inline
def middle(rows, depth):
    """The median of each lane over rows of 16 numbers, which it sorts."""
    for turn in range(depth):  # odd-even transposition sort, sixteen lanes at a time
        for r in range(turn & 1, depth - 1, 2):
            one, other = load(rows, 16 * r), load(rows, 16 * r + 16)
            store(rows, 16 * r, minimum(one, other))
            store(rows, 16 * r + 16, maximum(one, other))
    return (load(rows, depth // 2 * 16) + load(rows, (depth - 1) // 2 * 16)) * np.float32(0.5)


def _median_reader(depth):
    """The function that reads the median over rows, each lane on its own."""

    @inline
    def read(table, keys, h, width, scale, rows, x):
        for b in range(keys.shape[1]):
            for r in range(depth):
                at, signs = _position(h, keys[r, b], r, width)
                store(rows, 16 * r, flip(load(table, at), signs))
            store(x, 16 * b, middle(rows, depth) * np.float32(depth) * load(scale, 16 * b))

    return read


def _in_memory(blocks, depth, reader):
    """The kernel for any number of blocks: read-outs go through two small arrays."""
    keys, size = multipliers(depth, blocks), 16 * blocks

    @kernel
    def descend(users, items, ratings, width, clip, rates, spread, scale, log, table):
        step, shrink, lift, push, back = rates[0], rates[1], rates[2], ONE / rates[2], rates[3]
        width, count, first = np.uint64(width), users.size, load(spread, 0)
        x, y = np.empty(size, np.float32), np.empty(size, np.float32)
        saved, check, rows = 0, f32x16(ZERO), np.empty(16 * depth, np.float32)
        for i in range(count):
            u, v, ahead = users[i], items[i], min(i + AHEAD, count - 1)
            _ask(table, keys, users[ahead], width)
            _ask(table, keys, items[ahead], width)
            if log.size:
                saved = _save(table, keys, v, width, log, _save(table, keys, u, width, log, saved))
            reader(table, keys, u, width, scale, rows, x)
            reader(table, keys, v, width, scale, rows, y)
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
                    change = fma(n, f, c * e + a * shrink)
                    check = _scatter(table, keys, u, width, b, change, check)
                    change = fma(n, g, a * e + c * shrink)
                    check = _scatter(table, keys, v, width, b, change, check)
        return total(check)

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
def _scatter_two(table, keys, h, width, blocks, depth, first, second, check):
    for r in range(depth):
        at, signs = _position(h, keys[r, 0], r, width)
        new = load(table, at) + flip(first, signs)
        store(table, at, new)
        check = fma(new, f32x16(ZERO), check)
        if blocks == 2:
            at, signs = _position(h, keys[r, 1], r, width)
            new = load(table, at) + flip(second, signs)
            store(table, at, new)
            check = fma(new, f32x16(ZERO), check)
    return check


def _in_registers(blocks, depth):
    """The kernel for one or two blocks: all numbers of a rating stay in registers."""
    keys, parts = multipliers(depth, blocks), (blocks, depth)

    @kernel
    def descend(users, items, ratings, width, clip, rates, spread, scale, log, table):
        step, lift, push, back = rates[0], rates[2], ONE / rates[2], rates[3]
        width, count, shrink, n = np.uint64(width), users.size, f32x16(rates[1]), load(spread, 0)
        w0, w1 = load(scale, 0), load(scale, 16 * (blocks - 1))
        saved, check = 0, f32x16(ZERO)
        for i in range(count):
            u, v, ahead = users[i], items[i], min(i + AHEAD, count - 1)
            _ask(table, keys, users[ahead], width)
            _ask(table, keys, items[ahead], width)
            if log.size:
                saved = _save(table, keys, v, width, log, _save(table, keys, u, width, log, saved))
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
                check = _scatter_two(table, keys, u, width, *parts, dx0, dx1, check)
                check = _scatter_two(table, keys, v, width, *parts, dy0, dy1, check)
        return total(check)

    return descend
