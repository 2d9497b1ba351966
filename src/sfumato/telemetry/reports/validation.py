"""Validation of reports and counts: the set of counted ids, the rules of a scheme, dispersion."""

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
    """Return a 64-bit hash of every id, a row of 16 bytes."""
    rows, width = ids.shape
    buffer = pa.py_buffer(np.ascontiguousarray(ids))
    return hash_column(pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, buffer]))


class HashSet:
    """Immutable set of 64-bit hashes; adding returns another set that shares what it can.

    It stores sorted runs, each more than twice as long as the next, so that n hashes are merged
    into longer runs at most log2(n) times each and looked up in as many runs at most. Two different
    ids have one hash with probability 2**-64: among a hundred million reports this happens with
    probability 1 in 3,700.
    """

    def __init__(self, runs: Sequence[np.ndarray] = ()) -> None:
        self._runs = tuple(runs)

    def __len__(self) -> int:
        return sum(run.size for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Bytes of all runs."""
        return sum(run.nbytes for run in self._runs)

    def sorted(self) -> np.ndarray:
        """Return all hashes in order."""
        return np.sort(np.concatenate([np.empty(0, np.uint64), *self._runs]))

    def holds(self, queries: np.ndarray) -> np.ndarray:
        """Return which of these sorted hashes are in the set."""
        found, here = np.zeros(queries.size, bool), np.empty(queries.size, bool)
        for run in self._runs:
            runs.among(run, queries, here)
            found |= here
        return found

    def plus(self, hashes: np.ndarray) -> tuple[np.ndarray, "HashSet"]:
        """Return which hashes are neither here nor earlier in the column, and a set of all."""
        run = np.sort(hashes)
        if not (run[1:] == run[:-1]).any() and not self.holds(run).any():
            return np.ones(hashes.size, bool), self._with(run)
        run, positions = np.unique(hashes, return_index=True)
        new = ~self.holds(run)
        first = np.zeros(hashes.size, bool)
        first[positions[new]] = True
        return first, self._with(run[new])

    def common(self, other: "HashSet") -> int:
        """Return the number of hashes that are in both sets."""
        few, many = sorted((self, other), key=len)
        return int(sum(many.holds(run).sum() for run in few._runs))

    def joined(self, other: "HashSet") -> "HashSet":
        """Return the union with a disjoint set."""
        few, many = sorted((self, other), key=len)
        return many._with(few.sorted())

    def _with(self, run: np.ndarray) -> "HashSet":
        """Return the set with these hashes too, which are sorted, distinct and not in it."""
        longer = list(self._runs)
        while longer and longer[-1].size <= 2 * run.size:
            # A stable sort finds two sorted halves and merges them in one pass.
            run = np.sort(np.concatenate([longer.pop(), run]), kind="stable")
        return HashSet([*longer, run] if run.size else longer)


MOST = 2**46  # reports of all cohorts, so that the marks of 65,536 cells fit into 64 bits


def marks_of_a_report(scheme: Scheme) -> int | None:
    """Return the number of cells that every report marks, None if it varies."""
    if scheme.kind == "bits":
        return None
    if scheme.kind == "symbol":
        return 1
    return int(scheme.high + (scheme.cells - 1) * scheme.low)


def cells_of_a_value(scheme: Scheme) -> int:
    """Return the largest number of cells of a value in a cohort."""
    if scheme.kind == "bits":
        return int(getattr(scheme, "hashes", 1))
    marks = marks_of_a_report(scheme) or 1
    # A report marks own * high + (cells - own) * low cells in the mean, and always `marks`.
    return int((marks - scheme.cells * scheme.low) / (scheme.high - scheme.low))


def check_counts(scheme: Scheme, cells: np.ndarray, reports: np.ndarray) -> None:
    """Raise ValueError, naming the cohort, if counts cannot be of reports of the scheme."""
    if cells.shape != (scheme.cohorts, scheme.cells) or reports.shape != (scheme.cohorts,):
        raise ValueError(f"counts must be of {scheme.cohorts} cohorts and {scheme.cells} cells.")
    marks = marks_of_a_report(scheme)
    for invalid, why in (
        (reports < 0, "a negative number of reports"),
        (reports > MOST // len(reports), f"more reports than {MOST // len(reports)}"),
        ((cells < 0).any(axis=1), "a negative count"),
        ((cells > reports[:, np.newaxis]).any(axis=1), "a count above its number of reports"),
        (
            np.zeros(reports.shape, bool)
            if marks is None
            else cells.sum(axis=1) != marks * reports,
            f"a number of marks other than {marks} per report",
        ),
    ):
        if invalid.any():
            raise ValueError(f"cohort {int(np.argmax(invalid))} has {why}.")


def fitting(scheme: Scheme, sent: Reports) -> tuple[np.ndarray, dict[str, int]]:
    """Return a mask of the reports that a client of the scheme can have sent, and why others not.

    The reasons are counted: "parameters", "length", "cohort" or "marks".
    """
    rows = len(sent)
    if sent.scheme.fingerprint != scheme.fingerprint:
        return np.zeros(rows, bool), {"parameters": rows} if rows else {}
    if sent.payload.shape[1] != scheme.payload_bytes:
        return np.zeros(rows, bool), {"length": rows} if rows else {}
    verdicts = np.empty(rows, np.uint8)
    columns = (sent.cohorts, sent.payload, scheme.cohorts, scheme.cells)
    if scheme.kind == "symbol":
        marks.judge_symbols(*columns, verdicts)
    else:
        marks.judge_bits(*columns, marks_of_a_report(scheme) or -1, verdicts)
    reasons = (("cohort", marks.COHORT), ("marks", marks.MARKS))
    refused = {name: int((verdicts == code).sum()) for name, code in reasons}
    return verdicts == 0, {name: number for name, number in refused.items() if number}


def counted_once(
    scheme: Scheme, sent: Reports, id_hashes: HashSet
) -> tuple[np.ndarray, dict[str, int], HashSet]:
    """As `fitting`, without reports whose id is known ("duplicate"); return the set of all ids too.

    A report that does not fit uses no id.
    """
    keep, refused = fitting(scheme, sent)
    fresh, id_hashes = id_hashes.plus(hashes(sent.ids if keep.all() else sent.ids[keep]))
    if repeated := int(fresh.size - fresh.sum()):
        refused["duplicate"] = repeated
        keep[keep] = fresh
    return keep, refused, id_hashes


LIMIT = 5.0  # standard deviations above 1; for one cohort, the worst case, `marks` exceeds it 1/200


@dataclass(frozen=True)
class Dispersion:
    """Variance ratios of counts against independent clients, and the smallest visible count.

    Use it to detect clients that report repeatedly or with other parameters. Both ratios are about
    1, within a few standard deviations, if every report is of another client with these parameters.

    Parameters
    ----------
    reports : int
        Number of reports n.
    cohorts : float
        Variance of the number of reports per cohort over n / m, its expectation for clients that
        are assigned to m cohorts uniformly and independently.
    cohorts_spread : float
        Standard deviation of `cohorts` for independent clients.
    marks : float
        Mean over cohorts of the squared deviation of their number of marks from its expectation,
        over its variance. Any value marks equally many cells, so this needs no decoding.
    marks_spread : float
        Standard deviation of `marks` for independent clients.
    floor : float
        Number of reports below which the estimate of a value has a standard deviation above its
        mean, even if all other values are distributed evenly over the cells: smaller counts are
        hidden by the noise that makes reports private. Infinite where every value has all cells,
        so that no report distinguishes values.

    Notes
    -----
    If each client reports r times, `cohorts` is about r, and so is `marks` if no fresh noise is
    added. `marks` is also large if clients use other probabilities, and `cohorts` if some cohorts
    cannot report. Neither depends on which values were reported. A ratio is NaN where it is not
    defined: for one cohort, for a fixed number of marks, for sets of several sizes.

    Examples
    --------
    >>> from sfumato.telemetry import Counts, Rappor, ReportEncoder
    >>> scheme = Rappor(32, 2, 8, f=0.5)
    >>> sent = ReportEncoder(scheme, seed=1).encode_many(["tea"] * 4000)
    >>> result = Counts(scheme).update(sent).dispersion()
    >>> result.repeated, round(result.floor)
    (False, 43)
    """

    reports: int
    cohorts: float
    cohorts_spread: float
    marks: float
    marks_spread: float
    floor: float

    @property
    def repeated(self) -> bool:
        """Whether a ratio exceeds 1 by more than five standard deviations."""
        return any(
            ratio > 1 + LIMIT * deviation
            for ratio, deviation in (
                (self.cohorts, self.cohorts_spread),
                (self.marks, self.marks_spread),
            )
        )

    def __str__(self) -> str:
        parts = [
            f"{what} {ratio:.3f} (1 give or take {deviation:.3f} for independent clients)"
            for what, ratio, deviation in (
                ("cohort sizes", self.cohorts, self.cohorts_spread),
                ("marks", self.marks, self.marks_spread),
            )
            if not math.isnan(ratio)
        ]
        subject = "all values have the same cells, and"
        if math.isfinite(self.floor):
            subject = f"values of fewer than {math.ceil(self.floor)} reports"
        parts.append(f"{subject} are below the noise")
        if self.repeated:
            parts.append("clients seem to report repeatedly, or with other parameters")
        return "; ".join(parts) + "."


def dispersion(scheme: Scheme, cells: np.ndarray, reports: np.ndarray) -> Dispersion:
    """Return the dispersion of the counts of a scheme."""
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
    """Return the mean over cohorts j of (T_j - N_j mean)**2 / (N_j variance), T_j their marks."""
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
    """Return sqrt(n v), v being the variance that a report of another value adds to an estimate."""
    own, high, low = cells_of_a_value(scheme), float(scheme.high), float(scheme.low)
    apart = scheme.domain is not None and own == 1  # every value has a cell of its own
    shared = 0.0 if apart else own / scheme.cells
    marked = low + shared * (high - low)  # a cell of the value, by a report of another
    if shared == 1:
        return math.inf
    # A symbol falls into the set or not; bits of it are marked independently.
    one = own * marked * (1 - (own if scheme.kind == "symbol" else 1) * marked)
    return math.sqrt(reports * one) / (own * (high - marked))
