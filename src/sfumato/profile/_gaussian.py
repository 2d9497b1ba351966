"""Profiles as sums of codewords with discrete Gaussian noise: how much noise, and what it costs."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeVar

from sfumato._require import fraction, optional, positive
from sfumato.privacy._upward import round_up
from sfumato.privacy.calibrate import epsilon_of, gaussian_sigma_l2
from sfumato.privacy.loss import Concentrated
from sfumato.privacy.noise import LARGEST
from sfumato.profile._codewords import SCALE
from sfumato.profile._mechanism import ProfileMechanism
from sfumato.profile._released import ReleasedProfiles
from sfumato.sketch._release import Terms

__all__ = ["GaussianMechanism", "GaussianNoise"]

FAINT = 1e-9  # what is stated where a delta alone covers the noise
R = TypeVar("R", bound=ReleasedProfiles)


@dataclass(frozen=True)
class GaussianNoise:
    """Noise of this sigma on whole numbers that one item moves by a vector of this squared norm."""

    sigma: Fraction
    norm_squared: int

    @classmethod
    def of(cls, terms: Terms, norm_squared: int, sigma: float | None) -> Self:
        """The noise that was asked for, in codewords, or that the epsilon of the terms needs."""
        if sigma is None:
            asked = norm_squared * terms.events**2
            exact = gaussian_sigma_l2(terms.epsilon, terms.delta, norm_squared=asked)
        else:
            exact = Fraction(math.ceil(Fraction(sigma) * SCALE))  # rounded to more noise
        if exact > LARGEST:
            raise ValueError(
                f"{terms.owner}: the noise would be too large for 64 bits; raise epsilon, or "
                "lower sigma or contributions."
            )
        return cls(exact, norm_squared)

    def loss(self, items: int, relation: str) -> Concentrated:
        """The cost of so many items: their codewords together are at most so many times as long.

        Canonne, Kamath and Steinke 2020, theorem 14: rho = norm**2 / (2 sigma**2).
        """
        rho = Fraction(items**2 * self.norm_squared) / (2 * self.sigma**2)
        return Concentrated(round_up(rho), relation=relation)

    def epsilon(self, items: int, delta: float) -> float:
        """The epsilon of so many items, added or removed; one that is exchanged counts as two."""
        return epsilon_of(self.loss(items, "add/remove"), delta)


class GaussianMechanism(ProfileMechanism[R]):
    """The base of mechanisms that take an epsilon or a sigma, and a delta."""

    LIMITS: ClassVar[dict[str, Any]] = {
        "epsilon": optional(positive),
        "delta": fraction,
        "sigma": optional(positive),
        **ProfileMechanism.LIMITS,
    }
    epsilon: float | None
    delta: float
    sigma: float | None

    def _set_parameters(self, **given: Any) -> None:
        owner, sigma = type(self).__name__, given["sigma"]
        if given["epsilon"] is None and (sigma is None or (sigma == 0 and sigma is not False)):
            raise ValueError(
                f"{owner}: epsilon must be given, or sigma above 0; without noise the profiles "
                "would not be private."
            )
        if given["epsilon"] is not None and sigma is not None:
            raise ValueError(f"{owner}: epsilon or sigma must be given, not both.")
        super()._set_parameters(**given)

    def _asked(self) -> tuple[float, float]:
        return FAINT if self.epsilon is None else self.epsilon, self.delta

    def _sentence(self, terms: Terms, noise: GaussianNoise) -> str:
        """The noise, and both losses: one item is hidden well, a whole profile hardly."""
        told = self._told(terms, lambda items: noise.epsilon(items, terms.delta))
        return (
            f"discrete Gaussian noise of sigma {float(noise.sigma / SCALE):.6g} codewords on each "
            f"number; at delta {terms.delta:g} {told}"
        )
