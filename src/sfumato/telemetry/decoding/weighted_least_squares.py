"""Weighted least squares of cell fractions on candidates, iteratively reweighted, nonnegative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from sfumato.telemetry.decoding.design import Blocks, CellFractions

__all__ = ["LeastSquaresFit", "LinearModel", "factored", "nonnegative", "weighted"]


def nonnegative(gram: np.ndarray, target: np.ndarray, *, closed: bool) -> np.ndarray:
    """Return the p >= 0 that minimises p' gram p / 2 - target' p with sum <= 1, or = 1 if `closed`.

    Guarantee: the Karush-Kuhn-Tucker conditions are satisfied up to rounding if gram (M, M) is
    positive definite; else for the least ridge that makes it so.

    >>> nonnegative(np.eye(2), np.array([0.4, -0.1]), closed=False)
    array([0.4, 0. ])
    >>> nonnegative(np.eye(2), np.array([0.4, -0.2]), closed=True)
    array([0.8, 0.2])

    Kim and Park 2011, block principal pivoting.
    """
    fractions = np.zeros(0) if closed else _pivoted(gram, target, None)
    if closed or fractions.sum() > 1:
        fractions = _pivoted(gram, target, 1.0)
    return fractions


def factored(gram: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the Cholesky factor, with the least ridge that a nearly singular matrix needs."""
    for ridge in (0.0, 1e-12, 1e-9, 1e-6):
        raised = gram.copy()
        raised.flat[:: len(gram) + 1] += ridge * max(float(gram.diagonal().max()), 1.0)
        try:
            factor, lower = scipy.linalg.cho_factor(raised, overwrite_a=True)
            return factor, lower
        except scipy.linalg.LinAlgError:
            continue
    raise ValueError("decode: the reports are too few to distinguish the candidates; collect more.")


def _pivoted(gram: np.ndarray, target: np.ndarray, total: float | None) -> np.ndarray:
    """Exchange all variables of infeasible sign at once; one by one when that stops helping."""
    free = np.ones(target.size, bool)
    fewest, attempts = target.size + 1, 3
    for _ in range(50 + 5 * target.size):
        fractions, slope = _solved(gram, target, free, total)
        infeasible = np.where(
            free, fractions < -1e-12, slope < -1e-9 * np.abs(target).max(initial=1e-300)
        )
        count = int(infeasible.sum())
        if not count:
            break
        if count < fewest:
            fewest, attempts = count, 3
        elif attempts:
            attempts -= 1
        else:
            last = int(np.flatnonzero(infeasible)[-1])
            infeasible = np.arange(target.size) == last
        free ^= infeasible
    return np.asarray(np.maximum(fractions, 0))


