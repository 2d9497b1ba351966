"""The k codes nearest to each query by Hamming distance, from one pass over blocks of codes.

A block holds BLOCK codes, word after word: blocks[b, w, i] is word w of code BLOCK * b + i. One
query runs at the speed of memory; many visit a tile of blocks while it is in the first cache. A
block costs one branch unless one of its distances is below the limit, the k-th smallest so far.
"""

import math

import numpy as np

from sfumato.kernels.alignment import frozen
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import bits, count_trailing_zeros, load, popcount, store, u64x8
from sfumato.kernels.retrieve.layout import BLOCK

__all__ = [
    "BLOCK",
    "ONE",
    "ROOM",
    "STRIDE",
    "TILE",
    "allowed",
    "first_rank",
    "frozen",
    "hamming_nearest",
    "marks",
]

TILE = 1 << 15  # bytes of blocks that all queries visit in turn
ROOM = 1 << 23  # bytes of candidates in one batch of queries
# One block in STRIDE is scanned first, to guess the limit; int would be compiled as literals.
ONE, STRIDE = np.int64(1), np.int64(64)
TOP = np.uint64(1 << 63)
PLACE = np.uint64(47)  # a candidate is its distance, then 47 bits of its row
ROW = np.uint64(2**47 - 1)


def hamming_nearest(
    blocks: np.ndarray, count: int, alive: np.ndarray | None, queries: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows int64 and distances int32 (q, k) of the nearest codes, nearest first, ties by row.

    Guarantee: what sorting all distances would give, whatever other queries are in the same call.
    Where fewer than k rows may be found, row and distance are -1.
    Parameters: blocks, uint64 (B, words, BLOCK), C-contiguous, that hold rows 0 to count - 1;
    alive, None or uint64 of ceil(count / 64) words whose bit i % 64 of word i // 64 lets row i be
    found; queries, uint64 (q, words); k, from 1 up.

    >>> blocks = np.zeros((1, 1, BLOCK), np.uint64)
    >>> blocks[0, 0, :3] = 7, 1, 0
    >>> hamming_nearest(blocks, 3, None, np.array([[1]], np.uint64), 2)
    (array([[1, 2]]), array([[0, 1]], dtype=int32))
    """
    rows = np.full((len(queries), k), -1, np.int64)
    distances = np.full((len(queries), k), -1, np.int32)
    n_best = min(k, count)
    if n_best > 0:
        blocks, alive, queries = frozen(blocks), marks(alive), frozen(queries)
        cells, size = 64 * queries.shape[1] + 1, min(2 * n_best, count) + BLOCK
        step = max(1, min(ROOM // (8 * size + 4 * cells), len(queries)))
        tallies, found = np.empty((step, cells), np.int32), np.empty((step, size), np.uint64)
        near, states = np.empty(64, np.uint64), np.empty((step, 3), np.int64)
        for start in range(0, len(queries), step):
            part, rank = slice(start, start + step), first_rank(n_best, count)
            nearest(
                blocks, count, alive, queries[part], n_best, rank, tallies, found, near, states,
                rows[part], distances[part],
            )  # fmt: skip
    return rows, distances


def marks(alive: np.ndarray | None) -> np.ndarray:
    """The bits of rows that may be found; no words at all where every row may be."""
    return frozen(np.empty(0, np.uint64) if alive is None else alive)


def first_rank(n_best: int, count: int) -> int:
    """Which distance of the sample is the first limit: seldom too few lie below it."""
    expected = n_best / STRIDE
    return int(expected + 4 * math.sqrt(expected)) if 256 <= n_best <= count // STRIDE else 0


@inline
def _hits(blocks, at, queries, q, limit, near):
    """Which codes of a block are nearer to query q than the limit; near = distances less limit.

    near is written only where a code is a hit.
    """
    a = b = c = d = e = f = g = h = u64x8(np.uint64(0) - np.uint64(limit))
    for word in range(queries.shape[1]):
        code = u64x8(queries[q, word])
        a += popcount(load(blocks, at) ^ code)
        b += popcount(load(blocks, at + 8) ^ code)
        c += popcount(load(blocks, at + 16) ^ code)
        d += popcount(load(blocks, at + 24) ^ code)
        e += popcount(load(blocks, at + 32) ^ code)
        f += popcount(load(blocks, at + 40) ^ code)
        g += popcount(load(blocks, at + 48) ^ code)
        h += popcount(load(blocks, at + 56) ^ code)
        at += 64
    hits = bits((a | b | c | d | e | f | g | h) >= TOP)  # a number below 0 has this bit
    if hits:
        store(near, 0, a)
        store(near, 8, b)
        store(near, 16, c)
        store(near, 24, d)
        store(near, 32, e)
        store(near, 40, f)
        store(near, 48, g)
        store(near, 56, h)
        hits = np.uint64(0)
        for i in range(0, 64, 8):
            hits |= bits(load(near, i) >= TOP) << np.uint64(i)
    return hits


@inline
def allowed(alive, count, b):
    """Bit i is set where code i of block b may be found."""
    word = alive[b] if alive.size else ~np.uint64(0)
    rest = count - 64 * b
    return word if rest >= 64 else word & ((np.uint64(1) << np.uint64(rest)) - np.uint64(1))


@inline
def _take(hits, row, near, n_best, tally, found, limit, below, size):
    """Add hits to the candidates; the limit falls so that fewer than `n_best` are below it."""
    scanned = limit
    while hits:
        i = count_trailing_zeros(hits)
        hits &= hits - np.uint64(1)
        distance = scanned + np.int64(near[i])
        if distance < limit:
            found[size] = (np.uint64(distance) << PLACE) | np.uint64(row + i)
            tally[distance] += 1
            below, size = below + 1, size + 1
            while below >= n_best:
                limit -= 1
                below -= tally[limit]
    return limit, below, size


@inline
def _cut(n_best, found, limit, below, size):
    """Keep the candidates below the limit and the first of those at it; how many they are."""
    equal, end = n_best - below, 0
    for i in range(size):
        distance = np.int64(found[i] >> PLACE)
        found[end] = found[i]  # without a branch: nothing could predict it
        end += (distance < limit) | ((distance == limit) & (equal > 0))
        equal -= distance == limit
    return end


@inline
def _offer(blocks, first, last, count, alive, queries, q, n_best, tally, found, near, state):
    """Offer blocks first to last - 1 to the candidates of query q."""
    limit, below, size = state[0], state[1], state[2]
    for b in range(first, last):
        if alive.size and alive[b] == 0:
            continue
        hits = _hits(blocks, b * queries.shape[1] * 64, queries, q, limit, near)
        if hits:
            hits &= allowed(alive, count, b)
            limit, below, size = _take(
                hits, 64 * b, near, n_best, tally, found, limit, below, size
            )  # fmt: skip
            if size + 64 > found.size:
                size = _cut(n_best, found, limit, below, size)
    state[0], state[1], state[2] = limit, below, size


@kernel
def sweep(
    blocks, count, alive, queries, low, high, n_best, width, stride, tallies, found, near, states
):  # fmt: skip
    """Offer `width` blocks of every `stride` to queries low to high - 1, whose candidates go on."""
    last = (count + 63) // 64
    for first in range(0, last, stride):
        for q in range(low, high):
            _offer(
                blocks, first, min(first + width, last), count, alive, queries, q, n_best,
                tallies[q], found[q], near, states[q],
            )  # fmt: skip


@inline
def _restart(limit, tally, state):
    """No candidates yet, and those to come are below the limit."""
    state[0], state[1], state[2] = limit, 0, 0
    for distance in range(tally.size):
        tally[distance] = 0


@inline
def _sorted(n_best, tally, found, state, rows, distances):
    """Counting sort: candidates came in the order of rows, which those of one distance keep."""
    start = 0
    for distance in range(min(state[0] + 1, tally.size)):
        start, tally[distance] = start + tally[distance], start
    for i in range(_cut(n_best, found, state[0], state[1], state[2])):
        distance = np.int64(found[i] >> PLACE)
        position = tally[distance]
        tally[distance] = position + 1
        rows[position] = np.int64(found[i] & ROW)
        distances[position] = distance


@kernel
def nearest(
    blocks, count, alive, queries, n_best, rank, tallies, found, near, states, rows, distances
):  # fmt: skip
    """rows[q], distances[q] = the n_best nearest codes of query q, fewer if there are fewer."""
    n_queries, most = queries.shape[0], 64 * queries.shape[1]
    tile = max(TILE // (8 * most), 1)
    for q in range(n_queries):
        states[q, 0] = most
    for job in range(0 if rank > 0 else 1, n_queries + 2):  # a sample, all, and some queries again
        low, high = (0, n_queries) if job < 2 else (job - 2, job - 1)
        if job >= 2 and not (states[low, 2] < n_best and states[low, 0] <= most):
            continue  # the limit that the sample gave was not too low
        for q in range(low, high):
            limit = states[q, 0] if job == 1 else most
            _restart(min(limit, most) + 1, tallies[q], states[q])
        sweep(
            blocks, count, alive, queries, low, high, rank if job == 0 else n_best,
            ONE if job == 0 else tile, STRIDE if job == 0 else tile, tallies, found, near, states,
        )  # fmt: skip
    for q in range(n_queries):
        _sorted(n_best, tallies[q], found[q], states[q], rows[q], distances[q])
