"""Tables of buckets: rows grouped by integer keys, and the rows that several buckets hold.

A run holds all tables one after the other. Table t has the distinct keys keys[first[t] : first[t +
1]], ascending; the rows of key k, ascending, are rows[starts[k] : starts[k + 1]].

Keys to look up besides a query's own: the buckets that the query missed by the least.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import count_leading_zeros, count_trailing_zeros

__all__ = ["clear", "combine", "extract", "find", "group", "mark", "merge", "probe", "sort"]

DIGIT = 11  # bits that one pass sorts by: its counters stay in the first cache


@kernel
def combine(codes, coefficients, out):
    """out[i, t] = sum over j of coefficients[t, j] codes[i, t rows + j], modulo 2**64."""
    tables, rows = coefficients.shape
    for i in range(out.shape[0]):
        for t in range(tables):
            key = np.uint64(0)
            for j in range(rows):
                key += coefficients[t, j] * np.uint64(np.int64(codes[i, t * rows + j]))
            out[i, t] = key


@kernel
def sort(keys, rows, spare_keys, spare_rows):
    """Keys ascending in place, each row beside its key; rows of one key keep their order."""
    positions = np.empty((1 << DIGIT) + 1, np.int64)
    varied = np.uint64(0)
    for i in range(keys.size):
        varied |= keys[i] ^ keys[0]
    for shift in range(0, 64, DIGIT):
        if (varied >> np.uint64(shift)) & np.uint64((1 << DIGIT) - 1):
            _pass(keys, rows, shift, positions, spare_keys, spare_rows)


@kernel  # not inlined: the compiler would unroll the loop and write it once for every digit
def _pass(keys, rows, shift, positions, spare_keys, spare_rows):
    """One stable pass by the digit at `shift`, and back."""
    low, digit = np.uint64(shift), np.uint64((1 << DIGIT) - 1)
    for d in range(positions.size):
        positions[d] = 0
    for i in range(keys.size):
        positions[((keys[i] >> low) & digit) + np.uint64(1)] += 1
    for d in range(1 << DIGIT):
        positions[d + 1] += positions[d]
    for i in range(keys.size):
        d = (keys[i] >> low) & digit
        spare_keys[positions[d]], spare_rows[positions[d]] = keys[i], rows[i]
        positions[d] += 1
    for i in range(keys.size):  # assigning slices would compile the text of an error, a second long
        keys[i], rows[i] = spare_keys[i], spare_rows[i]


@kernel
def group(keys, at, distinct, starts):
    """The distinct ones of sorted keys and at + where each begins; gives how many there are."""
    count = 0
    for i in range(keys.size):
        if i == 0 or keys[i] != keys[i - 1]:
            distinct[count] = keys[i]
            starts[count] = at + i
            count += 1
    return count


@inline
def _copy(source, low, high, out, at):
    for i in range(low, high):
        out[at + i - low] = source[i]
    return at + high - low


@kernel
def merge(
    first_a, keys_a, starts_a, rows_a, first_b, keys_b, starts_b, rows_b, first, keys, starts, rows
):
    """Two runs as one; rows of a come before those of b. Gives how many keys there are."""
    count = at = 0
    for t in range(first.size - 1):
        first[t] = count
        a, b = first_a[t], first_b[t]
        while a < first_a[t + 1] or b < first_b[t + 1]:
            left = b >= first_b[t + 1] or (a < first_a[t + 1] and keys_a[a] <= keys_b[b])
            right = a >= first_a[t + 1] or (b < first_b[t + 1] and keys_b[b] <= keys_a[a])
            keys[count], starts[count] = keys_a[a] if left else keys_b[b], at
            count += 1
            if left:
                at = _copy(rows_a, starts_a[a], starts_a[a + 1], rows, at)
                a += 1
            if right:
                at = _copy(rows_b, starts_b[b], starts_b[b + 1], rows, at)
                b += 1
    first[first.size - 1], starts[count] = count, at
    return count


@inline
def _position(keys, low, high, key):
    """Where the key stands in keys[low : high], or -1."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < end and keys[low] == key else -1


@kernel
def find(first, keys, queries, out):
    """out[q, t, p] = where key queries[q, t, p] stands among the keys of table t, or -1."""
    for q in range(queries.shape[0]):
        for t in range(queries.shape[1]):
            for p in range(queries.shape[2]):
                out[q, t, p] = _position(keys, first[t], first[t + 1], queries[q, t, p])


