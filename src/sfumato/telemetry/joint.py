"""Joint distributions: how two variables go together that the same clients reported."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato._require import flag, fraction
from sfumato.telemetry._associated import Joint, joint_of
from sfumato.telemetry._design import Design
from sfumato.telemetry._evidence import Evidence, usable
from sfumato.telemetry._independence import independence
from sfumato.telemetry._table import Pairs, maximize_table, solve_table
from sfumato.telemetry._together import separate
from sfumato.telemetry.reports import Reports

__all__ = ["Joint", "associate"]

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
) -> Joint:
    """The joint counts of two variables, where row r of both reports is one client.

    Guarantee: the table of most likelihood over pairs of reports, freed of its bias at 0, with
    standard errors from the observed information against the counts of these very clients. Below
    30 clients, or 3 a cell, nothing is claimed, and `notes` says so: see `Joint`.
    Parameters: first and second, reports of two schemes with a metric each, as long as each other;
    the candidates of each, for at most 1024 cells with "other"; other, whether a client may have a
    value that is no candidate; level, of intervals and of false detections, between 0 and 1.
    A client sends two reports, so what it reveals adds up: `pair_statement` says so.

    >>> from sfumato.telemetry import Encoder, Params
    >>> tea = Params(f=0.25, metric="tea", categories=["black", "green"])
    >>> cup = Params(f=0.25, metric="cup", categories=["small", "large"])
    >>> drunk = Encoder(tea, seed=1).encode_many(["black", "green"] * 5000)
    >>> filled = Encoder(cup, seed=2).encode_many(["large", "small"] * 5000)
    >>> found = associate(drunk, filled, ["black", "green"], ["small", "large"])
    >>> [bool(cell) for cell in found.detected]
    [False, True, True, False]

    Fanti, Pihur and Erlingsson 2016, "Building a RAPPOR with the Unknown", section III.
    """
    level = fraction.check("associate", "level", level)
    flag.check("associate", "other", other)
    _aligned(first, second)
    designs = Design(first.scheme, candidates_first), Design(second.scheme, candidates_second)
    fits = usable(first) & usable(second)
    first, second = first.take(fits), second.take(fits)
    rows, weights = _distinct(first, second)
    sides = [
        Evidence(reports.take(rows), design, other=other).held()
        for reports, design in zip((first, second), designs, strict=True)
    ]
    _bounded([side.columns for side in sides])
    values = [
        [*design.values, *[None] * side.other] for design, side in zip(designs, sides, strict=True)
    ]
    return _solved(Pairs(sides[0], sides[1], weights), values, level, _notes(fits, sides, other))


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


def _notes(fits: np.ndarray, sides: list[Evidence], other: bool) -> tuple[str, ...]:
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


def _solved(pairs: Pairs, values: list[list[Any]], level: float, notes: tuple[str, ...]) -> Joint:
    """Fit each side alone, test whether they are unrelated, and fit the table."""
    alone = [maximize_table(pairs.alone(side)) for side in (pairs.first, pairs.second)]
    solved = solve_table(pairs, alone[0].table @ alone[1].table.T)
    gained = 2 * (solved.log_likelihood - alone[0].log_likelihood - alone[1].log_likelihood)
    tested = independence(pairs, alone[0].table[:, 0], alone[1].table[:, 0], gained)
    return joint_of(values, solved, tested, clients=round(pairs.total), level=level, notes=notes)
