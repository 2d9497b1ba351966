"""A row of evidence, and how figures are read and written."""

import json
from pathlib import Path
from typing import NamedTuple

__all__ = ["NUMBERLESS", "SAME", "Row", "percent", "read", "table"]

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
SAME = "reproduced"
NUMBERLESS = "-"  # the source has a drawing or a curve without numbers in its text


class Row(NamedTuple):
    """One table or figure of a source beside ours, and how far it is reproduced."""

    name: str
    topic: str
    theirs: str
    ours: str
    verdict: str
    command: str
    page: str = ""


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def percent(share, digits=0):
    return f"{100 * share:.{digits}f} %"


def table(header, rows):
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)]
