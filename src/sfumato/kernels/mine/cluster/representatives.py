"""Clusters as scattered representatives: merging by the nearest ones, assigning points (CURE)."""

import numpy as np

from sfumato.kernels.jit import inline, kernel

__all__ = ["merge", "nearest"]


@inline
def _squared(a, b):
    total = 0.0
    for k in range(a.size):
        total += (a[k] - b[k]) * (a[k] - b[k])
    return total


@inline
def _apart(places, counts, centres, radii, i, j, limit):
    """Smallest squared distance of representatives of two clusters; inf if it is not below limit.

    Two balls around the centres contain them, so most pairs are not looked at.
    """
    between = np.sqrt(_squared(centres[i], centres[j])) - radii[i] - radii[j]
    if between > 0.0 and between * between * (1 - 1e-12) >= limit:
        return np.inf
    best = limit
    for a in range(counts[i]):
        for b in range(counts[j]):
            best = min(best, _squared(places[i, a], places[j, b]))
    return best if best < limit else np.inf


@inline
def _scan(places, counts, centres, radii, alive, m, i, near, bound):
    """The nearest cluster to cluster i."""
    best, at = np.inf, -1
    for k in range(m):
        j = alive[k]
        if j != i:
            c = _apart(places, counts, centres, radii, i, j, best)
            if c < best or at < 0:
                best, at = c, j
    near[i], bound[i] = at, best


@inline
def _scatter(points, members, size, centre, shrink, places, gap):
    """Choose members far apart, the first far from the centre, and move them towards it.

    Gives how many were chosen and the largest distance of one to the centre.
    """
    for k in range(size):
        gap[k] = _squared(points[members[k]], centre)
    count, radius = 0, 0.0
    while count < min(size, places.shape[0]):
        at = 0
        for k in range(1, size):
            if gap[k] > gap[at]:
                at = k
        if count > 0 and gap[at] == 0.0:
            break  # all others are copies of those chosen
        chosen = points[members[at]]
        for k in range(size):
            d = _squared(points[members[k]], chosen)
            gap[k] = d if count == 0 else min(gap[k], d)
        for k in range(centre.size):
            places[count, k] = chosen[k] + shrink * (centre[k] - chosen[k])
        radius = max(radius, _squared(places[count], centre))
        count += 1
    return count, np.sqrt(radius)


@inline
def _collect(start, following, members):
    """The members of a list."""
    at = 0
    while start >= 0:
        members[at] = start
        at += 1
        start = following[start]


@inline
def _remove(alive, m, y):
    at = 0
    for k in range(m):
        if alive[k] != y:
            alive[at] = alive[k]
            at += 1
    return at


@inline
def _compare(places, counts, centres, radii, alive, m, x, y, near, bound, stale):
    """Compare the union x of x and y with all; those that were near to them have to search."""
    near[x], bound[x], stale[x] = -1, np.inf, False
    for k in range(m):
        j = alive[k]
        if j == x:
            continue
        c = _apart(places, counts, centres, radii, x, j, max(bound[x], bound[j]))
        if c < bound[x] or near[x] < 0:
            near[x], bound[x] = j, c
        if c < bound[j]:
            near[j], bound[j], stale[j] = x, c, False
        elif near[j] == x or near[j] == y:
            stale[j] = True


@kernel
def merge(points, labels, shrink, goal, threshold, places, counts):
    """Scatter representatives in each cluster, merge those with the nearest; gives their number.

    It ends at `goal` clusters, or before a pair that is farther apart than the threshold. Cluster g
    then has the representatives places[g, :counts[g]]. labels[i], -1 for none, becomes the new one.
    """
    n, m = points.shape[0], counts.size
    alive, size = np.arange(m), np.zeros(m, np.int64)
    centres, radii = np.zeros((m, points.shape[1])), np.zeros(m)
    head, tail, following = np.full(m, -1), np.full(m, -1), np.full(n, -1)
    near, bound, stale = np.empty(m, np.int64), np.empty(m), np.zeros(m, np.bool_)
    members, gap = np.empty(n, np.int64), np.empty(n)
    for i in range(n):
        g = labels[i]
        if g < 0:
            continue
        if size[g]:
            following[tail[g]] = i
        else:
            head[g] = i
        tail[g] = i
        size[g] += 1
        for k in range(points.shape[1]):
            centres[g, k] += (points[i, k] - centres[g, k]) / size[g]
    for g in range(m):
        _collect(head[g], following, members)
        counts[g], radii[g] = _scatter(points, members, size[g], centres[g], shrink, places[g], gap)
    for g in range(m):
        _scan(places, counts, centres, radii, alive, m, g, near, bound)
    while m > goal:
        while True:
            x = alive[0]
            for k in range(1, m):
                if bound[alive[k]] < bound[x]:
                    x = alive[k]
            if not stale[x]:
                break
            _scan(places, counts, centres, radii, alive, m, x, near, bound)
            stale[x] = False
        if np.sqrt(bound[x]) > threshold:
            break
        x, y = min(x, near[x]), max(x, near[x])
        total = size[x] + size[y]
        for k in range(points.shape[1]):
            centres[x, k] += (centres[y, k] - centres[x, k]) * (size[y] / total)
        following[tail[x]], tail[x], size[x] = head[y], tail[y], total
        _collect(head[x], following, members)
        counts[x], radii[x] = _scatter(points, members, total, centres[x], shrink, places[x], gap)
        m = _remove(alive, m, y)
        _compare(places, counts, centres, radii, alive, m, x, y, near, bound, stale)
    for k in range(m):
        a = head[alive[k]]
        while a >= 0:
            labels[a] = k
            a = following[a]
        places[k], counts[k] = places[alive[k]], counts[alive[k]]
    return m


@kernel
def nearest(points, places, owners, out):
    """out[i] = owner of the place that is nearest to point i; places has a column for each."""
    dimension, count = places.shape
    gaps = np.empty(count)
    for i in range(out.size):
        x = points[i, 0]
        for j in range(count):
            gaps[j] = (places[0, j] - x) * (places[0, j] - x)
        for k in range(1, dimension):
            x = points[i, k]
            for j in range(count):
                gaps[j] += (places[k, j] - x) * (places[k, j] - x)
        best = 0
        for j in range(1, count):
            if gaps[j] < gaps[best]:
                best = j
        out[i] = owners[best]
