"""Joint distributions: how two variables go together that the same clients reported.

The result of an association: counts of pairs of values with their errors, cell by cell.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from sfumato.core.tables import Table, described
from sfumato.core.validation import flag, fraction
from sfumato.telemetry.decoding.contingency import (
    Independence,
    RatioPairs,
    Solved,
    independence,
    maximize_table,
    solve_table,
)
from sfumato.telemetry.decoding.design import Design
from sfumato.telemetry.decoding.report_likelihood import ReportLikelihoods, usable
from sfumato.telemetry.decoding.significance import adjusted
from sfumato.telemetry.reports.reports import Reports
from sfumato.telemetry.schemes.base import separate

__all__ = ["AssociationResult", "Marginal", "associate", "joint_of"]

LEAST, LEAST_A_CELL = 30, 3  # clients of a table that claims anything
_COLUMNS = (
    "value_first",
    "value_second",
    "estimate",
    "likely",
    "std_error",
    "low",
    "high",
    "p_value",
    "detected",
)


@dataclass(frozen=True)
class Marginal:
    """One variable alone: how many clients have each value; the value None is "other"."""

    value: list[Any]
    estimate: np.ndarray
    std_error: np.ndarray


@dataclass(frozen=True, eq=False)
class AssociationResult(Table):
    """How many clients have each pair of values, a cell of the table a row.

    Parameters
    ----------
    value_first : list
        TODO.
    value_second : list
        TODO.
    estimate : ndarray
        TODO.
    likely : ndarray
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
    first : Marginal
        TODO.
    second : Marginal
        TODO.
    independence : Independence
        TODO.
    cramers_v : float
        TODO.
    mutual_information : float
        TODO.
    reports : int
        TODO.
    level : float
        TODO.
    notes : tuple
        TODO.

    Notes
    -----
    **Guarantee.** Intervals cover the count among the clients that reported at the rate 1 - level,
    as far as counts are normal; `detected` names cells, of two candidates, so that the expected
    share of empty ones among them stays below the level (Benjamini and Hochberg 1995). With fewer
    than 30 clients, or than 3 a cell, and for a cell whose standard error would be above all
    clients, nothing is claimed: estimate is `likely`, std_error all clients (no error is larger),
    the interval from 0 to all, p_value 1, and detected False. Columns, also by
    `result["estimate"]`: value_first, value_second (None is "other"), estimate (else unbiased, so
    it may fall below 0), likely (of most likelihood: none below 0, sums to `reports`), std_error,
    low, high, p_value (of the count being 0), detected. `first` and `second` are the variables
    alone; `independence` tests whether they are unrelated; cramers_v (0 unrelated, 1 one tells the
    other) and mutual_information, in bits, are those of `likely`, and noise alone makes both larger
    than 0.
    """

    value_first: list[Any]
    value_second: list[Any]
    estimate: np.ndarray
    likely: np.ndarray
    std_error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_value: np.ndarray
    detected: np.ndarray
    first: Marginal
    second: Marginal
    independence: Independence
    cramers_v: float
    mutual_information: float
    reports: int
    level: float
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.estimate)

    def __getitem__(self, column: str) -> Any:
        if column not in _COLUMNS:
            raise KeyError(f"AssociationResult: column must be one of its columns, not {column!r}.")
        return getattr(self, column)

    def _columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _COLUMNS}

    def __repr__(self) -> str:
        found = {"rows": len(self), "detected": int(self.detected.sum())}
        return described(self, **found, reports=self.reports, level=self.level)

    def to_json(self) -> str:
        """The whole result as JSON; "other" is null.

        Returns
        -------
        str
            The whole result as JSON; "other" is null.
        """
        told: dict[str, Any] = {name: _plain(self[name]) for name in _COLUMNS}
        for side in ("first", "second"):
            told[side] = {name: _plain(v) for name, v in vars(getattr(self, side)).items()}
        told["independence"] = asdict(self.independence)
        for name in ("cramers_v", "mutual_information", "reports", "level"):
            told[name] = getattr(self, name)
        return json.dumps({**told, "notes": list(self.notes)}, allow_nan=False)

    def __str__(self) -> str:
        order = np.argsort(-self.estimate, kind="stable")[:10]
        lines = [f"{self.reports} clients, p {self.independence.p_value:.3g} if unrelated"]
        for cell in order:
            names = " + ".join(_label(v[cell]) for v in (self.value_first, self.value_second))
            star = " *" if self.detected[cell] else ""
            lines.append(
                f"{names:<30}{self.estimate[cell]:>12.0f} ± {self.std_error[cell]:.0f}{star}"
            )
        return "\n".join([*lines, *self.notes])


def joint_of(
    values: list[list[Any]],
    solved: Solved,
    tested: Independence,
    *,
    clients: int,
    level: float,
    notes: tuple[str, ...],
) -> AssociationResult:
    """Write down a solved table of shares as counts."""
    cells, unknown = _cells(values, solved, clients, level)
    if unknown:
        told = f"{unknown} of {solved.likely.size} cells cannot be told from {clients} clients: "
        notes = (*notes, told + "their estimates are the likeliest, which may be far off.")
    return AssociationResult(
        **cells,
        likely=clients * solved.likely.ravel(),
        first=_marginal(values, solved, clients, 0),
        second=_marginal(values, solved, clients, 1),
        independence=tested,
        **_measures(solved.likely),
        reports=clients,
        level=level,
        notes=notes,
    )


def _cells(
    values: list[list[Any]], solved: Solved, total: int, level: float
) -> tuple[dict[str, Any], int]:
    """The columns of the table, row after row, and how many rows nothing is claimed of."""
    estimate, std_error, unknown = _claimed(
        solved.free.ravel(), solved.likely.ravel(), np.diag(solved.covariance), total, solved
    )
    reach = np.where(unknown, total, norm.isf(level / 2) * std_error)
    chance = np.where(unknown, 1.0, _above_zero(estimate, std_error))
    named = np.array([a is not None and b is not None for a in values[0] for b in values[1]])
    detected = np.zeros(len(named), bool)
    detected[named] = adjusted(chance[named], "benjamini-hochberg") <= level
    columns = {
        "value_first": [a for a in values[0] for _ in values[1]],
        "value_second": [b for _ in values[0] for b in values[1]],
        "estimate": estimate,
        "std_error": std_error,
        "low": np.clip(estimate - reach, 0, total),
        "high": np.clip(estimate + reach, 0, total),
        "p_value": chance,
        "detected": detected,
    }
    return columns, int(unknown.sum())


def _claimed(
    free: np.ndarray, likely: np.ndarray, variance: np.ndarray, total: int, solved: Solved
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts and errors; where these would say nothing, the likeliest with the largest error."""
    error = total * np.sqrt(np.maximum(variance, 0))
    few = total < max(LEAST, LEAST_A_CELL * solved.likely.size)
    unknown = (error > total) | few
    estimate = total * np.where(unknown, likely, free)
    return estimate, np.where(unknown, float(total), error), unknown


