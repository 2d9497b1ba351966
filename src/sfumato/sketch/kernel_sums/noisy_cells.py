"""Cells with noise of one law and scale, for any change in integers of bounded norms."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, TypeVar

import numpy as np

from sfumato.core.validation import one_of, positive
from sfumato.kernels.lanes import aligned
from sfumato.privacy.accounting.calibration import gaussian_sigma, gaussian_sigma_l2
from sfumato.privacy.accounting.losses import Concentrated, GaussianNoise, LaplaceNoise, Loss, Pure
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.noise.distribution import LAWS, NoiseDistribution
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest
from sfumato.privacy.rounding import round_up

__all__ = ["NoisyCells", "Reach", "planned_cells"]

CLIP = noise.ROOM - 1  # the largest size of a cell that noise cannot wrap
NEXT_TO_NONE = Fraction(1, 64)  # such Laplace noise is 0 but for a chance of exp(-64)


@dataclass(frozen=True)
class Reach:
    """How far one event moves all cells together, at most: integers, for every event there is.

    l1 and l2_squared: of the change that one event of weight 1 makes where it is added.
    replaced_l1, replaced_l2_squared: of the change where it is exchanged for another event of a
    weight from 0 to 1; twice and four times as much where nothing better is known.
    ones: no cell changes by more than 1 (per weight), so that l1 cells by 1 each are the worst, and
    the exact cost of so many can be told; of an exchange only where replaced_l1 is known as well.
    weight: the most that an event weighs; all changes are proportional to it.
    """

    l1: int
    l2_squared: int
    replaced_l1: int | None = None
    replaced_l2_squared: int | None = None
    ones: bool = False
    weight: int = 1

    def norms(self, relation: str) -> tuple[int, int]:
        """L1 and squared L2 norm of the most that one event of weight 1 changes."""
        if relation != "replace":
            return self.l1, self.l2_squared
        l1 = 2 * self.l1 if self.replaced_l1 is None else self.replaced_l1
        square = self.replaced_l2_squared
        return l1, 4 * self.l2_squared if square is None else square

    def by_one(self, relation: str) -> bool:
        """Whether that changes no cell by more than 1."""
        # Two changes by 1, of what is taken away and of what is added, may meet in one cell.
        return self.ones and (relation != "replace" or self.replaced_l1 is not None)


class NoisyCells(Release, in_files=False):
    """A release whose cells all carry noise of one law.

    noise and scale: the law of what was added to every cell, and its scale (sigma if Gaussian).
    """

    noise: Annotated[str, one_of(LAWS)]
    scale: Annotated[float, positive]

    @property
    def _distribution(self) -> NoiseDistribution:
        return NoiseDistribution(self.noise, self.scale)

    def _check_parameters(self) -> None:
        if self.scale > noise.LARGEST:
            raise ValueError(f"{type(self).__name__}: scale must be at most 2**40.")


R = TypeVar("R", bound=Release)


def planned_cells(
    kind: type[R],
    parameters: dict[str, Any],
    arrays: dict[str, np.ndarray],
    request: ReleaseRequest,
    reach: Reach,
    wanted: str | None,
    what: str,
) -> CalibratedRelease[R]:
    """The release of these whole-number arrays under these terms, with the noise that is wanted.

    Guarantee: for any change of the cells within the reach, `terms.contributions` times over, the
    noise costs at most the terms' epsilon and delta; its law and scale join the parameters as
    `noise` and `scale`.
    Parameters: kind, the class of the release; parameters, its own, public; arrays, int32 or int64
    by the name of its layout; wanted, "laplace", "gaussian" or None for the smaller variance; what,
    the cells in words, as "1000 x 1024 counters".

    Laplace: L1 / scale is the pure epsilon of any change. Gaussian: rho = L2**2 / (2 sigma**2)
    (Canonne, Kamath and Steinke 2020, theorem 14).
    """
    law, scale, loss = _fitting(request, reach, wanted)
    request.check_room(8 * sum(array.size for array in arrays.values()))

    def noisy(source: Source) -> dict[str, np.ndarray]:
        return {name: _with_noise(array, law, scale, source) for name, array in arrays.items()}

    letter = "scale" if law == "Laplace" else "sigma"
    mechanism = (
        f"discrete {law} noise, {letter} {float(scale):.6g}, on each of {what}; an event weighs at "
        f"most {reach.weight}"
    )
    return CalibratedRelease(
        kind, {**parameters, "noise": law, "scale": float(scale)}, loss, mechanism, noisy
    )


def _with_noise(array: np.ndarray, law: str, scale: Fraction, source: Source) -> np.ndarray:
    cells = aligned(array.shape, np.int64)
    cells[...] = array
    np.clip(cells, -CLIP, CLIP, out=cells)  # moves no two arrays apart
    add = noise.add_laplace if law == "Laplace" else noise.add_gaussian
    add(cells, scale, source=source)
    return cells


def _fitting(
    request: ReleaseRequest, reach: Reach, wanted: str | None
) -> tuple[str, Fraction, Loss]:
    """The law, scale and cost of the noise of the smallest variance that keeps the terms."""
    if wanted is not None:
        wanted = one_of(("laplace", "gaussian")).check(request.owner, "noise", wanted)
    if wanted == "gaussian" and not request.delta:
        raise ValueError(f"{request.owner}: noise 'gaussian' needs a delta above 0.")
    choices = []
    if wanted != "gaussian":
        choices.append(_laplace(request, reach))
    if wanted == "gaussian" or (not wanted and request.delta and choices[0][1] > NEXT_TO_NONE):
        choices.append(_gaussian(request, reach))
    choices = [choice for choice in choices if choice[1] <= noise.LARGEST]
    if not choices:
        raise ValueError(
            f"{request.owner}: epsilon is {request.epsilon!r}, for which the noise would not fit "
            "into cells of 64 bits; raise it, or lower weight or contributions."
        )
    return min(choices, key=lambda made: NoiseDistribution(made[0], float(made[1])).variance)


def _laplace(request: ReleaseRequest, reach: Reach) -> tuple[str, Fraction, Loss]:
    l1, _ = reach.norms(request.relation)
    scale = Fraction(l1 * reach.weight * request.contributions) / Fraction(request.epsilon)
    if reach.by_one(request.relation):
        loss: Loss = LaplaceNoise(scale, reach.weight, l1, relation=request.relation)
        # Which cells several events change is not known, so that their cost is that of a group.
        loss = loss if request.contributions == 1 else loss.group(request.contributions)
    else:
        loss = Pure(request.epsilon, relation=request.relation)
    return "Laplace", scale, loss


def _gaussian(request: ReleaseRequest, reach: Reach) -> tuple[str, Fraction, Loss]:
    l1, square = reach.norms(request.relation)
    times, weight = request.contributions, reach.weight
    if reach.by_one(request.relation) and times == 1:
        sigma = gaussian_sigma(request.epsilon, request.delta, change=weight, cells=l1)
        return "Gaussian", sigma, GaussianNoise(sigma**2, weight, l1, relation=request.relation)
    square *= (weight * times) ** 2
    sigma = gaussian_sigma_l2(request.epsilon, request.delta, norm_squared=square)
    rho = round_up(Fraction(square) / (2 * sigma**2))
    return "Gaussian", sigma, Concentrated(rho, relation=request.relation)
