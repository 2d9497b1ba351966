"""Empirical Bayes for many candidates: approximate message passing with a learned prior.

Candidates that outnumber the cells have no least-squares fit, yet few of them have large counts.
Approximate message passing learns the distribution of the fractions, shrinks every estimate
accordingly, and knows from the randomness of hashing how the errors of all others add to each: an
estimate before shrinkage is the true fraction plus a normal error of a known variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.telemetry.decoding.cell_sums import CellSums
from sfumato.telemetry.decoding.design import CellFractions

__all__ = ["ShrunkFit", "message_passing", "shrunk_toward_others"]

STEPS, CLOSE = 200, 5e-3  # at most; and the largest change of an estimate, in standard errors
CENTRES, WIDTH = 16, 0.4  # components of the learned prior; their width relative to the centre
CLEAR = 1.5  # standard errors above 0 of the centres of values that are clearly present
LEAST, LEARNED = 10, 20  # candidates from which a prior is learned; and how often it is improved


@dataclass(frozen=True)
class ShrunkFit:
    """Result of message passing, in fractions of all clients, one entry per candidate.

    `unbiased` is an estimate without bias of variance `variance`; `fractions` is the posterior mean
    under the learned prior and `posterior_variance` its variance; `gradient` (m, k), the weighted
    residuals corrected for the fit; `weights` (m, k); `dispersion`, residual chi-squared per
    remaining degree of freedom; `converged`, whether the iteration ended; `uncertainty`, the sum of
    posterior variances; `presence`, the posterior probability that a fraction is clearly above 0.
    """

    unbiased: np.ndarray
    variance: np.ndarray
    fractions: np.ndarray
    posterior_variance: np.ndarray
    gradient: np.ndarray
    weights: np.ndarray
    dispersion: float
    converged: bool
    uncertainty: float
    presence: np.ndarray


def message_passing(cells: CellFractions, candidates: CellSums) -> ShrunkFit:
    """Estimate the fractions of all columns jointly.

    Guarantee: with many random cells, as of hashing, `unbiased` is normal around the true fraction
    with `variance`, on average over hashes; unknown strings are part of the error.

    Donoho, Maleki and Montanari 2009; Bayati and Montanari 2011, theorem 1 (state evolution).
    """
    degrees, fractions = _degrees(cells), np.zeros(candidates.candidates)
    remaining, prior, uncertainty = 1.0, _flat(), 1.0
    for step in range(STEPS):
        marked = candidates.marked(fractions)
        weights = _weights(cells, marked, fractions, uncertainty)
        residual = _residual(cells, marked, fractions)
        score = weights * residual
        level, pull = candidates.sums(weights, score)
        precision = _precision(cells, weights, level)
        unbiased = fractions + (pull - cells.uniform * score.sum()) / precision / remaining
        noise_scale = max(float((score * residual).sum()) / degrees, 1e-300) / remaining**2
        mean, posterior_variance, prior, presence = _shrunk(
            unbiased, noise_scale / precision, prior
        )
        change = float((np.abs(mean - fractions) * np.sqrt(precision / noise_scale)).max())
        if change < CLOSE:
            break
        fitted = min(float((posterior_variance * precision).sum()) / noise_scale / degrees, 0.95)
        damping = 0.5 * 0.7 ** (step // 25) if step else 1.0  # full steps would oscillate
        fractions = fractions + damping * (mean - fractions)
        remaining += damping * (1 - fitted - remaining)
        uncertainty += damping * (float(posterior_variance.sum()) - uncertainty)
    shape = cells.fractions.shape
    plain = _weights(cells, candidates.marked(fractions), fractions, 0.0)
    dispersion = float((plain * residual**2).sum()) / degrees / remaining
    gradient, weights = (score / remaining).reshape(shape), weights.reshape(shape)
    converged = change < 0.05
    return ShrunkFit(
        unbiased,
        noise_scale / precision,
        mean,
        posterior_variance,
        gradient,
        weights,
        dispersion,
        converged,
        uncertainty,
        presence,
    )


def shrunk_toward_others(
    unbiased: np.ndarray, variance: np.ndarray, fractions: np.ndarray, *, closed: bool
) -> np.ndarray:
    """Return the fractions with those not clearly above 0 replaced by their posterior means.

    The prior is learned from all candidates, so that counts within the noise become what such
    counts are on average, instead of 0 or twice as much. If `closed` the sum stays. Below `LEAST`
    candidates, or where a variance is not positive, the fractions are returned as they are.

    >>> unbiased = np.append(np.tile([-0.01, 0.01], 10), 0.5)
    >>> fractions = np.maximum(unbiased, 0)
    >>> shown = shrunk_toward_others(unbiased, np.full(21, 1e-4), fractions, closed=False)
    >>> bool(shown[:20].max() < 0.005), round(float(shown[20]), 3)
    (True, 0.5)

    Robbins 1956; Efron and Morris 1975.
    """
    if unbiased.size < LEAST or not np.all(np.isfinite(variance) & (variance > 0)):
        return fractions
    prior = _flat()
    for _ in range(LEARNED):
        mean, _, prior, presence = _shrunk(unbiased, variance, prior)
    clear, unclear = presence * fractions, (1 - presence) * mean
    if closed and unclear.sum() > 0:
        unclear *= max(fractions.sum() - clear.sum(), 0.0) / unclear.sum()
    return np.asarray(clear + unclear)


def _degrees(cells: CellFractions) -> int:
    """Return the degrees of freedom: cells less one in every cohort, as sets have one size."""
    return int(max((cells.reports > 0).sum() * (cells.fractions.shape[1] - 1), 1))


def _weights(
    cells: CellFractions, marked: np.ndarray, fractions: np.ndarray, uncertainty: float
) -> np.ndarray:
    """Return the weight of every cell alone.

    The uncertainty of the candidates adds variance to every cell, as unknown strings do.
    """
    marked = marked + cells.uniform * max(1 - fractions.sum(), 0)
    return cells.alone(marked.reshape(cells.fractions.shape), uncertainty).reshape(-1)


def _precision(cells: CellFractions, weights: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the precision of each candidate from the sum `level` of the weights of its cells."""
    precision = level - 2 * cells.uniform * level + cells.uniform**2 * weights.sum()
    # Sets of all cells carry no information; with a floor their errors are large and finite.
    return np.asarray(np.maximum(precision, 1e-9 * max(float(weights.max()), 1e-9)))


