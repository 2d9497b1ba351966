"""The answer of each method to a task of decoding: counts of all candidates, with their errors.

The older way to decode: a lasso chooses candidates, plain least squares estimates them.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy import stats

from sfumato.kernels.telemetry.decoding import nonnegative_lasso
from sfumato.telemetry.decoding.design import CellShares, Design
from sfumato.telemetry.decoding.empirical_bayes import crowded
from sfumato.telemetry.decoding.likelihood import maximize
from sfumato.telemetry.decoding.significance import crowd_p, fit_p
from sfumato.telemetry.decoding.weighted_least_squares import LinearModel

__all__ = ["CandidateEstimates", "Lasso", "Task", "answered", "chosen_by_lasso", "lasso"]

DIRECT = 1024  # candidates of a fit with the whole covariance, where there is another way
DOMAIN = 8192  # the same where there is none: the square of it in memory
ROOM = 3  # cells for each candidate, at least, of such a fit; with fewer its errors grow fast


@dataclass(frozen=True)
class Task:
    """What is to be decoded: `design` holds all that is fitted, `asked` which rows are shown."""

    counts: Any
    design: Design
    asked: np.ndarray
    values: list[Any]
    closed: bool
    hashed: bool
    notes: list[str]

    @property
    def total(self) -> int:
        return int(np.sum(self.counts.reports))

    @cached_property
    def rank(self) -> int:
        """Of the design, in the cohorts that have reports."""
        return self.design.rank(rows=self._seen)

    @cached_property
    def rank_with_other(self) -> int:
        """The same with a column for other strings."""
        return self.design.rank(True, self._seen)

    @property
    def _seen(self) -> np.ndarray | None:
        seen = np.asarray(self.counts.reports) > 0
        return None if seen.all() else np.repeat(seen, self.counts.scheme.cells)

    @cached_property
    def different(self) -> tuple[np.ndarray, np.ndarray]:
        """The candidates that differ in some cell, and for all of them the place among these."""
        first, where = np.unique(self.design.twins, return_inverse=True)
        return first, where.reshape(-1)


@dataclass(frozen=True)
class CandidateEstimates:
    """Counts of candidates; `free` and `error` make the intervals.

    A method answers for candidates that differ in some cell; `answered`, for all of the design.
    """

    estimate: np.ndarray
    free: np.ndarray
    error: np.ndarray
    p_value: np.ndarray
    other: float
    other_error: float
    dispersion: float
    trusted: bool = False  # whether what is detected is shown by `free`
    errors_shown: np.ndarray | None = None  # of the estimates, where those of `free` are larger


def answered(task: Task, data: Any, method: str) -> CandidateEstimates:
    """What the method finds; zeros without errors and a note where there are no reports."""
    if not task.total:
        return _nothing(task)
    methods = {"weighted": _weighted, "lasso": _selected, "likelihood": _likely}
    answer, (_, where) = methods[method](task, data), task.different
    columns = ("estimate", "free", "error", "p_value", "errors_shown")
    told = {name: getattr(answer, name) for name in columns}
    return replace(
        answer, **{name: told[name][where] for name in columns if told[name] is not None}
    )


def _nothing(task: Task) -> CandidateEstimates:
    task.notes.append("There are no reports: nothing is estimated.")
    zeros = np.zeros(len(task.design))
    unknown = np.full(zeros.size, np.nan)
    return CandidateEstimates(
        zeros, zeros, zeros, np.ones(zeros.size), 0.0, np.nan, np.nan, errors_shown=unknown
    )


def _weighted(task: Task, _: Any) -> CandidateEstimates:
    first, _ = task.different
    cells, matrix = CellShares.counted(task.counts, task.design), task.design.matrix[:, first]
    closed = _closed(task, first.size)
    if _direct(task, first.size, closed):
        return _fitted(task, LinearModel(cells, matrix, closed=closed))
    return _crowd(task, LinearModel(cells, matrix, closed=False))


def _closed(task: Task, count: int) -> bool:
    """Whether candidates are taken for all there is: asked for, or nothing else can be told."""
    if task.closed or task.hashed:
        return task.closed
    spanned = task.rank_with_other == task.rank == count
    if spanned:
        task.notes.append("Other strings cannot be told from the candidates: taken as none.")
    return spanned


def _direct(task: Task, count: int, closed: bool) -> bool:
    """Whether one fit with the whole covariance is possible and best."""
    random = task.hashed and not closed
    if not random and count > DOMAIN:
        raise ValueError(
            f"decode: {count} values of a known domain or of fewer than 4 cohorts are more than "
            f"the {DOMAIN} that are decoded together; hash them to cells of many cohorts."
        )
    if random and (count > DIRECT or ROOM * count > task.design.most):
        return False
    return count + (not closed) <= (task.rank if closed else task.rank_with_other)


def _fitted(task: Task, model: LinearModel) -> CandidateEstimates:
    fit, total = model.fit(), task.total
    drawn = fit.shares * (1 - fit.shares) / total  # clients are fixed, and not drawn
    part = 1.0 if model.cells.dense else 1 / max(model.cells.size, 1.0)
    variance = np.maximum(fit.covariance.diagonal() - part * drawn, 0)
    error = total * np.sqrt(variance)
    rest = 0.0 if model.closed else max(1 - fit.shares.sum(), 0.0)
    doubt = max(fit.covariance.sum() - rest * (1 - rest) / total, 0.0)
    p_value = fit_p(model, fit, hashed=task.hashed)
    dispersion, freedom = model.dispersion(fit)
    if freedom > 0 and dispersion > 1 + 4 * np.sqrt(2 / freedom):
        task.notes.append(
            f"Cells vary more than noise explains (dispersion {dispersion:.2f}): "
            + (
                "is the dictionary complete?"
                if model.closed
                else "errors count unknown strings in."
            )
        )
    free, shown = total * fit.free, total * fit.shares
    return CandidateEstimates(
        shown, free, error, p_value, total * rest, total * float(np.sqrt(doubt)), dispersion
    )


def _crowd(task: Task, model: LinearModel) -> CandidateEstimates:
    crowd, total = crowded(model.cells, model.matrix), task.total
    shares = np.clip(crowd.free, 0, 1)
    drawn = shares * (1 - shares) / total / max(model.cells.size, 1.0)
    error = total * np.sqrt(np.maximum(crowd.variance - drawn, 0))
    task.notes.append(
        "Candidates are many for the cells: all were estimated at once, and those not detected "
        "are shrunk by what all of them show."
    )
    if not crowd.settled:
        task.notes.append("The estimates did not settle: use more cohorts or fewer candidates.")
    rest = max(1 - crowd.shares.sum(), 0.0)
    return CandidateEstimates(
        total * crowd.shares,
        total * crowd.free,
        error,
        crowd_p(model, crowd),
        total * rest,
        total * float(np.sqrt(crowd.variance.sum())),  # shrunk errors are not independent
        crowd.dispersion,
        trusted=True,
    )


def _selected(task: Task, _: Any) -> CandidateEstimates:
    found = lasso(task.counts, task.design, other=not task.closed)
    p_value = np.where(found.chosen, found.p_value, 1.0)
    rest = 0.0 if task.closed else max(task.total - found.estimate.sum(), 0.0)
    task.notes.append(
        f"Lasso chose {int(found.chosen.sum())} of {len(task.design)} candidates; errors and "
        "p-values are as if these had been known before."
    )
    first, _ = task.different
    free, error = found.estimate[first], found.error[first]
    return CandidateEstimates(
        np.clip(free, 0, task.total),
        free,
        error,
        p_value[first],
        rest,
        found.other_error,
        found.dispersion,
    )


def _likely(task: Task, reports: Any) -> CandidateEstimates:
    first, _ = task.different
    found = maximize(reports, task.design.part(first), other=not task.closed)
    total = task.total
    return CandidateEstimates(
        total * found.shares,
        found.free,
        found.free_std_errors,
        found.p_values,
        float(np.clip(found.free_other, 0, total)),
        found.free_other_std_error,
        float("nan"),
        errors_shown=found.std_errors,
    )


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
    """The nonnegative weights of the lasso with this penalty on the sum of weights.

    By a kernel of our own: scikit-learn's takes 2 to 9 times as long, and only 32-bit indices.
    """
    weights, residual = np.zeros(matrix.shape[1]), target.astype(np.float64)
    close = CLOSE * max(float(np.abs(target).max()), 1e-300)
    starts, rows = matrix.indptr, matrix.indices
    nonnegative_lasso(starts, rows, penalty, level, SWEEPS, close, residual, weights)
    return weights


def _independent(matrix: Any, chosen: np.ndarray, other: bool) -> np.ndarray:
    """Of those chosen a part whose cells tell them apart, with rows to spare for the error."""
    positions = np.flatnonzero(chosen)
    if positions.size:
        dense = _with_level(matrix[:, positions].toarray(), other)
        triangle, order = scipy.linalg.qr(dense, mode="r", pivoting=True)
        size = np.abs(np.diag(triangle))
        kept = order[: int((size > 1e-9 * size[0]).sum())]
        positions = positions[kept[kept < positions.size]][: max(matrix.shape[0] - 2, 0)]
    out = np.zeros(chosen.size, bool)
    out[positions] = True
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
