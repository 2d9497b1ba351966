"""Expected number of items in a released profile: its own estimate combined with a size prior."""

from typing import Any, NamedTuple

import numpy as np

from sfumato.attack.profile_audit.ground_truth import SizePrior

__all__ = ["SIGMAS", "Sizes", "expected_sizes", "likely_sizes", "release_sizes"]

SIGMAS = 1.959963984540054  # half-width of a 95 % interval, in standard errors
GRID = 256
BLOCK = 4096  # users whose grids are in memory at a time
LEAST = 0.5  # items of an empty profile, where a logarithm is taken
HALF_WIDTH = 5.0  # of the grid around the estimate, in standard errors
LEAST_DEVIATION = 0.05  # of the logarithm of known sizes


class Sizes(NamedTuple):
    """Size estimate of each user's profile, its standard error, and an upper bound.

    NaN, infinity and infinity for a release that does not determine sizes.
    """

    estimates: np.ndarray
    std_errors: np.ndarray
    upper: np.ndarray


def release_sizes(released: Any) -> Sizes:
    """Size estimates of released profiles, with standard errors and 97.5 % upper bounds."""
    estimates = np.asarray(released.estimate_size(), np.float64)
    upper = np.asarray(released.size_bounds(2 * 0.975 - 1)[1], np.float64)
    unknown = np.isnan(estimates) | np.isinf(upper)
    with np.errstate(invalid="ignore"):
        errors = np.where(unknown, np.inf, (upper - estimates) / SIGMAS)
    return Sizes(estimates, np.maximum(errors, 0.0), np.where(np.isnan(upper), np.inf, upper))


def expected_sizes(released: Any, sizes: Any = None) -> np.ndarray:
    """Estimate the number of items in each released profile.

    Parameters
    ----------
    released : ReleasedBlip, ReleasedJlt, ReleasedSigns, ReleasedMinima or channel
        Released profiles, or a channel of this package.
    sizes : array_like, SizePrior, float or None, default=None
        Sizes of the profiles of known users, at least 0; or their distribution (`size_prior`); or
        only their mean, for an exponential distribution. Required if the release does not determine
        sizes.

    Returns
    -------
    ndarray of shape (n_users,)
        Posterior mean of the number of items of each profile.

    Raises
    ------
    ValueError
        If the release does not determine sizes and `sizes` is None.

    Notes
    -----
    **Guarantee.** The result is the posterior mean if the error of the release's size estimate is
    Gaussian with its standard error, and the logarithms of sizes are Gaussian with the mean and
    variance of the known ones (an empty profile counts as half an item there). It approaches the
    release's estimate where that is precise, and the mean of the known sizes where the release
    carries no information. Without `sizes` it is the release's estimate, but at least 0.

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
    """`expected_sizes` from the size estimates of a release."""
    if sizes is None:
        if np.isnan(found.estimates).any():
            raise ValueError(
                f"{owner}: this release does not show how many items a profile has; give sizes, "
                "those of known users or their mean."
            )
        return np.asarray(np.maximum(found.estimates, 0.0))
    known = _known(owner, sizes)
    out = np.full(found.estimates.size, known.mean)
    estimated = np.flatnonzero(np.isfinite(found.estimates) & np.isfinite(found.std_errors))
    for start in range(0, estimated.size, BLOCK):
        rows = estimated[start : start + BLOCK]
        out[rows] = _posterior_mean(
            found.estimates[rows, None], found.std_errors[rows, None], known
        )
    return out


class _Known(NamedTuple):
    """Known sizes: mean, largest, and mean and standard deviation of their logarithms.

    The standard deviation is None where only the mean is known.
    """

    mean: float
    most: float
    log_mean: float
    log_deviation: float | None

    def log_density(self, grid: np.ndarray) -> np.ndarray:
        """Log-density of a log size, up to a constant: Gaussian, or of exponential sizes."""
        if self.log_deviation is None:
            return np.asarray(np.log(grid) - grid / max(self.mean, LEAST))
        return np.asarray(-0.5 * ((np.log(grid) - self.log_mean) / self.log_deviation) ** 2)


def _known(owner: str, sizes: Any) -> _Known:
    """Summary of the known sizes; an empty profile counts as LEAST items in the logarithms."""
    distribution = sizes if isinstance(sizes, SizePrior) else None
    known = np.atleast_1d(np.asarray(distribution.sizes if distribution else sizes, np.float64))
    if not known.size or known.ndim > 1 or not (np.isfinite(known) & (known >= 0)).all():
        raise ValueError(f"{owner}: sizes must be numbers of items from 0 up, at least one.")
    weights = distribution.chances if distribution else np.full(known.size, 1 / known.size)
    logs = np.log(np.maximum(known, LEAST))
    middle = float(weights @ logs)
    deviation = max(float(weights @ (logs - middle) ** 2) ** 0.5, LEAST_DEVIATION)
    mean = distribution.mean if distribution else float(known.mean())
    return _Known(
        mean, float(known.max()), middle, deviation if distribution or known.size > 1 else None
    )


def _posterior_mean(estimates: np.ndarray, errors: np.ndarray, known: _Known) -> np.ndarray:
    """Posterior mean on a grid that is even in log size, around the estimates."""
    errors, widest = np.maximum(errors, 0.5), max(20 * known.most, 2 * LEAST)
    half_width = HALF_WIDTH * errors
    low = np.clip(estimates - half_width, LEAST, widest)
    high = np.maximum(np.minimum(estimates + half_width, np.maximum(estimates, widest)), 2 * low)
    grid = low * (high / low) ** np.linspace(0, 1, GRID)
    fits = known.log_density(grid) - 0.5 * ((grid - estimates) / errors) ** 2
    weights = np.exp(fits - fits.max(axis=1, keepdims=True))
    return np.asarray((weights * grid).sum(axis=1) / weights.sum(axis=1))
