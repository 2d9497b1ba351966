"""Writes the table of README.md from benchmarks/results (make docs)."""

import importlib.util
import json
import re
from pathlib import Path

DOCS = Path(__file__).parent
PAGE = DOCS.parent / "README.md"
RESULTS = DOCS.parent / "benchmarks" / "results"
MARKED = re.compile(r"(<!-- measured -->\n).*?(<!-- end -->)", re.S)
_spec = importlib.util.spec_from_file_location("comparison", DOCS / "comparison.py")
comparison = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(comparison)


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def named(rows, name):
    return next(row for row in rows if row["name"] == name)


def median(figure):
    return figure["median"]


def fastest(row, form="{:,.0f}"):
    """Ours and the fastest peer of a row of throughput, as text."""
    peers = {name: median(each) for name, each in row["peers"].items()}
    best = max(peers, key=peers.get)
    return form.format(median(row["ours"])), f"{best} {peers[best]:.3g}"


def between(values, form):
    return f"{form.format(min(values))} to {form.format(max(values))}"


def lists(data):
    """NDCG@10 on a data set: our best, the best peer, popularity; medians of the splits."""
    peers = ("implicit", "cornac", "surprise", "myfm", "ratings: ", "random")
    found = {
        name: sorted(run["ndcg_10"] for run in each["tuned"])[len(each["tuned"]) // 2]
        for name, each in read("recommenders")["lists"][data].items()
        if each.get("tuned")
    }
    ours = max((name for name in found if not name.startswith(peers)), key=found.get)
    theirs = max((name for name in found if name.startswith(peers)), key=found.get)
    return (
        f"Lists of {data}, NDCG@10",
        f"{found[ours]:.3f} ({ours})",
        f"{theirs} {found[theirs]:.3f}",
        f"popularity {found['Popular']:.3f}",
        "recommenders.py",
    )


def rows():
    """Task, ours, the best peer, the trivial, and the benchmark that measures them."""
    sketches, calls, noise = read("sketches"), read("small_calls"), read("noise")["rows"]
    counts = fastest(named(sketches["counters"], "CountMin update int"))
    words = fastest(named(sketches["hll"], "HyperLogLog update words"))
    ours = between([median(row["ours"]) for row in noise], "{:.0f}")
    theirs = between([median(row["peers"]["OpenDP"]) for row in noise], "{:.2f}")
    one = named(calls["sketches"], "CountMin.estimate('key 7')")
    models = [row for row in calls["models"] if row["name"].endswith("own items left out")]
    speed = between([median(row["ours"]) for row in models], "{:.0f}")
    implicit = min(median(row["peers"]["implicit"]) for row in models)
    skin = {(row["name"], row["budget"]): row["mean"] for row in read("density")["skin"]["rows"]}
    telemetry = read("telemetry")
    words_off = {row["name"]: row["error"] for row in telemetry["errors"]["rows"]}
    lasso = words_off["RAPPOR counts, the notes' Lasso"]
    peers_off = {row["name"]: row["error"] for row in telemetry["peers"]["rows"]}
    constant = f"the same for all {words_off['the same count for each']:.0%}"
    retail = [row for row in read("itemsets")["pyfim"] if row["set"] == "retail"][-1]
    return [
        ("Count-Min updates, million/s", *counts, "", "sketches.py"),
        ("HyperLogLog of words, million/s", *words, "", "sketches.py"),
        (
            "One Count-Min estimate, us",
            f"{median(one['ours']):.1f}",
            f"datasketches {median(one['peers']['datasketches']):.2f}",
            "",
            "small_calls.py",
        ),
        ("Exact noise, million draws/s", ours, f"OpenDP {theirs}", "", "noise.py"),
        lists("MovieLens-1M"),
        lists("Last.fm"),
        ("One list of ten, us", speed, f"implicit {implicit:.0f}", "", "small_calls.py"),
        (
            "Kernel means of skin, epsilon 0.1, error",
            f"{skin['auto', '0.1']:.2%}",
            f"RACE of its paper {skin['RACE of the paper, R = 1024', '0.1']:.1%}",
            f"constant {skin['constant', 'none']:.0%}",
            "density.py",
        ),
        (
            "RAPPOR, ten words at epsilon 2.2, error",
            f"{words_off['RAPPOR counts, weighted']:.1%}",
            f"Lasso of its paper {lasso:.1%}",
            constant,
            "telemetry.py",
        ),
        (
            "The same words by subset selection, error",
            f"{words_off['subset selection, known words']:.1%}",
            f"multi-freq-ldpy {peers_off['multi-freq-ldpy, subset selection']:.1%}",
            constant,
            "telemetry.py",
        ),
        (
            f"Itemsets of retail at {retail['support']:.2%}, ms",
            f"{retail['ours_ms']:.0f}",
            f"pyfim {retail['pyfim_ms']:.0f}",
            "",
            "itemsets.py",
        ),
    ]


def section():
    """The table, and how often we win, tie and lose."""
    lines = ["| task | ours | best peer | trivial | `benchmarks/` |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows()]
    every = [row for each in comparison.rooms().values() for row in comparison.judged(each)]
    (won, tied, lost, none), trivial = (
        comparison.counted(every, kind) for kind in ("peers", "trivial")
    )
    lines += [
        "",
        f"[The comparison](docs/comparison.md) adds {len(every)} rows of accuracy, with three "
        "seeds or more each.",
        f"Against peers: {won} won, {tied} tied, {lost} lost, {none} without a peer.",
        f"Against the trivial: {trivial[0]} won, {trivial[1]} tied, {trivial[2]} lost. "
        "Every loss is named there.",
    ]
    return "\n".join(lines) + "\n"


def page():
    """README.md with the figures of the last measurements."""
    return MARKED.sub(lambda found: found[1] + section() + found[2], PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
