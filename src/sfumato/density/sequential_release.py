"""Noise for a sequence of adaptive queries on the same rows, and their total privacy loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.privacy.accounting.calibration import gaussian_sigma_l2
from sfumato.privacy.accounting.losses import Concentrated, Loss, Pure
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import ReleaseRequest
from sfumato.privacy.rounding import round_up

__all__ = ["NO_NOISE", "Step", "StepNoise", "cheapest"]


@dataclass(frozen=True)
class Step:
    """One integer table to release, and how much one added row changes it.

    fraction: part of the privacy budget for this step. l1 and l2_squared: L1 sensitivity and
    squared L2 sensitivity under add/remove. exchanged: factor of the squared L2 sensitivity when a
    row is replaced and the noise is Gaussian; 2 for tables that count by ones, 4 in general.
    """

    fraction: Fraction
    l1: int
    l2_squared: int
    exchanged: int = 2


@dataclass(frozen=True)
class StepNoise:
    """The noise distribution of all steps and its scale in each step (sigma if Gaussian).

    Adds no noise without a source. The privacy loss of all steps together is returned by
    `cheapest`; each step may depend on the noisy tables of the steps before it.
    """

    distribution: str
    scales: tuple[Fraction, ...]
    source: Source | None = None

    def added(self, step: int, cells: np.ndarray) -> np.ndarray:
        """Add the noise of this step to int64 cells in place and return them."""
        if self.source is not None:
            add = noise.add_laplace if self.distribution == "Laplace" else noise.add_gaussian
            add(cells, self.scales[step], source=self.source)
        return cells

    def variance(self, step: int) -> float:
        """Variance of the noise of one cell in this step."""
        if not self.scales:
            return 0.0
        return NoiseDistribution(self.distribution, float(self.scales[step])).variance


NO_NOISE = StepNoise("Laplace", ())


def cheapest(
    request: ReleaseRequest,
    laplace: Sequence[Step],
    gaussian: Sequence[Step] | None = None,
    *,
    only: str | None = None,
) -> tuple[StepNoise, Loss]:
    """Choose the distribution with the smaller noise variance in the first table.

    Returns the noise of all steps and their total loss, which is within (epsilon, delta) of the
    request. Laplace: the pure epsilons of the steps, L1 / scale, sum to epsilon. Gaussian: their
    zero-concentrated parameters rho, L2**2 / (2 sigma**2), sum to a rho that epsilon and delta
    allow. Adaptive steps compose additively (Bun and Steinke 2016, Lemma 1.7, composition of zCDP).
    gaussian: the steps under Gaussian noise, where their sensitivities differ. only: a distribution
    that was chosen before, for other steps of the same release.
    """
    choices = [_laplace(request, laplace)] if only != "Gaussian" else []
    if request.delta and only != "Laplace":
        choices.append(_gaussian(request, gaussian or laplace))
    choices = [choice for choice in choices if max(choice[0].scales) <= noise.LARGEST]
    if not choices:
        raise ValueError(
            f"{request.owner}: epsilon is {request.epsilon!r}, for which the noise would not fit "
            "into cells of 64 bits; raise it, or lower contributions."
        )
    return min(choices, key=lambda choice: choice[0].variance(0))


def _laplace(request: ReleaseRequest, steps: Sequence[Step]) -> tuple[StepNoise, Loss]:
    """Scales of Laplace noise for the steps, and their pure loss."""
    epsilon = Fraction(request.epsilon)
    scales = tuple(step.l1 * request.events / (epsilon * step.fraction) for step in steps)
    return StepNoise("Laplace", scales), Pure(request.epsilon, relation=request.relation)


def _gaussian(request: ReleaseRequest, steps: Sequence[Step]) -> tuple[StepNoise, Loss]:
    """Standard deviations of Gaussian noise for the steps, and their zCDP loss."""
    exchanged = request.relation == "replace"
    squares = [
        step.l2_squared * (step.exchanged if exchanged else 1) * request.contributions**2
        for step in steps
    ]
    sigmas = tuple(
        gaussian_sigma_l2(request.epsilon, request.delta, norm_squared=square / step.fraction)
        for square, step in zip(squares, steps, strict=True)
    )
    rhos = [square / (2 * sigma**2) for square, sigma in zip(squares, sigmas, strict=True)]
    rho = round_up(sum(rhos, Fraction(0)))
    return StepNoise("Gaussian", sigmas), Concentrated(rho, relation=request.relation)
