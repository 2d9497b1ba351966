"""A plan: what each scheme would see of a dictionary at one epsilon, and which one to take."""

import json
import math
from dataclasses import dataclass, fields
from typing import Any

from scipy import stats

from sfumato._require import flag, fraction, positive, whole
from sfumato.telemetry._offers import hashed_offers, known_offers
from sfumato.telemetry._scheme import Scheme
from sfumato.telemetry._spread import variance
from sfumato.telemetry.reports import ID_BYTES

__all__ = ["Plan", "PlanRow", "plan"]

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
    """

    name: str
    scheme: Scheme
    std_error: float
    visible: float
    surely_visible: float
    bytes_per_report: int
    fresh_noise: bool


@dataclass(frozen=True)
class Plan:
    """Schemes compared for so many reports, with a recommendation and why."""

    n_reports: int
    epsilon: float
    dictionary_size: int
    known: bool
    longitudinal: bool
    level: float
    rows: tuple[PlanRow, ...]
    recommended: PlanRow
    why: str

    def to_json(self) -> str:
        """The plan as JSON; a standard error that would be infinite is null."""
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


LIMITS: dict[str, Any] = {
    "n_reports": whole(1, 2**53),
    "epsilon": positive,
    "dictionary_size": whole(2, 2**26),
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

    Guarantee: every scheme costs at most epsilon for ever, for one value of one client. The
    standard error is that of the best linear estimate from the counts, for a value of small share
    when all reported values are in the dictionary and many: within 5 % of the Cramer-Rao bound
    (that is smaller where few values leave many cells empty, at large epsilon). A share is visible
    if a one-sided test at the level, by Bonferroni over the dictionary, finds it.
    Parameters: n_reports, expected; epsilon, above 0, of the permanent response; dictionary_size,
    values to tell apart, 2 up to 2**26; known, whether no others can occur, so that each may have
    a cell (schemes then name them "0", "1" and on: put in your categories by
    `dataclasses.replace`); longitudinal, whether clients report the same value many times and
    those reports must not be recognised by their noise: RAPPOR then adds fresh noise, with half of
    epsilon for one report; level, between 0 and 1.

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
