"""Writes docs/how_private.md: its words are in how_private_notes.md, its figures in JSON."""

import importlib.util
import json
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
MUTANTS = DOCS.parent / "tests" / "support" / "mutants.toml"
TYPICAL = 100  # items of the typical profile that statements of profiles speak of
_spec = importlib.util.spec_from_file_location("factorization", DOCS / "factorization.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
table = _shared.table


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def audits(found):
    rows = [
        (
            f"`{row['mechanism']}`",
            f"{row['claimed']:.3g}",
            f"{row['median']:.3f} ({row['low']:.3f}-{row['high']:.3f})",
            f"{row['ceiling']:.1f}",
        )
        for row in found["rows"]
    ]
    header = ("mechanism", "epsilon claimed", "measured at least", "could show at most")
    return "\n".join(table(header, rows))


def profiles(rows):
    names = ("popularity", "single", "joint, prior", "messages, taste")
    lines = [
        (
            f"{row['epsilon']}",
            f"{row['epsilon'] * TYPICAL:,}",
            *(f"{row['attacks'][name]['cosine']['mean']:.3f}" for name in names),
        )
        for row in sorted(rows, key=lambda row: row["epsilon"])
    ]
    header = (
        "epsilon of an item",
        "epsilon of a profile",
        "popularity alone",
        "item by item",
        "the thesis' sampler",
        "best: learned tastes, messages",
    )
    return "\n".join(table(header, lines))


def models(rows):
    chosen = [row for row in rows if row.get("factors") == 16]
    lines = [
        (
            row["kind"],
            f"{row['clip']:g}" if row["clip"] else "none",
            f"{row['rmse']:.4f}",
            f"{row['kld']:.4f}",
        )
        for row in chosen
    ]
    return "\n".join(table(("model", "clip", "RMSE", "divergence, nats"), lines))


def page():
    """The text of docs/how_private.md."""
    found = read("audits")
    blip = read("thesis_ch3")["blip"]["movielens"]["rows"]
    defects = sum(map(len, tomllib.loads(MUTANTS.read_text()).values()))
    eight = next(row["attacks"] for row in blip if row["epsilon"] == 8)
    words = {
        "mutants": f"{defects // 100 * 100:,}",
        "trials": f"{found['trials']:,}",
        "seeds": found["seeds"],
        "typical": TYPICAL,
        "audits": audits(found),
        "profiles": profiles(blip),
        "models": models(read("thesis_ch4")["clipping"]["rows"]),
        "best8": f"{100 * eight['messages, taste']['cosine']['mean']:.0f}",
        "popular8": f"{100 * eight['popularity']['cosine']['mean']:.0f}",
    }
    text = (DOCS / "how_private_notes.md").read_text()
    for name, value in words.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


if __name__ == "__main__":
    (DOCS / "how_private.md").write_text(page())
