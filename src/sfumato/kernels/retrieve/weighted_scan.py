"""The k codes of the largest weighted sums of their bits, from one pass over blocks of codes.

The sum of code i for weights w is shifts[i] + factors[i] * sum over j of w[j] * (+1 if bit j else
-1). For the scan a weight is a sign and a few bits of magnitude, step * sign * m. Where code and
sign differ m counts against the sum, which is step * (M - 2 S): M the sum of all m, S of those that
differ, found by one population count for each bit of the magnitudes.

Weights rounded to a sign and a few bits of magnitude, as planes of bits for a scan of codes.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import (
    bits,
    count_trailing_zeros,
    f32x16,
    floats,
    fma,
    load,
    minimum,
    narrow,
    popcount,
    prefetch,
    store,
    total,
    u64x8,
)
from sfumato.kernels.retrieve.hamming_scan import (
    BLOCK,
    ONE,
    ROOM,
    STRIDE,
    TILE,
    allowed,
    first_rank,
    frozen,
    marks,
)

__all__ = ["listed", "round_weights", "weighted_best"]

TRIES = 32
LEAST = 0.2
LEAST_STEP = np.float32(1e-30)  # beside an offset, smaller weights matter no more than none
WHOLE = np.float32(1.5 * 2**23)  # adding it leaves no bits behind the point


def round_weights(
    weights: np.ndarray, words: int, precision: int, offsets: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Planes uint64 (q, 1 + precision, words), steps float32 (q,) and sums of magnitudes (q,).

    Plane 0 has a bit where the weight is above 0, plane p bit precision - p of the magnitude. A
    weight is close to its step * sign * magnitude. Offsets, float32 (q,), are added to the sums of
    magnitudes in steps, and so to every sum before its factor.

    >>> planes, steps, wholes = round_weights(np.array([[-3, 2, 0]], np.float32), 1, 2)
    >>> planes[0, :, 0], steps, wholes
    (array([2, 3, 1], dtype=uint64), array([1.], dtype=float32), array([5.], dtype=float32))
    """
    padded = weights
    if weights.shape[1] != 64 * words or not weights.flags.c_contiguous:
        padded = np.zeros((len(weights), 64 * words), np.float32)
        padded[:, : weights.shape[1]] = weights
    planes = np.zeros((len(weights), 1 + precision, words), np.uint64)
    steps, wholes = np.zeros((2, len(weights)), np.float32)
    split(padded, planes, steps, wholes)
    if offsets is not None:
        steps = np.maximum(steps, LEAST_STEP)
        wholes += offsets / steps
    return planes, steps, wholes


@inline
def _magnitudes(sizes, at, inverse, top):
    x = minimum(load(sizes, at) * f32x16(inverse), f32x16(top))
    return (x + f32x16(WHOLE)) - f32x16(WHOLE)


@inline
def _error(sizes, step, top):
    """The squared error of all magnitudes at one step."""
    error = f32x16(0.0)
    for at in range(0, sizes.size, 16):
        miss = fma(_magnitudes(sizes, at, 1 / step, top), f32x16(-step), load(sizes, at))
        error = fma(miss, miss, error)
    return total(error)


@inline
def _step(sizes, top):
    """The step of the smallest error; 0 where all weights are."""
    widest = sizes.max() / top
    best, least = widest, np.float32(np.inf)
    for i in range(TRIES if widest > 0 else 0):
        step = widest * np.float32(1 - i * (1 - LEAST) / (TRIES - 1))
        error = _error(sizes, step, top)
        if error < least:
            best, least = step, error
    return best


@inline
def _refit(sizes, whole):
    """The step that is best for these magnitudes: least squares."""
    both, own = 0.0, 0.0
    for j in range(sizes.size):
        both += sizes[j] * whole[j]
        own += whole[j] * whole[j]
    return both / own if own > 0 else 0.0


