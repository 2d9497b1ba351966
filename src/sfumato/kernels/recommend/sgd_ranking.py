"""Stochastic gradient descent on a sampled softmax: who used which item, against drawn items.

Each row (u, i) draws NEGATIVES items j from the catalogue, with probability proportional to their
counts, and descends on -log(exp(s_i) / sum of exp(s_j) over i and the drawn items), s = x.y. Drawn
so, s tends to log P(i | u) - log P(i): vectors learn departures from popularity, to which log P(i)
is added when items are ranked (Oord et al. 2018, section 2.3). Negative k of row r is a function of
seed, r and k alone, so a pass over given rows is repeatable and its negatives are known beforehand.
Vectors are rows of a dense table (depth 0), or blocks of a count sketch as in sgd_sketch_block, of
16 numbers or of 8; kernels read and write 16 lanes, of which the upper 8 then stay as they are.
"""

import functools

import numpy as np

from sfumato.kernels.hash import GOLDEN, HALF, ROW, mix, row_slot
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import f32x16, flip, fma, load, prefetch_write, store, total
from sfumato.kernels.recommend.sgd_sketch_block import multipliers

__all__ = ["MOST", "NEGATIVES", "alias", "count", "counts", "draw", "ranker", "read"]

NEGATIVES = 16
CANDIDATES = NEGATIVES + 1  # the row's own item comes first
ZERO, ONE = np.float32(0), np.float32(1)
MOST = 255  # where counters stop
FULL = 4294967296.0  # 2**32: a bucket that is one item's alone


@kernel
def alias(counts, cut, other):
    """The alias method: bucket j is item j below cut[j] of 2**32, and item other[j] from there on.

    Walker (1977), in integers: counts times buckets against their sum, so that the last buckets are
    exactly full and an item without a count is never drawn.
    """
    size, total_count = counts.size, np.int64(0)
    for j in range(size):
        total_count += counts[j]
    mass, small, large = counts * size, np.empty(size, np.int64), np.empty(size, np.int64)
    few, many = 0, 0
    for j in range(size):
        cut[j], other[j] = np.uint64(FULL), j
        if mass[j] < total_count:
            small[few] = j
            few += 1
        elif mass[j] > total_count:
            large[many] = j
            many += 1
    while few > 0 and many > 0:
        few -= 1
        j, k = small[few], large[many - 1]
        cut[j], other[j] = np.uint64(FULL * (mass[j] / total_count)), k
        mass[k] -= total_count - mass[j]
        if mass[k] <= total_count:
            many -= 1
            if mass[k] < total_count:
                small[few] = k
                few += 1


@inline
def _drawn(seed, counter, cut, first, second):
    h = mix(seed + counter * GOLDEN)
    at = np.int64(((h >> HALF) * np.uint64(cut.size)) >> HALF)
    return first[at] if (h & np.uint64(0xFFFFFFFF)) < cut[at] else second[at]


@kernel
def draw(rows, seed, cut, first, second, out):
    """out[i, k] = negative k of row rows[i]; first and second are the codes of a bucket's items."""
    for i in range(rows.size):
        for k in range(NEGATIVES):
            counter = np.uint64(rows[i]) * np.uint64(NEGATIVES) + np.uint64(k)
            out[i, k] = _drawn(np.uint64(seed), counter, cut, first, second)


@kernel
def count(hashes, counters):
    """Count each hash in two rows of bytes, raising the smaller of its two counters only."""
    width = counters.shape[1]
    for i in range(hashes.size):
        a = row_slot(hashes[i] * ROW[0], np.uint64(width))
        b = row_slot(hashes[i] * ROW[1], np.uint64(width))
        least = min(counters[0, a], counters[1, b])
        if least < MOST:
            counters[0, a] = max(counters[0, a], least + 1)
            counters[1, b] = max(counters[1, b], least + 1)


@kernel
def counts(hashes, counters, out):
    """out[i] = how often hashes[i] was counted, or more; at most MOST."""
    width = counters.shape[1]
    for i in range(hashes.size):
        a = row_slot(hashes[i] * ROW[0], np.uint64(width))
        b = row_slot(hashes[i] * ROW[1], np.uint64(width))
        out[i] = min(counters[0, a], counters[1, b])


@inline
def _position(h, key, r, width, lanes):
    """Where the block of row r begins in the flat table, and its signs."""
    product = h * key
    cell = np.uint64(r) * np.uint64(width) + row_slot(product, np.uint64(width))
    return np.int64(cell) * lanes, product >> np.uint64(16)


@inline
def _ask(table, keys, depth, lanes, code, width):
    if depth == 0:
        for b in range(keys.shape[1]):
            prefetch_write(table, np.int64(code) * width + 16 * b)
    for r in range(depth):
        for b in range(keys.shape[1]):
            prefetch_write(table, _position(np.uint64(code), keys[r, b], r, width, lanes)[0])


