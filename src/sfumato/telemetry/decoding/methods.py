"""The methods of decoding: weighted least squares, lasso selection and maximum likelihood."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from sfumato.kernels.telemetry import decoding
from sfumato.telemetry.decoding.cell_sums import CellSums
from sfumato.telemetry.decoding.design import CellFractions, Design
from sfumato.telemetry.decoding.empirical_bayes import message_passing, shrunk_toward_others
from sfumato.telemetry.decoding.likelihood import maximize
from sfumato.telemetry.decoding.significance import fit_p, shrunk_p
from sfumato.telemetry.decoding.weighted_least_squares import LinearModel

__all__ = ["CandidateEstimates", "Lasso", "Task", "answered", "chosen_by_lasso", "lasso"]

DIRECT = 1024  # candidates of a fit with the full covariance, where there is another way
DOMAIN = 8192  # the same where there is none: the square of it in memory
ROOM = 3  # cells per candidate, at least, of such a fit; with fewer its errors grow fast


@dataclass(frozen=True)
class Task:
    """What is to be decoded: `design` has all that is fitted, `requested` the rows to show."""

    counts: Any
    design: Design
    requested: np.ndarray
    values: list[Any]
    closed: bool
    hashed: bool
    notes: list[str]

    @property
    def total(self) -> int:
        """Number of reports."""
        return int(np.sum(self.counts.reports))

    @cached_property
    def rank(self) -> int:
        """Rank of the design in the cohorts that have reports."""
        return self.design.rank(rows=self._used_rows)

    @cached_property
    def rank_with_other(self) -> int:
        """Rank of the design with a column for other strings."""
        return self.design.rank(True, self._used_rows)

    @property
    def _used_rows(self) -> np.ndarray | None:
        """Mask of the rows of cohorts that have reports, None if all have."""
        used = np.asarray(self.counts.reports) > 0
        return None if used.all() else np.repeat(used, self.counts.scheme.cells)

    @cached_property
    def different(self) -> tuple[np.ndarray, np.ndarray]:
        """Candidates that differ in some cell, and the position of every candidate among these."""
        first, where = np.unique(self.design.twins, return_inverse=True)
        return first, where.reshape(-1)


@dataclass(frozen=True)
class CandidateEstimates:
    """Estimated counts of candidates; `unconstrained` and `error` make the intervals.

    A method estimates candidates that differ in some cell; `answered` all of the design.
    """

    estimate: np.ndarray
    unconstrained: np.ndarray
    error: np.ndarray
    p_value: np.ndarray
    other: float
    other_error: float
    dispersion: float
    trusted: bool = False  # whether detected candidates are shown by `unconstrained`
    errors_shown: np.ndarray | None = None  # of the estimates, if smaller than those of the former


def answered(task: Task, data: Any, method: str) -> CandidateEstimates:
    """Return the estimates of a method; zeros and a note if there are no reports."""
    if not task.total:
        return _nothing(task)
    methods = {"weighted": _weighted, "lasso": _selected, "likelihood": _likely}
    answer, (_, where) = methods[method](task, data), task.different
    columns = ("estimate", "unconstrained", "error", "p_value", "errors_shown")
    found = {name: getattr(answer, name) for name in columns}
    return replace(
        answer, **{name: found[name][where] for name in columns if found[name] is not None}
    )


def _nothing(task: Task) -> CandidateEstimates:
    """Return the estimates without any report."""
    task.notes.append("There are no reports: nothing is estimated.")
    zeros = np.zeros(len(task.design))
    unknown = np.full(zeros.size, np.nan)
    return CandidateEstimates(
        zeros, zeros, zeros, np.ones(zeros.size), 0.0, np.nan, np.nan, errors_shown=unknown
    )


def _weighted(task: Task, _: Any) -> CandidateEstimates:
    """Estimate by weighted least squares, or by message passing if candidates are too many."""
    first, _ = task.different
    cells, closed = CellFractions.counted(task.counts, task.design), _closed(task, first.size)
    if _direct(task, first.size, closed):
        return _fitted(task, LinearModel(cells, task.design.matrix[:, first], closed=closed))
    return _by_message_passing(task, cells, task.design.part(first).sums)


def _closed(task: Task, count: int) -> bool:
    """Return whether other strings are assumed absent: as requested, or if unidentifiable."""
    if task.closed or task.hashed:
        return task.closed
    spanned = task.rank_with_other == task.rank == count
    if spanned:
        task.notes.append("Other strings are not identifiable beside the candidates: assumed none.")
    return spanned


def _direct(task: Task, count: int, closed: bool) -> bool:
    """Return whether one least-squares fit with the full covariance is possible and best."""
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
    """Estimate by one weighted least-squares fit."""
    fit, total = model.fit(), task.total
    drawn = fit.fractions * (1 - fit.fractions) / total  # clients are fixed, not sampled
    part = 1.0 if model.cells.dense else 1 / max(model.cells.size, 1.0)
    variance = np.maximum(fit.covariance.diagonal() - part * drawn, 0)
    error = total * np.sqrt(variance)
    remainder = 0.0 if model.closed else max(1 - fit.fractions.sum(), 0.0)
    other_variance = max(fit.covariance.sum() - remainder * (1 - remainder) / total, 0.0)
    p_value = fit_p(model, fit, hashed=task.hashed)
    dispersion, freedom = model.dispersion(fit)
    if freedom > 0 and dispersion > 1 + 4 * np.sqrt(2 / freedom):
        task.notes.append(
            f"Cells vary more than noise explains (dispersion {dispersion:.2f}): "
            + ("is the dictionary complete?" if model.closed else "errors include unknown strings.")
        )
    shown = shrunk_toward_others(fit.unconstrained, variance, fit.fractions, closed=model.closed)
    return CandidateEstimates(
        total * shown,
        total * fit.unconstrained,
        error,
        p_value,
        total * remainder,
        total * float(np.sqrt(other_variance)),
        dispersion,
    )


def _by_message_passing(task: Task, cells: CellFractions, sums: CellSums) -> CandidateEstimates:
    """Estimate all candidates jointly by empirical Bayes."""
    shrunk, total = message_passing(cells, sums), task.total
    fractions = np.clip(shrunk.unbiased, 0, 1)
    drawn = fractions * (1 - fractions) / total / max(cells.size, 1.0)
    error = total * np.sqrt(np.maximum(shrunk.variance - drawn, 0))
    task.notes.append(
        "Candidates are many for the cells: all were estimated jointly, and those not detected "
        "are shrunk by a prior learned from all of them, the less the surer they are present."
    )
    if not shrunk.converged:
        task.notes.append("The estimates did not converge: use more cohorts or fewer candidates.")
    remainder = max(1 - shrunk.fractions.sum(), 0.0)
    # A large count must not fall to a fraction of itself because its test failed by a little.
    lifted = shrunk.presence * (shrunk.unbiased - shrunk.fractions)
    return CandidateEstimates(
        total * np.maximum(shrunk.fractions + lifted, 0),
        total * shrunk.unbiased,
        error,
        shrunk_p(cells, sums, shrunk),
        total * remainder,
        total * float(np.sqrt(shrunk.variance.sum())),  # shrunk errors are not independent
        shrunk.dispersion,
        trusted=True,
    )


def _selected(task: Task, _: Any) -> CandidateEstimates:
    """Estimate by lasso selection and least squares."""
    found = lasso(task.counts, task.design, other=not task.closed)
    p_value = np.where(found.chosen, found.p_value, 1.0)
    remainder = 0.0 if task.closed else max(task.total - found.estimate.sum(), 0.0)
    task.notes.append(
        f"Lasso chose {int(found.chosen.sum())} of {len(task.design)} candidates; errors and "
        "p-values are as if these were known before."
    )
    first, _ = task.different
    unconstrained, error = found.estimate[first], found.error[first]
    return CandidateEstimates(
        np.clip(unconstrained, 0, task.total),
        unconstrained,
        error,
        p_value[first],
        remainder,
        found.other_error,
        found.dispersion,
    )


def _likely(task: Task, reports: Any) -> CandidateEstimates:
    """Estimate by maximum likelihood over complete reports."""
    first, _ = task.different
    found = maximize(reports, task.design.part(first), other=not task.closed)
    total = task.total
    shown = shrunk_toward_others(
        found.unconstrained / total,
        (found.unconstrained_std_errors / total) ** 2,
        found.fractions,
        closed=task.closed,
    )
    return CandidateEstimates(
        total * shown,
        found.unconstrained,
        found.unconstrained_std_errors,
        found.p_values,
        float(np.clip(found.unconstrained_other, 0, total)),
        found.unconstrained_other_std_error,
        float("nan"),
        errors_shown=found.std_errors,
    )


SWEEPS, CLOSE = 2000, 1e-7  # at most; and the tolerance, relative to the largest target


@dataclass(frozen=True)
class Lasso:
    """Counts of all candidates: 0 with an approximate error where one was not selected."""

    chosen: np.ndarray
    estimate: np.ndarray
    error: np.ndarray
    p_value: np.ndarray
    other_error: float
    dispersion: float


def lasso(counts: Any, design: Design, *, other: bool) -> Lasso:
    """Select candidates by a nonnegative lasso, then fit them by least squares with t-tests.

    Counts of marks become t = (marks - low reports) / (high - low), scaled from the reports of
    their cohort to all: equation (3) of the RAPPOR notes (unbiased count of a bit) for any p and q.
    The penalty is sigma sqrt(2 n ln M), for sigma the error of a t and n the cells of a candidate:
    pure noise rarely passes it for any of M candidates. If `other`, an intercept is fitted as well,
    for unknown strings.

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
    """Return the unbiased counts of all cells, scaled to all reports, and their error."""
    scheme, reports = counts.scheme, np.asarray(counts.reports, np.float64)[:, None]
    low, gap = float(scheme.low), float(scheme.high) - float(scheme.low)
    scale = reports.sum() / np.maximum(reports, 1)
    marks = np.asarray(counts.cells, np.float64)
    probability = np.clip(marks / np.maximum(reports, 1), 0, 1)
    variance = (reports * probability * (1 - probability) * (scale / gap) ** 2)[reports[:, 0] > 0]
    return ((marks - low * reports) / gap * scale).reshape(-1), float(np.sqrt(variance.mean()))


