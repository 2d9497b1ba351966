"""Planning: the accuracy of each scheme at one epsilon, before any report, and a recommendation."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import fields as fields_of
from itertools import product
from typing import Any

import scipy

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
    """Return the variance per report of the estimated count of one rare value of a dictionary."""
    high, low = float(scheme.high), float(scheme.low)
    if getattr(scheme, "blocks", None):
        return blocks_variance(high, low, scheme.cells, scheme.blocks, dictionary)
    if scheme.domain is not None:
        return cells_variance(high, low)
    marks = {"symbol": 1, "subset": getattr(scheme, "chosen", None)}.get(scheme.kind)
    hashes = getattr(scheme, "hashes", 1)
    return hashed_variance(high, low, scheme.cells, scheme.cohorts, dictionary, hashes, marks)


def cells_variance(high: float, low: float) -> float:
    """Return the variance if every value has a cell of its own: (count - n low) / (high - low)."""
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
    """Return the variance if values are hashed: `marks` cells per report, or independent if None.

    A random set of cells carries 1 - hashes / cells of the information of one without overlap, and
    least squares uses one degree of freedom for each value of the dictionary; infinite where there
    are too few counts to distinguish them.
    """
    signal = high - low
    mean = marks / cells if marks else low + signal * hashes / cells
    degrees = cohorts * (cells - 1 if marks else cells)
    if degrees <= dictionary:
        return math.inf
    information = signal**2 * hashes * (1 - hashes / cells)
    information *= 1 - 1 / cells if marks else 1  # the marks of a report have a fixed sum
    return mean * (1 - mean) / information / (1 - dictionary / degrees)


def blocks_variance(high: float, low: float, cells: int, blocks: int, dictionary: int) -> float:
    """Return the variance of Hadamard sets: half a block each, half common to two of one block."""
    length, per_block = cells // blocks, dictionary / blocks
    return 4 * per_block / (per_block + 1) / (blocks * length**2 * (high - low) ** 2)


SLACK = 1.05  # of the variance, for a smaller report
TABLE = 2**26  # hashes of a dictionary in all cohorts that decoding may take: 256 MiB
PER_COHORT = 64  # reports at least
CELLS = [2**power for power in range(4, 13)]
COHORTS = [2**power for power in range(17)]

MOST = 22  # per hash: slightly below the largest epsilon of RAPPOR in steps of 2**-16

Sizes = tuple[int, int, int]  # hashes, cells, cohorts


def hashed_offers(
    n_reports: int, epsilon: float, dictionary: int, longitudinal: bool
) -> Iterator[tuple[str, Scheme]]:
    """Yield schemes that take any value: RAPPOR, local hashing, hashed subset selection."""
    most = min(n_reports // PER_COHORT, TABLE // dictionary)
    cohorts = [m for m in COHORTS if m <= max(1, most)]
    ones = {h: _one(epsilon, h, longitudinal) for h in (1, 2, 4)}
    noised = {h: Rappor.for_epsilon(epsilon, one, hashes=h) for h, one in ones.items()}
    sizes = _best(
        list(product(noised, CELLS, cohorts)),
        lambda h, k, m: hashed_variance(*_probabilities(noised[h]), k, m, dictionary, h),
    )
    noise = noised[sizes[0]]
    yield "RAPPOR", Rappor(sizes[1], sizes[0], sizes[2], f=noise.f, p=noise.p, q=noise.q)
    local = LocalHashing(epsilon)
    sizes = _best(
        list(product([1], [local.cells], cohorts)),
        lambda _, k, m: hashed_variance(*_probabilities(local), k, m, dictionary, marks=1),
    )
    yield "local hashing", LocalHashing(epsilon, sizes[2], local.cells)
    chosen = {k: SubsetSelection(epsilon, cells=k) for k in CELLS}
    sizes = _best(
        list(product([1], CELLS, cohorts)),
        lambda _, k, m: hashed_variance(
            *_probabilities(chosen[k]), k, m, dictionary, marks=chosen[k].chosen
        ),
    )
    yield "subset selection, hashed", SubsetSelection(epsilon, cells=sizes[1], cohorts=sizes[2])


def known_offers(
    epsilon: float, dictionary: int, longitudinal: bool
) -> Iterator[tuple[str, Scheme]]:
    """Yield schemes for a known domain, whose values are named by their numbers from 0 on."""
    names = tuple(map(str, range(dictionary)))
    one = _one(epsilon, 1, longitudinal)
    yield "basic RAPPOR", Rappor.for_epsilon(epsilon, one, categories=names)
    yield "k-ary response", SubsetSelection(epsilon, names, chosen=1)
    yield "subset selection", SubsetSelection(epsilon, names)
    yield "Hadamard response", HadamardResponse(epsilon, names)


def _one(epsilon: float, hashes: int, longitudinal: bool) -> float | None:
    """Return the epsilon of one report: half of the permanent one if it needs fresh noise."""
    return min(epsilon, MOST * hashes) / 2 if longitudinal else None


def _probabilities(scheme: Scheme) -> tuple[float, float]:
    """Return the probabilities high and low of a scheme."""
    return float(scheme.high), float(scheme.low)


def _best(sizes: list[Sizes], variance: Callable[[int, int, int], float]) -> Sizes:
    """Return the cheapest sizes whose variance is within SLACK of the least.

    If all variances are infinite, the sizes with the most counts. Cells cost bytes of every report
    and cohorts hashes of every candidate: eight cells, which are a byte, weigh as four cohorts.
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
    """One scheme of a plan, with its expected accuracy and cost.

    Parameters
    ----------
    name : str
        Name of the scheme.
    scheme : Scheme
        Its parameters.
    std_error : float
        Standard error of the estimated count of a rare value.
    visible : float
        Smallest fraction of the reports that is detected with probability 1/2; 1 or more means
        that nothing is.
    surely_visible : float
        Smallest fraction of the reports that is detected with probability 9/10.
    bytes_per_report : int
        Bytes of payload, cohort and id.
    fresh_noise : bool
        Whether reports of one client differ from each other.

    Examples
    --------
    >>> from sfumato.telemetry import plan
    >>> row = plan(1_000_000, 2.2, 200).rows[0]
    >>> row.name, row.bytes_per_report, row.fresh_noise
    ('subset selection, hashed', 36, False)
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
    """Comparison of schemes for one collection, with a recommendation.

    Parameters
    ----------
    n_reports : int
        Expected number of reports.
    epsilon : float
        Largest epsilon of the permanent response.
    dictionary_size : int
        Number of values to distinguish.
    known : bool
        Whether no other values can occur.
    longitudinal : bool
        Whether clients report the same value repeatedly and reports must not be linkable.
    level : float
        Level of the tests for `visible`.
    rows : tuple of PlanRow
        One row per scheme, by rising standard error.
    recommended : PlanRow
        The recommended scheme.
    why : str
        Reason for the recommendation, in a sentence.

    Examples
    --------
    >>> from sfumato.telemetry import plan
    >>> found = plan(1_000_000, 2.2, 200)
    >>> len(found.rows), found.recommended.scheme.cells
    (3, 10)
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
        request = {"n_reports": self.n_reports, "epsilon": self.epsilon, "known": self.known}
        sizes = {"dictionary_size": self.dictionary_size, "rows": len(self.rows)}
        return described(self, **request, **sizes, recommended=self.recommended.name)

    def _columns(self) -> dict[str, Any]:
        return {name: [getattr(row, name) for row in self.rows] for name in _COLUMNS}

    def to_json(self) -> str:
        """Write the plan as JSON.

        Returns
        -------
        str
            Object with the request, the rows and the recommendation; an infinite standard error is
            null.
        """
        fields = {
            each.name: getattr(self, each.name)
            for each in fields_of(self)
            if each.name not in ("rows", "recommended")
        }
        fields["recommended"] = self.recommended.name
        fields["rows"] = [_row_fields(row) for row in self.rows]
        return json.dumps(fields, indent=1, allow_nan=False)

    def __str__(self) -> str:
        domain = "known values" if self.known else "values"
        title = (
            f"{self.n_reports} reports, epsilon {self.epsilon:.6g}, {self.dictionary_size} {domain}"
        )
        head = f"{'scheme':<25}{'std error':>12}{'visible':>10}{'surely':>10}"
        head += f"{'bytes in all':>14}{'k/h/m':>14}"
        lines = [title, head, *(_row_line(row) for row in self.rows), LEGEND]
        return "\n".join([*lines, f"Recommended: {self.recommended.name}. {self.why}"])


