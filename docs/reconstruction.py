"""Writes docs/reconstruction.md and its pictures from benchmarks/results (make docs)."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("factorization", DOCS / "factorization.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
read, table, plots = _shared.read, _shared.table, _shared.plots
BLUE, ORANGE, GREEN, RED, GREY = (
    _shared.BLUE,
    _shared.ORANGE,
    _shared.GREEN,
    _shared.RED,
    _shared.GREY,
)
SETS = ("movielens", "lastfm")
LINES = {
    "popularity": (GREY, ":"),
    "single": (ORANGE, "--"),
    "single, prior": (ORANGE, "-"),
    "joint": (BLUE, "--"),
    "joint, prior": (BLUE, "-"),
    "messages, taste": (RED, "-"),
}
KINDS = {"BLIP": BLUE, "JLT": ORANGE, "JLT 200": GREY, "signs 200": GREEN, "minima": RED}


def at(row):
    """Where a row stands: its epsilon, or its noise and what that is worth."""
    if "sigma" not in row:
        return f"{row['epsilon']:g}"
    worth = "not private" if row["epsilon"] is None else f"{row['epsilon']:.3g}"
    return f"{row['sigma']} ({worth})"


def attacks(found, name):
    """The cosines of all attacks on one set, a row for each level of noise."""
    rows = found[name]["rows"]
    columns = list(rows[0]["attacks"])
    body = [
        (at(row), *(f"{row['attacks'][each]['cosine']['mean']:.3f}" for each in columns))
        for row in rows
    ]
    first = "sigma (epsilon)" if "sigma" in rows[0] else "epsilon"
    return [f"Data: {found[name]['data']}.", "", *table((first, *columns), body)]


def leaks(found):
    """What of the leak is popularity's, what a single decoder adds, and what the joint ones do."""
    body = []
    for row in found["movielens"]["rows"]:
        cosine = {name: each["cosine"]["mean"] for name, each in row["attacks"].items()}
        start, single = cosine["popularity"], cosine["single, prior"]
        joint, best = cosine["joint, prior"], cosine["messages, taste"]
        figures = (start, single - start, joint - single, best - joint, best)
        body.append((at(row), *(f"{each:+.3f}" for each in figures[:-1]), f"{best:.3f}"))
    header = (
        "epsilon",
        "popularity alone",
        "the release, item by item",
        "jointly",
        "tastes and messages",
        "best attack",
    )
    return table(header, body)


def traded(found, name):
    rows = [
        (
            row["kind"],
            f"{row['epsilon']:g}",
            f"{row['neighbour_recall']:.3f}",
            f"{row['privacy']:.3f}",
            f"{row['nats_an_item'][0]:.3g} / {row['nats_an_item'][1]:.3g}",
            f"{row['bytes_a_profile']:.0f}",
        )
        for row in found[name]["rows"]
    ]
    header = (
        "mechanism",
        "epsilon",
        "neighbours found",
        "privacy",
        "nats an item: single / joint",
        "bytes",
    )
    return [f"Data: {found[name]['data']}.", "", *table(header, rows)]


def speeds(found, sweep):
    rows = [(row["name"], row["ours"], row["target"], row["beside"]) for row in found["rows"]]
    name = "the BLIP sweep: 9 epsilons, 343 profiles, the four attacks of 3.5.2, two threads"
    rows.append((name, f"{sweep['seconds']:.0f} s", f"{sweep['target']} s", "-"))
    return table(("", "measured", "target", "beside it"), rows)


def page():
    """The text of docs/reconstruction.md."""
    thesis, speed = read("thesis_ch3"), read("profiles")
    of = thesis["machine"]
    lines = [
        "# What attackers rebuild of released profiles, measured",
        "",
        "Written by `make docs` from the JSON of `python benchmarks/thesis_ch3.py` and",
        f"`python benchmarks/profiles.py`: {of['cpu']}, Python {of['python']}. What the attacks",
        "are: [profiles](profiles.md). Cosine similarity of the rebuilt and the true profile",
        "([thesis](sources.md#thesis), equation 3.36), mean over the attacked users: 343 of",
        "MovieLens (BLIP: and over three seeds), 100 of Last.fm.",
        "The attacker knows 600 other users.",
        "",
        *(DOCS / "reconstruction_notes.md").read_text().splitlines(),
        "",
        "## BLIP (figures 3.2 and 3.4)",
        "",
        *attacks(thesis["blip"], "movielens"),
        "",
        "Where the cosine comes from (same data):",
        "",
        *leaks(thesis["blip"]),
        "",
        *attacks(thesis["blip"], "lastfm"),
        "",
        "![BLIP](blip.png)",
        "",
        "## JLT (figures 3.3 and 3.5)",
        "",
        "The thesis' noise levels, and the epsilon of one item that each is worth at delta 1e-6.",
        "",
        *attacks(thesis["jlt"], "movielens"),
        "",
        *attacks(thesis["jlt"], "lastfm"),
        "",
        "![JLT](jlt.png)",
        "",
        "## Utility against privacy (figure 3.6)",
        "",
        "Neighbours found: of each user's ten nearest, how many are among the ten nearest in the",
        "release of all users. Privacy: 1 - cosine under the best of our attacks. Nats: what the",
        "release can tell about one item of a typical profile, to a single and to a joint decoder.",
        "",
        *traded(thesis["tradeoff"], "movielens"),
        "",
        *traded(thesis["tradeoff"], "lastfm"),
        "",
        "![Utility against privacy](tradeoff.png)",
        "",
        "## Information (figure 3.1)",
        "",
        "![Nats an item](information.png)",
        "",
        "## Speed",
        "",
        *speeds(speed, thesis["sweep"]),
    ]
    return "\n".join(lines) + "\n"


