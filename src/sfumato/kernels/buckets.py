"""Codes that name a bucket in each projection: made by rounding down, compared one to one."""

import numpy as np

from ._jit import kernel
from .lanes import load, select, store, u32x16

__all__ = ["equal", "fill"]


@kernel
def fill(values, offsets, width, reach, out):
    """out[r, j] = floor((values[r, j] + offsets[j]) / width) modulo 2**32.

    Gives the first row with a bucket as far out as `reach`, or -1.
    """
    for r in range(out.shape[0]):
        for j in range(out.shape[1]):
            bucket = np.floor((values[r, j] + offsets[j]) / width)
            if not abs(bucket) < reach:
                return r
            out[r, j] = np.int32(np.int64(bucket))
    return -1


@kernel
def equal(codes, panels, out):
    """out[r, 16 p + c] = in how many places codes[r] equals panels[p, :, c]."""
    hashes, width = panels.shape[1], out.shape[1]
    for p in range(panels.shape[0]):
        for r in range(codes.shape[0]):
            same = u32x16(0)
            for k in range(hashes):
                alike = load(panels, 16 * (p * hashes + k)) == u32x16(codes[r, k])
                same = select(alike, same + 1, same)
            store(out, r * width + 16 * p, same)
