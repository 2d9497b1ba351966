"""A plan: what each scheme would see of a dictionary at one epsilon, and which one to take.

How far the count of a rare value will be off, for each kind of report, before any arrives. Every
scheme at one epsilon, each with the sizes that tell a dictionary of given length best.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from scipy import stats

from sfumato.core.tables import Table, described
from sfumato.core.validation import flag, fraction, integer, positive
from sfumato.telemetry.reports.reports import ID_BYTES
from sfumato.telemetry.schemes.base import Scheme
from sfumato.telemetry.schemes.hadamard_response import HadamardResponse
from sfumato.telemetry.schemes.local_hashing import LocalHashing
from sfumato.telemetry.schemes.rappor import Rappor
from sfumato.telemetry.schemes.subset_selection import SubsetSelection

__all__ = [
    "Plan",
    "PlanRow",
    "blocks_variance",
    "cells_variance",
    "hashed_offers",
    "hashed_variance",
    "known_offers",
    "plan",
    "variance",
]


def variance(scheme: Any, dictionary: int) -> float:
    """The variance, per report, of the estimated count of one rare value of so many."""
    high, low = float(scheme.high), float(scheme.low)
    if getattr(scheme, "blocks", None):
        return blocks_variance(high, low, scheme.cells, scheme.blocks, dictionary)
    if scheme.domain is not None:
        return cells_variance(high, low)
    marks = {"symbol": 1, "subset": getattr(scheme, "chosen", None)}.get(scheme.kind)
    hashes = getattr(scheme, "hashes", 1)
    return hashed_variance(high, low, scheme.cells, scheme.cohorts, dictionary, hashes, marks)


def cells_variance(high: float, low: float) -> float:
    """Every value has a cell of its own: (count - n low) / (high - low)."""
    return low * (1 - low) / (high - low) ** 2


def hashed_variance(
    high: float,
    low: float,
    cells: int,
    cohorts: int,
    dictionary: int,
    hashes: int = 1,
    marks: int | None = None,
) -> float:
    """Values share cells: `marks` of them in a report, or each for itself where that is None.

    A random set of cells tells 1 - hashes / cells of what one without the others would, and
    least squares spends one of the free counts on each value of the dictionary; infinite where
    there are too few counts to tell them apart.
    """
    signal = high - low
    mean = marks / cells if marks else low + signal * hashes / cells
    free = cohorts * (cells - 1 if marks else cells)
    if free <= dictionary:
        return math.inf
    told = signal**2 * hashes * (1 - hashes / cells)
    told *= 1 - 1 / cells if marks else 1  # the marks of a report have a fixed sum
    return mean * (1 - mean) / told / (1 - dictionary / free)


def blocks_variance(high: float, low: float, cells: int, blocks: int, dictionary: int) -> float:
    """Hadamard sets: half of one block each; two of one block share half their cells."""
    length, held = cells // blocks, dictionary / blocks
    return 4 * held / (held + 1) / (blocks * length**2 * (high - low) ** 2)


SLACK = 1.05  # of the variance, for a smaller report
TABLE = 2**26  # hashes of a dictionary in all cohorts that decoding may take: 256 MiB
PER_COHORT = 64  # reports at least
CELLS = [2**power for power in range(4, 13)]
COHORTS = [2**power for power in range(17)]

MOST = 22  # a hash: a little less than RAPPOR's chances, in steps of 2**-16, can cost for ever

Sizes = tuple[int, int, int]  # hashes, cells, cohorts


def hashed_offers(
    n_reports: int, epsilon: float, dictionary: int, longitudinal: bool
) -> Iterator[tuple[str, Scheme]]:
    """Schemes that take any value: RAPPOR, local hashing, subset selection of hashed cells."""
    most = min(n_reports // PER_COHORT, TABLE // dictionary)
    cohorts = [m for m in COHORTS if m <= max(1, most)]
    ones = {h: _one(epsilon, h, longitudinal) for h in (1, 2, 4)}
    noised = {h: Rappor.for_epsilon(epsilon, one, hashes=h) for h, one in ones.items()}
    sizes = _best(
        list(product(noised, CELLS, cohorts)),
        lambda h, k, m: hashed_variance(*_chances(noised[h]), k, m, dictionary, h),
    )
    noise = noised[sizes[0]]
    yield "RAPPOR", Rappor(sizes[1], sizes[0], sizes[2], f=noise.f, p=noise.p, q=noise.q)
    local = LocalHashing(epsilon)
    sizes = _best(
        list(product([1], [local.cells], cohorts)),
        lambda _, k, m: hashed_variance(*_chances(local), k, m, dictionary, marks=1),
    )
    yield "local hashing", LocalHashing(epsilon, sizes[2], local.cells)
    chosen = {k: SubsetSelection(epsilon, cells=k) for k in CELLS}
    sizes = _best(
        list(product([1], CELLS, cohorts)),
        lambda _, k, m: hashed_variance(
            *_chances(chosen[k]), k, m, dictionary, marks=chosen[k].chosen
        ),
    )
    yield "subset selection, hashed", SubsetSelection(epsilon, cells=sizes[1], cohorts=sizes[2])


def known_offers(
    epsilon: float, dictionary: int, longitudinal: bool
) -> Iterator[tuple[str, Scheme]]:
    """Schemes for a known domain, whose values are here called by their numbers, from 0 on."""
    names = tuple(map(str, range(dictionary)))
    one = _one(epsilon, 1, longitudinal)
    yield "basic RAPPOR", Rappor.for_epsilon(epsilon, one, categories=names)
    yield "k-ary response", SubsetSelection(epsilon, names, chosen=1)
    yield "subset selection", SubsetSelection(epsilon, names)
    yield "Hadamard response", HadamardResponse(epsilon, names)


def _one(epsilon: float, hashes: int, longitudinal: bool) -> float | None:
    """What one report may cost: half of what all together do, where it needs noise of its own."""
    return min(epsilon, MOST * hashes) / 2 if longitudinal else None


def _chances(scheme: Scheme) -> tuple[float, float]:
    return float(scheme.high), float(scheme.low)


def _best(sizes: list[Sizes], variance: Callable[[int, int, int], float]) -> Sizes:
    """The least effort whose variance is within SLACK of the least; if none has one, most counts.

    Cells cost bytes of every report and cohorts hashes of every candidate: eight cells, which
    are a byte, weigh as four cohorts.
    """
    found = {size: variance(*size) for size in sizes}
    least = min(found.values())
    if math.isinf(least):
        return max(sizes, key=lambda size: size[1] * size[2])
    near = [size for size in sizes if found[size] <= SLACK * least]
    return min(near, key=lambda size: (size[1] / 2 + size[2], size))


NEAR = 1.05  # of the standard error, for a smaller report
ENVELOPE = 4 + ID_BYTES  # bytes of the cohort and the id of a report
MOST_KNOWN = 2**16
LEGEND = "Bytes of payload, cohort and id; k cells, h hashes, m cohorts."


@dataclass(frozen=True)
class PlanRow:
    """What one scheme would give: its parameters and how far counts would be off.

    std_error, of the estimated count of a rare value; visible and surely_visible, the least share
    of the reports that is detected in one of two cases and in nine of ten, 1 or more meaning that
    nothing is; bytes_per_report, of payload, cohort and id; fresh_noise, whether reports of one
    client differ from each other.

    Parameters
    ----------
    name : str
        TODO.
    scheme : Scheme
        TODO.
    std_error : float
        TODO.
    visible : float
        TODO.
    surely_visible : float
        TODO.
    bytes_per_report : int
        TODO.
    fresh_noise : bool
        TODO.
    """

    name: str
    scheme: Scheme
    std_error: float
    visible: float
    surely_visible: float
    bytes_per_report: int
    fresh_noise: bool


@dataclass(frozen=True)
class Plan(Table):
    """Schemes compared for so many reports, with a recommendation and why.

    Parameters
    ----------
    n_reports : int
        TODO.
    epsilon : float
        TODO.
    dictionary_size : int
        TODO.
    known : bool
        TODO.
    longitudinal : bool
        TODO.
    level : float
        TODO.
    rows : tuple
        TODO.
    recommended : PlanRow
        TODO.
    why : str
        TODO.
    """

    n_reports: int
    epsilon: float
    dictionary_size: int
    known: bool
    longitudinal: bool
    level: float
    rows: tuple[PlanRow, ...]
    recommended: PlanRow
    why: str

    def __repr__(self) -> str:
        asked = {"n_reports": self.n_reports, "epsilon": self.epsilon, "known": self.known}
        sizes = {"dictionary_size": self.dictionary_size, "rows": len(self.rows)}
        return described(self, **asked, **sizes, recommended=self.recommended.name)

    def _columns(self) -> dict[str, Any]:
        return {name: [getattr(row, name) for row in self.rows] for name in _COLUMNS}

    def to_json(self) -> str:
        """The plan as JSON; a standard error that would be infinite is null.

        Returns
        -------
        str
            The plan as JSON; a standard error that would be infinite is null.
        """
        told = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in ("rows", "recommended")
        }
        told["recommended"] = self.recommended.name
        told["rows"] = [_row_told(row) for row in self.rows]
        return json.dumps(told, indent=1, allow_nan=False)

    def __str__(self) -> str:
        domain = "known values" if self.known else "values"
        title = (
            f"{self.n_reports} reports, epsilon {self.epsilon:.6g}, {self.dictionary_size} {domain}"
        )
        head = f"{'scheme':<25}{'std error':>12}{'visible':>10}{'surely':>10}"
        head += f"{'bytes in all':>14}{'k/h/m':>14}"
        lines = [title, head, *(_row_line(row) for row in self.rows), LEGEND]
        return "\n".join([*lines, f"Recommended: {self.recommended.name}. {self.why}"])


_COLUMNS = [each.name for each in fields(PlanRow) if each.name != "scheme"]

LIMITS: dict[str, Any] = {
    "n_reports": integer(1, 2**53),
    "epsilon": positive,
    "dictionary_size": integer(2, 2**26),
    "known": flag,
    "longitudinal": flag,
    "level": fraction,
}


def plan(
    n_reports: int,
    epsilon: float,
    dictionary_size: int,
    *,
    known: bool = False,
    longitudinal: bool = False,
    level: float = 0.05,
) -> Plan:
    """Compare all schemes at one epsilon, each with its best sizes, and recommend one.

    Parameters
    ----------
    n_reports : int
        Expected.
    epsilon : float
        Above 0, of the permanent response.
    dictionary_size : int
        Values to tell apart, 2 up to 2**26.
    known : bool, default=False
        Whether no others can occur, so that each may have a cell (schemes then name them "0", "1"
        and on: put in your categories by `dataclasses.replace`).
    longitudinal : bool, default=False
        Whether clients report the same value many times and those reports must not be recognised by
        their noise: RAPPOR then adds fresh noise, with half of epsilon for one report.
    level : float, default=0.05
        Between 0 and 1.

    Returns
    -------
    Plan
        TODO.

    Notes
    -----
    **Guarantee.** Every scheme costs at most epsilon for ever, for one value of one client. The
    standard error is that of the best linear estimate from the counts, for a value of small share
    when all reported values are in the dictionary and many: within 5 % of the Cramer-Rao bound
    (that is smaller where few values leave many cells empty, at large epsilon). A share is visible
    if a one-sided test at the level, by Bonferroni over the dictionary, finds it.

    Examples
    --------
    >>> found = plan(1_000_000, 2.2, 200)
    >>> found.recommended.name, round(found.recommended.std_error, -2)
    ('local hashing', 800.0)
    """
    given = (n_reports, epsilon, dictionary_size, known, longitudinal, level)
    for value, (name, limit) in zip(given, LIMITS.items(), strict=True):
        limit.check("plan", name, value)
    offers = _offers(n_reports, epsilon, dictionary_size, known, longitudinal)
    seen = [_row(n_reports, dictionary_size, level, *offer) for offer in offers]
    rows = sorted(seen, key=lambda row: row.std_error)
    return Plan(*given, tuple(rows), *_recommended(rows, longitudinal))


def _offers(
    n_reports: int, epsilon: float, dictionary_size: int, known: bool, longitudinal: bool
) -> list[tuple[str, Scheme]]:
    try:
        offers = list(hashed_offers(n_reports, epsilon, dictionary_size, longitudinal))
        if known and dictionary_size <= MOST_KNOWN:
            offers += known_offers(epsilon, dictionary_size, longitudinal)
    except ValueError:  # of a scheme whose chances have no step so small
        raise ValueError(
            f"plan: epsilon must be larger, not {epsilon!r}: the reports of some schemes would "
            "tell nothing."
        ) from None
    return offers


def _row(n_reports: int, dictionary: int, level: float, name: str, scheme: Scheme) -> PlanRow:
    error = math.sqrt(n_reports * variance(scheme, dictionary))
    threshold = float(stats.norm.isf(level / dictionary))
    surely = threshold + float(stats.norm.ppf(0.9))
    return PlanRow(
        name=name,
        scheme=scheme,
        std_error=error,
        visible=threshold * error / n_reports,
        surely_visible=surely * error / n_reports,
        bytes_per_report=scheme.payload_bytes + ENVELOPE,
        fresh_noise=not getattr(scheme, "one_time", True),
    )


def _recommended(rows: list[PlanRow], longitudinal: bool) -> tuple[PlanRow, str]:
    """The smallest report of those whose standard error is near the least, and a sentence why."""
    fit = [row for row in rows if row.fresh_noise or not longitudinal]
    least = fit[0]
    if math.isinf(least.std_error):
        return least, (
            "No scheme has enough counts to tell so many values apart: shorten the dictionary, or "
            "find its frequent values first."
        )
    near = [row for row in fit if row.std_error <= NEAR * least.std_error]
    best = min(near, key=lambda row: (row.bytes_per_report, row.std_error))
    told = [_compared(best, least, longitudinal)]
    if longitudinal:
        told.append(
            "Others are left out because a client sends the same noise each time, by which its "
            f"reports can be recognised; the best of all would be {rows[0].name}, "
            f"{rows[0].std_error:.4g}."
        )
    if best.visible >= 1:
        told.append("But nothing will be visible: more reports or a larger epsilon are needed.")
    return best, " ".join(told)


def _compared(best: PlanRow, least: PlanRow, longitudinal: bool) -> str:
    among = " of those with fresh noise" if longitudinal else ""
    if best is least:
        return f"It has the smallest standard error{among}, {best.std_error:.4g}."
    return (
        f"Its standard error, {best.std_error:.4g}, is within {NEAR - 1:.0%} of the smallest"
        f"{among} ({least.name}), in {best.bytes_per_report} bytes a report instead of "
        f"{least.bytes_per_report}."
    )


def _row_told(row: PlanRow) -> dict[str, Any]:
    told: dict[str, Any] = {
        each.name: getattr(row, each.name) for each in fields(row) if each.name != "scheme"
    }
    told = {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in told.items()
    }
    held = json.loads(row.scheme.to_json())
    if row.scheme.domain is not None:  # the names are not the user's: neither they nor their mark
        held = {k: v for k, v in held.items() if k not in ("categories", "fingerprint")}
    return told | {"parameters": held}


def _row_line(row: PlanRow) -> str:
    scheme = row.scheme
    sizes = f"{scheme.cells}/{getattr(scheme, 'hashes', '-')}/{scheme.cohorts}"
    sent = f"{row.bytes_per_report:>14}{sizes:>14}"
    if math.isinf(row.std_error):
        return f"{row.name:<25}{'too few counts to tell apart':>32}{sent}"
    seen = f"{min(row.visible, 1):>10.3%}{min(row.surely_visible, 1):>10.3%}"
    return f"{row.name:<25}{row.std_error:>12.4g}{seen}{sent}"
