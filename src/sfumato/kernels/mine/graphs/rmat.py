"""Edges of R-MAT graphs: each falls into one quadrant of the matrix after another."""

import numpy as np

from sfumato.kernels.hash import GOLDEN, mix
from sfumato.kernels.jit import kernel

__all__ = ["rmat"]

LEVELS = 4  # of 16 bits, from one hash


@kernel
def rmat(first, key, scale, quadrants, out):
    """out[i] = source << 32 | target of edge first + i, from its number alone.

    quadrants: bounds out of 2**16 of the first, the first two and the first three quadrants.
    """
    for i in range(out.size):
        source, target, bits = np.uint64(0), np.uint64(0), np.uint64(0)
        state = np.uint64(first + i) * GOLDEN ^ key
        for level in range(scale):
            if level % LEVELS == 0:
                state = mix(state + GOLDEN)
                bits = state
            draw = np.int64(bits & np.uint64(65535))
            bits >>= np.uint64(16)
            low = draw >= quadrants[1]
            right = draw >= quadrants[2] or quadrants[0] <= draw < quadrants[1]
            source = source << np.uint64(1) | np.uint64(low)
            target = target << np.uint64(1) | np.uint64(right)
        out[i] = source << np.uint64(32) | target
