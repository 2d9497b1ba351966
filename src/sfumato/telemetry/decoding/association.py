"""Joint distributions of two variables that the same clients reported."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy

from sfumato.core.linear_algebra import one_blas_thread
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

LEAST, LEAST_A_CELL = 30, 3  # clients of a table whose estimates are claimed
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
    """Distribution of one variable: how many clients have each value; the value None is "other"."""

    value: list[Any]
    estimate: np.ndarray
    std_error: np.ndarray


@dataclass(frozen=True, eq=False)
class AssociationResult(Table):
    """Estimated number of clients that have each pair of values, one row per cell of the table.

    Columns are attributes, and also items such as ``result["estimate"]``.

    Parameters
    ----------
    value_first : list
        Value of the first variable in each row; None is "other".
    value_second : list
        Value of the second variable in each row; None is "other".
    estimate : ndarray
        Unbiased estimate of the count, which may be below 0.
    likely : ndarray
        Maximum-likelihood estimate: none below 0, and they sum to `reports`.
    std_error : ndarray
        Standard error of `estimate`.
    low : ndarray
        Lower end of the confidence interval.
    high : ndarray
        Upper end of the confidence interval.
    p_value : ndarray
        P-value of the count being 0.
    detected : ndarray
        Whether the cell is not empty, after correction for many tests.
    first : Marginal
        Distribution of the first variable alone.
    second : Marginal
        Distribution of the second variable alone.
    independence : Independence
        Test of independence of the two variables.
    cramers_v : float
        Cramer's V of `likely`: 0 if unrelated, 1 if one determines the other.
    mutual_information : float
        Mutual information of `likely`, in bits.
    reports : int
        Number of clients.
    level : float
        Level of the intervals and tests.
    notes : tuple of str
        Sentences to read along with the table.

    Notes
    -----
    **Guarantee.** Intervals cover the count among the clients that reported with probability
    1 - level, as far as estimates are normal. Of the cells of two candidates that are `detected`,
    the expected fraction of empty ones is at most the level [1]_. With fewer than 30 clients or
    fewer than 3 per cell, and for a cell whose standard error would exceed the number of clients,
    nothing is claimed: `estimate` is `likely`, `std_error` the number of clients, the interval goes
    from 0 to that number, `p_value` is 1 and `detected` False.

    Noise alone makes `cramers_v` and `mutual_information` larger than 0.

    References
    ----------
    .. [1] Benjamini, Hochberg. "Controlling the False Discovery Rate: A Practical and Powerful
       Approach to Multiple Testing". JRSS B 1995, section 3.1 (the procedure).

    Examples
    --------
    >>> from sfumato.telemetry import Rappor, ReportEncoder, associate
    >>> tea = Rappor(f=0.25, metric="tea", categories=["black", "green"])
    >>> cup = Rappor(f=0.25, metric="cup", categories=["small", "large"])
    >>> drunk = ReportEncoder(tea, seed=1).encode_many(["black", "green"] * 5000)
    >>> filled = ReportEncoder(cup, seed=2).encode_many(["large", "small"] * 5000)
    >>> result = associate(drunk, filled, ["black", "green"], ["small", "large"])
    >>> result.value_first, result["value_second"], result.independence.p_value < 0.05
    (['black', 'black', 'green', 'green'], ['small', 'large', 'small', 'large'], True)
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
        """Write the complete result as JSON.

        Returns
        -------
        str
            Object with a list per column, the marginals, the test and the notes; "other" is null.
        """
        fields: dict[str, Any] = {name: _plain(self[name]) for name in _COLUMNS}
        for side in ("first", "second"):
            fields[side] = {name: _plain(v) for name, v in vars(getattr(self, side)).items()}
        fields["independence"] = asdict(self.independence)
        for name in ("cramers_v", "mutual_information", "reports", "level"):
            fields[name] = getattr(self, name)
        return json.dumps({**fields, "notes": list(self.notes)}, allow_nan=False)

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


