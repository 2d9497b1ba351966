"""Triangles of an undirected graph: each edge points to its end of larger degree, and lists are
compared once.
"""

import numpy as np

from sfumato.kernels.hash import mix
from sfumato.kernels.jit import inline, kernel

__all__ = ["count", "edge_hashes", "orient"]


@inline
def _points_up(a, b, degrees):
    return degrees[a] < degrees[b] or (degrees[a] == degrees[b] and a < b)


@kernel
def orient(first, second, degrees, offsets, edges, members):
    """List each edge at its end of smaller degree: members[offsets[u]:offsets[u + 1]] are the ends
    of larger degree, ties by number, and edges[...] the rows of the edges. offsets starts as 0.
    """
    for e in range(first.size):
        low = first[e] if _points_up(first[e], second[e], degrees) else second[e]
        offsets[low + 1] += 1
    for u in range(offsets.size - 1):
        offsets[u + 1] += offsets[u]
    for e in range(first.size):
        low, high = first[e], second[e]
        if not _points_up(low, high, degrees):
            low, high = high, low
        at = offsets[low]
        members[at] = high
        edges[at] = e
        offsets[low] = at + 1
    for u in range(offsets.size - 1, 0, -1):
        offsets[u] = offsets[u - 1]
    offsets[0] = 0


@kernel
def count(offsets, members, edges, places, out):
    """out[e] += triangles of edge e; returns their number. places[u] starts as -1 for every node.

    A list is no longer than the square root of twice the number of edges, so the time is at most
    that times the number of edges.
    """
    total = 0
    for u in range(offsets.size - 1):
        begin, end = offsets[u], offsets[u + 1]
        if end - begin < 2:
            continue
        for k in range(begin, end):
            places[members[k]] = k
        for k in range(begin, end):
            v = members[k]
            for j in range(offsets[v], offsets[v + 1]):
                at = places[members[j]]
                if at >= 0:
                    out[edges[k]] += 1
                    out[edges[j]] += 1
                    out[edges[at]] += 1
                    total += 1
        for k in range(begin, end):
            places[members[k]] = -1
    return total


@kernel
def edge_hashes(ends, out):
    """out[i] = hash of the edge between two hashed nodes, whose order does not matter; rows of
    `ends` are left with the smaller first.
    """
    for i in range(out.size):
        low, high = min(ends[i, 0], ends[i, 1]), max(ends[i, 0], ends[i, 1])
        ends[i, 0] = low
        ends[i, 1] = high
        out[i] = mix(mix(low) + np.uint64(3) * high)
