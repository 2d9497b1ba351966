"""Sizes of released rows and how far each follows the common profile, by empirical Bayes."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["RowPrior", "shrunk_entries"]

POINTS, WIDTH = 27, 3.25  # of the grid on each side: standard deviations of the logarithms
STEPS = 5  # of expectation maximisation, from a lognormal prior
# What moments of noisy rows are drawn towards, and the standard deviation of that knowledge. Sizes
# vary by squared coefficients of variation of 0.2 to 1 in sets of ratings and of baskets (and 4
# where some users have thousands of items), coordinates along the common profile by 0.2 to 0.6,
# and these grow as the power 0.4 to 1 of the sizes.
SIZES, ALONG, POWER = (0.6, 0.5), (0.35, 0.3), (0.7, 0.15)
POSITIVE = 10  # a number is at least this part of the point that it is near to
AT_ONCE = 2**9  # rows
Functions = Callable[[np.ndarray, np.ndarray], Sequence[np.ndarray]]
LEAST = 1e-2  # squared coefficient of variation
APART = 0.1  # of the variance of a coordinate, at least, that its size does not explain
ENTRIES, VALUES, ROUNDS = 4096, 121, 50  # of the mixture that entries of a mean are shrunk by


class RowPrior(NamedTuple):
    """Joint prior of the size of a row and of its coordinate along the common profile.

    Both are lognormal, by moments of the noisy rows that are drawn towards common values as far as
    noise leaves them uncertain; a few steps of expectation maximisation then adapt the weights.

    sizes, along: the points of a grid, of shapes (sizes, 1) and (sizes, along). weights: their
    probabilities. Around each point, values are normal with the variances `of_sizes` and
    `of_along`, in the same shapes, so that numbers with little noise are not rounded to the grid.
    noise: variances of the noise of sizes and coordinates.
    """

    sizes: np.ndarray
    along: np.ndarray
    weights: np.ndarray
    of_sizes: np.ndarray
    of_along: np.ndarray
    noise: tuple[float, float]

    @classmethod
    def fit(cls, sizes: np.ndarray, along: np.ndarray, noise: tuple[float, float]) -> "RowPrior":
        """Estimate from noisy sizes and coordinates of rows, at least 2, with these variances."""
        mean, centre = _mean_above_error(sizes, 1.0), _mean_above_error(along, 1e-3)
        spreads = sizes.var(ddof=1) / mean**2, along.var(ddof=1) / centre**2
        errors = math.sqrt(2 / sizes.size)
        of_sizes = max(_drawn(spreads[0] - noise[0] / mean**2, spreads[0] * errors, *SIZES), LEAST)
        of_along = max(
            _drawn(spreads[1] - noise[1] / centre**2, spreads[1] * errors, *ALONG), LEAST
        )
        u, v = math.log1p(of_sizes), math.log1p(of_along)
        covariance = float(np.cov(sizes, along)[0, 1]) / (mean * centre)
        error = math.sqrt(spreads[0] * spreads[1] / sizes.size)
        together = _drawn(covariance, error, math.expm1(POWER[0] * u), POWER[1])
        joint = math.log1p(max(together, -0.9))
        most = 0.99 * math.sqrt(u * v)
        power = min(max(joint, -most), most) / u
        left = math.sqrt(max(v - power**2 * u, APART * v))
        steps = np.linspace(-WIDTH, WIDTH, POINTS)
        normal = np.exp(-0.5 * steps**2)
        grid, half = math.sqrt(u) * steps[:, np.newaxis], (steps[1] - steps[0]) / 2
        points = np.exp(math.log(mean) - u / 2 + grid)
        across = np.exp(math.log(centre) - v / 2 + power * grid + left * steps)
        weights = np.outer(normal, normal) / normal.sum() ** 2
        of_sizes, of_along = (half * math.sqrt(u) * points) ** 2, (half * left * across) ** 2
        return cls(points, across, weights, of_sizes, of_along, noise)._adapted(sizes, along)

    def expect(self, sizes: np.ndarray, along: np.ndarray, functions: Functions) -> np.ndarray:
        """Posterior means of functions of coordinate and size, one column for each function.

        Within the normal around a point, functions are those of its posterior mean.
        """
        parts = []
        for start in range(0, sizes.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            likelihood = self._likelihood(sizes[part], along[part])
            likelihood *= self.weights.ravel()
            likelihood /= likelihood.sum(axis=1, keepdims=True)
            likelihood = likelihood.reshape(-1, *self.weights.shape)
            values = functions(
                _within(along[part], self.along, self.of_along, self.noise[1]),
                _within(sizes[part], self.sizes, self.of_sizes, self.noise[0]),
            )
            of_sizes = likelihood.sum(axis=2, keepdims=True)  # enough for functions of these alone
            means = [
                ((likelihood if value.shape[2] > 1 else of_sizes) * value).sum(axis=(1, 2))
                for value in values
            ]
            parts.append(np.stack(means, axis=1))
        return np.concatenate(parts)

    def _adapted(self, sizes: np.ndarray, along: np.ndarray) -> "RowPrior":
        likelihood, weights = self._likelihood(sizes, along), self.weights.ravel()
        for _ in range(STEPS):
            weights = weights * (likelihood.T @ (1 / (likelihood @ weights))) / sizes.size
        return self._replace(weights=weights.reshape(self.weights.shape))

    def _likelihood(self, sizes: np.ndarray, along: np.ndarray) -> np.ndarray:
        """Likelihood of each row at each point of the grid, relative to its best."""
        at_size, out = (
            -0.5 * ((noisy[:, np.newaxis] - points.ravel()) ** 2 / variance)
            - 0.5 * np.log(variance)
            for noisy, points, variance in (
                (sizes, self.sizes, self.of_sizes.ravel() + self.noise[0]),
                (along, self.along, self.of_along.ravel() + self.noise[1]),
            )
        )
        out += np.repeat(at_size, self.along.shape[1], axis=1)
        out -= out.max(axis=1, keepdims=True)
        return np.asarray(np.exp(np.maximum(out, -700, out=out), out=out))


def _within(noisy: np.ndarray, points: np.ndarray, of: np.ndarray, noise: float) -> np.ndarray:
    """Posterior mean of noisy numbers in the normal around each point, which stays positive."""
    weight = of / (of + noise)
    means = points + weight * (noisy[:, np.newaxis, np.newaxis] - points)
    return np.asarray(np.maximum(means, points / POSITIVE))


def _mean_above_error(values: np.ndarray, least: float) -> float:
    """Mean, at least its standard error."""
    return max(float(values.mean()), math.sqrt(float(values.var()) / values.size), least)


def _drawn(estimate: float, error: float, mean: float, deviation: float) -> float:
    """Posterior mean of a normal number under a normal prior."""
    weight = deviation**2 / (deviation**2 + error**2)
    return mean + weight * (float(estimate) - mean)


def shrunk_entries(means: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Shrink means of equal variance by a mixture of all values, estimated from the means.

    The nonparametric maximum-likelihood estimate of Kiefer and Wolfowitz (1956), on a grid: a few
    large entries among many small ones keep their size, and normal entries are shrunk linearly.
    Returns the posterior means and their derivatives in the means.

    >>> many = np.append(np.random.default_rng(0).normal(0, 1, 500), 30.0)
    >>> shrunk, slopes = shrunk_entries(many, 1.0)
    >>> bool((shrunk[:500] ** 2).mean() < 0.1), round(float(shrunk[500]))
    (True, 30)
    """
    ordered = np.sort(means.astype(np.float64))
    some = ordered[np.unique(np.linspace(0, means.size - 1, ENTRIES).astype(np.int64))]
    values = np.linspace(some[0], some[-1], VALUES)
    deviation = max(math.sqrt(variance), float(values[1] - values[0]), 1e-12)
    normal = max(float(some.var()) - variance, deviation**2)
    weights = np.exp(-0.5 * (values - some.mean()) ** 2 / normal)
    weights = 0.9 * weights / weights.sum() + 0.1 / VALUES
    likelihood = np.exp(-0.5 * ((some[:, np.newaxis] - values) / deviation) ** 2)
    for _ in range(ROUNDS):
        weights = weights * (likelihood.T @ (1 / (likelihood @ weights))) / some.size
    shrunk, slopes = np.empty(means.size), np.empty(means.size)
    for start in range(0, means.size, ENTRIES):
        part = slice(start, start + ENTRIES)
        joint = weights * np.exp(-0.5 * ((means[part, np.newaxis] - values) / deviation) ** 2)
        total = joint.sum(axis=1)
        shrunk[part] = joint @ values / total
        slopes[part] = (joint @ values**2 / total - shrunk[part] ** 2) / deviation**2
    return shrunk, np.maximum(slopes, 0.0)
