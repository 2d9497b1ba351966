"""PageRank by pulling: rows of in-edges grouped by degree, eight rows side by side.

Rows are the nodes sorted by falling in-degree, so that long runs of rows have the same number of
edges and no branch is mispredicted. Cells are the nodes sorted by falling out-degree, so that the
contributions which are read most often share few cache lines.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import prefetch

__all__ = ["by_degree", "contribute", "lay_out", "pull"]

SIDE = 8  # rows side by side
LONGEST = 32  # in-edges of rows that stand side by side
AHEAD = 24  # rows from now that are fetched already


@kernel
def by_degree(offsets, given, order):
    """order = the rows by falling length, equal ones in the order of `given`."""
    longest = 0
    for row in range(order.size):
        longest = max(longest, offsets[row + 1] - offsets[row])
    begin = np.zeros(longest + 2, np.int64)
    for row in range(order.size):
        begin[longest - (offsets[row + 1] - offsets[row]) + 1] += 1
    for k in range(1, begin.size):
        begin[k] += begin[k - 1]
    for row in given:
        at = longest - (offsets[row + 1] - offsets[row])
        order[begin[at]] = row
        begin[at] += 1


@kernel
def lay_out(starts, sources, weights, cell, rows, degree, edges, out, out_weights):
    """Write the cells of each row's sources; groups of 8 short rows are interleaved.

    Segment k has the rows rows[k] to rows[k + 1] - 1 of degree[k] in-edges each, which begin at
    edges[k]. starts: where each row begins in `sources`; cell: of each node.
    """
    weighted, last = weights.size > 0, starts.size - 1
    for k in range(degree.size):
        at, length, row = edges[k], degree[k], rows[k]
        side = SIDE if length <= LONGEST else 1
        while row < rows[k + 1]:
            width = side if row + side <= rows[k + 1] else 1
            for i in range(width):
                prefetch(sources, starts[min(row + i + AHEAD, last)])
                begin = starts[row + i]
                for j in range(length):
                    out[at + width * j + i] = cell[sources[begin + j]]
                if weighted:
                    for j in range(length):
                        out_weights[at + width * j + i] = weights[begin + j]
            at += width * length
            row += width


@kernel
def contribute(values, inverse, cell, scale, out):
    """out[cell] = scale * value / out-degree of each row; returns the sum of all but dead ends."""
    alive = 0.0
    for row in range(values.size):
        if inverse[row] > 0.0:
            alive += values[row]
            out[cell[row]] = scale * values[row] * inverse[row]
    return alive


@inline
def _one(at, length, source, weights, weighted, given):
    """The sum of the contributions of one row."""
    a = b = c = d = 0.0
    end = at + length
    if weighted:
        while at < end:
            a += weights[at] * given[source[at]]
            at += 1
        return a
    while at + 4 <= end:
        a += given[source[at]]
        b += given[source[at + 1]]
        c += given[source[at + 2]]
        d += given[source[at + 3]]
        at += 4
    while at < end:
        a += given[source[at]]
        at += 1
    return (a + b) + (c + d)


@kernel
def pull(
    blocks, first, step, rows, degree, edges, source, weights, given,
    factor, constant, teleport, replace, inverse, cell, scale, ranks, out, sums,
):  # fmt: skip
    """Change every row by factor * (sum of its contributions) + constant * teleport.

    If `replace`, the row becomes that instead. Segments blocks[b] to blocks[b + 1] - 1 for
    b = first, first + step, ...; sums[b] = (the sum of absolute changes, the sum of changes of rows
    with out-edges). out[cell] = scale * change / out-degree, for the next call as `given`.
    teleport has one entry for all rows, or one for each.
    """
    weighted, each = weights.size > 0, 1 if teleport.size > 1 else 0
    pulled = np.empty(SIDE)
    for block in range(first, blocks.size - 1, step):
        total = alive = 0.0
        for k in range(blocks[block], blocks[block + 1]):
            at, length, row, end = edges[k], degree[k], rows[k], rows[k + 1]
            while row < end:
                if length <= LONGEST and row + SIDE <= end:
                    size = SIDE
                    a = b = c = d = e = f = g = h = 0.0
                    if weighted:
                        for _ in range(length):
                            a += weights[at] * given[source[at]]
                            b += weights[at + 1] * given[source[at + 1]]
                            c += weights[at + 2] * given[source[at + 2]]
                            d += weights[at + 3] * given[source[at + 3]]
                            e += weights[at + 4] * given[source[at + 4]]
                            f += weights[at + 5] * given[source[at + 5]]
                            g += weights[at + 6] * given[source[at + 6]]
                            h += weights[at + 7] * given[source[at + 7]]
                            at += SIDE
                    else:
                        for _ in range(length):
                            a += given[source[at]]
                            b += given[source[at + 1]]
                            c += given[source[at + 2]]
                            d += given[source[at + 3]]
                            e += given[source[at + 4]]
                            f += given[source[at + 5]]
                            g += given[source[at + 6]]
                            h += given[source[at + 7]]
                            at += SIDE
                    pulled[0], pulled[1], pulled[2], pulled[3] = a, b, c, d
                    pulled[4], pulled[5], pulled[6], pulled[7] = e, f, g, h
                else:
                    size = 1
                    pulled[0] = _one(at, length, source, weights, weighted, given)
                    at += length
                for side in range(size):
                    change = factor * pulled[side] + constant * teleport[each * row]
                    if replace:
                        change -= ranks[row]
                    ranks[row] += change
                    total += abs(change)
                    if inverse[row] > 0.0:
                        alive += change
                        out[cell[row]] = scale * change * inverse[row]
                    row += 1
        sums[block, 0], sums[block, 1] = total, alive
