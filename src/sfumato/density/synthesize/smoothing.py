"""Noisy tables smoothed by their known noise: shrinkage by resolution, then consistent margins.

All of this reads noisy numbers and public ones alone, so it costs no privacy.
"""

import math

import numpy as np

__all__ = ["fitted_to_margins", "on_simplex", "shrunk"]

ROUNDS = 20  # of proportional fitting
LEAST = 1e-9  # probability that no cell falls below, over the number of cells


def _resolutions(cells: int) -> list[int]:
    """Numbers of equal parts of an axis: 1, 2, 4, ..., and all cells at last."""
    return [*(2**k for k in range(cells.bit_length()) if 2**k < cells), cells]


def _averaged(table: np.ndarray, parts: int, axis: int) -> np.ndarray:
    """The table with each cell replaced by the mean of its part along an axis.

    Part of cell c is floor(c parts / cells). In memory of the table, whatever the number of cells.
    """
    cells = table.shape[axis]
    if parts == cells:
        return table
    starts = -(-np.arange(parts + 1) * cells // parts)
    sizes = np.diff(starts)
    sums = np.moveaxis(np.add.reduceat(table, starts[:-1], axis=axis), axis, -1)
    return np.moveaxis(np.repeat(sums / sizes, sizes, axis=-1), -1, axis)


def shrunk(table: np.ndarray, variance: float) -> np.ndarray:
    """Estimate a table of one or two axes from a noisy one whose cells have this variance.

    What each finer resolution adds is shrunk by 1 - (its noise) / (its size), at least 0: the
    positive-part estimator of James and Stein (1961) on orthogonal parts. So noise alone gives the
    mean of all cells, and a table far above its noise stays as it is.

    >>> shrunk(np.array([900.0, 1100.0, 0.0, 0.0]), 1e-6).round()
    array([ 900., 1100.,    0.,    0.])
    >>> shrunk(np.array([1.0, -1.0, 1.0, -1.0]), 4.0)
    array([0., 0., 0., 0.])
    """
    axes = [_resolutions(size) for size in table.shape]
    total, before, degrees = np.zeros_like(table), np.zeros_like(table), 0
    for step in range(max(map(len, axes))):
        chosen = [each[min(step, len(each) - 1)] for each in axes]
        now = table
        for axis, parts in enumerate(chosen):
            now = _averaged(now, parts, axis)
        added, freed = now - before, math.prod(chosen)
        size = float((added**2).sum())
        noise = (freed - degrees) * variance
        total += added * (max(1 - noise / size, 0.0) if size > 0 and step else 1.0)
        before, degrees = now, freed
    return total


def on_simplex(vector: np.ndarray) -> np.ndarray:
    """The nearest vector of non-negative numbers that sum to 1 (Duchi et al. 2008).

    >>> on_simplex(np.array([0.9, 0.5, -0.2]))
    array([0.7, 0.3, 0. ])
    """
    shifted = vector - vector.max()  # the same point, and exact where it is decided
    falling = np.sort(shifted)[::-1]
    over = (np.cumsum(falling) - 1) / np.arange(1, vector.size + 1)
    return np.asarray(np.maximum(shifted - over[np.flatnonzero(falling > over)[-1]], 0.0))


def fitted_to_margins(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Probabilities near a table's positive part with these sums of rows and of columns.

    Iterative proportional fitting: Deming and Stephan (1940).

    >>> fitted_to_margins(np.array([[2.0, 1.0], [1.0, 2.0]]), np.full(2, 0.5), np.full(2, 0.5))
    array([[0.33333333, 0.16666667],
           [0.16666667, 0.33333333]])
    """
    fitted = np.maximum(table, 0.0) + LEAST / table.size + LEAST * np.outer(rows, columns)
    for _ in range(ROUNDS):
        fitted *= (rows / np.maximum(fitted.sum(axis=1), 1e-300))[:, None]
        fitted *= columns / np.maximum(fitted.sum(axis=0), 1e-300)
    return np.asarray(fitted)