@one_blas_thread
def joint_of(
    values: list[list[Any]],
    solved: Solved,
    tested: Independence,
    *,
    clients: int,
    level: float,
    notes: tuple[str, ...],
) -> AssociationResult:
    """Return a solved table of fractions as counts with errors and tests."""
    cells, unknown = _cells(values, solved, clients, level)
    if unknown:
        note = f"{unknown} of {solved.likely.size} cells have no estimate from {clients} clients: "
        notes = (*notes, note + "the likeliest counts are shown, which may be far off.")
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
    """Return the columns of the table, row after row, and the number of rows without a claim."""
    estimate, std_error, unknown = _claimed(
        solved.unconstrained.ravel(),
        solved.likely.ravel(),
        np.diag(solved.covariance),
        total,
        solved,
    )
    half_width = np.where(unknown, total, -scipy.special.ndtri(level / 2) * std_error)
    p_value = np.where(unknown, 1.0, _above_zero(estimate, std_error))
    named = np.array([a is not None and b is not None for a in values[0] for b in values[1]])
    detected = np.zeros(len(named), bool)
    detected[named] = adjusted(p_value[named], "benjamini-hochberg") <= level
    columns = {
        "value_first": [a for a in values[0] for _ in values[1]],
        "value_second": [b for _ in values[0] for b in values[1]],
        "estimate": estimate,
        "std_error": std_error,
        "low": np.clip(estimate - half_width, 0, total),
        "high": np.clip(estimate + half_width, 0, total),
        "p_value": p_value,
        "detected": detected,
    }
    return columns, int(unknown.sum())


