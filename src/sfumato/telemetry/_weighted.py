"""Weighted least squares of the cells on candidates, with weights that follow the fit."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse

from sfumato.telemetry._blocks import Blocks
from sfumato.telemetry._covariance import Cells
from sfumato.telemetry._simplex import factored, nonnegative

__all__ = ["Fit", "Model", "weighted"]


@dataclass(frozen=True)
class Fit:
    """A fit of all candidates: everything in shares of all clients.

    `free` are the unconstrained estimates and `covariance` theirs, for clients drawn anew; `shares`
    the nonnegative estimates; `gradient` (m, k), the weighted residuals; `weights`, those it used;
    `extra`, the sum of squared shares of unknown strings that these count in.
    """

    free: np.ndarray
    shares: np.ndarray
    covariance: np.ndarray
    gradient: np.ndarray
    weights: np.ndarray
    extra: float


class Model:
    """The shares of cells as a linear model of the shares of candidates and of other strings.

    Unknown strings spread evenly on average, so with `closed` false the design is centred on that
    and their share is what is left of one. With `closed` true the candidates sum to one and
    nothing is unknown.
    """

    def __init__(self, cells: Cells, matrix: scipy.sparse.csc_matrix, *, closed: bool) -> None:
        self.cells, self.closed, self.matrix = cells, closed, matrix
        self.blocks = Blocks(matrix, len(cells.shares))

    def fit(self, rounds: int = 3) -> Fit:
        """The fit of all candidates; every round weighs by the fit of the one before."""
        fit = self._round(np.zeros(self.matrix.shape[1]), 0.0)
        for _ in range(rounds - 1):
            fit = self._round(fit.shares, self._unknown(fit))
        return fit

    def dispersion(self, fit: Fit) -> tuple[float, int]:
        """Residual chi-squared over its degrees of freedom, as if nothing were unknown; and these.

        About 1 where the model holds; with n degrees it varies by sqrt(2 / n).
        """
        other = 0.0 if self.closed else max(1 - fit.shares.sum(), 0.0)
        weights = self.cells.weights(self.blocks, fit.shares, other, 0.0)
        residual = self.residual(fit.free)
        per_cohort = residual.shape[1] - (self.cells.scheme.kind != "bits")
        counted = int((self.cells.reports > 0).sum()) * per_cohort
        freedom = counted - fit.free.size + int(self.closed)
        return float((residual * weighted(weights, residual)).sum()) / max(freedom, 1), freedom

    def _round(self, shares: np.ndarray, extra: float) -> Fit:
        other = 0.0 if self.closed else max(1 - shares.sum(), 0.0)
        weights = self.cells.weights(self.blocks, shares, other, extra)
        gram, target = self._normal(weights)
        covariance, free = self._solve(gram, target)
        best = nonnegative(gram, target, closed=self.closed)
        gradient = weighted(weights, self.residual(free))
        return Fit(free, best, covariance, gradient, weights, extra)

    def _normal(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The normal equations of the centred design."""
        count, u = self.blocks.candidates, self.cells.uniform
        gram = np.zeros((count, count))
        for part in self.blocks.parts:
            gram += self.blocks.gram(part, weights[part])
        ones = weights.sum(2) if weights.ndim == 3 else weights
        level = u * self.blocks.sums(ones)
        gram += u * u * ones.sum() - level[:, None] - level
        pull = weighted(weights, self.cells.shares - u)
        target = self.blocks.sums(pull) - u * pull.sum()
        if self.closed:
            # Constant where shares sum to one; without it a full dictionary has no inverse.
            scale = gram.trace() / count**2
            gram, target = gram + scale, target + scale
        return (gram + gram.T) / 2, target

    def _solve(self, gram: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The covariance and the estimates."""
        inverse = scipy.linalg.cho_solve(factored(gram), np.eye(target.size))
        free = inverse @ target
        if self.closed:
            ones = inverse.sum(1)
            free = free + ones * (1 - free.sum()) / ones.sum()
            inverse = inverse - np.outer(ones, ones) / ones.sum()
        return inverse, free

    def residual(self, free: np.ndarray) -> np.ndarray:
        """What these shares leave of those of the cells (m, k)."""
        u = self.cells.uniform
        fitted = self.blocks @ free - u * free.sum()
        return np.asarray(self.cells.shares - u - fitted)

    def _unknown(self, fit: Fit) -> float:
        """A better sum of squares of unknown strings: one scoring step of restricted likelihood.

        With P = W - W X C X' W and R the covariance of a random set, the slope is g' R g - tr P R.
        """
        if self.closed:
            return 0.0
        around = fit.gradient - fit.gradient.mean(1, keepdims=True)
        slope, curve = float((around**2).sum()), 0.0
        for part in self.blocks.parts:
            trace, square = self._left(part, fit.weights[part], fit.covariance)
            slope, curve = slope - trace, curve + square
        return max(fit.extra + slope / (self.cells.spread() * curve), 0.0) if curve else 0.0

    def _left(
        self, part: slice, weights: np.ndarray, covariance: np.ndarray
    ) -> tuple[float, float]:
        """Traces of what the fit leaves of the weights of some cohorts, and of its square."""
        u, rows, level = self.cells.uniform, self.blocks.rows(part), covariance.sum()
        row = u * (rows @ covariance.sum(0)).reshape(weights.shape[:2])
        if weights.ndim == 2:
            own = np.asarray(rows.multiply(rows @ covariance).sum(1)).reshape(row.shape)
            own = weights - weights**2 * (own - 2 * row + u * u * level)
            return float(own.sum()), float((own**2).sum())
        fitted = self.blocks.spread(part, covariance)
        fitted += u * u * level - row[:, :, None] - row[:, None]
        left = weights - weights @ fitted @ weights
        left -= left.mean(1, keepdims=True)  # unknown strings do not change a cohort's sum
        trace = float(np.trace(left, axis1=1, axis2=2).sum())
        return trace, float((left * left.transpose(0, 2, 1)).sum())


def weighted(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Weights times values (cohorts, cells) or (cohorts, cells, columns), cohort by cohort."""
    if weights.ndim == 2:
        return np.asarray(weights.reshape(*weights.shape, *[1] * (values.ndim - 2)) * values)
    if values.ndim == 2:
        return np.asarray((weights @ values[:, :, None])[:, :, 0])
    return np.asarray(weights @ values)
