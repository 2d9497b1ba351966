"""Bloom filters in rows of whole cache lines: filled, counted, and compared bit by bit.

Profiles in a row: items gathered by user, sorted, each once.
"""

import numpy as np

from sfumato.kernels.hash import ROW, row_slot
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import load, popcount, total, u64x8
from sfumato.kernels.top_k import offer

__all__ = [
    "arrange",
    "common",
    "common_of",
    "empty",
    "found",
    "gather",
    "insert",
    "keep",
    "ones",
    "positions",
    "settle",
    "shared",
    "shrunk",
    "tally",
]


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
    wide, whole = words.shape[1], queries.shape[0] & ~3
    for r in range(words.shape[0]):
        for u in range(0, whole, 4):
            out[u, r], out[u + 1, r], out[u + 2, r], out[u + 3, r] = _four(words, r, queries, u)
        for u in range(whole, queries.shape[0]):
            count = u64x8(0)
            for i in range(0, wide, 8):
                count += popcount(load(words, r * wide + i) & load(queries, u * wide + i))
            out[u, r] = total(count)


@kernel
def common_of(words, rows, others, positions, out):
    """out[i] = how many bits are set in both words[rows[i]] and others[positions[i]]."""
    wide = words.shape[1]
    for i in range(rows.size):
        count, here, there = u64x8(0), rows[i] * wide, positions[i] * wide
        for at in range(0, wide, 8):
            count += popcount(load(words, here + at) & load(others, there + at))
        out[i] = total(count)


@kernel
def empty(both, left, ones, slope, scale, least, out):
    """out[u, r] = left[u] - slope ones[r] + scale both[u, r], or least where that is more."""
    for u in range(both.shape[0]):
        for r in range(both.shape[1]):
            share = left[u] - slope * np.float64(ones[r]) + scale * np.float64(both[u, r])
            out[u, r] = least if share < least else share


@kernel
def shared(here, there, steep, logs):
    """logs[u, r] becomes here[u] + there[r] + steep logs[u, r]."""
    for u in range(logs.shape[0]):
        for r in range(logs.shape[1]):
            logs[u, r] = here[u] + there[r] + steep * logs[u, r]


@kernel
def shrunk(inner, both, a, v, left, b, w, right, weight, jaccard, out):
    """out[u, r] = the cosine, or jaccard, of inner s / (s + weight doubt), s = (left right)**2.

    a[u], b[r], both[u, r]: shares of bits that are empty in one filter, in the other, in both; v,
    w: variances of their bits; doubt: that of log(both / (a b)) by flips, times the number of bits.
    left, right: square roots of sizes.
    """
    for u in range(out.shape[0]):
        per_a, one = 1 / a[u], left[u] * left[u]
        for r in range(out.shape[1]):
            # A bit that is flipped in one tells of both where it is empty in the other.
            x, y = both[u, r] * per_a, both[u, r] / b[r]
            here, there = x * x + b[r] * (1 - 2 * x), y * y + a[u] * (1 - 2 * y)
            doubt = v * here + w * there + v * w  # times both**2, so that one quotient is enough
            root, square = left[u] * right[r], both[u, r] * both[u, r]
            cosine = inner[u, r] * root * square / (root * root * square + weight * doubt)
            out[u, r] = cosine
            if jaccard:
                other, common = right[r] * right[r], cosine * root
                out[u, r] = common / max(one + other - common, max(one, other))


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


@kernel
def keep(scores, first, barred, positions, best):
    """Offer scores[u, i], that of position first + i, to the heap of u, unless it is barred[u]."""
    for u in range(scores.shape[0]):
        rows, heap = positions[u], best[u]
        for i in range(scores.shape[1]):
            if scores[u, i] > heap[0] and first + i != barred[u]:
                offer(first + i, scores[u, i], rows, heap)


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


@kernel
def settle(starts, values):
    """Sort the hashes of each run, drop repeats, move all together; starts follows."""
    ends, scratch = np.empty(2 * MOST + 1, np.int32), np.empty(MOST, np.uint64)
    size = 0
    for c in range(starts.size - 1):
        first, last = starts[c], starts[c + 1]
        run = values[first:last]
        if run.size < 2 or run.size > MOST or not _spread(run, ends, scratch):
            run.sort()
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
