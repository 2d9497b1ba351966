"""The picture of a density over one column, a curve, or two, a heat map, and what its noise is."""

import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

__all__ = ["KINDS", "heat_map"]

KINDS = (".png", ".svg", ".pdf")
CELLS = {1: 512, 2: 256}  # along each axis
LINE, LINES = "#2f6299", "#ffffff"
LEVELS = 6  # contours
LETTERS = 40  # of a name, before it is cut


def heat_map(model: Any, path: Path) -> bytes:
    """The bytes of the figure in the format of the file extension."""
    from matplotlib.figure import Figure  # only here: most queries draw nothing

    from sfumato.cli.density.files import column_names
    from sfumato.density import grid_values

    dimension = model.n_features_in_
    if dimension > 2:
        raise ValueError(f"--plot draws one or two columns, and the model has {dimension}.")
    values, axes = grid_values(model, shape=CELLS[dimension])
    drawn = Figure(figsize=(7, 5.6 if dimension == 2 else 3.8), layout="constrained")
    axis = drawn.subplots()
    noise = _noise(model)
    if dimension == 1:
        _curve(axis, axes[0], values, noise, model.bounds_)
        axis.set_ylabel(_said(model))
    else:
        shown = _map(axis, axes, values, noise, model.bounds_)
        drawn.colorbar(
            shown, ax=axis, label=_said(model), extend="min" if values.min() < 0 else "neither"
        )
    # A name may hold a dollar sign, which is no formula.
    names = [_name(name) for name in column_names(model)]
    axis.set_xlabel(names[0], parse_math=False)
    if dimension == 2:
        axis.set_ylabel(names[1], parse_math=False)
    axis.set_title(_title(model, noise), fontsize=10, loc="left")
    out = BytesIO()
    with warnings.catch_warnings():  # a letter that the font lacks becomes a box, not a warning
        warnings.simplefilter("ignore", UserWarning)
        drawn.savefig(out, format=path.suffix[1:].lower(), dpi=120)
    return out.getvalue()


def _curve(axis: Any, across: Any, values: Any, noise: float, bounds: Any) -> None:
    axis.plot(across, values, color=LINE)
    if noise:
        axis.fill_between(
            across, values - 2 * noise, values + 2 * noise, color=LINE, alpha=0.18, linewidth=0
        )
    axis.set_xlim(bounds[0][0], bounds[1][0])
    axis.set_ylim(0, 1.05 * max(float(values.max()) + 2 * noise, 0.0) or 1)
    axis.spines[["top", "right"]].set_visible(False)


def _map(axis: Any, axes: Any, values: Any, noise: float, bounds: Any) -> Any:
    """Below 0 there is only noise, so 0 is the darkest; no contour is lower than it can make."""
    import numpy as np

    low, high = bounds
    most = float(values.max())
    shown = axis.imshow(
        values.T,
        origin="lower",
        extent=(low[0], high[0], low[1], high[1]),
        aspect="auto",
        interpolation="bilinear",
        cmap="viridis",
        vmin=0,
        vmax=most if most > 0 else 1,
    )
    levels = np.linspace(0, most, LEVELS + 2)[1:-1] if most > 0 else np.empty(0)
    clear = levels[(levels > max(values.min(), 4 * noise)) & (levels < most)]
    if clear.size:
        axis.contour(*axes, values.T, clear, colors=LINES, linewidths=0.6, alpha=0.55)
    return shown


def _noise(model: Any) -> float:
    """The standard deviation of the noise of one value, in the units that are drawn."""
    import numpy as np

    from sfumato.density.evaluation_grid import field_of

    field = field_of("heat map", model)
    return float(field.density(np.array(field.noise)))


def _said(model: Any) -> str:
    return "mean kernel value" if model.kernel == "p-stable" else "density"


def _title(model: Any, noise: float) -> str:
    if not hasattr(model, "statement_"):
        return "not private: drawn from the rows as they are"
    statement = model.statement_
    cost = f"epsilon {statement.epsilon:g}" + (
        f", delta {statement.delta:g}" if statement.delta else ""
    )
    kind = "hides next to nothing" if statement.warning else "private"
    return f"{kind}, {cost}; noise of a value: standard deviation {noise:.2g}"


def _name(name: str) -> str:
    shown = "".join(letter if letter.isprintable() else "?" for letter in name)
    return shown if len(shown) <= LETTERS else shown[: LETTERS - 1] + "…"
