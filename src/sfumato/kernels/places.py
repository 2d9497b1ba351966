"""Where ids stand: a hash table with open addressing, whose size is a power of two.

keys[i] is an id, or -1 in a free cell, and values[i] the id's row. At least one cell stays free.
"""

import numpy as np

from ._jit import inline, kernel
from .hash import mix

__all__ = ["find", "put"]


@inline
def _cell(keys, id):
    """The cell that holds the id, or the free one where it would stand."""
    last = np.uint64(keys.size - 1)
    at = mix(np.uint64(id)) & last
    while keys[at] != id and keys[at] >= 0:
        at = (at + np.uint64(1)) & last
    return at


@kernel
def put(ids, rows, keys, values):
    """Give ids[i] the row rows[i], in place of any it had; gives how many ids are new."""
    new = 0
    for i in range(ids.size):
        at = _cell(keys, ids[i])
        new += keys[at] < 0
        keys[at], values[at] = ids[i], rows[i]
    return new


@kernel
def find(keys, values, ids, out):
    """out[i] = the row of ids[i], -1 for one that was never put."""
    for i in range(ids.size):
        at = _cell(keys, ids[i])
        out[i] = values[at] if keys[at] >= 0 else -1
