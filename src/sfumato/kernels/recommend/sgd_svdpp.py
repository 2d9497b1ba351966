"""Stochastic gradient descent on SVD++, user by user.

The prediction is mean + b_u + b_i + q_i . (p_u + s_u), with the implicit sum s_u = n**-1/2 times
the sum of y_j over the n items j of user u. A step on one rating moves every y_j of the user by the
same n**-1/2 step error q_i, so s_u by n n**-1/2 n**-1/2 step error q_i = step error q_i. A visit
therefore adds up y once, moves s_u at every rating, and gives each y_j its part of the way of s_u
at the end: what a step on all y_j at each rating would give, for two additions of vectors a rating.

Tables have one row per user or item, of whole blocks of 16 lanes; lanes past the components are 0
and stay 0. `steps` is the learning rate and the factors 1 - step * penalty by which p, q, y and
both biases shrink: y once per visit, the others at each rating.
"""

import numpy as np

from sfumato.kernels.hash import GOLDEN, HALF, mix
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import f32x16, fma, load, store, total

__all__ = ["descend", "descend_in_time", "implicit_sums"]

ONE = np.float32(1)


@inline
def shuffle(state, rows, first, last):
    """Shuffle rows[first:last] (Fisher and Yates); returns the next state of the generator."""
    for i in range(first, last):
        state += GOLDEN
        j = first + np.int64(((mix(state) >> HALF) * np.uint64(i - first + 1)) >> HALF)
        rows[i], rows[j] = rows[j], rows[i]
    return state


@inline
def add_implicit(items, first, last, scale, y, sums):
    """sums[0] = sums[1] = scale * sum of y_j over the items."""
    width = y.shape[1]
    for b in range(0, width, 16):
        store(sums, b, f32x16(0.0))
    for i in range(first, last):
        v = np.int64(items[i]) * width
        for b in range(0, width, 16):
            store(sums, b, load(sums, b) + load(y, v + b))
    for b in range(0, width, 16):
        moved = load(sums, b) * scale
        store(sums, b, moved)
        store(sums, width + b, moved)


@inline
def move_implicit(items, first, last, scale, shrink, y, sums):
    """y_j = shrink * (y_j + scale * (sums[0] - sums[1])), for all items of the visit."""
    width = y.shape[1]
    for b in range(0, width, 16):
        store(sums, b, (load(sums, b) - load(sums, width + b)) * scale)
    for i in range(first, last):
        v = np.int64(items[i]) * width
        for b in range(0, width, 16):
            store(y, v + b, (load(y, v + b) + load(sums, b)) * shrink)


@kernel
def descend(order, starts, items, targets, rows, seed, steps, sums, p, q, y, user_bias, item_bias):
    """Visit the users in `order`, the ratings of each at random; rows: the numbers 0 to n - 1."""
    width, state = p.shape[1], seed
    step, keep_p, keep_q, keep_y = steps[0], steps[1], steps[2], steps[3]
    keep_user, keep_item = steps[4], steps[5]
    for k in range(order.size):
        user = np.int64(order[k])
        u, first, last = user * width, starts[user], starts[user + 1]
        if first == last:
            continue
        scale, bias = ONE / np.sqrt(np.float32(last - first)), user_bias[user]
        state = shuffle(state, rows, first, last)
        add_implicit(items, first, last, scale, y, sums)
        for i in range(first, last):
            row = rows[i]
            item = np.int64(items[row])
            v, both = item * width, f32x16(0.0)
            for b in range(0, width, 16):
                both = fma(load(q, v + b), load(p, u + b) + load(sums, b), both)
            moved = step * (targets[row] - bias - item_bias[item] - total(both))
            bias = keep_user * bias + moved
            item_bias[item] = keep_item * item_bias[item] + moved
            for b in range(0, width, 16):
                a, s, c = load(p, u + b), load(sums, b), load(q, v + b)
                way = c * moved
                store(p, u + b, fma(a, f32x16(keep_p), way))
                store(sums, b, s + way)
                store(q, v + b, fma(a + s, f32x16(moved), c * keep_q))
        user_bias[user] = bias
        move_implicit(items, first, last, scale, keep_y, y, sums)


@kernel
def implicit_sums(starts, items, y, out):
    """out[u] = n**-1/2 times the sum of y_j over the n items of each user u."""
    width = y.shape[1]
    for user in range(starts.size - 1):
        first, last = starts[user], starts[user + 1]
        if first < last:
            scale = ONE / np.sqrt(np.float32(last - first))
            for i in range(first, last):
                v = np.int64(items[i]) * width
                for b in range(0, width, 16):
                    at = user * width + b
                    store(out, at, fma(load(y, v + b), f32x16(scale), load(out, at)))


@kernel
def descend_in_time(
    order,
    starts,
    items,
    targets,
    rows,
    seed,
    steps,
    sums,
    deviations,
    bins,
    days,
    p,
    q,
    y,
    user_bias,
    item_bias,
    drift,
    slope,
    bin_bias,
    day_bias,
):
    """`descend` where users drift: p_u + d a_u, b_u + d alpha_u + a bias of the user's day.

    Beside each rating are its deviation d from the user's mean time, and the numbers of its item
    and time bin and of its user and day, whose biases are added. steps[6:] shrink a and alpha, the
    biases of bins and those of days.
    """
    width, state = p.shape[1], seed
    step, keep_p, keep_q, keep_y = steps[0], steps[1], steps[2], steps[3]
    keep_user, keep_item, keep_drift = steps[4], steps[5], steps[6]
    keep_bin, keep_day = steps[7], steps[8]
    for k in range(order.size):
        user = np.int64(order[k])
        u, first, last = user * width, starts[user], starts[user + 1]
        if first == last:
            continue
        scale, bias, alpha = ONE / np.sqrt(np.float32(last - first)), user_bias[user], slope[user]
        state = shuffle(state, rows, first, last)
        add_implicit(items, first, last, scale, y, sums)
        for i in range(first, last):
            row = rows[i]
            item, late, bin, day = np.int64(items[row]), deviations[row], bins[row], days[row]
            v, both = item * width, f32x16(0.0)
            for b in range(0, width, 16):
                z = fma(load(drift, u + b), f32x16(late), load(p, u + b) + load(sums, b))
                both = fma(load(q, v + b), z, both)
            fixed = bias + late * alpha + item_bias[item] + bin_bias[bin] + day_bias[day]
            moved = step * (targets[row] - fixed - total(both))
            bias = keep_user * bias + moved
            alpha = keep_drift * alpha + moved * late
            item_bias[item] = keep_item * item_bias[item] + moved
            bin_bias[bin] = keep_bin * bin_bias[bin] + moved
            day_bias[day] = keep_day * day_bias[day] + moved
            for b in range(0, width, 16):
                a, s, c, d = load(p, u + b), load(sums, b), load(q, v + b), load(drift, u + b)
                way = c * moved
                store(p, u + b, fma(a, f32x16(keep_p), way))
                store(sums, b, s + way)
                store(drift, u + b, fma(way, f32x16(late), d * keep_drift))
                store(q, v + b, fma(fma(d, f32x16(late), a + s), f32x16(moved), c * keep_q))
        user_bias[user], slope[user] = bias, alpha
        move_implicit(items, first, last, scale, keep_y, y, sums)