def chosen_by_lasso(matrix: Any, target: np.ndarray, penalty: float, *, level: bool) -> np.ndarray:
    """Return the nonnegative lasso weights with this penalty on their sum.

    By a kernel of our own: scikit-learn's takes 2 to 9 times as long, and only 32-bit indices.
    """
    weights, residual = np.zeros(matrix.shape[1]), target.astype(np.float64)
    close = CLOSE * max(float(np.abs(target).max()), 1e-300)
    starts, rows = matrix.indptr, matrix.indices
    decoding.nonnegative_lasso(starts, rows, penalty, level, SWEEPS, close, residual, weights)
    return weights


def _independent(matrix: Any, chosen: np.ndarray, other: bool) -> np.ndarray:
    """Return a linearly independent part of the selected columns that leaves rows for the error."""
    positions = np.flatnonzero(chosen)
    if positions.size:
        dense = _with_level(matrix[:, positions].toarray(), other)
        triangle, order = scipy.linalg.qr(dense, mode="r", pivoting=True)
        size = np.abs(np.diag(triangle))
        pivots = order[: int((size > 1e-9 * size[0]).sum())]
        positions = positions[pivots[pivots < positions.size]][: max(matrix.shape[0] - 2, 0)]
    out = np.zeros(chosen.size, bool)
    out[positions] = True
    return out


