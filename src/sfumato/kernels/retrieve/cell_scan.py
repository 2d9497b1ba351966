"""Cells of vectors: the nearest cell, sums for k-means, and the best codes of the cells probed.

The blocks of a cell's codes form a chain: first[c] is its first block, following[b] the one after
block b, -1 where there is none. A reader ignores blocks past its own bits of the living rows, so a
chain may grow while it is read.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import load, store
from sfumato.kernels.retrieve.weighted_scan import (
    HALF,
    NONE,
    _cut,
    _falling,
    _take,
    _visit,
)
from sfumato.kernels.top_k import every

__all__ = ["allocate", "nearest_cells", "probe", "scan", "sum_cells"]

ROW = np.uint64(2**32 - 1)


@inline
def _products(panels, vectors, u, some, row):
    """row = products of the vectors from u on, at most four, with all centres; some is scratch."""
    few = min(4, vectors.shape[0] - u)
    if few == 1:
        every(panels, vectors[u : u + 1], row)
        return
    for i in range(few):
        for c in range(vectors.shape[1]):
            some[i, c] = vectors[u + i, c]
    every(panels, some, row)


@kernel
def nearest_cells(panels, halves, vectors, out):
    """out[u] = the first cell c of largest <vectors[u], centre c> - halves[c].

    Panels hold the centres as `top_k` describes, the first of them those of the halves.
    """
    wide = 32 * panels.shape[0]
    some, row = np.zeros((4, vectors.shape[1]), np.float32), np.empty((4, wide), np.float32)
    for u in range(0, vectors.shape[0], 4):
        _products(panels, vectors, u, some, row)
        for i in range(min(4, vectors.shape[0] - u)):
            best, where = row[i, 0] - halves[0], 0
            for c in range(1, halves.size):
                score = row[i, c] - halves[c]
                if score > best:
                    best, where = score, c
            out[u + i] = where


@kernel
def sum_cells(vectors, cells, sums, counts):
    """Add each vector to the float64 sums of its cell, and count it."""
    for u in range(vectors.shape[0]):
        counts[cells[u]] += 1
        for c in range(vectors.shape[1]):
            sums[cells[u], c] += np.float64(vectors[u, c])


@kernel
def probe(panels, count, queries, cells):
    """cells[q] = the first cells by <queries[q], centre>, largest first.

    Lists are no longer than the `count` of cells; of equal scores, the lower cell is first.
    """
    wide, probes = 32 * panels.shape[0], cells.shape[1]
    some, row = np.zeros((4, queries.shape[1]), np.float32), np.empty((4, wide), np.float32)
    words, found = row.view(np.uint32), np.empty(count, np.uint64)
    for u in range(0, queries.shape[0], 4):
        _products(panels, queries, u, some, row)
        for i in range(min(4, queries.shape[0] - u)):
            for c in range(count):
                row[i, c] += np.float32(0.0)  # makes -0 the 0 that it equals
                found[c] = (np.uint64(_falling(words[i, c])) << HALF) | np.uint64(c)
            _ascending(found, _cut(found, count, probes))
            for p in range(probes):
                cells[u + i, p] = np.int64(found[p] & ROW)


@inline
def _ascending(values, size):
    """Sort the first `size` values, by insertion at ever smaller gaps (Shell 1959)."""
    gap = size // 2
    while gap > 0:
        for i in range(gap, size):
            value, j = values[i], i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap = 1 if gap == 2 else gap * 5 // 11


@kernel
def allocate(cells, used, first, following, owners, last, fill, slots):
    """slots[i] = the next free row of cell cells[i]: in its last block, or in a new one.

    Blocks 0 to used - 1 are taken; returns how many are then. fill[c] is the number of rows taken
    in the last block of cell c, 64 where it has none; owners[b] becomes the cell of a new block b.
    """
    for i in range(cells.size):
        c = cells[i]
        if fill[c] == 64:
            if first[c] < 0:
                first[c] = used
            else:
                following[last[c]] = used
            owners[used] = c
            last[c], fill[c], used = used, 0, used + 1
        slots[i] = 64 * last[c] + fill[c]
        fill[c] += 1
    return used


@inline
def _below_worst(found, size, near):
    """The number before the smallest score of the candidates: equal ones come in no order."""
    worst = np.uint64(0)
    for i in range(size):
        worst = max(worst, found[i])
    near.view(np.uint32)[0] = _falling(np.uint32((worst >> HALF) + np.uint64(1)))
    return near[0]


@inline
def _blocks_of(cells, first, following, alive, out):
    """List the blocks with living rows, cell by cell, and two zeros after them; their number."""
    size = 0
    for p in range(cells.size):
        b = first[cells[p]] if cells[p] >= 0 else -1
        while 0 <= b < alive.size:
            out[size] = b
            size += alive[b] != 0
            b = following[b]
    out[size] = out[size + 1] = 0
    return size


@inline
def _take_block(column, b, out):
    """The numbers of block b, where there are any."""
    if column.size:
        for at in range(0, 64, 16):
            store(out, at, load(column, 64 * b + at))


@inline
def _scan_blocks(
    blocks, alive, factors, shifts, scale, shift, listed, count, planes, q, step, whole, n_best,
    near, found,
):  # fmt: skip
    """Offer the first `count` blocks listed to the candidates of query q; their number."""
    size, limit = 0, np.float32(-np.inf)
    for i in range(count):
        b, ahead = listed[i], listed[i + 2]
        _take_block(factors, b, scale)
        _take_block(shifts, b, shift)
        hits = _visit(blocks, b, ahead, planes, q, step, whole, scale, shift, 0, limit, near)
        if hits:
            size = _take(hits & alive[b], 64 * b, near, found, size)
            if size + 64 > found.size:
                size = _cut(found, size, n_best)
                limit = _below_worst(found, size, near)
    return size


@kernel
def scan(
    blocks, alive, factors, shifts, first, following, cells, planes, steps, wholes, n_best, found,
    starts, rows,
):  # fmt: skip
    """rows[starts[q] : starts[q + 1]] = the n_best highest of query q in cells[q], in no order.

    found[q, :n_best] are the same as candidates of `weighted_scan`, then NONE. A cell of -1 has no
    codes. Factors, none at all for 1, and shifts, none for 0, fill whole blocks.
    """
    scale, near = np.ones(64, np.float32), np.empty(64, np.float32)
    shift = np.zeros(64, np.float32)
    listed = np.empty(alive.size + 2, np.int64)
    starts[0] = 0
    for q in range(planes.shape[0]):
        count = _blocks_of(cells[q], first, following, alive, listed)
        size = _scan_blocks(
            blocks, alive, factors, shifts, scale, shift, listed, count, planes, q, steps[q],
            wholes[q], n_best, near, found[q],
        )  # fmt: skip
        size = _cut(found[q], size, n_best)
        for i in range(size):
            rows[starts[q] + i] = np.int64(found[q, i] & ROW)
        for i in range(size, n_best):
            found[q, i] = NONE
        starts[q + 1] = starts[q] + size
