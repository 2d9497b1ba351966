"""Stochastic gradient descent on dense factors: every user and item has a row of its own.

A row holds `factors` numbers, the components and last the bias. The prediction is mean + sum of
p_l q_l over the components + p_last + q_last, and (2.8), (2.9) become, lane by lane,
    p <- p + step (error q' - regularization p),   q' = q in component lanes, 1 in the bias lane,
where shrink is -step regularization, of each lane of p and, in an array of its own, of q.
Rows lie side by side; lanes past the end of a row belong to the next and have step 0, so `blocks`
of 16 lanes serve every number of factors. Tables end in 16 numbers that nobody owns.

A pass may write a log: for each rating the blocks of its user and item before the step, from which
`undo` restores the tables.

A physical shuffle of rows: dealt to 16 piles in one sweep, so that reading stays sequential.
Products of pairs of vectors that are named by their rows.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import f32x16, fma, load, mask16, prefetch_write, select, store, total

__all__ = ["PILES", "deal", "descend", "descend_two", "pair", "products", "undo"]

ZERO, ONE = np.float32(0), np.float32(1)
AHEAD = 6  # ratings whose rows are prefetched before they are needed


@inline
def _last(p, q, bias, live):
    """The last block: its part of the prediction, and both sides with 1 in the bias lane."""
    p_or_one, q_or_one = select(bias, f32x16(ONE), p), select(bias, f32x16(ONE), q)
    alone = select(bias, q, f32x16(ZERO))
    return select(live, fma(p, q_or_one, alone), f32x16(ZERO)), p_or_one, q_or_one


@kernel
def descend(users, items, ratings, clip, step, shrink_p, shrink_q, log, p, q):
    """One pass of (2.8), (2.9) over rows where error**2 <= clip.

    step and shrink have a value for each number, equal in all components. Returns 0, or NaN if a
    number became infinite or NaN. An empty log is not written.
    """
    factors, n = step.size - 16, users.size
    blocks = (factors + 15) // 16
    top, bit = 16 * (blocks - 1), (factors - 1) & 15
    bias, live = (
        mask16(np.uint64(1) << np.uint64(bit)),
        mask16((np.uint64(2) << np.uint64(bit)) - np.uint64(1)),
    )
    every, k, m = load(step, 0), load(shrink_p, 0), load(shrink_q, 0)
    saved, check = 0, f32x16(ZERO)
    for i in range(n):
        u, v = np.int64(users[i]) * factors, np.int64(items[i]) * factors
        if log.size:
            for b in range(0, top + 16, 16):
                store(log, saved, load(p, u + b))
                store(log, saved + 16, load(q, v + b))
                saved += 32
        last, p_one, q_one = _last(load(p, u + top), load(q, v + top), bias, live)
        for b in range(0, top, 16):
            last = fma(load(p, u + b), load(q, v + b), last)
        error = ratings[i] - total(last)
        if error * error <= clip:
            e = every * error
            for b in range(0, top, 16):
                a, c = load(p, u + b), load(q, v + b)
                x, y = fma(e, c, fma(k, a, a)), fma(e, a, fma(m, c, c))
                store(p, u + b, x)
                store(q, v + b, y)
                check = fma(x + y, f32x16(ZERO), check)
            a, c, e = load(p, u + top), load(q, v + top), load(step, top) * error
            x = fma(e, q_one, fma(load(shrink_p, top), a, a))
            y = fma(e, p_one, fma(load(shrink_q, top), c, c))
            store(p, u + top, x)
            store(q, v + top, y)
            check = fma(x + y, f32x16(ZERO), check)
    return total(check)


@kernel
def descend_two(users, items, ratings, clip, step, shrink_p, shrink_q, log, p, q):
    """`descend` for 32 factors: all numbers of a rating stay in registers."""
    s0, s1 = load(step, 0), load(step, 16)
    k0, k1, m0, m1 = load(shrink_p, 0), load(shrink_p, 16), load(shrink_q, 0), load(shrink_q, 16)
    bias, live = mask16(np.uint64(1 << 15)), mask16(np.uint64(0xFFFF))
    n, saved, check = users.size, 0, f32x16(ZERO)
    for i in range(n):
        ahead = min(i + AHEAD, n - 1)
        u, v = np.int64(users[ahead]) * 32, np.int64(items[ahead]) * 32
        prefetch_write(p, u)
        prefetch_write(p, u + 16)
        prefetch_write(q, v)
        prefetch_write(q, v + 16)
        u, v = np.int64(users[i]) * 32, np.int64(items[i]) * 32
        p0, p1, q0, q1 = load(p, u), load(p, u + 16), load(q, v), load(q, v + 16)
        if log.size:
            store(log, saved, p0)
            store(log, saved + 16, q0)
            store(log, saved + 32, p1)
            store(log, saved + 48, q1)
            saved += 64
        last, p_one, q_one = _last(p1, q1, bias, live)
        error = ratings[i] - total(fma(p0, q0, last))
        if error * error <= clip:
            e0, e1 = s0 * error, s1 * error
            p0, q0 = fma(e0, q0, fma(p0, k0, p0)), fma(e0, p0, fma(q0, m0, q0))
            p1, q1 = fma(e1, q_one, fma(p1, k1, p1)), fma(e1, p_one, fma(q1, m1, q1))
            store(p, u, p0)
            store(p, u + 16, p1)
            store(q, v, q0)
            store(q, v + 16, q1)
            check = fma((p0 + q0) + (p1 + q1), f32x16(ZERO), check)
    return total(check)


@kernel
def undo(users, items, factors, log, p, q):
    """Write the blocks of a log back, the last first."""
    blocks = (factors + 15) // 16
    for i in range(users.size - 1, -1, -1):
        u, v, start = np.int64(users[i]) * factors, np.int64(items[i]) * factors, 32 * blocks * i
        for b in range(0, 16 * blocks, 16):
            store(p, u + b, load(log, start + 2 * b))
            store(q, v + b, load(log, start + 2 * b + 16))


PILES = 16  # more make more streams of writes than the first cache has room for


@kernel
def deal(users, items, ratings, words, out_users, out_items, out_ratings):
    """Row k of group g goes to position g of pile (k a + c) mod 16; words[g] gives a (odd) and c.

    A group is 16 rows, so every pile gets one row of each and no piles need be counted. In a pile
    rows keep their order; dealt again, they lose it. Rows after the last whole group stay.
    """
    groups = words.size
    for g in range(groups):
        factor, pile = words[g] | np.uint64(1), words[g] >> np.uint64(32)
        for k in range(PILES):
            old = g * PILES + k
            new = np.int64(pile & np.uint64(PILES - 1)) * groups + g
            out_users[new], out_items[new] = users[old], items[old]
            out_ratings[new] = ratings[old]
            pile += factor
    for i in range(groups * PILES, users.size):
        out_users[i], out_items[i], out_ratings[i] = users[i], items[i], ratings[i]


@kernel
def products(users, items, user_rows, item_rows, out):
    """out[i] = users[user_rows[i]] . items[item_rows[i]], of columns that are a multiple of 16."""
    size = users.shape[1]
    for i in range(user_rows.size):
        left, right = np.int64(user_rows[i]) * size, np.int64(item_rows[i]) * size
        both = f32x16(0.0)
        for at in range(0, size, 16):
            both = fma(load(users, left + at), load(items, right + at), both)
        out[i] = total(both)


@kernel
def pair(p, q, user, item, weights, mean):
    """The prediction of two rows times weights, row -1 being 0, summed as by `products`."""
    factors = weights.size
    size = (factors + 15) // 16 * 16
    x, y = np.zeros(size, np.float32), np.zeros(size, np.float32)
    for j in range(factors):
        x[j] = p[user * factors + j] * weights[j] if user >= 0 else ZERO
        y[j] = q[item * factors + j] * weights[j] if item >= 0 else ZERO
    biases = mean + np.float64(x[factors - 1]) + np.float64(y[factors - 1])
    x[factors - 1] = ZERO
    both = f32x16(0.0)
    for at in range(0, size, 16):
        both = fma(load(x, at), load(y, at), both)
    return np.float64(total(both)) + biases