_COLUMNS = [each.name for each in fields_of(PlanRow) if each.name != "scheme"]

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
        Expected number of reports, from 1 to 2**53.
    epsilon : float
        Largest epsilon of the permanent response, above 0.
    dictionary_size : int
        Number of values to distinguish, from 2 to 2**26.
    known : bool, default=False
        Whether no other values can occur, so that each may have a cell of its own. Schemes then
        name them "0", "1", ...: set your categories with `dataclasses.replace`.
    longitudinal : bool, default=False
        Whether clients report the same value repeatedly and those reports must not be linkable by
        their noise. RAPPOR then adds fresh noise, with half of epsilon for one report.
    level : float, default=0.05
        Level of the tests for `visible`, between 0 and 1.

    Returns
    -------
    Plan
        One row per scheme, by rising standard error, and a recommendation: the smallest report
        among the schemes within 5 % of the smallest standard error.

    Raises
    ------
    ValueError
        If a parameter is out of range, or epsilon so small that reports carry no information.

    Notes
    -----
    **Guarantee.** Under every scheme of the plan, any number of reports of one value of one client
    with one secret are epsilon-differentially private under replacing the value. The standard error
    is that of the best linear estimate from the counts, for a rare value when all reported values
    are in the dictionary and many: it is within 5 % of the Cramer-Rao bound (which is smaller where
    few values leave many cells empty, at large epsilon). A fraction is visible if a one-sided test
    at the level, corrected by Bonferroni over the dictionary, detects it.

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
    unsorted = [_row(n_reports, dictionary_size, level, *offer) for offer in offers]
    rows = sorted(unsorted, key=lambda row: row.std_error)
    return Plan(*given, tuple(rows), *_recommended(rows, longitudinal))


