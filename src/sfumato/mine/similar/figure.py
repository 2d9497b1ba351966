"""Picture of an S-curve, with the pairs of a corpus on it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.core.validation import integer, optional
from sfumato.mine.similar.banding import THRESHOLD, SCurve

__all__ = ["plot_s_curve"]

CURVE, PAIRS, MISSED, FALSE = "#2f6299", "#d1822b", "#b3261e", "#3d8a57"
BINS = integer(2, 1000)


def plot_s_curve(
    curve: SCurve,
    similarities: Any = None,
    *,
    threshold: float | None = None,
    bins: int = 50,
) -> Any:
    """Draw the probability of becoming a candidate, and how similar the pairs of the data are.

    Parameters
    ----------
    curve : SCurve
        The curve, as of `choose_bands`.
    similarities : array_like, Dataset or None, default=None
        Similarities of pairs from 0 to 1, such as the column of `near_duplicates`, or the data set
        of pairs that it returns; drawn as a histogram with a logarithmic axis of its own.
    threshold : float or None, default=None
        Similarity from which pairs are wanted, above 0 and at most 1. The areas of missed pairs
        above it and of false candidates below it are shaded; None shades nothing.
    bins : int, default=50
        Bars of the histogram, 2 to 1000.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; write it by its `savefig`. Matplotlib must be installed.

    Examples
    --------
    >>> from sfumato.mine.similar import choose_bands
    >>> figure = plot_s_curve(choose_bands(0.6, 50), [0.9, 0.7, 0.1], threshold=0.6)
    >>> len(figure.axes)
    2
    """
    from matplotlib.figure import Figure  # imported here: it is slow to import

    split = optional(THRESHOLD).check("plot_s_curve", "threshold", threshold)
    bins = BINS.check("plot_s_curve", "bins", bins)
    figure: Any = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    at = np.linspace(0, 1, 501)
    height = curve.probability(at)
    if split is not None:
        _shade(axes, curve, at, height, split)
    axes.plot(at, height, color=CURVE, linewidth=2, label=_name(curve))
    axes.set(xlabel="similarity of a pair", ylabel="probability of becoming a candidate")
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    if similarities is not None:
        _histogram(axes, similarities, bins)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=8)
    return figure


def _name(curve: SCurve) -> str:
    steps = ", ".join(f"{kind} {n}" for kind, n in curve.steps)
    return f"S-curve ({steps}), 1/2 at {curve.threshold:.3f}"


def _shade(axes: Any, curve: SCurve, at: np.ndarray, height: np.ndarray, split: float) -> None:
    false, missed = curve.areas(split)
    below, above = at <= split, at >= split
    axes.fill_between(
        at[below], 0, height[below], color=FALSE, alpha=0.25, label=f"false candidates {false:.3f}"
    )
    axes.fill_between(
        at[above], height[above], 1, color=MISSED, alpha=0.25, label=f"missed pairs {missed:.3f}"
    )
    axes.axvline(split, color="#777777", linestyle=":", linewidth=1)


def _checked(similarities: Any) -> np.ndarray:
    values = np.asarray(similarities, np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("plot_s_curve: similarities must be one column of numbers from 0 to 1.")
    return values


def _parts(similarities: Any) -> Iterator[Any]:
    """The column, or those of a data set, which need not fit into memory."""
    if hasattr(similarities, "to_batches"):
        for batch in similarities.to_batches(columns=["similarity"]):
            yield batch.column(0).to_numpy()
    else:
        yield similarities


def _histogram(axes: Any, similarities: Any, bins: int) -> None:
    heights, edges = np.zeros(bins, np.int64), np.linspace(0, 1, bins + 1)
    for part in _parts(similarities):
        heights += np.histogram(_checked(part), edges)[0]
    counts = axes.twinx()
    counts.stairs(heights, edges, fill=True, color=PAIRS, alpha=0.5)
    counts.set_yscale("symlog", linthresh=1)
    counts.set_ylabel(f"pairs ({heights.sum():,})")
    counts.set_ylim(bottom=0)
    axes.set_zorder(counts.get_zorder() + 1)  # the curve stays in front of the bars
    axes.patch.set_visible(False)