def _solved(
    gram: np.ndarray, target: np.ndarray, free: np.ndarray, total: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best fractions with those that are not free at 0, and the gradient of all."""
    fractions, price = np.zeros(target.size), 0.0
    if free.any():
        factor = factored(gram[np.ix_(free, free)])
        fractions[free] = scipy.linalg.cho_solve(factor, target[free])
        if total is not None:
            ones = scipy.linalg.cho_solve(factor, np.ones(int(free.sum())))
            price = (fractions[free].sum() - total) / ones.sum()
            fractions[free] -= price * ones
    elif total is not None:
        price = float(target.max())  # at this price the best one is worth freeing
    return fractions, gram @ fractions - target + price


@dataclass(frozen=True)
class LeastSquaresFit:
    """Fit of all candidates, in fractions of all clients.

    `unconstrained` are the unconstrained estimates and `covariance` theirs, for resampled clients;
    `fractions` the nonnegative estimates; `gradient` (m, k), the weighted residuals; `weights`,
    those used; `extra`, the sum of squared fractions of unknown strings that they include.
    """

    unconstrained: np.ndarray
    fractions: np.ndarray
    covariance: np.ndarray
    gradient: np.ndarray
    weights: np.ndarray
    extra: float


class LinearModel:
    """Cell fractions as a linear model of the fractions of candidates and of other strings.

    Unknown strings are uniform on average, so without `closed` the design is centred on that and
    their fraction is 1 minus the sum. With `closed` the candidates sum to one and nothing is
    unknown.
    """

    def __init__(
        self, cells: CellFractions, matrix: scipy.sparse.csc_matrix, *, closed: bool
    ) -> None:
        self.cells, self.closed, self.matrix = cells, closed, matrix
        self.blocks = Blocks(matrix, len(cells.fractions))

    def fit(self, rounds: int = 3) -> LeastSquaresFit:
        """Fit all candidates; every round computes weights from the fit of the previous one."""
        fit = self._round(np.zeros(self.matrix.shape[1]), 0.0)
        for _ in range(rounds - 1):
            fit = self._round(fit.fractions, self._unknown(fit))
        return fit

    def dispersion(self, fit: LeastSquaresFit) -> tuple[float, int]:
        """Return residual chi-squared per degree of freedom, and the degrees.

        Unknown strings are not counted in. About 1 where the model is right; with n degrees its
        standard deviation is sqrt(2 / n).
        """
        other = 0.0 if self.closed else max(1 - fit.fractions.sum(), 0.0)
        weights = self.cells.weights(self.blocks, fit.fractions, other, 0.0)
        residual = self.residual(fit.unconstrained)
        per_cohort = residual.shape[1] - (self.cells.scheme.kind != "bits")
        counted = int((self.cells.reports > 0).sum()) * per_cohort
        freedom = counted - fit.unconstrained.size + int(self.closed)
        return float((residual * weighted(weights, residual)).sum()) / max(freedom, 1), freedom

    def _round(self, fractions: np.ndarray, extra: float) -> LeastSquaresFit:
        """Return the fit with weights from these fractions."""
        other = 0.0 if self.closed else max(1 - fractions.sum(), 0.0)
        weights = self.cells.weights(self.blocks, fractions, other, extra)
        gram, target = self._normal(weights)
        covariance, unconstrained = self._solve(gram, target)
        best = nonnegative(gram, target, closed=self.closed)
        gradient = weighted(weights, self.residual(unconstrained))
        return LeastSquaresFit(unconstrained, best, covariance, gradient, weights, extra)

    def _normal(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the normal equations of the centred design."""
        count, u = self.blocks.candidates, self.cells.uniform
        gram = np.zeros((count, count))
        for part in self.blocks.parts:
            gram += self.blocks.gram(part, weights[part])
        ones = weights.sum(2) if weights.ndim == 3 else weights
        level = u * self.blocks.sums(ones)
        gram += u * u * ones.sum() - level[:, None] - level
        score = weighted(weights, self.cells.fractions - u)
        target = self.blocks.sums(score) - u * score.sum()
        if self.closed:
            # Constant where fractions sum to one; without it a full dictionary has no inverse.
            scale = gram.trace() / count**2
            gram, target = gram + scale, target + scale
        return (gram + gram.T) / 2, target

    def _solve(self, gram: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariance and the unconstrained estimates."""
        inverse = scipy.linalg.cho_solve(factored(gram), np.eye(target.size))
        unconstrained = inverse @ target
        if self.closed:
            ones = inverse.sum(1)
            unconstrained = unconstrained + ones * (1 - unconstrained.sum()) / ones.sum()
            inverse = inverse - np.outer(ones, ones) / ones.sum()
        return inverse, unconstrained

    def residual(self, unconstrained: np.ndarray) -> np.ndarray:
        """Return the residuals of the cells under these fractions (m, k)."""
        u = self.cells.uniform
        fitted = self.blocks @ unconstrained - u * unconstrained.sum()
        return np.asarray(self.cells.fractions - u - fitted)

    def _unknown(self, fit: LeastSquaresFit) -> float:
        """Improve the sum of squares of unknown strings: one scoring step of restricted likelihood.

        With P = W - W X C X' W and R the covariance of a random set, the slope is g' R g - tr P R.
        """
        if self.closed:
            return 0.0
        around = fit.gradient - fit.gradient.mean(1, keepdims=True)
        slope, curve = float((around**2).sum()), 0.0
        for part in self.blocks.parts:
            trace, square = self._residual_traces(part, fit.weights[part], fit.covariance)
            slope, curve = slope - trace, curve + square
        return max(fit.extra + slope / (self.cells.set_variance() * curve), 0.0) if curve else 0.0

    def _residual_traces(
        self, part: slice, weights: np.ndarray, covariance: np.ndarray
    ) -> tuple[float, float]:
        """Return the traces of P = W - W X C X' W of these cohorts and of its square."""
        u, rows, level = self.cells.uniform, self.blocks.rows(part), covariance.sum()
        row = u * (rows @ covariance.sum(0)).reshape(weights.shape[:2])
        if weights.ndim == 2:
            own = np.asarray(rows.multiply(rows @ covariance).sum(1)).reshape(row.shape)
            own = weights - weights**2 * (own - 2 * row + u * u * level)
            return float(own.sum()), float((own**2).sum())
        if self.blocks.few and self.cells.noisy:  # W X first, which has few columns
            turned = weights @ (self.blocks.dense - u)
            residual = weights - (turned @ covariance) @ turned.transpose(0, 2, 1)
        else:
            fitted = self.blocks.sandwich(part, covariance)
            fitted += u * u * level - row[:, :, None] - row[:, None]
            residual = weights - weights @ fitted @ weights
        residual -= residual.mean(1, keepdims=True)  # unknown strings do not change a cohort's sum
        trace = float(np.trace(residual, axis1=1, axis2=2).sum())
        return trace, float((residual * residual.transpose(0, 2, 1)).sum())


def weighted(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return weights times values (cohorts, cells) or (cohorts, cells, columns), by cohort."""
    if weights.ndim == 2:
        return np.asarray(weights.reshape(*weights.shape, *[1] * (values.ndim - 2)) * values)
    if values.ndim == 2:
        return np.asarray((weights @ values[:, :, None])[:, :, 0])
    return np.asarray(weights @ values)
