"""From counts of noised reports to a table of candidates, with errors that hold.

The table that decoding gives: counts with their errors, and what there is to say about them.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

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

__all__ = ["DecodeResult", "decode"]

COLUMNS = ("value", "estimate", "std_error", "low", "high", "p_value", "detected", "bound")


@dataclass(frozen=True)
class DecodeResult(Table):
    """How many of the clients that reported have each candidate, with errors.

    Columns, by attribute or by name as `result["estimate"]`: value; estimate, never negative;
    std_error; low and high, of an interval that covers the true count with chance 1 - level;
    p_value, that the candidate is absent; detected, after the correction for many tests; bound, the
    least standard error that a decoder of the same counts without bias can have. Without reports
    std_error and bound are NaN. `other` and `other_std_error` count the clients that have none of
    the candidates; `rank` is that of the design; `identified`, whether the cells can tell all
    candidates apart; `dispersion`, the residual chi-squared over its degrees of freedom, about 1
    where noise explains the residuals; `notes`, sentences to read; `reports`, how many there were.

    Parameters
    ----------
    value : list
        TODO.
    estimate : ndarray
        TODO.
    std_error : ndarray
        TODO.
    low : ndarray
        TODO.
    high : ndarray
        TODO.
    p_value : ndarray
        TODO.
    detected : ndarray
        TODO.
    bound : ndarray
        TODO.
    other : float
        TODO.
    other_std_error : float
        TODO.
    rank : int
        TODO.
    identified : bool
        TODO.
    dispersion : float
        TODO.
    reports : int
        TODO.
    level : float
        TODO.
    method : str
        TODO.
    correction : str
        TODO.
    notes : list, optional
        TODO.
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
        """Everything as JSON, rows by falling estimate; what is not finite is null.

        Returns
        -------
        str
            TODO.
        """
        order = np.argsort(-self.estimate, kind="stable")
        columns = [[_plain(self[name][row]) for row in order] for name in COLUMNS]
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]
        names = ("reports", "other", "other_std_error", "rank", "identified", "dispersion")
        told = {name: _plain(getattr(self, name)) for name in names}
        how = {"method": self.method, "level": self.level, "correction": self.correction}
        return json.dumps({**how, **told, "notes": self.notes, "rows": rows}, ensure_ascii=False)

    def __str__(self) -> str:
        """The twenty largest, the rest of the clients, and the notes."""
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
    """A number that JSON can hold."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value


METHOD = one_of(("weighted", "lasso", "likelihood"))
BOUND = 1024  # candidates whose bounds are computed together
HASHED = 4  # cohorts from which random cells tell strings apart


def decode(
    data: Any,
    candidates: Ids | None = None,
    *,
    method: str = "weighted",
    level: float = 0.05,
    correction: str = "benjamini-hochberg",
    other: bool = True,
) -> DecodeResult:
    """How many of the clients that reported have each candidate.

    Estimates are never negative nor above the reports. Intervals are those of estimates that may
    be, cut off at 0, so they hold for small counts too; they are widened to hold the estimate where
    it is outside. Where candidates are many for the cells, all are estimated at once
    (`empirical_bayes`): what is detected by its estimate without bias, the rest shrunk by what all
    of them show.

    Parameters
    ----------
    data : object
        `Counts`, or `Reports` (the method "likelihood" needs these), of which those that `Counts`
        would refuse are left out, and a repeated id counts once.
    candidates : array_like, scalar or None, default=None
        A column of different texts or integers, a published `CandidateMap`, or None for all values
        of a scheme that knows its domain.
    method : str, default="weighted"
        "weighted" (least squares with the covariance of the marks), "lasso" (the older way:
        selection, then plain least squares) or "likelihood" (of whole reports: slower, the least
        errors).
    level : float, default=0.05
        Between 0 and 1.
    correction : str, default="benjamini-hochberg"
        "benjamini-hochberg", "bonferroni" or "none".
    other : bool, default=True
        Whether clients may have values that are no candidates.

    Returns
    -------
    DecodeResult
        How many of the clients that reported have each candidate.

    Notes
    -----
    **Guarantee.** With the method "weighted" or "likelihood" and hundreds of reports a cell, an
    interval covers the true count with chance 1 - level (the fixed clients that reported; over
    their noise, their cohorts, and which cells unknown strings have), and the expected part of
    absent candidates among those detected is at most level ("benjamini-hochberg"); tested by
    simulation. Intervals of "likelihood" cover less where frequent values are no candidates: 93.6
    to 94.1 instead of 95 % on the words of docs/rappor.md.

    References
    ----------
    .. [1] Erlingsson, Pihur and Korolova 2014, section 4, for the design.

    Examples
    --------
    >>> from sfumato.telemetry import Counts, Rappor, ReportEncoder
    >>> asked = Rappor(bits=32, hashes=2, cohorts=8, f=0.25)
    >>> words = ["tea"] * 6000 + ["milk"] * 3000 + ["gin"] * 999
    >>> sent = ReportEncoder(asked, seed=7).encode_many(words)
    >>> table = decode(Counts(asked).update(sent), ["tea", "milk", "rum"])
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
        task = _task(data, candidates, other)
    else:
        data, note = _once(data)
        task = _task(Counts(data.scheme, keep_ids=False).update(data), candidates, other)
        task.notes.extend(note)
    return _table(task, answered(task, data, method), method, level, correction)


