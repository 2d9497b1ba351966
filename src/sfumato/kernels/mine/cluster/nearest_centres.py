"""Nearest centres of points, sixteen float32 or eight float64 points abreast in vector lanes.

Rows are copied into panels, column after column: panel[j * rows + r] is column j of row r, with as
many rows as fill four vectors. So the lanes are points, the smallest distance is found without a
sum across lanes, and any number of columns and centres runs at the same speed per product.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import fma, load, maximum, minimum, select, store

__all__ = ["assign", "nearest", "nearest_scaled", "sum_steps", "summarise", "within"]

PANEL = 256  # bytes of a column of a panel: four vectors


@inline
def _pack(points, queue, filled, rows, panel):
    """Copy the queued rows into a panel; the last one fills what is left."""
    for r in range(rows):
        i = queue[min(r, filled - 1)]
        for j in range(points.shape[1]):
            panel[j * rows + r] = points[i, j]


@inline
def _closest(panel, rows, centres, zero, best, second, index):
    """Smallest and second smallest squared distance of each row of a panel, and which is smallest.

    The first of equal centres counts as the smallest.
    """
    lanes = rows // 4
    b0 = b1 = b2 = b3 = s0 = s1 = s2 = s3 = zero + np.inf
    i0 = i1 = i2 = i3 = zero
    for c in range(centres.shape[0]):
        d0 = d1 = d2 = d3 = zero
        at = 0
        for j in range(centres.shape[1]):
            value = zero + centres[c, j]
            t0, t1 = load(panel, at) - value, load(panel, at + lanes) - value
            t2, t3 = load(panel, at + 2 * lanes) - value, load(panel, at + 3 * lanes) - value
            d0, d1, d2, d3 = fma(t0, t0, d0), fma(t1, t1, d1), fma(t2, t2, d2), fma(t3, t3, d3)
            at += rows
        s0, s1 = minimum(s0, maximum(d0, b0)), minimum(s1, maximum(d1, b1))
        s2, s3 = minimum(s2, maximum(d2, b2)), minimum(s3, maximum(d3, b3))
        here = zero + c
        i0, i1 = select(d0 < b0, here, i0), select(d1 < b1, here, i1)
        i2, i3 = select(d2 < b2, here, i2), select(d3 < b3, here, i3)
        b0, b1, b2, b3 = minimum(d0, b0), minimum(d1, b1), minimum(d2, b2), minimum(d3, b3)
    _write(best, lanes, b0, b1, b2, b3)
    _write(second, lanes, s0, s1, s2, s3)
    _write(index, lanes, i0, i1, i2, i3)


@inline
def _write(out, lanes, a, b, c, d):
    store(out, 0, a)
    store(out, lanes, b)
    store(out, 2 * lanes, c)
    store(out, 3 * lanes, d)


@inline
def _shift(points, weights, i, old, new, sums, masses, counts):
    """Move row i from the sums of one cluster to those of another; -1 is no cluster."""
    weight = weights[i] if weights.size else 1.0
    if old >= 0:
        counts[old] -= 1
        masses[old] -= weight
        for j in range(points.shape[1]):
            sums[old, j] -= weight * points[i, j]
    counts[new] += 1
    masses[new] += weight
    for j in range(points.shape[1]):
        sums[new, j] += weight * points[i, j]


@kernel
def assign(
    points, weights, centres, moved, far, near, slack, labels, upper, lower, sums, masses, counts
):
    """Move each row to its nearest centre, and its sums; return how many rows changed.

    Bounds on distances (Hamerly 2010) skip a row whose centre must still be the nearest: upper[i]
    is at least its distance to its centre, lower[i] at most that to any other. Centre a has moved
    by at most moved[a] since, every other one by at most far[a], and near[a] is at most half the
    distance to the next centre. slack: the relative rounding error of a distance. Labels of -1 are
    of rows that are in no cluster yet. masses: sums of weights; counts: numbers of rows.
    """
    rows = PANEL // points.itemsize
    panel, zero = np.empty(rows * points.shape[1], points.dtype), np.zeros(rows, points.dtype)
    best, second, index = np.empty_like(zero), np.empty_like(zero), np.empty_like(zero)
    queue = np.empty(rows, np.int64)
    filled = changed = 0
    for i in range(points.shape[0] + 1):
        if i < points.shape[0]:
            own = labels[i]
            if own >= 0:
                upper[i] += moved[own]
                lower[i] -= far[own]
                if upper[i] <= max(lower[i], near[own]):
                    continue
            queue[filled] = i
            filled += 1
        if filled == rows or (filled > 0 and i == points.shape[0]):
            _pack(points, queue, filled, rows, panel)
            _closest(panel, rows, centres, load(zero, 0), best, second, index)
            for r in range(filled):
                at, new = queue[r], np.int64(index[r])
                upper[at] = np.sqrt(best[r]) * (1 + slack)
                lower[at] = np.sqrt(second[r]) * (1 - slack)
                if new != labels[at]:
                    _shift(points, weights, at, labels[at], new, sums, masses, counts)
                    labels[at] = new
                    changed += 1
            filled = 0
    return changed


@kernel
def nearest(points, centres, labels, squared):
    """labels[i]: the nearest centre of row i, the first of equal ones; squared[i]: the distance."""
    rows = PANEL // points.itemsize
    panel, zero = np.empty(rows * points.shape[1], points.dtype), np.zeros(rows, points.dtype)
    best, second, index = np.empty_like(zero), np.empty_like(zero), np.empty_like(zero)
    queue = np.empty(rows, np.int64)
    for start in range(0, points.shape[0], rows):
        filled = min(rows, points.shape[0] - start)
        for r in range(filled):
            queue[r] = start + r
        _pack(points, queue, filled, rows, panel)
        _closest(panel, rows, centres, load(zero, 0), best, second, index)
        for r in range(filled):
            labels[start + r] = np.int64(index[r])
            squared[start + r] = best[r]


@kernel
def nearest_scaled(points, centres, scales, labels, squared):
    """As `nearest`, for sums of squares of (x[j] - centre[c, j]) * scale[c, j]."""
    rows, d = PANEL // points.itemsize, points.shape[1]
    lanes = rows // 4
    panel, zeros = np.empty(rows * d, points.dtype), np.zeros(rows, points.dtype)
    best, index, queue = np.empty_like(zeros), np.empty_like(zeros), np.empty(rows, np.int64)
    for start in range(0, points.shape[0], rows):
        filled = min(rows, points.shape[0] - start)
        for r in range(filled):
            queue[r] = start + r
        _pack(points, queue, filled, rows, panel)
        zero = load(zeros, 0)
        for part in range(0, rows, 2 * lanes):
            b0 = b1 = zero + np.inf
            i0 = i1 = zero
            for c in range(centres.shape[0]):
                d0 = d1 = zero
                at = part
                for j in range(d):
                    value, scale = zero + centres[c, j], zero + scales[c, j]
                    t0 = (load(panel, at) - value) * scale
                    t1 = (load(panel, at + lanes) - value) * scale
                    d0, d1 = fma(t0, t0, d0), fma(t1, t1, d1)
                    at += rows
                here = zero + c
                i0, i1 = select(d0 < b0, here, i0), select(d1 < b1, here, i1)
                b0, b1 = minimum(d0, b0), minimum(d1, b1)
            store(best, part, b0)
            store(best, part + lanes, b1)
            store(index, part, i0)
            store(index, part + lanes, i1)
        for r in range(filled):
            labels[start + r] = np.int64(index[r])
            squared[start + r] = best[r]


@kernel
def within(points, weights, centres, labels, squared):
    """squared[i]: the squared distance of row i to the centre of its label; return their sum."""
    total = 0.0
    for i in range(points.shape[0]):
        own, first, other = labels[i], 0.0, 0.0
        for j in range(0, points.shape[1] - 1, 2):
            a = np.float64(points[i, j]) - centres[own, j]
            b = np.float64(points[i, j + 1]) - centres[own, j + 1]
            first, other = first + a * a, other + b * b
        if points.shape[1] & 1:
            a = np.float64(points[i, points.shape[1] - 1]) - centres[own, points.shape[1] - 1]
            first += a * a
        squared[i] = first + other
        total += (weights[i] if weights.size else 1.0) * (first + other)
    return total


@kernel
def summarise(points, labels, origin, counts, sums, squares):
    """Add each row to N, SUM and SUMSQ of its cluster, about an origin; none where it is -1."""
    for i in range(points.shape[0]):
        own = labels[i]
        if own < 0:
            continue
        counts[own] += 1
        for j in range(points.shape[1]):
            value = np.float64(points[i, j]) - origin[j]
            sums[own, j] += value
            squares[own, j] += value * value


@kernel
def sum_steps(steps, labels, squares, cells):
    """Add 1, the integers of a row and, if wanted, their squares to the cells of its cluster.

    cells[c] has N, then SUM and SUMSQ of each column; squares: what the squares are divided by,
    rounded down; 0 for none.
    """
    d = steps.shape[1]
    for i in range(steps.shape[0]):
        own = labels[i]
        cells[own, 0] += 1
        for j in range(d):
            cells[own, 1 + j] += steps[i, j]
        if squares:
            for j in range(d):
                cells[own, 1 + d + j] += steps[i, j] * steps[i, j] // squares
