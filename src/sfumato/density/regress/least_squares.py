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
    "of_either_degree",
    "scaled",
]

METHODS = ("statistics", "angles", "surrogate")
MOST_SUMS = 2**14  # at degree 2, for it to be considered
BITS, BITS_PRIVATE = 18, 14  # bits of a number; with noise, fewer leave room for it
LEAST = 8  # smallest number of bits
ROOM = 36  # bits of a noise scale at all of epsilon, in units of squared numbers


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
    """Method and degree of the sketch, by public numbers alone.

    Degree "auto" is 2 where the sums of both degrees fit; the rows then decide which of them
    predicts, or by their noisy number which of them are released.
    """
    method, degree, epsilon = plain["method"], plain["degree"], plain["epsilon"]
    if method == "auto":
        least = 1 if degree == "auto" else degree
        method = "statistics" if Polynomials.count(columns, least) <= CELLS else "angles"
    if degree == "auto":
        undecided = method == "statistics" and (epsilon is None or not plain["delta"])
        degree = 2 if undecided and Polynomials.count(columns, 2) <= MOST_SUMS else 1
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


FLAT = 1e-9  # eigenvalues below this fraction of the largest are rounding errors
ROUNDS = 100  # iterations for the residual of the target; it converges in about ten
MIN_RESIDUAL = 1 / 50  # smallest residual, as a fraction of the target's variance
CHANCE = 0.8  # multiple of the variance that noise alone gives to predictions, to be exceeded
MEANS = 0.3  # prior deviation of the mean of a target from the middle of its bounds, scaled to 1


def of_either_degree(matrix: np.ndarray, size: float, columns: int) -> np.ndarray:
    """Weights by exact sums of degree 2: quadratic ones, or linear ones where these promise less.

    By generalised cross-validation: the mean squared residual over (1 - weights / rows)**2.

    Golub, Heath and Wahba 1979.
    """
    count = columns + 1
    linear = np.r_[0:count, len(matrix) - 1]
    found = least_squares(matrix, size, (0.0, 0.0))
    plain = np.zeros_like(found)
    plain[:count] = least_squares(matrix[np.ix_(linear, linear)], size, (0.0, 0.0))
    return found if _promised(matrix, size, found) < _promised(matrix, size, plain) else plain


def _promised(matrix: np.ndarray, size: float, weights: np.ndarray) -> float:
    """The generalised cross-validation of these weights; infinite with as many as rows."""
    error = np.append(weights, -1.0)
    spare = 1 - np.count_nonzero(weights) / max(size, 1.0)
    return float(error @ matrix @ error) / spare**2 if spare > 0 else math.inf


def least_squares(matrix: np.ndarray, size: float, noise: tuple[float, float]) -> np.ndarray:
    """Weights of the features from the matrix of sums of products of features, target last.

    Parameters: matrix, the sums; size, the (noisy) number of rows; noise, the standard deviations
    of the sums of inputs and of those with the target, zeros if they are exact.
    """
    count = max(size, noise[0], 1.0)
    matrix = matrix / count
    if noise[0]:
        return _noise_aware(matrix, noise[0] / count, noise[1] / count)
    eigenvalues, vectors = np.linalg.eigh(matrix[:-1, :-1])
    mask = eigenvalues > eigenvalues[-1] * FLAT
    along = vectors.T @ matrix[:-1, -1]
    return np.asarray(vectors[:, mask] @ (along[mask] / eigenvalues[mask]))


def _noise_aware(matrix: np.ndarray, input_noise: float, target_noise: float) -> np.ndarray:
    """Weights from noisy mean products: the mean of the target, and what varies beyond noise.

    The mean of the target gets no penalty, so that no noise in the other sums moves it. The other
    weights are those of the covariances: by ridge regression with eigenvalues raised by their
    noise, then shrunk the more, the less predictions vary beyond what noise in the covariances with
    the target would cause, to none (as James and Stein 1961, positive part; the square shrinks
    clear signals less).
    """
    mean = float(np.clip(matrix[0, -1], -1.0, 1.0))
    if len(matrix) == 2:
        variance = target_noise**2 + (mean * input_noise) ** 2
        return np.array([mean * MEANS**2 / (MEANS**2 + variance)])
    centre = np.clip(matrix[0, 1:-1], -1.0, 1.0)
    eigenvalues, vectors = np.linalg.eigh(matrix[1:-1, 1:-1] - np.outer(centre, centre))
    along = vectors.T @ (matrix[1:-1, -1] - centre * mean)
    strength = len(along) / 2
    noise = math.hypot(target_noise, mean * input_noise)  # of the covariances with the target
    roots = (eigenvalues + np.sqrt(eigenvalues**2 + 8 * strength * input_noise**2)) / 2
    variance = float(np.clip(matrix[-1, -1] - mean**2, MIN_RESIDUAL, 1.0))
    responses = _responses(roots, along, variance, 2 * strength * noise**2)
    varied = float(((responses * along) ** 2 * roots).sum())
    chance = CHANCE * noise**2 * float((responses**2 * roots).sum())
    share = 1 - (chance / varied) ** 2 if varied > chance else 0.0
    weights = vectors @ (responses * along) * share
    return np.append(mean - centre @ weights, weights)


def _responses(
    roots: np.ndarray, along: np.ndarray, variance: float, strength: float
) -> np.ndarray:
    """Weights by covariances: inverse roots with a ridge of strength / residual of the target."""
    residual = variance
    for _ in range(ROUNDS):
        weights = along / (roots + strength / residual)
        current = max(variance - float((weights**2 * roots).sum()), MIN_RESIDUAL * variance)
        residual = (residual + current) / 2
    return np.asarray(1 / (roots + strength / residual))