def _with_level(columns: np.ndarray, other: bool) -> np.ndarray:
    """Append a constant column if `other`."""
    return np.column_stack([columns, np.ones(len(columns))]) if other else columns


def _least_squares(
    matrix: Any, target: np.ndarray, chosen: np.ndarray, other: bool, sigma: float
) -> Lasso:
    """Fit the selected columns by ordinary least squares."""
    columns = _with_level(matrix[:, chosen].toarray(), other)
    inverse = np.linalg.pinv(columns.T @ columns)
    fit = inverse @ (columns.T @ target)
    freedom = max(target.size - fit.size, 1)
    variance = max(float(((target - columns @ fit) ** 2).sum()) / freedom, 1e-300)
    count = int(chosen.sum())
    own = np.sqrt(variance * np.maximum(inverse.diagonal()[:count], 0))
    estimate, p_value = np.zeros(chosen.size), np.ones(chosen.size)
    cells = np.maximum(np.diff(matrix.indptr), 1)
    error = np.sqrt(variance / cells)
    estimate[chosen], error[chosen] = fit[:count], own
    p_value[chosen] = scipy.special.stdtr(freedom, -fit[:count] / np.maximum(own, 1e-300))
    other_error = float(np.sqrt(variance * inverse[:count, :count].sum())) if count else 0.0
    return Lasso(chosen, estimate, error, p_value, other_error, variance / max(sigma**2, 1e-300))
