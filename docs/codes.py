"""Writes docs/codes.md and its pictures from benchmarks/results (make docs)."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("factorization", DOCS / "factorization.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
read, table, plots = _shared.read, _shared.table, _shared.plots
COLOURS = (
    _shared.GREY,
    _shared.GREEN,
    _shared.BLUE,
    _shared.ORANGE,
    _shared.RED,
)
RECALLS = ("R@1", "R@10", "R@100", "10@10")


def ranged(summary, digits):
    """Median and spread of several runs."""
    low, high = (format(summary[end], digits) for end in ("low", "high"))
    return f"{summary['median']:{digits}} ({low}-{high})"


def speeds(found):
    """The scan beside faiss, its bandwidth, and the encoder."""
    scan = [
        (
            f"top 1000 of 1,000,000 codes, {row['name']}",
            f"{ranged(row['ours'], ',.0f')} q/s",
            f"faiss {ranged(row['faiss'], ',.0f')} q/s",
            f"{ranged(row['ratio'], '.2f')} times",
            f">= {row['target']} times",
        )
        for row in found["scan"]
    ]
    wide = found["bandwidth"]
    scan.append(
        (
            f"one query over {wide['codes']:,} codes",
            f"{ranged(wide['gb_a_second'], '.1f')} GB/s",
            f"reading alone {ranged(wide['ceiling_gb_a_second'], '.1f')} GB/s",
            f"{ranged(wide['share'], '.2f')} of it",
            f">= {wide['target']:.2f}",
        )
    )
    for row in found["encoding"]:
        target = "-" if row["target"] is None else f"<= {row['target']} us"
        taken = f"{ranged(row['microseconds'], '.2f')} us"
        name = f"qoLSH of a vector, d = 128, L = 256, M = {row['flips']}"
        scan.append((name, taken, "-", "-", target))
    return table(("one thread", "ours", "beside it", "ratio", "target"), scan)


def recalls(found):
    lines = []
    for each in found["recall"]:
        rows = [
            (
                row["name"],
                row["bytes"],
                *(f"{row[key]:.3f}" for key in RECALLS),
                f"{row['ms_a_query']:.2f}",
                f"{row['build_seconds']:.0f}",
            )
            for row in each["rows"]
        ]
        tried = ", ".join(f"{m}: {r:.3f}" for m, r in each["chosen"]["tried"].items())
        lines += [
            f"### {each['data']}, {each['queries']:,} queries",
            "",
            f"Flips chosen by R@1 of 2,000 other queries among at most 200,000 rows ({tried}).",
            "",
            *compared(each["rows"]),
            "",
            *table(("code", "bytes", *RECALLS, "ms a query", "build, s"), rows),
            "",
        ]
    return lines


def catalogues(found):
    """A million items: what an index of the model saves, and what it misses."""
    lines = []
    for each in found:
        lines += [f"Model: {TITLES.get(each['data'], each['data'])}.", "", *catalogue(each), ""]
    return lines


TITLES = {
    "generated ratings": "dense factors learned from 20 million generated ratings, 20 an item",
    "movielens-1m": "dense factors of MovieLens-1M, items drawn again a million times with noise",
}


def catalogue(found):
    rows = [
        (
            row["name"],
            ranged(row["together_ms"], ".2f"),
            ranged(row["alone_ms"], ".2f"),
            f"{row['recall']:.3f}" if "recall" in row else "1",
            f"{row['touched']:.2%}" if "touched" in row else "100 %",
            f"{row['nbytes'] / 2**20:.0f}" if "nbytes" in row else "-",
            f"{row['build_seconds']:.1f}" if "nbytes" in row else "-",
        )
        for row in found["rows"]
    ]
    header = (
        "",
        f"ms a user, {found['users']} at once",
        "ms, one at a time",
        "recall@10",
        "of the items scored or compared",
        "MiB",
        "build, s",
    )
    return table(header, rows)


def compared(rows):
    """The targets for these codes, beside what was measured."""
    first = {row["name"]: row["R@1"] for row in rows}
    best = first["learned, 320 bits"]
    result = [
        ("RaBitQ of 40 bytes", first["faiss RaBitQ, 1 bit of 256 turned dimensions"], 4),
        ("qoLSH as published", first["qoLSH as published, 10 flips"], 8),
    ]
    beyond = "; ".join(
        f"{100 * (best - other):.1f} points above {name}, target {least}"
        for name, other, least in result
    )
    exact = first["tight frame, Hamming, 1000 ranked exactly"]
    return [
        f"Our best code of 40 bytes has R@1 {best:.3f}: {beyond}. With 1000 of a Hamming scan",
        f"ranked exactly it is {exact:.3f}, target 0.99.",
    ]


def sketches(thesis):
    """Table 5.1 beside the thesis'."""
    rows = [
        (
            row["method"],
            *(
                f"{row[key]['mean']:.3f} ({row[key]['low']:.3f}-{row[key]['high']:.3f})"
                for key in ("mse", "entropy")
            ),
            f"{row['microseconds']['mean']:.2f}",
            f"{row['thesis']['mse']:.3f} / {row['thesis']['entropy']} / "
            f"{row['thesis']['microseconds']:,.2f}",
            f"{row['mse']['mean'] / row['thesis']['mse'] - 1:+.1%} / "
            f"{row['entropy']['mean'] / row['thesis']['entropy'] - 1:+.1%}",
        )
        for row in thesis["table_5_1"]
    ]
    header = ("sketch", "MSE", "entropy, bits", "us a vector", "thesis", "MSE / entropy off by")
    return table(header, rows)


