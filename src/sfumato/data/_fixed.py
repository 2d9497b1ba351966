"""Reading for private use, where no row decides how others are read: what is told beforehand."""

from pathlib import Path

from sfumato.data._delimited import BROKEN, FIELDS, Rejects
from sfumato.data._roles import ROLES, Asked

__all__ = ["REMEDY", "hiding", "need_names", "need_roles", "times_told"]

OWNER = "read_interactions"
OF_ONE_LINE = (FIELDS, BROKEN["INVALID ENCODING"])  # any other fault may have hidden lines after it
REMEDY = "correct it: lines after it may be hidden, so that it is not skipped"


def times_told(asked: Asked, skip: bool) -> Asked:
    """The columns asked for, with times only where they were told."""
    times = False if asked["times"] is None else asked["times"]
    if skip and times is not False:
        raise ValueError(
            f"{OWNER}: times do not go with on_error='skip' and guess=False: the first one decides "
            "how the others are written; give times=False."
        )
    return {**asked, "times": times}


def need_names(path: Path, header: bool, skip: bool) -> None:
    """Raise where the first row, and not a line of names, would decide which others are skipped."""
    if skip and not header:
        raise ValueError(
            f"{path}: has no line of names, so that its first row would decide which others are "
            "bad; add one, or correct what is bad."
        )


def need_roles(path: Path, asked: Asked, skip: bool) -> None:
    """Raise where a key of one JSON object could decide which column of the others is read."""
    missing = [role for role in ROLES[:3] if asked[role] is None]
    if skip and missing:
        raise ValueError(
            f"{path}: give {', '.join(f'{role}=' for role in missing)}: any row of JSON may have "
            "other columns, so that none is guessed where bad rows are skipped."
        )


def hiding(rejects: Rejects) -> Rejects:
    """The rejects that always stop: a broken quote may have hidden the lines after it."""
    return [(line, reason) for line, reason in rejects if reason not in OF_ONE_LINE]
