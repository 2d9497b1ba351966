"""Picture of a dendrogram."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.core.estimator import not_fitted
from sfumato.core.validation import integer
from sfumato.mine.cluster.hierarchical.hierarchical import Hierarchical

__all__ = ["plot_dendrogram"]

LEAVES = integer(2, 500)  # SciPy draws by recursion, as deep as there are leaves
LINE, STOP, OWNER = "#2f6299", "#b3261e", "plot_dendrogram"


def plot_dendrogram(
    clusters: Hierarchical | np.ndarray,
    *,
    names: Sequence[str] | None = None,
    max_leaves: int = 40,
) -> Any:
    """Draw the merges of a hierarchical clustering as a tree.

    Parameters
    ----------
    clusters : Hierarchical or ndarray of shape (n - 1, 4)
        The fitted estimator, or its `merges_`. With an estimator a dashed line marks where merging
        stopped.
    names : sequence of str or None, default=None
        Name of each row; None for row numbers.
    max_leaves : int, default=40
        Most leaves, 2 to 500. Where there are more rows, the first merges are drawn as one leaf
        with the number of rows in parentheses.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; write it by its `savefig`. Matplotlib must be installed.

    Examples
    --------
    >>> from sfumato.mine.cluster import Hierarchical
    >>> found = Hierarchical(2, linkage="single").fit([[0.0], [1.0], [5.0]])
    >>> [text.get_text() for text in plot_dendrogram(found).axes[0].get_xticklabels()]
    ['2', '0', '1']
    """
    from matplotlib.figure import Figure  # imported here: it is slow to import
    from scipy.cluster.hierarchy import dendrogram

    leaves = LEAVES.check(OWNER, "max_leaves", max_leaves)
    merges, stop = _merges(clusters)
    if names is not None and len(names) != len(merges) + 1:
        raise ValueError(f"{OWNER}: names must be one per row, {len(merges) + 1}.")
    figure: Any = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    if len(merges):
        dendrogram(
            merges,
            p=leaves,
            truncate_mode="lastp" if len(merges) + 1 > leaves else None,
            labels=None if names is None else list(map(str, names)),
            ax=axes,
            color_threshold=0,
            above_threshold_color=LINE,
        )
    if stop is not None:
        axes.axhline(stop, color=STOP, linestyle="--", linewidth=1, label="stop")
        axes.legend(frameon=False, fontsize=8)
    axes.set_ylabel("height of the merge")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def _merges(clusters: Any) -> tuple[np.ndarray, float | None]:
    """The merges and the height at which they stopped, if it is between two of them."""
    if not isinstance(clusters, Hierarchical):
        merges = np.asarray(clusters, np.float64)
        if merges.ndim != 2 or merges.shape[1] != 4:
            raise ValueError(f"{OWNER}: clusters must have the shape (n - 1, 4) of merges_.")
        return merges, None
    if not hasattr(clusters, "merges_"):
        raise not_fitted(f"{OWNER}: the clusters are not fitted yet; call fit first.")
    heights, applied = clusters.merges_[:, 2], clusters.applied_
    if not 0 < applied < heights.size:
        return clusters.merges_, None
    below, above = heights[:applied].max(), heights[applied:].min()
    return clusters.merges_, float(below + above) / 2 if above > below else None
