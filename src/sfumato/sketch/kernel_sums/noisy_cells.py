"""Integer cells released with noise of one distribution, calibrated to L1 and L2 sensitivities."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, TypeVar

import numpy as np

from sfumato.core.validation import one_of, positive
from sfumato.kernels.alignment import aligned
from sfumato.privacy.accounting.calibration import gaussian_sigma, gaussian_sigma_l2
from sfumato.privacy.accounting.losses import Concentrated, GaussianNoise, LaplaceNoise, Loss, Pure
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.noise.distribution import LAWS, NoiseDistribution
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest
from sfumato.privacy.rounding import round_up

__all__ = ["NoisyCells", "Sensitivity", "calibrated_cells"]

CLIP = noise.ROOM - 1  # the largest size of a cell that noise cannot wrap
NEGLIGIBLE = Fraction(1, 64)  # a scale at which Laplace noise is 0 except with probability exp(-64)


@dataclass(frozen=True)
class Sensitivity:
    """Upper bounds, in integers, of the change that one event makes to all cells together.

    l1 and l2_squared: norms of the change if an event of weight 1 is added. replaced_l1,
    replaced_l2_squared: norms if it is replaced by another event of weight 0 to 1; None for twice
    and four times the former. ones: no cell changes by more than 1 (per weight), so that the worst
    case is l1 cells by 1 each, whose exact privacy loss is known; of a replacement only if
    replaced_l1 is given. weight: the largest weight of an event, to which all changes are
    proportional.
    """

    l1: int
    l2_squared: int
    replaced_l1: int | None = None
    replaced_l2_squared: int | None = None
    ones: bool = False
    weight: int = 1

    def norms(self, relation: str) -> tuple[int, int]:
        """L1 and squared L2 sensitivity to one event of weight 1 under this relation."""
        if relation != "replace":
            return self.l1, self.l2_squared
        l1 = 2 * self.l1 if self.replaced_l1 is None else self.replaced_l1
        square = self.replaced_l2_squared
        return l1, 4 * self.l2_squared if square is None else square

    def by_one(self, relation: str) -> bool:
        """Whether one event of weight 1 changes no cell by more than 1."""
        # Two changes by 1, of the removed and of the added event, may meet in one cell.
        return self.ones and (relation != "replace" or self.replaced_l1 is not None)


class NoisyCells(Release, in_files=False):
    """A release whose cells all carry independent noise of one distribution.

    noise and scale: the distribution of the noise and its scale (sigma if Gaussian).
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


def calibrated_cells(
    kind: type[R],
    parameters: dict[str, Any],
    arrays: dict[str, np.ndarray],
    request: ReleaseRequest,
    sensitivity: Sensitivity,
    wanted: str | None,
    what: str,
) -> CalibratedRelease[R]:
    """The release of these integer arrays with the noise that the request needs.

    Guarantee: for any change of the cells within the sensitivity, `request.contributions` times
    over, the noise costs at most the requested epsilon and delta. Its distribution and scale join
    the parameters as `noise` and `scale`. Parameters: kind, the class of the release; parameters,
    its own, public; arrays, int32 or int64 by the name of its layout; wanted, "laplace", "gaussian"
    or None for the smaller variance; what, the cells in words, as "1000 x 1024 counters".

    Laplace: L1 / scale is the pure epsilon of any change. Gaussian: zCDP rho = L2**2 / (2 sigma**2)
    (Canonne, Kamath and Steinke 2020, theorem 14).
    """
    distribution, scale, loss = _smallest_noise(request, sensitivity, wanted)
    request.check_room(8 * sum(array.size for array in arrays.values()))

    def noisy(source: Source) -> dict[str, np.ndarray]:
        return {
            name: _with_noise(array, distribution, scale, source) for name, array in arrays.items()
        }

    letter = "scale" if distribution == "Laplace" else "sigma"
    mechanism = (
        f"discrete {distribution} noise, {letter} {float(scale):.6g}, on each of {what}; an event "
        f"weighs at most {sensitivity.weight}"
    )
    return CalibratedRelease(
        kind, {**parameters, "noise": distribution, "scale": float(scale)}, loss, mechanism, noisy
    )


def _with_noise(
    array: np.ndarray, distribution: str, scale: Fraction, source: Source
) -> np.ndarray:
    """A copy of the array, clipped so that it cannot overflow, with noise on every cell."""
    cells = aligned(array.shape, np.int64)
    cells[...] = array
    np.clip(cells, -CLIP, CLIP, out=cells)  # increases no distance of two arrays
    add = noise.add_laplace if distribution == "Laplace" else noise.add_gaussian
    add(cells, scale, source=source)
    return cells


def _smallest_noise(
    request: ReleaseRequest, sensitivity: Sensitivity, wanted: str | None
) -> tuple[str, Fraction, Loss]:
    """Distribution, scale and loss of the noise with the least variance for the request."""
    if wanted is not None:
        wanted = one_of(("laplace", "gaussian")).check(request.owner, "noise", wanted)
    if wanted == "gaussian" and not request.delta:
        raise ValueError(f"{request.owner}: noise 'gaussian' needs a delta above 0.")
    candidates = []
    if wanted != "gaussian":
        candidates.append(_laplace(request, sensitivity))
    if wanted == "gaussian" or (not wanted and request.delta and candidates[0][1] > NEGLIGIBLE):
        candidates.append(_gaussian(request, sensitivity))
    candidates = [candidate for candidate in candidates if candidate[1] <= noise.LARGEST]
    if not candidates:
        raise ValueError(
            f"{request.owner}: epsilon is {request.epsilon!r}, for which the noise would not fit "
            "into cells of 64 bits; raise it, or lower weight or contributions."
        )
    return min(candidates, key=lambda each: NoiseDistribution(each[0], float(each[1])).variance)


def _laplace(request: ReleaseRequest, sensitivity: Sensitivity) -> tuple[str, Fraction, Loss]:
    """Name, scale and loss of the discrete Laplace noise that the request needs."""
    l1, _ = sensitivity.norms(request.relation)
    scale = Fraction(l1 * sensitivity.weight * request.contributions) / Fraction(request.epsilon)
    if sensitivity.by_one(request.relation):
        loss: Loss = LaplaceNoise(scale, sensitivity.weight, l1, relation=request.relation)
        # Several events may change the same cells, so their cost is that of a group.
        loss = loss if request.contributions == 1 else loss.group(request.contributions)
    else:
        loss = Pure(request.epsilon, relation=request.relation)
    return "Laplace", scale, loss


def _gaussian(request: ReleaseRequest, sensitivity: Sensitivity) -> tuple[str, Fraction, Loss]:
    """Name, sigma and loss of the discrete Gaussian noise that the request needs."""
    l1, square = sensitivity.norms(request.relation)
    times, weight = request.contributions, sensitivity.weight
    if sensitivity.by_one(request.relation) and times == 1:
        sigma = gaussian_sigma(request.epsilon, request.delta, change=weight, cells=l1)
        return "Gaussian", sigma, GaussianNoise(sigma**2, weight, l1, relation=request.relation)
    square *= (weight * times) ** 2
    sigma = gaussian_sigma_l2(request.epsilon, request.delta, norm_squared=square)
    rho = round_up(Fraction(square) / (2 * sigma**2))
    return "Gaussian", sigma, Concentrated(rho, relation=request.relation)
