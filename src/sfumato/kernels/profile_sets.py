"""Bloom filters in rows of whole cache lines: filled, counted, compared bit by bit, and searched.

Profiles in a row: items gathered by user, sorted, each once.
"""

import math

import numpy as np

from sfumato.kernels.hash import ROW, row_slot
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import load, popcount, prefetch, total, u64x8
from sfumato.kernels.top_k import offer, order

__all__ = [
    "arrange",
    "common",
    "found",
    "gather",
    "insert",
    "nearest",
    "ones",
    "positions",
    "settle",
    "tally",
]

AHEAD = 1 << 10  # words that are fetched before their turn
BLOCK = 1 << 11  # rows that are compared with all queries while they are in the cache


@kernel
def positions(hashes, bits, out):
    """out[i, j] = the j-th position of the item of this hash."""
    for i in range(hashes.size):
        for j in range(out.shape[1]):
            out[i, j] = row_slot(hashes[i] * ROW[j], np.uint64(bits))


@kernel
def insert(starts, hashes, bits, hashes_per_key, words):
    """Set the bits of the hashes from starts[r] to starts[r + 1] in words[r]."""
    for r in range(words.shape[0]):
        row = words[r]
        for i in range(starts[r], starts[r + 1]):
            for j in range(hashes_per_key):
                slot = row_slot(hashes[i] * ROW[j], np.uint64(bits))
                row[slot >> np.uint64(6)] |= np.uint64(1) << (slot & np.uint64(63))


@kernel
def ones(words, out):
    """out[r] = how many bits of words[r] are set; rows are whole cache lines."""
    rows, wide = words.shape
    for r in range(rows):
        count = u64x8(0)
        for at in range(r * wide, (r + 1) * wide, 8):
            count += popcount(load(words, at))
        out[r] = total(count)


@inline
def _one(words, r, others, u):
    """The bits that row r has in common with row u of the others."""
    wide, count = words.shape[1], u64x8(0)
    here, there = r * wide, u * wide
    for i in range(0, wide, 8):
        prefetch(words, here + i + AHEAD)
        count += popcount(load(words, here + i) & load(others, there + i))
    return total(count)


@inline
def _four(words, r, queries, u):
    """The bits that row r has in common with queries u to u + 3."""
    wide = words.shape[1]
    a = b = c = d = u64x8(0)
    here, at = r * wide, u * wide
    for i in range(0, wide, 8):
        line = load(words, here + i)
        a += popcount(line & load(queries, at + i))
        b += popcount(line & load(queries, at + wide + i))
        c += popcount(line & load(queries, at + 2 * wide + i))
        d += popcount(line & load(queries, at + 3 * wide + i))
    return total(a), total(b), total(c), total(d)


@kernel
def common(words, queries, out):
    """out[u, r] = how many bits are set in both words[r] and queries[u]; contiguous rows."""
    whole = queries.shape[0] & ~3
    for r in range(words.shape[0]):
        for u in range(0, whole, 4):
            out[u, r], out[u + 1, r], out[u + 2, r], out[u + 3, r] = _four(words, r, queries, u)
        for u in range(whole, queries.shape[0]):
            out[u, r] = _one(words, r, queries, u)


@kernel
def found(words, rows, positions, counts, out):
    """out[k, i] = how many of the first counts[i] positions[i] are set in words[rows[k]]."""
    for k in range(rows.size):
        row = words[rows[k]]
        for i in range(positions.shape[0]):
            hits = np.uint64(0)
            for j in range(counts[i]):
                position = np.uint64(positions[i, j])
                hits += row[position >> np.uint64(6)] >> (position & np.uint64(63)) & np.uint64(1)
            out[k, i] = hits


SIZE, EMPTY, LENGTH = range(1, 4)  # rows of `mine` and `kinds` that follow the first
SLOPE, SCALE, LEAST, STEEP, HERE, THERE, WEIGHT, METRIC = range(8)  # of `scale`
COSINE, JACCARD, INNER = range(3)


@kernel
def _rank(both, mine, kinds, kind, scale):
    """The shrunk similarity, or the common items, of a pair with this many bits in common.

    cosine = inner s / (s + weight doubt), s = (left right)**2. a, b, empty: shares of bits that are
    empty in one filter, in the other, in both; doubt: the variance of log(empty / (a b)) by flips,
    times the number of bits, from the variances v and w of bits here and there.
    """
    empty = mine[0] - scale[SLOPE] * kinds[0, kind] + scale[SCALE] * np.float64(both)
    empty = scale[LEAST] if empty < scale[LEAST] else empty
    inner = mine[SIZE] + kinds[SIZE, kind] + scale[STEEP] * math.log(empty)
    if scale[METRIC] == INNER:
        return inner
    a, b, v, w = mine[EMPTY], kinds[EMPTY, kind], scale[HERE], scale[THERE]
    left, right = mine[LENGTH], kinds[LENGTH, kind]
    # A bit that is flipped in one tells of both where it is empty in the other.
    x, y = empty * (1 / a), empty / b
    here, there = x * x + b * (1 - 2 * x), y * y + a * (1 - 2 * y)
    doubt = v * here + w * there + v * w  # times empty**2, so that one quotient is enough
    root, square = left * right, empty * empty
    cosine = inner * root * square / (root * root * square + scale[WEIGHT] * doubt)
    if scale[METRIC] == COSINE:
        return cosine
    one, other, common = left * left, right * right, cosine * root
    return common / max(one + other - common, max(one, other))


STEPS = 16  # that `_needed` goes at a time


