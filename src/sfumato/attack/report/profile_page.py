"""The HTML page and the figure of an audit of released profiles."""

from base64 import b64encode
from html import escape
from io import BytesIO
from typing import Any

from sfumato.attack.profile_audit.scenario import ATTACKED, MOST
from sfumato.core.html_pages import document, table

__all__ = ["ALT", "GRID", "MEANINGS", "figure_png", "page"]

ALT = "Fraction of a profile recovered against epsilon, and utility against privacy"
COLOURS = ("#777777", "#d1822b", "#3d8a57", "#2f6299", "#8a4f9e")
MARK = "#b3261e"
APART = 1.6


def figure_png(fields: dict[str, Any]) -> bytes:
    """PNG of the figure of an audit, given as its dictionary; deterministic."""
    from matplotlib.figure import Figure  # imported here: most attacks draw nothing

    drawn = Figure(figsize=(12, 5.4), layout="constrained")
    left, right = drawn.subplots(1, 2)
    _recovery(left, fields)
    _tradeoff(right, fields)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_axisbelow(True)
        axis.grid(color="#eeeeee", linewidth=0.8)
    title = f"Profiles released by {fields['mechanism']['kind']}: what attackers recover"
    drawn.suptitle(f"{title} ({fields['audience']})", fontsize=13)
    out = BytesIO()
    drawn.savefig(out, format="png", dpi=120, metadata={"Software": None})
    return out.getvalue()


def _recovery(axis: Any, fields: dict[str, Any]) -> None:
    points = fields["points"]
    at = [point["epsilon"] for point in points]
    for name, colour in zip(points[0]["attacks"], COLOURS, strict=False):
        attack = [point["attacks"][name] for point in points]
        value, low, high = ([each[key] for each in attack] for key in ("recovery", "low", "high"))
        style = "--" if name == fields["popularity"]["attack"] else "o-"
        axis.fill_between(at, low, high, color=colour, alpha=0.08, linewidth=0)
        axis.plot(at, value, style, color=colour, markersize=4, linewidth=1.8, label=name)
    axis.axvline(fields["epsilon"], color=MARK, linewidth=1)
    label = f" epsilon {fields['epsilon']:.3g}"
    axis.annotate(label, (fields["epsilon"], 1.04), color=MARK, fontsize=9)
    _draw_choice(axis, fields["choice"])
    axis.set(xscale="log", ylim=(0, 1.09))
    named = _named(at, fields["epsilon"])
    axis.set_xticks(named, [f"{epsilon:.3g}" for epsilon in named])
    axis.minorticks_off()
    axis.set_title("Recovered of a profile: mean, and 10 % to 90 % of the users", fontsize=11)
    axis.set_xlabel("epsilon of one item (that of an entire profile is far larger)")
    axis.set_ylabel("fraction of a profile's items recovered")
    axis.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, 0.95))


def _draw_choice(axis: Any, choice: dict[str, Any] | None) -> None:
    if choice is None:
        return
    label = f"allowed: {choice['max_recovery']:.0%}"
    axis.axhline(choice["max_recovery"], color=MARK, linewidth=1, linestyle=":", label=label)
    if choice["epsilon"] is not None and choice["low"] > 0:
        axis.axvspan(choice["low"], choice["high"], color=MARK, alpha=0.08, linewidth=0)


def _named(epsilons: list[float], own: float) -> list[float]:
    """Epsilons to label: the audited one, and others far enough from each other."""
    named = [own]
    for epsilon in sorted(epsilons, key=lambda each: max(each / own, own / each)):
        if all(max(epsilon / other, other / epsilon) > APART for other in named):
            named.append(epsilon)
    return sorted(named)


def _tradeoff(axis: Any, fields: dict[str, Any]) -> None:
    points = fields["points"]
    privacy, utility = ([point[key] for point in points] for key in ("privacy", "utility"))
    axis.plot(privacy, utility, "o-", color=COLOURS[3], linewidth=1.8, markersize=5)
    named = _named([point["epsilon"] for point in points], fields["epsilon"])
    for point in [point for point in points if point["epsilon"] in named]:
        here = point["epsilon"] == fields["epsilon"]
        axis.annotate(
            f"{point['epsilon']:.3g}",
            (point["privacy"], point["utility"]),
            xytext=(5, 5),
            textcoords="offset points",
            fontsize=9,
            color=MARK if here else "#333333",
            fontweight="bold" if here else "normal",
        )
    alone, by_chance = fields["popularity"]["privacy"], points[0]["utility_by_chance"]
    axis.axvline(alone, color=COLOURS[0], linestyle="--", linewidth=1, label="popularity alone")
    axis.axhline(by_chance, color=COLOURS[0], linestyle=":", linewidth=1, label="random users")
    axis.legend(frameon=False, fontsize=9, loc="upper right")
    axis.set(xlim=(0, 1), ylim=(0, 1.09))
    axis.set_title("Utility against privacy, at each epsilon", fontsize=11)
    axis.set_xlabel("privacy: 1 - cosine of the best reconstruction")
    axis.set_ylabel(f"utility: recall of the {fields['neighbours']} nearest users")