def _offers(
    n_reports: int, epsilon: float, dictionary_size: int, known: bool, longitudinal: bool
) -> list[tuple[str, Scheme]]:
    """Return all schemes to compare, by name."""
    try:
        offers = list(hashed_offers(n_reports, epsilon, dictionary_size, longitudinal))
        if known and dictionary_size <= MOST_KNOWN:
            offers += known_offers(epsilon, dictionary_size, longitudinal)
    except ValueError:  # of a scheme whose probabilities have no step this small
        raise ValueError(
            f"plan: epsilon must be larger, not {epsilon!r}: the reports of some schemes would "
            "carry no information."
        ) from None
    return offers


def _row(n_reports: int, dictionary: int, level: float, name: str, scheme: Scheme) -> PlanRow:
    """Return the row of a scheme."""
    error = math.sqrt(n_reports * variance(scheme, dictionary))
    threshold = float(-scipy.special.ndtri(level / dictionary))
    surely = threshold + float(scipy.special.ndtri(0.9))
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
    """Return the smallest report of those near the least standard error, and a sentence why."""
    fit = [row for row in rows if row.fresh_noise or not longitudinal]
    least = fit[0]
    if math.isinf(least.std_error):
        return least, (
            "No scheme has enough counts to distinguish all these values: shorten the dictionary, "
            "or find its frequent values first."
        )
    near = [row for row in fit if row.std_error <= NEAR * least.std_error]
    best = min(near, key=lambda row: (row.bytes_per_report, row.std_error))
    sentences = [_compared(best, least, longitudinal)]
    if longitudinal:
        sentences.append(
            "Others are left out because a client sends the same noise each time, by which its "
            f"reports can be recognised; the best of all would be {rows[0].name}, "
            f"{rows[0].std_error:.4g}."
        )
    if best.visible >= 1:
        why = "But nothing will be visible: more reports or a larger epsilon are needed."
        sentences.append(why)
    return best, " ".join(sentences)


def _compared(best: PlanRow, least: PlanRow, longitudinal: bool) -> str:
    """Return how the recommended scheme compares with the most accurate one."""
    among = " of those with fresh noise" if longitudinal else ""
    if best is least:
        return f"It has the smallest standard error{among}, {best.std_error:.4g}."
    return (
        f"Its standard error, {best.std_error:.4g}, is within {NEAR - 1:.0%} of the smallest"
        f"{among} ({least.name}), in {best.bytes_per_report} bytes per report instead of "
        f"{least.bytes_per_report}."
    )


def _row_fields(row: PlanRow) -> dict[str, Any]:
    """Return a row as plain JSON values; an infinite number is None."""
    fields: dict[str, Any] = {name: getattr(row, name) for name in _COLUMNS}
    fields = {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in fields.items()
    }
    parameters = json.loads(row.scheme.to_json())
    if row.scheme.domain is not None:  # the categories are placeholders, so they are left out
        omitted = ("categories", "fingerprint")
        parameters = {k: v for k, v in parameters.items() if k not in omitted}
    return fields | {"parameters": parameters}


def _row_line(row: PlanRow) -> str:
    """Return a row as a line of text."""
    scheme = row.scheme
    sizes = f"{scheme.cells}/{getattr(scheme, 'hashes', '-')}/{scheme.cohorts}"
    sent = f"{row.bytes_per_report:>14}{sizes:>14}"
    if math.isinf(row.std_error):
        return f"{row.name:<25}{'too few counts':>32}{sent}"
    visible = f"{min(row.visible, 1):>10.3%}{min(row.surely_visible, 1):>10.3%}"
    return f"{row.name:<25}{row.std_error:>12.4g}{visible}{sent}"
