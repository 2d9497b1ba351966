"""Decoding when candidates are many for the cells: all at once, each against the fit of the others.

Candidates that outnumber what cells can tell apart have no least-squares fit, yet few of them have
large counts. Approximate message passing learns how counts are spread, shrinks every estimate
accordingly, and knows from the randomness of hashing how far the errors of all others reach into
each: an estimate before shrinking is the true share plus a normal error of a known variance.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from sfumato.telemetry.decoding.design import CellShares

__all__ = ["ShrunkFit", "crowded"]

STEPS, CLOSE = 200, 5e-3  # at most; and the largest change of an estimate, in standard errors
CENTRES, WIDTH = 16, 0.4  # bumps of the learned law of shares, each as wide as this part of itself


@dataclass(frozen=True)
class ShrunkFit:
    """What was found, in shares of all clients, an entry a candidate.

    `free` is without bias and has `variance`; `shares` is the mean given the law of all shares and
    `doubt` its variance; `gradient` (m, k), the weighted residuals freed of what fitting took from
    them; `weights` (m, k); `dispersion`, residual chi-squared over what is left of the cells;
    `settled`, whether the steps ended; `unsure`, the variance of all shares that is left.
    """

    free: np.ndarray
    variance: np.ndarray
    shares: np.ndarray
    doubt: np.ndarray
    gradient: np.ndarray
    weights: np.ndarray
    dispersion: float
    settled: bool
    unsure: float


def crowded(cells: CellShares, matrix: scipy.sparse.csc_matrix) -> ShrunkFit:
    """Estimates of the shares of all columns together.

    Guarantee: with random cells, as those of hashing, and many of them, `free` is normal around the
    true share with `variance`, on average over hashes; unknown strings are part of the error.

    Donoho, Maleki and Montanari 2009; Bayati and Montanari 2011, theorem 1, on what the errors are.
    """
    rows, degrees = matrix.T.tocsr(), _degrees(cells)
    shares, left, distribution, unsure = np.zeros(matrix.shape[1]), 1.0, _flat(), 1.0
    for step in range(STEPS):
        weights, told = _weights(cells, matrix, rows, shares, unsure)
        residual = _residual(cells, matrix, shares)
        pull = weights * residual
        free = shares + (rows @ pull - cells.uniform * pull.sum()) / told / left
        noise = max(float((pull * residual).sum()) / degrees, 1e-300) / left**2
        mean, doubt, distribution = _shrunk(free, noise / told, distribution)
        change = float((np.abs(mean - shares) * np.sqrt(told / noise)).max())
        if change < CLOSE:
            break
        fitted = min(float((doubt * told).sum()) / noise / degrees, 0.95)
        pace = 0.5 * 0.7 ** (step // 25) if step else 1.0  # whole steps would swing
        shares, left = shares + pace * (mean - shares), left + pace * (1 - fitted - left)
        unsure += pace * (float(doubt.sum()) - unsure)
    shape = cells.shares.shape
    plain, _ = _weights(cells, matrix, rows, shares, 0.0)
    dispersion = float((plain * residual**2).sum()) / degrees / left
    gradient, weights = (pull / left).reshape(shape), weights.reshape(shape)
    settled = change < 0.05
    return ShrunkFit(
        free, noise / told, mean, doubt, gradient, weights, dispersion, settled, unsure
    )


def _degrees(cells: CellShares) -> int:
    """Cells that can tell something: in every cohort one less, as sets have one size."""
    return int(max((cells.reports > 0).sum() * (cells.shares.shape[1] - 1), 1))


def _weights(
    cells: CellShares,
    matrix: scipy.sparse.csc_matrix,
    rows: scipy.sparse.csr_matrix,
    shares: np.ndarray,
    unsure: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The weight of every cell alone, and what all cells of a candidate tell of it.

    What is unsure of the candidates varies in every cell, as unknown strings do.
    """
    marked = matrix @ shares + cells.uniform * max(1 - shares.sum(), 0)
    weights = cells.alone(marked.reshape(cells.shares.shape), unsure).reshape(-1)
    level = rows @ weights
    told = level - 2 * cells.uniform * level + cells.uniform**2 * weights.sum()
    # Sets of all cells tell nothing; with a floor their errors are large, and finite.
    return weights, np.maximum(told, 1e-9 * max(float(weights.max()), 1e-9))


def _residual(cells: CellShares, matrix: scipy.sparse.csc_matrix, shares: np.ndarray) -> np.ndarray:
    centred = (cells.shares - cells.uniform).reshape(-1)
    return np.asarray(centred - matrix @ shares + cells.uniform * shares.sum())


def _flat() -> np.ndarray:
    """The law to start from: half of the candidates are absent."""
    return np.asarray(np.log(np.append(0.5, np.full(CENTRES, 0.5 / CENTRES))))


def _shrunk(
    free: np.ndarray, variance: np.ndarray, distribution: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and variances of shares given estimates, under a law learned from all of them.

    The law is a weight at 0 and bumps at a geometric row of centres, fitted by a few steps of
    expectation and maximisation.
    """
    error = np.sqrt(np.median(variance))
    top = max(1.5 * float(free.max()) / error, 2.0)
    centres = error * np.geomspace(0.25, top, CENTRES)
    width, noise = (WIDTH * centres) ** 2, variance[:, None]
    both = width + noise
    fits = np.empty((free.size, CENTRES + 1))
    fits[:, 0] = -0.5 * (free**2 / variance + np.log(variance))
    fits[:, 1:] = -0.5 * ((free[:, None] - centres) ** 2 / both + np.log(both))
    for _ in range(3):
        chances = _chances(fits, distribution)
        distribution = np.log((chances.sum(0) + 0.1) / (free.size + 0.1 * distribution.size))
    chances = _chances(fits, distribution)[:, 1:]
    means = (free[:, None] * width + centres * noise) / both
    mean = (chances * means).sum(1)
    second = (chances * (means**2 + width * noise / both)).sum(1)
    return np.maximum(mean, 0), np.maximum(second - mean**2, 0), distribution


def _chances(fits: np.ndarray, distribution: np.ndarray) -> np.ndarray:
    joint = fits + distribution
    joint -= joint.max(1, keepdims=True)
    np.exp(joint, out=joint)
    return np.asarray(joint / joint.sum(1, keepdims=True))
