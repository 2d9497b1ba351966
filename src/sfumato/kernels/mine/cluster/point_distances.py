"""Euclidean distances of all pairs of points."""

import numpy as np

from sfumato.kernels.jit import kernel

__all__ = ["euclidean"]

TILE = 64  # points; a tile and its mirror image are in the first-level cache


@kernel
def euclidean(columns, out):
    """out[i, j] = distance of points i and j, exactly symmetric; columns[k] is coordinate k."""
    dimension, n = columns.shape
    square = np.empty(TILE)
    for top in range(0, n, TILE):
        for left in range(top, n, TILE):
            width = min(TILE, n - left)
            for i in range(top, min(top + TILE, n)):
                square[:] = 0.0
                for k in range(dimension):
                    x, others = columns[k, i], columns[k, left : left + width]
                    for j in range(width):
                        square[j] += (others[j] - x) * (others[j] - x)
                for j in range(width):
                    out[i, left + j] = np.sqrt(square[j])
            for j in range(left, left + width):
                for i in range(top, min(top + TILE, n)):
                    out[j, i] = out[i, j]
