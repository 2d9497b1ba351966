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
in `benchmarks/results/`.

- A dash means that the source has a drawing, or a curve whose numbers its text does not give.
- The course has no numbered tables, so every method of it has a row. Its numbers are printed there
  or follow from its examples by hand.
- Most data sets of the sources are no longer available. If another set replaces one, the row says
  so, and only the shape can be compared.

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
    """How many rows of each source are reproduced, and which are not."""
    words = ("reproduced", "differs", "partly", "cannot be compared")
    counted = []
    for title, rows, _ in found:
        against = [row for row in rows if any(f"{word}**" in row.verdict for word in words)]
        named = ", ".join(f"{row.name[0].lower()}{row.name[1:]}" for row in against)
        counted.append((title, len(rows), len(rows) - len(against), named or "-"))
    every, good = (sum(row[place] for row in counted) for place in (1, 2))
    counted.append(("all", every, good, f"{every - good}"))
    return table(("source", "rows", "reproduced", "not, partly, or not comparable"), counted)


def page():
    """The text of docs/evidence.md."""
    found = sections()
    text = [HEAD.rstrip(), "", *verdicts(found), ""]
    for title, rows, details in found:
        text += [f"## {title}", "", *lines(rows), "", *details]
    return "\n".join(text).rstrip() + "\n"


if __name__ == "__main__":
    (DOCS / "evidence.md").write_text(page())
