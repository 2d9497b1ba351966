"""Writes docs/benchmarks.md, speed.png and audits.png from benchmarks/results (make docs)."""

import json
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
TITLES = {
    "counters": "Count-Min and count sketch, 4 x 2^18",
    "bloom": "Bloom filters, 10 million keys at 1 %",
    "hll": "HyperLogLog, 2^14 registers, and the hash alone",
    "minhash": "MinHash, 128 values, flat tokens",
}
OWN_MACHINE = """
## On your machine

`sfumato bench` measures a case or more of each room in this way, on generated data, beside the
peers that are installed: `bench/bench.html` shows the ratios and the ceilings, `bench/bench.json`
holds them, and the next run in the same folder marks each ratio that left the spread of this one.
`--quick` takes fewer items, `--only sketch` or `--only mine/pagerank` some of the cases. A peer
that is not installed has no ratio, and the report says so; `make .venv/bench` installs those of
this page. The whole suite behind this page is `make bench`, which takes hours and the real data.
""".rstrip().splitlines()


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def figure(value):
    if value < 1:
        return f"{value:.2g}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def peers(row):
    found = {
        name: "missing" if "missing" in peer else figure(peer["median"])
        for name, peer in row.get("peers", {}).items()
    }
    return ", ".join(f"{name} {value}" for name, value in found.items()) or "-"


def speed_table(rows):
    lines = ["| | M/s (low-high) | target | ceiling | peers |", "|---|---|---|---|---|"]
    for row in rows:
        ours = row["ours"]
        spread = f"{figure(ours['median'])} ({figure(ours['low'])}-{figure(ours['high'])})"
        ceiling = figure(row["ceiling"]) if row.get("ceiling") else "-"
        lines.append(
            f"| {row['name']} | {spread} | {row.get('target') or '-'} | {ceiling} | {peers(row)} |"
        )
    return lines


def accuracy_table(rows):
    lines = ["| 1 MiB | mean relative error | target | merge | peers |", "|---|---|---|---|---|"]
    for row in rows:
        beside = ", ".join(
            f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}"
            for name, value in row.get("peers", {}).items()
        )
        target = f"<= {row['target']}" if row.get("target") else "-"
        merge, beside = row.get("merge", "-"), beside or "-"
        lines.append(f"| {row['name']} | {row['error']:.2f} | {target} | {merge} | {beside} |")
    return lines


def jaccard_table():
    results = read("jaccard")
    lines = ["| kind | keys in the union | RMSE / ideal | target | bias, standard errors |"]
    lines += ["|---|---|---|---|---|"]
    cases = dict.fromkeys((row["kind"], row["union"]) for row in results["rows"])
    for kind, union in cases:
        rows = [row for row in results["rows"] if (row["kind"], row["union"]) == (kind, union)]
        errors = [row["rmse_over_ideal"] for row in rows]
        bias = [row["bias_in_errors"] for row in rows]
        spread = f"{min(errors):.2f}-{max(errors):.2f} | <= {results['target']}"
        lines.append(f"| {kind} | {union} | {spread} | {min(bias):+.1f} to {max(bias):+.1f} |")
    return lines


def noise_lines():
    results = read("noise")
    lines = [
        "The ceiling is the rate of random words (AES in counter mode) over the words a number",
        "takes. numpy draws floats that are rounded after: fast, and not private.",
        "",
        *speed_table(results["rows"]),
        "",
        "| 2000 x 100,000 cells | seconds, each run | target | more memory, MiB |",
        "|---|---|---|---|",
    ]
    for row in results["large"]:
        seconds = ", ".join(f"{each:.2f}" for each in row["seconds"])
        memory = f"<= {row['target']} | {row['extra_mib']}"
        lines.append(f"| {row['name']} | {seconds} | {memory} |")
    return lines


