"""Weights of item pairs learned by least squares, each item by itself, and predictions from them.

Ratings are rows of a compressed sparse matrix of users, as residuals from a baseline. Item i has
the neighbours near[ends[i] : ends[i + 1]], and a weight for each of them in every row of `weights`:
row 0 multiplies the residual of the neighbour, row 1, if any, counts that it was rated. With
`divided`, what R rated neighbours add is divided by the square root of R.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel

__all__ = ["interpolate", "learn"]


@inline
def _lay_out(raters, starts, positions, residuals, local, divided, rows, places, values, scales):
    """The rated neighbours of raters: those of rater h are at rows[h] : rows[h + 1]."""
    count = 0
    for h in range(raters.size):
        rows[h] = count
        for a in range(starts[raters[h]], starts[raters[h] + 1]):
            if local[positions[a]] >= 0:
                places[count], values[count] = local[positions[a]], residuals[a]
                count += 1
        scales[h] = 1 / np.sqrt(max(count - rows[h], 1)) if divided else 1.0
    rows[raters.size] = count


@inline
def _foretold(h, rows, places, values, scales, numbers):
    """What the numbers of an item add for its rater h."""
    total = 0.0
    for t in range(rows[h], rows[h + 1]):
        total += values[t] * numbers[0, places[t]]
        if numbers.shape[0] > 1:
            total += numbers[1, places[t]]
    return total * scales[h]


@inline
def _add_missed(h, missed, rows, places, values, scales, out):
    """Add to `out` the features of rater h times what was missed."""
    missed *= scales[h]
    for t in range(rows[h], rows[h + 1]):
        out[0, places[t]] += values[t] * missed
        if out.shape[0] > 1:
            out[1, places[t]] += missed


@inline
def _product(one, other):
    """The sum of products of all cells; a loop, since arrays in expressions compile for seconds."""
    total = 0.0
    for row in range(one.shape[0]):
        for k in range(one.shape[1]):
            total += one[row, k] * other[row, k]
    return total


@inline
def _add(factor, source, scale, out):
    """out = scale out + factor source."""
    for row in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[row, k] = scale * out[row, k] + factor * source[row, k]


@inline
def _descend(targets, rows, places, values, scales, penalty, rate, own, errors):
    """Minimise the squared error of one item plus the penalty, beginning at 0.

    Steps follow the gradient by `rate`, or are conjugate gradients where it is 0. errors[s] += the
    error after step s.
    """
    left, way, turned = np.zeros(own.shape), np.zeros(own.shape), np.zeros(own.shape)
    error = 0.0
    for h in range(targets.size):
        _add_missed(h, np.float64(targets[h]), rows, places, values, scales, left)
        error += targets[h] * targets[h]
    _add(1.0, left, 0.0, way)
    square = _product(left, left)
    for step in range(errors.size):
        if square > 0:
            _add(penalty, way, 0.0, turned)
            for h in range(targets.size):
                foretold = _foretold(h, rows, places, values, scales, way)
                _add_missed(h, foretold, rows, places, values, scales, turned)
            curvature, along = _product(way, turned), _product(way, left)
            size = 2 * rate if rate > 0 else along / curvature
            error += size * (size * curvature - 2 * along)
            _add(size, way, 1.0, own)
            _add(-size, turned, 1.0, left)
            before, square = square, _product(left, left)
            if rate > 0:
                _add(1.0, left, 0.0, way)
            elif square > 1e-14 * before:
                _add(1.0, left, square / before, way)
            else:
                square = 0.0
        errors[step] += error


@kernel
def learn(
    first, last, item_starts, raters, targets, starts, positions, residuals, ends, near, divided,
    penalty, rate, local, weights, errors,
):  # fmt: skip
    """weights[:, ends[i] : ends[i + 1]] = those of items first to last - 1, from 0.

    Users raters[item_starts[i] : item_starts[i + 1]] rated item i; `targets` are what is to be
    learned of their ratings. local: -1 for each item. errors[s] += the error after step s.
    """
    places, values = np.empty(0, np.int32), np.empty(0, np.float32)
    for i in range(first, last):
        those, mine = raters[item_starts[i] : item_starts[i + 1]], near[ends[i] : ends[i + 1]]
        most = 0
        for u in those:
            most += min(starts[u + 1] - starts[u], mine.size)
        if most > places.size:
            places, values = np.empty(most, np.int32), np.empty(most, np.float32)
        for k in range(mine.size):
            local[mine[k]] = k
        rows, scales = np.empty(those.size + 1, np.int64), np.empty(those.size)
        _lay_out(those, starts, positions, residuals, local, divided, rows, places, values, scales)
        for k in range(mine.size):
            local[mine[k]] = -1
        own = np.zeros((weights.shape[0], mine.size))
        wanted = targets[item_starts[i] : item_starts[i + 1]]
        _descend(wanted, rows, places, values, scales, penalty, rate, own, errors)
        for row in range(own.shape[0]):
            for k in range(mine.size):
                weights[row, ends[i] + k] = own[row, k]


@kernel
def interpolate(
    pairs, users, items, starts, positions, residuals, ends, near, weights, divided, here, out
):
    """out[q] += what the weights add for user users[q] and item items[q]; nothing for -1.

    Pairs, ordered by user, are done in this order. here: a number for each item, 0; it says where
    the user's residual of the item stands, from 1 on.
    """
    last = -1
    for q in pairs:
        u, i = users[q], items[q]
        if u < 0 or i < 0:
            continue
        if u != last:
            if last >= 0:
                for a in range(starts[last], starts[last + 1]):
                    here[positions[a]] = 0
            for a in range(starts[u], starts[u + 1]):
                here[positions[a]] = a + 1
            last = u
        count, total = 0, 0.0
        for k in range(ends[i], ends[i + 1]):
            a = here[near[k]]
            if a > 0:
                count += 1
                total += weights[0, k] * residuals[a - 1]
                if weights.shape[0] > 1:
                    total += weights[1, k]
        out[q] += total / np.sqrt(max(count, 1)) if divided else total
    if last >= 0:
        for a in range(starts[last], starts[last + 1]):
            here[positions[a]] = 0
