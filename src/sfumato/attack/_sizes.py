"""How many items a profile has: what the release tells, weighed with what is known of others."""

from typing import Any, NamedTuple

import numpy as np

from sfumato.attack._truth import SizePrior

__all__ = ["SIGMAS", "Sizes", "expected_sizes", "likely_sizes", "release_sizes"]

SIGMAS = 1.959963984540054  # half the width of a 95 % interval, in standard errors
GRID = 256
QUANTILES = (np.arange(200) + 0.5) / 200
REACH = 5.0  # standard errors that the grid reaches beyond the estimate
LEAST_SPREAD = 0.05  # of the logarithm of known sizes


class Sizes(NamedTuple):
    """Of each user: the size that the release tells, its standard error, and an upper bound.

    NaN, infinite and infinite where nothing is told.
    """

    told: np.ndarray
    spread: np.ndarray
    most: np.ndarray


def release_sizes(released: Any) -> Sizes:
    """What released profiles say about their sizes."""
    told = np.asarray(released.estimate_size(), np.float64)
    most = np.asarray(released.size_bounds(2 * 0.975 - 1)[1], np.float64)
    with np.errstate(invalid="ignore"):
        spread = np.where(np.isnan(told) | np.isinf(most), np.inf, (most - told) / SIGMAS)
    return Sizes(told, np.maximum(spread, 0.0), np.where(np.isnan(most), np.inf, most))


def expected_sizes(released: Any, sizes: Any = None) -> np.ndarray:
    """The expected number of items in each released profile.

    Guarantee: the posterior mean, where the release's estimate errs by a Gaussian of its standard
    error and the logarithms of sizes are Gaussian as among the known ones. Where much is told it
    is the release's estimate, where nothing is told the mean of known sizes.
    Parameters: released, released profiles or a channel; sizes, how many items each of some known
    users has, or what `size_prior` makes of them, or only their mean (sizes are then spread
    exponentially).

    >>> from sfumato.attack import BitChannel
    >>> nothing = BitChannel(np.zeros((2, 100), bool), np.arange(60).reshape(30, 2), 0.5)
    >>> expected_sizes(nothing, sizes=[9, 10, 11]).round(1)
    array([10., 10.])
    """
    found = released.sizes if isinstance(getattr(released, "sizes", None), Sizes) else None
    return likely_sizes("expected_sizes", found or release_sizes(released), sizes)


def likely_sizes(owner: str, found: Sizes, sizes: Any) -> np.ndarray:
    """`expected_sizes` from what is told."""
    if sizes is None:
        if np.isnan(found.told).any():
            raise ValueError(
                f"{owner}: this release does not tell how many items a profile has; give sizes, "
                "those of known users or their mean."
            )
        return found.told
    if isinstance(sizes, SizePrior):
        sizes = np.interp(QUANTILES, np.cumsum(sizes.chances), sizes.sizes)
    known = np.atleast_1d(np.asarray(sizes, np.float64))
    if not known.size or known.ndim > 1 or not (np.isfinite(known) & (known > 0)).all():
        raise ValueError(f"{owner}: sizes must be numbers of items above 0, at least one.")
    return _posterior_mean(found, known)


def _posterior_mean(found: Sizes, known: np.ndarray) -> np.ndarray:
    """The mean over a grid that is even in log size, from 1/2 up, around what is told."""
    sees = np.isfinite(found.told) & np.isfinite(found.spread)
    told, spread = found.told[sees, None], np.maximum(found.spread[sees, None], 0.5)
    widest = 20 * known.max()
    low = np.clip(told - REACH * spread, 0.5, widest)
    high = np.maximum(np.minimum(told + REACH * spread, np.maximum(told, widest)), 2 * low)
    grid = low * (high / low) ** np.linspace(0, 1, GRID)
    fits = _log_density(grid, known) - 0.5 * ((grid - told) / spread) ** 2
    weights = np.exp(fits - fits.max(axis=1, keepdims=True))
    out = np.full(found.told.size, known.mean())
    out[sees] = (weights * grid).sum(axis=1) / weights.sum(axis=1)
    return out


def _log_density(grid: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Of the logarithm of a size, up to a constant: Gaussian, or exponential sizes of one mean."""
    if known.size == 1:
        return np.asarray(np.log(grid) - grid / known[0])
    logs = np.log(known)
    away = (np.log(grid) - logs.mean()) / max(logs.std(), LEAST_SPREAD)
    return np.asarray(-0.5 * away**2)