MEANINGS = {
    "Recovered": "An attacker ranks all items by their probability of being in a profile and names "
    "as many as the profile has; this fraction of them is correct. The number of items is given to "
    "the attacker, so that attacks with and without the release are comparable.",
    "Popularity alone": "The same for an attacker who ignores the release and names the items that "
    "are most popular among the known users. What is recovered beyond it was leaked by the "
    "release.",
    "Single and joint": "The single decoder tests each item by itself, the joint decoder all items "
    "of a profile together. With popularity, they know how popular items are among the known "
    "users; with taste, they have also learned from these users which items go together (a latent "
    "prior).",
    "Cosine": "Mean cosine of a profile and its reconstruction, equation (3.36) of the thesis. The "
    "reconstruction has as many items as the release's own size estimate, shrunk toward the mean "
    "size of known profiles where the estimate is imprecise. Privacy is 1 - cosine under the best "
    "attack.",
    "mAP@10": "Mean over the first 10 ranks of the precision among the items ranked so far, "
    "equation (3.37) of the thesis: how often an attacker is right who names only the surest "
    "items.",
    "Users who were attacked": "A random sample of the users who are not known. By default at most "
    f"{MOST}, and fewer for large catalogues: the time of attacks grows with users x items, which "
    f"stay below {ATTACKED:,}.",
    "Utility": "Recall of a user's true nearest neighbours (by cosine) among the nearest "
    "neighbours in the release; all are users who were attacked.",
    "Epsilon of one item, of a profile": "The release is differentially private for one item of a "
    "profile with the first epsilon, and for all items of a profile of mean size with the second. "
    "A guarantee for one item says little about an entire profile.",
    "Information": "Information of the release about an entire profile, in nats, for an attacker "
    "with unlimited computing power, if all items are equally likely; at most the entropy of the "
    "profile.",
}
GRID = (
    "Only values of a fixed grid are chosen, about 10 % apart, so that the chosen epsilon reveals "
    "little more about the raw data than its position on the grid. The interval and the recovered "
    "fractions reveal more and stay with the curator."
)


def page(fields: dict[str, Any], png: bytes) -> str:
    """HTML page of an audit, given as its dictionary, with its figure embedded."""
    title = f"Audit of profiles released by {escape(fields['mechanism']['kind'])}"
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="audience"><strong>{escape(fields["audience"])}</strong>. These figures are '
        "computed from raw profiles and no noise protects them: keep this page as you keep the "
        "data. The releases that were attacked were made for this page only.</p>",
        f"<p><strong>{escape(fields['sentence'])}</strong></p>",
        f"<p>{escape(fields['promise'])}</p>",
        _choice(fields["choice"]),
        f'<img alt="{ALT}" src="data:image/png;base64,{b64encode(png).decode()}">',
        f"<h2>Attacks at epsilon {fields['epsilon']:.4g}</h2>",
        _attacks(fields),
        "<h2>Other epsilons</h2>",
        _points(fields),
        "<h2>Data and settings</h2>",
        _settings(fields),
        "<h2>What the figures mean</h2>",
        "<dl>" + "".join(f"<dt>{a}</dt><dd>{b}</dd>" for a, b in MEANINGS.items()) + "</dl>",
        "<p>An attack that fails proves nothing: a better one may exist, or one with more prior "
        "knowledge. What is proved is epsilon.</p>",
    ]
    return document(title, parts)


def _choice(choice: dict[str, Any] | None) -> str:
    if choice is None:
        return ""
    text = f"<h2>Choice of epsilon</h2>\n<p><strong>{escape(choice['sentence'])}</strong></p>"
    return text + f"\n<p>{GRID}</p>"


def _attacks(fields: dict[str, Any]) -> str:
    here = next(point for point in fields["points"] if point["epsilon"] == fields["epsilon"])
    names = ["attack", "recovered", "10 % to 90 % of users", "beyond popularity"]
    alone = fields["popularity"]["recovery"]
    rows = [
        [
            name,
            f"{attack['recovery']:.1%} ± {attack['error']:.1%}",
            f"{attack['low']:.1%} to {attack['high']:.1%}",
            "" if name == fields["popularity"]["attack"] else f"{attack['recovery'] - alone:+.1%}",
            f"{attack['cosine']:.3f}",
            f"{attack['cosine_low']:.3f} to {attack['cosine_high']:.3f}",
            f"{attack['average_precision']:.3f}",
        ]
        for name, attack in here["attacks"].items()
    ]
    return table([*names, "cosine", "10 % to 90 %", "mAP@10"], rows)


def _points(fields: dict[str, Any]) -> str:
    names = ["epsilon of one item", "of a profile", "recovered, best attack", "by"]
    names += ["privacy", "utility", "information, nats"]
    rows = [
        [
            f"{point['epsilon']:.4g}",
            _significant(point["profile_epsilon"]),
            f"{point['recovery']:.1%}",
            point["strongest"],
            f"{point['privacy']:.3f}",
            f"{point['utility']:.3f}",
            _significant(point["profile_nats"]),
        ]
        for point in fields["points"]
    ]
    return table(names, rows)


def _settings(fields: dict[str, Any]) -> str:
    parameters = ", ".join(
        f"{name} {value}"
        for name, value in fields["mechanism"].items()
        if name != "kind" and value is not None
    )
    rows = [
        ["users whose profiles the attacker knows", f"{fields['users']['known']:,}"],
        ["of them, used to learn which items go together", f"{fields['users']['learned_from']:,}"],
        [
            f"users who were attacked, at most {fields['users']['at_most']:,}",
            f"{fields['users']['attacked']:,}",
        ],
        ["candidate items", f"{fields['candidates']:,}"],
        ["mean number of items of an attacked profile", f"{fields['mean_size']:.1f}"],
        ["utility of random neighbours", f"{fields['points'][0]['utility_by_chance']:.3f}"],
        ["parameters", parameters],
        ["random_state", str(fields["random_state"])],
    ]
    return table(["", ""], rows)


def _significant(value: float | None) -> str:
    """A number with four significant digits, a dash for None."""
    return "-" if value is None else f"{value:,.4g}"
