"""`sfumato density modes` and `sample`: the highest places of a model, and rows drawn from it."""

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import _density_files
from sfumato.cli._density_files import Model
from sfumato.cli._options import Force, Json
from sfumato.cli.density_ask import TABLES, check

__all__ = ["modes", "sample"]


def modes(
    file: Model,
    n: Annotated[int | None, typer.Option("-n", help="At most so many.", min=1)] = None,
    threshold: Annotated[
        float, typer.Option(help="Standard deviations of noise that a mode must stand out by.")
    ] = 6.0,
    seed: Annotated[int, typer.Option(help="Of the places where the search begins.")] = 0,
    json: Json = False,
) -> None:
    """The places where the density is highest, as far as they stand out of the noise."""
    from sfumato.cli import _show
    from sfumato.density import find_modes

    model = _density_files.load(file, "SketchDensity", "SketchSampler")
    places, values = find_modes(model, n, threshold=threshold, random_state=seed)
    names = _density_files.column_names(model)
    if not len(places) and not json:
        print("No place stands out of the noise.")
        return
    _show.rows(
        [
            {**dict(zip(names, place, strict=True)), "density": value}
            for place, value in zip(places.tolist(), values.tolist(), strict=True)
        ],
        json,
    )


def sample(
    file: Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the rows: .csv or .parquet.")
    ],
    n: Annotated[int, typer.Option("-n", help="How many rows.", min=1)] = 1000,
    seed: Annotated[int | None, typer.Option(help="Fresh rows each time unless told.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write rows drawn from the model: as private as its release, at no further cost."""
    import numpy as np

    from sfumato.cli import _show
    from sfumato.cli._density_tables import write

    check(output, TABLES, force, file)
    model = _density_files.load(file, "SketchDensity", "SketchSampler")
    drawn = model.sample(n, random_state=np.random.default_rng(seed) if seed is None else seed)
    names = _density_files.column_names(model)
    write(output, {name: drawn[:, j] for j, name in enumerate(names)})
    shown = names if json else ", ".join(names)
    _show.document({"file": str(output), "rows": len(drawn), "columns": shown}, json)
