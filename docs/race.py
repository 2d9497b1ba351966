"""Writes docs/race.md and its pictures from benchmarks/results (make docs)."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("factorization", DOCS / "factorization.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
read, table = _shared.read, _shared.table
BUDGETS = ("1", "0.1", "0.1, 1e-06", "1, 1e-06", "none")
TABLES = {
    "age": "ages (NYC salaries), d = 1",
    "wage": "wages (SF salaries), d = 1",
    "skin": "skin, d = 3",
    "magic": "magic (codrna), d = 10",
    "cover": "cover (covtype), d = 10",
}


def percent(value, digits=2):
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def at(epsilon, delta=0.0):
    return "none" if epsilon is None else f"{epsilon:g}" + (f", {delta:g}" if delta else "")


def skin(found):
    """Every way at the target budgets."""
    rows = []
    for name in dict.fromkeys(row["name"] for row in found["rows"]):
        own = {row["budget"]: row for row in found["rows"] if row["name"] == name}
        result = (
            f"{percent(own[b]['mean'])} / {percent(own[b]['median'])} / {own[b]['absolute']:.1e}"
            if b in own
            else "-"
            for b in BUDGETS
        )
        size = next(iter(own.values()))
        rows.append((name, *result, f"{size['bytes'] / 2**20:.1f}" if "bytes" in size else "-"))
    target = ("target", "1.3 %", "4 %", "1.6 %", "-", "-", "-")
    header = ("mean / median / MAE", *(f"epsilon {b}" for b in BUDGETS), "MiB")
    return table(header, [target, *rows])


def functions(found):
    """Mean relative errors at three budgets, of every table and way."""
    rows = []
    for name, said in TABLES.items():
        own = [row for row in found["rows"] if row["table"] == name]
        for way in dict.fromkeys(row["name"] for row in own):
            held = {row["budget"]: row for row in own if row["name"] == way}
            result = [
                percent(held[b]["mean"]) if b in held else "-"
                for b in ("0.1", "1", "5", "0.1, 1e-06", "1, 1e-06", "5, 1e-06")
            ]
            if way == "constant":
                result = [percent(held["none"]["mean"])] * 6
            rows.append((said, way, *result))
    header = ("table", "", *(f"epsilon {b}" for b in ("0.1", "1", "5")))
    return table((*header, *(f"{b}, delta 1e-6" for b in ("0.1", "1", "5"))), rows)


def times(found):
    """Table 3 of the paper: seconds to build, microseconds to ask."""
    rows = [
        (
            row["name"],
            f"{row['build_seconds']:.2f}",
            f"{row['release_seconds']:.2f}" if "release_seconds" in row else "-",
            f"{row['first_seconds']:.2f}" if "first_seconds" in row else "-",
            f"{1e6 * row['query_seconds']:.1f}",
        )
        for row in found["rows"]
        if row["table"] == "skin" and row.get("epsilon") == 1.0 and "build_seconds" in row
    ]
    paper = [
        ("PFDA, paper", "> 3 days", "-", "-", "-"),
        ("Bernstein, paper", "2.3 days", "-", "-", "6,200"),
        ("KME, paper", "6 hours", "-", "-", "1,200"),
        ("RACE, paper", "15", "-", "-", "400"),
        ("PrivBayes, paper", "12", "-", "-", "500,000"),
    ]
    header = ("skin", "build, s", "release, s", "first 2,000 answers, s", "then us a query")
    return table(header, [*dict.fromkeys(rows), *paper])


def scores(found, best, digits=4):
    """Accuracy or R2 of every model over epsilon."""
    rows = []
    for name in dict.fromkeys(row["table"] for row in found["rows"]):
        own = [row for row in found["rows"] if row["table"] == name]
        columns = list(
            dict.fromkeys(at(row["epsilon"], row["delta"]) for row in own if "mean" in row)
        )
        for way in dict.fromkeys(row["name"] for row in own):
            held = {
                at(r["epsilon"], r["delta"]): r for r in own if r["name"] == way and "mean" in r
            }
            rows.append((name, way, {c: held[c] for c in columns if c in held}))
    columns = list(dict.fromkeys(c for *_, held in rows for c in held))
    shown = [
        (name, way, *(_spread(held.get(c), digits) for c in columns)) for name, way, held in rows
    ]
    return table(("table", best, *(f"epsilon {c}" for c in columns)), shown)


def _spread(row, digits):
    if row is None:
        return "-"
    if abs(row["mean"]) >= 100:
        return f"{row['mean']:.3g}"
    return f"{row['mean']:.{digits}f} ({row['low']:.{digits}f} to {row['high']:.{digits}f})"


def strange(found):
    rows, ways = [], list(dict.fromkeys((row["name"], row["epsilon"]) for row in found["rows"]))
    for name in dict.fromkeys(row["table"] for row in found["rows"]):
        own = [row for row in found["rows"] if row["table"] == name]
        held = {(row["name"], row["epsilon"]): row["mean"] for row in own}
        unprivate = [v for (way, _), v in held.items() if "no privacy" in way]
        rows.append(
            (
                f"**{name}**" if own[0]["target"] else name,
                f"{own[0]['points']:,} x {own[0]['columns']}",
                *(f"{held[way]:.4f}" if way in held else "-" for way in ways),
                f"{100 * (held['sketch', 1.0] - min(unprivate)):+.1f}",
                f"{100 * (held['sketch', 1.0] - max(unprivate)):+.1f}",
            )
        )
    shown = [at_way(*way) for way in ways]
    return table(("set", "rows", *shown, "points to the worse", "to the better"), rows)


def at_way(name, epsilon):
    return f"{name}, epsilon {at(epsilon)}" if name.startswith("sketch") else name


def nodes(found):
    rows = [
        (
            row["rows"],
            at(row["epsilon"], row["delta"]),
            percent(row["mean"], 1),
            percent(row["median"], 1),
            f"{row['absolute']:.2f}",
            f"{row['build_seconds']:.2f}",
            f"{1e6 * row['query_seconds']:.0f}",
        )
        for row in found["rows"]
    ]
    header = ("rows", "epsilon", "mean relative error", "median", "MAE", "build, s", "query, us")
    return table(header, rows)


def speeds(fast):
    rows = [
        (
            row["name"],
            f"{row['ours']['median']:.1f} ({row['ours']['low']:.1f}-{row['ours']['high']:.1f})",
            "-" if row.get("target") is None else row["target"],
            f"{row['ceiling']:.0f}" if row.get("ceiling") else "-",
            f"{row['seconds']:.2f}" if "seconds" in row else "-",
        )
        for part in ("build", "query")
        for row in fast[part]["rows"]
    ]
    return table(("one thread", "median (low-high)", "target", "ceiling", "seconds"), rows)


def page():
    """The text of docs/race.md."""
    found, fast = read("density"), read("density_speed")
    of = found["machine"]
    lines = [
        "# Density, measured",
        "",
        "Written by `make docs` from the JSON of `python benchmarks/density.py` and",
        f"`python benchmarks/density_speed.py`: {of['cpu']}, Python {of['python']}. How to use it:",
        "[density](density.md).",
        "",
        *(DOCS / "race_notes.md").read_text().splitlines(),
        "",
        "## Kernel means of skin",
        "",
        f"{found['skin']['points']:,} points, {found['skin']['queries']:,} held-out queries,",
        "p-stable kernel of bandwidth 5 on 0 to 255. Means over 10 hashes x 10 draws of noise;",
        "auto (a grid here) and slices: over 10 hashes with a draw of noise each.",
        "",
        *skin(found["skin"]),
        "",
        "## Every way to release a function (figure 3)",
        "",
        "Mean relative error at held-out points; means of 2 runs. Stand-ins for the",
        "paper's tables are named; PFDA and the kernel mean embedding need a delta.",
        "",
        "![Relative error over epsilon](race_functions.png)",
        "",
        *functions(found["functions"]),
        "",
        "### Seconds (table 3)",
        "",
        *times(found["functions"]),
        "",
        "![A density of two columns, without and with noise](race_map.png)",
        "",
        "## Classes (figure 4)",
        "",
        *scores(found["classes"], "accuracy"),
        "",
        "## Numbers (figure 5)",
        "",
        *scores(found["numbers"], "R2", 3),
        "",
        "![Accuracy and R2 over epsilon](race_models.png)",
        "",
        "## Anomalies",
        "",
        "Areas under the curve; the five largest sets in bold are the target ones.",
        "",
        *strange(found["anomalies"]),
        "",
        "## A graph (figure 6, table 4)",
        "",
        f"Slashdot, {found['graph']['nodes']:,} adjacency lists,",
        f"{found['graph']['edges']:,} edges, Jaccard kernel, W = 100,000; relative errors over",
        "2,000 nodes. The best constant has a MAE of",
        f"{found['graph']['constant_absolute']:.1f}.",
        "",
        "![Errors of a graph's density over rows](race_graph.png)",
        "",
        *nodes(found["graph"]),
        "",
        "## Speed",
        "",
        *speeds(fast),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (DOCS / "race.md").write_text(page())
