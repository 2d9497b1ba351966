"""Writes docs/comparison.md from benchmarks/results/comparison_*.json (make docs)."""

import importlib.util
import json
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
_spec = importlib.util.spec_from_file_location("factorization", DOCS / "factorization.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
table = _shared.table
TIE = 0.01  # of the other's figure, or of the variance for R2: a smaller difference is no loss
HEAD = """# Ours, the best peer, and the trivial

Every model of four rooms on at least four data sets: medians of three seeds, five for
`PrivateTableSampler`, with the lowest and the highest. "Best peer" is the best of those that were
measured. "Trivial" is the best of means, a histogram, a constant, one class or the like. A
reference has another guarantee (mostly none): to be behind it is named too, but is no loss to a
trivial baseline. A difference of less than 1 % (of R2: of .01) is a tie. Settings that are no
defaults stand apart and are not counted. Written by
`python docs/comparison.py` from the JSON of `python benchmarks/comparison_ROOM.py`.
"""


def text(value):
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def spread(figure):
    low, high = text(figure["low"]), text(figure["high"])
    return text(figure["median"]) + (f" ({low}-{high})" if low != high else "")


def best(figures, better):
    """Name and figure of the best that is there; None if none is."""
    known = {name: each for name, each in figures.items() if "missing" not in each}
    if not known:
        return None
    choose = max if better == "higher" else min
    return choose(known.items(), key=lambda pair: pair[1]["median"])


def loses(row, other):
    """Whether our median is behind another's by more than a tie."""
    ours, theirs = row["ours"]["median"], other[1]["median"]
    behind = theirs - ours if row["better"] == "higher" else ours - theirs
    unit = 1.0 if row["measure"].startswith("R2") else abs(theirs)
    return behind > TIE * unit


def verdict(row):
    """What we lose to, in words; "" if nothing."""
    words = []
    for kind in ("peers", "trivial"):
        other = best(row[kind], row["better"])
        if other and loses(row, other):
            words.append(f"behind {other[0]}" + (" (trivial)" if kind == "trivial" else ""))
    for name, each in row.get("references", {}).items():
        if loses(row, (name, each)):
            words.append(f"behind the reference {name} {spread(each)}")
    return ", ".join(words)


def cell(row, kind):
    other = best(row[kind], row["better"])
    return f"{other[0]} {spread(other[1])}" if other else "-"


def measure(row):
    setting = f", {row['setting']}" if row["setting"] else ""
    return f"{row['measure']}{setting} ({row['better']} is better)"


def lines(rows):
    header = ("model", "data", "measure", "ours", "best peer", "best trivial", "loss", "chosen on")
    return table(
        header,
        [
            (
                row["model"],
                row["data"],
                measure(row),
                f"**{spread(row['ours'])}**",
                cell(row, "peers"),
                cell(row, "trivial"),
                verdict(row),
                row["chosen_on"],
            )
            for row in rows
        ],
    )


def apart(rows):
    """Settings that are no defaults, each under the reason why it is shown."""
    page = []
    for reason in dict.fromkeys(row["aside"] for row in rows if row.get("aside")):
        page += [reason, "", *lines([row for row in rows if row.get("aside") == reason]), ""]
    return page


def losses(found):
    judged = [(room, row) for room, rows in found.items() for row in rows if not row.get("aside")]
    every = [(room, row, verdict(row)) for room, row in judged]
    behind = [(room, row, words) for room, row, words in every if words]
    trivial = sum("(trivial)" in words for _, _, words in behind)
    summary = (
        f"Of {len(every)} rows, {len(every) - len(behind)} lose to nothing; "
        f"{trivial} lose to a trivial baseline. Each loss is named in its row."
    )
    return [summary, ""]


def main():
    paths = sorted(RESULTS.glob("comparison_*.json"))
    found = {}
    for path in paths:
        content = json.loads(path.read_text())
        found[content["room"]] = content["rows"]
    page = [HEAD, *losses(found)]
    for room, rows in found.items():
        page += [
            f"## {room.capitalize()}",
            "",
            f"`python benchmarks/comparison_{room}.py`",
            "",
            *lines([row for row in rows if not row.get("aside")]),
            "",
            *apart(rows),
        ]
    (DOCS / "comparison.md").write_text("\n".join(page).rstrip() + "\n")


if __name__ == "__main__":
    main()
