"""Mean kernel values of a release, shrunk by their known noise; no further cost in privacy.

`Shrinkage.of` takes a released `KernelGrid`, `Race` or `KernelFourier`; other releases have none.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.density.evaluation_grid import Field, field_of
from sfumato.sketch.kernel_sums.fourier import UNIT, ReleasedKernelFourier
from sfumato.sketch.kernel_sums.grid import ReleasedKernelGrid
from sfumato.sketch.kernel_sums.race import ReleasedRace
from sfumato.sketch.kernel_sums.radial_kernels import profile

__all__ = ["DataShrinkage", "mean_at_data", "shrinkage"]

UNIFORM = 2**13  # points that stand for a uniform density
SPREAD = 0.35  # prior deviation of a value, as a fraction of its excess over uniform points
HASHED = 0.01  # error of the mean at the data by hashes or frequencies, times the root of rows
FAR = 3.0  # deviations of noise beyond which a difference from the prior is itself a signal
KURTOSIS = 6.0  # of Laplace noise; that of Gaussian noise is less
BLOCK = 512  # queries at a time


@dataclass(frozen=True)
class DataShrinkage:
    """Values shrunk to those of uniform points plus the mean excess of the data over them.

    The mean of the values at the data points is known far better than one value, since it is a sum
    of squares of all cells. Where it does not exceed that of uniform points, values are those of
    uniform points.
    """

    field: Field
    uniform: np.ndarray
    excess: float
    deviation: float  # prior standard deviation of a value
    noise: float

    @classmethod
    def of(cls, release: Any) -> "DataShrinkage":
        """The shrinkage for a release of hashes or frequencies."""
        field = field_of("SketchDensity", release)
        rng = np.random.default_rng(field.setting.seed)
        uniform = field.uniform(UNIFORM, rng)
        flat = float(_uniform_means(field, uniform, field.uniform(BLOCK, rng)).mean())
        mean, error = mean_at_data(release)
        beyond = mean - flat
        excess = beyond * max(0.0, 1 - (error / beyond) ** 2) if beyond else 0.0
        return cls(field, uniform, excess, SPREAD * abs(excess), field.noise)

    def values(self, points: np.ndarray) -> np.ndarray:
        """The shrunk mean kernel values at points, each by itself."""
        prior = _uniform_means(self.field, self.uniform, points) + self.excess
        difference = self.field.values(points) - prior
        signal = np.maximum(self.deviation**2, difference**2 - (FAR * self.noise) ** 2)
        return np.asarray(prior + difference * signal / np.maximum(signal + self.noise**2, 1e-300))


def shrinkage(release: Any) -> Any:
    """The shrinkage for a release, with a method `values`; None if it is of another kind."""
    if isinstance(release, ReleasedKernelGrid):
        return release
    plain = getattr(getattr(release, "kernel", None), "transform", None) is None
    if isinstance(release, ReleasedRace | ReleasedKernelFourier) and plain:
        return DataShrinkage.of(release)
    return None


def mean_at_data(release: Any) -> tuple[float, float]:
    """The mean over the data points of their mean kernel value, and its standard error.

    A point's own cell holds its count, so that the sum over points is one of squares of cells, less
    the variance of their noise and each point's kernel with itself.
    """
    variance, size = release._distribution.variance, max(release.size(), 1.0)
    if isinstance(release, ReleasedKernelFourier):
        cells, factors = release._waves.T / (UNIT - 1.0), np.full(release.rows, 1 / release.rows)
        variance, collided = variance / (UNIT - 1.0) ** 2, 0.0
        used = np.full(release.rows, 2.0)
    else:
        scales, _, fractions = release._coefficients(1)
        cells, factors = release._table, scales / release.rows
        collided, used = float(fractions[0]), release._hashes.used.astype(np.float64)
    squares = np.array([float((row.astype(np.float64) ** 2).sum()) for row in cells])
    signal = squares - used * variance
    total = float(factors @ signal) - collided * size**2 - size
    noise = 4 * np.maximum(signal, 0.0) * variance + (KURTOSIS - 1) * used * variance**2
    error = math.sqrt(float((factors**2) @ noise)) / size**2
    return total / size**2, math.hypot(error, HASHED / math.sqrt(release.rows))


def _uniform_means(field: Field, uniform: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The mean kernel value of uniform points at each point."""
    kernel, bandwidth = field.setting.kernel, field.setting.bandwidth
    low, high = (np.array(side) for side in field.bounds)
    longest = float(np.linalg.norm(high - low)) / bandwidth
    stops = np.linspace(0.0, 1.0, 2**14) ** 2 * longest
    table = profile(kernel, stops)
    out = np.empty(len(points))
    for start in range(0, len(points), BLOCK):
        part = np.clip(points[start : start + BLOCK], low, high)
        squares = (part**2).sum(axis=1)[:, None] + (uniform**2).sum(axis=1) - 2 * part @ uniform.T
        far = np.sqrt(np.maximum(squares, 0.0)) / bandwidth
        out[start : start + BLOCK] = np.interp(far, stops, table).mean(axis=1)
    return out
