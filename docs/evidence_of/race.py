"""Rows of the RACE paper, as noted in the source: many of its curves are lost there."""

from evidence_of.rows import NUMBERLESS, SAME, Row, percent, read, table

__all__ = ["details", "race"]

DENSITY = "python benchmarks/density.py"
PAGE = "[race](race.md)"
PAPER = "RACE of the paper, R = 1024"
OURS = "auto"
LOST = "**cannot be compared**: its curves are lost in the source; "
# The paper's tables of data, and what stands for each here.
DATA = [
    ("NYC salaries", "25k, d = 1", "ages of the census", "not available"),
    ("SF salaries", "29k, d = 1", "wages of the census", "not available"),
    ("skin", "241k, d = 3", "skin", "the same"),
    ("codrna", "57k, d = 8", "magic, d = 10", "not available"),
    ("covtype", "580k, d = 55", "cover, d = 10 (two of its classes)", "an extract"),
    ("nomao", "34k, d = 26", "census income, by class", "not available"),
    ("occupancy", "17k, d = 5", "skin, by class", "not available"),
    ("pulsar", "17k, d = 8", "magic, by class", "not available"),
    ("airfoil", "1.4k, d = 9", "airfoil, 1.5k, d = 5", "the same file, other columns counted"),
    ("naval", "11k, d = 16", "elevators", "not available"),
    ("gas", "3.6k, d = 128", "gas, 2.6k, d = 128", "an extract"),
]


def function(found, table_name, name, budget):
    for row in found["functions"]["rows"]:
        if (row["table"], row["name"], row["budget"]) == (table_name, name, budget):
            return row
    raise KeyError((table_name, name, budget))


def score(rows, table_name, name, epsilon):
    chosen = (row for row in rows if row["table"] == table_name and row["name"] == name)
    return next(row["mean"] for row in chosen if row.get("epsilon") == epsilon)


def race():
    """All tables and figures of the paper, in order of their numbers."""
    found = read("density")
    graph = found["graph"]
    exact = next(r for r in graph["rows"] if r["rows"] == 2000 and r["epsilon"] is None)
    private = next(
        r for r in graph["rows"]
        if (r["rows"], r["epsilon"], r["delta"]) == (2000, 1.0, 1e-6)
    )  # fmt: skip
    skin = [
        f"{name} {percent(function(found, 'skin', name, '1')['mean'], 1)}"
        for name in (OURS, PAPER, "trigonometric", "Bernstein", "pair marginals (PrivBayes)")
    ]
    classes, numbers = found["classes"]["rows"], found["numbers"]["rows"]
    build = read("density_speed")["build"]
    scanned = next(row for row in build["rows"] if "skin, d = 3" in row["name"])
    methods = "trigonometric, Bernstein, PFDA, kernel mean embedding, PrivBayes, MWEM"
    return [
        Row("Table 1", "error bounds of related methods", "asymptotic bounds of six methods",
            f"measured beside ours: {methods}",
            "the bounds are theory; the methods were built for comparison and run", DENSITY, PAGE),
        Row("Table 2", "data", "eleven tables", "see below",
            "**partly**: seven of eleven are not available, two are extracts", DENSITY, PAGE),
        Row("Table 3", "seconds on skin", "RACE 15 s to sketch, 0.4 ms a query; PFDA > 3 days",
            f"RACE {scanned['seconds']:.2f} s, "
            f"{function(found, 'skin', PAPER, '1')['query_seconds'] * 1e6:.0f} us",
            f"{SAME} in order; our sketch is {build['paper_seconds'] / scanned['seconds']:.0f} "
            "times faster, and so are our versions of their peers",
            "python benchmarks/density_speed.py", PAGE),
        Row("Table 4", "large graphs", "Google Plus 72.3K nodes, 13M edges: 31 s, 238 us a query; "
            "Friendster 18 minutes",
            f"Slashdot {graph['nodes']:,} lists, {graph['edges']:,} edges: "
            f"{exact['build_seconds']:.1f} s, {exact['query_seconds'] * 1e6:.0f} us",
            "Slashdot only: the other graphs are not available. The source's rows are merged into "
            "one", DENSITY, PAGE),
        Row("Figure 1", "algorithm 1 on a 3 x 6 sketch", "one cell of each row gains 1",
            "the same: a test holds `Race` to one cell of each row", SAME,
            "python -m pytest tests/sketch/lsh/test_race.py", "[density](density.md)"),
        Row("Figure 2", "density map without and with noise", NUMBERLESS,
            "[race_map.png](race_map.png), d = 2, epsilon none and 0.1", "drawn alike", DENSITY,
            PAGE),
        Row("Figure 3", "error of a released function over epsilon", NUMBERLESS,
            "skin, epsilon 1, mean relative error: " + ", ".join(skin),
            LOST + "here our default has the smallest error", DENSITY, PAGE),
        Row("Figure 4", "accuracy of classes over epsilon", NUMBERLESS,
            "epsilon 1, magic / skin: sketch "
            f"{score(classes, 'magic', 'sketch', 1.0):.3f} / "
            f"{score(classes, 'skin', 'sketch', 1.0):.3f}; kernel sums (the paper's) "
            f"{score(classes, 'magic', 'sketch, kernel sums', 1.0):.3f} / "
            f"{score(classes, 'skin', 'sketch, kernel sums', 1.0):.3f}; diffprivlib "
            f"{score(classes, 'magic', 'diffprivlib logistic, norm of the box', 1.0):.3f} / "
            f"{score(classes, 'skin', 'diffprivlib logistic, norm of the box', 1.0):.3f}",
            LOST + "here the paper's classifier loses to the largest class on magic, so columns "
            "are the default", DENSITY, PAGE),
        Row("Figure 5", "regression over epsilon", NUMBERLESS,
            "R2 on airfoil, epsilon 1 / 10: statistics "
            f"{score(numbers, 'airfoil', 'statistics', 1.0):.2f} / "
            f"{score(numbers, 'airfoil', 'statistics', 10.0):.2f}; surrogate (the paper's) "
            f"{score(numbers, 'airfoil', 'surrogate', 1.0):.2f} / "
            f"{score(numbers, 'airfoil', 'surrogate', 10.0):.2f}",
            LOST + "here the paper's surrogate loss is the weakest of three", DENSITY, PAGE),
        Row("Figure 6", "Jaccard density of a graph", NUMBERLESS,
            f"Slashdot, R = 2,000, W = 100,000: mean error {percent(exact['mean'], 1)} without "
            f"privacy, {percent(private['mean'], 0)} at epsilon 1, delta 1e-6 (median "
            f"{percent(private['median'], 0)})",
            LOST + "nodes of few edges drown in noise", DENSITY, PAGE),
    ]  # fmt: skip


def details():
    """The data of table 2, one by one."""
    header = ("data of table 2", "paper", "here", "why")
    return [*table(header, DATA), ""]
