"""Gibbs draws of one component of a factorization, given residuals and all other components.

Residuals e of the ratings are stored by user: entry k of user u is starts[u] <= k < starts[u + 1],
of item items[k]. A rating of u and i has precision a_u b_i. Component f of its prediction is
A_u B_i, A_u = p_u + w_u sum of y_j over the items j of u; likewise B_i. For the users' half,
    s_u = sum of a_u b_i B_i**2   and   t_u = sum of a_u b_i B_i e
are all that a draw needs: a change d of A_u makes t_u less by d s_u. Residuals follow once per
half, in the pass that collects the sums of the next. All numbers are float32.
"""

import numpy as np

from sfumato.kernels.jit import kernel

__all__ = ["by_item", "by_user", "draw", "draw_implicit", "squares"]

ZERO = np.float32(0)


@kernel
def by_user(starts, items, changes, factors, values, weighted, precisions, e, s, t):
    """e -= changes_u factors_i; then s_u and t_u, from values B_i and weighted = b_i B_i."""
    for u in range(starts.size - 1):
        change, square, product = changes[u], ZERO, ZERO
        for k in range(np.uint64(starts[u]), np.uint64(starts[u + 1])):
            i = np.uint64(items[k])
            residual = e[k] - change * factors[i]
            e[k] = residual
            square += weighted[i] * values[i]
            product += weighted[i] * residual
        s[u], t[u] = precisions[u] * square, precisions[u] * product


@kernel
def by_item(starts, items, changes, factors, values, precisions, item_precisions, e, s, t):
    """e -= changes_u factors_i; then s_i and t_i, from values A_u."""
    s[:] = ZERO
    t[:] = ZERO
    for u in range(starts.size - 1):
        change, weighted = changes[u], precisions[u] * values[u]
        square = weighted * values[u]
        for k in range(np.uint64(starts[u]), np.uint64(starts[u + 1])):
            i = np.uint64(items[k])
            residual = e[k] - change * factors[i]
            e[k] = residual
            s[i] += square
            t[i] += weighted * residual
    for i in range(s.size):
        s[i] *= item_precisions[i]
        t[i] *= item_precisions[i]


@kernel
def draw(s, t, mean, precision, normals, values, changes):
    """Draw values of the prior N(mean, 1 / precision), and add to changes; t follows."""
    for u in range(values.size):
        total = precision + s[u]
        value = (precision * mean + t[u] + s[u] * values[u]) / total + normals[u] / np.sqrt(total)
        change = value - values[u]
        values[u] = value
        changes[u] += change
        t[u] -= change * s[u]


@kernel
def draw_implicit(starts, users, weights, s, t, precision, normals, room, values, changes):
    """Draw y_j of the prior N(0, 1 / precision), which enter A_u of the users u of j times w_u.

    starts, users : the users of each j. room : 4 numbers for each user.
    """
    for u in range(weights.size):
        weight = weights[u]
        room[u, 0], room[u, 1], room[u, 2] = weight * weight * s[u], weight * t[u], ZERO
    for j in range(values.size):
        first, last = np.uint64(starts[j]), np.uint64(starts[j + 1])
        square, product = ZERO, ZERO
        for k in range(first, last):
            u = np.uint64(users[k])
            square += room[u, 0]
            product += room[u, 1] - room[u, 2] * room[u, 0]
        total = precision + square
        value = (product + square * values[j]) / total + normals[j] / np.sqrt(total)
        change = value - values[j]
        values[j] = value
        for k in range(first, last):
            room[np.uint64(users[k]), 2] += change
    for u in range(weights.size):
        change = weights[u] * room[u, 2]
        changes[u] += change
        t[u] -= change * s[u]


@kernel
def squares(starts, items, e, precisions, item_precisions, by_users, by_items):
    """by_users_u = sum of b_i e**2, by_items_i = sum of a_u e**2."""
    by_items[:] = 0
    for u in range(starts.size - 1):
        square = 0.0
        for k in range(np.uint64(starts[u]), np.uint64(starts[u + 1])):
            i, residual = np.uint64(items[k]), np.float64(e[k])
            square += item_precisions[i] * residual * residual
            by_items[i] += precisions[u] * residual * residual
        by_users[u] = square
