"""Noise of the least-squares masses of a grid's levels by frequency, from simulated cells.

The cells are noise alone under fixed seeds, so that all of it is public.
"""

import math
from functools import lru_cache

import numpy as np

from sfumato.sketch.kernel_sums.grid_levels import Levels

__all__ = ["level_noise"]

SIMULATED = 4  # draws
GROWTH = 1.2  # ratio of the limits of neighbouring bands of frequencies


@lru_cache(maxsize=8)
def level_noise(levels: Levels, spaces: tuple[int, ...]) -> np.ndarray:
    """Noise variance of each cosine of the masses of so many spaces, for cells of variance 1.

    It is that of the same cosine of all nodes, which are three more along every axis.
    """
    nearest = [
        np.minimum(np.rint(np.arange(m) * n / m).astype(np.int64), n - 1)
        for m, n in zip(spaces, levels.shape, strict=True)
    ]
    return np.asarray(_node_noise(levels)[np.ix_(*nearest)])


@lru_cache(maxsize=8)
def _node_noise(levels: Levels) -> np.ndarray:
    """Noise variance of each cosine of the nodes, by a mean over bands of frequencies."""
    from scipy.fft import dctn

    total = np.zeros(levels.shape)
    for seed in range(SIMULATED):
        cells = np.random.default_rng(seed).normal(size=levels.cells)
        total += dctn(levels.best(cells), norm="ortho") ** 2
    bands = _bands(levels.shape)
    index = bands.ravel()
    sums, counts = np.bincount(index, total.ravel() / SIMULATED), np.bincount(index)
    return np.asarray(np.maximum((sums / np.maximum(counts, 1))[bands], 1e-300))


def _bands(shape: tuple[int, ...]) -> np.ndarray:
    """The band of each cosine, by the logarithm of its frequency; the constant is the first."""
    longest = max(shape)
    squares = np.zeros(())
    for n in shape:
        squares = np.add.outer(squares, (np.arange(n) * longest / n) ** 2)
    return np.ceil(np.log(np.maximum(squares, 0.25)) / (2 * math.log(GROWTH)) + 4).astype(np.int64)
