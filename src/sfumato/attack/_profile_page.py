"""The page of an audit of profiles: its sentence, tables, the figure and what each number means."""

from base64 import b64encode
from html import escape
from typing import Any

from sfumato.attack._profile_figure import ALT
from sfumato.attack._profile_scene import ATTACKED, MOST
from sfumato.attack._report_page import document, table

__all__ = ["GRID", "MEANINGS", "page"]

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
