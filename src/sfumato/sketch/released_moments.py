"""Released moments: private sums of products, and how noisy they are."""

from typing import Annotated

import numpy as np

from sfumato._require import one_of, positive, whole
from sfumato.privacy import noise
from sfumato.sketch._base import Cells
from sfumato.sketch._moment_noise import NOISES, deviation
from sfumato.sketch._points import BOUNDS, Pair
from sfumato.sketch._polynomials import CELLS, Polynomials
from sfumato.sketch._release import Release

__all__ = ["ReleasedMoments"]


class ReleasedMoments(Release):
    """Sums of products that may leave the curator; made by `Moments.release`.

    Guarantee: as its statement says; every sum is unbiased, with the deviation that `noise_error`
    tells. A matrix of such sums need not be one of any rows: it may have negative eigenvalues.
    Parameters: those of the sketch; noise, "Cube" or "Gaussian"; scale and target_scale, of the
    noise on sums of inputs and on sums with the target, in units of a cell.

    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import Moments
    >>> seen = Moments(([0, 0], [1, 10])).update([[0.5, 4]] * 1000)
    >>> told = seen.release(epsilon=1, source=InsecureSeededSource(1))
    >>> bool(abs(told.size() - 1000) < 6 * told.noise_error()[0])
    True
    """

    bounds: Annotated[Pair, BOUNDS]
    degree: Annotated[int, whole(1, 2)]
    bits: Annotated[int, whole(8, 18)]
    noise: Annotated[str, one_of(NOISES)]
    scale: Annotated[float, positive]
    target_scale: Annotated[float, positive]
    _inputs: np.ndarray
    _targets: np.ndarray
    _of = "Moments"

    @property
    def dimension(self) -> int:
        """How many columns a row has, with the target."""
        return len(self.bounds[0])

    @property
    def features(self) -> list[tuple[int, ...]]:
        """The columns that each feature multiplies, twice the same one being T_2 of it."""
        return self._polynomials.features

    def size(self) -> float:
        """How many rows there are, by weight, with noise."""
        return float(self._inputs[0] / self._unit)

    def matrix(self) -> np.ndarray:
        """Noisy sums of products of every two features, as `Moments.matrix` tells them."""
        inputs, targets = self._inputs / self._unit, self._targets / self._unit
        return self._polynomials.matrix(inputs, targets)

    def noise_error(self) -> tuple[float, float]:
        """The noise's standard deviation in a sum of inputs, and in one with the target."""
        inputs = deviation(self.noise, self.scale, self._inputs.size)
        targets = deviation(self.noise, self.target_scale, self._targets.size)
        return inputs / self._unit, targets / self._unit

    @property
    def _unit(self) -> float:
        """What a row of ones adds to a cell."""
        return float(2**self.bits - 1) ** 2

    @property
    def _polynomials(self) -> Polynomials:
        return Polynomials.of(self.dimension - 1, self.degree)

    def _check_parameters(self) -> None:
        if self.dimension < 2:
            raise ValueError("ReleasedMoments: bounds must be for 2 columns at least.")
        if Polynomials.count(self.dimension - 1, self.degree) > CELLS:  # listing them takes memory
            raise ValueError(f"ReleasedMoments: bounds must be for at most {CELLS} sums.")
        if max(self.scale, self.target_scale) > noise.LARGEST:
            raise ValueError("ReleasedMoments: scale must be at most 2**40.")

    def _layout(self) -> dict[str, Cells]:
        made = self._polynomials
        return {
            "_inputs": Cells(np.int64, (len(made.inputs),)),
            "_targets": Cells(np.int64, (made.targets,)),
        }
