"""Stochastic gradient descent on dense factors: every user and item has a row of its own.

A row holds `factors` numbers, the components and last the bias. The prediction is mean + sum of
p_l q_l over the components + p_last + q_last, and (2.8), (2.9) become, lane by lane,
    p <- p + step (error q' - regularization p),   q' = q in component lanes, 1 in the bias lane,
where shrink is -step regularization, of each lane of p and, in an array of its own, of q.
Rows lie side by side; lanes past the end of a row belong to the next and have step 0, so `blocks`
of 16 lanes serve every number of factors. Tables end in 16 numbers that nobody owns.

A physical shuffle of rows: dealt to 16 piles in one sweep, so that reading stays sequential.
Products of pairs of vectors that are named by their rows.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import f32x16, fma, load, mask16, prefetch_write, select, store, total

__all__ = ["PILES", "deal", "descend", "descend_two"]

ZERO, ONE = np.float32(0), np.float32(1)
AHEAD = 6  # ratings whose rows are prefetched before they are needed


@inline
def _last(p, q, bias, live):
    """The last block: its part of the prediction, and both sides with 1 in the bias lane."""
    p_or_one, q_or_one = select(bias, f32x16(ONE), p), select(bias, f32x16(ONE), q)
    alone = select(bias, q, f32x16(ZERO))
    return select(live, fma(p, q_or_one, alone), f32x16(ZERO)), p_or_one, q_or_one


@kernel
def descend(users, items, ratings, clip, step, shrink_p, shrink_q, p, q):
    """One pass of (2.8), (2.9) over rows where error**2 <= clip.

    step and shrink have a value for each number, equal in all components.
    """
    factors, n = step.size - 16, users.size
    blocks = (factors + 15) // 16
    top, bit = 16 * (blocks - 1), (factors - 1) & 15
    bias, live = (
        mask16(np.uint64(1) << np.uint64(bit)),
        mask16((np.uint64(2) << np.uint64(bit)) - np.uint64(1)),
    )
    every, k, m = load(step, 0), load(shrink_p, 0), load(shrink_q, 0)
    for i in range(n):
        u, v = np.int64(users[i]) * factors, np.int64(items[i]) * factors
        last, p_one, q_one = _last(load(p, u + top), load(q, v + top), bias, live)
        for b in range(0, top, 16):
            last = fma(load(p, u + b), load(q, v + b), last)
        error = ratings[i] - total(last)
        if error * error <= clip:
            e = every * error
            for b in range(0, top, 16):
                a, c = load(p, u + b), load(q, v + b)
                store(p, u + b, fma(e, c, fma(k, a, a)))
                store(q, v + b, fma(e, a, fma(m, c, c)))
            a, c, e = load(p, u + top), load(q, v + top), load(step, top) * error
            store(p, u + top, fma(e, q_one, fma(load(shrink_p, top), a, a)))
            store(q, v + top, fma(e, p_one, fma(load(shrink_q, top), c, c)))


@kernel
def descend_two(users, items, ratings, clip, step, shrink_p, shrink_q, p, q):
    """`descend` for 32 factors: all numbers of a rating stay in registers."""
    s0, s1 = load(step, 0), load(step, 16)
    k0, k1, m0, m1 = load(shrink_p, 0), load(shrink_p, 16), load(shrink_q, 0), load(shrink_q, 16)
    bias, live = mask16(np.uint64(1 << 15)), mask16(np.uint64(0xFFFF))
    n = users.size
    for i in range(n):
        ahead = min(i + AHEAD, n - 1)
        u, v = np.int64(users[ahead]) * 32, np.int64(items[ahead]) * 32
        prefetch_write(p, u)
        prefetch_write(p, u + 16)
        prefetch_write(q, v)
        prefetch_write(q, v + 16)
        u, v = np.int64(users[i]) * 32, np.int64(items[i]) * 32
        p0, p1, q0, q1 = load(p, u), load(p, u + 16), load(q, v), load(q, v + 16)
        last, p_one, q_one = _last(p1, q1, bias, live)
        error = ratings[i] - total(fma(p0, q0, last))
        if error * error <= clip:
            e0, e1 = s0 * error, s1 * error
            store(p, u, fma(e0, q0, fma(p0, k0, p0)))
            store(p, u + 16, fma(e1, q_one, fma(p1, k1, p1)))
            store(q, v, fma(e0, p0, fma(q0, m0, q0)))
            store(q, v + 16, fma(e1, p_one, fma(q1, m1, q1)))


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
