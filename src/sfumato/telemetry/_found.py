"""Strings that were found: candidates that the reports of whole strings bear out."""

import json
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import norm

from sfumato.telemetry._screen import scores
from sfumato.telemetry._strings import Strings
from sfumato.telemetry._tests import adjusted
from sfumato.telemetry.aggregate import Counts
from sfumato.telemetry.decode import decode
from sfumato.telemetry.reports import Reports

__all__ = ["Found", "confirmed"]

_NEAR = 2.0  # standard errors above 0 of a candidate alone: below this no test of many succeeds


@dataclass(frozen=True, eq=False)
class Found:
    """Strings that were found, the most frequent first, with their counts among all clients.

    Columns: value (a letter outside the alphabet is U+FFFD), estimate, std_error (of the noise and
    of which clients were asked), low, high, p_value. `candidates` is how many strings were tested,
    `reports` how many clients there were; `notes` says what a limit left out.
    """

    value: list[str]
    estimate: np.ndarray
    std_error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_value: np.ndarray
    candidates: int
    reports: int
    level: float
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.value)

    def to_arrow(self) -> pa.Table:
        """A row a string."""
        return pa.table({name: getattr(self, name) for name in _COLUMNS})

    def to_json(self) -> str:
        told: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in told.items()}
        return json.dumps(plain, ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        lines = [
            f"{value:<24}{count:>12.0f} ± {error:.0f}"
            for value, count, error in zip(self.value, self.estimate, self.std_error, strict=True)
        ]
        head = f"{len(self)} strings found among {self.candidates} candidates"
        return "\n".join([head, *lines, *self.notes])


_COLUMNS = ("value", "estimate", "std_error", "low", "high", "p_value")


def confirmed(
    strings: Strings,
    whole: Reports,
    candidates: list[str],
    clients: int,
    level: float,
    notes: list[str],
) -> Found:
    """The candidates that the reports of whole strings bear out, counted among all clients."""
    empty = np.empty(0)
    value, count, error, chance = list[str](), empty, empty, empty
    counts = Counts(whole.scheme).update(whole)
    near = [candidates[at] for at in np.flatnonzero(scores(counts, candidates) >= _NEAR)]
    if near:
        told = decode(counts, near, level=level, correction="none")
        # Candidates that are not near have tests too, which all failed.
        every = np.append(told.p_value, np.ones(len(candidates) - len(near)))
        sure = adjusted(every, "benjamini-hochberg")[: len(near)] <= level
        order = np.argsort(-told.estimate, kind="stable")
        order = order[sure[order]]
        value = [strings.shown(near[at]) for at in order]
        count, error = _of_all(told.estimate[order], told.std_error[order], len(whole), clients)
        chance = told.p_value[order]
        notes = [*notes, *told.notes]
    reach = norm.isf(level / 2) * error
    low, high = np.clip([count - reach, count + reach], 0, clients)
    ends = (low, high, chance, len(candidates), clients, level, tuple(notes))
    return Found(value, count, error, *ends)


def _of_all(
    count: np.ndarray, error: np.ndarray, asked: int, clients: int
) -> tuple[np.ndarray, np.ndarray]:
    """Counts among all clients, of whom those asked are a random part without repetition."""
    share = np.clip(count / asked, 0, 1)
    sampled = asked * share * (1 - share) * (1 - asked / clients)
    scale = clients / asked
    return scale * count, scale * np.sqrt(error**2 + sampled)
