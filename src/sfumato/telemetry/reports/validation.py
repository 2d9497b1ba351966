"""The ids that were counted, as sorted 64-bit hashes: 8 bytes a report, looked up in order.

What counts of a scheme must satisfy, wherever they come from. Which reports fit a scheme: one rule
for all that count or decode them. Dispersion: whether counts vary as those of independent clients
do, and what noise will hide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.core.hashing import hash_column
from sfumato.kernels.telemetry import marks
from sfumato.kernels.telemetry import marks as runs
from sfumato.telemetry.reports.reports import Reports
from sfumato.telemetry.schemes.base import Scheme
from sfumato.telemetry.schemes.rappor import Rappor

__all__ = [
    "Dispersion",
    "HashSet",
    "cells_of_a_value",
    "check_counts",
    "counted_once",
    "dispersion",
    "fitting",
    "hashes",
    "marks_of_a_report",
]


def hashes(ids: np.ndarray) -> np.ndarray:
    """A 64-bit hash of every id, a row of 16 bytes."""
    rows, width = ids.shape
    buffer = pa.py_buffer(np.ascontiguousarray(ids))
    return hash_column(pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, buffer]))


class HashSet:
    """A set of hashes that never changes; adding makes another that shares what it can.

    It holds sorted runs, each more than twice as long as the next, so that n hashes are sorted into
    longer runs log2(n) times each and looked up in as many runs at most. Two ids that differ have
    one hash with chance 2**-64: among a hundred million reports that happens once in 3,700 times.
    """

    def __init__(self, runs: Sequence[np.ndarray] = ()) -> None:
        self._runs = tuple(runs)

    def __len__(self) -> int:
        return sum(run.size for run in self._runs)

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs)

    def sorted(self) -> np.ndarray:
        """All hashes, in order."""
        return np.sort(np.concatenate([np.empty(0, np.uint64), *self._runs]))

    def holds(self, asked: np.ndarray) -> np.ndarray:
        """Which of the hashes, which are sorted, are here."""
        found, here = np.zeros(asked.size, bool), np.empty(asked.size, bool)
        for run in self._runs:
            runs.among(run, asked, here)
            found |= here
        return found

    def plus(self, asked: np.ndarray) -> tuple[np.ndarray, "HashSet"]:
        """Which of the hashes are neither here nor earlier in the column, and a set of all."""
        run = np.sort(asked)
        if not (run[1:] == run[:-1]).any() and not self.holds(run).any():
            return np.ones(asked.size, bool), self._with(run)
        run, positions = np.unique(asked, return_index=True)
        new = ~self.holds(run)
        first = np.zeros(asked.size, bool)
        first[positions[new]] = True
        return first, self._with(run[new])

    def common(self, other: "HashSet") -> int:
        """How many hashes are in both."""
        few, many = sorted((self, other), key=len)
        return int(sum(many.holds(run).sum() for run in few._runs))

    def joined(self, other: "HashSet") -> "HashSet":
        """The set of both, which have nothing in common."""
        few, many = sorted((self, other), key=len)
        return many._with(few.sorted())

    def _with(self, run: np.ndarray) -> "HashSet":
        """A set with these hashes too, which are sorted, all different and not here."""
        longer = list(self._runs)
        while longer and longer[-1].size <= 2 * run.size:
            # A stable sort finds two sorted halves and merges them in one pass.
            run = np.sort(np.concatenate([longer.pop(), run]), kind="stable")
        return HashSet([*longer, run] if run.size else longer)


MOST = 2**46  # reports of all cohorts, so that the marks of 65,536 cells fit into 64 bits


def marks_of_a_report(scheme: Scheme) -> int | None:
    """How many cells every report marks, or None where that varies."""
    if scheme.kind == "bits":
        return None
    if scheme.kind == "symbol":
        return 1
    return int(scheme.high + (scheme.cells - 1) * scheme.low)


def cells_of_a_value(scheme: Scheme) -> int:
    """How many cells a value has in a cohort, at most."""
    if scheme.kind == "bits":
        return int(getattr(scheme, "hashes", 1))
    marks = marks_of_a_report(scheme) or 1
    # A report marks own * high + (cells - own) * low cells in the mean, and always `marks`.
    return int((marks - scheme.cells * scheme.low) / (scheme.high - scheme.low))


def check_counts(scheme: Scheme, cells: np.ndarray, reports: np.ndarray) -> None:
    """Raise ValueError, naming the cohort, where counts cannot be of reports of the scheme."""
    if cells.shape != (scheme.cohorts, scheme.cells) or reports.shape != (scheme.cohorts,):
        raise ValueError(f"counts must be of {scheme.cohorts} cohorts and {scheme.cells} cells.")
    marks = marks_of_a_report(scheme)
    for wrong, why in (
        (reports < 0, "a negative number of reports"),
        (reports > MOST // len(reports), f"more reports than {MOST // len(reports)}"),
        ((cells < 0).any(axis=1), "a negative count"),
        ((cells > reports[:, np.newaxis]).any(axis=1), "a count above its number of reports"),
        (
            np.zeros(reports.shape, bool)
            if marks is None
            else cells.sum(axis=1) != marks * reports,
            f"a number of marks other than {marks} a report",
        ),
    ):
        if wrong.any():
            raise ValueError(f"cohort {int(np.argmax(wrong))} has {why}.")


def fitting(scheme: Scheme, sent: Reports) -> tuple[np.ndarray, dict[str, int]]:
    """A mask of the reports that a client of the scheme can have sent, and what is wrong with how
    many others: "parameters", "length", "cohort" or "marks"."""
    rows = len(sent)
    if sent.scheme.fingerprint != scheme.fingerprint:
        return np.zeros(rows, bool), {"parameters": rows} if rows else {}
    if sent.payload.shape[1] != scheme.payload_bytes:
        return np.zeros(rows, bool), {"length": rows} if rows else {}
    wrong = np.empty(rows, np.uint8)
    columns = (sent.cohorts, sent.payload, scheme.cohorts, scheme.cells)
    if scheme.kind == "symbol":
        marks.judge_symbols(*columns, wrong)
    else:
        marks.judge_bits(*columns, marks_of_a_report(scheme) or -1, wrong)
    reasons = (("cohort", marks.COHORT), ("marks", marks.MARKS))
    refused = {name: int((wrong == code).sum()) for name, code in reasons}
    return wrong == 0, {name: number for name, number in refused.items() if number}


def counted_once(
    scheme: Scheme, sent: Reports, seen: HashSet
) -> tuple[np.ndarray, dict[str, int], HashSet]:
    """The same without the reports whose id was seen, which are a "duplicate"; and all ids seen.

    A report that does not fit uses no id.
    """
    keep, refused = fitting(scheme, sent)
    fresh, seen = seen.plus(hashes(sent.ids if keep.all() else sent.ids[keep]))
    if repeated := int(fresh.size - fresh.sum()):
        refused["duplicate"] = repeated
        keep[keep] = fresh
    return keep, refused, seen


LIMIT = 5.0  # spreads above 1; the marks' ratio of one cohort, the worst, goes there 1 time in 200


@dataclass(frozen=True)
class Dispersion:
    """Two variances as shares of what independent clients give, and the count that noise hides.

    cohorts: the variance of the reports of a cohort, as a share of n / m, for n reports of clients
    that fell into m cohorts evenly and independently. marks: the mean over cohorts of the squared
    distance of all their marks from the expected number, as a share of its variance; any value
    marks as many cells, so this needs no decoding. Both are about 1, give or take their `spread` (a
    standard deviation), when every report is of another client that runs these parameters. If each
    client reports r times, `cohorts` is about r, and so is `marks` where no fresh noise is added.
    `marks` is also large when clients run other chances, and `cohorts` when some cohorts cannot
    report. Neither sees which values were reported. NaN: not defined for this scheme or these
    counts (one cohort; a fixed number of marks; sets of several sizes). floor: a value in fewer
    reports than this has an estimate whose standard deviation is above its mean (over-dispersion,
    as some call it), even if all other values are spread evenly over the cells: what lies below is
    hidden by the noise that keeps reports private, and by nothing else. Infinite where every value
    has all cells, so that no report tells values apart.

    Parameters
    ----------
    reports : int
        TODO.
    cohorts : float
        TODO.
    cohorts_spread : float
        TODO.
    marks : float
        TODO.
    marks_spread : float
        TODO.
    floor : float
        TODO.
    """

    reports: int
    cohorts: float
    cohorts_spread: float
    marks: float
    marks_spread: float
    floor: float

    @property
    def repeated(self) -> bool:
        """Whether a ratio is above 1 by more than independent clients explain."""
        return any(
            ratio > 1 + LIMIT * spread
            for ratio, spread in (
                (self.cohorts, self.cohorts_spread),
                (self.marks, self.marks_spread),
            )
        )

    def __str__(self) -> str:
        told = [
            f"{what} {ratio:.3f} (1 give or take {spread:.3f} for independent clients)"
            for what, ratio, spread in (
                ("cohort sizes", self.cohorts, self.cohorts_spread),
                ("marks", self.marks, self.marks_spread),
            )
            if not math.isnan(ratio)
        ]
        hidden = "all values have the same cells, and"
        if math.isfinite(self.floor):
            hidden = f"values of fewer than {math.ceil(self.floor)} reports"
        told.append(f"{hidden} are below the noise")
        if self.repeated:
            told.append("clients seem to report repeatedly, or with other parameters")
        return "; ".join(told) + "."


def dispersion(scheme: Scheme, cells: np.ndarray, reports: np.ndarray) -> Dispersion:
    """The dispersion of the counts of a scheme."""
    total, cohorts = int(reports.sum()), reports.size
    even, used = total / cohorts, int(np.count_nonzero(reports))
    sizes = math.nan
    if cohorts > 1 and total:
        sizes = float(((reports - even) ** 2).sum() / even / (cohorts - 1))
    return Dispersion(
        reports=total,
        cohorts=sizes,
        cohorts_spread=math.sqrt(2 / (cohorts - 1)) if cohorts > 1 else math.nan,
        marks=_marks(scheme, cells, reports),
        marks_spread=math.sqrt(2 / used) if used else math.nan,
        floor=_floor(scheme, total),
    )


def _marks(scheme: Scheme, cells: np.ndarray, reports: np.ndarray) -> float:
    """Mean over cohorts of (T_j - N_j mean)**2 / (N_j variance), T_j all marks of cohort j."""
    used = reports > 0
    if not isinstance(scheme, Rappor) or not used.any():
        return math.nan
    own, other = scheme.hashes, scheme.cells - scheme.hashes
    high, low = scheme.high, scheme.low
    mean = float(own * high + other * low)
    variance = float(own * high * (1 - high) + other * low * (1 - low))
    if variance == 0:
        return math.nan
    off = cells[used].sum(axis=1) - reports[used] * mean
    return float((off**2 / (reports[used] * variance)).mean())


def _floor(scheme: Scheme, reports: int) -> float:
    """sqrt(n v) for the variance v of what one report of another value adds to an estimate."""
    own, high, low = cells_of_a_value(scheme), float(scheme.high), float(scheme.low)
    apart = scheme.domain is not None and own == 1  # every value has a cell of its own
    shared = 0.0 if apart else own / scheme.cells
    marked = low + shared * (high - low)  # a cell of the value, by a report of another
    if shared == 1:
        return math.inf
    # A symbol falls into the set or not; bits of it are marked each for itself.
    one = own * marked * (1 - (own if scheme.kind == "symbol" else 1) * marked)
    return math.sqrt(reports * one) / (own * (high - marked))
