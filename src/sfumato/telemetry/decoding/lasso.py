"""The older way to decode: a lasso chooses candidates, plain least squares estimates them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy import stats

from sfumato.kernels.telemetry.decoding import nonnegative_lasso
from sfumato.telemetry.decoding.design import Design

__all__ = ["Lasso", "chosen_by_lasso", "lasso"]

SWEEPS, CLOSE = 2000, 1e-7  # at most; and the part of the largest target that counts as settled


@dataclass(frozen=True)
class Lasso:
    """Counts of all candidates: 0 with a rough error where one was not chosen."""

    chosen: np.ndarray
    estimate: np.ndarray
    error: np.ndarray
    p_value: np.ndarray
    other_error: float
    dispersion: float


def lasso(counts: Any, design: Design, *, other: bool) -> Lasso:
    """Choose by a nonnegative lasso, then fit those chosen by least squares with t-tests.

    Counts of marks become t = (marks - low reports) / (high - low), scaled from the reports of
    their cohort to all: (3) of RAPPOR for any p and q. The penalty is sigma sqrt(2 n ln M), for
    sigma the error of a t and n the cells of a candidate: pure noise passes it for none of M
    candidates, mostly. Where `other` is true a constant is fitted as well, for unknown strings.

    Erlingsson, Pihur and Korolova 2014, section 4; Tibshirani 1996.
    """
    target, sigma = _targets(counts)
    rows = np.repeat(np.asarray(counts.reports) > 0, counts.scheme.cells)
    matrix = design.matrix[rows].tocsc()
    cells = design.size * (np.asarray(counts.reports) > 0).sum()
    penalty = sigma * np.sqrt(2 * cells * np.log(max(len(design), 2)))
    weights = chosen_by_lasso(matrix, target[rows], float(penalty), level=other)
    first = design.twins == np.arange(len(design))
    chosen = _independent(matrix, (weights > 0) & first, other)
    return _least_squares(matrix, target[rows], chosen, other, sigma)


def _targets(counts: Any) -> tuple[np.ndarray, float]:
    scheme, reports = counts.scheme, np.asarray(counts.reports, np.float64)[:, None]
    low, gap = float(scheme.low), float(scheme.high) - float(scheme.low)
    scale = reports.sum() / np.maximum(reports, 1)
    marks = np.asarray(counts.cells, np.float64)
    chance = np.clip(marks / np.maximum(reports, 1), 0, 1)
    variance = (reports * chance * (1 - chance) * (scale / gap) ** 2)[reports[:, 0] > 0]
    return ((marks - low * reports) / gap * scale).reshape(-1), float(np.sqrt(variance.mean()))


def chosen_by_lasso(matrix: Any, target: np.ndarray, penalty: float, *, level: bool) -> np.ndarray:
    """The nonnegative weights of the lasso with this penalty on the sum of weights."""
    weights, residual = np.zeros(matrix.shape[1]), target.astype(np.float64)
    close = CLOSE * max(float(np.abs(target).max()), 1e-300)
    starts, rows = matrix.indptr, matrix.indices
    nonnegative_lasso(starts, rows, penalty, level, SWEEPS, close, residual, weights)
    return weights


def _independent(matrix: Any, chosen: np.ndarray, other: bool) -> np.ndarray:
    """Of those chosen a part whose cells tell them apart, with rows to spare for the error."""
    places = np.flatnonzero(chosen)
    if places.size:
        dense = _with_level(matrix[:, places].toarray(), other)
        triangle, order = scipy.linalg.qr(dense, mode="r", pivoting=True)
        size = np.abs(np.diag(triangle))
        kept = order[: int((size > 1e-9 * size[0]).sum())]
        places = places[kept[kept < places.size]][: max(matrix.shape[0] - 2, 0)]
    out = np.zeros(chosen.size, bool)
    out[places] = True
    return out


def _with_level(columns: np.ndarray, other: bool) -> np.ndarray:
    return np.column_stack([columns, np.ones(len(columns))]) if other else columns


def _least_squares(
    matrix: Any, target: np.ndarray, chosen: np.ndarray, other: bool, sigma: float
) -> Lasso:
    columns = _with_level(matrix[:, chosen].toarray(), other)
    inverse = np.linalg.pinv(columns.T @ columns)
    fit = inverse @ (columns.T @ target)
    freedom = max(target.size - fit.size, 1)
    spread = max(float(((target - columns @ fit) ** 2).sum()) / freedom, 1e-300)
    count = int(chosen.sum())
    own = np.sqrt(spread * np.maximum(inverse.diagonal()[:count], 0))
    estimate, p_value = np.zeros(chosen.size), np.ones(chosen.size)
    cells = np.maximum(np.diff(matrix.indptr), 1)
    error = np.sqrt(spread / cells)
    estimate[chosen], error[chosen] = fit[:count], own
    p_value[chosen] = stats.t.sf(fit[:count] / np.maximum(own, 1e-300), freedom)
    rest = float(np.sqrt(spread * inverse[:count, :count].sum())) if count else 0.0
    return Lasso(chosen, estimate, error, p_value, rest, spread / max(sigma**2, 1e-300))