@inline
def _gather(table, keys, depth, lanes, code, width, scale, out, start):
    for b in range(keys.shape[1]):
        block = f32x16(ZERO)
        if depth == 0:
            block = load(table, np.int64(code) * width + 16 * b)
        for r in range(depth):
            at, signs = _position(np.uint64(code), keys[r, b], r, width, lanes)
            block = block + flip(load(table, at), signs)
        store(out, start + 16 * b, block * load(scale, 16 * b))


@inline
def _scatter(table, keys, depth, lanes, code, width, b, change):
    if depth == 0:
        at = np.int64(code) * width + 16 * b
        store(table, at, load(table, at) + change)
    for r in range(depth):
        at, signs = _position(np.uint64(code), keys[r, b], r, width, lanes)
        store(table, at, load(table, at) + flip(change, signs))


@kernel
def read(table, keys, width, lanes, hashes, scale, out):
    """out[i] = read-out of the entity with hashes[i]: 16 numbers for each of its blocks."""
    size = out.shape[1]
    x = np.empty(size, np.float32)
    for i in range(hashes.size):
        _gather(table, keys, keys.shape[0], lanes, hashes[i], width, scale, x, 0)
        for j in range(size):
            out[i, j] = x[j]


@inline
def _softmax_pulls(scores):
    """In place: 1 for the first score and 0 for the others, less the softmax of all."""
    top, mass = scores[0], ZERO
    for k in range(1, CANDIDATES):
        top = max(top, scores[k])
    for k in range(CANDIDATES):
        scores[k] = np.exp(scores[k] - top)
        mass += scores[k]
    for k in range(CANDIDATES):
        scores[k] = -scores[k] / mass
    scores[0] += ONE


@functools.cache
def ranker(blocks, depth, lanes=16):
    """The kernel descend(users, items, rows, seed, cut, first, second, width, rates, scale, p, q).

    p and q are the tables of users and items, one and the same in a sketch. width: numbers in a
    dense row, or cells in a row of the sketch. scale: 1 (dense) or 1 / depth for lanes that hold
    components, else 0. rates: step, and the shrinkage in it of a user, of the row's own item and of
    a drawn item. In units of step a user moves by sum of g_k y_k and candidate k by g_k x, g_k = 1
    for the row's own item, else 0, less the softmax of all scores at k.
    """
    keys, size = multipliers(max(depth, 1), blocks), 16 * blocks

    @kernel
    def descend(users, items, rows, seed, cut, first, second, width, rates, scale, p, q):
        step, count, seed = rates[0], users.size, np.uint64(seed)
        x, dx = np.empty(size, np.float32), np.empty(size, np.float32)
        y, scores = np.empty(CANDIDATES * size, np.float32), np.empty(CANDIDATES, np.float32)
        codes = np.empty((2, CANDIDATES), items.dtype)
        for i in range(-1, count):
            if i + 1 < count:  # the next row's candidates are drawn now and are in cache by then
                ahead = codes[(i + 1) & 1]
                ahead[0] = items[i + 1]
                for k in range(1, CANDIDATES):
                    counter = np.uint64(rows[i + 1]) * np.uint64(NEGATIVES) + np.uint64(k - 1)
                    ahead[k] = _drawn(seed, counter, cut, first, second)
                _ask(p, keys, depth, lanes, users[i + 1], width)
                for k in range(CANDIDATES):
                    _ask(q, keys, depth, lanes, ahead[k], width)
            if i < 0:
                continue
            own = codes[i & 1]
            _gather(p, keys, depth, lanes, users[i], width, scale, x, 0)
            for k in range(CANDIDATES):
                _gather(q, keys, depth, lanes, own[k], width, scale, y, k * size)
                both = f32x16(ZERO)
                for b in range(0, size, 16):
                    both = fma(load(x, b), load(y, k * size + b), both)
                scores[k] = total(both)
            _softmax_pulls(scores)
            for b in range(0, size, 16):
                store(dx, b, load(x, b) * rates[1])
            for k in range(CANDIDATES):
                pull, shrink = scores[k] * step, rates[2] if k == 0 else rates[3]
                for b in range(blocks):
                    item = load(y, k * size + 16 * b)
                    store(dx, 16 * b, fma(item, f32x16(pull), load(dx, 16 * b)))
                    change = load(x, 16 * b) * pull + item * shrink
                    _scatter(q, keys, depth, lanes, own[k], width, b, change)
            for b in range(blocks):
                _scatter(p, keys, depth, lanes, users[i], width, b, load(dx, 16 * b))

    return descend
