"""Picture of clusters: two columns, or the two principal components of more."""

from typing import Any

import numpy as np

from sfumato.core.arrays import rows as matrix_rows
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import integer

__all__ = ["plot_clusters"]

SHOWN = integer(1, 10**7)


def plot_clusters(
    X: Matrix,
    labels: Column,
    *,
    centres: Matrix | None = None,
    names: Any = None,
    max_points: int = 20_000,
) -> Any:
    """Draw the rows of a table in the colours of their clusters.

    Parameters
    ----------
    X : array_like of shape (n_rows, n_features)
        Finite numbers. Of more than two columns the two principal components are drawn.
    labels : array_like of shape (n_rows,)
        Numbers of the clusters; rows of -1 are outliers, drawn in grey.
    centres : array_like of shape (n_clusters, n_features) or None, default=None
        Centres, drawn as crosses; None draws none.
    names : sequence of str or None, default=None
        Names of the columns, for the axes.
    max_points : int, default=20000
        Largest number of rows that are drawn, from 1; of more, every second, third and so on.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; write it by its `savefig`. Matplotlib must be installed.

    Examples
    --------
    >>> figure = plot_clusters([[0, 0], [1, 1], [9, 9]], [0, 0, 1], names=["x", "y"])
    >>> figure.axes[0].get_xlabel()
    'x'
    """
    from matplotlib.figure import Figure  # imported here: it is slow to import

    points = matrix_rows("plot_clusters", X)
    numbers = np.asarray(labels)
    if numbers.shape != (len(points),) or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"plot_clusters: labels must be {len(points)} integers, not of shape {numbers.shape}."
        )
    step = -(-len(points) // SHOWN.check("plot_clusters", "max_points", max_points))
    points, numbers = points[:: max(step, 1)], numbers[:: max(step, 1)]
    crosses = None if centres is None else matrix_rows("plot_clusters", centres, points.shape[1])
    at, crosses, axis_names = _plane(points, crosses, names)
    figure: Any = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    colours = np.where(numbers < 0, -1, numbers % 20)
    outside = numbers < 0
    axes.scatter(*at[outside].T, s=4, color="#bbbbbb", linewidths=0)
    axes.scatter(
        *at[~outside].T, s=4, c=colours[~outside], cmap="tab20", vmin=0, vmax=19, linewidths=0
    )
    if crosses is not None:
        axes.scatter(*crosses.T, s=60, marker="x", color="black")
    axes.set(xlabel=axis_names[0], ylabel=axis_names[1])
    return figure


def _plane(
    points: np.ndarray, crosses: np.ndarray | None, names: Any
) -> tuple[Any, Any, list[str]]:
    """Rows and centres in two dimensions, and the names of the axes."""
    named = [str(name) for name in names] if names is not None else []
    named = named or [f"x{j}" for j in range(points.shape[1])]
    if points.shape[1] == 2:
        return points, crosses, named
    if points.shape[1] == 1:
        flat = np.column_stack([points[:, 0], np.zeros(len(points))])
        level = (
            None if crosses is None else np.column_stack([crosses[:, 0], np.zeros(len(crosses))])
        )
        return flat, level, [named[0], ""]
    mean = points.mean(axis=0) if len(points) else np.zeros(points.shape[1])
    _, _, components = np.linalg.svd(points - mean, full_matrices=False)
    plane = np.zeros((2, points.shape[1]))
    plane[: len(components)] = components[:2]
    moved = None if crosses is None else (crosses - mean) @ plane.T
    return (points - mean) @ plane.T, moved, ["first component", "second component"]
