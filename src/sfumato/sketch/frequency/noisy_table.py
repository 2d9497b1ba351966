"""Counter tables with noise: how much a promise needs, and how far off their answers may be."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, TypeVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import one_of, positive
from sfumato.kernels.lanes import aligned
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
    "largest_moment",
    "moment_share",
    "narrowest",
    "planned",
]

CLIP = noise.ROOM - 1  # the largest size of a cell that noise cannot wrap
NEXT_TO_NONE = Fraction(1, 64)  # such Laplace noise is 0 but for a chance of exp(-64)
PIECE = 2**16  # cells squared at a time: half a MiB
SHARES = np.linspace(0.02, 0.98, 49)  # of a chance, for one of two ways to miss


@dataclass(frozen=True)
class TableSensitivity:
    """What one unit changes in a table: `times` over, at most `cells` cells by at most `change`.

    Where times is above 1 the changes may meet in the same cells.
    """

    cells: int
    change: int
    times: int


class NoisyTable(Release, in_files=False):
    """A released table of counters; its rows keep the hashes of the sketch.

    noise and scale: the law of what was added to every cell, and its scale (sigma if Gaussian).
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
        """Every row's sum of squared differences to its centre, in little extra memory."""
        out = np.zeros(self.depth)
        for r, row in enumerate(self._table):
            for start in range(0, self.width, PIECE):
                part = row[start : start + PIECE] - centres[r]
                out[r] += np.dot(part, part)
        return out


R = TypeVar("R", bound=NoisyTable)


def planned(
    kind: type[R],
    shape: dict[str, Any],
    table: np.ndarray,
    request: ReleaseRequest,
    touched: TableSensitivity,
    wanted: str | None,
) -> CalibratedRelease[R]:
    """The release of a table of integers under these terms, with the noise that is wanted."""
    law, scale, loss = _fitting(request, touched, wanted)
    request.check_room(8 * table.size)

    def noisy(source: Source) -> dict[str, np.ndarray]:
        cells = aligned(table.shape, np.int64)
        cells[...] = table
        np.clip(cells, -CLIP, CLIP, out=cells)  # moves no two tables apart
        add = noise.add_laplace if law == "Laplace" else noise.add_gaussian
        add(cells, scale, source=source)
        return {"_table": cells}

    letter = "scale" if law == "Laplace" else "sigma"
    mechanism = (
        f"discrete {law} noise, {letter} {float(scale):.6g}, on each of {shape['depth']} x "
        f"{shape['width']} counters; an event weighs at most {touched.change}"
    )
    return CalibratedRelease(
        kind, {**shape, "noise": law, "scale": float(scale)}, loss, mechanism, noisy
    )


def _fitting(
    request: ReleaseRequest, touched: TableSensitivity, wanted: str | None
) -> tuple[str, Fraction, Loss]:
    """The law, scale and cost of the noise of the smallest variance that keeps the terms."""
    if wanted is not None:
        wanted = one_of(("laplace", "gaussian")).check(request.owner, "noise", wanted)
    if wanted == "gaussian" and not request.delta:
        raise ValueError(f"{request.owner}: noise 'gaussian' needs a delta above 0.")
    cells, change, times = touched.cells, touched.change, touched.times
    scale = Fraction(cells * change * times) / Fraction(request.epsilon)
    choices: list[tuple[str, Fraction, Loss]] = [
        ("Laplace", scale, LaplaceNoise(scale, change, cells, relation=request.relation))
    ]
    if request.delta and wanted != "laplace" and (wanted or scale > NEXT_TO_NONE):
        sigma = (
            gaussian_sigma(request.epsilon, request.delta, change=change, cells=cells)
            if times == 1
            else gaussian_sigma_l2(
                request.epsilon, request.delta, norm_squared=cells * (change * times) ** 2
            )
        )
        told = GaussianNoise(sigma**2, change, cells, relation=request.relation)
        choices.append(("Gaussian", sigma, told))
    choices = [choice for choice in choices if wanted in (None, choice[0].lower())]
    choices = [choice for choice in choices if choice[1] <= noise.LARGEST]
    if not choices:
        raise ValueError(
            f"{request.owner}: epsilon is {request.epsilon!r}, for which the noise would not fit "
            "into cells of 64 bits; raise it, or lower weight or contributions."
        )
    law, scale, loss = min(
        choices, key=lambda made: NoiseDistribution(made[0], float(made[1])).variance
    )
    # Which cells several events change is not known, so that their cost is that of a group.
    return law, scale, loss if times == 1 else loss.group(times)


@dataclass(frozen=True)
class SecondMomentVariance:
    """The variance of an unbiased estimate of F2, at most: square F2**2 + linear F2 + fixed."""

    square: float
    linear: float
    fixed: float

    def at(self, moment: float) -> float:
        return (self.square * moment + self.linear) * moment + self.fixed


def largest_moment(told: float, spread: SecondMomentVariance, deviations: float) -> float:
    """The largest F2 with F2 - told <= sqrt(deviations variance(F2)), or infinity.

    It bounds F2 whenever the estimate is not that far below: the larger root of a quadratic.
    """
    lead = 1 - deviations * spread.square
    if lead <= 0:
        return math.inf
    half = told + deviations * spread.linear / 2
    under = half * half - lead * (told * told - deviations * spread.fixed)
    return max(0.0, (half + math.sqrt(max(under, 0.0))) / lead)


def all_rows_short(depth: int, miss: float) -> float:
    """The deviations, squared, that every row is below its mean by with at most this chance.

    Cantelli: a row is below by s deviations with chance at most 1 / (1 + s**2).
    """
    one = float(miss ** (1 / depth))
    return (1 - one) / one


def moment_share(width: int, depth: int, miss: float) -> float:
    """The part of a chance to miss that is best left for F2 being told too low by all rows.

    It is the best one without noise: the noisy cells must not choose it, or it would not hold.
    """

    def widening(share: float) -> float:
        short = math.sqrt(2 / width * all_rows_short(depth, share * miss))
        return 1 / ((1 - short) * (1 - share)) if short < 1 else math.inf

    return float(min(SHARES, key=widening))


def narrowest(
    first: Callable[[float], float], second: Callable[[float], float], chance: float
) -> float:
    """The least first(p) + second(q) with p + q = chance, of the ways to share it that are tried.

    Each way bounds the sum of two errors outside of an event of this chance; so does the least,
    since which it is does not depend on the errors.
    """
    return float(min(first(s * chance) + second((1 - s) * chance) for s in SHARES))
