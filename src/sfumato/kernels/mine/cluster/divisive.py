"""Divisive clustering by distances: the widest cluster is split by a splinter group (DIANA)."""

import numpy as np

from sfumato.kernels.jit import inline, kernel

__all__ = ["divide"]


@inline
def _farthest(distances, order, low, high, i):
    """The member of order[low:high] that is farthest from point i."""
    best = order[low]
    for k in range(low, high):
        if distances[i, order[k]] > distances[i, best]:
            best = order[k]
    return best


@inline
def _swap(order, a, b):
    order[a], order[b] = order[b], order[a]


@inline
def _splinter(distances, order, low, high, rest, splinter):
    """Move the splinter group to the end of order[low:high]; gives where it begins.

    rest[i] is the sum of distances of i to those that are not in the group, splinter[i] to those
    that are. It begins with the point of the largest mean distance, and takes the point that is
    most nearer to the group than to the rest, as long as there is one. Of equal ones it is the
    last: the first is the farthest of many, which would all have to find another.
    """
    for k in range(low, high):
        splinter[order[k]] = 0.0
    middle = high
    while middle - low > 1:
        best, at = -np.inf, -1
        for k in range(low, middle):
            i = order[k]
            gain = rest[i] / (middle - low - 1)
            if middle < high:
                gain -= splinter[i] / (high - middle)
            if gain >= best and (gain > 0.0 or middle == high):
                best, at = gain, k
        if at < 0:
            break
        middle -= 1
        _swap(order, at, middle)
        moved = distances[order[middle]]
        for k in range(low, high):
            i = order[k]
            rest[i] -= moved[i]
            splinter[i] += moved[i]
    return middle


@kernel
def divide(distances, first, second, heights):
    """Splits of the cluster with the largest diameter, from one cluster to n; each as a merge.

    A split is written as a member of either part and the diameter of what was split, first to last.
    """
    n = distances.shape[0]
    order, far = np.arange(n), np.empty(n, np.int64)
    rest, splinter = np.empty(n), np.zeros(n)
    low, high, width = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n)
    high[0] = n
    for i in range(n):
        rest[i] = distances[i].sum()
        far[i] = _farthest(distances, order, 0, n, i)
        width[0] = max(width[0], distances[i, far[i]])
    group = np.zeros(n, np.int64)
    for t in range(n - 1):
        widest = -1
        for g in range(t + 1):
            if high[g] - low[g] > 1 and (widest < 0 or width[g] > width[widest]):
                widest = g
        start, end = low[widest], high[widest]
        middle = _splinter(distances, order, start, end, rest, splinter)
        for k in range(middle, end):
            rest[order[k]] = splinter[order[k]]
            group[order[k]] = t + 1
        first[t], second[t], heights[t] = order[start], order[middle], width[widest]
        high[widest], low[t + 1], high[t + 1] = middle, middle, end
        for g in (widest, t + 1):
            width[g] = 0.0
            for k in range(low[g], high[g]):
                i = order[k]
                if group[far[i]] != g:
                    far[i] = _farthest(distances, order, low[g], high[g], i)
                width[g] = max(width[g], distances[i, far[i]])
