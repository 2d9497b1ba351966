"""How many items a profile has: what the release tells, weighed with what is known of others."""

from typing import Any, NamedTuple

import numpy as np

from sfumato.attack.profile_audit.ground_truth import SizePrior

__all__ = ["SIGMAS", "Sizes", "expected_sizes", "likely_sizes", "release_sizes"]

SIGMAS = 1.959963984540054  # half the width of a 95 % interval, in standard errors
GRID = 256
BLOCK = 4096  # users whose grids are held at a time
LEAST = 0.5  # items, where a logarithm must be taken
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

    Parameters
    ----------
    released : object
        Released profiles or a channel.
    sizes : object, default=None
        How many items each of some known users has, from 0 up, or what `size_prior` makes of them,
        or only their mean (sizes are then spread exponentially).

    Returns
    -------
    ndarray
        The expected number of items in each released profile.

    Notes
    -----
    **Guarantee.** The posterior mean, where the release's estimate errs by a Gaussian of its
    standard error and the logarithms of sizes are Gaussian as among the known ones (an empty
    profile counts as half an item there). Where much is told it is the release's estimate, where
    nothing is told the mean of known sizes; without `sizes` the estimate, but not below 0.

    Examples
    --------
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
        return np.asarray(np.maximum(found.told, 0.0))
    known = _known(owner, sizes)
    out = np.full(found.told.size, known.mean)
    sees = np.flatnonzero(np.isfinite(found.told) & np.isfinite(found.spread))
    for start in range(0, sees.size, BLOCK):
        rows = sees[start : start + BLOCK]
        out[rows] = _posterior_mean(found.told[rows, None], found.spread[rows, None], known)
    return out


class _Known(NamedTuple):
    """Known sizes: their mean, the largest, the mean of their logarithms, and the spread of these.

    The spread is None where no more than the mean is known.
    """

    mean: float
    most: float
    log_mean: float
    log_spread: float | None

    def log_density(self, grid: np.ndarray) -> np.ndarray:
        """Of the logarithm of a size, up to a constant: Gaussian, or exponential sizes."""
        if self.log_spread is None:
            return np.asarray(np.log(grid) - grid / max(self.mean, LEAST))
        return np.asarray(-0.5 * ((np.log(grid) - self.log_mean) / self.log_spread) ** 2)


def _known(owner: str, sizes: Any) -> _Known:
    """What is known of sizes, an empty profile being LEAST items where logarithms are taken."""
    distribution = sizes if isinstance(sizes, SizePrior) else None
    known = np.atleast_1d(np.asarray(distribution.sizes if distribution else sizes, np.float64))
    if not known.size or known.ndim > 1 or not (np.isfinite(known) & (known >= 0)).all():
        raise ValueError(f"{owner}: sizes must be numbers of items from 0 up, at least one.")
    chances = distribution.chances if distribution else np.full(known.size, 1 / known.size)
    logs = np.log(np.maximum(known, LEAST))
    middle = float(chances @ logs)
    spread = max(float(chances @ (logs - middle) ** 2) ** 0.5, LEAST_SPREAD)
    mean = distribution.mean if distribution else float(known.mean())
    return _Known(
        mean, float(known.max()), middle, spread if distribution or known.size > 1 else None
    )


def _posterior_mean(told: np.ndarray, spread: np.ndarray, known: _Known) -> np.ndarray:
    """The mean over a grid that is even in log size, from LEAST up, around what is told."""
    spread, widest = np.maximum(spread, 0.5), max(20 * known.most, 2 * LEAST)
    low = np.clip(told - REACH * spread, LEAST, widest)
    high = np.maximum(np.minimum(told + REACH * spread, np.maximum(told, widest)), 2 * low)
    grid = low * (high / low) ** np.linspace(0, 1, GRID)
    fits = known.log_density(grid) - 0.5 * ((grid - told) / spread) ** 2
    weights = np.exp(fits - fits.max(axis=1, keepdims=True))
    return np.asarray((weights * grid).sum(axis=1) / weights.sum(axis=1))
