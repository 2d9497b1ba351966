"""Noise of the least-squares masses of a grid's levels by frequency, from simulated cells.

The cells are noise alone under fixed seeds, so that all of it is public.
"""

import math
from functools import lru_cache

import numpy as np

from sfumato.sketch.kernel_sums.grid_levels import Levels

__all__ = ["wave_noise"]

SIMULATED = 4  # draws
GROWTH = 1.2  # ratio of the limits of neighbouring bands of frequencies


@lru_cache(maxsize=8)
def wave_noise(levels: Levels) -> np.ndarray:
    """Noise variance of each cosine of the least-squares nodes, for cells of noise of variance 1.

    By a mean over bands of frequencies.
    """
    from scipy.fft import dctn

    bands = _bands(levels.shape)
    total = np.zeros(levels.shape)
    for seed in range(SIMULATED):
        cells = np.random.default_rng(seed).normal(size=levels.cells)
        total += dctn(levels.best(cells), norm="ortho") ** 2
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