def _once(sent: Reports) -> tuple[Reports, list[str]]:
    """The reports that `Counts` would count, each once, and a note of what is left out."""
    keep, refused, _ = counted_once(sent.scheme, sent, HashSet())
    if keep.all():
        return sent, []
    told = ", ".join(f"{count} for {why}" for why, count in refused.items())
    return sent.take(keep), [f"{sum(refused.values())} reports were left out: {told}."]


def _task(counts: Any, candidates: Any, other: bool) -> Task:
    scheme, notes = counts.scheme, []
    domain = None if hasattr(candidates, "members") else getattr(scheme, "domain", None)
    if candidates is None and domain is None:
        raise ValueError("decode: candidates must be given: the scheme takes any string.")
    design = Design(scheme, domain if candidates is None else candidates)
    asked, values = np.arange(len(design)), design.values
    twins = int((design.twins != asked).sum())
    if domain is not None:  # others of the domain have cells of their own, never these
        full = Design(scheme, domain)
        positions = {
            row.tobytes(): place for place, row in enumerate(np.sort(full.members, axis=2))
        }
        asked = np.array([positions[row.tobytes()] for row in np.sort(design.members, axis=2)])
        design, closed = full, True
    else:
        closed = not other
    if twins:
        notes.append(
            f"{twins} candidates have the same cells as another in all cohorts: each row of such "
            "candidates states the count of all of them together."
        )
    hashed = domain is None and scheme.cohorts >= HASHED
    return Task(counts, design, asked, values, closed, hashed, notes)


def _table(
    task: Task, answer: CandidateEstimates, method: str, level: float, correction: str
) -> DecodeResult:
    asked, wanted = task.asked, len(task.design) + (not task.closed)
    identified = (task.rank if task.closed else task.rank_with_other) == wanted
    if task.total and not identified:
        task.notes.append(
            f"The cells cannot tell all candidates apart: {len(task.design)} candidates"
            f"{'' if task.closed else ' and other strings'}, rank {task.rank}."
        )
    p_value = answer.p_value[asked]
    detected = adjusted(p_value, correction) <= level
    free, error, estimate = answer.free[asked], answer.error[asked], answer.estimate[asked]
    if answer.trusted:
        estimate = np.where(detected, free, estimate)
    estimate = np.clip(estimate, 0, task.total)
    reach = stats.norm.isf(level / 2) * error
    low, high = np.maximum(free - reach, 0), np.clip(free + reach, 0, task.total)
    shown = error if answer.errors_shown is None else answer.errors_shown[asked]
    hidden = np.ones(len(task.design), bool)
    hidden[asked] = False
    return DecodeResult(
        value=task.values,
        estimate=estimate,
        std_error=shown,
        low=np.minimum(low, estimate),
        high=np.maximum(high, estimate),
        p_value=p_value,
        detected=detected,
        bound=_bounds(task, answer, identified, method)[asked],
        other=answer.other + float(answer.estimate[hidden].sum()),
        other_std_error=float(np.hypot(answer.other_error, np.linalg.norm(answer.error[hidden]))),
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
    """The least errors at the estimated counts; where candidates are too many, of each alone."""
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
