"""Every candidate of a weighted fit against the fit of the others: estimate, variance, p-value."""

import numpy as np

from sfumato.telemetry._crowded import Crowd
from sfumato.telemetry._tests import normal_p, random_cells_z
from sfumato.telemetry._weighted import Fit, Model, weighted

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
    totals = fit.free[places] / fit.covariance[places, places]
    moved = fit.covariance[:, places] * totals
    shift = model.blocks @ moved - model.cells.uniform * moved.sum(0)
    gradients = fit.gradient[:, :, None] + weighted(fit.weights, shift)
    z = [
        random_cells_z(gradients[:, :, each], model.cells.size, total)
        for each, total in enumerate(totals)
    ]
    return np.array(z)


def crowd_p(model: Model, crowd: Crowd) -> np.ndarray:
    """The same for candidates that are estimated all at once; cells must come from hashing."""
    p_value = normal_p(crowd.free, np.sqrt(crowd.variance))
    told = _told(model, crowd)
    strong = crowd.shares * np.sqrt(told) > SMALL
    unsure = p_value < LIKELY
    z = random_cells_z(crowd.gradient, model.cells.size, crowd.free * told)
    for place in np.flatnonzero(unsure & strong):
        z[place] = _joined(model, crowd, int(place), crowd.free[place] * told[place])
    return np.where(unsure, np.maximum(p_value, normal_p(z, np.ones(z.size))), p_value)


def _told(model: Model, crowd: Crowd) -> np.ndarray:
    u, weights = model.cells.uniform, crowd.weights.reshape(-1)
    return np.asarray((1 - 2 * u) * (model.matrix.T @ weights) + u * u * weights.sum())


def _joined(model: Model, crowd: Crowd, place: int, total: float) -> float:
    """How far out a candidate is among random strings, its own share put back in the residuals."""
    matrix, own = model.matrix, np.full(crowd.weights.size, -model.cells.uniform)
    own[matrix.indices[matrix.indptr[place] : matrix.indptr[place + 1]]] += 1
    moved = own.reshape(crowd.weights.shape) * crowd.shares[place]
    gradient = crowd.gradient + crowd.weights * moved
    return float(random_cells_z(gradient, model.cells.size, total))
