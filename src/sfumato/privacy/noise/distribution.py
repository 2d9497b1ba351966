"""Moments and tail bounds of discrete Laplace and Gaussian noise, and of means of such numbers."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np

__all__ = ["LAWS", "NoiseDistribution"]

LAWS = ("Laplace", "Gaussian")
SUMMED = 1024  # a Gaussian up to this sigma is summed number by number
TILTS = np.linspace(0.002, 0.998, 499)  # of the exponential in Chernoff's bound, times 1 / scale


@dataclass(frozen=True)
class NoiseDistribution:
    """Distribution of discrete Laplace noise of a scale, or Gaussian noise of a sigma.

    Estimates and error bounds use it; the noise itself is drawn without floats, by
    `sfumato.privacy.noise`.

    Examples
    --------
    >>> NoiseDistribution("Laplace", 2.0).tail_bound(0.01)  # P(|noise| > 9) <= 0.01
    9.0
    """

    kind: str
    scale: float

    @cached_property
    def variance(self) -> float:
        """Variance E noise**2; with x = exp(-1 / scale), Laplace has 2 x / (1 - x)**2."""
        if self.kind == "Laplace":
            x, complement = math.exp(-1 / self.scale), -math.expm1(-1 / self.scale)
            return 2 * x / complement**2
        return self._moment(2) if self.scale <= SUMMED else self.scale**2

    @cached_property
    def fourth(self) -> float:
        """Fourth moment E noise**4; Laplace has 2 x (1 + 10 x + x**2) / (1 - x)**4."""
        if self.kind == "Laplace":
            x, complement = math.exp(-1 / self.scale), -math.expm1(-1 / self.scale)
            return 2 * x * (1 + 10 * x + x * x) / complement**4
        return self._moment(4) if self.scale <= SUMMED else 3 * self.scale**4

    def tail_bound(self, miss: float) -> float:
        """Return the smallest integer that |noise| exceeds with probability at most `miss`."""
        if self.kind == "Laplace":  # P(|noise| > n) = 2 x**(n + 1) / (1 + x)
            x = math.exp(-1 / self.scale)
            return float(max(0, math.ceil(self.scale * math.log(2 / ((1 + x) * miss)) - 1)))
        if self.scale <= SUMMED:
            return float(np.argmax(_gaussian_tail(self.scale) <= miss))
        # P(noise >= n + 1) is at most the continuous one's P(>= n): Canonne, Kamath and Steinke.
        return float(math.ceil(-self.scale * NormalDist().inv_cdf(miss / 2)))

    def mean_tail_bound(self, count: int, miss: float) -> float:
        """Return what the |mean| of `count` numbers exceeds with probability at most `miss`.

        Chernoff: the mean exceeds s with probability at most 2 (M(t) exp(-t s))**count at every t,
        where M(t) = E exp(t noise); a Gaussian's is at most exp(sigma**2 t**2 / 2) (Canonne, Kamath
        and Steinke 2020: the discrete Gaussian is subgaussian).
        """
        if count == 1:
            return self.tail_bound(miss)
        each = math.log(2 / miss) / count
        if self.kind == "Gaussian":
            return self.scale * math.sqrt(2 * each)
        rate = 1 / self.scale
        log = 2 * np.log(-math.expm1(-rate)) - np.log(np.expm1((TILTS - 1) * rate) * -1)
        log -= np.log(-np.expm1(-(1 + TILTS) * rate))
        return float(((log + each) / (TILTS * rate)).min())

    def _moment(self, power: int) -> float:
        """Return E noise**power by summation."""
        sizes = np.arange(_end(self.scale))
        mass = _mass(self.scale)
        return float((mass * sizes**power).sum())


def _end(sigma: float) -> int:
    """Return a size that the noise exceeds with probability below 1e-30."""
    return math.ceil(12 * sigma) + 12


def _mass(sigma: float) -> np.ndarray:
    """Return the probabilities of |noise| = 0, 1, 2, ...; beyond their end is less than 1e-30."""
    mass = np.exp(-(np.arange(_end(sigma)) ** 2) / (2 * sigma**2))
    mass[1:] *= 2
    return np.asarray(mass / mass.sum())


@lru_cache(64)
def _gaussian_tail(sigma: float) -> np.ndarray:
    """Return the probability of |noise| > n for n = 0, 1, 2, ...."""
    above = np.cumsum(_mass(sigma)[::-1])[::-1]
    return np.append(above[1:], 0.0)
