"""Decoding of counts or reports to a table of candidates with estimates, errors and tests."""

import json
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from sfumato.core.linear_algebra import blas_threads
from sfumato.core.tables import Table, described
from sfumato.core.typing import Ids
from sfumato.core.validation import flag, fraction, one_of
from sfumato.telemetry.decoding.design import Design
from sfumato.telemetry.decoding.fisher_information import cramer_rao
from sfumato.telemetry.decoding.methods import CandidateEstimates, Task, answered
from sfumato.telemetry.decoding.significance import CORRECTION, adjusted
from sfumato.telemetry.reports.counts import Counts
from sfumato.telemetry.reports.reports import Reports
from sfumato.telemetry.reports.validation import HashSet, counted_once

__all__ = ["DecodeResult", "decode", "decoding_task"]

COLUMNS = ("value", "estimate", "std_error", "low", "high", "p_value", "detected", "bound")


@dataclass(frozen=True)
class DecodeResult(Table):
    """Estimated number of clients that have each candidate, with standard errors and tests.

    Columns are attributes, and also items such as ``result["estimate"]``.

    Parameters
    ----------
    value : list
        Candidates.
    estimate : ndarray
        Estimated count of each candidate, from 0 to `reports`.
    std_error : ndarray
        Standard error of the estimate; NaN without reports.
    low : ndarray
        Lower end of an interval that covers the true count with probability 1 - level.
    high : ndarray
        Upper end of that interval.
    p_value : ndarray
        P-value of the candidate being absent, before the correction for many tests.
    detected : ndarray
        Whether the candidate is present, after that correction.
    bound : ndarray
        Cramer-Rao bound: the least standard error of an unbiased decoder of the same data; NaN
        without reports.
    other : float
        Estimated number of clients that have none of the candidates.
    other_std_error : float
        Standard error of `other`.
    rank : int
        Rank of the design matrix in the cohorts that have reports.
    identified : bool
        Whether the cells distinguish all candidates.
    dispersion : float
        Residual chi-squared over its degrees of freedom, about 1 where noise explains the
        residuals; NaN for the method "likelihood".
    reports : int
        Number of reports.
    level : float
        Level of the intervals and tests.
    method : str
        Method of decoding.
    correction : str
        Correction for many tests.
    notes : list of str, optional
        Sentences to read along with the table.

    Examples
    --------
    >>> from sfumato.telemetry import Counts, Rappor, decode
    >>> table = decode(Counts(Rappor(categories=["yes", "no"], f=0.5)))
    >>> table.value, table["estimate"], table.notes[0]
    (['yes', 'no'], array([0., 0.]), 'There are no reports: nothing is estimated.')
    """

    value: list[Any]
    estimate: np.ndarray
    std_error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_value: np.ndarray
    detected: np.ndarray
    bound: np.ndarray
    other: float
    other_std_error: float
    rank: int
    identified: bool
    dispersion: float
    reports: int
    level: float
    method: str
    correction: str
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, column: str) -> Any:
        if column not in COLUMNS:
            raise KeyError(f"DecodeResult: columns are {', '.join(COLUMNS)}, not {column!r}.")
        return getattr(self, column)

    def _columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in COLUMNS}

    def __repr__(self) -> str:
        found = {"rows": len(self), "detected": int(self.detected.sum())}
        return described(self, **found, reports=self.reports, method=self.method, level=self.level)

    def to_json(self) -> str:
        """Write everything as JSON.

        Returns
        -------
        str
            Object with the scalars, the notes and "rows" by falling estimate; what is not finite is
            null.
        """
        order = np.argsort(-self.estimate, kind="stable")
        columns = [[_plain(self[name][row]) for row in order] for name in COLUMNS]
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]
        names = ("reports", "other", "other_std_error", "rank", "identified", "dispersion")
        fields = {name: _plain(getattr(self, name)) for name in names}
        how = {"method": self.method, "level": self.level, "correction": self.correction}
        return json.dumps({**how, **fields, "notes": self.notes, "rows": rows}, ensure_ascii=False)

    def __str__(self) -> str:
        """Return the twenty largest estimates, the other clients, and the notes."""
        order = np.argsort(-self.estimate, kind="stable")[:20]
        wide = max([len(str(self.value[row])) for row in order] + [len("(other)")])
        head = f"{'estimate':>12} {'std_error':>10} {'bound':>10} {'p_value':>9}"
        lines = [f"{'value':{wide}}  {head}"]
        for row in order:
            numbers = f"{self.estimate[row]:12,.0f} {self.std_error[row]:10,.0f} "
            numbers += f"{self.bound[row]:10,.0f}"
            mark = "*" if self.detected[row] else ""
            text = str(self.value[row])
            lines.append(f"{text:{wide}}  {numbers} {self.p_value[row]:9.2g}{mark}")
        other = f"{self.other:12,.0f} {self.other_std_error:10,.0f}"
        lines.append(f"{'(other)':{wide}}  {other}")
        return "\n".join(lines + self.notes)


