"""The budget of several adaptive steps of Gaussian noise, stated as one loss."""

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato.privacy.accounting.calibration import gaussian_sigma
from sfumato.privacy.accounting.losses import GaussianNoise

__all__ = ["Budget"]

SMOOTH = 32  # variance by which discrete and continuous noise are turned into each other
SCALE = 2**14  # resolution of the loss that stands for all steps


@dataclass(frozen=True)
class Budget:
    """Privacy budget, and the noise that a fraction of it buys.

    Guarantee: steps whose fractions sum to at most 1, each with Gaussian noise of standard
    deviation `sigma(norm_squared, fraction)` on integers of squared L2 sensitivity `norm_squared`,
    cost at most `loss`. A step may depend on the results of those before it, its fraction may not.

    Proof: D(v) is discrete and N(v) continuous Gaussian noise; s = SMOOTH, V is the variance of
    `loss`. N(a) on a number, rounded to the integer k with probability proportional to exp(-(k -
    x)**2 / (2 s)), is D(a + s) up to the factor by which that sum over k varies with x, 1 +- 3
    exp(-2 pi**2 s) by Poisson summation. So a step is no easier to distinguish than N(a) with a =
    norm_squared (V + s) / (SCALE**2 fraction). Such steps, adaptive or not, compose to N(V + s) on
    one number that moves by SCALE (Dong, Roth and Su 2022, Gaussian differential privacy). And N(V
    + s) is D(V) plus N(s) up to a factor of 1 +- 3 exp(-2 pi**2 c), c = V s / (V + s) >= s / 2
    since V >= s. For all cells together these factors are closer to 1 than 1e-100; the rounding up
    of delta, 1e-9 of it, covers them.

    >>> half = Budget.of(8, 1e-6).sigma(100**2, Fraction(1, 2))
    >>> 90 < half < 95  # 100 * 0.653 * sqrt(2)
    True
    """

    loss: GaussianNoise

    @classmethod
    def of(cls, epsilon: float, delta: float) -> "Budget":
        """Return the largest budget within (epsilon, delta) under add/remove adjacency."""
        sigma = gaussian_sigma(epsilon, delta, change=SCALE)
        return cls(GaussianNoise(max(sigma**2, Fraction(SMOOTH)), SCALE))

    @property
    def precision(self) -> float:
        """Sum over all steps of the squared ratio of sensitivity to standard deviation."""
        return float(SCALE**2 / (self.loss.variance + SMOOTH))

    def sigma(self, norm_squared: int, fraction: Fraction) -> int:
        """Return the standard deviation as an integer, rounded up."""
        full_budget = norm_squared * (self.loss.variance + SMOOTH) / SCALE**2
        return math.isqrt(math.ceil(full_budget / fraction) + SMOOTH) + 1
