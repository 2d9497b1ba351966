"""Products of pairs of vectors that are named by their rows."""

import numpy as np

from ._jit import kernel
from .lanes import f32x16, fma, load, total


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
