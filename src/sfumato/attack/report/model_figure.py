"""The figure of a model's audit: errors, ROC curves, and divergence and AUC by user activity."""

from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["figure_png"]

TRAIN, TEST, PLAIN = "#2f6299", "#d1822b", "#777777"
ATTACKS = ("#2f6299", "#d1822b", "#3d8a57", "#8a4f9e", "#b3261e")
RATE = 0.001


def figure_png(fields: dict[str, Any]) -> bytes:
    """PNG of the figure of an audit, given as its dictionary; deterministic."""
    from matplotlib.figure import Figure  # imported here: most attacks draw nothing

    drawn = Figure(figsize=(11, 8), layout="constrained")
    axes = drawn.subplots(2, 2)
    _errors(axes[0, 0], fields)
    _curves(axes[0, 1], fields["membership"]["attacks"])
    _divergences(axes[1, 0], fields["activity"])
    _areas(axes[1, 1], fields)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_axisbelow(True)
    drawn.suptitle(f"{fields['model']}: what it leaks ({fields['audience']})", fontsize=13)
    out = BytesIO()
    drawn.savefig(out, format="png", dpi=120, metadata={"Software": None})
    return out.getvalue()


def _errors(axis: Any, fields: dict[str, Any]) -> None:
    edges = fields["densities"]["edges"]
    for name, colour in (("train", TRAIN), ("test", TEST)):
        label = f"{name}: RMSE {fields['rmse'][name]:.3f}"
        axis.stairs(fields["densities"][name], edges, color=colour, linewidth=1.8, label=label)
    axis.set_title("Errors on training ratings and on others", fontsize=11)
    axis.set_xlabel("predicted minus true rating")
    axis.set_ylabel("density")
    axis.set_ylim(0, axis.get_ylim()[1] * 1.2)
    axis.legend(frameon=False, loc="upper right")


def _curves(axis: Any, attacks: dict[str, Any]) -> None:
    least = min(1 / attack["others"] for attack in attacks.values())
    grid = np.geomspace(least, 1, 100)
    axis.plot(grid, grid, "--", color=PLAIN, linewidth=1, label="guessing")
    for (name, attack), colour in zip(attacks.items(), ATTACKS, strict=False):
        fpr, tpr = np.array(attack["curve"]).T
        positive = tpr > 0
        axis.plot(
            fpr[positive], tpr[positive], color=colour, linewidth=1.6, label=_label(name, attack)
        )
        axis.plot(RATE, max(attack["tpr"]["0.001"]["value"], least), "o", color=colour)
    axis.axvline(RATE, color=PLAIN, linewidth=0.8)
    axis.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.3))
    axis.set_title("ROC curves of the attacks", fontsize=11)
    axis.set_xlabel("false-positive rate (line at 0.1 %)")
    axis.set_ylabel("true-positive rate")
    axis.legend(frameon=False, fontsize=8, loc="lower right")


def _label(name: str, attack: dict[str, Any]) -> str:
    return f"{name}: AUC {attack['auc']['value']:.3f}, TPR {attack['tpr']['0.001']['value']:.2%}"


def _divergences(axis: Any, quarters: list[dict[str, Any]]) -> None:
    found = [quarter["divergence"] or {} for quarter in quarters]
    formula, free, error = (
        [each.get(key) or 0 for each in found] for key in ("gaussian", "free", "free_error")
    )
    at = np.arange(4)
    axis.bar(at - 0.2, formula, 0.38, color=TRAIN, label="Gaussian formula (4.15)")
    axis.bar(at + 0.2, free, 0.38, color=TEST, label="nonparametric, with its standard error")
    axis.errorbar(at + 0.2, free, error, fmt="none", ecolor="#222", elinewidth=0.8)
    axis.set_title("KL divergence of errors, train from test", fontsize=11)
    axis.set_ylabel("nats")
    axis.set_ylim(0, axis.get_ylim()[1] * 1.25)
    axis.legend(frameon=False, fontsize=9)
    _name_quarters(axis, quarters)


def _areas(axis: Any, fields: dict[str, Any]) -> None:
    attacks = fields["membership"]["attacks"]
    width = 0.8 / len(attacks)
    for at, (name, attack) in enumerate(attacks.items()):
        known = [(q, rate) for q, rate in enumerate(attack["auc_by_activity"]) if rate]
        positions = [q - 0.4 + (at + 0.5) * width for q, _ in known]
        values = np.array([rate["value"] for _, rate in known])
        ends = np.array([[rate["low"], rate["high"]] for _, rate in known]).reshape(-1, 2).T
        half_widths = np.abs(ends - values)
        axis.bar(positions, values - 0.5, width * 0.92, 0.5, color=ATTACKS[at], label=name)
        axis.errorbar(positions, values, half_widths, fmt="none", ecolor="#222", elinewidth=0.8)
    axis.axhline(0.5, color=PLAIN, linewidth=0.8)
    axis.set_title("Area under the ROC curve (0.5: guessing)", fontsize=11)
    axis.set_ylabel("AUC, with its interval")
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + 0.25 * (high - low))
    axis.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
    _name_quarters(axis, fields["activity"])


def _name_quarters(axis: Any, quarters: list[dict[str, Any]]) -> None:
    least = [quarter["least"] for quarter in quarters]
    names = [f"{a:,} to {b - 1:,}" for a, b in pairwise(least)]
    axis.set_xticks(range(4), [*names, f"{least[-1]:,} or more"], fontsize=9)
    axis.tick_params(axis="x", length=0)
    axis.set_xlabel("ratings per user (a quarter of the users each)")
