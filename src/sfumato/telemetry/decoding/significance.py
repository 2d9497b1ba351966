"""Tests whether a candidate is present: p-values of fits and their correction for many tests."""

import math
from typing import Any

import numpy as np

from sfumato.core.validation import one_of
from sfumato.telemetry.decoding.cell_sums import CellSums
from sfumato.telemetry.decoding.design import CellFractions
from sfumato.telemetry.decoding.empirical_bayes import ShrunkFit
from sfumato.telemetry.decoding.weighted_least_squares import LeastSquaresFit, LinearModel

__all__ = ["CORRECTION", "adjusted", "fit_p", "normal_p", "random_cells_z", "shrunk_p"]

CORRECTION = one_of(("benjamini-hochberg", "bonferroni", "none"))
STEPS = np.geomspace(0.25, 60.0, 32)  # tilts, in standard deviations of the statistic
_erfc = np.frompyfunc(math.erfc, 1, 1)  # scipy.special takes longer to import than a fit
BLOCK = 2**16  # numbers at a time, so that they stay in the cache


def adjusted(p_values: Any, correction: str) -> np.ndarray:
    """Return p-values adjusted so that those up to a level are significant together.

    Guarantee: at level a, "bonferroni" makes any false detection with probability at most a;
    "benjamini-hochberg" bounds the expected fraction of false ones among those detected by a (for
    tests that are independent or positively dependent); "none" makes each test err with
    probability a.

    >>> adjusted([0.01, 0.02, 0.5], "benjamini-hochberg")
    array([0.03, 0.03, 0.5 ])
    >>> adjusted([0.01, 0.02, 0.5], "bonferroni")
    array([0.03, 0.06, 1.  ])

    Benjamini and Hochberg 1995, section 3.1.
    """
    p_values, count = np.asarray(p_values, np.float64), np.size(p_values)
    CORRECTION.check("decode", "correction", correction)
    if correction == "none" or not count:
        return np.asarray(p_values)
    if correction == "bonferroni":
        return np.asarray(np.minimum(p_values * count, 1))
    order = np.argsort(p_values)
    raised = p_values[order] * (count / np.arange(1, count + 1))
    out = np.empty(count)
    out[order] = np.minimum.accumulate(raised[::-1])[::-1]
    return np.clip(out, 0, 1)


def normal_p(estimates: Any, errors: Any) -> np.ndarray:
    """Return the probability that noise alone gives this estimate or more; 1 without an error."""
    estimates, errors = np.asarray(estimates, np.float64), np.asarray(errors, np.float64)
    known = np.isfinite(errors) & (errors > 0)
    z = np.where(known, estimates, 0.0) / np.where(known, errors, 1.0)
    return np.where(known, 0.5 * np.asarray(_erfc(z / math.sqrt(2)), np.float64), 1.0)


def random_cells_z(gradient: np.ndarray, size: float, totals: Any) -> np.ndarray:
    """Return the z-value of totals of weighted residuals among those of strings with random cells.

    A string that nobody has falls on cells that are unrelated to the reports, so the total of the
    residuals in its cells is that of a random set. This distribution is known from the residuals
    themselves, whatever unknown strings or misspecified weights left in them; its tail is computed
    by a saddlepoint approximation and returned as the normal deviation of the same tail.

    `gradient` (m, k) are weighted residuals of a fit without the candidate; `size`, the cells of a
    set; `totals`, sums over the candidate's cells minus their mean over all cells, above 0. Cells
    of a set are treated as drawn with replacement, at the variance of drawing without.

    Barndorff-Nielsen 1986, r* of the tail formula of Lugannani and Rice 1980.
    """
    k = gradient.shape[1]
    centred = gradient - gradient.mean(1, keepdims=True)
    centred *= np.sqrt(max(k - size, 0) / max(k - 1, 1))
    deviation = np.sqrt(size * (centred**2).sum() / k)
    if not deviation > 0:
        return np.zeros(np.shape(totals))
    value, slope, curve = _cumulants(centred, size, STEPS / deviation)
    root = np.sqrt(np.maximum(2 * (STEPS / deviation * slope - value), 1e-300))
    star = root + np.log(STEPS / deviation * np.sqrt(curve) / root) / root
    rising = np.maximum.accumulate(star)
    return np.asarray(np.interp(totals, np.append(0.0, slope), np.append(0.0, rising)))