def _above_zero(estimate: np.ndarray, std_error: np.ndarray) -> np.ndarray:
    """The chance of an estimate as high as this if the count is 0; without noise, 0 or 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.where(std_error > 0, estimate / std_error, np.where(estimate > 0.5, 40.0, -40.0))
    return np.asarray(norm.sf(score))


def _marginal(values: list[list[Any]], solved: Solved, total: int, side: int) -> Marginal:
    """Sums over the other side, and the errors of these sums."""
    shape = solved.free.shape
    four = solved.covariance.reshape(*shape, *shape)
    spread = four.sum(axis=(1 - side, 3 - side))
    free, likely = solved.free.sum(axis=1 - side), solved.likely.sum(axis=1 - side)
    estimate, std_error, _ = _claimed(free, likely, np.diag(spread), total, solved)
    return Marginal(values[side], estimate, std_error)


def _measures(table: np.ndarray) -> dict[str, Any]:
    """Cramer's V and the mutual information in bits, of shares that are all above 0."""
    product = np.outer(table.sum(axis=1), table.sum(axis=0))
    squares = float(np.sum((table - product) ** 2 / product))
    bits = float(np.sum(table * np.log2(table / product)))
    least = min(table.shape) - 1
    strength = float(np.sqrt(squares / least)) if least else 0.0
    return {"cramers_v": min(strength, 1.0), "mutual_information": max(bits, 0.0)}


def _plain(column: Any) -> Any:
    return column.tolist() if isinstance(column, np.ndarray) else column


def _label(value: Any) -> str:
    return "(other)" if value is None else str(value)


CELLS = 1024  # of the largest table whose errors are computed
_PATTERNS = 2**22  # of reports: as few as this are counted once and weighted


