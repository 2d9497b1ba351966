"""Are two variables that the same clients reported independent? A test that needs no table.

Whatever is computed from the first reports alone is independent of what is computed from the
second alone, if the variables are: their secrets are separated by metric. So the covariance M of
both sides' scores has the mean 0, and the statistic n tr(C1^-1 M C2^-1 M') is chi-square with
rank(C1) rank(C2) degrees of freedom, C1 and C2 being the covariances within a side. With the
ratios over their own mixture as scores this is the score test against the product of the
marginals, as strong as the likelihood ratio for small departures, and no share at 0 disturbs it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from sfumato.telemetry._table import Pairs

__all__ = ["Independence", "independence"]

_FLAT = 1e-9  # of the largest variance: below this a direction carries no information


@dataclass(frozen=True)
class Independence:
    """The score statistic against the product of the marginals, with its chance if independent.

    `likelihood_ratio` is twice what the table of shares gains in log-likelihood over the product
    of the marginals; its law depends on how many shares are 0, so it comes without a p-value.
    """

    statistic: float
    degrees: int
    p_value: float
    likelihood_ratio: float


def independence(
    pairs: Pairs, first: np.ndarray, second: np.ndarray, likelihood_ratio: float
) -> Independence:
    """Test the pairs at the shares of the two sides."""
    within_first, within_second, across = _moments(pairs, first, second)
    inverse_first, rank_first = _inverse(within_first)
    inverse_second, rank_second = _inverse(within_second)
    statistic = pairs.total * np.sum(inverse_first @ across * (across @ inverse_second))
    degrees = rank_first * rank_second
    chance = float(chi2.sf(statistic, degrees)) if degrees else 1.0
    return Independence(float(statistic), degrees, chance, float(likelihood_ratio))


def _moments(
    pairs: Pairs, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariances within the first side, within the second, and across."""
    wide = len(first) + len(second)
    total, square = np.zeros(wide), np.zeros((wide, wide))
    for x, y, weights in pairs.blocks():
        left, right = x.astype(np.float64), y.astype(np.float64)
        scores = np.hstack([left / (left @ first)[:, None], right / (right @ second)[:, None]]) - 1
        total += weights @ scores
        square += scores.T @ (scores * weights[:, None])
    mean = total / pairs.total
    spread = square / pairs.total - np.outer(mean, mean)
    cut = len(first)
    return spread[:cut, :cut], spread[cut:, cut:], spread[:cut, cut:]


def _inverse(spread: np.ndarray) -> tuple[np.ndarray, int]:
    """The inverse on the directions that vary, and how many there are."""
    values, vectors = np.linalg.eigh(spread)
    kept = values > _FLAT * max(float(values[-1]), 1e-300)
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T, int(kept.sum())
