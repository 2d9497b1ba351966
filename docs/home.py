"""Draws docs/home.png, the picture of the home page, from benchmarks/results/thesis_ch3.json."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results" / "thesis_ch3.json"
INK = "#7a7f87"  # readable on white and on black
LINES = {
    "messages, taste": ("best attack: knows which items go together", "#e0552b"),
    "joint, prior": ("sampler of the thesis", "#3b82c4"),
    "single": ("item by item, as first published", "#2aa198"),
    "popularity": ("popularity alone, without the release", INK),
}


def figures():
    """The epsilons, and the mean cosine of each attack at them, MovieLens-100K."""
    rows = json.loads(RESULTS.read_text())["blip"]["movielens"]["rows"]
    rows = sorted(rows, key=lambda row: row["epsilon"])
    found = {name: [100 * row["attacks"][name]["cosine"]["mean"] for row in rows] for name in LINES}
    return [row["epsilon"] for row in rows], found


def main():
    epsilons, found = figures()
    places = range(len(epsilons))
    plt.rcParams.update({"font.size": 11, "text.color": INK, "axes.edgecolor": INK})
    figure, axes = plt.subplots(figsize=(8.4, 3.9))
    best, popular = found["messages, taste"], found["popularity"]
    axes.fill_between(places, popular, best, color="#e0552b", alpha=0.14, lw=0)
    for name, (label, colour) in LINES.items():
        axes.plot(places, found[name], "o-", color=colour, lw=2, ms=4, label=label)
    at = epsilons.index(28)
    axes.annotate(
        "what the release\ngives away", (at, 52), ha="center", va="center", color="#e0552b"
    )
    axes.set_xticks(places, [str(each) for each in epsilons])
    axes.set_xlabel("epsilon of one item, BLIP of 5,000 bits", color=INK)
    axes.set_ylabel("profile rebuilt, cosine in %", color=INK)
    axes.tick_params(colors=INK)
    axes.set_ylim(0, 102)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left", fontsize=9.5)
    figure.tight_layout()
    figure.savefig(DOCS / "home.png", dpi=150, transparent=True)


if __name__ == "__main__":
    main()