def audit_lines():
    results = read("audits")
    lines = [
        f"{results['trials']:,} trials on each neighbour, confidence {results['confidence']},",
        f"{results['seeds']} seeds. A tight mechanism comes near its claim; others claim more than",
        "these neighbours can show.",
        "",
        "| mechanism | measured, at least (low-high) | claimed | delta | could show at most |",
        "|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        spread = f"{row['median']:.3f} ({row['low']:.3f}-{row['high']:.3f})"
        limits = f"{row['claimed']:.3f} | {row['delta']:g} | {row['ceiling']:.1f}"
        lines.append(f"| {row['mechanism']} | {spread} | {limits} |")
    return lines


def accounting_lines():
    results = read("accounting")
    lines = [
        f"At delta {results['delta']:g}. A smaller epsilon is a tighter proof of the same noise;",
        "ours counts the rounding of its Fourier transforms. The baseline is the sum of epsilons.",
        "",
        "| losses | ours, s | dp-accounting, s | Renyi (ours) | sum |",
        "|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        ours, peer = (
            f"{row[who]['epsilon']:.4f}, {row[who]['seconds']:.3f}" for who in ("ours", "peer")
        )
        plain = f"{row['plain_sum']:.2f}" if row["plain_sum"] else "-"
        lines.append(f"| {row['name']} | {ours} | {peer} | {row['rdp']:.4f} | {plain} |")
    seconds = ", ".join(f"{each:.3f}" for each in results["next_charge_seconds"])
    lines += ["", f"One more charge to a ledger of 1000, seconds of each run: {seconds}."]
    return [*lines, *_growing(results.get("growing", []))]


def _growing(runs):
    """A ledger that grows to 20,000 losses, no two alike."""
    if not runs:
        return []
    lines = [
        "",
        "A ledger of losses that are all different (pure, Laplace, with a delta also Gaussian), in",
        "milliseconds: CPU of one more charge, with the disk, and of `remaining`. Opening verifies",
        "the whole chain. The epsilon is set beside a lower bound on the exact composition.",
        "",
        "| budget | charge | CPU | with the disk | `remaining` | open | above the bound |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        for row in run["charges"]:
            last = row is run["charges"][-1]
            more = (
                [f"{run['open_ms']:.0f}", f"{run['above_a_lower_bound']:.2%}"] if last else ["", ""]
            )
            cells = [f"{row[name]:.2f}" for name in ("cpu_ms", "wall_ms", "remaining_ms")]
            first = [run["budget"], f"{row['charge']:,}"]
            lines.append(f"| {' | '.join([*first, *cells, *more])} |")
    return lines


def page():
    """The text of docs/benchmarks.md."""
    results, engine = read("sketches"), read("engine")
    of = results["machine"]
    lines = [
        "# Benchmarks",
        "",
        "Written by `make docs` from the JSON that `make bench` leaves in `benchmarks/results/`:",
        f"{of['cpu']}, Python {of['python']}, Numba {of['numba']}.",
        "One process, one thread, 10 million items, M/s, median of warm runs in three rounds. A",
        "shared machine varies by a factor of two, so believe ratios. The ceiling, measured right",
        "before each figure, is the same number of random accesses with positions given, or one",
        "reading of the input where the sketch fits the first cache. Most peers take a key a call.",
        *OWN_MACHINE,
    ]
    for name, title in TITLES.items():
        lines += ["", f"## {title}", "", *speed_table(results[name])]
    lines += ["", "## Exact noise, 4 million numbers", "", *noise_lines()]
    lines += ["", "## Audits: epsilon measured beside epsilon claimed", "", *audit_lines()]
    lines += ["", "## Accounting beside dp-accounting", "", *accounting_lines()]
    lines += ["", "## Error: Zipf(1.1), 10 million items, over all keys", ""]
    lines += [
        "Most keys occur once or twice, so a sketch is judged mainly by how it treats those;",
        "",
    ]
    lines[-1:] = [
        "answering 0 for all is the baseline. Only the logarithmic cells use randomness.",
        "",
    ]
    lines += accuracy_table(results["accuracy"])
    lines += [
        "",
        "## MinHash-128: error over the binomial ideal, J = 0.1 to 0.9",
        "",
        *jaccard_table(),
    ]
    lines += ["", "## First call of a kernel in a new process, cached", ""]
    lines += ["| | seconds (low-high) | target |", "|---|---|---|"]
    for row in results["first_call"]:
        spread = f"{row['seconds']:.2f} ({row['low']:.2f}-{row['high']:.2f})"
        lines.append(f"| {row['name']} | {spread} | <= {row['target']} |")
    lines += ["", "## Two threads of the local engine, 200 million keys in Parquet, Count-Min", ""]
    lines += ["| threads | seconds, each run | peak memory, MiB |", "|---|---|---|"]
    for threads, runs in engine["runs"].items():
        seconds = ", ".join(f"{run['seconds']:.2f}" for run in runs)
        peak = max(run["peak_bytes"] for run in runs) / 2**20
        lines.append(f"| {threads} | {seconds} | {peak:.0f} (target <= 1024) |")
    lines += ["", f"Ratio of the medians: {engine['ratio']:.2f} (target >= {engine['target']})."]
    return "\n".join(lines) + "\n"


def picture(path):
    """Our speed, the peers' and the machine's ceiling, a line of dots for each figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    results = read("sketches")
    rows = [row for name in TITLES for row in results[name] if row["peers"]]
    rows = [row for row in rows if "1 M keys" not in row["name"]][::-1]
    drawn, axes = plt.subplots(figsize=(8.5, 0.46 * len(rows) + 1.2), layout="constrained")
    for at, row in enumerate(rows):
        ours, ceiling = row["ours"]["median"], row["ceiling"]
        found = {n: p["median"] for n, p in row["peers"].items() if "median" in p}
        axes.plot([min([ours, *found.values()]), ceiling], [at, at], color="#d8d8d8", zorder=1)
        axes.plot([ceiling] * 2, [at - 0.25, at + 0.25], color="#222", label="machine's ceiling")
        axes.plot(found.values(), [at] * len(found), "o", color="#d1822b", label="peer")
        axes.plot(ours, at, "o", color="#2f6299", markersize=9, label="sfumato")
        write = {"textcoords": "offset points", "ha": "center", "fontsize": 7}
        axes.annotate(figure(ours), (ours, at), (0, 7), color="#2f6299", weight="bold", **write)
        for place, (name, speed) in enumerate(sorted(found.items(), key=lambda item: item[1])):
            above = 6 if place % 2 == 0 else -12
            axes.annotate(name, (speed, at), (0, above), color="#8a5414", **write)
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=8)
    axes.set_xscale("log")
    axes.set_xlabel("million items a second, one thread (log scale)")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#eee")
    axes.set_axisbelow(True)
    handles = dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    drawn.legend(
        handles.values(),
        handles.keys(),
        frameon=False,
        fontsize=8,
        ncols=3,
        loc="outside upper right",
    )
    drawn.savefig(path, dpi=140)


def audits_picture(path):
    """What audits measured of each mechanism, as bars that must end before the claim."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = sorted(read("audits")["rows"], key=lambda row: row["median"] / row["claimed"])
    drawn, axes = plt.subplots(figsize=(7.5, 0.34 * len(rows) + 1.1), layout="constrained")
    shares = [row["median"] / row["claimed"] for row in rows]
    axes.barh(range(len(rows)), shares, height=0.6, color="#2f6299")
    for at, (row, share) in enumerate(zip(rows, shares, strict=True)):
        axes.plot([row["low"] / row["claimed"], row["high"] / row["claimed"]], [at] * 2, color="k")
        axes.annotate(f"{share:.2f}", (0.01, at), color="white", va="center", fontsize=8)
    axes.axvline(1, color="#b3261e")
    axes.annotate("claimed", (0.995, len(rows) - 0.4), color="#b3261e", ha="right", fontsize=8)
    axes.set_yticks(range(len(rows)), [row["mechanism"] for row in rows], fontsize=8)
    axes.set_xlabel("epsilon that an audit proves, as a share of the epsilon claimed", fontsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.08)
    drawn.savefig(path, dpi=140)


if __name__ == "__main__":
    (DOCS / "benchmarks.md").write_text(page())
    audits_picture(DOCS / "audits.png")
    picture(DOCS / "speed.png")
