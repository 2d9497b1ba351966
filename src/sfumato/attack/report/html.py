"""The HTML page of a model's audit."""

from base64 import b64encode
from html import escape
from typing import Any

from sfumato.core.html_pages import document, table

__all__ = ["page"]

MEANINGS = {
    "RMSE": "Root mean squared error of the predictions. A model that memorised its ratings has a "
    "much smaller error on train than on test.",
    "Divergence": "Kullback-Leibler divergence of the errors on train from those on test, in nats. "
    "The Gaussian formula, equation (4.15) of the thesis, is exact for normal errors; the "
    "nonparametric estimate compares histograms. 0 means equal distributions. It is an average: a "
    "single rating may be exposed while the divergence is small.",
    "AUC": "Probability that a training rating (a member) scores above another one; 0.5 is "
    "guessing, 1 is certainty.",
    "TPR at 0.1 % (1 %) FPR": "True-positive rate, the fraction of members found, at a "
    "false-positive rate of 0.1 % (1 %); guessing finds the same fraction.",
    "Advantage": "Largest difference of true- and false-positive rates over all thresholds. Its "
    "expectation is above 0 even for guessing: check that the interval excludes 0.",
    "Epsilon at least": "Lower bound on epsilon for replacing one rating, valid with the stated "
    "confidence. Halve it for adding or removing one.",
    "Quarters": "Users sorted by their number of ratings, in four groups of equal size. For a user "
    "with few ratings, each of them has more influence on the user's factors.",
}


def page(fields: dict[str, Any], png: bytes) -> str:
    """HTML page of an audit, given as its dictionary, with its figure embedded."""
    title = f"Audit of {escape(fields['model'])}"
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="audience"><strong>{escape(fields["audience"])}</strong>. These figures are '
        "computed from raw ratings and no noise protects them.</p>",
        _verdict(fields),
        _summary(fields),
        f'<img alt="{ALT}" src="data:image/png;base64,{b64encode(png).decode()}">',
        "<h2>Attacks</h2>",
        _attacks(fields["membership"]["attacks"]),
        "<h2>Quarters of the users</h2>",
        _quarters(fields),
        "<h2>What the figures mean</h2>",
        "<dl>" + "".join(f"<dt>{a}</dt><dd>{b}</dd>" for a, b in MEANINGS.items()) + "</dl>",
        "<p>An attack that fails proves nothing: a better one may exist. Intervals and epsilon "
        "are valid if the test ratings were split off at random and never used for training.</p>",
    ]
    return document(title, parts)


ALT = "Errors on train and test, attack curves, divergence and AUC by quarter of the users"


def _verdict(fields: dict[str, Any]) -> str:
    if fields["claimed"] is None:
        return "<p>The model has no privacy statement for its whole file to test.</p>"
    claim = f"epsilon {fields['claimed']['epsilon']:.4g}, delta {fields['claimed']['delta']:.3g}"
    allowed = f"The model's statement allows {claim} for replacing one rating"
    if fields["refuted"]:
        return f'<p class="refuted"><strong>{allowed}, and an attack refutes it.</strong></p>'
    return f"<p>{allowed}; no attack refutes it, which proves nothing more.</p>"


def _summary(fields: dict[str, Any]) -> str:
    distribution, rows = fields["divergence"], fields["rows"]
    believed = (
        "near normal" if distribution["trusted"] else "errors are not normal: do not believe it"
    )
    formula = "infinite" if distribution["gaussian"] is None else f"{distribution['gaussian']:.4f}"
    return table(
        ["", "train", "test"],
        [
            ["ratings sampled", f"{rows['train']:,}", f"{rows['test']:,}"],
            ["RMSE", *(f"{fields['rmse'][side]:.4f}" for side in ("train", "test"))],
            ["skewness of errors", *_both(distribution, "skewness")],
            ["excess kurtosis of errors", *_both(distribution, "kurtosis")],
            ["distance from a normal distribution", *_both(distribution, "distance")],
            ["ratings excluded (on both sides)", "", f"{rows['left_out']:,}"],
            [f"divergence by the Gaussian formula (4.15), nats ({believed})", "", formula],
            [
                "divergence, nonparametric, nats",
                "",
                f"{distribution['free']:.4f} ± {distribution['free_error']:.4f}",
            ],
        ],
    )


def _both(distribution: dict[str, Any], key: str) -> list[str]:
    return [f"{distribution[side][key]:+.3f}" for side in ("train", "test")]


def _attacks(attacks: dict[str, Any]) -> str:
    names = ["attack", "AUC", "TPR at 0.1 % FPR", "TPR at 1 % FPR", "advantage"]
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


def _quarters(fields: dict[str, Any]) -> str:
    attacks = fields["membership"]["attacks"]
    names = ["ratings of a user, from", "train rows", "test rows", "RMSE train", "RMSE test"]
    names += ["divergence, Gaussian (4.15)", "nonparametric"]
    rows = []
    for at, quarter in enumerate(fields["activity"]):
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
