"""Upper bounds on the probability mass of the sum of k discrete Gaussian variables.

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

__all__ = ["DEVIATIONS", "ROUNDING", "Masses", "masses"]

DEVIATIONS = 12.0  # standard deviations summed; less than exp(-DEVIATIONS**2 / 2) lies beyond
ROUNDING = 1 + 1e-9  # above the relative error of these sums, all of positive terms
CONVOLVED = 64  # cells whose noises are added exactly below sigma 1


@dataclass(frozen=True)
class Masses:
    """Blocks of `size` points that begin at first + steps, with upper bounds of their masses."""

    first: int
    steps: np.ndarray
    size: int
    weights: np.ndarray


def masses(variance: Fraction, cells: int, first: int, blocks: int = 2**15) -> Masses:
    """Return the mass from `first` on, point by point, or in about `blocks` blocks of points.

    A block weighs its number of points times the mass of the likeliest of them.
    """
    if variance < 1 and 1 < cells <= CONVOLVED:
        lowest, total = _convolved(variance, cells)
        first = max(first, lowest)
        weights = total[first - lowest :]
        return Masses(first, np.arange(float(weights.size)), 1, weights)
    summed_variance = float(cells * variance)
    span = max(first, 0) - first + math.ceil(DEVIATIONS * math.sqrt(summed_variance)) + 1
    size = -(-span // blocks)
    steps = np.arange(-(-span // size)) * float(size)
    likeliest = np.clip(0.0, first + steps, first + steps + (size - 1))
    weights = np.exp(-(likeliest**2) / (2 * summed_variance)) * (size / _norm(variance, cells))
    return Masses(first, steps, size, weights)


def _norm(variance: Fraction, cells: int) -> float:
    """Return a lower bound on the normaliser of exp(-s**2 / (2 k sigma**2))."""
    summed_variance = float(cells * variance)
    if cells == 1 and variance < 1:
        return 1 + 2 * float(np.exp(-(np.arange(1.0, 40) ** 2) / (2 * summed_variance)).sum())
    return math.sqrt(2 * math.pi * summed_variance) / _correction(float(variance), cells)


def _correction(variance: float, cells: int) -> float:
    """Return the product of 1 + eta_j: 1023 exact factors, then the last, larger one repeated."""
    i = np.arange(1, 64)
    j = np.arange(1, min(cells, 1024))[:, None]
    eta = 2 * np.exp(-2 * math.pi**2 * variance * i**2 * (j / (j + 1))).sum(axis=1)
    remaining = max(cells - 1024, 0) * (math.log1p(float(eta[-1])) if eta.size else 0.0)
    return math.exp(min(float(np.log1p(eta).sum()) + remaining, 700.0))


@lru_cache(64)
def _convolved(variance: Fraction, cells: int) -> tuple[int, np.ndarray]:
    """Return the lowest point and the masses; beyond 38 of each noise lies less than 1e-300."""
    points = np.arange(-38.0, 39)
    one = np.exp(-(points**2) / (2 * float(variance)))
    one /= one.sum()
    total = one
    for _ in range(cells - 1):
        total = np.convolve(total, one)
    return -38 * cells, total