def curves(part, path):
    """Cosine with its 10 % and 90 % quantiles above, mAP@10 below, over the noise."""
    plt = plots()
    found = read("thesis_ch3")[part]
    drawn, grid = plt.subplots(2, 2, figsize=(10, 6.4), layout="constrained", sharey="row")
    for column, name in enumerate(SETS):
        rows = found[name]["rows"][::-1]
        places = range(len(rows))
        for attack, (colour, style) in LINES.items():
            figures = [row["attacks"][attack] for row in rows]
            top, below = grid[0, column], grid[1, column]
            top.plot(places, _means(figures, "cosine"), style, color=colour, label=attack)
            if attack in ("single", "joint, prior", "messages, taste"):
                low, high = (_means(figures, f"cosine_{end}") for end in ("low", "high"))
                top.fill_between(places, low, high, color=colour, alpha=0.12)
            below.plot(places, _means(figures, "average_precision"), style, color=colour)
        for axes in grid[:, column]:
            axes.set_xticks(places, [_tick(row) for row in rows])
        grid[0, column].set_title(found[name]["data"])
        grid[1, column].set_xlabel("epsilon" if part == "blip" else "sigma\nepsilon at 1e-6")
    grid[0, 0].set_ylabel("cosine of reconstruction")
    grid[1, 0].set_ylabel("mAP@10")
    grid[0, 0].legend(frameon=False)
    drawn.savefig(path, dpi=130)


def _means(figures, key):
    return [each[key]["mean"] for each in figures]


def _tick(row):
    if "sigma" not in row:
        return f"{row['epsilon']:g}"
    return f"{row['sigma']}\n" + ("none" if row["epsilon"] is None else f"{row['epsilon']:.2g}")


def tradeoff(path):
    """Figure 3.6: four mechanisms, the same neighbouring relation, the best attack on each."""
    plt = plots()
    found = read("thesis_ch3")["tradeoff"]
    drawn, both = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axes, name in zip(both, SETS, strict=True):
        for kind, colour in KINDS.items():
            rows = [row for row in found[name]["rows"] if row["kind"] == kind]
            private = [row["privacy"] for row in rows]
            useful = [row["neighbour_recall"] for row in rows]
            axes.plot(private, useful, "o-", color=colour, label=kind, ms=3)
            for row, x, y in zip(rows, private, useful, strict=True):
                axes.annotate(f"{row['epsilon']:g}", (x, y), fontsize=6, color=colour)
        axes.set(title=found[name]["data"], xlabel="privacy: 1 - cosine under the best attack")
    both[0].set_ylabel("recall of the 10 nearest neighbours")
    both[0].legend(frameon=False)
    drawn.savefig(path, dpi=130)


def information(path):
    """Figure 3.1: nats an item of the joint decoder, and what it has over the single one."""
    plt = plots()
    found = read("thesis_ch3")["information"]
    drawn, both = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    titles = ("joint: I(B; P) / c", "joint - single")
    for axes, key, title in zip(both, ("joint", "difference"), titles, strict=True):
        shown = axes.pcolormesh(found["bits"], found["sizes"], found[key], shading="nearest")
        axes.set(title=f"{title}, nats", xlabel="bits L", ylabel="items c")
        drawn.colorbar(shown, ax=axes)
    drawn.savefig(path, dpi=130)


if __name__ == "__main__":
    (DOCS / "reconstruction.md").write_text(page())
    curves("blip", DOCS / "blip.png")
    curves("jlt", DOCS / "jlt.png")
    tradeoff(DOCS / "tradeoff.png")
    information(DOCS / "information.png")
