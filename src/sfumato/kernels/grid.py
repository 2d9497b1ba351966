"""Grids of nodes in up to three dimensions: points shared among them, fields read between them.

Arrays have three axes; an axis that is not in use has one node, and `spans` says how many nodes
along each axis a point or a query meets.
"""

import numpy as np

from ._jit import inline, kernel

PLACE_BITS = 10  # binary digits of a place between two nodes


@kernel
def share(steps, weights, bits, spans, table):
    """Every point adds weight 2**(bits axes) in all to the nodes around it, as B-splines do.

    steps: places (n, 3) in whole steps, 2**PLACE_BITS from node to node. Along each axis in use the
    nearest node and its two neighbours get whole parts of 2**bits: those of the quadratic spline,
    rounded, and what is left for the nearest.
    """
    half = 1 << (PLACE_BITS - 1)
    parts = np.empty((3, 3), np.int64)
    first = np.empty(3, np.int64)
    for i in range(len(steps)):
        for axis in range(3):
            near = (steps[i, axis] + half) >> PLACE_BITS
            far = steps[i, axis] - (near << PLACE_BITS)
            first[axis] = near - spans[axis] // 2
            for node in range(spans[axis]):
                parts[axis, node] = part(node, far, bits, spans[axis])
        for a in range(spans[0]):
            for b in range(spans[1]):
                both = weights[i] * parts[0, a] * parts[1, b]
                for c in range(spans[2]):
                    table[first[0] + a, first[1] + b, first[2] + c] += both * parts[2, c]


@inline
def part(node, far, bits, span):
    """What one of three nodes gets, where a place is so far past the middle one."""
    if span == 1:
        return 1
    half = 1 << (PLACE_BITS - 1)
    one = 1 << (2 * PLACE_BITS)
    before = (((half - far) * (half - far) << bits) + one) >> (2 * PLACE_BITS + 1)
    after = (((half + far) * (half + far) << bits) + one) >> (2 * PLACE_BITS + 1)
    if node == 0:
        return before
    if node == 2:
        return after
    return (1 << bits) - before - after


@kernel
def read(field, places, spans, out):
    """out[i] = the cubic B-spline with these coefficients at place i, in nodes from the second."""
    for i in range(len(places)):
        a, b, c = int(places[i, 0]), int(places[i, 1]), int(places[i, 2])
        ta, tb, tc = places[i, 0] - a, places[i, 1] - b, places[i, 2] - c
        total = 0.0
        for da in range(spans[0]):
            for db in range(spans[1]):
                row = 0.0
                for dc in range(spans[2]):
                    row += field[a + da, b + db, c + dc] * cubic(dc, tc, spans[2])
                total += row * cubic(da, ta, spans[0]) * cubic(db, tb, spans[1])
        out[i] = total


@inline
def cubic(node, t, span):
    """The weight of one of the four nodes around a place t past the second of them."""
    if span == 1:
        return 1.0
    if node == 0:
        return (1 - t) ** 3 / 6
    if node == 1:
        return (4 - 6 * t**2 + 3 * t**3) / 6
    if node == 2:
        return (1 + 3 * t + 3 * t**2 - 3 * t**3) / 6
    return t**3 / 6
