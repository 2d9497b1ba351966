"""Tug-of-war counters: every cell takes every key, with a sign of its own for each."""

import numpy as np

from ._jit import kernel
from .hash import GOLDEN, mix

__all__ = ["pull"]


@kernel
def pull(cells, hashes, weights):
    """cells[j] += s_j(key) weight; 64 signs come from each mixing of the hash; cells fill 64s."""
    for i in range(hashes.size):
        for block in range(cells.size // 64):
            signs = mix(hashes[i] ^ (np.uint64(block + 1) * GOLDEN))
            for j in range(64):
                up = np.int64(signs >> np.uint64(j) & np.uint64(1))
                cells[64 * block + j] += weights[i] * (2 * up - 1)
