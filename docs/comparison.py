"""Writes docs/comparison.md from benchmarks/results/comparison_*.json (make docs)."""

import importlib.util
import json
from itertools import groupby
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
_spec = importlib.util.spec_from_file_location("factorization", DOCS / "factorization.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
table = _shared.table
KINDS = ("peers", "trivial", "references")
MEASURES = {"10@10": "share of the ten nearest among ten found"}
RESULT = {"win": "win", "tie": "tie", "loss": "**loss**", None: "none"}
HEAD = """# Comparison with peers and with the trivial

Models of {rooms} rooms, each on at least four data sets. A figure is the median of three seeds (of
five or more where a benchmark states it). The lowest and the highest
are in parentheses. What has no randomness has one figure.

- **Peers** solve the same task under the same guarantee: other packages, or other known methods.
- **Trivial** answers need no model: a constant, the most frequent class, popularity, noise alone.
- **References** have another guarantee, mostly none: models without privacy beside a private one,
  or an oracle. To be behind one is the price of privacy. It is counted apart, and named too.

**When is it a tie?** A row is a **win** if every seed of ours is better than every seed of the
other. It is a **loss** if every seed is worse. If the two ranges overlap, it is a **tie**. Against
several peers a row is a win if all are beaten, and a loss if one is ahead. Chance alone makes a win
or a loss of one row in ten between equal methods with three seeds each, and of more rows where one
side has a single figure.

Settings that are no defaults stand apart, after the tables of their room, and are not counted.

Settings were chosen on the data that are named above each table. This page is written by
`python docs/comparison.py` from the JSON of `python benchmarks/comparison_ROOM.py`.
"""


def text(value):
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def spread(figure):
    low, high = text(figure["low"]), text(figure["high"])
    return text(figure["median"]) + (f" ({low}-{high})" if low != high else "")


def others(row, kind):
    """What was measured beside us: name and figure, those without privacy among references."""
    private = "epsilon" in row["setting"] and "infinity" not in row["setting"]
    found = {}
    for stored in KINDS:
        for name, figure in row.get(stored, {}).items():
            apart = private and name.endswith(", no privacy")
            if "missing" not in figure and ("references" if apart else stored) == kind:
                found[name] = figure
    return found


def best(figures, better):
    """Name and figure of the best by its median; None if there is none."""
    choose = max if better == "higher" else min
    return choose(figures.items(), key=lambda pair: pair[1]["median"]) if figures else None


def outcome(ours, other, better):
    """Whether we win, tie or lose: only a difference beyond the ranges of the seeds counts."""
    ahead, behind = ours["low"] > other["high"], ours["high"] < other["low"]
    if better == "lower":
        ahead, behind = behind, ahead
    return "win" if ahead else "loss" if behind else "tie"


def beaten_by(row, kind):
    """All of a kind that are ahead of us, the best first."""
    ahead = {
        name: figure
        for name, figure in others(row, kind).items()
        if outcome(row["ours"], figure, row["better"]) == "loss"
    }
    sign = -1 if row["better"] == "higher" else 1
    return dict(sorted(ahead.items(), key=lambda pair: sign * pair[1]["median"]))


def result(row, kind):
    """Win, tie or loss against all of a kind; None if none was measured."""
    found = {outcome(row["ours"], each, row["better"]) for each in others(row, kind).values()}
    if not found:
        return None
    return "loss" if "loss" in found else "tie" if "tie" in found else "win"


def counted(rows, kind):
    """Wins, ties, losses, and rows where nothing was measured."""
    results = [result(row, kind) for row in rows]
    return [results.count(each) for each in ("win", "tie", "loss", None)]


def summary(groups, first):
    """One line a group of rows: wins, ties and losses against each kind."""
    header = (*first, "rows", "peers", "no peer", "trivial", "references")
    lines = []
    for names, rows in groups.items():
        found = {kind: counted(rows, kind) for kind in KINDS}
        cells = {
            kind: " / ".join(map(str, each[:3])) if any(each[:3]) else "-"
            for kind, each in found.items()
        }
        without = found["peers"][3] or ""
        lines.append(
            (*names, len(rows), cells["peers"], without, cells["trivial"], cells["references"])
        )
    return table(header, lines)


def by_room(found):
    """The rows of each room, and all."""
    every = [row for rows in found.values() for row in rows]
    return {**{(room,): rows for room, rows in found.items()}, ("all",): every}


def models(found):
    """The rows of each model of each room."""
    groups = {}
    for room, rows in found.items():
        for row in rows:
            groups.setdefault((room, f"`{row['model']}`"), []).append(row)
    return groups


def by_model(rows):
    """Rows of one model and measure together, in the order in which they first come."""
    keys = list(dict.fromkeys((row["model"], row["measure"]) for row in rows))
    order = sorted(rows, key=lambda row: keys.index((row["model"], row["measure"])))
    return groupby(order, key=lambda row: (row["model"], row["measure"], row["better"]))


def losses(found, kind):
    """Every loss to one of a kind, named: a table a room."""
    lines = []
    for room, rows in found.items():
        lost = []
        for (model, _, _), each in by_model(rows):
            for row in each:
                ahead = beaten_by(row, kind)
                if ahead:
                    ours = text(row["ours"]["median"])
                    lost.append((f"`{model}`", row["data"], row["setting"], ours, versus(ahead)))
        if lost:
            header = ("model", "data", "setting", "ours", "ahead of it")
            lines += [f"### {room.capitalize()}: {len(lost)} of {len(rows)}", ""]
            lines += [*table(header, lost), ""]
    return lines


def versus(figures):
    return ", ".join(f"{name} {text(each['median'])}" for name, each in figures.items())


def cell(row, kind):
    other = best(others(row, kind), row["better"])
    return f"{other[0]} {spread(other[1])}" if other else "-"


def section(rows):
    """The tables of a room, one for each model."""
    lines = []
    for (model, measure, better), each in by_model(rows):
        group = list(each)
        chosen = "; ".join(dict.fromkeys(row["chosen_on"] for row in group))
        kinds = [kind for kind in KINDS if any(others(row, kind) for row in group)]
        header = ["data", "setting", "ours"]
        for kind in kinds:
            header += [f"best {kind.removesuffix('s')}" if kind != "trivial" else "trivial", ""]
        body = []
        for row in group:
            found = [
                part for kind in kinds for part in (cell(row, kind), RESULT[result(row, kind)])
            ]
            body.append([row["data"], row["setting"], f"**{spread(row['ours'])}**", *found])
        lines += [f"### `{model}`: {MEASURES.get(measure, measure)}", ""]
        lines += [f"{better.capitalize()} is better. Settings chosen on: {chosen}.", ""]
        lines += [*table(header, body), ""]
    return lines


def missing(rows):
    """Peers that could not be measured, with the reason."""
    reasons = {}
    for row in rows:
        for name, each in row["peers"].items():
            if "missing" in each:
                reasons.setdefault((name, each["missing"]), []).append(row)
    named = [f"{name} ({reason}; {len(rows)} rows)" for (name, reason), rows in reasons.items()]
    return [f"Not measured: {', '.join(named)}.", ""] if named else []


def rooms():
    """The rows of each room."""
    contents = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("comparison_*.json"))]
    return {content["room"]: content["rows"] for content in contents}


