"""What counts of a scheme must satisfy, wherever they come from."""

import numpy as np

from sfumato.telemetry._scheme import Scheme

__all__ = ["cells_of_a_value", "check_counts", "marks_of_a_report"]

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
