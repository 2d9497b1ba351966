"""Gradients of the squared error of a batch of ratings, for vectors of users and items.

A vector has `size` numbers, a multiple of 16, and tables are flat. A prediction is the product p.q
of all of them: biases stand beside a 1 of the other side.
"""

import numpy as np

from sfumato.kernels.jit import kernel
from sfumato.kernels.lanes import f32x16, fma, load, store, total

__all__ = ["add_gradients"]

ZERO = np.float32(0)


@kernel
def add_gradients(users, items, targets, size, p, q, user_sums, item_sums):
    """Add e q_i to the sums of user u and e p_u to those of item i, e = target - p_u.q_i.

    Returns the sum of e**2.
    """
    squares = 0.0
    for k in range(users.size):
        u, i = np.int64(users[k]) * size, np.int64(items[k]) * size
        product = f32x16(ZERO)
        for b in range(0, size, 16):
            product = fma(load(p, u + b), load(q, i + b), product)
        error = targets[k] - total(product)
        squares += np.float64(error) * error
        for b in range(0, size, 16):
            store(user_sums, u + b, fma(f32x16(error), load(q, i + b), load(user_sums, u + b)))
            store(item_sums, i + b, fma(f32x16(error), load(p, u + b), load(item_sums, i + b)))
    return squares
