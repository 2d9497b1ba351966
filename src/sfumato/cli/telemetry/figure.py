"""The picture of a decoded table: a bar for each value with its interval, and the rest."""

import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["KINDS", "figure"]

KINDS = (".png", ".svg", ".pdf")
FOUND, DOUBTFUL, OTHER, ENDS = "#2f6299", "#b9b9b9", "#d1822b", "#222222"
LETTERS = 32  # of a value, before it is cut


def figure(decoded: Any, top: int, level: float, path: Path) -> bytes:
    """The bytes of the figure in the format of the file extension."""
    from matplotlib.figure import Figure  # only here: most who decode draw nothing

    first = np.argsort(-decoded.estimate, kind="stable")[:top]
    rest = decoded.other > 0 or decoded.other_std_error > 0
    bars = len(first) + rest
    drawn = Figure(figsize=(9, 1.9 + 0.3 * max(bars, 3)), layout="constrained")
    axis = drawn.subplots()
    _values(axis, decoded, first)
    if rest:
        _other(axis, decoded, len(first), level)
    names = [_name(decoded.value[i]) for i in first.tolist()]
    _dress(axis, [*names, "no candidate"] if rest else names)
    _title(axis, decoded, len(first), level)
    out = BytesIO()
    with warnings.catch_warnings():  # a letter that the font lacks becomes a box, not a warning
        warnings.simplefilter("ignore", UserWarning)
        drawn.savefig(out, format=path.suffix[1:].lower(), dpi=120)
    return out.getvalue()


def _values(axis: Any, decoded: Any, first: np.ndarray) -> None:
    at, found = np.arange(len(first)), decoded.detected[first]
    estimate, low, high = (getattr(decoded, name)[first] for name in ("estimate", "low", "high"))
    for rows, colour, label in ((found, FOUND, "found"), (~found, DOUBTFUL, "could be chance")):
        if rows.any():
            axis.barh(at[rows], estimate[rows], 0.66, color=colour, label=label)
    half_width = np.maximum([estimate - low, high - estimate], 0)
    axis.errorbar(
        estimate, at, xerr=half_width, fmt="none", ecolor=ENDS, elinewidth=1, capsize=2.5, zorder=3
    )


def _other(axis: Any, decoded: Any, at: int, level: float) -> None:
    """What no candidate explains, drawn apart from them."""
    from scipy.stats import norm

    half_width = float(norm.ppf(1 - level / 2)) * decoded.other_std_error
    ends = [[min(half_width, decoded.other)], [half_width]]  # a count is not below 0
    axis.barh(at, decoded.other, 0.66, color="white", edgecolor=OTHER, hatch="////", linewidth=1)
    axis.errorbar(decoded.other, at, xerr=ends, fmt="none", ecolor=ENDS, elinewidth=1, capsize=2.5)


def _dress(axis: Any, names: list[str]) -> None:
    # A value may hold a dollar sign, which is no formula.
    axis.set_yticks(range(len(names)), names, parse_math=False, fontsize=9)
    axis.tick_params(axis="y", length=0)
    axis.set_ylim(max(len(names), 1) - 0.4, -0.6)
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axis.axvline(0, color=ENDS, linewidth=0.8)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.set_axisbelow(True)
    axis.grid(axis="x", color="#eeeeee", linewidth=0.8)
    axis.set_xlabel("reports")
    axis.figure.legend(frameon=False, fontsize=9, ncols=2, loc="outside lower right")


def _title(axis: Any, decoded: Any, shown: int, level: float) -> None:
    counted = f"{shown} of {len(decoded)} candidates, " if shown < len(decoded) else ""
    title = (
        f"Decoded from {decoded.reports:,} reports: {counted}{int(decoded.detected.sum())} found"
    )
    axis.set_title(f"{title}, with {1 - level:.0%} intervals", fontsize=11, loc="left")


def _name(value: Any) -> str:
    shown = "".join(letter if letter.isprintable() else "?" for letter in str(value))
    return shown if len(shown) <= LETTERS else shown[: LETTERS - 1] + "…"
