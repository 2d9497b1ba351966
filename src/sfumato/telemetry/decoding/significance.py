"""Every candidate of a weighted fit against the fit of the others: estimate, variance, p-value.

Is a candidate there at all: p-values, and which of many to believe.
"""

from typing import Any

import numpy as np
from scipy import stats

from sfumato.core.validation import one_of
from sfumato.telemetry.decoding.empirical_bayes import ShrunkFit
from sfumato.telemetry.decoding.weighted_least_squares import LeastSquaresFit, LinearModel

__all__ = ["CORRECTION", "adjusted", "crowd_p", "fit_p", "normal_p", "random_cells_z"]

CORRECTION = one_of(("benjamini-hochberg", "bonferroni", "none"))
STEPS = np.geomspace(0.25, 60.0, 32)  # tilts, in standard deviations of the statistic
BLOCK = 2**16  # numbers at a time, so that they stay in the cache


def adjusted(p_values: Any, correction: str) -> np.ndarray:
    """p-values such that those up to a level may be believed together.

    Guarantee: at level a, "bonferroni" makes any false detection with chance at most a;
    "benjamini-hochberg" keeps the expected part of false ones among those detected at most a (for
    tests that are independent or rise together); "none" makes each test err with chance a.
    Parameters: p_values, each from 0 to 1; correction, one of these names.

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
    return np.asarray(stats.false_discovery_control(p_values))


def normal_p(estimates: Any, errors: Any) -> np.ndarray:
    """The chance that noise alone gives an estimate this high; 1 where there is no error known."""
    estimates, errors = np.asarray(estimates, np.float64), np.asarray(errors, np.float64)
    known = np.isfinite(errors) & (errors > 0)
    z = np.where(known, estimates, 0.0) / np.where(known, errors, 1.0)
    return np.where(known, stats.norm.sf(z), 1.0)


def random_cells_z(gradient: np.ndarray, size: float, totals: Any) -> np.ndarray:
    """How far out a total of weighted residuals is among those of strings with random cells.

    A string that nobody has falls on cells that have nothing to do with the reports, so the total
    of the residuals in its cells is that of a random set. This law is known from the residuals
    themselves, whatever unknown strings or wrong weights left in them; its tail is computed by a
    saddlepoint and returned as the normal deviation of the same tail.
    Parameters: gradient (m, k), weighted residuals of a fit without the candidate; size, of a set;
    totals, sums over the candidate's cells less their mean over all cells, above 0.

    Cells of a set are taken as drawn with replacement, at the variance of drawing without.
    Barndorff-Nielsen 1986, r* of the tail of Lugannani and Rice 1980.
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
    """log E exp(t T) of the total T of a random set, with two derivatives, at every tilt t."""
    out, step = np.empty((3, tilts.size)), max(1, BLOCK // centred.size)
    values = np.ascontiguousarray(centred.T)  # cells first: sums then run along the cohorts
    peak = values.max(0)
    for begin in range(0, tilts.size, step):
        tilt = tilts[begin : begin + step, None]
        chance = np.exp(tilt[:, :, None] * (values - peak))
        norm = chance.sum(1)
        chance *= values
        first = chance.sum(1) / norm
        chance *= values
        second = chance.sum(1) / norm
        told = (np.log(norm / len(values)) + tilt * peak, first, second - first**2)
        out[:, begin : begin + step] = [each.sum(1) for each in told]
    value, slope, curve = size * out
    return value, slope, np.maximum(curve, 1e-300)


LIKELY = 0.2  # a p-value above this needs no second opinion
TOGETHER = 2**22  # numbers of the residuals of candidates that are tested at a time
SMALL = 0.5  # standard errors: a share below it changes no residual worth telling


def fit_p(model: LinearModel, fit: LeastSquaresFit, *, hashed: bool) -> np.ndarray:
    """p-values that a candidate is absent, the larger of two.

    One is of noise as the covariance knows it; the other, where cells come from hashing, of a
    string with random cells (`random_cells_z`), which holds whatever is not in the dictionary.
    """
    p_value = normal_p(fit.free, np.sqrt(fit.covariance.diagonal()))
    if hashed and not model.closed:
        positions = np.flatnonzero(p_value < LIKELY)
        step = max(1, TOGETHER // fit.gradient.size)
        for some in (positions[start : start + step] for start in range(0, positions.size, step)):
            p_value[some] = np.maximum(p_value[some], normal_p(_without(model, fit, some), 1.0))
    return p_value


def _without(model: LinearModel, fit: LeastSquaresFit, positions: np.ndarray) -> np.ndarray:
    """How far out candidates are among random strings, each in the fit of the others."""
    moved = fit.covariance[:, positions] * (
        fit.free[positions] / fit.covariance[positions, positions]
    )
    shift = model.blocks @ moved - model.cells.uniform * moved.sum(0)
    left = model.residual(fit.free)[:, :, None] + shift
    marked = model.blocks @ fit.shares
    z = [
        _out(model, fit.shares, marked, fit.extra, place, left[:, :, each])
        for each, place in enumerate(positions)
    ]
    return np.array(z)


def _out(
    model: LinearModel,
    shares: np.ndarray,
    marked: np.ndarray,
    extra: float,
    place: int,
    left: np.ndarray,
) -> float:
    """How far out one candidate is, by what the fit of the others leaves, weighed as if absent.

    Its own share makes its cells vary, so in a fit that has it they weigh less than empty cells
    that a random string may fall on: what is most surely there would look like chance.
    """
    u, cells = model.cells.uniform, _cells(model, place)
    others = marked.copy()
    others.reshape(-1)[cells] -= shares[place]
    others += u * max(1 - shares.sum() + shares[place], 0.0)
    gradient = model.cells.alone(others, extra) * left
    total = gradient.reshape(-1)[cells].sum() - u * gradient.sum()
    return float(random_cells_z(gradient, model.cells.size, total))


def crowd_p(model: LinearModel, crowd: ShrunkFit) -> np.ndarray:
    """The same for candidates that are estimated all at once; cells must come from hashing."""
    p_value = normal_p(crowd.free, np.sqrt(crowd.variance))
    told = _told(model, crowd)
    strong = crowd.shares * np.sqrt(told) > SMALL
    unsure = p_value < LIKELY
    z = random_cells_z(crowd.gradient, model.cells.size, crowd.free * told)
    marked = model.blocks @ crowd.shares
    for place in np.flatnonzero(unsure & strong):
        left = _joined(model, crowd, int(place))
        z[place] = _out(model, crowd.shares, marked, crowd.unsure, int(place), left)
    return np.where(unsure, np.maximum(p_value, normal_p(z, np.ones(z.size))), p_value)


def _told(model: LinearModel, crowd: ShrunkFit) -> np.ndarray:
    u, weights = model.cells.uniform, crowd.weights.reshape(-1)
    return np.asarray((1 - 2 * u) * (model.matrix.T @ weights) + u * u * weights.sum())


def _joined(model: LinearModel, crowd: ShrunkFit, place: int) -> np.ndarray:
    """The residuals (m, k) with a candidate's own share put back."""
    left = crowd.gradient / np.where(crowd.weights > 0, crowd.weights, 1.0)
    left -= model.cells.uniform * crowd.shares[place]
    left.reshape(-1)[_cells(model, place)] += crowd.shares[place]
    return np.asarray(left)


def _cells(model: LinearModel, place: int) -> np.ndarray:
    """A candidate's cells, as places among those of all cohorts."""
    matrix = model.matrix
    return np.asarray(matrix.indices[matrix.indptr[place] : matrix.indptr[place + 1]])
