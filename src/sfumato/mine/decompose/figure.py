"""Picture of a spectrum: singular values, and the energy of the first of them."""

from typing import Any

import numpy as np

from sfumato.core.validation import between, optional
from sfumato.mine.decompose.singular_values import SVD

__all__ = ["plot_spectrum"]

VALUES, SUMS, WANTED = "#2f6299", "#d1822b", "#777777"
ENERGY = between(0, np.nextafter(1.0, 2.0), above=True)


def plot_spectrum(parts: SVD, *, energy: float | None = None) -> Any:
    """Draw the singular values of a decomposition, and the energy of the first 1, 2, ... of them.

    Parameters
    ----------
    parts : SVD
        The decomposition.
    energy : float or None, default=None
        Fraction at which a line is drawn, above 0 and at most 1; None for no line.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; write it by its `savefig`. Matplotlib must be installed.

    Examples
    --------
    >>> from sfumato.mine.decompose import svd
    >>> figure = plot_spectrum(svd([[5, 5, 0], [4, 4, 0], [0, 0, 3]], 2), energy=0.9)
    >>> len(figure.axes)
    2
    """
    from matplotlib.figure import Figure  # imported here: it is slow to import

    wanted = optional(ENERGY).check("plot_spectrum", "energy", energy)
    figure: Any = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    ranks = np.arange(1, parts.rank + 1)
    mark = "o" if parts.rank <= 60 else None
    axes.plot(ranks, parts.s, color=VALUES, marker=mark, markersize=3)
    axes.set(xlabel="concept", xlim=(0, parts.rank + 1))
    axes.set_ylabel("singular value", color=VALUES)
    axes.set_ylim(bottom=0)
    sums = axes.twinx()
    sums.plot(ranks, parts.energies, color=SUMS, linewidth=2)
    sums.set_ylabel("energy of all up to here", color=SUMS)
    sums.set_ylim(0, 1.02)
    if wanted is not None:
        sums.axhline(wanted, color=WANTED, linestyle=":", linewidth=1)
    axes.set_title(f"rank {parts.rank} has {parts.energy:.1%} of the energy", fontsize=10)
    return figure
