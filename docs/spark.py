"""Writes docs/spark.md from benchmarks/results/spark.json (make docs)."""

import json
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
INTRODUCTION = """# Spark, measured

Written by `make docs` from the JSON of `python benchmarks/spark.py`: {cpu}, two cores,
Python {python}, Numba {numba}, pyspark 3.5. How to use it: [engines](engines.md).
"""
ERRORS = {
    "relative_error": "relative error {:.4f}",
    "mean_error": "{:,.1f} too many a key",
    "bytes": "{:,} bytes",
    "itemsets": "{:,} itemsets",
    "pairs": "{:,} pairs",
    "planted_found": "{:.1%} of the planted pairs",
    "rmse": "RMSE {:.4f}",
    "recall_at_10": "recall@10 {:.4f}",
}


def table(header, rows):
    return [
        f"| {' | '.join(header)} |",
        f"|{'---|' * len(header)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def equal(rows):
    shown = []
    for row in rows:
        found = "equal" if row["equal"] else "**not equal**"
        if "spark" in row:
            found = f"{row['spark']:.4f}, on one machine {row['local']:.4f}"
        elif "difference" in row:
            found = f"{row['difference']:.1e}"
        shown.append((row["name"], str(row["asked"]), found))
    return table(("result on Spark", "asked", "found"), shown)


def moved(rows):
    shown = [
        (
            row["sketch"],
            f"{row['rows']:,}",
            str(row["partitions"]),
            f"{row['sketch_bytes']:,}",
            f"{row['moved_bytes']:,}",
            f"{row['sketches_moved']:.1f}",
        )
        for row in rows
    ]
    header = ("sketch", "rows", "partitions", "bytes of it", "bytes moved", "sketches moved")
    return table(header, shown)


def overhead(found):
    shown = [
        (
            str(row["partitions"]),
            str(row["stages"]),
            str(row["tasks"]),
            f"{row['seconds']:.2f} ({row['low']:.2f}-{row['high']:.2f})",
        )
        for row in found["rows"]
    ]
    each = found["seconds"]
    return [
        *table(("partitions", "stages", "tasks", "seconds"), shown),
        "",
        f"Fitted: {1e3 * each['job']:.0f} ms a job,",
        f"{1e3 * each['task_on_two_cores']:.1f} ms a task on two cores,",
        f"{1e3 * each['level_of_the_tree']:.0f} ms for the second level of the tree.",
    ]


def _quality(found):
    texts = [text.format(found[name]) for name, text in ERRORS.items() if name in found]
    return ", ".join(texts) or "-"


def peers(rows):
    shown = []
    for row in rows:
        for name in ("ours", "spark", "exact"):
            if name in row:
                each = row[name]
                shown.append(
                    (
                        row["name"] if name == "ours" else "",
                        {"ours": "Sfumato", "spark": "Spark's own", "exact": "exact"}[name],
                        f"{each['seconds']:.2f} ({each['low']:.2f}-{each['high']:.2f})",
                        f"{each['mib']:,.0f}",
                        f"{each['moved_bytes']:,}",
                        _quality(each),
                    )
                )
        for name, value in row.get("trivial", {}).items():
            shown.append(("", "trivial", "-", "-", "-", f"{name} {value:.4f}"))
    header = ("work", "by", "seconds", "MiB more", "bytes moved", "quality")
    return table(header, shown)


def scale(found):
    held_out = [
        (
            row["sketch"],
            f"{row['rows']:,}",
            str(row["partitions"]),
            f"{row['seconds']:.2f} ({row['low']:.2f}-{row['high']:.2f})",
            f"{row['predicted']:.2f}",
            f"{row['off']:+.0%}",
        )
        for row in found["measured"]
        if row["held_out"]
    ]
    each = found["seconds"]
    terms = "; ".join(f"{name}: {value:.3g} s" for name, value in each.items())
    clusters = [
        (
            row["sketch"],
            str(row["billions"]),
            f"{row['cores']:,}",
            f"{row['partitions']:,}",
            f"{row['seconds']:,.0f}",
            f"{row['dollars']:.2f}",
        )
        for row in found["clusters"]
    ]
    return [
        "Seconds = job + task * tasks / cores + row * rows / cores + byte merged * bytes on the",
        "longest way through the tree, each coefficient fitted to eight sizes by least squares of",
        f"relative errors ({terms}). On sizes that it has not met:",
        "",
        *table(("sketch", "rows", "partitions", "seconds", "predicted", "off"), held_out),
        "",
        "What follows for clusters, if",
        "",
        *(f"- {text};" for text in found["assumptions"]),
        "",
        *table(("sketch", "billions", "cores", "tasks", "seconds", "dollars"), clusters),
    ]


def page():
    """The text of docs/spark.md."""
    found = json.loads((RESULTS / "spark.json").read_text())
    lines = [
        INTRODUCTION.format(**found["machine"]),
        "## Equal to one machine",
        "",
        *equal(found["equal"]),
        "",
        "## Bytes moved, by Spark's metrics of shuffles and of results",
        "",
        *moved(found["moved"]),
        "",
        "At most the sketches of all partitions and of the tasks that merge them travel, and some",
        "kilobytes a task of Spark's own. Spark compresses them, so sketches that are still nearly",
        "empty take less; more rows add nothing once they are full.",
        "",
        "## Overhead: jobs of 6,400 rows",
        "",
        *overhead(found["overhead"]),
        "",
        "## Beside Spark's own functions",
        "",
        "Same files, same two cores, in turn; median of three rounds after one that is not",
        "counted. MiB more is the growth of all processes meanwhile. Ours starts workers of",
        "Python, to which Spark sends rows as Arrow; Spark's own run inside Java.",
        "",
        *peers(found["peers"]),
        "",
        "## Time and cost at scale",
        "",
        *scale(found["scale"]),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (DOCS / "spark.md").write_text(page())
