"""Agglomeration of n points by their n x n distances: spanning tree, chains, nearest neighbours.

Each merge is written as a member of either cluster and its height; `joined` numbers the clusters as
SciPy does: 0 to n - 1 are the points, n + t is what merge t made.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel

__all__ = [
    "chain",
    "cut",
    "diameters",
    "joined",
    "nearest_pairs",
    "point_tree",
    "spanning_tree",
]

AVERAGE = 1  # of `chain`; else the largest distance
CENTROID, DENSITY, WITHIN, SUM, SQUARES, LARGEST = 0, 1, 2, 3, 4, 5  # of `nearest_pairs`


@kernel
def spanning_tree(distances, first, second, heights):
    """The edges of a minimum spanning tree, by Prim's algorithm."""
    n = distances.shape[0]
    outside, near, gap = np.arange(1, n), np.zeros(n, np.int64), distances[0].copy()
    last = 0
    for t in range(n - 1):
        best, at = np.inf, 0
        row = distances[last]
        for k in range(n - 1 - t):
            j = outside[k]
            if row[j] < gap[j]:
                gap[j], near[j] = row[j], last
            if gap[j] < best:
                best, at = gap[j], k
        last = outside[at]
        first[t], second[t], heights[t] = near[last], last, gap[last]
        outside[at] = outside[n - 2 - t]


@kernel
def point_tree(points, first, second, heights):
    """The edges of a minimum spanning tree of points by Euclidean distance, in O(n) memory."""
    n, dimension = points.shape
    outside, near, gap = np.arange(1, n), np.zeros(n, np.int64), np.full(n, np.inf)
    last = 0
    for t in range(n - 1):
        best, at = np.inf, 0
        for k in range(n - 1 - t):
            j = outside[k]
            d = 0.0
            for c in range(dimension):
                d += (points[j, c] - points[last, c]) * (points[j, c] - points[last, c])
            if d < gap[j]:
                gap[j], near[j] = d, last
            if gap[j] < best:
                best, at = gap[j], k
        last = outside[at]
        first[t], second[t], heights[t] = near[last], last, np.sqrt(gap[last])
        outside[at] = outside[n - 2 - t]


@inline
def _nearest(row, m, self, preferred):
    """Nearest of the first m others; the preferred one if it is as near."""
    at = preferred
    best = row[preferred] if preferred >= 0 else np.inf
    for j in range(m):
        if row[j] < best and j != self:
            best, at = row[j], j
    if at < 0:
        at = 0 if self else 1
    return at


@inline
def _move(distances, source, target, m):
    """Give a cluster among the first m another row and column."""
    for j in range(m):
        distances[target, j] = distances[source, j]
    for j in range(m):
        distances[j, target] = distances[source, j]
    distances[target, target] = 0.0


@kernel
def chain(distances, kind, first, second, heights):
    """Merges of complete or average linkage by chains of nearest neighbours, in no order.

    Overwrites the distances: the clusters that are left have the first rows and columns.
    """
    n = distances.shape[0]
    size, leaf = np.ones(n), np.arange(n)
    stack, top = np.empty(n + 1, np.int64), 0
    for t in range(n - 1):
        m = n - t
        if top == 0:
            stack[0], top = 0, 1
        while True:
            x = stack[top - 1]
            before = stack[top - 2] if top > 1 else -1
            y = _nearest(distances[x], m, x, before)
            if y == before:
                break
            stack[top] = y
            top += 1
        top -= 2
        x, y = min(x, y), max(x, y)
        first[t], second[t], heights[t] = leaf[x], leaf[y], distances[x, y]
        total = size[x] + size[y]
        for j in range(m):
            a, b = distances[x, j], distances[y, j]
            c = (size[x] * a + size[y] * b) / total if kind == AVERAGE else max(a, b)
            distances[x, j] = c
        for j in range(m):
            distances[j, x] = distances[x, j]
        distances[x, x] = 0.0
        size[x], last = total, m - 1
        if y != last:
            _move(distances, last, y, m - 1)
            size[y], leaf[y] = size[last], leaf[last]
            for k in range(top):
                if stack[k] == last:
                    stack[k] = y


@inline
def _criterion(kind, distances, centre, size, inner, scale, i, j):
    """What is smallest for the pair of clusters to merge."""
    if kind >= SUM:
        return distances[centre[i], centre[j]]
    d = distances[i, j]
    if kind == DENSITY:
        return max(d, max(inner[i], inner[j])) / scale[size[i] + size[j]]
    if kind == WITHIN:
        return (d + inner[i] + inner[j]) / scale[size[i] + size[j]]
    return d


@inline
def _scan(kind, distances, centre, size, inner, scale, alive, m, i, near, bound):
    """The nearest neighbour of cluster i among all that are left."""
    best, at = np.inf, -1
    for k in range(m):
        j = alive[k]
        if j != i:
            c = _criterion(kind, distances, centre, size, inner, scale, i, j)
            if c < best or at < 0:
                best, at = c, j
    near[i], bound[i] = at, best


@inline
def _unite(kind, distances, inner, size, alive, m, x, y):
    """Distances of all clusters to the union of x and y, in row and column x."""
    a, b, apart = size[x], size[y], distances[x, y]
    for k in range(m):
        j = alive[k]
        if j in (x, y):
            continue
        p, q = distances[x, j], distances[y, j]
        if kind == DENSITY:
            c = max(p, q)
        elif kind == WITHIN:
            c = p + q
        else:
            c = max(0.0, (a * p + b * q - a * b * apart / (a + b)) / (a + b))
        distances[x, j] = c
        distances[j, x] = c
    if kind == DENSITY:
        inner[x] = max(apart, max(inner[x], inner[y]))
    elif kind == WITHIN:
        inner[x] += inner[y] + apart


