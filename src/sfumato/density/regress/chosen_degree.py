"""Moments of the degree that a noisy number of rows makes worth its noise, released with the mean.

A first part of epsilon is for the number of rows and the sum of the target. By that number alone
the rest goes to sums of degree 2, to those of degree 1, or once more to the first two numbers.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated

import numpy as np

from sfumato.core.bounds import BOUNDS, Pair
from sfumato.core.file_format import Packed
from sfumato.core.storage import Cells
from sfumato.core.validation import integer, positive
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.noise import discrete
from sfumato.privacy.noise.cube import add_cube
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest
from sfumato.sketch.base import bounded_weight
from sfumato.sketch.kernel_sums.moments import Moments
from sfumato.sketch.kernel_sums.polynomial_features import (
    CLIP,
    MomentNoise,
    Polynomials,
    deviation,
)

__all__ = ["ReleasedAdaptiveMoments", "moments_of_chosen_degree"]

FIRST = Fraction(1, 16)  # of epsilon, for the number of rows and the sum of the target
WORTH = {2: 1 / 40, 1: 1 / 10}  # sums of a degree by epsilon and row, up to which it is released


class ReleasedAdaptiveMoments(Release):
    """Noisy sums of products of the chosen degree, safe to publish; made by `SketchRegressor`.

    The guarantee is that of its statement: the first numbers and the sums cost parts of epsilon
    that add up, whatever the degree. Parameters: bounds and bits as in `Moments`; highest, the
    largest degree that could be chosen; first_scale, scale of the noise of the first two numbers;
    scale, target_scale, those of sums of inputs and with the target; mean_scale, that of the first
    two numbers at degree 0, where they are drawn again with all that is left.
    """

    bounds: Annotated[Pair, BOUNDS]
    highest: Annotated[int, integer(1, 2)]
    bits: Annotated[int, integer(8, 18)]
    first_scale: Annotated[float, positive]
    scale: Annotated[float, positive]
    target_scale: Annotated[float, positive]
    mean_scale: Annotated[float, positive]
    _first: np.ndarray
    _inputs: np.ndarray
    _targets: np.ndarray
    _choice: np.ndarray
    _of = "SketchRegressor"

    @property
    def degree(self) -> int:
        """The chosen degree; at 0 there is the mean of the target alone."""
        return int(self._choice[0])

    @property
    def dimension(self) -> int:
        """Number of columns of a row, including the target."""
        return len(self.bounds[0])

    def size(self) -> float:
        """Estimated number of rows, unbiased."""
        return float(self._best[0])

    def matrix(self) -> np.ndarray:
        """Noisy sums of products of every two features, the target last, as of `Moments`."""
        if self.degree:
            inputs, targets = self._inputs / self._unit, self._targets / self._unit
        else:
            inputs, targets = np.zeros(1), np.zeros(2)
        out = Polynomials.of(self.dimension - 1, self.degree).matrix(inputs, targets)
        out[0, 0], out[0, -1], out[-1, 0] = self._best[[0, 1, 1]]
        return out

    def noise_error(self) -> tuple[float, float]:
        """Standard deviations of the noise of a sum of inputs and of one with the target."""
        if not self.degree:
            both = deviation("Cube", self.mean_scale, 2) / self._unit
            return both, both
        inputs = deviation("Cube", self.scale, self._inputs.size)
        targets = deviation("Cube", self.target_scale, self._targets.size)
        return inputs / self._unit, targets / self._unit

    @cached_property
    def _best(self) -> np.ndarray:
        """Number of rows and sum of the target, by all released numbers and their precision."""
        first = self._first / self._unit
        if not self.degree:
            return np.asarray(first)
        weight = (deviation("Cube", self.first_scale, 2) / self._unit) ** -2
        others = np.array([self._inputs[0], self._targets[0]]) / self._unit
        precision = np.array(self.noise_error()) ** -2
        return np.asarray((weight * first + precision * others) / (weight + precision))

    @property
    def _unit(self) -> float:
        return float(2**self.bits - 1) ** 2

    def _layout(self) -> dict[str, Cells]:
        return {
            "_first": Cells(np.int64, (2,)),
            "_inputs": Cells(np.int64, (-1,)),
            "_targets": Cells(np.int64, (-1,)),
            "_choice": Cells(np.int64, (1,)),
        }

    def _restore(self, packed: Packed) -> None:
        super()._restore(packed)
        if self.dimension < 2 or not 0 <= self.degree <= self.highest:
            raise ValueError("the columns or the degree cannot be.")
        if (self._inputs.size, self._targets.size) != _sizes(self.dimension - 1, self.degree):
            raise ValueError("the sums are not those of the degree.")


def moments_of_chosen_degree(
    moments: Moments, request: ReleaseRequest
) -> CalibratedRelease[ReleasedAdaptiveMoments]:
    """The calibrated release of moments of their degree, of a lower one, or of the mean alone.

    Guarantee: epsilon-private. A row of weight w changes the number of rows and the sum of the
    target by at most w units each, so that noise in a square of this scale costs FIRST epsilon.
    What is released then, by the noisy number of rows alone, costs the rest for each degree, so
    that both sum to epsilon (sequential composition of adaptive queries).
    """
    weight = bounded_weight("Moments", 1, moments.heaviest)
    rest = _below(Fraction(request.epsilon) * (1 - FIRST))
    change = Fraction((2**moments.bits - 1) ** 2 * weight)
    both = change * request.events  # what neighbours change of the first two numbers
    first, mean = both / (FIRST * Fraction(request.epsilon)), both / Fraction(rest)
    sizes = {"_inputs": moments._inputs.size, "_targets": moments._targets.size}
    noise = MomentNoise.of(replace(request, epsilon=rest), sizes, change, "cube")
    if first > discrete.LARGEST:
        raise ValueError(
            f"{request.owner}: epsilon is {request.epsilon!r}, for which the noise would not fit "
            "into cells of 64 bits; raise it, or lower contributions."
        )
    request.check_room(8 * (sum(sizes.values()) + 3))
    parameters = {
        "bounds": moments.bounds,
        "highest": moments.degree,
        "bits": moments.bits,
        "first_scale": float(first),
        "scale": float(noise.scales["_inputs"]),
        "target_scale": float(noise.scales["_targets"]),
        "mean_scale": float(mean),
    }
    mechanism = (
        f"discrete noise in a cube, scale {float(first):.6g} on the number of rows and the sum of "
        f"the target; by that number alone then scale {parameters['scale']:.6g} on sums of inputs "
        f"and {parameters['target_scale']:.6g} on sums with the target, of degree 1 to "
        f"{moments.degree}, or {float(mean):.6g} on the first two again; an event weighs at most "
        f"{weight}"
    )

    def noisy(source: Source) -> dict[str, np.ndarray]:
        start = _noisy_pair(moments, first, source)
        rows = float(start[0]) / float(2**moments.bits - 1) ** 2
        degree = _worth(moments, request.epsilon * max(rows, 1.0))
        if not degree:
            nothing = np.zeros(0, np.int64)
            sums = {"_inputs": nothing, "_targets": nothing}
            start = _noisy_pair(moments, mean, source)
        else:
            exact = moments if degree == moments.degree else moments.linear()
            sums = {name: noise._with_noise(name, getattr(exact, name), source) for name in sizes}
        return {"_first": start, **sums, "_choice": np.array([degree], np.int64)}

    loss = Pure(request.epsilon, relation=request.relation)
    return CalibratedRelease(ReleasedAdaptiveMoments, parameters, loss, mechanism, noisy)


def _noisy_pair(moments: Moments, scale: Fraction, source: Source) -> np.ndarray:
    """The number of rows and the sum of the target, in units of a cell, with noise in a square."""
    exact = [moments._inputs[0], moments._targets[0]]
    pair: np.ndarray = np.clip(exact, -CLIP, CLIP)  # so that noise cannot wrap
    add_cube(pair, scale, source=source)
    return pair


def _worth(moments: Moments, budget: float) -> int:
    """The highest degree whose sums are worth their noise, for epsilon times the rows; else 0."""
    columns = moments.dimension - 1
    for degree in range(moments.degree, 0, -1):
        if Polynomials.count(columns, degree) <= WORTH[degree] * budget:
            return degree
    return 0


def _sizes(columns: int, degree: int) -> tuple[int, int]:
    """Numbers of sums of inputs and with the target; none at degree 0."""
    made = Polynomials.of(columns, degree)
    return (len(made.inputs), made.targets) if degree else (0, 0)


def _below(part: Fraction) -> float:
    """The largest float that is not above this number."""
    near = float(part)
    return near if Fraction(near) <= part else float(np.nextafter(near, 0.0))
