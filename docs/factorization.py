"""Writes docs/factorization.md and its pictures from benchmarks/results (make docs)."""

import json
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
BLUE, ORANGE, GREEN, RED, GREY = "#2f6299", "#d1822b", "#3b7d4f", "#b3261e", "#777"
COLOURS = {"dense": GREY, "sketch, depth 4": BLUE, "hashing": ORANGE}


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def error(spread):
    return f"{spread['mean']:.4f} ({spread['low']:.4f}-{spread['high']:.4f})"


def target_text(value, sign="<="):
    return "-" if value is None else f"{sign} {value:g}"


def table(header, rows):
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def errors(results):
    found = results["errors"]
    rows = [
        (
            row["name"],
            error(row["tuned"]),
            error(row["default"]) if "default" in row else "-",
            target_text(row.get("target")),
            f"{row['nbytes'] / 1024:,.0f}" if "nbytes" in row else "-",
        )
        for row in found["rows"]
    ]
    header = ("model", "RMSE tuned (low-high)", "with defaults", "target, tuned", "KiB")
    return [f"Data: {found['data']}.", "", *table(header, rows)]


def speed(results):
    rows = [
        (
            row["name"],
            f"{row['ratio']['median']:.2f} ({row['ratio']['low']:.2f}-{row['ratio']['high']:.2f})",
            target_text(row["target"]),
            f"{row['ms']:.1f}",
            f"{row['cornac_ms']:.1f}",
            f"{row['ns_a_rating']:.0f}",
        )
        for row in results["speed"]["rows"]
    ]
    header = ("epoch", "ratio to cornac", "target", "ms", "cornac, ms", "ns a rating")
    ratios = {
        row["name"]: row["block_ratio"] for row in results["speed"]["rows"] if "block_ratio" in row
    }
    slower = "; ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items() if ratio != 1)
    return [
        *table(header, rows),
        "",
        f"Times the block kernel with 32 numbers read: {slower}.",
        "Components lie in 256 cells a rating, each in a cache line of its own, where blocks lie",
        "in 16 lines. Reading and changing as many random cells, without any model, takes",
        f"{results['speed']['bare_cells_ns']:.0f} ns a rating here. Use this layout for the",
        "figures of the thesis only.",
    ]


def scale(results):
    streamed = [
        (
            row["name"],
            f"{row['ns_a_rating']:.0f}",
            f"{row['lines_a_rating']} lines of {row['ns_a_line']:.1f} = {row['ceiling_ns']:.0f}",
            f"{row['nbytes'] / 2**20:.0f}",
            f"{row['grown_mib']:.1f}",
        )
        for row in results["stream"]
    ]
    threads = [
        (
            row["name"],
            f"{row['gain']['median']:.2f} ({row['gain']['low']:.2f}-{row['gain']['high']:.2f})",
            target_text(row["target"], ">="),
        )
        for row in results["threads"]
    ]
    ranked = [
        (
            row["name"],
            f"{row['users_a_second']['median']:,.0f} ({row['users_a_second']['low']:,.0f}-"
            f"{row['users_a_second']['high']:,.0f})",
            target_text(row.get("target"), ">="),
        )
        for row in results["ranking"]
    ]
    memory = results["memory"]
    return [
        "100 million generated ratings of 500,000 users and items, streamed through `partial_fit`;",
        "beside it the time in which this machine changes as many random cache lines, one by one:",
        "",
        *table(("", "ns a rating", "random lines, ns", "table, MiB", "grown, MiB"), streamed),
        "",
        *table(("two threads on one table", "times as fast", "target"), threads),
        "",
        *table(("the ten best of 3,706 items", "users a second, one thread", "target"), ranked),
        "",
        f"{memory['new_users']:,} new users through `partial_fit`: the table stays at "
        f"{memory['nbytes'] / 2**20:.0f} MiB, the process grew by {memory['grown_mib']:.1f} MiB.",
    ]


