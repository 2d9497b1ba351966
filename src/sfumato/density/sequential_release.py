"""Noise for steps that see the data one after the other, and what they cost together."""

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
    """One table of integers, and the most that one row changes it by where it is added.

    share: of the budget. l1 and l2_squared: of the change; for the Gaussian law and an exchanged
    row the square grows by `exchanged`: 2 for cells that count by ones, 4 in general.
    """

    share: Fraction
    l1: int
    l2_squared: int
    exchanged: int = 2


@dataclass(frozen=True)
class StepNoise:
    """The law of all noise, and its scale in each step (sigma if Gaussian); none without a source.

    The cost of all steps is `loss`: each may depend on the noisy tables of those before it.
    """

    law: str
    scales: tuple[Fraction, ...]
    source: Source | None = None

    def added(self, step: int, cells: np.ndarray) -> np.ndarray:
        """The cells, int64, with the noise of this step."""
        if self.source is not None:
            add = noise.add_laplace if self.law == "Laplace" else noise.add_gaussian
            add(cells, self.scales[step], source=self.source)
        return cells

    def variance(self, step: int) -> float:
        """Of a cell's noise in this step."""
        if not self.scales:
            return 0.0
        return NoiseDistribution(self.law, float(self.scales[step])).variance


NO_NOISE = StepNoise("Laplace", ())


def cheapest(
    request: ReleaseRequest, laplace: Sequence[Step], gaussian: Sequence[Step] | None = None
) -> tuple[StepNoise, Loss]:
    """The law whose noise in the first table varies less, its scales, and the cost of all steps.

    Guarantee: (epsilon, delta) of the terms. Laplace: the steps' pure epsilons, L1 / scale, add up
    to epsilon; Gaussian: their rhos, L2**2 / (2 sigma**2), to one that epsilon and delta allow.
    Adaptive steps compose so (Bun and Steinke 2016, lemma 1.7). gaussian: the steps under that law
    where their reach is another.
    """
    choices = [_laplace(request, laplace)]
    if request.delta:
        choices.append(_gaussian(request, gaussian or laplace))
    choices = [choice for choice in choices if max(choice[0].scales) <= noise.LARGEST]
    if not choices:
        raise ValueError(
            f"{request.owner}: epsilon is {request.epsilon!r}, for which the noise would not fit "
            "into cells of 64 bits; raise it, or lower contributions."
        )
    return min(choices, key=lambda choice: choice[0].variance(0))


def _laplace(request: ReleaseRequest, steps: Sequence[Step]) -> tuple[StepNoise, Loss]:
    epsilon = Fraction(request.epsilon)
    scales = tuple(step.l1 * request.events / (epsilon * step.share) for step in steps)
    return StepNoise("Laplace", scales), Pure(request.epsilon, relation=request.relation)


def _gaussian(request: ReleaseRequest, steps: Sequence[Step]) -> tuple[StepNoise, Loss]:
    exchanged = request.relation == "replace"
    squares = [
        step.l2_squared * (step.exchanged if exchanged else 1) * request.contributions**2
        for step in steps
    ]
    sigmas = tuple(
        gaussian_sigma_l2(request.epsilon, request.delta, norm_squared=square / step.share)
        for square, step in zip(squares, steps, strict=True)
    )
    rhos = [square / (2 * sigma**2) for square, sigma in zip(squares, sigmas, strict=True)]
    rho = round_up(sum(rhos, Fraction(0)))
    return StepNoise("Gaussian", sigmas), Concentrated(rho, relation=request.relation)
