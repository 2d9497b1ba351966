"""Stacking: the linear blend of several predictions that fits held-out ratings best.

Weights of a part may depend linearly on meta-features of a row, as the logarithm of the number of
ratings of its user (feature-weighted linear stacking). They are shrunk towards a simple blend, by
as much as predicts the ratings of other users best.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Self

import numpy as np

__all__ = ["Probe", "Stacking"]

FOLDS = 5  # of users, for the choice of the shrinkage
PRIOR_ROWS = (1e6, 1e5, 3e4, 1e4, 3e3, 1e3, 300.0, 100.0, 30.0, 10.0)
ROWS = 1 << 17  # of the design that is in memory at a time


@dataclass(frozen=True)
class Probe:
    """Held-out ratings: what each part predicts for them, and meta-features of each row.

    scores: (n, parts) predictions minus the mean; meta: (n, features) standardised; targets:
    ratings minus the mean; groups: the fold of each row's user.
    """

    scores: np.ndarray
    meta: np.ndarray
    targets: np.ndarray
    groups: np.ndarray

    def without(self, part: int) -> "Probe":
        """Return the probe without one of the parts."""
        return Probe(np.delete(self.scores, part, 1), self.meta, self.targets, self.groups)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The design of some of the rows at a time."""
        for start in range(0, self.targets.size, ROWS):
            rows = slice(start, start + ROWS)
            yield rows, design(self.scores[rows], self.meta[rows])


def design(scores: np.ndarray, meta: np.ndarray) -> np.ndarray:
    """Return columns (1, meta) times (each score, 1): those of score k are k * (1 + features) on.

    Parameters
    ----------
    scores : ndarray of shape (n, parts)
        Scores minus the mean.
    meta : ndarray of shape (n, features)
        Meta-features.

    Returns
    -------
    ndarray of shape (n, (parts + 1) * (features + 1))
        The columns of the regression.
    """
    ones = np.ones((len(scores), 1))
    left, right = np.hstack([scores, ones]), np.hstack([ones, meta])
    return np.asarray((left[:, :, None] * right[:, None, :]).reshape(len(scores), -1))


@dataclass(frozen=True)
class Stacking:
    """Weights of the columns of the design, and how they were shrunk.

    weights: (parts + 1, features + 1), the last row of the constant; prior: what they were shrunk
    to; rows: how many rows that prior counts; meta: whether weights depend on meta-features.
    """

    weights: np.ndarray
    prior: np.ndarray
    rows: float
    meta: bool

    @classmethod
    def of(cls, probe: Probe, *, meta: bool = True) -> Self:
        """Choose prior, its rows and the use of meta-features by cross-validation over users."""
        grams, moments, squares = _statistics(probe)
        parts, columns = probe.scores.shape[1], 1 + probe.meta.shape[1]
        chosen, least = None, np.inf
        for prior in _priors(grams, moments, squares, parts, columns):
            for rows, used in product(PRIOR_ROWS, (False, True) if meta else (False,)):
                error = _validated(grams, moments, squares, prior, rows, used)
                if error < least * (1 - 1e-9):
                    chosen, least = (prior, rows, used), error
        assert chosen is not None
        weights = _solved(grams.sum(0), moments.sum(0), *chosen)
        return cls(weights, *chosen)

    def validated(self, probe: Probe) -> np.ndarray:
        """Return predictions of all rows of the probe, each by weights of the other users."""
        grams, moments, _ = _statistics(probe)
        out = np.empty(probe.targets.size)
        how = self.prior, self.rows, self.meta
        fold_weights = [
            _solved(grams.sum(0) - grams[fold], moments.sum(0) - moments[fold], *how)
            for fold in range(FOLDS)
        ]
        for rows, columns in probe.blocks():
            mine = np.array(fold_weights).reshape(FOLDS, -1)[probe.groups[rows]]
            out[rows] = np.einsum("ij,ij->i", columns, mine)
        return out


def _statistics(probe: Probe) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Gram matrix, moments with the targets and squares of targets of each fold."""
    size = (probe.scores.shape[1] + 1) * (probe.meta.shape[1] + 1)
    grams, moments = np.zeros((FOLDS, size, size)), np.zeros((FOLDS, size))
    squares = np.bincount(probe.groups, probe.targets**2, FOLDS)
    for rows, columns in probe.blocks():
        for fold in range(FOLDS):
            mine = probe.groups[rows] == fold
            grams[fold] += columns[mine].T @ columns[mine]
            moments[fold] += columns[mine].T @ probe.targets[rows][mine]
    return grams, moments, squares


def _simple(parts: int, columns: int) -> np.ndarray:
    """Return the weights of the plain mean of all parts."""
    weights = np.zeros((parts + 1, columns))
    weights[:parts, 0] = 1 / parts
    return weights


def _priors(
    grams: np.ndarray, moments: np.ndarray, squares: np.ndarray, parts: int, columns: int
) -> list[np.ndarray]:
    """Return the simple blends to shrink to: the mean of all parts, and the best part alone."""
    gram, moment = grams.sum(0), moments.sum(0)
    own = np.arange(parts) * columns
    errors = squares.sum() - 2 * moment[own] + gram[own, own]
    alone = np.zeros((parts + 1, columns))
    alone[int(np.argmin(errors)), 0] = 1
    return [_simple(parts, columns), alone]


def _solved(
    gram: np.ndarray, moment: np.ndarray, prior: np.ndarray, rows: float, meta: bool
) -> np.ndarray:
    """Return the weights that minimise squared error plus that of the prior's rows.

    A prior row counts like one whose columns have their mean squares, uncorrelated.
    """
    columns = prior.shape[1]
    used = np.arange(gram.shape[0]) if meta else np.arange(0, gram.shape[0], columns)
    count = max(gram[-columns, -columns], 1.0)  # of rows: the square of the constant column
    ridge = rows * np.diag(gram)[used] / count + 1e-9 * count
    target = prior.reshape(-1)[used]
    weights = np.zeros(gram.shape[0])
    square = gram[np.ix_(used, used)] + np.diag(ridge)
    weights[used] = np.linalg.solve(square, moment[used] + ridge * target)
    return weights.reshape(prior.shape)


def _validated(
    grams: np.ndarray,
    moments: np.ndarray,
    squares: np.ndarray,
    prior: np.ndarray,
    rows: float,
    meta: bool,
) -> float:
    """Return the squared error of all folds, each by weights of the others."""
    total, all_moments, error = grams.sum(0), moments.sum(0), float(squares.sum())
    for gram, moment in zip(grams, moments, strict=True):
        rest = total - gram, all_moments - moment
        weights = _solved(*rest, prior, rows, meta).reshape(-1)
        error += float(weights @ gram @ weights - 2 * weights @ moment)
    return error
