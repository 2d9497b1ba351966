"""Writes docs/rappor.md and its pictures from benchmarks/results (make docs)."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("factorization", DOCS / "factorization.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
read, table, plots = _shared.read, _shared.table, _shared.plots
BLUE, ORANGE, GREY = _shared.BLUE, _shared.ORANGE, _shared.GREY
SEED = {  # table 6.4 of the notes: true and estimated
    "of": (37436, 35874), "and": (29366, 25143), "to": (26603, 21019), "a": (23654, 30465),
    "in": (21928, 18008), "that": (10687, 14046), "he": (9598, 11596), "for": (9592, 10458),
    "with": (7561, 8939), "as": (7394, 5216),
}  # fmt: skip


def percent(value, digits=1):
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def whole(value):
    return "-" if value is None else f"{value:,.0f}"


def errors(found):
    """Every method and scheme at one epsilon."""
    rows = [
        (
            row["name"],
            row["runs"],
            percent(row["error"]),
            percent(row.get("error_at_bound")),
            whole(row["standard_error"]),
            whole(row.get("bound")),
            f"{row['of_counts']:.2f}",
            percent(row.get("coverage")),
            "-" if row["bytes"] is None else row["bytes"],
        )
        for row in found["rows"]
    ]
    header = (
        "200 candidates",
        "runs",
        "error, ten words",
        "at the bound",
        "standard error",
        "bound",
        "of RAPPOR counts'",
        "95 % intervals cover",
        "bytes",
    )
    return table(header, rows)


def peers(found):
    rows = [
        (row["name"], row["runs"], percent(row["error"]), f"{row['seconds']:.0f}")
        for row in found["rows"]
    ]
    return table(("peer", "runs", "error, ten words", "seconds a run"), rows)


def ten(found):
    """Table 6.4 of the notes beside one run of ours."""
    ours = {row["word"]: row for row in found["rows"]}
    rows = [
        (
            word,
            whole(ours[word]["true"]),
            whole(ours[word]["estimate"]),
            f"{whole(ours[word]['low'])} to {whole(ours[word]['high'])}",
            percent(abs(ours[word]["estimate"] / ours[word]["true"] - 1)),
            f"{true:,} / {estimate:,}",
            percent(abs(estimate / true - 1)),
        )
        for word, (true, estimate) in SEED.items()
        if word in ours
    ]
    header = ("word", "true", "estimated", "95 % interval", "off by", "the notes'", "off by")
    return table(header, rows)


def detected(found):
    rows = [
        (
            row["name"],
            percent(row["precision"]),
            percent(row["worst_precision"]),
            percent(row["recall"]),
            f"{percent(row['recall_above_own'])} of {row['above_own']:.1f}",
            f"{percent(row['recall_of_visible'])} of {row['visible']:.0f}",
            f"{row['found']:.1f}",
        )
        for row in found["rows"]
    ]
    header = (
        f"level {found['level']}",
        "precision",
        "worst run",
        "recall of 200",
        "recall above 4 of its own standard errors",
        "above 4 of the least possible",
        "found",
    )
    return table(header, rows)


def near(found):
    rows = [
        (
            row["name"],
            f"{row['above_bound']:.3f}",
            f"{row['standard_error'] / row['bound']:.3f}",
            percent(row["coverage"]),
            percent(row["error"]),
        )
        for row in found["rows"]
    ]
    header = ("100 candidates", "observed / bound", "ten words", "95 % cover", "error, ten words")
    return table(header, rows)


def beside(found):
    rows = [
        (
            f"{row['name']}, cells {'drawn anew' if row['anew'] else 'fixed'}",
            row["runs"],
            percent(row["error"]),
            whole(row["standard_error"]),
            percent(row["coverage"]) if "coverage" in row else "-",
        )
        for row in found["rows"]
    ]
    header = ("200 true and 200 absent", "runs", "error, ten words", "standard error", "95 % cover")
    return table(header, rows)


def by_epsilon(found):
    """Errors of every scheme by its defaults on the first column, at each epsilon."""
    rows = [row for row in found["rows"] if row["data"] == found["rows"][0]["data"]]
    errors = [row for row in rows if row["better"] == "lower"]
    settings = sorted({row["setting"] for row in errors}, key=lambda name: float(name.split()[1]))
    own = {(row["model"], row["setting"]): row["ours"]["median"] for row in errors}
    models = list(dict.fromkeys(row["model"] for row in errors))
    best = [
        min((each["median"], name) for name, each in row["peers"].items() if "median" in each)
        for row in (next(row for row in errors if row["setting"] == each) for each in settings)
    ]
    cells = [(model, *(whole(own[model, each]) for each in settings)) for model in models]
    cells.append(("best peer", *(f"{whole(error)}, {name}" for error, name in best)))
    return table(("root mean square error of counts", *settings), cells)


def swept(found):
    rows = []
    for parameter, letter in (("bits", "k"), ("hashes", "h"), ("cohorts", "m")):
        own = [row for row in found["rows"] if row["parameter"] == parameter]
        for value in dict.fromkeys(row["value"] for row in own):
            both = {row["method"]: row for row in own if row["value"] == value}
            result = (
                f"{percent(both[way]['precision'])} / {percent(both[way]['recall'])}"
                for way in ("lasso", "weighted")
            )
            observed = both["weighted"]
            visible = f"{percent(observed['recall_of_visible'])} of {observed['visible']:.0f}"
            rows.append((f"{letter} = {value}", f"{observed['f']:.3f}", *result, visible))
    header = (
        "",
        "f",
        "Lasso: precision / recall",
        "weighted: precision / recall",
        "weighted, above 4 of the least possible standard errors",
    )
    return table(header, rows)


def sizes(found):
    rows = [
        (f"{row['candidates']:,}", f"{row['seconds']:.1f}", f"{row['gigabytes']:.2f}", row["rank"])
        for row in found["rows"]
    ]
    return table(("candidates, k = 128, m = 64", "seconds", "GB at most", "rank"), rows)


def allowed(found):
    furthest = {key: max(row[key] for row in found["rows"]) for key in ("l1", "linf")}
    rows = [
        (name, whole(furthest[key]), whole(found[f"{key}_allowed"]))
        for name, key in (("sum of errors", "l1"), ("largest error", "linf"))
    ]
    return table((f"worst of {len(found['rows'])} runs", "ours", "allowed"), rows)


def speeds(found):
    rows = [
        (
            row["name"],
            f"{row['ours']['median']:.2f} ({row['ours']['low']:.2f}-{row['ours']['high']:.2f})",
            "-" if row["target"] is None else f">= {row['target']}",
            "-" if row["ceiling"] is None else f"{row['ceiling']:.1f}",
            "; ".join(
                f"{name} {each['median']:.3f}" for name, each in row["peers"].items()
                if "median" in each
            ) or "-",
        )
        for row in found["rows"]
    ]  # fmt: skip
    return table(("one thread", "million a second", "target", "ceiling", "peer"), rows)


def page():
    """The text of docs/rappor.md."""
    found, fast = read("telemetry"), read("telemetry_speed")
    of, main = found["machine"], found["errors"]
    lines = [
        "# Telemetry, measured",
        "",
        "Written by `make docs` from the JSON of `python benchmarks/telemetry.py` and",
        f"`python benchmarks/telemetry_speed.py`: {of['cpu']}, Python {of['python']}. How to use",
        "it: [telemetry](telemetry.md).",
        "",
        *(DOCS / "rappor_notes.md").read_text().splitlines(),
        "",
        "## Errors at one epsilon",
        "",
        f"{main['data']}: {main['reports']:,} tokens, each a client that reports once,",
        f"epsilon {main['epsilon']:.3f}. RAPPOR with k = 48, h = 2, m = 8, f = 0.73. Error: mean",
        "absolute relative error of the notes' ten words (its own table: 19.5 %); at the bound:",
        "what an efficient estimate has on average; standard errors are of counts, means over the",
        "ten words.",
        "",
        *errors(main),
        "",
        *peers(found["peers"]),
        "",
        "### Defaults at each epsilon",
        "",
        "Medians of three seeds, 30,000 clients, the 100 most frequent words",
        "(`benchmarks/comparison_telemetry.py`, which compares on seven columns more).",
        "",
        *by_epsilon(read("comparison_telemetry")),
        "",
        "### The notes' table 6.4",
        "",
        *ten(found["table"]),
        "",
        "![Estimated and true counts of the ninety most frequent words](rappor_words.png)",
        "",
        "### Up to a hundred candidates: how near the bound",
        "",
        *near(found["hundred"]),
        "",
        "### With 200 absent candidates beside",
        "",
        "Errors of the true ones. The last rows are of no decoder: they know the list of all true",
        "counts, and have only to say which candidate has which: counts allow hardly less.",
        "",
        *beside(found["beside"]),
        "",
        "## What is found",
        "",
        "200 true candidates, the most frequent words, and 200 that no client has; means of",
        f"{found['found']['rows'][0]['runs']} runs.",
        "",
        *detected(found["found"]),
        "",
        "### Sweeps (figures 3 to 5 of the notes)",
        "",
        f"100 true and 100 absent candidates, means of {found['sweeps']['runs']} runs; f follows h",
        "so that epsilon stays.",
        "",
        *swept(found["sweeps"]),
        "",
        "![Precision and recall over k, h and m](rappor_sweeps.png)",
        "",
        "## Many candidates",
        "",
        *sizes(found["large"]),
        "",
        "## The tolerances of google/rappor",
        "",
        "k = 8, h = 2, m = 32, p = 0.4, q = 0.6, f = 0.5, a Zipf distribution over 100 values,",
        "a million reports: the sum of errors at most 300 sqrt(N), the largest at most",
        "100 sqrt(max).",
        "",
        *allowed(found["published"]),
        "",
        "## Speed",
        "",
        "k = 128, h = 2, m = 64. Ceilings: drawing as many exact coins; reading as many bytes.",
        "",
        *speeds(fast),
    ]
    return "\n".join(lines) + "\n"


def words_picture(path):
    """Figure 6: the first ninety words, true counts and estimates with intervals."""
    plt = plots()
    rows = read("telemetry")["table"]["rows"]
    drawn, axes = plt.subplots(figsize=(11, 4), layout="constrained")
    at = range(len(rows))
    axes.bar(at, [row["true"] for row in rows], color=GREY, alpha=0.5, label="true")
    for result, colour in ((True, BLUE), (False, ORANGE)):
        own = [i for i in at if rows[i]["detected"] == result]
        middle = [rows[i]["estimate"] for i in own]
        low = [max(rows[i]["estimate"] - rows[i]["low"], 0) for i in own]
        high = [max(rows[i]["high"] - rows[i]["estimate"], 0) for i in own]
        label = "detected" if result else "not detected"
        axes.errorbar(own, middle, (low, high), fmt="o", ms=3, lw=1, color=colour, label=label)
    axes.set_xticks(at, [row["word"] for row in rows], rotation=90, fontsize=6)
    axes.set(ylabel="clients", title="6: ninety most frequent words, 95 % intervals, one run")
    axes.margins(x=0.01)
    axes.legend(frameon=False)
    drawn.savefig(path, dpi=130)


def sweeps_picture(path):
    """Figures 3 to 5: precision and recall of the notes' decoder and ours."""
    plt = plots()
    found = read("telemetry")["sweeps"]["rows"]
    drawn, three = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
    titles = (("bits", "3: k"), ("hashes", "4: h"), ("cohorts", "5: m"))
    for axes, (parameter, title) in zip(three, titles, strict=True):
        for method, colour in (("lasso", ORANGE), ("weighted", BLUE)):
            own = [r for r in found if r["parameter"] == parameter and r["method"] == method]
            at = [row["value"] for row in own]
            for key, style in (("precision", "o--"), ("recall", "o-"), ("recall_of_visible", "o:")):
                label = f"{method}, {key.replace('_', ' ')}"
                axes.plot(at, [r[key] for r in own], style, ms=3, color=colour, label=label)
        axes.set(title=title, ylim=(0, 1.03))
        axes.set_xscale("log", base=2)
        axes.set_xticks(at, at)
    three[1].legend(frameon=False, fontsize=7, loc=(0.03, 0.5))
    drawn.savefig(path, dpi=130)


if __name__ == "__main__":
    (DOCS / "rappor.md").write_text(page())
    words_picture(DOCS / "rappor_words.png")
    sweeps_picture(DOCS / "rappor_sweeps.png")
