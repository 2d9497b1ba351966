"""Noise of the least-squares masses of a grid by frequency and place, and detail that exceeds it.

The noise is that of simulated cells, under fixed seeds: all of it is public.
"""

import math
from functools import lru_cache

import numpy as np

from sfumato.sketch.kernel_sums.grid_field import Nodes, field
from sfumato.sketch.kernel_sums.grid_levels import Levels

__all__ = ["local_detail", "of_neighbours", "uniform_masses", "unit_noise"]

SIMULATED = 4  # draws of noise alone
WIDTHS = (9, 5, 3, 3)  # neighbouring coefficients along each axis, in 1 to 4 dimensions
DEVIATIONS = 3.0  # of chance, beyond which neighbours show a signal
WINDOWS = (12.0, 8.0, 6.0, 4.0)  # bandwidths around a place, in 1 to 4 dimensions
CHANCE = 0.98  # quantile of the energy of noise that a signal must exceed
GROWTH = 1.2  # ratio of the limits of neighbouring bands of frequencies
DRAWN = 64  # points per space and axis whose assignment stands for that of uniform ones


def local_detail(
    difference: np.ndarray,
    nodes: Nodes,
    levels: Levels,
    variance: float,
    kernel: str,
    bandwidth: float,
) -> np.ndarray:
    """The part of a field of noisy details that exceeds its noise, place by place.

    Shrinkage by frequency treats all places alike, and would flatten a few dense ones. So of the
    details that it removed, each place gets back the fraction of their energy, in the most telling
    window around it, that exceeds that of noise. `variance` is that of a cell's noise.
    """
    values, share = _read(difference), np.zeros_like(difference)
    spacing = tuple(map(float, nodes.spacing))
    usual, chances = _local_noise(levels, spacing, kernel, bandwidth)
    for width, energy, chance in zip(_widths(spacing, bandwidth), usual, chances, strict=True):
        ratio = _around(values, width) / (variance * energy)
        share = np.maximum(share, np.where(ratio > chance, 1 - 1 / np.maximum(ratio, chance), 0.0))
    return np.asarray(share * difference)


@lru_cache(maxsize=4)
def _local_noise(
    levels: Levels, spacing: tuple[float, ...], kernel: str, bandwidth: float
) -> tuple[list[np.ndarray], list[float]]:
    """For each window the energy of sums of noise around each place, and its ratio by chance."""
    drawn = [
        _read(field(_simulated(levels, seed), np.array(spacing), kernel, bandwidth))
        for seed in range(SIMULATED)
    ]
    energies, chances = [], []
    for width in _widths(spacing, bandwidth):
        each = [_around(one, width) for one in drawn]
        mean = np.maximum(np.mean(each, axis=0), 1e-300)
        mean = _around(np.sqrt(mean), _widths(spacing, bandwidth)[0])  # a smooth function of place
        energies.append(np.maximum(mean, 1e-300))
        chances.append(float(np.quantile(np.array(each) / energies[-1], CHANCE)))
    return energies, chances


def _widths(spacing: tuple[float, ...], bandwidth: float) -> list[list[int]]:
    """Nodes along each axis of every window."""
    wide = WINDOWS[len(spacing) - 1]
    return [[max(1, round(w * bandwidth / s)) for s in spacing] for w in (wide, wide / 3, 0.0)]


def _around(values: np.ndarray, width: list[int]) -> np.ndarray:
    """The mean square within a window around each place."""
    from scipy.ndimage import uniform_filter

    return np.asarray(uniform_filter(values**2, width, mode="nearest"))


def _read(coefficients: np.ndarray) -> np.ndarray:
    """The values of cubic splines at their nodes, which have far less noise than coefficients."""
    from scipy.ndimage import convolve1d

    for axis in range(coefficients.ndim):
        coefficients = convolve1d(coefficients, [1 / 6, 4 / 6, 1 / 6], axis, mode="nearest")
    return coefficients


def _simulated(levels: Levels, seed: int) -> np.ndarray:
    """The least-squares nodes of cells of noise alone, of variance 1."""
    return levels.best(np.random.default_rng(seed).normal(size=levels.cells))


def of_neighbours(squares: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Signal energy of each coefficient by its neighbours, where that is beyond chance."""
    from scipy.ndimage import uniform_filter

    width = WIDTHS[squares.ndim - 1]
    chance = 1 + DEVIATIONS * math.sqrt(2 / width**squares.ndim)
    mean = uniform_filter(squares / noise, width, mode="nearest")
    return np.asarray(np.where(mean > chance, mean - 1, 0.0) * noise)


@lru_cache(maxsize=8)
def unit_noise(levels: Levels) -> np.ndarray:
    """Noise variance of each cosine of the least-squares nodes, for cells of noise of variance 1.

    By a mean over bands of frequencies of simulated cells.
    """
    from scipy.fft import dctn

    bands = _bands(levels.shape)
    total = np.zeros(levels.shape)
    for seed in range(SIMULATED):
        total += dctn(_simulated(levels, seed), norm="ortho") ** 2
    index = bands.ravel()
    sums, counts = np.bincount(index, total.ravel() / SIMULATED), np.bincount(index)
    return np.asarray(np.maximum((sums / np.maximum(counts, 1))[bands], 1e-300))


def uniform_masses(nodes: Nodes) -> np.ndarray:
    """The expected mass at each node of one point that is uniform in the box."""
    out = np.ones(())
    for axis, spaces in enumerate(nodes.spaces):
        positions = (np.arange(DRAWN * spaces) + 0.5) / DRAWN + nodes.offsets[axis]
        nearest = np.rint(positions).astype(np.int64)
        far = positions - nearest
        along = np.zeros(spaces + 3)
        for step, part in (
            (-1, (0.5 - far) ** 2 / 2),
            (0, 0.75 - far**2),
            (1, (0.5 + far) ** 2 / 2),
        ):
            along += np.bincount(nearest + step, part, spaces + 3)[: spaces + 3]
        out = np.multiply.outer(out, along / along.sum())
    return np.asarray(out)


def _bands(shape: tuple[int, ...]) -> np.ndarray:
    """The band of each cosine, by the logarithm of its frequency; the constant is the first."""
    longest = max(shape)
    squares = np.zeros(())
    for n in shape:
        squares = np.add.outer(squares, (np.arange(n) * longest / n) ** 2)
    return np.ceil(np.log(np.maximum(squares, 0.25)) / (2 * math.log(GROWTH)) + 4).astype(np.int64)
