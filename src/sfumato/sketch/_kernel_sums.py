"""Sums of a kernel over all points, one by one: what sketches are held against."""

from collections.abc import Callable

import numpy as np

__all__ = ["kernel_sums"]

PAIRS = 2**20  # distances at a time: 8 MiB


def kernel_sums(
    points: np.ndarray,
    queries: np.ndarray,
    kernel: Callable[[np.ndarray], np.ndarray],
    bandwidth: float,
) -> np.ndarray:
    """For every query, the sum over all points of the kernel of their distance in bandwidths."""
    out = np.zeros(len(queries))
    rows = max(1, PAIRS // max(1, len(points)))
    columns = max(1, PAIRS // rows)
    for start in range(0, len(queries), rows):
        asked = queries[start : start + rows]
        for first in range(0, len(points), columns):
            far = _distances(points[first : first + columns], asked)
            out[start : start + rows] += kernel(far / bandwidth).sum(axis=1)
    return out


def _distances(points: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Differences are squared one coordinate after another: exact where points are near."""
    squares = np.zeros((len(queries), len(points)))
    for column in range(points.shape[1]):
        squares += (queries[:, None, column] - points[None, :, column]) ** 2
    return np.asarray(np.sqrt(squares))
