"""The page of an audit of profiles: its sentence, tables, the figure and what each number means.

The figure of an audit of profiles: what attacks recover at each epsilon, and what it is for.
"""

from base64 import b64encode
from html import escape
from io import BytesIO
from typing import Any

from sfumato.attack.profile_audit.scenario import ATTACKED, MOST
from sfumato.attack.report.html import document, table

__all__ = ["ALT", "GRID", "MEANINGS", "figure_png", "page"]

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
    _draw_choice(axis, told["choice"])
    axis.set(xscale="log", ylim=(0, 1.09))
    named = _named(at, told["epsilon"])
    axis.set_xticks(named, [f"{epsilon:.3g}" for epsilon in named])
    axis.minorticks_off()
    axis.set_title("Recovered of a profile: mean, and 10 % to 90 % of the users", fontsize=11)
    axis.set_xlabel("epsilon, of one item (a whole profile loses far more)")
    axis.set_ylabel("share of a profile's items recovered")
    axis.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, 0.95))


def _draw_choice(axis: Any, choice: dict[str, Any] | None) -> None:
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


MEANINGS = {
    "Recovered": "An attacker ranks all items by how likely they are in a profile and names as "
    "many as the profile has; this share of them is right. The number of items is granted, so that "
    "attacks with and without the release are compared alike.",
    "Popularity alone": "The same for an attacker who sees nothing of the release and names the "
    "items that are most popular among the known users. What is recovered beyond it is what the "
    "release gives away.",
    "Single and joint": "The single attack looks at each item by itself, the joint one at whole "
    "profiles at once. By popularity they know how popular items are among the known users; by "
    "taste they have also learned from those which items go together.",
    "Cosine": "Between a profile and its reconstruction, of as many items as the release itself "
    "tells that there are, drawn toward the mean size of known profiles where it tells little; "
    "privacy is 1 - cosine under the best attack.",
    "mAP@10": "The precision among the first 1, 2, ... 10 items named, on average: an attacker who "
    "names only the surest is right this often.",
    "Users who were attacked": "Some of those who are not known, drawn by lot. Unless told, at "
    f"most {MOST}, and fewer where there are many items: attacks take as long as there are users x "
    f"items, which stay below {ATTACKED:,}.",
    "Utility": "How many of a user's true nearest users, by cosine, are found again among those "
    "that the release shows as nearest; all are users who were attacked.",
    "Epsilon of one item, of a profile": "How much likelier anything released can become by one "
    "item of one profile, as a power of e, and by all items of a profile of mean size. A promise "
    "about one item says little about a whole profile.",
    "Information": "What the release tells about a whole profile, in nats, to an attacker who can "
    "compute anything, if all items were equally likely; at most all there is to know of it.",
}
GRID = (
    "Only values of a grid that is fixed beforehand are chosen, about 10 % apart, so that epsilon "
    "tells little more of the raw data than its place there; the interval, and what was recovered, "
    "tell more and stay with the curator."
)


def page(told: dict[str, Any], png: bytes) -> str:
    """The page of an audit, given as its dictionary, with its figure inside."""
    title = f"Audit of profiles released by {escape(told['mechanism']['kind'])}"
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="audience"><strong>{escape(told["audience"])}</strong>. These figures are '
        "computed from raw profiles and no noise protects them: keep this page as you keep the "
        "data. The releases that were attacked were made for this page only.</p>",
        f"<p><strong>{escape(told['sentence'])}</strong></p>",
        f"<p>{escape(told['promise'])}</p>",
        _choice(told["choice"]),
        f'<img alt="{ALT}" src="data:image/png;base64,{b64encode(png).decode()}">',
        f"<h2>Attacks at epsilon {told['epsilon']:.4g}</h2>",
        _attacks(told),
        "<h2>Other epsilons</h2>",
        _points(told),
        "<h2>What was looked at</h2>",
        _looked(told),
        "<h2>What the figures mean</h2>",
        "<dl>" + "".join(f"<dt>{a}</dt><dd>{b}</dd>" for a, b in MEANINGS.items()) + "</dl>",
        "<p>An attack that fails proves nothing: a better one may exist, or one that knows more "
        "than was granted here. What is proved is epsilon.</p>",
    ]
    return document(title, parts)


def _choice(choice: dict[str, Any] | None) -> str:
    if choice is None:
        return ""
    told = f"<h2>Choice of epsilon</h2>\n<p><strong>{escape(choice['sentence'])}</strong></p>"
    return told + f"\n<p>{GRID}</p>"


def _attacks(told: dict[str, Any]) -> str:
    here = next(point for point in told["points"] if point["epsilon"] == told["epsilon"])
    names = ["attack", "recovered", "10 % to 90 % of users", "beyond popularity"]
    alone = told["popularity"]["recovery"]
    rows = [
        [
            name,
            f"{attack['recovery']:.1%} ± {attack['error']:.1%}",
            f"{attack['low']:.1%} to {attack['high']:.1%}",
            "" if name == told["popularity"]["attack"] else f"{attack['recovery'] - alone:+.1%}",
            f"{attack['cosine']:.3f}",
            f"{attack['cosine_low']:.3f} to {attack['cosine_high']:.3f}",
            f"{attack['average_precision']:.3f}",
        ]
        for name, attack in here["attacks"].items()
    ]
    return table([*names, "cosine", "10 % to 90 %", "mAP@10"], rows)


def _points(told: dict[str, Any]) -> str:
    names = ["epsilon of one item", "of a profile", "recovered, best attack", "by"]
    names += ["privacy", "utility", "information, nats"]
    rows = [
        [
            f"{point['epsilon']:.4g}",
            _whole(point["profile_epsilon"]),
            f"{point['recovery']:.1%}",
            point["strongest"],
            f"{point['privacy']:.3f}",
            f"{point['utility']:.3f}",
            _whole(point["profile_nats"]),
        ]
        for point in told["points"]
    ]
    return table(names, rows)


def _looked(told: dict[str, Any]) -> str:
    parameters = ", ".join(
        f"{name} {value}"
        for name, value in told["mechanism"].items()
        if name != "kind" and value is not None
    )
    rows = [
        ["users whose profiles the attacker knows", f"{told['users']['known']:,}"],
        ["of them, those whom tastes were learned from", f"{told['users']['learned_from']:,}"],
        [
            f"users who were attacked, at most {told['users']['at_most']:,}",
            f"{told['users']['attacked']:,}",
        ],
        ["items that a profile may have", f"{told['candidates']:,}"],
        ["items of an attacked profile, mean", f"{told['mean_size']:.1f}"],
        ["utility that chance would give", f"{told['points'][0]['utility_by_chance']:.3f}"],
        ["parameters", parameters],
        ["random_state", str(told["random_state"])],
    ]
    return table(["", ""], rows)


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}"
