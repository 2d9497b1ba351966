"""Products of item columns over users, and scores of items from item-item weights.

A history is a row of a compressed sparse matrix: positions ascending, no position twice.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import f32x16, fma, load, store
from sfumato.kernels.top_k import offer, offer_any, order

__all__ = ["gram", "gram_of_some", "mirror", "nearest", "related", "score", "score_dense"]

FEW = 4  # queries up to which whole rows of a matrix are read, rather than tiles that stay in cache
TILE = 64
SPARSE = 4  # products for each item up to which the sums that they touch are listed


@kernel
def gram(starts, positions, weights, out):
    """out[i, j] += sum over histories of weight_i weight_j, for i <= j."""
    for u in range(starts.size - 1):
        last = starts[u + 1]
        for a in range(starts[u], last):
            row, weight = out[positions[a]], weights[a]
            for b in range(a, last):
                row[positions[b]] += weight * weights[b]


@kernel
def gram_of_some(starts, positions, weights, local, out):
    """As `gram` for the items of position i with local[i] >= 0, their row; ascending like i."""
    rows, values = np.empty(out.shape[0], np.int64), np.empty(out.shape[0], np.float64)
    for u in range(starts.size - 1):
        count = 0
        for a in range(starts[u], starts[u + 1]):
            if local[positions[a]] >= 0:
                rows[count], values[count] = local[positions[a]], weights[a]
                count += 1
        for a in range(count):
            row, value = out[rows[a]], values[a]
            for b in range(a, count):
                row[rows[b]] += value * values[b]


@kernel
def related(targets, starts, positions, ends, holders, scales, out):
    """out[i] += the sum over targets j of scales[i] scales[j] times the users of both.

    Item j is in the histories holders[ends[j] : ends[j + 1]].
    """
    for t in range(targets.size):
        j = targets[t]
        for h in range(ends[j], ends[j + 1]):
            for a in range(starts[holders[h]], starts[holders[h] + 1]):
                out[positions[a]] += scales[j] * scales[positions[a]]


@kernel
def mirror(out):
    """out[j, i] = out[i, j] for i < j, block by block so that both stay in the cache."""
    size, block = out.shape[0], 64
    for first in range(0, size, block):
        for second in range(first, size, block):
            for i in range(first, min(first + block, size)):
                for j in range(max(second, i + 1), min(second + block, size)):
                    out[j, i] = out[i, j]


@kernel
def score(starts, positions, weights, ends, columns, values, out):
    """out[q] += sum over history q of weight times the sparse row of its item."""
    for q in range(starts.size - 1):
        mine = out[q]
        for a in range(starts[q], starts[q + 1]):
            weight = weights[a]
            for k in range(ends[positions[a]], ends[positions[a] + 1]):
                mine[columns[k]] += weight * values[k]


@inline
def _add_tile(starts, positions, weights, matrix, first, q, scratch):
    """scratch = the scores of query q for TILE items from `first` on."""
    a = b = c = d = f32x16(0.0)
    for k in range(starts[q], starts[q + 1]):
        at, weight = positions[k] * matrix.shape[1] + first, f32x16(weights[k])
        a, b = fma(load(matrix, at), weight, a), fma(load(matrix, at + 16), weight, b)
        c, d = fma(load(matrix, at + 32), weight, c), fma(load(matrix, at + 48), weight, d)
    store(scratch, 0, a)
    store(scratch, 16, b)
    store(scratch, 32, c)
    store(scratch, 48, d)


@inline
def _add_rows(starts, positions, weights, matrix, q, width, scratch):
    """scratch = the scores of query q for the first `width` items, a multiple of TILE."""
    scratch[:] = 0
    for k in range(starts[q], starts[q + 1]):
        row, weight = positions[k] * matrix.shape[1], f32x16(weights[k])
        for i in range(0, width, 16):
            store(scratch, i, fma(load(matrix, row + i), weight, load(scratch, i)))


@kernel
def score_dense(starts, positions, weights, matrix, out):
    """out[q] += sum over history q of weight times the dense row of its item, in float32.

    The sum of an item is rounded the same way whatever the other queries are.
    """
    queries, size = starts.size - 1, matrix.shape[1]
    width = size - size % TILE
    scratch = np.empty(max(width, TILE), np.float32)
    if queries <= FEW:
        for q in range(queries):
            _add_rows(starts, positions, weights, matrix, q, width, scratch)
            for i in range(width):
                out[q, i] += scratch[i]
    else:
        for first in range(0, width, TILE):
            for q in range(queries):
                _add_tile(starts, positions, weights, matrix, first, q, scratch)
                for i in range(TILE):
                    out[q, first + i] += scratch[i]
    for q in range(queries):
        for i in range(width, size):
            total = np.float32(0)
            for k in range(starts[q], starts[q + 1]):
                total += weights[k] * matrix[positions[k], i]
            out[q, i] += total


@inline
def _add_all(j, starts, positions, weights, ends, holders, holder_weights, sums):
    """Add the histories of item j to the sums."""
    for h in range(ends[j], ends[j + 1]):
        weight = holder_weights[h]
        for a in range(starts[holders[h]], starts[holders[h] + 1]):
            sums[positions[a]] += weight * weights[a]


@inline
def _add_some(j, starts, positions, weights, ends, holders, holder_weights, sums, touched):
    """As `_add_all`, and list the positions whose sums were 0; returns how many."""
    count = 0
    for h in range(ends[j], ends[j + 1]):
        weight = holder_weights[h]
        for a in range(starts[holders[h]], starts[holders[h] + 1]):
            product = weight * weights[a]
            if sums[positions[a]] == 0 and product > 0:
                touched[count] = positions[a]
                count += 1
            sums[positions[a]] += product
    return count


@inline
def _similarity(together, own, other, jaccard, shrinkage):
    """Similarity of two items from the sum of their products and their norms."""
    if jaccard:
        return np.float32(together / (own + other - together + shrinkage))
    return np.float32(together / (own * other + shrinkage))


@kernel
def nearest(
    starts, positions, weights, ends, holders, holder_weights, own, others, jaccard, shrinkage,
    found, values,
):  # fmt: skip
    """found[j], values[j] = the items most similar to item j, most similar first, and how much.

    Item j is in the histories holders[ends[j] : ends[j + 1]], with their weights. Similarity is the
    sum of products of weights over own[j] others[i] + shrinkage, or with `jaccard` over
    own[j] + others[i] - sum + shrinkage. Rows begin as -1 and -inf, which stay where fewer are
    above 0.
    """
    sums, touched = np.zeros(others.size, np.float32), np.empty(others.size, np.int64)
    for j in range(found.shape[0]):
        most = 0
        for h in range(ends[j], ends[j + 1]):
            most += starts[holders[h] + 1] - starts[holders[h]]
        mine, best = found[j], values[j]
        if most < SPARSE * sums.size:
            count = _add_some(
                j, starts, positions, weights, ends, holders, holder_weights, sums, touched
            )
            sums[j] = np.float32(0)
            for t in range(count):
                i = touched[t]
                if sums[i] > 0:
                    similar = _similarity(sums[i], own[j], others[i], jaccard, shrinkage)
                    offer_any(i, similar, mine, best)
                sums[i] = np.float32(0)
        else:
            _add_all(j, starts, positions, weights, ends, holders, holder_weights, sums)
            sums[j] = np.float32(0)
            for i in range(sums.size):
                if sums[i] > 0:
                    similar = _similarity(sums[i], own[j], others[i], jaccard, shrinkage)
                    offer(i, similar, mine, best)
            sums[:] = 0
        order(mine, best)