def associate(
    first: Reports,
    second: Reports,
    candidates_first: Sequence[Any],
    candidates_second: Sequence[Any],
    *,
    other: bool = True,
    level: float = 0.05,
) -> AssociationResult:
    """The joint counts of two variables, where row r of both reports is one client.

    Parameters
    ----------
    first : Reports
        Reports of two schemes with a metric each, as long as each other; the candidates of each,
        for at most 1024 cells with "other".
    second : Reports
        Reports of two schemes with a metric each, as long as each other; the candidates of each,
        for at most 1024 cells with "other".
    candidates_first : sequence
        TODO.
    candidates_second : sequence
        TODO.
    other : bool, default=True
        Whether a client may have a value that is no candidate.
    level : float, default=0.05
        Of intervals and of false detections, between 0 and 1. A client sends two reports, so what
        it reveals adds up: `pair_statement` says so.

    Returns
    -------
    AssociationResult
        The joint counts of two variables, where row r of both reports is one client.

    Notes
    -----
    **Guarantee.** The table of most likelihood over pairs of reports, freed of its bias at 0, with
    standard errors from the observed information against the counts of these very clients. Below 30
    clients, or 3 a cell, nothing is claimed, and `notes` says so: see `AssociationResult`.

    References
    ----------
    .. [1] Fanti, Pihur and Erlingsson 2016, "Building a RAPPOR with the Unknown", section III.

    Examples
    --------
    >>> from sfumato.telemetry import Rappor, ReportEncoder
    >>> tea = Rappor(f=0.25, metric="tea", categories=["black", "green"])
    >>> cup = Rappor(f=0.25, metric="cup", categories=["small", "large"])
    >>> drunk = ReportEncoder(tea, seed=1).encode_many(["black", "green"] * 5000)
    >>> filled = ReportEncoder(cup, seed=2).encode_many(["large", "small"] * 5000)
    >>> found = associate(drunk, filled, ["black", "green"], ["small", "large"])
    >>> [bool(cell) for cell in found.detected]
    [False, True, True, False]
    """
    level = fraction.check("associate", "level", level)
    flag.check("associate", "other", other)
    _aligned(first, second)
    designs = Design(first.scheme, candidates_first), Design(second.scheme, candidates_second)
    fits = usable(first) & usable(second)
    first, second = first.take(fits), second.take(fits)
    rows, weights = _distinct(first, second)
    sides = [
        ReportLikelihoods(reports.take(rows), design, other=other).held()
        for reports, design in zip((first, second), designs, strict=True)
    ]
    _bounded([side.columns for side in sides])
    values = [
        [*design.values, *[None] * side.other] for design, side in zip(designs, sides, strict=True)
    ]
    return _solved(
        RatioPairs(sides[0], sides[1], weights), values, level, _notes(fits, sides, other)
    )


def _aligned(first: Reports, second: Reports) -> None:
    if len(first) != len(second):
        raise ValueError(
            f"associate: row r of both reports must be one client, but there are {len(first)} and "
            f"{len(second)} rows; join them by client first."
        )
    separate([first.scheme, second.scheme], "associate")


def _bounded(columns: list[int]) -> None:
    if columns[0] * columns[1] > CELLS:
        raise ValueError(
            f"associate: a table of {columns[0]} x {columns[1]} cells has more than {CELLS}, whose "
            "errors would take too long; give fewer candidates, the most frequent of each side."
        )


def _notes(fits: np.ndarray, sides: list[ReportLikelihoods], other: bool) -> tuple[str, ...]:
    said = []
    if not fits.any():
        raise ValueError("associate: there must be at least one pair of reports that fit.")
    if not fits.all():
        said.append(
            f"{int((~fits).sum())} clients were left out: a report does not fit its scheme."
        )
    for side, name in zip(sides, ("first", "second"), strict=True):
        if other and not side.other:
            said.append(
                f"The {name} candidates are all values there are, so none is left as other."
            )
    return tuple(said)


def _distinct(first: Reports, second: Reports) -> tuple[np.ndarray, np.ndarray]:
    """One row for each pair of reports that is different, and how many clients sent it.

    Only where few pairs are possible at all; else every row stands for itself.
    """
    keys = [_pattern(reports) for reports in (first, second)]
    if keys[0][1] * keys[1][1] > min(_PATTERNS, len(first)):
        return np.arange(len(first)), np.ones(len(first))
    key = keys[0][0] * keys[1][1] + keys[1][0]
    counts = np.bincount(key, minlength=1)
    last = np.zeros(len(counts), np.int64)
    last[key] = np.arange(len(key))
    seen = np.flatnonzero(counts)
    return last[seen], counts[seen].astype(np.float64)


def _pattern(reports: Reports) -> tuple[np.ndarray, int]:
    """A number for every report, the same for the same cohort and payload, and how many exist."""
    scheme = reports.scheme
    octets = reports.payload.shape[1]
    symbol = scheme.kind == "symbol"
    if not symbol and octets > 3:
        return np.empty(0, np.int64), 2**62
    wide = np.zeros((len(reports), 4), np.uint8)
    wide[:, :octets] = reports.payload
    patterns = scheme.cells if symbol else 2**scheme.cells
    return wide.view("<u4")[:, 0] + reports.cohorts.astype(np.int64) * patterns, (
        patterns * scheme.cohorts
    )


def _solved(
    pairs: RatioPairs, values: list[list[Any]], level: float, notes: tuple[str, ...]
) -> AssociationResult:
    """Fit each side alone, test whether they are unrelated, and fit the table."""
    alone = [maximize_table(pairs.alone(side)) for side in (pairs.first, pairs.second)]
    solved = solve_table(pairs, alone[0].table @ alone[1].table.T)
    gained = 2 * (solved.log_likelihood - alone[0].log_likelihood - alone[1].log_likelihood)
    tested = independence(pairs, alone[0].table[:, 0], alone[1].table[:, 0], gained)
    return joint_of(values, solved, tested, clients=round(pairs.total), level=level, notes=notes)