def _claimed(
    unconstrained: np.ndarray, likely: np.ndarray, variance: np.ndarray, total: int, solved: Solved
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return counts, errors and a mask where these say nothing and the likeliest are returned."""
    error = total * np.sqrt(np.maximum(variance, 0))
    few = total < max(LEAST, LEAST_A_CELL * solved.likely.size)
    unknown = (error > total) | few
    estimate = total * np.where(unknown, likely, unconstrained)
    return estimate, np.where(unknown, float(total), error), unknown


def _above_zero(estimate: np.ndarray, std_error: np.ndarray) -> np.ndarray:
    """Return the probability of an estimate this high if the count is 0; without noise, 0 or 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.where(std_error > 0, estimate / std_error, np.where(estimate > 0.5, 40.0, -40.0))
    return np.asarray(scipy.special.ndtr(-score))


def _marginal(values: list[list[Any]], solved: Solved, total: int, side: int) -> Marginal:
    """Return the sums over the other side, and their errors."""
    shape = solved.unconstrained.shape
    four = solved.covariance.reshape(*shape, *shape)
    covariance = four.sum(axis=(1 - side, 3 - side))
    unconstrained = solved.unconstrained.sum(axis=1 - side)
    likely = solved.likely.sum(axis=1 - side)
    estimate, std_error, _ = _claimed(unconstrained, likely, np.diag(covariance), total, solved)
    return Marginal(values[side], estimate, std_error)


def _measures(table: np.ndarray) -> dict[str, Any]:
    """Return Cramer's V and the mutual information in bits, of fractions that are all above 0."""
    product = np.outer(table.sum(axis=1), table.sum(axis=0))
    squares = float(np.sum((table - product) ** 2 / product))
    bits = float(np.sum(table * np.log2(table / product)))
    least = min(table.shape) - 1
    strength = float(np.sqrt(squares / least)) if least else 0.0
    return {"cramers_v": min(strength, 1.0), "mutual_information": max(bits, 0.0)}


def _plain(column: Any) -> Any:
    """Return a column as a list."""
    return column.tolist() if isinstance(column, np.ndarray) else column


def _label(value: Any) -> str:
    """Return a value as text."""
    return "(other)" if value is None else str(value)


CELLS = 1024  # of the largest table whose errors are computed
_PATTERNS = 2**22  # of reports: up to this number, equal ones are merged and weighted


@one_blas_thread
def associate(
    first: Reports,
    second: Reports,
    candidates_first: Sequence[Any],
    candidates_second: Sequence[Any],
    *,
    other: bool = True,
    level: float = 0.05,
) -> AssociationResult:
    """Estimate the joint counts of two variables that the same clients reported.

    Parameters
    ----------
    first : Reports
        Reports of the first variable.
    second : Reports
        Reports of the second variable, with another metric; row r of both is one client.
    candidates_first : sequence
        Candidates of the first variable.
    candidates_second : sequence
        Candidates of the second variable; the table has at most 1024 cells, "other" included.
    other : bool, default=True
        Whether a client may have a value that is no candidate.
    level : float, default=0.05
        Level of intervals and of false detections, between 0 and 1.

    Returns
    -------
    AssociationResult
        One row per pair of values, with marginals and a test of independence.

    Raises
    ------
    ValueError
        If the lengths differ, the schemes have the same metric and parameters, or the table is
        too large.

    Notes
    -----
    **Guarantee.** The table maximises the likelihood over pairs of reports; `estimate` is corrected
    for the bias of the bound at 0, and standard errors are from the observed information, for the
    counts of the clients that reported. Below 30 clients, or 3 per cell, nothing is claimed, and
    `notes` says so: see `AssociationResult`.

    A client sends two reports, and their epsilons add up: `pair_statement` states the sum.

    References
    ----------
    .. [1] Fanti, Pihur, Erlingsson. "Building a RAPPOR with the Unknown: Privacy-Preserving
       Learning of Associations and Data Dictionaries". PoPETs 2016, section III (expectation
       maximisation over pairs of reports). https://arxiv.org/abs/1503.01214

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
        ReportLikelihoods(reports.take(rows), design, other=other).cached()
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
    """Raise ValueError if rows do not pair or the schemes share their noise."""
    if len(first) != len(second):
        raise ValueError(
            f"associate: row r of both reports must be one client, but there are {len(first)} and "
            f"{len(second)} rows; join them by client first."
        )
    separate([first.scheme, second.scheme], "associate")


def _bounded(columns: list[int]) -> None:
    """Raise ValueError if the table has too many cells."""
    if columns[0] * columns[1] > CELLS:
        raise ValueError(
            f"associate: a table of {columns[0]} x {columns[1]} cells has more than {CELLS}, whose "
            "errors would take too long; give fewer candidates, the most frequent of each side."
        )


def _notes(fits: np.ndarray, sides: list[ReportLikelihoods], other: bool) -> tuple[str, ...]:
    """Return notes on clients left out and on sides without "other"."""
    said = []
    if not fits.any():
        raise ValueError("associate: there must be at least one pair of reports that fit.")
    if not fits.all():
        said.append(
            f"{int((~fits).sum())} clients were left out: a report does not fit its scheme."
        )
    for side, name in zip(sides, ("first", "second"), strict=True):
        if other and not side.other:
            said.append(f"The {name} candidates are all values there are, so there is no other.")
    return tuple(said)


def _distinct(first: Reports, second: Reports) -> tuple[np.ndarray, np.ndarray]:
    """Return one row for each distinct pair of reports, and how many clients sent it.

    Only where few pairs are possible at all; else every row is returned.
    """
    keys = [_pattern(reports) for reports in (first, second)]
    if keys[0][1] * keys[1][1] > min(_PATTERNS, len(first)):
        return np.arange(len(first)), np.ones(len(first))
    key = keys[0][0] * keys[1][1] + keys[1][0]
    counts = np.bincount(key, minlength=1)
    last = np.zeros(len(counts), np.int64)
    last[key] = np.arange(len(key))
    present = np.flatnonzero(counts)
    return last[present], counts[present].astype(np.float64)


def _pattern(reports: Reports) -> tuple[np.ndarray, int]:
    """Return a number for every report, equal for equal cohort and payload, and how many exist."""
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
    """Fit each side alone, test their independence, and fit the table."""
    alone = [maximize_table(pairs.alone(side)) for side in (pairs.first, pairs.second)]
    solved = solve_table(pairs, alone[0].table @ alone[1].table.T)
    gained = 2 * (solved.log_likelihood - alone[0].log_likelihood - alone[1].log_likelihood)
    tested = independence(pairs, alone[0].table[:, 0], alone[1].table[:, 0], gained)
    return joint_of(values, solved, tested, clients=round(pairs.total), level=level, notes=notes)
