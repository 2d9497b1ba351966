"""Products of item columns over users, and scores of items from sparse item-item weights.

A history is a row of a compressed sparse matrix: positions ascending, no position twice.
"""

import numpy as np

from sfumato.kernels.jit import kernel
from sfumato.kernels.top_k import offer, order

__all__ = ["gram", "mirror", "nearest", "score"]


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
    sums = np.zeros(others.size, np.float32)
    for j in range(found.shape[0]):
        for h in range(ends[j], ends[j + 1]):
            weight = holder_weights[h]
            for a in range(starts[holders[h]], starts[holders[h] + 1]):
                sums[positions[a]] += weight * weights[a]
        sums[j] = np.float32(0)
        for i in range(sums.size):
            if sums[i] > 0:
                below = own[j] * others[i] + shrinkage
                if jaccard:
                    below = own[j] + others[i] - sums[i] + shrinkage
                offer(i, np.float32(sums[i] / below), found[j], values[j])
        sums[:] = 0
        order(found[j], values[j])
