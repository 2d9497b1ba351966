"""Shares of noise: each party adds one, and together they are exactly, or nearly, the noise.

One share hides nothing by itself. It is for sums that nobody sees the parts of (secure summation):
of `of` shares, any `of` sum to the whole noise, and more than that to more.
"""

import math
from typing import Any

import numpy as np

from sfumato._require import whole
from sfumato.privacy._share_tables import ShareSource, share_sampler
from sfumato.privacy._source import Source, SystemSource
from sfumato.privacy.noise import flat_cells, noise_scale

__all__ = ["PARTIES", "ShareSource", "add_laplace_share", "gaussian_gap", "laplace_share"]

PARTIES = whole(1, 2**20)
PI_SQUARED = 9.8696  # and a little more


def laplace_share(scale: Any, of: int, size: Any = None, *, source: Source | None = None) -> Any:
    """Whole numbers, of which `of` independent ones sum to discrete Laplace noise of this scale.

    Guarantee: the law is exact: each is the difference of two Polya numbers, of mass proportional
    to Gamma(k + 1 / of) / k! exp(-k / scale), drawn without floats.
    Parameters: scale, above 0 up to 2**40, taken exactly; of, shares from 1 up to 2**20; size, a
    shape, or None for one int; source, for tests only.

    >>> shares = laplace_share(10, 4, (4, 1000))
    >>> shares.sum(axis=0).dtype  # discrete Laplace noise of scale 10
    dtype('int64')

    Goryczka and Xiong 2017 (geometric noise from Polya shares); Fisher, Corbet and Williams 1943
    for the sums of logarithmic numbers that they are.
    """
    cells = np.zeros(() if size is None else size, np.int64)
    add_laplace_share(cells, scale, of, source=source)
    return int(cells[()]) if size is None else cells


def add_laplace_share(
    cells: np.ndarray, scale: Any, of: int, *, source: Source | None = None
) -> None:
    """Add one share of `of` to each number of a contiguous int64 array, in place."""
    exact = noise_scale("add_laplace_share", "scale", scale)
    of = PARTIES.check("add_laplace_share", "of", of)
    share_sampler(exact, of).add(flat_cells("add_laplace_share", cells), source or SystemSource())


def gaussian_gap(sigma: float, of: int, cells: int) -> float:
    """How far discrete Gaussian shares are from discrete Gaussian noise, at most: infinite if far.

    Guarantee: for `cells` independent sums of `of` numbers of variance sigma**2 / of, the chance of
    every outcome is within a factor exp(gap) of that under noise of this sigma. A mechanism that is
    (epsilon, delta)-private with this noise is so with these sums at epsilon + 2 gap and
    delta exp(gap).

    Noises of variances k v and v sum to z with chance proportional to exp(-z**2 / (2 (k + 1) v))
    times the sum over x of exp(-(x - t)**2 / (2 c)), c = v k / (k + 1) >= v / 2, at some t. By
    Poisson's summation that is sqrt(2 pi c) (1 + n), |n| <= 2.001 exp(-pi**2 v) for v >= 1; so the
    two laws differ by a factor of at most (1 + n) / (1 - n) <= exp(5 exp(-pi**2 v)), of - 1 times.
    Compare Kairouz, Liu and Steinke 2021.

    >>> gaussian_gap(100, 10, cells=2**20) < 1e-100
    True
    """
    each = sigma**2 / of
    if each < 1:
        return math.inf if of > 1 else 0.0
    return cells * 5.0 * (of - 1) * math.exp(-PI_SQUARED * each)
