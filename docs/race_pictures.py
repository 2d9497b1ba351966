"""Draws the pictures of docs/race.md from benchmarks/results (make docs)."""

import importlib.util
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parent


def script(name):
    """Another script of this folder, for what it shares."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


_shared, TABLES = script("factorization"), script("race").TABLES
read, plots = _shared.read, _shared.plots
BLUE, ORANGE, GREEN, RED, GREY = (
    getattr(_shared, name) for name in ("BLUE", "ORANGE", "GREEN", "RED", "GREY")
)
WAYS = (  # six of figure 4, then six of figure 5
    "sketch",
    "sketch, kernel sums",
    "most frequent class",
    "logistic regression, no privacy",
    "diffprivlib logistic, norm of the box",
    "diffprivlib logistic, best norm on test",
    "statistics",
    "angles",
    "the mean for all",
    "least squares, no privacy",
    "surrogate",
    "diffprivlib linear regression",
)
LINES = {
    "auto": (BLUE, "o-"),
    "RACE of the paper, R = 1024": (ORANGE, "s--"),
    "trigonometric": (GREEN, "^:"),
    "Bernstein": (RED, "v:"),
    "PFDA": (GREY, "d:"),
    "kernel mean embedding": ("#7a4fa3", "x:"),
    "pair marginals (PrivBayes)": ("#0f8b8d", "+:"),
    "MWEM": ("#a0522d", "*:"),
}


def functions_picture(path):
    plt = plots()
    rows = read("density")["functions"]["rows"]
    drawn, axes = plt.subplots(1, len(TABLES), figsize=(17, 3.9), layout="constrained")
    for axis, (name, said) in zip(axes, TABLES.items(), strict=True):
        own = [row for row in rows if row["table"] == name]
        flat = next(row["mean"] for row in own if row["name"] == "constant")
        axis.axhline(flat, color=GREY, lw=1, label="constant")
        for way, (colour, style) in LINES.items():
            for delta, shade in ((0.0, 1.0), (1e-6, 0.45)):
                line = [r for r in own if r["name"] == way and r.get("delta") == delta]
                if line:
                    label = way + (", delta 1e-6" if delta else "")
                    xs, ys = [r["epsilon"] for r in line], [r["mean"] for r in line]
                    axis.plot(xs, ys, style, color=colour, alpha=shade, ms=4, lw=1.3, label=label)
        axis.set(xscale="log", yscale="log", title=said, xlabel="epsilon")
    axes[0].set_ylabel("mean relative error")
    handles, labels = axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8)
    drawn.savefig(path, dpi=120)


def models_picture(path):
    plt = plots()
    found = read("density")
    names = [*dict.fromkeys(r["table"] for r in found["classes"]["rows"])]
    more = [*dict.fromkeys(r["table"] for r in found["numbers"]["rows"])]
    drawn, axes = plt.subplots(1, len(names) + len(more), figsize=(17, 3.6), layout="constrained")
    shades = dict(zip(WAYS, (BLUE, ORANGE, GREY, RED, GREEN, "#7a4fa3") * 2, strict=True))
    for axis, name in zip(axes, [*names, *more], strict=True):
        part = found["classes" if name in names else "numbers"]["rows"]
        own = [row for row in part if row["table"] == name and "mean" in row]
        for way in dict.fromkeys(row["name"] for row in own):
            colour = shades[way]
            pure = [r for r in own if r["name"] == way and not r["delta"]]
            line = [r for r in pure if r["epsilon"] is not None]
            flat = [r["mean"] for r in pure if r["epsilon"] is None]
            if line:
                ys = [max(r["mean"], -1) for r in line]
                axis.plot([r["epsilon"] for r in line], ys, "o-", color=colour, ms=4, label=way)
            elif flat:
                axis.axhline(max(flat[0], -1), color=colour, lw=1, ls=":", label=way)
        axis.set(xscale="log", title=name, xlabel="epsilon")
    axes[0].set_ylabel("accuracy")
    axes[len(names)].set_ylabel("R2 (below -1: drawn at -1)")
    lines = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        lines |= dict(zip(labels, handles, strict=True))
    drawn.legend(lines.values(), lines, loc="outside lower center", ncols=6, fontsize=8)
    drawn.savefig(path, dpi=120)


def map_picture(path):
    plt = plots()
    values = read("density")["map"]
    values = {name: np.array([row.split() for row in each], float) for name, each in values.items()}
    top = values["truth"].max()
    drawn, axes = plt.subplots(1, len(values), figsize=(17, 2.9), layout="constrained")
    for axis, (name, each) in zip(axes, values.items(), strict=True):
        axis.imshow(each, origin="lower", vmin=0, vmax=top, cmap="viridis")
        axis.set(xticks=[], yticks=[])
        axis.set_title(name.replace(", ", "\n", 1), fontsize=8)
    drawn.savefig(path, dpi=120)


def graph_picture(path):
    plt = plots()
    found = read("density")["graph"]
    drawn, axis = plt.subplots(figsize=(6.4, 4), layout="constrained")
    budgets = dict.fromkeys((row["epsilon"], row["delta"]) for row in found["rows"])
    for (epsilon, delta), colour in zip(budgets, (GREY, GREEN, RED, BLUE), strict=True):
        line = [row for row in found["rows"] if (row["epsilon"], row["delta"]) == (epsilon, delta)]
        label = "no privacy" if epsilon is None else f"epsilon {epsilon:g}"
        label += ", delta 1e-6" if delta else ""
        ys = [row["absolute"] for row in line]
        axis.plot([row["rows"] for row in line], ys, "o-", color=colour, ms=4, label=label)
    axis.axhline(found["constant_absolute"], color=ORANGE, lw=1, ls=":", label="best constant")
    axis.set(xscale="log", yscale="log", xlabel="rows", ylabel="mean absolute error of a sum")
    axis.legend(fontsize=8)
    drawn.savefig(path, dpi=120)


if __name__ == "__main__":
    graph_picture(DOCS / "race_graph.png")
    functions_picture(DOCS / "race_functions.png")
    models_picture(DOCS / "race_models.png")
    map_picture(DOCS / "race_map.png")
