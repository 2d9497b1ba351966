"""Weighted least squares of the cells on candidates, with weights that follow the fit.

Least squares with shares that are never negative and never sum to more than one.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse

from sfumato.telemetry.decoding.design import Blocks, CellShares

__all__ = ["LeastSquaresFit", "LinearModel", "factored", "nonnegative", "weighted"]


def nonnegative(gram: np.ndarray, target: np.ndarray, *, closed: bool) -> np.ndarray:
    """The p >= 0 with the least p' gram p / 2 - target' p whose sum is <= 1, or = 1 if `closed`.

    Guarantee: the conditions of Karush, Kuhn and Tucker hold up to rounding, where gram is positive
    definite; else for the least ridge that makes it so.
    Parameters: gram (M, M); target (M,); closed, whether the shares sum to one.

    >>> nonnegative(np.eye(2), np.array([0.4, -0.1]), closed=False)
    array([0.4, 0. ])
    >>> nonnegative(np.eye(2), np.array([0.4, -0.2]), closed=True)
    array([0.8, 0.2])

    Kim and Park 2011, block principal pivoting.
    """
    shares = np.zeros(0) if closed else _pivoted(gram, target, None)
    if closed or shares.sum() > 1:
        shares = _pivoted(gram, target, 1.0)
    return shares


def factored(gram: np.ndarray) -> tuple[np.ndarray, bool]:
    """The Cholesky factor, with the least ridge that a matrix needs which few reports left flat."""
    for ridge in (0.0, 1e-12, 1e-9, 1e-6):
        raised = gram.copy()
        raised.flat[:: len(gram) + 1] += ridge * max(float(gram.diagonal().max()), 1.0)
        try:
            factor, lower = scipy.linalg.cho_factor(raised, overwrite_a=True)
            return factor, lower
        except scipy.linalg.LinAlgError:
            continue
    raise ValueError("decode: the reports are too few to tell the candidates apart; collect more.")


def _pivoted(gram: np.ndarray, target: np.ndarray, total: float | None) -> np.ndarray:
    """Exchange all variables of the wrong sign at once; one by one when that stops helping."""
    free = np.ones(target.size, bool)
    fewest, chances = target.size + 1, 3
    for _ in range(50 + 5 * target.size):
        shares, slope = _solved(gram, target, free, total)
        wrong = np.where(free, shares < -1e-12, slope < -1e-9 * np.abs(target).max(initial=1e-300))
        count = int(wrong.sum())
        if not count:
            break
        if count < fewest:
            fewest, chances = count, 3
        elif chances:
            chances -= 1
        else:
            last = int(np.flatnonzero(wrong)[-1])
            wrong = np.arange(target.size) == last
        free ^= wrong
    return np.asarray(np.maximum(shares, 0))


def _solved(
    gram: np.ndarray, target: np.ndarray, free: np.ndarray, total: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """The best shares with those that are not free at 0, and the slope of all."""
    shares, price = np.zeros(target.size), 0.0
    if free.any():
        factor = factored(gram[np.ix_(free, free)])
        shares[free] = scipy.linalg.cho_solve(factor, target[free])
        if total is not None:
            ones = scipy.linalg.cho_solve(factor, np.ones(int(free.sum())))
            price = (shares[free].sum() - total) / ones.sum()
            shares[free] -= price * ones
    elif total is not None:
        price = float(target.max())  # at this price the best one is worth freeing
    return shares, gram @ shares - target + price


@dataclass(frozen=True)
class LeastSquaresFit:
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


class LinearModel:
    """The shares of cells as a linear model of the shares of candidates and of other strings.

    Unknown strings spread evenly on average, so with `closed` false the design is centred on that
    and their share is what is left of one. With `closed` true the candidates sum to one and
    nothing is unknown.
    """

    def __init__(self, cells: CellShares, matrix: scipy.sparse.csc_matrix, *, closed: bool) -> None:
        self.cells, self.closed, self.matrix = cells, closed, matrix
        self.blocks = Blocks(matrix, len(cells.shares))

    def fit(self, rounds: int = 3) -> LeastSquaresFit:
        """The fit of all candidates; every round weighs by the fit of the one before."""
        fit = self._round(np.zeros(self.matrix.shape[1]), 0.0)
        for _ in range(rounds - 1):
            fit = self._round(fit.shares, self._unknown(fit))
        return fit

    def dispersion(self, fit: LeastSquaresFit) -> tuple[float, int]:
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

    def _round(self, shares: np.ndarray, extra: float) -> LeastSquaresFit:
        other = 0.0 if self.closed else max(1 - shares.sum(), 0.0)
        weights = self.cells.weights(self.blocks, shares, other, extra)
        gram, target = self._normal(weights)
        covariance, free = self._solve(gram, target)
        best = nonnegative(gram, target, closed=self.closed)
        gradient = weighted(weights, self.residual(free))
        return LeastSquaresFit(free, best, covariance, gradient, weights, extra)

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

    def _unknown(self, fit: LeastSquaresFit) -> float:
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
