"""Spread representations: signs of the v with W v = x whose largest entry is smallest, exactly.

The dual asks for the y with <x, y> = 1 whose f(y) = sum over j of |<w_j, y>| is smallest. f is
convex and linear between the planes <w_j, y> = 0, so a smallest one stands at a vertex, where d - 1
of those products are 0. As Barrodale and Roberts do for least absolute deviations, each step leaves
one plane along an edge that goes down, passes planes as long as f falls, and stops on the one where
it would rise again. At the end v_j is the bound times the sign of <w_j, y>, and on the d - 1 planes
whatever solves W v = x: between the bounds, since no edge goes down any more.
"""

import math

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import f64x8, fma, load, total

__all__ = ["spread"]

SLACK = 1e-9  # an edge that goes down by less than this is level
ZERO = 1e-12  # a plane that an edge nears by less than this is parallel to it


@kernel
def spread(atoms, vectors, most, steps, out):
    """out[r, j] = the side of v_j, +1 or -1, for x = vectors[r]; steps[r] = how many it took.

    atoms (d, L) float64 have the w_j as columns and span the space. A row that is not done after
    `most` steps (many planes through one vertex may lead it in circles) has steps[r] = most and the
    signs of the vertex it has reached. No vector, all zeros, has all sides -1.
    """
    d, length = atoms.shape
    edges = np.empty((d, d))  # row 0 is y; row i leaves plane i along all others
    planes = np.empty(d, np.int64)  # plane i is that of atom planes[i], or of no atom: -1
    level, slopes, pull = np.empty(length), np.empty(length), np.empty(d)
    side, inside = np.empty(length), np.empty(length, np.bool_)
    for r in range(vectors.shape[0]):
        steps[r] = 0
        side[:] = -1.0
        if _open(vectors[r], edges, planes):
            _times(atoms, edges[0], level)
            for j in range(length):
                side[j] = 1.0 if level[j] > 0 else -1.0
                inside[j] = False
            _pull(atoms, side, pull)
            steps[r] = _descend(atoms, most, edges, planes, level, slopes, side, inside, pull)
            for i in range(1, d):
                if planes[i] >= 0:
                    side[planes[i]] = 1.0 if _dot(pull, edges[i]) < 0 else -1.0
        for j in range(length):
            out[r, j] = np.float32(side[j])


@inline
def _descend(atoms, most, edges, planes, level, slopes, side, inside, pull):
    """From vertex to vertex until no edge goes down; how many edges that takes, at most `most`."""
    d, length = atoms.shape
    column = np.empty(d)
    for step in range(most):
        i, slope = _edge(edges, planes, pull, step > 4 * length)
        if i < 0:
            return step
        turn = -1.0 if slope > 0 else 1.0
        _times(atoms, edges[i], slopes)
        fall = -abs(slope) + (1.0 if planes[i] >= 0 else 0.0)
        e = _cross(atoms, turn, fall, level, slopes, side, inside, pull)
        if e < 0:
            break
        _land(atoms, i, e, turn, edges, planes, level, slopes, side, inside, pull, column)
    return most


@inline
def _open(x, edges, planes):
    """Start at y = x / |x|^2 with d - 1 planes that are no atom's, all at right angles to x."""
    d = x.size
    square = 0.0
    for i in range(d):
        square += np.float64(x[i]) * np.float64(x[i])
    if square == 0:
        return False
    first = np.float64(x[0])
    mirror = first + math.copysign(math.sqrt(square), first)
    half = square + abs(first) * math.sqrt(square)  # half the squared length of the mirror's normal
    for i in range(d):
        edges[0, i] = np.float64(x[i]) / square
        planes[i] = -1
    for k in range(1, d):
        share = np.float64(x[k]) / half
        edges[k, 0] = -share * mirror
        for i in range(1, d):
            edges[k, i] = (1.0 if i == k else 0.0) - share * np.float64(x[i])
    return True


@inline
def _times(atoms, y, out):
    for j in range(out.size):
        out[j] = 0.0
    for i in range(y.size):
        for j in range(out.size):
            out[j] += y[i] * atoms[i, j]


@inline
def _dot(a, b):
    whole = a.size // 8 * 8
    sums = f64x8(0.0)
    for i in range(0, whole, 8):
        sums = fma(load(a, i), load(b, i), sums)
    product = total(sums)
    for i in range(whole, a.size):
        product += a[i] * b[i]
    return product


@inline
def _pull(atoms, side, out):
    """out = the sum of side_j w_j: the gradient of f."""
    for i in range(out.size):
        out[i] = _dot(atoms[i], side)


@inline
def _add(atoms, j, weight, pull):
    for i in range(pull.size):
        pull[i] += weight * atoms[i, j]


@inline
def _edge(edges, planes, pull, careful):
    """The edge to take and the slope of f along it: of no atom's plane first, else the steepest.

    Where the walk is long, `careful` takes the first that goes down, which breaks most circles.
    """
    best, found, slope = SLACK, -1, 0.0
    for i in range(1, planes.size):
        along = _dot(pull, edges[i])
        gain = abs(along) - 1.0
        if planes[i] < 0:
            gain = 1e30 + abs(along)
        if gain > best:
            best, found, slope = gain, i, along
            if careful:
                break
    return found, slope


@inline
def _cross(atoms, turn, fall, level, slopes, side, inside, pull):
    """Pass planes in their order along the edge while f falls; the one to stop on, -1 if none."""
    while True:
        nearest, reach = -1, np.inf
        for j in range(side.size):
            rate = turn * slopes[j] * side[j]
            if not inside[j] and rate < -ZERO:
                distance = max(level[j] * side[j], 0.0) / -rate
                if distance < reach:
                    nearest, reach = j, distance
        if nearest < 0:
            return -1
        fall += 2 * abs(slopes[nearest])
        if fall >= 0:
            return nearest
        side[nearest] = -side[nearest]
        _add(atoms, nearest, 2 * side[nearest], pull)


@inline
def _land(atoms, i, e, turn, edges, planes, level, slopes, side, inside, pull, column):
    """Go along edge i to the plane of atom e, which takes the place of plane i."""
    far = -level[e] / slopes[e]
    for j in range(level.size):
        level[j] += far * slopes[j]
    level[e] = 0.0
    left = planes[i]
    if left >= 0:
        inside[left] = False
        side[left], level[left] = turn, far
        _add(atoms, left, turn, pull)
    _add(atoms, e, -side[e], pull)
    inside[e] = True
    planes[i] = e
    for k in range(column.size):
        column[k] = atoms[k, e]
    scale = 1.0 / slopes[e]
    for k in range(column.size):
        edges[i, k] *= scale
    for z in range(column.size):
        if z != i:
            share = _dot(column, edges[z])
            for k in range(column.size):
                edges[z, k] -= share * edges[i, k]
