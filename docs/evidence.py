"""Writes docs/evidence.md: every table and figure of our five sources beside ours, from JSON."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

from evidence_of import course, race, rappor, thesis  # noqa: E402
from evidence_of.rows import NUMBERLESS, table  # noqa: E402

HEAD = """# Evidence

Sfumato implements five documents ([sources](sources.md)). This page goes through every table and
figure of them: what they report, what we measure, the command that shows it, and what could not be
reproduced and why. It is written by `python docs/evidence.py` from the JSON that the commands leave
in `benchmarks/results/`. A dash stands where a source has a drawing, or a curve whose numbers its
text does not give. Of the course, which has no numbered tables, every method has a row; its numbers
are printed there or follow from its examples by hand.

Most data sets of the sources cannot be had any more. Where another set stands in for one, the row
says so, and then only the shape can be compared.
"""
HEADER = ("table or figure", "theirs", "ours", "verdict and command")


def lines(rows):
    """A table with a row for each; four columns, so that a page has room for them."""

    def first(row):
        return "<br>".join(filter(None, (f"**{row.name}**", row.topic, row.page)))

    def last(row):
        return row.verdict if row.command == NUMBERLESS else f"{row.verdict}<br>`{row.command}`"

    return table(HEADER, [(first(row), row.theirs, row.ours, last(row)) for row in rows])


def sections():
    """The sources: title, rows, and tables of details."""
    return [
        ("Thesis", thesis.thesis(), thesis.details()),
        ("Matrix factorization paper", thesis.paper(), []),
        ("RACE", race.race(), race.details()),
        ("RAPPOR notes", rappor.rappor(), rappor.details()),
        ("Big-data course", course.course(), []),
    ]


def verdicts(found):
    words = ("reproduced", "differs", "partly", "cannot be compared")
    rows = [(title, row) for title, rows, _ in found for row in rows]
    against = [(title, row) for title, row in rows if any(f"{w}**" in row.verdict for w in words)]
    named = "; ".join(f"{title}, {row.name[0].lower()}{row.name[1:]}" for title, row in against)
    less = "not, not fully or not comparably reproduced"
    return f"Of {len(rows)} rows, {len(against)} are {less}: {named}."


def page():
    """The text of docs/evidence.md."""
    found = sections()
    text = [HEAD, verdicts(found), ""]
    for title, rows, details in found:
        text += [f"## {title}", "", *lines(rows), "", *details]
    return "\n".join(text).rstrip() + "\n"


if __name__ == "__main__":
    (DOCS / "evidence.md").write_text(page())