def private(results):
    found = results["epsilons"]
    rows = [
        (
            f"{row['epsilon']:g}",
            error(row["rmse"]),
            error(row["private_means"]),
            target_text(row["target"]),
            row["numbers"],
        )
        for row in found["rows"]
        if "epsilon" in row
    ]
    baseline = next(row for row in found["rows"] if "epsilon" not in row)
    others = [
        (row["name"], "-" if row["epsilon"] is None else f"{row['epsilon']:g}", error(row["rmse"]))
        for row in results["others"]["rows"]
    ]
    header = ("epsilon", "factors", "private means, whole budget", "target", "numbers an entity")
    return [
        f"Data: {found['data']}, delta {found['delta']:g}, event level, add/remove, whole file.",
        f"Means only, not private: {error(baseline['rmse'])}. The settings are a public rule.",
        "",
        *table(header, rows),
        "",
        *table(("way to be private", "epsilon", "RMSE"), others),
    ]


def chapter(results):
    rows = [
        (row["data"], row["kind"], error(row["rmse"]), row["thesis"] or "-", f"{row['ratings']:,}")
        for row in results["table"]
    ]
    header = ("data", "model", "RMSE", "thesis (its own data)", "ratings")
    return table(header, rows)


def page():
    """The text of docs/factorization.md."""
    fits, scaled = read("factorization"), read("recommending")
    secret, thesis = read("private_factorization"), read("thesis_ch4")
    of = fits["machine"]
    lines = [
        "# Factorization, measured",
        "",
        "Written by `make docs` from the JSON that `make bench` leaves in `benchmarks/results/`:",
        f"{of['cpu']}, Python {of['python']}, Numba {of['numba']}. What the models are:",
        "[recommenders](recommend.md).",
        "",
        "## Error: d = 32, 20 epochs, random 80/10/10, five seeds",
        "",
        "Tuned on the validation part of each split. The baseline predicts damped means. The",
        "sketches read 16 of their 32 numbers, by the rule of `active`: more only collide.",
        *errors(fits),
        "",
        "## Speed: an epoch beside cornac's, one thread, our shuffle included",
        "",
        *speed(fits),
        "",
        "## Scale",
        "",
        *scale(scaled),
        "",
        "## Proved privacy",
        "",
        *private(secret),
        "",
        "![Error over epsilon](private.png)",
        "",
        "## Chapter 4 of the thesis again",
        "",
        *chapter(thesis),
        "",
        "![Heat maps over factors and gain](heat_maps.png)",
        "![Convergence, one pass, regularization](thesis_curves.png)",
        "![Clipping: error and leak](clipping.png)",
        "",
        *(DOCS / "thesis_notes.md").read_text().splitlines(),
    ]
    return "\n".join(lines) + "\n"


def plots():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False})
    return plt


def private_picture(path):
    """RMSE over epsilon: factors, private means, and the target."""
    plt = plots()
    rows = [row for row in read("private_factorization")["epsilons"]["rows"] if "epsilon" in row]
    drawn, axes = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
    at = [row["epsilon"] for row in rows]
    for key, colour, label in (("rmse", BLUE, "factors"), ("private_means", ORANGE, "means")):
        axes.plot(at, [row[key]["mean"] for row in rows], "o-", color=colour, label=label)
        low, high = ([row[key][end] for row in rows] for end in ("low", "high"))
        axes.fill_between(at, low, high, color=colour, alpha=0.2)
    wanted = [row for row in rows if row["target"]]
    axes.plot([r["epsilon"] for r in wanted], [r["target"] for r in wanted], "v", color=RED,
              label="target")  # fmt: skip
    axes.plot([10.6], [0.915], "s", color=GREY, label="published (NoisyAdam)")
    axes.set_xscale("log", base=2)
    axes.set_xticks([0.5, 1, 2, 4, 8, 16], ["0.5", "1", "2", "4", "8", "16"])
    axes.set_xlabel("epsilon, delta 1e-6, one event, whole file")
    axes.set_ylabel("test RMSE")
    axes.legend(frameon=False)
    drawn.savefig(path, dpi=140)


