"""Grids of nodes in up to four dimensions: points shared among them, fields read between them.

Arrays have four axes; an axis that is not in use has one node, and `spans` says how many nodes
along each axis a point or a query meets.

Histograms along lines: points shared between the two nearest bins, and curves read between. Rows
of counters that points fall into: slots from codes, tallies, and weighted sums of cells.
"""

import numpy as np

from sfumato.kernels.hash import mix, row_slot
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.sketch.layout import PLACE_BITS

__all__ = ["gather", "read_slices", "share_slices", "slots", "tally", "tally_weighted"]


@kernel
def share(steps, weights, bits, spans, table):
    """Every point adds weight 2**(bits axes) in all to the nodes around it, as B-splines do.

    steps: positions (n, 4) in integer steps, 2**PLACE_BITS from node to node. Along each axis in
    use the nearest node and its two neighbours get whole parts of 2**bits: those of the quadratic
    spline, rounded, and what is left for the nearest.
    """
    half = 1 << (PLACE_BITS - 1)
    parts = np.empty((4, 3), np.int64)
    first = np.empty(4, np.int64)
    for i in range(len(steps)):
        for axis in range(4):
            near = (steps[i, axis] + half) >> PLACE_BITS
            far = steps[i, axis] - (near << PLACE_BITS)
            first[axis] = near - spans[axis] // 2
            for node in range(spans[axis]):
                parts[axis, node] = part(node, far, bits, spans[axis])
        for a in range(spans[0]):
            for b in range(spans[1]):
                two = weights[i] * parts[0, a] * parts[1, b]
                plane = table[first[0] + a, first[1] + b]
                for c in range(spans[2]):
                    three = two * parts[2, c]
                    for d in range(spans[3]):
                        plane[first[2] + c, first[3] + d] += three * parts[3, d]


@inline
def part(node, far, bits, span):
    """What one of three nodes receives from a position that far past the middle one."""
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
def read(field, positions, spans, out):
    """out[i] = the cubic B-spline of the coefficients at position i, in nodes past the second."""
    parts = np.empty((4, 4))
    first = np.empty(4, np.int64)
    for i in range(len(positions)):
        for axis in range(4):
            first[axis] = int(positions[i, axis])
            past = positions[i, axis] - first[axis]
            for node in range(spans[axis]):
                parts[axis, node] = cubic(node, past, spans[axis])
        total = 0.0
        for a in range(spans[0]):
            for b in range(spans[1]):
                plane = field[first[0] + a, first[1] + b]
                both = 0.0
                for c in range(spans[2]):
                    row = 0.0
                    for d in range(spans[3]):
                        row += plane[first[2] + c, first[3] + d] * parts[3, d]
                    both += row * parts[2, c]
                total += both * parts[0, a] * parts[1, b]
        out[i] = total


@inline
def cubic(node, t, span):
    """The weight of one of the four nodes around a position t past the second of them."""
    if span == 1:
        return 1.0
    if node == 0:
        return (1 - t) ** 3 / 6
    if node == 1:
        return (4 - 6 * t**2 + 3 * t**3) / 6
    if node == 2:
        return (1 + 3 * t + 3 * t**2 - 3 * t**3) / 6
    return t**3 / 6


@kernel
def share_slices(positions, weights, unit, table):
    """table[r, b] += (unit - m) weight and table[r, b + 1] += m weight, m the share past bin b."""
    for r in range(positions.shape[0]):
        row, cells = positions[r], table[r]
        for i in range(row.size):
            b = np.int64(row[i])
            m = np.int64((row[i] - b) * unit + 0.5)
            cells[b] += (unit - m) * weights[i]
            cells[b + 1] += m * weights[i]


@kernel
def read_slices(positions, fine, curves, out):
    """out[i] += curves[r] at fine positions[r, i], linear between its points, r ascending."""
    for r in range(positions.shape[0]):
        row, curve = positions[r], curves[r]
        for i in range(row.size):
            position = row[i] * fine
            b = np.int64(position)
            part = position - b
            out[i] += curve[b] + part * (curve[b + 1] - curve[b])


@kernel
def slots(positions, direct, keys, width, out):
    """out[r, i] = floor(positions[r, i]) where the row is direct, else its hash to 0..width-1."""
    cells = np.uint64(width)
    for r in range(out.shape[0]):
        row = positions[r]
        if direct[r]:
            for i in range(row.size):
                out[r, i] = np.uint32(np.int32(row[i]))
        else:
            for i in range(row.size):
                code = np.uint64(np.int64(row[i])) ^ keys[r]
                out[r, i] = np.uint32(row_slot(mix(code), cells))


@kernel
def tally(slots, used, parts, table):
    """table[r, slots[r, i]] += 1, of cells below used[r].

    `parts` are zeroed 32-bit rows, of which neighbours take different ones: adding to a cell that
    was just written waits for the write. They end zeroed; where cells are many, there are none.
    """
    for r in range(slots.shape[0]):
        row, cells = slots[r], table[r]
        if parts.shape[0] == 0:
            for i in range(row.size):
                cells[row[i]] += 1
            continue
        quads = row.size // 4 * 4
        for i in range(0, quads, 4):
            parts[0, row[i]] += 1
            parts[1, row[i + 1]] += 1
            parts[2, row[i + 2]] += 1
            parts[3, row[i + 3]] += 1
        for i in range(quads, row.size):
            parts[0, row[i]] += 1
        for b in range(used[r]):
            cells[b] += parts[0, b] + parts[1, b] + parts[2, b] + parts[3, b]
            parts[0, b] = parts[1, b] = parts[2, b] = parts[3, b] = 0


@kernel
def tally_weighted(slots, weights, table):
    """table[r, slots[r, i]] += weights[i]."""
    for r in range(slots.shape[0]):
        row, cells = slots[r], table[r]
        for i in range(row.size):
            cells[row[i]] += weights[i]


@kernel
def gather(table, slots, scales, groups, out):
    """out[groups[r], i] += scales[r] table[r, slots[r, i]], r ascending."""
    for r in range(slots.shape[0]):
        row, cells, sums, scale = slots[r], table[r], out[groups[r]], scales[r]
        for i in range(row.size):
            sums[i] += scale * cells[row[i]]
