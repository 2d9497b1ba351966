"""Released counter tables: calibration of their noise, and parts of their error bounds."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, TypeVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import one_of, positive
from sfumato.kernels.alignment import aligned
from sfumato.privacy.accounting.calibration import gaussian_sigma, gaussian_sigma_l2
from sfumato.privacy.accounting.losses import GaussianNoise, LaplaceNoise, Loss
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.noise.distribution import LAWS, NoiseDistribution
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest
from sfumato.sketch.base import SEED

__all__ = [
    "NoisyTable",
    "SecondMomentVariance",
    "TableSensitivity",
    "all_rows_short",
    "calibrated",
    "largest_moment",
    "moment_fraction",
    "narrowest",
]

CLIP = noise.ROOM - 1  # the largest absolute value of a cell that noise cannot make overflow
NEGLIGIBLE = Fraction(1, 64)  # Laplace noise of this scale is 0 except with probability exp(-64)
PIECE = 2**16  # cells squared at a time: half a MiB
FRACTIONS = np.linspace(0.02, 0.98, 49)  # of a failure probability, for one of two causes


@dataclass(frozen=True)
class TableSensitivity:
    """Sensitivity of a table: one unit changes up to `cells` cells by up to `change`, `times` over.

    If `times` is above 1, its changes may fall into the same cells.
    """

    cells: int
    change: int
    times: int


class NoisyTable(Release, in_files=False):
    """Base class of released tables of counters; rows have the hash functions of the sketch.

    `noise` and `scale` are the distribution of the noise that was added to every cell, and its
    scale (the standard deviation parameter sigma if it is Gaussian).
    """

    width: int
    depth: int
    seed: Annotated[int, SEED]
    noise: Annotated[str, one_of(LAWS)]
    scale: Annotated[float, positive]
    _table: np.ndarray

    @property
    def _distribution(self) -> NoiseDistribution:
        return NoiseDistribution(self.noise, self.scale)

    def _check_parameters(self) -> None:
        if self.scale > noise.LARGEST:
            raise ValueError(f"{type(self).__name__}: scale must be at most 2**40.")

    def _layout(self) -> dict[str, Cells]:
        return {"_table": Cells(np.int64, (self.depth, self.width))}

    def _squares(self, centres: np.ndarray) -> np.ndarray:
        """Sum of squared differences of each row's cells to its centre, in little memory."""
        out = np.zeros(self.depth)
        for r, row in enumerate(self._table):
            for start in range(0, self.width, PIECE):
                part = row[start : start + PIECE] - centres[r]
                out[r] += np.dot(part, part)
        return out


R = TypeVar("R", bound=NoisyTable)


def calibrated(
    kind: type[R],
    shape: dict[str, Any],
    table: np.ndarray,
    request: ReleaseRequest,
    sensitivity: TableSensitivity,
    requested: str | None,
) -> CalibratedRelease[R]:
    """The release of a table of integers, with noise calibrated to the request."""
    family, scale, loss = _smallest_noise(request, sensitivity, requested)
    request.check_room(8 * table.size)

    def noisy(source: Source) -> dict[str, np.ndarray]:
        cells = aligned(table.shape, np.int64)
        cells[...] = table
        np.clip(cells, -CLIP, CLIP, out=cells)  # does not increase the difference of two tables
        add = noise.add_laplace if family == "Laplace" else noise.add_gaussian
        add(cells, scale, source=source)
        return {"_table": cells}

    letter = "scale" if family == "Laplace" else "sigma"
    mechanism = (
        f"discrete {family} noise, {letter} {float(scale):.6g}, on each of {shape['depth']} x "
        f"{shape['width']} counters; an event weighs at most {sensitivity.change}"
    )
    return CalibratedRelease(
        kind, {**shape, "noise": family, "scale": float(scale)}, loss, mechanism, noisy
    )


