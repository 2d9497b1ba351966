"""The least Gaussian privacy loss that counts of guesses leave possible, with its whole curve."""

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato._require import between, fraction
from sfumato.attack._bounds import checked_counts, flawless, rate_bounds
from sfumato.privacy.loss import GaussianNoise

__all__ = ["GaussianFit", "gaussian_fit", "noise_epsilon"]

EPSILON, DELTA = between(0, math.inf), fraction
# Beyond this sigma a lattice law differs from the continuous one by 1 / (24 sigma**2) of mu, which
# it would take more than 1e9 trials to see.
SMOOTH = 50


@dataclass(frozen=True, repr=False)
class GaussianFit:
    """The mu of Gaussian differential privacy that was certified, and its whole curve.

    mu: with this confidence the mechanism is m-GDP for no smaller m; ceiling: the most that as many
    trials could have shown.

    >>> fit = gaussian_fit(5517, 10_000, 4483, 10_000)
    >>> round(fit.epsilon(1e-5), 3)
    0.767
    """

    mu: float
    ceiling: float
    confidence: float

    def delta(self, epsilon: float) -> float:
        """The delta of this mu at an epsilon: Dong, Roth and Su 2022, corollary 2.13."""
        from scipy.special import log_ndtr

        epsilon = EPSILON.check("GaussianFit", "epsilon", epsilon)
        if self.mu == 0:
            return 0.0
        centre, half = epsilon / self.mu, self.mu / 2
        ratio = epsilon + float(log_ndtr(-centre - half) - log_ndtr(half - centre))
        return math.exp(float(log_ndtr(half - centre))) * -math.expm1(min(ratio, 0.0))

    def epsilon(self, delta: float) -> float:
        """The epsilon of this mu at a delta, from below."""
        delta = DELTA.check("GaussianFit", "delta", delta)
        if self.delta(0) <= delta:
            return 0.0
        top = 1.0
        while self.delta(top) > delta:
            top *= 2
        return _last(lambda epsilon: self.delta(epsilon) > delta, 0.0, top)

    def to_dict(self) -> dict[str, Any]:
        """The fit as plain JSON values."""
        return asdict(self)

    def __repr__(self) -> str:
        sure = f"confidence {self.confidence:.10g}"
        return f"mu >= {self.mu:.4g} ({sure}; at most {self.ceiling:.4g} could show)"


def gaussian_fit(
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    confidence: float = 0.95,
) -> GaussianFit:
    """The mu of Gaussian differential privacy that a guess about two neighbours certifies.

    Guarantee: where the mechanism is mu-GDP and the guess was fixed before these trials, the result
    exceeds mu with a chance of at most 1 - confidence. Its curve is a lower bound of the
    mechanism's own only where that is Gaussian; elsewhere `epsilon_lower_bound` is what holds.
    Parameters: as of `epsilon_lower_bound`.

    >>> gaussian_fit(5517, 10_000, 4483, 10_000)
    mu >= 0.2104 (confidence 0.95; at most 6.75 could show)

    A mu-GDP mechanism allows no test with quantile(1 - false positives) - quantile(false negatives)
    above mu: Dong, Roth and Su 2022, definition 2.6, on the ends of Clopper and Pearson.
    """
    owner = "gaussian_fit"
    counts = checked_counts(owner, true_positives, positives, false_positives, negatives)
    confidence = fraction.check(owner, "confidence", confidence)
    found, perfect = (
        float(separation(*rate_bounds(*each, confidence))) for each in (counts, flawless(*counts))
    )
    return GaussianFit(found, perfect, confidence)


def separation(least: Any, greatest: Any) -> np.ndarray:
    """The distance of two unit normals that rates beyond these bounds need."""
    from scipy.special import ndtri

    apart: np.ndarray = np.maximum(ndtri(least) - ndtri(greatest), 0.0)
    return np.where(least > greatest, apart, 0.0)


def noise_epsilon(noise: GaussianNoise, least: float, greatest: float, delta: float) -> float:
    """The epsilon at delta of the narrowest discrete Gaussian noise that these rates refute.

    It exceeds that of the noise which is claimed only if the rates refute the claim: by Neyman and
    Pearson no test of a lattice law against its shift beats a threshold on the sum of the cells.
    """
    from sfumato.privacy.calibrate import gaussian_epsilon

    mu = float(separation(least, greatest))
    if mu == 0:
        return 0.0
    near = math.sqrt(noise.cells) * noise.change / mu
    sigma = _last(lambda sigma: _power(noise, sigma, greatest) < least, 4 * near, near / 4)
    told, claim = (
        gaussian_epsilon(delta, variance, change=noise.change, cells=noise.cells)
        for variance in (Fraction(sigma) ** 2, noise.variance)
    )
    # On a lattice a little more noise can cost a little more: the claim itself has the last word.
    refuted = _power(noise, math.sqrt(noise.variance), greatest) < least
    return max(told, math.nextafter(claim, math.inf)) if refuted else min(told, claim)


def _power(noise: GaussianNoise, sigma: float, level: float) -> float:
    """The best true positive rate against noise of this sigma, at this false positive rate."""
    from scipy.special import ndtr, ndtri

    shift = noise.change * noise.cells
    if sigma > SMOOTH:
        return float(ndtr(ndtri(level) + shift / (sigma * math.sqrt(noise.cells))))
    mass = _summed(sigma, noise.cells, shift)
    # The larger a sum is, the likelier after the shift, and the sooner it is called a positive.
    alarms = np.concatenate([[0.0], np.cumsum(mass[::-1])])
    hits = np.concatenate([[0.0], np.cumsum(np.roll(mass, shift)[::-1])])
    return float(np.interp(level, alarms, hits))


def _summed(sigma: float, cells: int, shift: int) -> np.ndarray:
    """The mass of the sum of so many noises, centred, with room on both sides for the shift."""
    reach = math.ceil(12 * sigma * (1 + math.sqrt(cells))) + shift
    points = np.arange(-reach, reach + 1)
    one = np.exp(-((points / sigma) ** 2) / 2)
    one /= one.sum()
    if cells == 1:
        return one
    turned = np.fft.rfft(np.fft.ifftshift(one)) ** cells
    return np.fft.fftshift(np.maximum(np.fft.irfft(turned, one.size), 0.0))


def _last(holds: Any, inside: float, outside: float) -> float:
    """The last point for which it holds, by bisection from `inside`, where it does."""
    for _ in range(50):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside
