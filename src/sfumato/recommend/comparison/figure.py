"""The figure of a comparison: metrics with their intervals, and the first one by slice."""

from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.recommend.comparison.measurement import ITEM_SLICES

if TYPE_CHECKING:
    from sfumato.recommend.comparison.results import Comparison

__all__ = ["drawn", "svg"]

COLOURS = ("#2f6299", "#d1822b", "#3d8a57", "#8a4f9e", "#b3261e", "#4f8f9e", "#8a6d3b", "#555555")
PLAIN = "#777777"


def drawn(found: "Comparison") -> Any:
    """Return the figure: a panel per metric above, slices of users and of items below."""
    from matplotlib.figure import Figure  # imported here: it is slow to import

    metrics, models = found.protocol.metrics, len(found.results)
    height = 1.3 + 0.32 * models
    figure: Any = Figure(figsize=(11, height + 3.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(height, 3.6))
    panels = above.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for panel, metric in zip(panels, metrics, strict=True):
        _metric(panel, found, metric)
    _name_models(panels[0], found)
    users, items = below.subplots(1, 2, sharey=True, width_ratios=(4, 3))
    _slices(users, found, "users by training rows", of_items=False)
    _slices(items, found, "items by popularity in train", of_items=True)
    users.set_ylabel(metrics[0])
    # Names are texts, whatever they contain: "$" would begin a formula.
    for text in figure.findobj(lambda each: hasattr(each, "set_parse_math")):
        text.set_parse_math(False)
    return figure


def svg(figure: Any) -> str:
    """Return a figure as an SVG element, the same for the same comparison."""
    from matplotlib import rc_context

    out = StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "sfumato", "font.size": 10}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _metric(panel: Any, found: "Comparison", metric: str) -> None:
    estimates = [each.metrics[metric] for each in found.results.values()]
    at = np.arange(len(estimates))[::-1]
    for place, value, colour in zip(at, estimates, _colours(found), strict=True):
        panel.errorbar(
            value.value, place, xerr=_half_widths([value]), fmt="o", color=colour, capsize=3
        )
    if found.baseline in found.results:
        trivial = found.results[found.baseline].metrics[metric].value
        panel.axvline(trivial, color=PLAIN, linewidth=0.9, linestyle="--")
    panel.set_title(f"{metric} (dashed: {found.baseline})", fontsize=11)
    panel.set_ylim(-0.6, len(estimates) - 0.4)
    _plain_axes(panel, "x")


def _name_models(panel: Any, found: "Comparison") -> None:
    names = [name if len(name) <= 40 else f"{name[:39]}…" for name in found.results]
    panel.set_yticks(range(len(names))[::-1], names)
    panel.tick_params(axis="y", length=0)


def _slices(panel: Any, found: "Comparison", title: str, *, of_items: bool) -> None:
    first, names = found.protocol.metrics[0], list[str]()
    for result in found.results.values():
        names += [name for name in result.slices if name not in names]
    names = [name for name in names if (name in ITEM_SLICES) == of_items]
    step = 0.7 / max(len(found.results), 1)
    for number, (name, result) in enumerate(found.results.items()):
        values = [result.slices[each][first] for each in names]
        at = np.arange(len(names)) - 0.35 + (number + 0.5) * step
        panel.errorbar(
            at,
            [each.value for each in values],
            yerr=_half_widths(values),
            fmt="o",
            markersize=4,
            capsize=2,
            color=_colours(found)[number],
            label=name,
        )
    panel.set_xticks(range(len(names)), names, fontsize=9)
    panel.set_xlim(-0.5, max(len(names), 1) - 0.5)
    panel.set_title(f"{first}: {title}", fontsize=11)
    _plain_axes(panel, "y")


def _half_widths(values: list[Any]) -> np.ndarray:
    """Return the lengths below and above, 0 where there is no interval."""
    ends = [[each.value - each.low, each.high - each.value] for each in values]
    return np.nan_to_num(np.maximum(np.array(ends).reshape(-1, 2).T, 0.0))


def _colours(found: "Comparison") -> list[str]:
    return [COLOURS[at % len(COLOURS)] for at in range(len(found.results))]


def _plain_axes(panel: Any, grid: str) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_axisbelow(True)
    panel.grid(axis=grid, color="#eeeeee", linewidth=0.8)
