"""Similarities of rows of ratings, and ratings foretold from those of similar rows.

Rows are users or items; columns are the other side. Row r has the values
values[starts[r] : starts[r + 1]] in the columns of the same positions, each once. The index is the
transpose: column c is in the rows holders[ends[c] : ends[c + 1]], with their values in `others`.

Sums over the columns that two rows have in common: their number and the products x y, and for a
correlation x, y, x x and y y; 2 or 8 numbers for each row of the index, all 0 between queries.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.top_k import offer_any, order

__all__ = ["COSINE", "JACCARD", "PEARSON", "foretell", "foretell_rows", "nearest", "nearest_among"]

JACCARD, COSINE, PEARSON = 0, 1, 2
FLAT = 1e-12  # below this fraction, a difference is a rounding error


@inline
def _add(x, y, kind, sums):
    sums[0] += 1.0
    sums[1] += x * y
    if kind == PEARSON:
        sums[2] += x
        sums[3] += y
        sums[4] += x * x
        sums[5] += y * y


@inline
def _correlation(sums):
    """The correlation over the common columns; 0 where one row does not vary there."""
    n, xy, x, y, xx, yy = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
    left, right = xx - x * x / n, yy - y * y / n
    if left <= FLAT * xx or right <= FLAT * yy:
        return 0.0
    return min(max((xy - x * y / n) / np.sqrt(left * right), -1.0), 1.0)


@inline
def _similarity(sums, size, other, kind, least, shrinkage, significance):
    """The similarity, shrunk by the number of common columns; 0 where they are too few.

    Sizes are numbers of columns for Jaccard, and sums of squares for the cosine.
    """
    common = sums[0]
    if common < least:
        return np.float32(0)
    if kind == JACCARD:
        similar = common / (size + other - common)
    elif kind == COSINE:
        squares = size * other
        similar = sums[1] / np.sqrt(squares) if squares > 0 else 0.0
    else:
        similar = _correlation(sums)
    similar *= common / (common + shrinkage)
    return np.float32(similar * min(common, significance) / significance)


@kernel
def nearest(
    starts, positions, values, sizes, own, ends, holders, others, other_sizes, kind, least,
    shrinkage, significance, sums, touched, found, near,
):  # fmt: skip
    """found[q], near[q] = the rows of the index most similar to row q, above 0, best first.

    The row own[q] of the index, -1 for none, is left out. Lists begin as -1 and 0, and stay so
    where fewer rows are similar.
    """
    for q in range(found.shape[0]):
        count = 0
        for k in range(starts[q], starts[q + 1]):
            x, c = values[k], positions[k]
            for j in range(ends[c], ends[c + 1]):
                mine = sums[holders[j]]
                if mine[0] == 0.0:
                    touched[count] = holders[j]
                    count += 1
                _add(x, others[j], kind, mine)
        for t in range(count):
            row = touched[t]
            if row != own[q]:
                similar = _similarity(
                    sums[row], sizes[q], other_sizes[row], kind, least, shrinkage, significance
                )
                if similar > 0:
                    offer_any(row, similar, found[q], near[q])
            sums[row] = 0.0
        order(found[q], near[q])


@kernel
def nearest_among(
    rows, candidate_starts, candidates, starts, positions, values, sizes, kind, least, shrinkage,
    significance, here, found, near,
):  # fmt: skip
    """As `nearest` for these rows, among the candidates of each.

    here: a number for each column, 0; it says where a row's value of the column stands, from 1 on.
    """
    sums = np.zeros(8)
    for q in range(rows.size):
        first, last = starts[rows[q]], starts[rows[q] + 1]
        for k in range(first, last):
            here[positions[k]] = k + 1
        for t in range(candidate_starts[q], candidate_starts[q + 1]):
            row = candidates[t]
            if row == rows[q]:
                continue
            sums[:] = 0.0
            for j in range(starts[row], starts[row + 1]):
                k = here[positions[j]]
                if k > 0:
                    _add(values[k - 1], values[j], kind, sums)
            similar = _similarity(
                sums, sizes[rows[q]], sizes[row], kind, least, shrinkage, significance
            )
            if similar > 0:
                offer_any(row, similar, found[q], near[q])
        for k in range(first, last):
            here[positions[k]] = 0
        order(found[q], near[q])


@kernel
def foretell(
    pairs, rows, columns, ends, holders, others, bounds, found, near, most, exponent, damping, here,
    out,
):  # fmt: skip
    """out[q] = the weighted mean of others in column columns[q], over the rows nearest to rows[q].

    found[bounds[r] : bounds[r + 1]] are the rows nearest to row r, best first. The `most` nearest
    that have the column count, by the power `exponent` of their similarity; what is in out[q]
    before counts with weight `damping`. Pairs, ordered by column, are done in this order. here: a
    number for each row of the index, 0, as in `nearest_among`.
    """
    last = -1
    for q in pairs:
        row, column = rows[q], columns[q]
        if row < 0 or column < 0:
            continue
        if column != last:
            if last >= 0:
                for j in range(ends[last], ends[last + 1]):
                    here[holders[j]] = 0
            for j in range(ends[column], ends[column + 1]):
                here[holders[j]] = j + 1
            last = column
        count, total, weights = 0, damping * out[q], damping
        for k in range(bounds[row], bounds[row + 1]):
            j = here[found[k]]
            if j > 0:
                weight = np.float64(near[k]) ** exponent
                total += weight * others[j - 1]
                weights += weight
                count += 1
                if count == most:
                    break
        if weights > 0:
            out[q] = total / weights
    if last >= 0:
        for j in range(ends[last], ends[last + 1]):
            here[holders[j]] = 0


@kernel
def foretell_rows(
    rows, bounds, found, near, starts, positions, values, most, exponent, damping, out
):
    """out[q, c] = as `foretell`, for row rows[q], or -1 for none, and every column c."""
    columns = out.shape[1]
    counts, totals, weights = np.zeros(columns, np.int64), np.zeros(columns), np.zeros(columns)
    for q in range(rows.size):
        if rows[q] < 0:
            continue
        for k in range(bounds[rows[q]], bounds[rows[q] + 1]):
            row, weight = found[k], np.float64(near[k]) ** exponent
            for j in range(starts[row], starts[row + 1]):
                column = positions[j]
                if counts[column] < most:
                    counts[column] += 1
                    totals[column] += weight * values[j]
                    weights[column] += weight
        for c in range(columns):
            if weights[c] + damping > 0:
                out[q, c] = (damping * out[q, c] + totals[c]) / (damping + weights[c])
            counts[c], totals[c], weights[c] = 0, 0.0, 0.0