def heat_maps(path):
    """Figures 4.1, 4.2 and 4.6: RMSE and the best lambda over d and gain."""
    plt = plots()
    thesis = read("thesis_ch4")
    maps = [
        ("heat_map", 1, "rmse", "4.1 hashing"),
        ("heat_map", 4, "rmse", "4.1 sketch, depth 4"),
        ("heat_map", 4, "regularization", "4.6 best lambda, depth 4"),
        ("heat_map_eachmovie", 1, "rmse", "4.2 hashing"),
        ("heat_map_eachmovie", 4, "rmse", "4.2 sketch, depth 4"),
    ]
    drawn, grid = plt.subplots(2, 3, figsize=(10, 6), layout="constrained")
    for axes, (part, depth, key, title) in zip(grid.flat, maps, strict=False):
        rows = [row for row in thesis[part]["rows"] if row.get("depth") == depth]
        across = sorted({row["factors"] for row in rows})
        down = sorted({row["gain"] for row in rows})
        value = {(row["gain"], row["factors"]): row[key] for row in rows}
        cells = [[value[gain, d] for d in across] for gain in down]
        shown = axes.imshow(cells, origin="lower", cmap="viridis_r", aspect="auto")
        axes.set_xticks(range(len(across)), across)
        axes.set_yticks(range(len(down)), [f"{gain:g}" for gain in down])
        axes.set(title=title, xlabel="factors d", ylabel="gain")
        drawn.colorbar(shown, ax=axes)
    grid.flat[-1].axis("off")
    drawn.savefig(path, dpi=130)


def curves(path):
    """Figures 4.3, 4.4 and 4.5: convergence, one pass, and the sweep of lambda."""
    plt = plots()
    thesis = read("thesis_ch4")
    drawn, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained")
    for kind, colour in COLOURS.items():
        series = thesis["convergence"]["rows"][kind]
        left.plot(range(1, len(series) + 1), series, color=colour, label=kind)
        for epochs, style in ((20, ":"), (100, "-")):
            case = {"kind": kind, "biases": "means", "epochs": epochs}
            rows = [r for r in thesis["sweep"]["rows"] if case.items() <= r.items() and r["rmse"]]
            at = [max(row["regularization"], 3e-4) for row in rows]
            label = f"{epochs} epochs" if kind == "dense" else None
            right.plot(at, [row["rmse"] for row in rows], style, color=colour, label=label)
            chosen = next(row for row in rows if row.get("chosen"))
            right.plot(chosen["regularization"], chosen["rmse"], "o", color=colour)
    for kind, colour in {**COLOURS, "our rule": GREEN}.items():
        rows = [row for row in thesis["dynamic"]["rows"] if row["kind"] == kind]
        at, found = [row["size"] for row in rows], [row["rmse"] for row in rows]
        middle.plot(at, found, "o-", color=colour, label="our rule" if kind == "our rule" else None)
    middle.legend(frameon=False)
    left.axhline(thesis["convergence"]["rows"]["means only"], color=RED, ls=":", label="means only")
    left.set(title="4.3 convergence", xlabel="epoch", ylabel="test RMSE")
    left.legend(frameon=False)
    middle.set_xscale("log", base=2)
    middle.set_xticks([1, 2, 4, 8, 16, 32], [1, 2, 4, 8, 16, 32])
    middle.set(title="4.4 one pass, same memory", xlabel="numbers an entity of dense has")
    right.set_xscale("log")
    right.set(title="4.5 lambda (leftmost: 0; dots: chosen)", xlabel="lambda")
    right.legend(frameon=False)
    drawn.savefig(path, dpi=130)


def clipping(path):
    """Figures 4.7 and 4.8: error and KL divergence over the clip."""
    plt = plots()
    rows = [row for row in read("thesis_ch4")["clipping"]["rows"] if "factors" in row]
    drawn, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    places = {2.0: 0, 4.0: 1, 8.0: 2, None: 3}
    styles = {"dense": GREY, "sketch, gain 1": BLUE, "sketch, gain 2": GREEN, "sketch, gain 4": RED}
    for kind, colour in styles.items():
        for d, mark in ((16, "--"), (32, "-")):
            own = [row for row in rows if row["kind"] == kind and row["factors"] == d]
            at = [places[row["clip"]] for row in own]
            left.plot(at, [r["rmse"] for r in own], mark, color=colour, label=f"{kind}, d {d}")
            right.plot(at, [r["kld"] for r in own], mark, color=colour)
    for axes, title in ((left, "4.7 test RMSE"), (right, "4.8 KL divergence")):
        axes.set_xticks(range(4), ["2", "4", "8", "none"])
        axes.set(title=title, xlabel="clip: largest loss learned from")
    drawn.legend(frameon=False, fontsize=7, loc="outside right")
    drawn.savefig(path, dpi=130)


if __name__ == "__main__":
    (DOCS / "factorization.md").write_text(page())
    private_picture(DOCS / "private.png")
    heat_maps(DOCS / "heat_maps.png")
    curves(DOCS / "thesis_curves.png")
    clipping(DOCS / "clipping.png")
