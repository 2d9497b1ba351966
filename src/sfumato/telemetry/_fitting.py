"""Which reports fit a scheme: one rule for all that count or decode them."""

import numpy as np

from sfumato.kernels import marks
from sfumato.telemetry._consistent import marks_of_a_report
from sfumato.telemetry._scheme import Scheme
from sfumato.telemetry._seen import Seen, hashes
from sfumato.telemetry.reports import Reports

__all__ = ["counted_once", "fitting"]


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
    scheme: Scheme, sent: Reports, seen: Seen
) -> tuple[np.ndarray, dict[str, int], Seen]:
    """The same without the reports whose id was seen, which are a "duplicate"; and all ids seen.

    A report that does not fit uses no id.
    """
    keep, refused = fitting(scheme, sent)
    fresh, seen = seen.plus(hashes(sent.ids if keep.all() else sent.ids[keep]))
    if repeated := int(fresh.size - fresh.sum()):
        refused["duplicate"] = repeated
        keep[keep] = fresh
    return keep, refused, seen