def judged(rows):
    """Rows of defaults, which alone are counted."""
    return [row for row in rows if not row.get("aside")]


def apart(rows):
    """Settings that are no defaults, under the reason why they are shown."""
    lines = []
    for reason in dict.fromkeys(row["aside"] for row in rows if row.get("aside")):
        lines += [f"**Not counted.** {reason}", ""]
        lines += section([row for row in rows if row.get("aside") == reason])
    return lines


def page():
    """The page from the last measurements."""
    measured = rooms()
    found = {room: judged(rows) for room, rows in measured.items()}
    lines = [HEAD.format(rooms=len(found))]
    lines += ["## Summary", "", "Wins / ties / losses.", ""]
    lines += [*summary(by_room(found), ["room"]), "", "## Model by model", ""]
    lines += ["Wins / ties / losses.", ""]
    lines += [*summary(models(found), ["room", "model"]), ""]
    lines += ["## Every loss to a peer", "", *losses(found, "peers")]
    lines += ["## Every loss to the trivial", "", *losses(found, "trivial")]
    lines += ["## Every row behind a reference", "", *losses(found, "references")]
    for room, rows in found.items():
        lines += [f"## {room.capitalize()}", "", f"`python benchmarks/comparison_{room}.py`", ""]
        lines += [*missing(rows), *section(rows), *apart(measured[room])]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    (DOCS / "comparison.md").write_text(page())
