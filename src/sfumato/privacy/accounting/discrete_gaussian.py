"""The mass of the sum of k discrete Gaussian noises, never below the true one.

Completing squares and Poisson summation bound the mass of the sum at s from above by

    exp(-s**2 / (2 k sigma**2)) / sqrt(2 pi k sigma**2) * prod_j (1 + eta_j),    0 < j < k,
    eta_j = 2 sum_i exp(-2 pi**2 i**2 sigma**2 j / (j + 1)),

where the product is near 1.0002 at sigma 1 and below 1 + 1e-9 from sigma 1.6 on (Kairouz, Liu and
Steinke 2021 meet the same product). Below sigma 1 the mass is an exact convolution instead.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

__all__ = ["REACH", "ROUNDING", "Masses", "masses"]

REACH = 12.0  # deviations that are summed; below exp(-REACH**2 / 2) of the mass is beyond
ROUNDING = 1 + 1e-9  # above the relative error of these sums, all of positive terms
CONVOLVED = 64  # cells whose noises are added exactly below sigma 1


@dataclass(frozen=True)
class Masses:
    """Blocks of `size` points, the one at `steps` beginning at first + steps; weights, upwards."""

    first: int
    steps: np.ndarray
    size: int
    weights: np.ndarray


def masses(variance: Fraction, cells: int, first: int, blocks: int = 2**15) -> Masses:
    """The mass from `first` on, point by point, or in so many blocks where there are more points.

    A block weighs its number of points times the mass of the likeliest of them.
    """
    if variance < 1 and 1 < cells <= CONVOLVED:
        lowest, total = _convolved(variance, cells)
        first = max(first, lowest)
        weights = total[first - lowest :]
        return Masses(first, np.arange(float(weights.size)), 1, weights)
    spread = float(cells * variance)
    span = max(first, 0) - first + math.ceil(REACH * math.sqrt(spread)) + 1
    size = -(-span // blocks)
    steps = np.arange(-(-span // size)) * float(size)
    likeliest = np.clip(0.0, first + steps, first + steps + (size - 1))
    weights = np.exp(-(likeliest**2) / (2 * spread)) * (size / _norm(variance, cells))
    return Masses(first, steps, size, weights)


def _norm(variance: Fraction, cells: int) -> float:
    """Not above the number that divides exp(-s**2 / (2 k sigma**2)) in the mass."""
    spread = float(cells * variance)
    if cells == 1 and variance < 1:
        return 1 + 2 * float(np.exp(-(np.arange(1.0, 40) ** 2) / (2 * spread)).sum())
    return math.sqrt(2 * math.pi * spread) / _correction(float(variance), cells)


def _correction(variance: float, cells: int) -> float:
    """The product of 1 + eta_j: 1023 factors one by one, the rest as the last, larger one."""
    i = np.arange(1, 64)
    j = np.arange(1, min(cells, 1024))[:, None]
    eta = 2 * np.exp(-2 * math.pi**2 * variance * i**2 * (j / (j + 1))).sum(axis=1)
    rest = max(cells - 1024, 0) * (math.log1p(float(eta[-1])) if eta.size else 0.0)
    return math.exp(min(float(np.log1p(eta).sum()) + rest, 700.0))


@lru_cache(64)
def _convolved(variance: Fraction, cells: int) -> tuple[int, np.ndarray]:
    """The lowest point and the masses; what is beyond 38 of each noise is below 1e-300."""
    reach = np.arange(-38.0, 39)
    one = np.exp(-(reach**2) / (2 * float(variance)))
    one /= one.sum()
    total = one
    for _ in range(cells - 1):
        total = np.convolve(total, one)
    return -38 * cells, total
