"""The page of a model's audit: tables, the figure and what each number means, in one file.

What every audit of raw data shares: whom it is for, and how its files are written.
"""

import os
from base64 import b64encode
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["AUDIENCE", "document", "page", "table", "write"]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem;
  color: #1d1d1f; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; font-size: 0.92rem; }
th, td { border-bottom: 1px solid #d8d8d8; padding: 0.35rem 0.6rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { width: 100%; height: auto; }
.audience { background: #fff3e0; border-left: 4px solid #d1822b; padding: 0.5rem 1rem; }
.refuted { background: #fdecea; border-left: 4px solid #b3261e; padding: 0.5rem 1rem; }
dt { font-weight: 600; } dd { margin: 0 0 0.6rem 1rem; }
.wide { overflow-x: auto; }
"""
MEANINGS = {
    "RMSE": "The typical error of a prediction; a model that learned its ratings by heart errs "
    "much less on train than on test.",
    "Divergence": "How far the errors on learned ratings are from those on others, on average; "
    "0 means alike, and a single rating may be betrayed while the average is small.",
    "AUC": "How often a rating that was learned from looks more like one than a rating that was "
    "not; 0.5 is guessing, 1 is certainty.",
    "Found at 0.1 % (1 %) false alarms": "The share of learned ratings that an attacker names who "
    "may be wrong about one other rating in a thousand (in a hundred); guessing finds as many.",
    "Advantage": "The best difference between members found and false alarms; a little above 0 "
    "also by chance, so look whether its interval begins above 0.",
    "Epsilon at least": "Training that is differentially private for replacing one rating cannot, "
    "but by rare bad luck, have a smaller epsilon; halve it for adding or removing one.",
    "Quarters": "The users in order of how many ratings they gave, cut into four equal groups; "
    "a user with few ratings moves their own factors more with each.",
}


def page(told: dict[str, Any], png: bytes) -> str:
    """The page of an audit, given as its dictionary, with its figure inside."""
    title = f"Audit of {escape(told['model'])}"
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="audience"><strong>{escape(told["audience"])}</strong>. These figures are '
        "computed from raw ratings and no noise protects them.</p>",
        _verdict(told),
        _summary(told),
        f'<img alt="{ALT}" src="data:image/png;base64,{b64encode(png).decode()}">',
        "<h2>Attacks</h2>",
        _attacks(told["membership"]["attacks"]),
        "<h2>Quarters of the users</h2>",
        _quarters(told),
        "<h2>What the figures mean</h2>",
        "<dl>" + "".join(f"<dt>{a}</dt><dd>{b}</dd>" for a, b in MEANINGS.items()) + "</dl>",
        "<p>An attack that fails proves nothing: a better one may exist. Intervals and epsilon "
        "hold where the test ratings were split off at random and never used for training.</p>",
    ]
    return document(title, parts)


def document(title: str, parts: list[str]) -> str:
    """A whole page of these parts; empty ones leave no line."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width">\
<title>{title}</title><style>{STYLE}</style>'
    body = "\n".join(part for part in parts if part)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


ALT = "Errors on train and test, attack curves, divergence and AUC by quarter of the users"


def _verdict(told: dict[str, Any]) -> str:
    if told["claimed"] is None:
        return "<p>The model states no privacy of its whole file that these attacks could test.</p>"
    claim = f"epsilon {told['claimed']['epsilon']:.4g}, delta {told['claimed']['delta']:.3g}"
    allowed = f"The model's statement allows {claim} for replacing one rating"
    if told["refuted"]:
        return f'<p class="refuted"><strong>{allowed}, and an attack refutes it.</strong></p>'
    return f"<p>{allowed}; no attack refutes it, which proves nothing more.</p>"


def _summary(told: dict[str, Any]) -> str:
    distribution, rows = told["divergence"], told["rows"]
    believed = (
        "near normal" if distribution["trusted"] else "errors are not normal: do not believe it"
    )
    formula = "infinite" if distribution["gaussian"] is None else f"{distribution['gaussian']:.4f}"
    return table(
        ["", "train", "test"],
        [
            ["ratings looked at", f"{rows['train']:,}", f"{rows['test']:,}"],
            ["RMSE", *(f"{told['rmse'][side]:.4f}" for side in ("train", "test"))],
            ["skewness of errors", *_both(distribution, "skewness")],
            ["excess kurtosis of errors", *_both(distribution, "kurtosis")],
            ["distance from a normal law", *_both(distribution, "distance")],
            ["ratings left out (on both sides)", "", f"{rows['left_out']:,}"],
            [f"divergence by (4.15), nats ({believed})", "", formula],
            [
                "divergence free of any law, nats",
                "",
                f"{distribution['free']:.4f} ± {distribution['free_error']:.4f}",
            ],
        ],
    )


def _both(distribution: dict[str, Any], key: str) -> list[str]:
    return [f"{distribution[side][key]:+.3f}" for side in ("train", "test")]


def _attacks(attacks: dict[str, Any]) -> str:
    names = ["attack", "AUC", "found at 0.1 % false alarms", "found at 1 %", "advantage"]
    rows = [
        [
            f"{name}: knows {attack['knows']}",
            _rate(attack["auc"], "{:.3f}"),
            *(_rate(attack["tpr"][at], "{:.2%}") for at in ("0.001", "0.01")),
            _rate(attack["advantage"], "{:.3f}"),
            f"{attack['epsilon']['epsilon']:.2f}",
        ]
        for name, attack in attacks.items()
    ]
    return table([*names, "epsilon at least"], rows)


def _quarters(told: dict[str, Any]) -> str:
    attacks = told["membership"]["attacks"]
    names = ["ratings of a user, from", "train rows", "test rows", "RMSE train", "RMSE test"]
    names += ["divergence (4.15)", "free"]
    rows = []
    for at, quarter in enumerate(told["activity"]):
        distribution = quarter["divergence"] or {}
        numbers = (quarter["train_rmse"], quarter["test_rmse"], distribution.get("gaussian"))
        areas = [attack["auc_by_activity"][at] for attack in attacks.values()]
        rows.append(
            [
                *(f"{quarter[key]:,}" for key in ("least", "train", "test")),
                *(_number(each) for each in (*numbers, distribution.get("free"))),
                *(_number(area and area["value"]) for area in areas),
            ]
        )
    return table([*names, *(f"AUC, {name}" for name in attacks)], rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _rate(rate: dict[str, float], form: str) -> str:
    value, low, high = (form.format(rate[key]) for key in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def table(names: list[str], rows: list[list[str]]) -> str:
    """A table of texts, which are escaped."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    inside = f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
    return f'<div class="wide"><table>{inside}</table></div>'


AUDIENCE = "for the curator; not a release"


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file, whole or not at all."""
    from sfumato.core.file_format import write_atomic  # a large room, for those who write files

    write_atomic(Path(path), data)
