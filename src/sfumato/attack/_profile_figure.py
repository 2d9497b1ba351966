"""The figure of an audit of profiles: what attacks recover at each epsilon, and what it is for."""

from io import BytesIO
from typing import Any

__all__ = ["ALT", "figure_png"]

ALT = "Share of a profile recovered against epsilon, and utility against privacy"
COLOURS = ("#777777", "#d1822b", "#3d8a57", "#2f6299", "#8a4f9e")
MARK = "#b3261e"
APART = 1.6


def figure_png(told: dict[str, Any]) -> bytes:
    """The figure of an audit, given as its dictionary; the same one gives the same bytes."""
    from matplotlib.figure import Figure  # only here: most who attack draw nothing

    drawn = Figure(figsize=(12, 5.4), layout="constrained")
    left, right = drawn.subplots(1, 2)
    _recovery(left, told)
    _tradeoff(right, told)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_axisbelow(True)
        axis.grid(color="#eeeeee", linewidth=0.8)
    title = f"Profiles released by {told['mechanism']['kind']}: what attackers recover"
    drawn.suptitle(f"{title} ({told['audience']})", fontsize=13)
    out = BytesIO()
    drawn.savefig(out, format="png", dpi=120, metadata={"Software": None})
    return out.getvalue()


def _recovery(axis: Any, told: dict[str, Any]) -> None:
    points = told["points"]
    at = [point["epsilon"] for point in points]
    for name, colour in zip(points[0]["attacks"], COLOURS, strict=False):
        attack = [point["attacks"][name] for point in points]
        value, low, high = ([each[key] for each in attack] for key in ("recovery", "low", "high"))
        style = "--" if name == told["popularity"]["attack"] else "o-"
        axis.fill_between(at, low, high, color=colour, alpha=0.08, linewidth=0)
        axis.plot(at, value, style, color=colour, markersize=4, linewidth=1.8, label=name)
    axis.axvline(told["epsilon"], color=MARK, linewidth=1)
    label = f" epsilon {told['epsilon']:.3g}"
    axis.annotate(label, (told["epsilon"], 1.04), color=MARK, fontsize=9)
    _choice(axis, told["choice"])
    axis.set(xscale="log", ylim=(0, 1.09))
    named = _named(at, told["epsilon"])
    axis.set_xticks(named, [f"{epsilon:.3g}" for epsilon in named])
    axis.minorticks_off()
    axis.set_title("Recovered of a profile: mean, and 10 % to 90 % of the users", fontsize=11)
    axis.set_xlabel("epsilon, of one item (a whole profile loses far more)")
    axis.set_ylabel("share of a profile's items recovered")
    axis.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, 0.95))


def _choice(axis: Any, choice: dict[str, Any] | None) -> None:
    if choice is None:
        return
    label = f"allowed: {choice['max_recovery']:.0%}"
    axis.axhline(choice["max_recovery"], color=MARK, linewidth=1, linestyle=":", label=label)
    if choice["epsilon"] is not None and choice["low"] > 0:
        axis.axvspan(choice["low"], choice["high"], color=MARK, alpha=0.08, linewidth=0)


def _named(epsilons: list[float], own: float) -> list[float]:
    """The epsilons that there is room to name: the one asked for, and others apart from each."""
    named = [own]
    for epsilon in sorted(epsilons, key=lambda each: max(each / own, own / each)):
        if all(max(epsilon / other, other / epsilon) > APART for other in named):
            named.append(epsilon)
    return sorted(named)


def _tradeoff(axis: Any, told: dict[str, Any]) -> None:
    points = told["points"]
    privacy, utility = ([point[key] for point in points] for key in ("privacy", "utility"))
    axis.plot(privacy, utility, "o-", color=COLOURS[3], linewidth=1.8, markersize=5)
    named = _named([point["epsilon"] for point in points], told["epsilon"])
    for point in [point for point in points if point["epsilon"] in named]:
        here = point["epsilon"] == told["epsilon"]
        axis.annotate(
            f"{point['epsilon']:.3g}",
            (point["privacy"], point["utility"]),
            xytext=(5, 5),
            textcoords="offset points",
            fontsize=9,
            color=MARK if here else "#333333",
            fontweight="bold" if here else "normal",
        )
    alone, chance = told["popularity"]["privacy"], points[0]["utility_by_chance"]
    axis.axvline(alone, color=COLOURS[0], linestyle="--", linewidth=1, label="popularity alone")
    axis.axhline(chance, color=COLOURS[0], linestyle=":", linewidth=1, label="users by chance")
    axis.legend(frameon=False, fontsize=9, loc="upper right")
    axis.set(xlim=(0, 1), ylim=(0, 1.09))
    axis.set_title("Utility against privacy, at each epsilon", fontsize=11)
    axis.set_xlabel("privacy: 1 - cosine of the best reconstruction")
    axis.set_ylabel(f"utility: recall of the {told['neighbours']} nearest users")
