"""Sets against all sets: items in common are counted along the lists of who has each item.

Sets are rows: items[starts[r] : starts[r + 1]] are those of row r, each once. The index tells the
reverse: holders[ends[i] : ends[i + 1]] are the rows that have item i, in rising order. Query q is
row rows[q] of starts and items, which may be other sets than those of the index; the row own[q] of
the index, -1 for none, is not in its answer. Holders are unsigned: a signed number could count from
the end, and to look would cost as much as to add.

Pairs of items that one user has: summed in a packed triangle, or listed as keys.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.top_k import offer, order

__all__ = [
    "COSINE",
    "INNER",
    "JACCARD",
    "add_pairs",
    "correlated",
    "list_pairs",
    "nearest",
    "spread",
]

INNER, COSINE, JACCARD = 0, 1, 2
FLAT = 1e-12  # below this share, a difference is a rounding error


@inline
def _similarity(common, size, other, measure):
    """Similarity of two sets from their number of common items, at least one."""
    if measure == COSINE:
        return common / np.sqrt(np.float64(size) * np.float64(other))
    if measure == JACCARD:
        return common / np.float64(size + other - common)
    return np.float64(common)


@inline
def _hopeless(common, size, other, worst, measure):
    """True only where `_similarity` is not above the worst; products show it before quotients."""
    if measure == COSINE:
        return common * common < worst * abs(worst) * (1 - FLAT) * size * other
    if measure == JACCARD:
        return common < worst * (1 - FLAT) * (size + other - common)
    return common <= worst


@kernel
def nearest(ends, holders, sizes, starts, items, rows, own, measure, least, positions, scores):
    """positions[q], scores[q] = the rows most like query q that have `least` items in common."""
    counts = np.zeros(sizes.size, np.int32)
    for q in range(rows.size):
        mine = items[starts[rows[q]] : starts[rows[q] + 1]]
        for item in mine:
            for row in holders[ends[item] : ends[item + 1]]:
                counts[row] += 1
        nearby, best = positions[q], scores[q]
        for row in range(sizes.size):
            common, size = counts[row], sizes[row]
            if common < least or _hopeless(common, mine.size, size, best[0], measure):
                continue
            if row != own[q]:
                offer(row, _similarity(common, mine.size, size, measure), nearby, best)
        counts[:] = 0
        order(nearby, best)


@inline
def _pearson(sums):
    """The correlation of x and y from (pairs, x, y, xx, yy, xy); NaN where one does not vary."""
    n, x, y, xx, yy, xy = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
    left, right = xx - x * x / n, yy - y * y / n
    if left <= FLAT * xx or right <= FLAT * yy:
        return np.nan
    return min(max((xy - x * y / n) / np.sqrt(left * right), -1.0), 1.0)


@inline
def _add(x, y, sums):
    sums[0] += 1.0
    sums[1] += x
    sums[2] += y
    sums[3] += x * x
    sums[4] += y * y
    sums[5] += x * y


@kernel
def correlated(
    ends, holders, others, starts, items, values, rows, own, least, sums, positions, scores
):
    """As `nearest`, by the correlation of values[k] with others[j] over the items in common.

    sums: zeros, a row of 8 for each row of the index, so that each is one line of the cache.
    """
    for q in range(rows.size):
        for k in range(starts[rows[q]], starts[rows[q] + 1]):
            for j in range(ends[items[k]], ends[items[k] + 1]):
                _add(values[k], others[j], sums[holders[j]])
        nearby, best = positions[q], scores[q]
        for row in range(sums.shape[0]):
            if sums[row, 0] >= least and row != own[q]:
                offer(row, _pearson(sums[row]), nearby, best)
        sums[:] = 0.0
        order(nearby, best)


@kernel
def spread(starts, items, values, rows, weights, columns, out):
    """out[q, columns[i]] += weights[q, k] * values[j], for all items i of row rows[q, k].

    Rows and columns that are -1 are passed over; values, one an item of the sets, or none for 1.
    """
    for q in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            row = rows[q, k]
            if row >= 0:
                for j in range(starts[row], starts[row + 1]):
                    if columns[items[j]] >= 0:
                        value = values[j] if values.size else 1.0
                        out[q, columns[items[j]]] += weights[q, k] * value


@kernel
def add_pairs(items, starts, weights, sums):
    """sums[j (j - 1) / 2 + i] += weights[u] for pairs i < j of items[starts[u] : starts[u + 1]]."""
    for u in range(starts.size - 1):
        for a in range(starts[u], starts[u + 1]):
            for b in range(starts[u], a):
                low = min(items[a], items[b])
                high = max(items[a], items[b])
                sums[high * (high - 1) // 2 + low] += weights[u]


@kernel
def list_pairs(items, starts, out):
    """out = j (j - 1) / 2 + i for every pair i < j, user after user."""
    at = 0
    for u in range(starts.size - 1):
        for a in range(starts[u], starts[u + 1]):
            for b in range(starts[u], a):
                low = min(items[a], items[b])
                high = max(items[a], items[b])
                out[at] = high * (high - 1) // 2 + low
                at += 1