def _residual(cells: CellFractions, marked: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    """Return the residuals of all cells."""
    centred = (cells.fractions - cells.uniform).reshape(-1)
    return np.asarray(centred - marked + cells.uniform * fractions.sum())


def _flat() -> np.ndarray:
    """Return the initial prior as log weights: half of the candidates are absent."""
    return np.asarray(np.log(np.append(0.5, np.full(CENTRES, 0.5 / CENTRES))))


def _shrunk(
    unbiased: np.ndarray, variance: np.ndarray, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return posterior means and variances of fractions, the prior, and probabilities of presence.

    The prior is a weight at 0 and normal components at geometrically spaced centres, fitted to all
    fractions by a few steps of expectation maximisation.
    """
    error = np.sqrt(np.median(variance))
    top = max(1.5 * float(unbiased.max()) / error, 2.0)
    centres = error * np.geomspace(0.25, top, CENTRES)
    width, noise = (WIDTH * centres) ** 2, variance[:, None]
    both = width + noise
    fits = np.empty((unbiased.size, CENTRES + 1))
    fits[:, 0] = -0.5 * (unbiased**2 / variance + np.log(variance))
    fits[:, 1:] = -0.5 * ((unbiased[:, None] - centres) ** 2 / both + np.log(both))
    for _ in range(3):
        responsibilities = _responsibilities(fits, prior)
        prior = np.log((responsibilities.sum(0) + 0.1) / (unbiased.size + 0.1 * prior.size))
    responsibilities = _responsibilities(fits, prior)[:, 1:]
    means = (unbiased[:, None] * width + centres * noise) / both
    mean = (responsibilities * means).sum(1)
    second = (responsibilities * (means**2 + width * noise / both)).sum(1)
    presence = responsibilities[:, centres >= CLEAR * error].sum(1)
    return np.maximum(mean, 0), np.maximum(second - mean**2, 0), prior, presence


def _responsibilities(fits: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Return the posterior probability of each component for each candidate."""
    joint = fits + prior
    joint -= joint.max(1, keepdims=True)
    np.exp(joint, out=joint)
    return np.asarray(joint / joint.sum(1, keepdims=True))