@inline
def _recentre(kind, distances, spread, head, following, x, y):
    """Add to each member its distances to the other cluster; gives the member with the least."""
    a = head[x]
    while a >= 0:
        b = head[y]
        while b >= 0:
            d = distances[a, b]
            if kind == LARGEST:
                spread[a], spread[b] = max(spread[a], d), max(spread[b], d)
            else:
                added = d * d if kind == SQUARES else d
                spread[a] += added
                spread[b] += added
            b = following[b]
        a = following[a]
    best = -1
    for start in (head[x], head[y]):
        a = start
        while a >= 0:
            if best < 0 or spread[a] < spread[best] or (spread[a] == spread[best] and a < best):
                best = a
            a = following[a]
    return best


@kernel
def nearest_pairs(distances, kind, scale, first, second, heights):
    """Merges of linkages that are not reducible, in order, by lists of nearest neighbours.

    A cluster whose nearest neighbour was merged keeps the old distance as a lower bound, and looks
    for another neighbour only once that bound is the smallest of all (Muellner 2011). Of clustroids
    the distances stay as they are; the others overwrite them. scale[s] divides the criterion of a
    union of s points.
    """
    n = distances.shape[0]
    alive, centre, size = np.arange(n), np.arange(n), np.ones(n, np.int64)
    inner, spread = np.zeros(n), np.zeros(n)
    head, tail, following = np.arange(n), np.arange(n), np.full(n, -1)
    near, bound, stale = np.empty(n, np.int64), np.empty(n), np.zeros(n, np.bool_)
    for i in range(n):
        _scan(kind, distances, centre, size, inner, scale, alive, n, i, near, bound)
    for t in range(n - 1):
        m = n - t
        while True:
            i = alive[0]
            for k in range(1, m):
                if bound[alive[k]] < bound[i]:
                    i = alive[k]
            if not stale[i]:
                break
            _scan(kind, distances, centre, size, inner, scale, alive, m, i, near, bound)
            stale[i] = False
        x, y = min(i, near[i]), max(i, near[i])
        first[t], second[t], heights[t] = head[x], head[y], bound[i]
        if kind >= SUM:
            centre[x] = _recentre(kind, distances, spread, head, following, x, y)
        else:
            _unite(kind, distances, inner, size, alive, m, x, y)
        following[tail[x]], tail[x] = head[y], tail[y]
        size[x] += size[y]
        at = 0
        for k in range(m):
            if alive[k] != y:
                alive[at] = alive[k]
                at += 1
        near[x], bound[x], stale[x] = -1, np.inf, False
        for k in range(m - 1):
            j = alive[k]
            if j == x:
                continue
            c = _criterion(kind, distances, centre, size, inner, scale, x, j)
            if c < bound[x] or near[x] < 0:
                near[x], bound[x] = j, c
            if c < bound[j] or (c == bound[j] and (near[j] == x or near[j] == y)):
                near[j], bound[j], stale[j] = x, c, False
            elif near[j] == x or near[j] == y:
                stale[j] = True


@inline
def _root(parent, i):
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@kernel
def joined(first, second, heights, out):
    """Rows (cluster, cluster, height, size) of the merges in this order, the lower number first."""
    n = first.size + 1
    parent, node, size = np.arange(n), np.arange(n), np.ones(n, np.int64)
    for t in range(n - 1):
        a, b = _root(parent, first[t]), _root(parent, second[t])
        out[t, 0], out[t, 1] = min(node[a], node[b]), max(node[a], node[b])
        if size[a] < size[b]:
            a, b = b, a
        parent[b] = a
        size[a] += size[b]
        node[a] = n + t
        out[t, 2], out[t, 3] = heights[t], size[a]


@kernel
def cut(merges, applied, out):
    """Labels after the first merges, numbered by the first point of each cluster; their number."""
    n = out.size
    owner = np.arange(2 * n - 1)
    for t in range(applied - 1, -1, -1):
        owner[np.int64(merges[t, 0])] = owner[np.int64(merges[t, 1])] = owner[n + t]
    name, count = np.full(2 * n - 1, -1), 0
    for i in range(n):
        if name[owner[i]] < 0:
            name[owner[i]] = count
            count += 1
        out[i] = name[owner[i]]
    return count


@kernel
def diameters(distances, merges, out):
    """out[t] = largest distance within the cluster that merge t makes."""
    n = distances.shape[0]
    head, tail = np.full(2 * n - 1, -1), np.full(2 * n - 1, -1)
    following, inner = np.full(n, -1), np.zeros(2 * n - 1)
    for i in range(n):
        head[i] = tail[i] = i
    for t in range(n - 1):
        x, y = np.int64(merges[t, 0]), np.int64(merges[t, 1])
        largest, a = max(inner[x], inner[y]), head[x]
        while a >= 0:
            b = head[y]
            while b >= 0:
                largest = max(largest, distances[a, b])
                b = following[b]
            a = following[a]
        head[n + t], tail[n + t] = head[x], tail[y]
        following[tail[x]] = head[y]
        inner[n + t] = out[t] = largest
