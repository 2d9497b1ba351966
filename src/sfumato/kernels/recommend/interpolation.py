"""Item-based interpolation: nearest items by correlation, normal equations, and predictions.

Ratings are rows of a compressed sparse matrix of users, with residuals from a baseline.
"""

import numpy as np

from sfumato.kernels.jit import kernel
from sfumato.kernels.top_k import offer, order

__all__ = ["features", "interpolate", "nearest", "normal_equations"]


@kernel
def nearest(starts, positions, residuals, ends, raters, own, shrinkage, found, values):
    """found[i], values[i] = the items of largest shrunk correlation with item i, largest first.

    Users raters[ends[i] : ends[i + 1]] gave item i the residuals `own`. Over the n users of both,
    the correlation is shrunk by n / (n + shrinkage). Rows begin as -1 and -inf, which stay where
    fewer are above 0.
    """
    items = found.shape[0]
    both, counts = np.zeros(items), np.zeros(items)
    mine, others = np.zeros(items), np.zeros(items)
    for i in range(items):
        both[:], counts[:], mine[:], others[:] = 0, 0, 0, 0
        for h in range(ends[i], ends[i + 1]):
            value, u = own[h], raters[h]
            for a in range(starts[u], starts[u + 1]):
                j, other = positions[a], residuals[a]
                both[j] += value * other
                counts[j] += 1
                mine[j] += value * value
                others[j] += other * other
        both[i] = 0
        for j in range(items):
            if both[j] > 0:
                similar = both[j] / np.sqrt(mine[j] * others[j])
                similar *= counts[j] / (counts[j] + shrinkage)
                offer(j, np.float32(similar), found[i], values[i])
        order(found[i], values[i])


@kernel
def features(starts, positions, residuals, users, local, scales, damping, share, implicit, out):
    """out[h] = the features of user h for one item, whose neighbour k is at local[position] = k.

    Feature k is scales[k] residual / (damping + share * sum of scales of rated ones), and with
    `implicit` feature width + k is the same without the residual. Features of others stay 0.
    """
    width = scales.size
    for h in range(users.size):
        row, total = out[h], damping
        for a in range(starts[users[h]], starts[users[h] + 1]):
            k = local[positions[a]]
            if k >= 0:
                row[k] = residuals[a] * scales[k]
                total += share * scales[k]
                if implicit:
                    row[width + k] = scales[k]
        row *= np.float32(1 / total)


@kernel
def normal_equations(
    starts, positions, residuals, users, targets, local, scales, damping, share, implicit,
    gram, moments,
):  # fmt: skip
    """gram += F'F (upper triangle), moments += F' targets, with F as in `features`."""
    width, size = scales.size, moments.size
    row, active = np.zeros(size, np.float32), np.empty(width, np.int64)
    for h in range(users.size):
        count, total = 0, damping
        for a in range(starts[users[h]], starts[users[h] + 1]):
            k = local[positions[a]]
            if k >= 0:
                active[count] = k
                count += 1
                row[k] = residuals[a] * scales[k]
                total += share * scales[k]
        inverse = np.float32(1 / total)
        for c in range(count):
            row[active[c]] *= inverse
            if implicit:
                row[width + active[c]] = scales[active[c]] * inverse
        for part in range(2 if implicit else 1):
            for c in range(count):
                k = active[c] + part * width
                value, sums = row[k], gram[k]
                moments[k] += value * targets[h]
                for j in range(k, size):
                    sums[j] += value * row[j]
        for c in range(count):
            row[active[c]] = 0
            if implicit:
                row[width + active[c]] = 0


@kernel
def interpolate(
    starts, positions, residuals, users, items, neighbours, scales, weights, damping, share, out
):
    """out[p] += the weighted residuals of user users[p] for item items[p]; none for -1.

    Neighbours of an item end with -1; the second half of its weights, if any, is implicit. Pairs of
    one user should be beside each other.
    """
    width = neighbours.shape[1]
    implicit = weights.shape[1] > width
    dense = np.zeros(neighbours.shape[0], np.float32)
    there = np.zeros(neighbours.shape[0], np.bool_)
    last = -1
    for p in range(users.size):
        u, i = users[p], items[p]
        if u != last:
            if last >= 0:
                for a in range(starts[last], starts[last + 1]):
                    there[positions[a]] = False
            if u >= 0:
                for a in range(starts[u], starts[u + 1]):
                    there[positions[a]], dense[positions[a]] = True, residuals[a]
            last = u
        if u >= 0 and i >= 0:
            total, score = np.float64(damping), 0.0
            for k in range(width):
                j = neighbours[i, k]
                if j < 0:
                    break
                if there[j]:
                    value = weights[i, k] * dense[j]
                    if implicit:
                        value += weights[i, width + k]
                    total += share * scales[i, k]
                    score += scales[i, k] * value
            out[p] += score / total