@kernel
def mark(first, keys, starts, rows, queries, marks):
    """Set bit i of marks[q] where row i is in a bucket that queries[q, t, p] names in table t."""
    for q in range(queries.shape[0]):
        for t in range(queries.shape[1]):
            for p in range(queries.shape[2]):
                k = _position(keys, first[t], first[t + 1], queries[q, t, p])
                if k >= 0:
                    for i in range(starts[k], starts[k + 1]):
                        row = np.uint64(rows[i])
                        marks[q, row >> np.uint64(6)] |= np.uint64(1) << (row & np.uint64(63))


@kernel
def clear(starts, positions, groups, marks):
    """Clear the bits positions[starts[g] : starts[g + 1]] of marks[q], g = groups[q] >= 0."""
    for q in range(groups.size):
        if groups[q] >= 0:
            for i in range(starts[groups[q]], starts[groups[q] + 1]):
                row = np.uint64(positions[i])
                marks[q, row >> np.uint64(6)] &= ~(np.uint64(1) << (row & np.uint64(63)))


@kernel
def extract(marks, ends, out):
    """The set bits of marks[q], ascending, from out[ends[q]] on; ends move behind the last."""
    for q in range(marks.shape[0]):
        at = ends[q]
        for w in range(marks.shape[1]):
            left = marks[q, w]
            while left:
                out[at] = 64 * w + count_trailing_zeros(left)
                at += 1
                left &= left - np.uint64(1)
        ends[q] = at


MOST = 64  # steps that are considered, the cheapest: a set of them is one word


@inline
def _order(costs, order):
    """order = the positions of the cheapest, as many as it holds, cheapest first."""
    size = 0
    for i in range(costs.size):
        j = min(size, order.size - 1)
        if size == order.size and not costs[i] < costs[order[j]]:
            continue
        while j > 0 and costs[i] < costs[order[j - 1]]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
        size = min(size + 1, order.size)


@inline
def _wait(cost, steps, head, size, waiting, sets):
    """Queue a set of steps by its cost, if it is among those that may still be requested."""
    if size == sets.size and not cost < waiting[size - 1]:
        return size
    j = min(size, sets.size - 1)
    while j > head and cost < waiting[j - 1]:
        waiting[j], sets[j] = waiting[j - 1], sets[j - 1]
        j -= 1
    waiting[j], sets[j] = cost, steps
    return min(size + 1, sets.size)


@inline
def _sum(steps, order, added, hashes):
    """What a set of steps adds to the key, and whether no hash is moved twice."""
    change, moved = np.uint64(0), np.uint64(0)
    while steps:
        i = order[count_trailing_zeros(steps)]
        bit = np.uint64(1) << np.uint64(i % hashes)
        if moved & bit:
            return change, False
        change, moved = change + added[i], moved | bit
        steps &= steps - np.uint64(1)
    return change, True


@kernel
def probe(keys, costs, steps, hashes, out):
    """out[q, t] = keys[q, t] and the keys of the cheapest sets of steps, cheapest first.

    costs[q, t, i] and steps[q, t, i] are those of moving hash i % hashes. Sets are visited in the
    order of their cost: from each, one follows in which the dearest step is replaced by the next
    and one to which the next is added (Lv et al. 2007). Where sets end, the own key is repeated.
    """
    count = min(costs.shape[2], MOST)
    order = np.empty(count, np.int64)
    room = 4 * out.shape[2] + 4
    waiting, sets = np.empty(room), np.empty(room, np.uint64)
    for q in range(keys.shape[0]):
        for t in range(keys.shape[1]):
            out[q, t, :] = keys[q, t]
            _order(costs[q, t], order)
            waiting[0], sets[0] = costs[q, t, order[0]], np.uint64(1)
            head, size, made = 0, 1, 1
            while made < out.shape[2] and head < size:
                cost, one = waiting[head], sets[head]
                head += 1
                change, fine = _sum(one, order, steps[q, t], hashes)
                if fine:
                    out[q, t, made] = keys[q, t] + change
                    made += 1
                last = 63 - count_leading_zeros(one)
                if last + 1 < count:
                    added = costs[q, t, order[last + 1]]
                    top, further = np.uint64(1) << np.uint64(last), np.uint64(2) << np.uint64(last)
                    shifted = cost - costs[q, t, order[last]] + added
                    size = _wait(shifted, (one ^ top) | further, head, size, waiting, sets)
                    size = _wait(cost + added, one | further, head, size, waiting, sets)
