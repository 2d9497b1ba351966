"""Products in whole numbers, for what gets noise next: exact, whatever the order of the sum."""

import numpy as np

from ._jit import kernel

__all__ = ["project_whole"]


@kernel
def project_whole(rows, directions, out):
    """out[r, j] = sum over i of rows[r, i] directions[i, j], in 64-bit integers."""
    out[:] = 0
    for r in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            entry = np.int64(rows[r, i])
            if entry != 0:  # rows of profiles are mostly zeros
                for j in range(out.shape[1]):
                    out[r, j] += entry * np.int64(directions[i, j])
