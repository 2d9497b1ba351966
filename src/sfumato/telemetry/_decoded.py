"""The table that decoding gives: counts with their errors, and what there is to say about them."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["Decoded"]

COLUMNS = ("value", "estimate", "std_error", "low", "high", "p_value", "detected", "bound")


@dataclass(frozen=True)
class Decoded:
    """How many of the clients that reported have each candidate, with errors.

    Columns, by attribute or by name as `result["estimate"]`: value; estimate, never negative;
    std_error; low and high, of an interval that covers the true count with chance 1 - level;
    p_value, that the candidate is absent; detected, after the correction for many tests; bound, the
    least standard error that a decoder of the same counts without bias can have. Without reports
    std_error and bound are NaN.
    `other` and `other_std_error` count the clients that have none of the candidates; `rank` is that
    of the design; `identified`, whether the cells can tell all candidates apart; `dispersion`, the
    residual chi-squared over its degrees of freedom, about 1 where noise explains the residuals;
    `notes`, sentences to read; `reports`, how many there were.
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
            raise KeyError(f"Decoded: columns are {', '.join(COLUMNS)}, not {column!r}.")
        return getattr(self, column)

    def to_arrow(self) -> pa.Table:
        """The columns as an Arrow table, a row a candidate."""
        return pa.table({name: pa.array(self[name]) for name in COLUMNS})

    def to_json(self) -> str:
        """Everything as JSON, rows by falling estimate; what is not finite is null."""
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