@kernel
def split(weights, planes, steps, wholes):
    """Planes, steps and sums of magnitudes of each row; planes begin as 0."""
    depth = planes.shape[1] - 1
    top = np.float32(2**depth - 1)
    whole = np.zeros(weights.shape[1], np.float32)
    for q in range(weights.shape[0]):
        sizes = np.abs(weights[q])
        step = _step(sizes, top)
        for at in range(0, sizes.size if step > 0 else 0, 16):
            store(whole, at, _magnitudes(sizes, at, 1 / step, top))
        steps[q] = _refit(sizes, whole) if step > 0 else 0
        for j in range(sizes.size if step > 0 else 0):
            bit, number = np.uint64(j % 64), np.uint64(whole[j])
            planes[q, 0, j // 64] |= np.uint64(weights[q, j] > 0) << bit
            wholes[q] += whole[j]
            for p in range(depth):
                one = (number >> np.uint64(depth - 1 - p)) & np.uint64(1)
                planes[q, 1 + p, j // 64] |= one << bit


HALF = np.uint64(32)  # a candidate is how far its score is from the top, then 32 bits of its row
NONE = np.uint64(2**64 - 1)
SIGN, REST = np.uint32(1 << 31), np.uint32(2**31 - 1)


def weighted_best(
    blocks: np.ndarray,
    count: int,
    alive: np.ndarray | None,
    weights: np.ndarray,
    factors: np.ndarray | None,
    k: int,
    *,
    precision: int = 4,
    offsets: np.ndarray | None = None,
    shifts: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and scores of the k largest weighted sums of each query, largest first, ties by row.

    Guarantee: what sorting all sums of the rounded weights would give, those sums exact but for
    two float32 products (with the step, then the factor), and for adding an offset or a shift.
    Where fewer than k rows may be found, row is -1 and score -inf; a row whose factor is NaN is
    not found.
    Parameters: blocks, count and alive as for `hamming_nearest`; weights, finite float32 (q, bits),
    bits at most 64 words; factors, float32 (count,) or None for 1; k, from 1 up; precision, bits
    of magnitude from 1 to 8; offsets, float32 (q,), what is added to a sum before its factor, and
    shifts, float32 (count,), what is added after it, or None for nothing.

    >>> blocks = np.zeros((1, 1, BLOCK), np.uint64)
    >>> blocks[0, 0, :3] = 3, 1, 0
    >>> weights = np.array([[3, -1]], np.float32)
    >>> weighted_best(blocks, 3, None, weights, None, 2)
    (array([[1, 0]]), array([[4., 2.]], dtype=float32))
    """
    rows = np.full((len(weights), k), -1, np.int64)
    scores = np.full((len(weights), k), -np.inf, np.float32)
    n_best = min(k, count)
    if n_best > 0:
        blocks, alive = frozen(blocks), marks(alive)
        factors, shifts = (
            frozen(np.empty(0, np.float32) if each is None else each) for each in (factors, shifts)
        )
        planes, steps, wholes = round_weights(weights, blocks.shape[1], precision, offsets)
        size = min(2 * n_best, count) + BLOCK
        step = max(1, min(ROOM // (8 * size), len(weights)))
        for start in range(0, len(weights), step):
            part, rank = slice(start, start + step), first_rank(n_best, count)
            found = np.empty((len(planes[part]), size), np.uint64)
            best(
                blocks, count, alive, factors, shifts, planes[part], steps[part], wholes[part],
                n_best, rank, found,
            )  # fmt: skip
            rows[part, :n_best], scores[part, :n_best] = listed(found[:, :n_best])
    return rows, scores


def listed(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Candidates in order, as rows and scores."""
    found = np.sort(found, axis=1)
    rows = np.where(found == NONE, -1, (found & np.uint64(2**32 - 1)).astype(np.int64))
    falling = (found >> HALF).astype(np.uint32)
    scores = np.where(falling & SIGN, falling, falling ^ REST).view(np.float32)
    return rows, np.where(found == NONE, np.float32(-np.inf), scores)


@inline
def _differing(blocks, block, ahead, planes, q):
    """S of a block's codes: the magnitudes of the weights whose sign differs from the bit.

    Prefetches the words of block `ahead`.
    """
    a = b = c = d = e = f = g = h = u64x8(0)
    at, later = block * blocks.shape[1] * 64, (ahead - block) * blocks.shape[1] * 64
    for plane in range(1, planes.shape[1]):
        a, b, c, d, e, f, g, h = a + a, b + b, c + c, d + d, e + e, f + f, g + g, h + h
        here = at
        for word in range(planes.shape[2]):
            soon = here + later + 16 * (plane - 1)
            prefetch(blocks, soon)  # while the planes return to a block, nothing new is read
            prefetch(blocks, soon + 8)
            if planes[q, plane, word] == 0:  # as high bits of the weights of short atoms are
                here += 64
                continue
            sign, mask = u64x8(planes[q, 0, word]), u64x8(planes[q, plane, word])
            a += popcount((load(blocks, here) ^ sign) & mask)
            b += popcount((load(blocks, here + 8) ^ sign) & mask)
            c += popcount((load(blocks, here + 16) ^ sign) & mask)
            d += popcount((load(blocks, here + 24) ^ sign) & mask)
            e += popcount((load(blocks, here + 32) ^ sign) & mask)
            f += popcount((load(blocks, here + 40) ^ sign) & mask)
            g += popcount((load(blocks, here + 48) ^ sign) & mask)
            h += popcount((load(blocks, here + 56) ^ sign) & mask)
            here += 64
    return narrow(a, b), narrow(c, d), narrow(e, f), narrow(g, h)


@inline
def _score(differing, whole, step, scale, shift, at):
    """shift + scale * step * (M - 2 S), the last exact."""
    sums = fma(floats(differing), f32x16(-2.0), f32x16(whole)) * f32x16(step)
    return fma(sums, load(scale, at), load(shift, at))


@inline
def _spread(column, count, first, last, out):
    """The numbers of blocks first to last - 1, and of the last block no more than there are."""
    if column.size:
        for i in range(64 * first, min(64 * last, count)):
            out[i - 64 * first] = column[i]


@inline
def _falling(word):
    """From the bits of a float32, a number that falls where the float rises, and back."""
    return word if word & SIGN else word ^ REST


@inline
def _take(hits, row, near, found, size):
    """Add the hits to the candidates."""
    words = near.view(np.uint32)
    while hits:
        i = count_trailing_zeros(hits)
        hits &= hits - np.uint64(1)
        near[i] += np.float32(0.0)  # makes -0 the 0 that it equals
        found[size] = (np.uint64(_falling(words[i])) << HALF) | np.uint64(row + i)
        size += 1
    return size


@inline
def _middle(found, size, n_best):
    """A number that `n_best` of these different ones do not exceed, by halving where it may lie."""
    low, high = np.uint64(0), NONE
    while True:
        half = low + ((high - low) >> np.uint64(1))
        below = 0
        for i in range(size):
            below += found[i] <= half
        if below == n_best:
            return half
        if below < n_best:
            low = half + np.uint64(1)
        else:
            high = half


@inline
def _cut(found, size, n_best):
    """Keep the first of the candidates, and say how many there are."""
    if size <= n_best:
        return size
    last, end = _middle(found, size, n_best), 0
    for i in range(size):
        one = found[i]
        found[end] = one  # without a branch: nothing could predict it
        end += one <= last
    return end


@inline
def _worst(found, size, near):
    """The smallest score of the candidates."""
    near.view(np.uint32)[0] = _falling(np.uint32(found[:size].max() >> HALF))
    return near[0]


@inline
def _visit(blocks, b, ahead, planes, q, step, whole, scale, shift, at, limit, near):
    """Write the scores of block b down where one is above the limit, and say which are."""
    s0, s1, s2, s3 = _differing(blocks, b, ahead, planes, q)
    x0 = _score(s0, whole, step, scale, shift, at)
    x1 = _score(s1, whole, step, scale, shift, at + 16)
    x2 = _score(s2, whole, step, scale, shift, at + 32)
    x3 = _score(s3, whole, step, scale, shift, at + 48)
    least = f32x16(limit)
    low = bits(x0 > least) | bits(x1 > least) << np.uint64(16)
    high = bits(x2 > least) | bits(x3 > least) << np.uint64(16)
    if low | high:
        store(near, 0, x0)
        store(near, 16, x1)
        store(near, 32, x2)
        store(near, 48, x3)
    return low | high << HALF


@inline
def _offer(
    blocks, first, last, count, alive, planes, q, step, whole, scale, shift, n_best, near, found,
    size, limit,
):  # fmt: skip
    """Offer blocks first to last - 1 to the candidates of query q; their number, and the limit."""
    for b in range(first, last):
        if alive.size and alive[b] == 0:
            continue
        hits = _visit(
            blocks, b, b + 2, planes, q, step, whole, scale, shift, 64 * (b - first), limit, near
        )
        if hits:
            size = _take(hits & allowed(alive, count, b), 64 * b, near, found, size)
            if size + 64 > found.size:
                size = _cut(found, size, n_best)
                limit = _worst(found, size, near)
    return size, limit


@kernel
def sweep(
    blocks, count, alive, factors, shifts, planes, steps, wholes, n_best, width, stride, found,
    sizes, limits,
):  # fmt: skip
    """Offer `width` blocks of every `stride` to all queries, whose sizes and limits go on."""
    last = (count + 63) // 64
    scale, near = np.ones(64 * width, np.float32), np.empty(64, np.float32)
    shift = np.zeros(64 * width, np.float32)
    for first in range(0, last, stride):
        end = min(first + width, last)
        _spread(factors, count, first, end, scale)
        _spread(shifts, count, first, end, shift)
        for q in range(planes.shape[0]):
            sizes[q], limits[q] = _offer(
                blocks, first, end, count, alive, planes, q, steps[q], wholes[q], scale, shift,
                n_best, near, found[q], sizes[q], limits[q],
            )  # fmt: skip


@kernel
def best(blocks, count, alive, factors, shifts, planes, steps, wholes, n_best, rank, found):
    """found[q, :n_best] = the n_best highest of query q, as candidates in no order, then NONE."""
    queries, tile = planes.shape[0], max(TILE // (planes.shape[2] * 512), 1)
    sizes, limits = np.zeros(queries, np.int64), np.full(queries, -np.inf, np.float32)
    near = np.empty(1, np.float32)
    if rank > 0:
        sweep(
            blocks, count, alive, factors, shifts, planes, steps, wholes, rank, ONE, STRIDE,
            found, sizes, limits,
        )  # fmt: skip
        for q in range(queries):
            if sizes[q] >= rank:
                limits[q] = _worst(found[q], _cut(found[q], sizes[q], rank), near)
            sizes[q] = 0
    sweep(
        blocks, count, alive, factors, shifts, planes, steps, wholes, n_best, tile, tile,
        found, sizes, limits,
    )  # fmt: skip
    for q in range(queries):
        if sizes[q] < n_best and limits[q] > -np.inf:  # the guess was too high: without it
            only = slice(q, q + 1)
            sizes[q], limits[q] = 0, -np.inf
            sweep(
                blocks, count, alive, factors, shifts, planes[only], steps[only], wholes[only],
                n_best, tile, tile, found[only], sizes[only], limits[only],
            )  # fmt: skip
        size = _cut(found[q], sizes[q], n_best)
        found[q, size:n_best] = NONE
