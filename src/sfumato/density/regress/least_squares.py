"""What is public of a regression: its method, degree, bounds, and the sketch that follows.

Least squares from noisy sums: what noise may have done to a matrix of moments is undone.
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
QUADRATIC = 16  # sums for each unit of epsilon up to which squares and products are worth them
BITS, BITS_PRIVATE = 18, 14  # of a number; with noise, fewer leave room for it
LEAST = 8
ROOM = 39  # bits of a scale, squares of numbers among them


class Degree:
    """1, 2 or "auto"."""

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
    """Everything public that decides a sketch of the regression."""

    backend: str
    degree: int
    bounds: Pair
    target: tuple[float, float]
    rows: int
    seed: int
    bits: int

    def empty(self) -> Any:
        if self.backend != "statistics":
            return angle_sketch(len(self.bounds[0]) + 1, self.rows, self.seed)
        (low, high), (least, most) = self.bounds, self.target
        return Moments(((*low, least), (*high, most)), self.degree, bits=self.bits)

    def fed(self, table: np.ndarray) -> tuple[np.ndarray, int]:
        """Rows as the sketch takes them, and how many of them were outside (if it does not say)."""
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
    """Bits of a number: fewer where epsilon is so small that noise would not fit into a cell."""
    if plain["epsilon"] is None:
        return BITS
    events = 2 * (plain["contributions"] or 1)  # of one unit, where it is exchanged
    room = ROOM + math.floor(math.log2(plain["epsilon"] / events))
    return min(max(room // 2, LEAST), BITS_PRIVATE)


def around(table: np.ndarray) -> Pair:
    """The box of the points; a column of (nearly) one value gets a unit of room."""
    low, high = table.min(axis=0), table.max(axis=0)
    if max(-low.min(), high.max()) > LARGEST:  # told here, where no sentence repeats a number
        raise ValueError(f"SketchRegressor: X and y must be numbers up to {LARGEST:g}; scale them.")
    flat = np.where(high - low >= 1 / LARGEST, 0.0, 0.5)
    return tuple(map(float, low - flat)), tuple(map(float, high + flat))


def scaled(points: np.ndarray, bounds: Pair) -> np.ndarray:
    low, high = (np.array(side) for side in bounds)
    return np.asarray(np.clip(2 * (points - low) / (high - low) - 1, -1.0, 1.0))


ROUNDS = 100  # of the equation for what is left of the target; it settles in about ten
MIN_RESIDUAL = 1 / 50  # of the target's moment that is left, at least: nothing is told exactly
FLAT = 1e-9  # eigenvalues below this part of the largest are rounding


def least_squares(matrix: np.ndarray, size: float, noise: tuple[float, float]) -> np.ndarray:
    """The weight of each feature, from sums of products of features, target last.

    Parameters: matrix, the sums; size, how many rows, noisy too; noise, the deviation of the sums
    of inputs and of those with the target, zeros where they are exact.
    """
    count = max(size, noise[0], 1.0)
    inputs, target = matrix[:-1, :-1] / count, matrix[:-1, -1] / count
    told, vectors = np.linalg.eigh(inputs)
    along = vectors.T @ target
    if not noise[0]:
        kept = told > told[-1] * FLAT
        return np.asarray(vectors[:, kept] @ (along[kept] / told[kept]))
    share = len(told) / 4
    roots = (told + np.sqrt(told**2 + 8 * share * (noise[0] / count) ** 2)) / 2
    moment = float(np.clip(matrix[-1, -1] / count, MIN_RESIDUAL, 1.0))
    return np.asarray(vectors @ _ridge(roots, along, moment, 2 * share * (noise[1] / count) ** 2))


def _ridge(roots: np.ndarray, along: np.ndarray, moment: float, strength: float) -> np.ndarray:
    """Weights along eigenvectors, with a penalty of strength / what they leave of the moment."""
    left = moment
    weights = np.zeros_like(roots)
    for _ in range(ROUNDS):
        weights = along / (roots + strength / left)
        rest = max(moment - float((weights**2 * roots).sum()), MIN_RESIDUAL * moment)
        left = (left + rest) / 2
    return weights
