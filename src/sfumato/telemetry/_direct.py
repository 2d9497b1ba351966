"""Every candidate of a weighted fit against the fit of the others: estimate, variance, p-value."""

import numpy as np

from sfumato.telemetry._crowded import Crowd
from sfumato.telemetry._tests import normal_p, random_cells_z
from sfumato.telemetry._weighted import Fit, Model

__all__ = ["crowd_p", "fit_p"]

LIKELY = 0.2  # a p-value above this needs no second opinion
TOGETHER = 2**22  # numbers of the residuals of candidates that are tested at a time
SMALL = 0.5  # standard errors: a share below it changes no residual worth telling


def fit_p(model: Model, fit: Fit, *, hashed: bool) -> np.ndarray:
    """p-values that a candidate is absent, the larger of two.

    One is of noise as the covariance knows it; the other, where cells come from hashing, of a
    string with random cells (`random_cells_z`), which holds whatever is not in the dictionary.
    """
    p_value = normal_p(fit.free, np.sqrt(fit.covariance.diagonal()))
    if hashed and not model.closed:
        places = np.flatnonzero(p_value < LIKELY)
        step = max(1, TOGETHER // fit.gradient.size)
        for some in (places[start : start + step] for start in range(0, places.size, step)):
            p_value[some] = np.maximum(p_value[some], normal_p(_without(model, fit, some), 1.0))
    return p_value


def _without(model: Model, fit: Fit, places: np.ndarray) -> np.ndarray:
    """How far out candidates are among random strings, each in the fit of the others."""
    moved = fit.covariance[:, places] * (fit.free[places] / fit.covariance[places, places])
    shift = model.blocks @ moved - model.cells.uniform * moved.sum(0)
    left = model.residual(fit.free)[:, :, None] + shift
    marked = model.blocks @ fit.shares
    z = [
        _out(model, fit.shares, marked, fit.extra, place, left[:, :, each])
        for each, place in enumerate(places)
    ]
    return np.array(z)


def _out(
    model: Model, shares: np.ndarray, marked: np.ndarray, extra: float, place: int, left: np.ndarray
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


def crowd_p(model: Model, crowd: Crowd) -> np.ndarray:
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


def _told(model: Model, crowd: Crowd) -> np.ndarray:
    u, weights = model.cells.uniform, crowd.weights.reshape(-1)
    return np.asarray((1 - 2 * u) * (model.matrix.T @ weights) + u * u * weights.sum())


def _joined(model: Model, crowd: Crowd, place: int) -> np.ndarray:
    """The residuals (m, k) with a candidate's own share put back."""
    left = crowd.gradient / np.where(crowd.weights > 0, crowd.weights, 1.0)
    left -= model.cells.uniform * crowd.shares[place]
    left.reshape(-1)[_cells(model, place)] += crowd.shares[place]
    return np.asarray(left)


def _cells(model: Model, place: int) -> np.ndarray:
    """A candidate's cells, as places among those of all cohorts."""
    matrix = model.matrix
    return np.asarray(matrix.indices[matrix.indptr[place] : matrix.indptr[place + 1]])
