"""The n best items of each query, from panels of item vectors, without a matrix of all scores.

A panel holds WIDE items, component after component: panels[b, l, i] is component l of item
WIDE * b + i. A score is the sum of query[l] * item[l] in the order of l, each product and sum
rounded once, so it does not depend on other queries of the same call, nor on the machine.

The n largest of a stream of scores, kept in a heap whose first position holds the worst of them.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import (
    bits,
    count_trailing_zeros,
    f32x16,
    fma,
    load,
    load_aligned,
    store,
)

__all__ = [
    "best",
    "best_of_one",
    "every",
    "every_of_one",
    "largest",
    "offer",
    "offer_any",
    "order",
    "ordered",
]

WIDE = 32  # two cache lines: with four queries, eight sums in flight hide the latency of fma
ABREAST = 4  # queries that share one reading of a panel; their number is a multiple of this


@inline
def abreast(panels, b, queries, u):
    """The scores of queries u to u + 3 with panel b: eight times sixteen lanes."""
    size = panels.shape[1]
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = f32x16(0.0)
    at = b * size * 32
    for i in range(size):
        left, right = load_aligned(panels, at), load_aligned(panels, at + 16)
        at += 32
        q = f32x16(queries[u, i])
        a0, a1 = fma(left, q, a0), fma(right, q, a1)
        q = f32x16(queries[u + 1, i])
        b0, b1 = fma(left, q, b0), fma(right, q, b1)
        q = f32x16(queries[u + 2, i])
        c0, c1 = fma(left, q, c0), fma(right, q, c1)
        q = f32x16(queries[u + 3, i])
        d0, d1 = fma(left, q, d0), fma(right, q, d1)
    return a0, a1, b0, b1, c0, c1, d0, d1


@inline
def _offer(scratch, k, b, barred, scores, positions):
    """Take what is above the n-th best and not barred into the list, of panel b, the k-th of 4."""
    low, high = load(scratch, 32 * k), load(scratch, 32 * k + 16)
    last, limit = scores.size - 1, f32x16(scores[scores.size - 1])
    hits = (bits(low > limit) | (bits(high > limit) << np.uint64(16))) & ~np.uint64(barred)
    while hits:
        i = count_trailing_zeros(hits)
        hits &= hits - np.uint64(1)
        score, j = scratch[32 * k + i], last
        if score > scores[last]:  # it goes after those as large, and the last one goes
            while j > 0 and scores[j - 1] < score:
                scores[j], positions[j] = scores[j - 1], positions[j - 1]
                j -= 1
            scores[j], positions[j] = score, 32 * b + i


@inline
def _keep(lanes, scratch):
    """Write eight times sixteen lanes side by side."""
    a0, a1, b0, b1, c0, c1, d0, d1 = lanes
    store(scratch, 0, a0)
    store(scratch, 16, a1)
    store(scratch, 32, b0)
    store(scratch, 48, b1)
    store(scratch, 64, c0)
    store(scratch, 80, c1)
    store(scratch, 96, d0)
    store(scratch, 112, d1)


@inline
def _four_panels(panels, b, query):
    """The scores of one query with panels b to b + 3; past the last panel, the last again."""
    last, wide = panels.shape[0] - 1, 32 * panels.shape[1]
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = f32x16(0.0)
    one, two = wide * b, wide * min(b + 1, last)
    three, four = wide * min(b + 2, last), wide * min(b + 3, last)
    for i in range(panels.shape[1]):
        q, at = f32x16(query[i]), 32 * i
        a0 = fma(load_aligned(panels, one + at), q, a0)
        a1 = fma(load_aligned(panels, one + at + 16), q, a1)
        b0 = fma(load_aligned(panels, two + at), q, b0)
        b1 = fma(load_aligned(panels, two + at + 16), q, b1)
        c0 = fma(load_aligned(panels, three + at), q, c0)
        c1 = fma(load_aligned(panels, three + at + 16), q, c1)
        d0 = fma(load_aligned(panels, four + at), q, d0)
        d1 = fma(load_aligned(panels, four + at + 16), q, d1)
    return a0, a1, b0, b1, c0, c1, d0, d1


@kernel
def best(panels, queries, barred, positions, scores):
    """scores[u], positions[u] = the largest scores of query u and where they stand, best first.

    barred[u % rows, b]: bit i keeps item 32 b + i out. Lists start as -inf and -1, and stay so
    where no item is left; equal scores go to the item that stands first.
    """
    scratch = np.empty(128, np.float32)
    rows = barred.shape[0]
    for u in range(0, queries.shape[0], 4):
        for b in range(panels.shape[0]):
            _keep(abreast(panels, b, queries, u), scratch)
            for k in range(4):
                _offer(scratch, k, b, barred[(u + k) % rows, b], scores[u + k], positions[u + k])


@kernel
def best_of_one(panels, query, barred, left_out, positions, scores):
    """`best` of one query, with the same scores; `left_out` are positions that are barred too."""
    scratch, count = np.empty(128, np.float32), panels.shape[0]
    bars = np.empty(count, np.uint32)
    for b in range(count):
        bars[b] = barred[b]
    for k in range(left_out.size):
        bars[left_out[k] >> 5] |= np.uint32(1) << np.uint32(left_out[k] & 31)
    for j in range(scores.size):
        scores[j], positions[j] = -np.inf, -1
    for b in range(0, count, 4):
        _keep(_four_panels(panels, b, query), scratch)
        for k in range(min(4, count - b)):
            _offer(scratch, k, b + k, bars[b + k], scores, positions)


@kernel
def every(panels, queries, out):
    """out[u] = the scores of query u with all items, the filling of the last panel included.

    Any number of queries; those after the last multiple of four are taken one by one.
    """
    whole = queries.shape[0] // 4 * 4
    for u in range(whole, queries.shape[0]):
        every_of_one(panels, queries[u], out[u])
    for u in range(0, whole, 4):
        for b in range(panels.shape[0]):
            a0, a1, b0, b1, c0, c1, d0, d1 = abreast(panels, b, queries, u)
            store(out, u * out.shape[1] + 32 * b, a0)
            store(out, u * out.shape[1] + 32 * b + 16, a1)
            store(out, (u + 1) * out.shape[1] + 32 * b, b0)
            store(out, (u + 1) * out.shape[1] + 32 * b + 16, b1)
            store(out, (u + 2) * out.shape[1] + 32 * b, c0)
            store(out, (u + 2) * out.shape[1] + 32 * b + 16, c1)
            store(out, (u + 3) * out.shape[1] + 32 * b, d0)
            store(out, (u + 3) * out.shape[1] + 32 * b + 16, d1)


@inline
def every_of_one(panels, query, out):
    """The scores of one query with all items."""
    last = panels.shape[0] - 1
    for b in range(0, last + 1, 4):
        a0, a1, b0, b1, c0, c1, d0, d1 = _four_panels(panels, b, query)
        two, three, four = min(b + 1, last), min(b + 2, last), min(b + 3, last)
        store(out, 32 * b, a0)
        store(out, 32 * b + 16, a1)
        store(out, 32 * two, b0)
        store(out, 32 * two + 16, b1)
        store(out, 32 * three, c0)
        store(out, 32 * three + 16, c1)
        store(out, 32 * four, d0)
        store(out, 32 * four + 16, d1)


@kernel
def bar(starts, positions, rows, barred):
    """Set the bits of positions[starts[r] : starts[r + 1]] in barred[u], r = rows[u] >= 0."""
    for u in range(rows.size):
        if rows[u] >= 0:
            for k in range(starts[rows[u]], starts[rows[u] + 1]):
                barred[u, positions[k] >> 5] |= np.uint32(1) << np.uint32(positions[k] & 31)


@inline
def _worse(position, score, other_position, other_score):
    return score < other_score or (score == other_score and position > other_position)


@inline
def _sink(position, score, size, positions, scores):
    """Put an entry in at the top and let it sink below all that are worse."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and _worse(
            positions[other], scores[other], positions[child], scores[child]
        ):
            child = other
        if not _worse(positions[child], scores[child], position, score):
            break
        positions[at], scores[at] = positions[child], scores[child]
        at = child
    positions[at], scores[at] = position, score


@inline
def offer(position, score, positions, scores):
    """Keep the score if it is above the worst one; positions are offered in rising order."""
    if score > scores[0]:
        _sink(position, score, scores.size, positions, scores)


@inline
def offer_any(position, score, positions, scores):
    """As `offer`, for positions in any order."""
    if _worse(positions[0], scores[0], position, score):
        _sink(position, score, scores.size, positions, scores)


@inline
def order(positions, scores):
    """Turn the heap into a list, best first."""
    for size in range(scores.size - 1, 0, -1):
        position, score = positions[size], scores[size]
        positions[size], scores[size] = positions[0], scores[0]
        _sink(position, score, size, positions, scores)


@kernel
def ordered(positions, scores):
    """Every row, a heap, becomes a list, best first."""
    for q in range(scores.shape[0]):
        order(positions[q], scores[q])


@kernel
def largest(values, positions, scores):
    """positions[q], scores[q] = where the largest of values[q] stand, and these, largest first."""
    for q in range(values.shape[0]):
        for i in range(values.shape[1]):
            offer(i, values[q, i], positions[q], scores[q])
        order(positions[q], scores[q])