def _plain(value: Any) -> Any:
    """Return a number that JSON can hold, None for one that is not finite."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value


METHOD = one_of(("weighted", "lasso", "likelihood"))
BOUND = 1024  # candidates whose bounds are computed together
HASHED = 4  # cohorts from which random cells distinguish strings


def decode(
    data: Any,
    candidates: Ids | None = None,
    *,
    method: str = "weighted",
    level: float = 0.05,
    correction: str = "benjamini-hochberg",
    other: bool = True,
) -> DecodeResult:
    """Estimate how many of the clients that reported have each candidate.

    Parameters
    ----------
    data : object
        `Counts`, or `Reports`, which the method "likelihood" needs. Of reports, those that
        `Counts` would refuse are left out, and a repeated id counts once.
    candidates : array_like, scalar or None, default=None
        Distinct texts or integers, a `CandidateMap`, or None for all values of a scheme with a
        known domain.
    method : {"weighted", "lasso", "likelihood"}, default="weighted"
        "weighted" is least squares with the covariance of the marks. "lasso" is the method of the
        RAPPOR paper: selection by a lasso, then ordinary least squares. "likelihood" is maximum
        likelihood over complete reports: slower, with the smallest errors.
    level : float, default=0.05
        Level of intervals and tests, between 0 and 1.
    correction : {"benjamini-hochberg", "bonferroni", "none"}, default="benjamini-hochberg"
        Correction for many tests.
    other : bool, default=True
        Whether clients may have values that are no candidates.

    Returns
    -------
    DecodeResult
        One row per candidate, in the order given.

    Raises
    ------
    ValueError
        If candidates are missing, repeated, or too many for the method.

    Notes
    -----
    **Guarantee.** With the method "weighted" or "likelihood" and hundreds of reports per cell, an
    interval covers the true count with probability 1 - level (for the fixed clients that reported;
    over their noise, their cohorts, and the cells of unknown strings), and the expected fraction of
    absent candidates among those detected is at most the level ("benjamini-hochberg"). Both are
    checked by simulation, not proved. Intervals of "likelihood" cover less where frequent values
    are no candidates: 93.6 to 94.1 instead of 95 % on the words of docs/rappor.md.

    Estimates lie between 0 and the number of reports. Intervals are those of unconstrained
    estimates, clipped at 0, so that they are valid for small counts too; they are widened to
    contain the estimate. From 10 candidates on, estimates that are not clearly above 0 are shrunk
    by a prior that is learned from all of them (empirical Bayes): within the noise a count becomes
    what such counts are on average. The method "lasso" leaves them at 0. Where candidates are many
    for the number of cells, all are estimated jointly in this way, and detected ones by their
    unbiased estimate.

    References
    ----------
    .. [1] Erlingsson, Pihur, Korolova. "RAPPOR: Randomized Aggregatable Privacy-Preserving Ordinal
       Response". CCS 2014, section 4 (design matrix, lasso). https://arxiv.org/abs/1407.6981

    Examples
    --------
    >>> from sfumato.telemetry import Counts, Rappor, ReportEncoder
    >>> scheme = Rappor(bits=32, hashes=2, cohorts=8, f=0.25)
    >>> words = ["tea"] * 6000 + ["milk"] * 3000 + ["gin"] * 999
    >>> sent = ReportEncoder(scheme, seed=7).encode_many(words)
    >>> table = decode(Counts(scheme).update(sent), ["tea", "milk", "rum"])
    >>> table["detected"].tolist()
    [True, True, False]
    """
    METHOD.check("decode", "method", method)
    fraction.check("decode", "level", level)
    CORRECTION.check("decode", "correction", correction)
    flag.check("decode", "other", other)
    if not isinstance(data, Reports) and method == "likelihood":
        raise ValueError('decode: method "likelihood" needs Reports, not counts of their marks.')
    if not hasattr(data, "scheme"):
        raise TypeError(f"decode: data must be Counts or Reports, not {type(data).__name__}.")
    if not isinstance(data, Reports):
        task = decoding_task(data, candidates, other)
    else:
        data, note = _once(data)
        task = decoding_task(Counts(data.scheme, keep_ids=False).update(data), candidates, other)
        task.notes.extend(note)
    with blas_threads(len(task.design)):
        return _table(task, answered(task, data, method), method, level, correction)


def _once(sent: Reports) -> tuple[Reports, list[str]]:
    """Return the reports that `Counts` would count, each once, and a note of those left out."""
    keep, refused, _ = counted_once(sent.scheme, sent, HashSet())
    if keep.all():
        return sent, []
    reasons = ", ".join(f"{count} for {why}" for why, count in refused.items())
    return sent.take(keep), [f"{sum(refused.values())} reports were left out: {reasons}."]


def decoding_task(counts: Any, candidates: Any, other: bool) -> Task:
    """Return the decoding task of counts and candidates."""
    scheme, notes = counts.scheme, []
    domain = None if hasattr(candidates, "members") else getattr(scheme, "domain", None)
    if candidates is None and domain is None:
        raise ValueError("decode: candidates must be given: the scheme takes any string.")
    design = Design(scheme, domain if candidates is None else candidates)
    requested, values = np.arange(len(design)), design.values
    twins = int((design.twins != requested).sum())
    if domain is not None:  # others of the domain have cells of their own, never these
        full = Design(scheme, domain)
        positions = {
            row.tobytes(): position for position, row in enumerate(np.sort(full.members, axis=2))
        }
        requested = np.array([positions[row.tobytes()] for row in np.sort(design.members, axis=2)])
        design, closed = full, True
    else:
        closed = not other
    if twins:
        notes.append(
            f"{twins} candidates have the same cells as another in all cohorts: each row of such "
            "candidates states the count of all of them together."
        )
    hashed = domain is None and scheme.cohorts >= HASHED
    return Task(counts, design, requested, values, closed, hashed, notes)


def _table(
    task: Task, answer: CandidateEstimates, method: str, level: float, correction: str
) -> DecodeResult:
    """Return the table of a task from the estimates of a method."""
    requested, wanted = task.requested, len(task.design) + (not task.closed)
    identified = (task.rank if task.closed else task.rank_with_other) == wanted
    if task.total and not identified:
        task.notes.append(
            f"The cells do not distinguish all candidates: {len(task.design)} candidates"
            f"{'' if task.closed else ' and other strings'}, rank {task.rank}."
        )
    p_value = answer.p_value[requested]
    detected = adjusted(p_value, correction) <= level
    unconstrained, error = answer.unconstrained[requested], answer.error[requested]
    estimate = answer.estimate[requested]
    if answer.trusted:
        estimate = np.where(detected, unconstrained, estimate)
    estimate = np.clip(estimate, 0, task.total)
    half_width = -NormalDist().inv_cdf(max(level / 2, 5e-324)) * error
    low = np.maximum(unconstrained - half_width, 0)
    high = np.clip(unconstrained + half_width, 0, task.total)
    shown = error if answer.errors_shown is None else answer.errors_shown[requested]
    omitted = np.ones(len(task.design), bool)
    omitted[requested] = False
    return DecodeResult(
        value=task.values,
        estimate=estimate,
        std_error=shown,
        low=np.minimum(low, estimate),
        high=np.maximum(high, estimate),
        p_value=p_value,
        detected=detected,
        bound=_bounds(task, answer, identified, method)[requested],
        other=answer.other + float(answer.estimate[omitted].sum()),
        other_std_error=float(np.hypot(answer.other_error, np.linalg.norm(answer.error[omitted]))),
        rank=task.rank,
        identified=identified,
        dispersion=answer.dispersion,
        reports=task.total,
        level=level,
        method=method,
        correction=correction,
        notes=task.notes,
    )


def _bounds(task: Task, answer: CandidateEstimates, identified: bool, method: str) -> np.ndarray:
    """Return the Cramer-Rao bounds at the estimated counts; of each alone if there are too many."""
    if not task.total:
        return np.full(len(task.design), np.nan)
    alone = not identified or len(task.design) > BOUND
    if alone:
        task.notes.append("Bounds are those of a candidate whose others are all known.")
    return cramer_rao(
        task.counts.scheme,
        task.design.members,
        np.minimum(answer.estimate, task.total),
        None if task.closed else answer.other,
        full_reports=method == "likelihood",
        alone=alone,
    )