def _cumulants(
    centred: np.ndarray, size: float, tilts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log E exp(t T) of the total T of a random set and two derivatives at every tilt t."""
    out, step = np.empty((3, tilts.size)), max(1, BLOCK // centred.size)
    values = np.ascontiguousarray(centred.T)  # cells first: sums then run along the cohorts
    peak = values.max(0)
    for begin in range(0, tilts.size, step):
        tilt = tilts[begin : begin + step, None]
        tilted = np.exp(tilt[:, :, None] * (values - peak))
        norm = tilted.sum(1)
        tilted *= values
        first = tilted.sum(1) / norm
        tilted *= values
        second = tilted.sum(1) / norm
        parts = (np.log(norm / len(values)) + tilt * peak, first, second - first**2)
        out[:, begin : begin + step] = [each.sum(1) for each in parts]
    value, slope, curve = size * out
    return value, slope, np.maximum(curve, 1e-300)


LIKELY = 0.2  # a p-value above this needs no second opinion
TOGETHER = 2**22  # numbers of the residuals of candidates that are tested at a time
SMALL = 0.5  # standard errors: a fraction below it hardly changes a residual


def fit_p(model: LinearModel, fit: LeastSquaresFit, *, hashed: bool) -> np.ndarray:
    """Return p-values of candidates being absent, the larger of two tests.

    One is of noise with the estimated covariance; the other, where cells come from hashing, of a
    string with random cells (`random_cells_z`), which is valid whatever is not in the dictionary.
    """
    variances = np.maximum(fit.covariance.diagonal(), 0)  # of a single value that is certain: 0
    p_value = normal_p(fit.unconstrained, np.sqrt(variances))
    if hashed and not model.closed:
        positions = np.flatnonzero(p_value < LIKELY)
        step = max(1, TOGETHER // fit.gradient.size)
        for some in (positions[start : start + step] for start in range(0, positions.size, step)):
            p_value[some] = np.maximum(p_value[some], normal_p(_without(model, fit, some), 1.0))
    return p_value


def _without(model: LinearModel, fit: LeastSquaresFit, positions: np.ndarray) -> np.ndarray:
    """Return z-values of candidates among random strings, each in the fit of the others."""
    moved = fit.covariance[:, positions] * (
        fit.unconstrained[positions] / fit.covariance[positions, positions]
    )
    shift = model.blocks @ moved - model.cells.uniform * moved.sum(0)
    residuals = model.residual(fit.unconstrained)[:, :, None] + shift
    marked = model.blocks @ fit.fractions
    z, indices, starts = [], model.matrix.indices, model.matrix.indptr
    for each, position in enumerate(positions):
        own = indices[starts[position] : starts[position + 1]]
        tested = (fit.fractions, marked, fit.extra, position, residuals[:, :, each])
        z.append(_out(model.cells, own, *tested))
    return np.array(z)


def _out(
    cells: CellFractions,
    own: np.ndarray,
    fractions: np.ndarray,
    marked: np.ndarray,
    extra: float,
    position: int,
    residual: np.ndarray,
) -> float:
    """Return the z-value of a candidate from the residuals of the others' fit, weighted as absent.

    Its own fraction makes its cells vary, so in a fit that has it they weigh less than empty cells
    that a random string may fall on: the surest candidates would look like noise.
    """
    others = marked.copy()
    others.reshape(-1)[own] -= fractions[position]
    others += cells.uniform * max(1 - fractions.sum() + fractions[position], 0.0)
    gradient = cells.alone(others, extra) * residual
    total = gradient.reshape(-1)[own].sum() - cells.uniform * gradient.sum()
    return float(random_cells_z(gradient, cells.size, total))


def shrunk_p(cells: CellFractions, candidates: CellSums, shrunk: ShrunkFit) -> np.ndarray:
    """As `fit_p`, for candidates that are estimated jointly; cells must come from hashing."""
    p_value = normal_p(shrunk.unbiased, np.sqrt(shrunk.variance))
    precision = _precision(cells, candidates, shrunk)
    strong = shrunk.fractions * np.sqrt(precision) > SMALL
    unsure = p_value < LIKELY
    z = random_cells_z(shrunk.gradient, cells.size, shrunk.unbiased * precision)
    marked = candidates.marked(shrunk.fractions).reshape(shrunk.gradient.shape)
    for position in np.flatnonzero(unsure & strong):
        own = candidates.cells_of(int(position))
        residual = _joined(cells, own, shrunk, int(position))
        tested = (shrunk.fractions, marked, shrunk.uncertainty, int(position), residual)
        z[position] = _out(cells, own, *tested)
    return np.where(unsure, np.maximum(p_value, normal_p(z, np.ones(z.size))), p_value)


def _precision(cells: CellFractions, candidates: CellSums, shrunk: ShrunkFit) -> np.ndarray:
    """Return the precision of each candidate's estimate from its cells."""
    u, weights = cells.uniform, shrunk.weights.reshape(-1)
    level, _ = candidates.sums(weights, weights)
    return np.asarray((1 - 2 * u) * level + u * u * weights.sum())


def _joined(cells: CellFractions, own: np.ndarray, shrunk: ShrunkFit, position: int) -> np.ndarray:
    """Return the residuals (m, k) with a candidate's own fraction added back."""
    residual = shrunk.gradient / np.where(shrunk.weights > 0, shrunk.weights, 1.0)
    residual -= cells.uniform * shrunk.fractions[position]
    residual.reshape(-1)[own] += shrunk.fractions[position]
    return np.asarray(residual)
