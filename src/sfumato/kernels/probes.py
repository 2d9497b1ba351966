"""Keys to look up besides a query's own: the buckets that the query missed by the least.

A step moves one hash of a key to a neighbouring value: it adds steps[i] to the key and costs the
square of the distance to the edge that is crossed. A probe makes a set of steps, and costs their
sum.
"""

import numpy as np

from ._jit import inline, kernel
from .lanes import count_leading_zeros, count_trailing_zeros

__all__ = ["probe"]

MOST = 64  # steps that are considered, the cheapest: a set of them is one word


@inline
def _order(costs, order):
    """order = the places of the cheapest, as many as it holds, cheapest first."""
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
    """Queue a set of steps by its cost, if it is among those that can still be asked for."""
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
