"""Picture of the distribution of ranks: which fraction of nodes scores at least so much."""

from typing import Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.mine.rank.page_rank.ranks import Ranks

__all__ = ["plot_ranks"]

CURVE, MEAN = "#2f6299", "#d1822b"
POINTS = 2000


def plot_ranks(ranks: Ranks, *, label: str | None = None) -> Any:
    """Draw how many nodes have at least a score, on logarithmic axes.

    Parameters
    ----------
    ranks : Ranks
        Scores of nodes; those of 0 are left out, and their number stated.
    label : str or None, default=None
        Name of the scores; None for that of the method.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; write it by its `savefig`. Matplotlib must be installed.

    Examples
    --------
    >>> from sfumato.mine.rank import pagerank, rmat_graph
    >>> figure = plot_ranks(pagerank(rmat_graph(8, 2000)))
    >>> figure.axes[0].get_xscale()
    'log'
    """
    from matplotlib.figure import Figure  # imported here: it is slow to import

    scores = np.sort(np.asarray(ranks.scores, np.float64))
    positive = scores[scores > 0]
    if not positive.size:
        raise ParameterError.of("plot_ranks", "ranks", "must have a score above 0.")
    figure: Any = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    at = np.unique(np.geomspace(1, positive.size, POINTS).astype(np.int64))  # few in the head
    heights = at / scores.size
    name = label or ranks.method
    axes.step(positive[positive.size - at], heights, color=CURVE, linewidth=2, label=name)
    axes.axvline(scores.mean(), color=MEAN, linestyle=":", linewidth=1.5, label="mean score")
    axes.set(xscale="log", yscale="log", xlabel="score", ylabel="fraction of nodes at least there")
    zeros = scores.size - positive.size
    note = f"{scores.size:,} nodes" + (f", {zeros:,} of them with score 0" if zeros else "")
    axes.set_title(note, fontsize=9)
    axes.grid(alpha=0.25, which="major")
    axes.legend(frameon=False, fontsize=8)
    return figure
