"""Mean kernel values of released hashes or frequencies, shrunk by their known noise.

`shrinkage` reads a release alone, so it costs no privacy. Grids are shrunk where they are made.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.bounds import Pair
from sfumato.density.backends import described
from sfumato.sketch.kernel_sums.fourier import UNIT, ReleasedKernelFourier
from sfumato.sketch.kernel_sums.race import ReleasedRace
from sfumato.sketch.kernel_sums.radial_kernels import profile

__all__ = ["DataShrinkage", "mean_at_data", "shrinkage"]

UNIFORM = 2**10  # points that stand for a uniform density
SPREAD = 0.35  # prior deviation of a value, as a fraction of its excess over uniform points
HASHED = 0.01  # error of the mean at the data by hashes or frequencies, times the root of rows
SURE = 2.0  # standard errors that the excess must exceed
FAR = 3.0  # deviations of noise beyond which a difference from the prior is itself a signal
KURTOSIS = 6.0  # of Laplace noise; that of Gaussian noise is less
BLOCK = 2**12  # queries at a time


@dataclass(frozen=True)
class DataShrinkage:
    """Values shrunk to those of uniform points plus the mean excess of the data over them.

    The mean of the values at the data points is known far better than one value, since it is a sum
    of squares of all cells. Where it does not exceed that of uniform points, values are those of
    uniform points.
    """

    release: Any
    uniform: "UniformMeans"
    excess: float
    deviation: float
    noise: float

    @classmethod
    def of(cls, release: Any) -> "DataShrinkage":
        """The shrinkage for a release of hashes or frequencies."""
        setting = described(release)
        uniform = UniformMeans(setting.kernel, setting.bandwidth, setting.bounds, setting.seed)
        flat = float(uniform.values(uniform.points(UNIFORM, 1)).mean())
        mean, error = mean_at_data(release)
        beyond = mean - flat
        excess = beyond * max(0.0, 1 - (SURE * error / beyond) ** 2) if beyond > 0 else 0.0
        deviation = math.hypot(SPREAD * excess, error) if excess else 0.0
        noise = float(release.noise_error()) / max(float(release.size()), 1.0)
        return cls(release, uniform, excess, deviation, noise)

    def values(self, points: np.ndarray) -> np.ndarray:
        """The shrunk mean kernel values at points, each by itself."""
        prior = self.uniform.values(points) + self.excess
        raw = np.asarray(self.release.estimate(points)) / max(float(self.release.size()), 1.0)
        difference = raw - prior
        signal = np.maximum(self.deviation**2, difference**2 - (FAR * self.noise) ** 2)
        return np.asarray(prior + difference * signal / np.maximum(signal + self.noise**2, 1e-300))


def shrinkage(release: Any) -> DataShrinkage | None:
    """The shrinkage for a release of hashes or frequencies of points; None for others."""
    family = getattr(release, "kernel", None)
    plain = getattr(family, "p", 2) == 2 and getattr(family, "transform", None) is None
    hashed = isinstance(release, ReleasedRace) and hasattr(family, "bandwidth") and plain
    return (
        DataShrinkage.of(release) if hashed or isinstance(release, ReleasedKernelFourier) else None
    )


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
    # Cells that no point can reach hold noise alone.
    pairs = zip(cells, used.astype(np.int64), strict=True)
    squares = np.array([float((row[:most].astype(np.float64) ** 2).sum()) for row, most in pairs])
    signal = squares - used * variance
    total = float(factors @ signal) - collided * size**2 - size
    noise = 4 * np.maximum(signal, 0.0) * variance + (KURTOSIS - 1) * used * variance**2
    error = math.sqrt(float((factors**2) @ noise)) / size**2
    return total / size**2, math.hypot(error, HASHED / math.sqrt(release.rows))


@dataclass(frozen=True)
class UniformMeans:
    """Mean kernel values of points that are uniform in a box: exact if the kernel is Gaussian."""

    kernel: str
    bandwidth: float
    bounds: Pair
    seed: int

    def points(self, count: int, stream: int) -> np.ndarray:
        """Uniform points of the box, the same for the same numbers."""
        low, high = (np.array(side) for side in self.bounds)
        rng = np.random.default_rng([self.seed, stream])
        return np.asarray(low + rng.random((count, low.size)) * (high - low))

    def values(self, points: np.ndarray) -> np.ndarray:
        """The mean kernel value at each point, clipped to the box."""
        low, high = (np.array(side) for side in self.bounds)
        inside = np.clip(points, low, high)
        if self.kernel == "gaussian":
            from scipy.special import ndtr

            each = ndtr((high - inside) / self.bandwidth) - ndtr((low - inside) / self.bandwidth)
            widths = (high - low) / self.bandwidth
            return np.asarray((each * math.sqrt(2 * math.pi) / widths).prod(axis=1))
        uniform, out = self.points(UNIFORM, 0), np.empty(len(points))
        longest = float(np.linalg.norm(high - low)) / self.bandwidth
        stops = np.linspace(0.0, 1.0, 2**12) ** 2 * longest
        table = profile(self.kernel, stops)
        for start in range(0, len(points), BLOCK):
            part = inside[start : start + BLOCK]
            squares = (part**2).sum(axis=1)[:, None] + (uniform**2).sum(axis=1)
            squares -= 2 * part @ uniform.T
            far = np.sqrt(np.maximum(squares, 0.0)) / self.bandwidth
            out[start : start + BLOCK] = np.interp(far, stops, table).mean(axis=1)
        return out