def _smallest_noise(
    request: ReleaseRequest, sensitivity: TableSensitivity, requested: str | None
) -> tuple[str, Fraction, Loss]:
    """Distribution, scale and privacy loss of the smallest noise that satisfies the request."""
    if requested is not None:
        requested = one_of(("laplace", "gaussian")).check(request.owner, "noise", requested)
    if requested == "gaussian" and not request.delta:
        raise ValueError(f"{request.owner}: noise 'gaussian' needs a delta above 0.")
    cells, change, times = sensitivity.cells, sensitivity.change, sensitivity.times
    scale = Fraction(cells * change * times) / Fraction(request.epsilon)
    choices: list[tuple[str, Fraction, Loss]] = [
        ("Laplace", scale, LaplaceNoise(scale, change, cells, relation=request.relation))
    ]
    if request.delta and requested != "laplace" and (requested or scale > NEGLIGIBLE):
        sigma = (
            gaussian_sigma(request.epsilon, request.delta, change=change, cells=cells)
            if times == 1
            else gaussian_sigma_l2(
                request.epsilon, request.delta, norm_squared=cells * (change * times) ** 2
            )
        )
        gaussian = GaussianNoise(sigma**2, change, cells, relation=request.relation)
        choices.append(("Gaussian", sigma, gaussian))
    choices = [choice for choice in choices if requested in (None, choice[0].lower())]
    choices = [choice for choice in choices if choice[1] <= noise.LARGEST]
    if not choices:
        raise ValueError(
            f"{request.owner}: epsilon is {request.epsilon!r}, for which the noise would not fit "
            "into cells of 64 bits; raise it, or lower weight or contributions."
        )
    family, scale, loss = min(
        choices, key=lambda choice: NoiseDistribution(choice[0], float(choice[1])).variance
    )
    # Which cells several events change is not known, so their cost is that of a group.
    return family, scale, loss if times == 1 else loss.group(times)


@dataclass(frozen=True)
class SecondMomentVariance:
    """Bound on the variance of an unbiased estimate of F2: square F2**2 + linear F2 + fixed."""

    square: float
    linear: float
    fixed: float

    def at(self, moment: float) -> float:
        return (self.square * moment + self.linear) * moment + self.fixed


def largest_moment(estimate: float, variance: SecondMomentVariance, deviations: float) -> float:
    """The largest F2 with F2 - estimate <= sqrt(deviations variance(F2)), or infinity.

    It bounds F2 unless the estimate is further below. It is the larger root of a quadratic.
    """
    lead = 1 - deviations * variance.square
    if lead <= 0:
        return math.inf
    half = estimate + deviations * variance.linear / 2
    under = half * half - lead * (estimate * estimate - deviations * variance.fixed)
    return max(0.0, (half + math.sqrt(max(under, 0.0))) / lead)


def all_rows_short(depth: int, miss: float) -> float:
    """The squared number of standard deviations by which all rows fall short with p <= miss.

    By Cantelli's inequality one row falls short by s standard deviations with probability at most
    1 / (1 + s**2).
    """
    one = float(miss ** (1 / depth))
    return (1 - one) / one


def moment_fraction(width: int, depth: int, miss: float) -> float:
    """The best fraction of a failure probability to allot to F2 being underestimated by all rows.

    It is optimal without noise. It must not depend on the noisy cells, or the bound would fail.
    """

    def widening(fraction: float) -> float:
        short = math.sqrt(2 / width * all_rows_short(depth, fraction * miss))
        return 1 / ((1 - short) * (1 - fraction)) if short < 1 else math.inf

    return float(min(FRACTIONS, key=widening))


def narrowest(
    first: Callable[[float], float], second: Callable[[float], float], probability: float
) -> float:
    """The minimum of first(p) + second(q) over a grid of p + q = probability.

    For each split the sum bounds the sum of two errors, except with this probability. So does the
    minimum, since the choice of the split does not depend on the errors.
    """
    splits = ((s * probability, (1 - s) * probability) for s in FRACTIONS)
    return float(min(first(p) + second(q) for p, q in splits))
