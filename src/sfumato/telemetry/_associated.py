"""The result of an association: counts of pairs of values with their errors, cell by cell."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import norm

from sfumato.telemetry._independence import Independence
from sfumato.telemetry._table import Solved
from sfumato.telemetry._tests import adjusted

__all__ = ["Joint", "Marginal", "joint_of"]

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
class Joint:
    """How many clients have each pair of values, a cell of the table a row.

    Guarantee: intervals cover the count among the clients that reported at the rate 1 - level, as
    far as counts are normal; `detected` names cells, of two candidates, so that the expected share
    of empty ones among them stays below the level (Benjamini and Hochberg 1995). With fewer than 30
    clients, or than 3 a cell, and for a cell whose standard error would be above all clients,
    nothing is claimed: estimate is `likely`, std_error all clients (no error is larger), the
    interval from 0 to all, p_value 1, and detected False.
    Columns, also by `result["estimate"]`: value_first, value_second (None is "other"), estimate
    (else unbiased, so it may fall below 0), likely (of most likelihood: none below 0, sums to
    `reports`), std_error, low, high, p_value (of the count being 0), detected.
    `first` and `second` are the variables alone; `independence` tests whether they are unrelated;
    cramers_v (0 unrelated, 1 one tells the other) and mutual_information, in bits, are those of
    `likely`, and noise alone makes both larger than 0.
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
            raise KeyError(f"Joint: column must be one of its columns, not {column!r}.")
        return getattr(self, column)

    def to_arrow(self) -> pa.Table:
        """The cells as an Arrow table; "other" is null."""
        return pa.table({name: self[name] for name in _COLUMNS})

    def to_json(self) -> str:
        """The whole result as JSON; "other" is null."""
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
) -> Joint:
    """Write down a solved table of shares as counts."""
    cells, unknown = _cells(values, solved, clients, level)
    if unknown:
        told = f"{unknown} of {solved.likely.size} cells cannot be told from {clients} clients: "
        notes = (*notes, told + "their estimates are the likeliest, which may be far off.")
    return Joint(
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