@inline
def _needed(need, both, mine, kinds, kind, scale, worst):
    """At least `need`, at most both + 1: fewer bits in common rank no higher than `worst`.

    No rank is above 0 where the common items are estimated as 0 or fewer, so that the search starts
    there; it does not rely on ranks that grow with the bits in common.
    """
    if need == 0 and worst >= 0:
        empty = math.exp(-(mine[SIZE] + kinds[SIZE, kind]) / scale[STEEP])
        bits = (empty - mine[0] + scale[SLOPE] * kinds[0, kind]) / scale[SCALE]
        if bits > 1:
            need = np.int64(min(bits, np.float64(both))) - 1
    last = min(need + STEPS, both)
    while need < last and not _rank(need, mine, kinds, kind, scale) > worst:
        need += 1
    return need + 1 if need == both else need


@inline
def _consider(row, both, kind, mine, kinds, scale, barred, need, positions, best):
    """Offer the row, which has enough bits in common, to the heap; or raise what is enough."""
    rank = _rank(both, mine, kinds, kind, scale)
    if not rank > best[0]:
        need[kind] = _needed(np.int64(need[kind]), both, mine, kinds, kind, scale, best[0])
    elif row != barred:
        offer(row, rank, positions, best)


@kernel
def nearest(words, codes, queries, mine, kinds, scale, barred, both, need, positions, best):
    """positions[u], best[u] = the rows that rank highest for query u, and their ranks, best first.

    kinds[:, codes[r]]: ones of row r, estimated size, share of empty bits, root of the size;
    mine[u]: the same of the query, but first its part of the common empty bits. A row ranks by
    these and the bits in common alone, so that a list of the bits needed for each kind spares most
    rows the rank: need[u], zeros at first; both: scratch of 4. Ties go to the first row; row
    barred[u] is left out.
    """
    whole = queries.shape[0] // 4
    for first in range(0, words.shape[0], BLOCK):
        last = min(first + BLOCK, words.shape[0])
        for group in range(queries.shape[0] - 3 * whole):  # four queries each, then one each
            few, u = (4, 4 * group) if group < whole else (1, 3 * whole + group)
            for r in range(first, last):
                if few == 4:
                    both[0], both[1], both[2], both[3] = _four(words, r, queries, u)
                else:
                    both[0] = _one(words, r, queries, u)
                for q in range(u, u + few):
                    if both[q - u] >= need[q, codes[r]]:
                        _consider(
                            r, both[q - u], codes[r], mine[q], kinds, scale, barred[q], need[q],
                            positions[q], best[q],
                        )  # fmt: skip
    for u in range(queries.shape[0]):
        order(positions[u], best[u])


MOST = 4096  # values of a run that are spread over as many buckets; longer runs are just sorted
CROWD = 16  # values in a bucket beyond which they were not uniform


@kernel
def tally(codes, starts):
    """starts[c + 1] += how many rows have code c."""
    for i in range(codes.size):
        starts[codes[i] + 1] += 1


@kernel
def gather(codes, positions, values, ends, out):
    """out[starts[c] : starts[c + 1]] = values[positions] of the rows of code c; ends starts so."""
    for i in range(codes.size):
        out[ends[codes[i]]] = values[positions[i]]
        ends[codes[i]] += 1


@inline
def _spread(run, ends, scratch):
    """Sort hashes by buckets of their first bits, about one each; False where they crowd."""
    digits = 0
    while (1 << digits) < run.size:
        digits += 1
    shift, buckets, most = np.uint64(64 - digits), 1 << digits, 0
    ends[: buckets + 1] = 0
    for i in range(run.size):
        ends[(run[i] >> shift) + np.uint64(1)] += 1
    for b in range(1, buckets + 1):
        most = max(most, ends[b])
        ends[b] += ends[b - 1]
    if most > CROWD:
        return False
    for i in range(run.size):
        bucket = run[i] >> shift
        scratch[ends[bucket]] = run[i]
        ends[bucket] += 1
    for i in range(run.size):
        j = i
        while j > 0 and run[j - 1] > scratch[i]:
            run[j] = run[j - 1]
            j -= 1
        run[j] = scratch[i]
    return True


@inline
def _sink(value, at, size, run):
    """Put the value in at `at` and let it sink below all that are larger, in run[:size]."""
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and run[child + 1] > run[child]:
            child += 1
        if run[child] <= value:
            break
        run[at] = run[child]
        at = child
    run[at] = value


@inline
def _sort(run):
    """Sort in place by a heap: for hashes that are not uniform, in as little code as possible."""
    for step in range(run.size // 2 + run.size):
        heap = step < run.size // 2
        at = run.size // 2 - 1 - step if heap else 0
        size = run.size if heap else run.size // 2 + run.size - 1 - step
        value = run[at if heap else size]
        if not heap:
            run[size] = run[0]
        _sink(value, at, size, run)


@kernel
def settle(starts, values, ends, scratch):
    """Sort the hashes of each run, drop repeats, move all together; starts follows.

    ends, scratch: of 2 MOST + 1 and MOST cells, or fewer where no run is as long.
    """
    size = 0
    for c in range(starts.size - 1):
        first, last = starts[c], starts[c + 1]
        run = values[first:last]
        if run.size < 2 or run.size > scratch.size or not _spread(run, ends, scratch):
            _sort(run)
        starts[c] = size
        for i in range(first, last):
            if i == first or values[i] != values[size - 1]:
                values[size] = values[i]
                size += 1
    starts[starts.size - 1] = size


@kernel
def arrange(starts, values, order, new_starts, out):
    """The run order[c] of the values becomes the run c of out; an order of -1 stands for none."""
    for c in range(order.size):
        if order[c] >= 0:
            at = starts[order[c]]
            for i in range(new_starts[c], new_starts[c + 1]):
                out[i] = values[at]
                at += 1