def binary(found):
    """Factors coded after learning, and learned as codes: one row a way, a column a length."""
    lines = []
    for part, key, title in (
        ("lists", "ndcg", "NDCG@10 of what users liked, all unseen items ranked"),
        ("ratings", "rmse", "RMSE of ratings"),
    ):
        rows = found[part]["rows"]
        lengths = sorted({row["bits"] for row in rows if row["bits"]})
        names = list(dict.fromkeys(row["name"] for row in rows))
        result = {(row["name"], row["bits"]): row for row in rows}
        body = []
        for name in names:
            own = [result.get((name, bits), result.get((name, None))) for bits in lengths]
            sizes = " / ".join(str(each["bytes"][1]) for each in own if each)
            figures = (f"{each[key]['mean']:.3f}" if each else "-" for each in own)
            body.append((name, *figures, sizes))
        header = (title, *(f"{bits} bits" for bits in lengths), "bytes an item")
        lines += [*table(header, body), ""]
    return lines


def page():
    """The text of docs/codes.md."""
    found, thesis = read("retrieval"), read("thesis_ch5")
    of = found["machine"]
    lines = [
        "# Binary codes, measured",
        "",
        "Written by `make docs` from the JSON of `python benchmarks/retrieval.py`,",
        "`python benchmarks/thesis_ch5.py` and `python benchmarks/binary_factors.py`:",
        f"{of['cpu']}, Python {of['python']}, one thread. What the codes and the index are:",
        "[retrieval](retrieval.md).",
        "",
        *(DOCS / "codes_notes.md").read_text().splitlines(),
        "",
        "## Speed",
        "",
        *speeds(found),
        "",
        "## Recall",
        "",
        "Unit vectors, neighbours by cosine. R@R: the true nearest neighbour is among the first R",
        "found; 10@10: of the ten nearest, how many are among the first ten. Bytes are those of",
        "code and factor; besides, an index keeps 8 for the id, 4 for a plain code's 1 / |W b|,",
        "which its bits tell too, and the vectors where ranking is exact.",
        "",
        *recalls(found),
        "## A recommender's catalogue of a million items",
        "",
        "`model.index()`, one thread; products become cosines by lifting. Recall: of the model's",
        "own ten best, of 500 users.",
        "",
        *catalogues(found["catalogue"]),
        "## Factors learned as binary codes (2.3.5, 6.2)",
        "",
        *(DOCS / "binary_notes.md").read_text().splitlines(),
        "",
        *binary(read("binary_factors")),
        "## Table 5.1 of the thesis",
        "",
        "1,000,000 vectors uniform on the sphere, d = 8, L = 16, qoLSH with 5 flips; means over",
        "five frames (low-high). MSE = 2 - 2 cos.",
        "",
        *sketches(thesis),
        "",
        "## Figures 5.1 and 5.2 of the thesis",
        "",
        "![Bias and quantiles of the estimated cosine](cosine_bias.png)",
        "![Recall at R](recall.png)",
    ]
    return "\n".join(lines) + "\n"


def bias(path):
    """Figure 5.1: mean, 5 % and 95 % quantiles of estimated less true cosine."""
    plt = plots()
    curves = read("thesis_ch5")["figure_5_1"]
    drawn, axes = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    for colour, (name, points) in zip(COLOURS, curves.items(), strict=True):
        at = [point["cosine"] for point in points]
        for key, style in (("mean", "-"), ("low", "--"), ("high", "-.")):
            label = name if key == "mean" else None
            axes.plot(at, [point[key] for point in points], style, color=colour, label=label, lw=1)
    axes.axhline(0, color="black", lw=0.5)
    axes.set(xlabel="true cosine", ylabel="estimated less true cosine")
    axes.set_title("5.1 mean (line), 5 % (dashes) and 95 % (dots), d = 128, L = 256")
    axes.legend(frameon=False)
    drawn.savefig(path, dpi=130)


def recall(path):
    """Figure 5.2: recall@R after a short-list of 1000."""
    plt = plots()
    found = read("thesis_ch5")["figure_5_2"]
    drawn, both = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    parts = (
        ("sphere, 1,000,000 x 8, L = 16", found["synthetic"]),
        (f"{found['descriptors']['data']}, L = 256", found["descriptors"]["curves"]),
    )
    for axes, (title, curves) in zip(both, parts, strict=True):
        for colour, (name, values) in zip(COLOURS, curves.items(), strict=True):
            axes.plot(found["ranks"], values, "o-", ms=3, color=colour, label=name)
        axes.set_xscale("log")
        axes.set(title=title, xlabel="R")
        axes.legend(frameon=False, fontsize=7)
    both[0].set_ylabel("5.2 recall@R")
    drawn.savefig(path, dpi=130)


if __name__ == "__main__":
    (DOCS / "codes.md").write_text(page())
    bias(DOCS / "cosine_bias.png")
    recall(DOCS / "recall.png")
