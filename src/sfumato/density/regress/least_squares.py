"""The public configuration of a regression, and least squares from noisy moments.

Least squares accounts for the known noise of the moment matrix by shrinkage.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.arrays import LARGEST
from sfumato.core.bounds import Box, Pair
from sfumato.density.regress.surrogate_loss import angle_sketch, lifted
from sfumato.errors import ParameterError
from sfumato.sketch.kernel_sums.moments import Moments
from sfumato.sketch.kernel_sums.polynomial_features import CELLS, Polynomials

__all__ = [
    "BITS",
    "METHODS",
    "Degree",
    "RegressionSetting",
    "around",
    "chosen",
    "least_squares",
    "number_bits",
    "scaled",
]

METHODS = ("statistics", "angles", "surrogate")
QUADRATIC = 16  # moments per unit of epsilon up to which degree 2 is worth its noise
BITS, BITS_PRIVATE = 18, 14  # bits of a number; with noise, fewer leave room for it
LEAST = 8  # smallest number of bits
ROOM = 39  # bits of a noise scale, in units of squared numbers


class Degree:
    """Valid degrees: 1, 2 or "auto"."""

    def check(self, owner: str, name: str, value: Any) -> Any:
        if isinstance(value, str) and value == "auto":
            return value
        if (
            not isinstance(value, int | np.integer)
            or isinstance(value, bool)
            or value not in (1, 2)
        ):
            raise ParameterError.of(owner, name, f"must be 1, 2 or 'auto', not {value!r}.")
        return int(value)

    def bad(self) -> list[Any]:
        return [0, 3, 1.5, None, True, "cubic"]


@dataclass(frozen=True)
class RegressionSetting:
    """The public configuration of the sketch of a regression."""

    backend: str
    degree: int
    bounds: Pair
    target: tuple[float, float]
    rows: int
    seed: int
    bits: int

    def empty(self) -> Any:
        """An empty sketch of this configuration."""
        if self.backend != "statistics":
            return angle_sketch(len(self.bounds[0]) + 1, self.rows, self.seed)
        (low, high), (least, most) = self.bounds, self.target
        return Moments(((*low, least), (*high, most)), self.degree, bits=self.bits)

    def sketch_rows(self, table: np.ndarray) -> tuple[np.ndarray, int]:
        """Rows as the sketch takes them, and how many were outside (if it does not count them)."""
        if self.backend == "statistics":
            return table, 0
        (low, high), (least, most) = self.bounds, self.target
        inside, outside = Box((*low, least), (*high, most)).clip(table)
        return lifted(scaled(inside, ((*low, least), (*high, most)))), outside


def chosen(plain: dict[str, Any], columns: int) -> tuple[str, int]:
    """Method and degree, by the number of columns and epsilon alone."""
    method, degree, epsilon = plain["method"], plain["degree"], plain["epsilon"]
    if method == "auto":
        least = 1 if degree == "auto" else degree
        method = "statistics" if Polynomials.count(columns, least) <= CELLS else "angles"
    if degree == "auto":
        quadratic = epsilon is not None and method == "statistics"
        enough = quadratic and Polynomials.count(columns, 2) <= QUADRATIC * epsilon
        degree = 2 if enough else 1
    if method != "statistics" and degree == 2:
        raise ValueError(f"SketchRegressor: degree must be 1 for {method!r}, which is linear.")
    return method, degree


def number_bits(plain: dict[str, Any]) -> int:
    """Bits of a number: fewer if epsilon is so small that noise would not fit into a cell."""
    if plain["epsilon"] is None:
        return BITS
    events = 2 * (plain["contributions"] or 1)  # of one unit, if it is replaced
    room = ROOM + math.floor(math.log2(plain["epsilon"] / events))
    return min(max(room // 2, LEAST), BITS_PRIVATE)


def around(table: np.ndarray) -> Pair:
    """The bounding box of the points; a (nearly) constant column gets one unit of width."""
    low, high = table.min(axis=0), table.max(axis=0)
    if max(-low.min(), high.max()) > LARGEST:  # raised here, where no message repeats a number
        raise ValueError(f"SketchRegressor: X and y must be numbers up to {LARGEST:g}; scale them.")
    flat = np.where(high - low >= 1 / LARGEST, 0.0, 0.5)
    return tuple(map(float, low - flat)), tuple(map(float, high + flat))


def scaled(points: np.ndarray, bounds: Pair) -> np.ndarray:
    """Points scaled from the bounds to [-1, 1] and clipped."""
    low, high = (np.array(side) for side in bounds)
    return np.asarray(np.clip(2 * (points - low) / (high - low) - 1, -1.0, 1.0))


ROUNDS = 100  # iterations for the residual of the target; it converges in about ten
MIN_RESIDUAL = 1 / 50  # smallest residual, as a fraction of the target's second moment
FLAT = 1e-9  # eigenvalues below this fraction of the largest are rounding errors


def least_squares(matrix: np.ndarray, size: float, noise: tuple[float, float]) -> np.ndarray:
    """Weights of the features from the matrix of sums of products of features, target last.

    Parameters: matrix, the sums; size, the (noisy) number of rows; noise, the standard deviations
    of the sums of inputs and of those with the target, zeros if they are exact.
    """
    count = max(size, noise[0], 1.0)
    inputs, target = matrix[:-1, :-1] / count, matrix[:-1, -1] / count
    eigenvalues, vectors = np.linalg.eigh(inputs)
    along = vectors.T @ target
    if not noise[0]:
        mask = eigenvalues > eigenvalues[-1] * FLAT
        return np.asarray(vectors[:, mask] @ (along[mask] / eigenvalues[mask]))
    strength = len(eigenvalues) / 4
    roots = (eigenvalues + np.sqrt(eigenvalues**2 + 8 * strength * (noise[0] / count) ** 2)) / 2
    moment = float(np.clip(matrix[-1, -1] / count, MIN_RESIDUAL, 1.0))
    return np.asarray(
        vectors @ _ridge(roots, along, moment, 2 * strength * (noise[1] / count) ** 2)
    )


def _ridge(roots: np.ndarray, along: np.ndarray, moment: float, strength: float) -> np.ndarray:
    """Weights along eigenvectors, with a ridge penalty of strength / residual of the target."""
    residual = moment
    weights = np.zeros_like(roots)
    for _ in range(ROUNDS):
        weights = along / (roots + strength / residual)
        current = max(moment - float((weights**2 * roots).sum()), MIN_RESIDUAL * moment)
        residual = (residual + current) / 2
    return weights
