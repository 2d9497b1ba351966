"""Dispersion: whether counts vary as those of independent clients do, and what noise will hide."""

import math
from dataclasses import dataclass

import numpy as np

from sfumato.telemetry._consistent import cells_of_a_value
from sfumato.telemetry._scheme import Scheme
from sfumato.telemetry.params import Params

__all__ = ["Dispersion", "dispersion"]

LIMIT = 5.0  # spreads above 1; the marks' ratio of one cohort, the worst, goes there 1 time in 200


@dataclass(frozen=True)
class Dispersion:
    """Two variances as shares of what independent clients give, and the count that noise hides.

    cohorts: the variance of the reports of a cohort, as a share of n / m, for n reports of clients
    that fell into m cohorts evenly and independently. marks: the mean over cohorts of the squared
    distance of all their marks from the expected number, as a share of its variance; any value
    marks as many cells, so this needs no decoding. Both are about 1, give or take their `spread`
    (a standard deviation), when every report is of another client that runs these parameters. If
    each client reports r times, `cohorts` is about r, and so is `marks` where no fresh noise is
    added. `marks` is also large when clients run other chances, and `cohorts` when some cohorts
    cannot report. Neither sees which values were reported. NaN: not defined for this scheme or
    these counts (one cohort; a fixed number of marks; sets of several sizes).
    floor: a value in fewer reports than this has an estimate whose standard deviation is above its
    mean (over-dispersion, as some call it), even if all other values are spread evenly over the
    cells: what lies below is hidden by the noise that keeps reports private, and by nothing else.
    Infinite where every value has all cells, so that no report tells values apart.
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
    if not isinstance(scheme, Params) or not used.any():
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
