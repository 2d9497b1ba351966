"""`sfumato density query, classify, regress, anomalies`: what a model says about points.

`sfumato density modes` and `sample`: the maxima of a model's density, and rows drawn from it.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import input_files
from sfumato.cli.density import files
from sfumato.cli.density.files import At, Columns, Model, Points
from sfumato.cli.options import Force, Json, Quiet, check_output, takes

__all__ = ["TABLES", "anomalies", "check", "classify", "modes", "query", "regress", "sample"]

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Where to write all answers: .csv or .parquet."),
]
TABLES = (".csv", ".parquet")
BLOCK = 1 << 14  # points evaluated between two moves of the bar
SHOWN = 20  # rows for people; --json and --output have all
CURATOR = "This is of the rows themselves, which no release covers: for the curator only."


@takes(input_files.TEXT, before="output")
def query(
    context: typer.Context,
    file: Model,
    points: Points = None,
    at: At = None,
    columns: Columns = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Where to draw a heat map of one or two columns: .png, .svg or .pdf."),
    ] = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Estimate how dense the rows are around each point.

    The log of the density is printed too. The p-stable kernel, the default, has no density: its
    number, kernel_mean, is the mean value of the kernel over the rows, up to 1.
    """
    import numpy as np

    from sfumato.cli import printing

    check(output, TABLES, force, file, points)
    _check_plot(plot, force, file, points, output)
    model = files.load(file, "SketchDensity")
    if plot is not None:
        from sfumato.cli.density.figure import heat_map
        from sfumato.core.file_format import write_atomic

        write_atomic(plot, heat_map(model, plot))
        if points is None and not at:
            printing.document({"plot": str(plot)}, json)
            return
    query_points, _ = files.query_points(model, context.params, None)
    logs = _in_blocks(model.score_samples, query_points)
    drawn = {"plot": str(plot)} if plot is not None and json else None
    name = _measure(model)
    _print_rows(query_points, {name: np.exp(logs), f"log_{name}": logs}, output, json, drawn)
    if plot is not None and not json:
        print(f"{plot}: a heat map.")


@takes(input_files.TEXT, before="output")
def classify(
    context: typer.Context,
    file: Model,
    points: Points = None,
    at: At = None,
    columns: Columns = None,
    label: Annotated[
        str | None, typer.Option(help="Column of true classes: print the accuracy too.")
    ] = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict the class of each point, with its probability."""
    import numpy as np

    check(output, TABLES, force, file, points)
    model = files.load(file, "SketchClassifier")
    query_points, truth = files.query_points(model, context.params, label)
    probabilities = _in_blocks(model.predict_proba, query_points)
    best = probabilities.argmax(axis=1)
    found = {
        "class": model.classes_[best],
        "probability": probabilities[np.arange(len(best)), best],
    }
    if truth is None:
        _print_rows(query_points, found, output, json)
        return
    right = truth == found["class"].astype(str)
    usual = np.unique(truth, return_counts=True)[1].max() / len(truth)
    metrics = {"accuracy": float(right.mean()), "most_frequent_class": float(usual)}
    _print_rows(
        query_points, {**found, "true_class": truth, "correct": right}, output, json, metrics
    )


@takes(input_files.TEXT, before="output")
def regress(
    context: typer.Context,
    file: Model,
    points: Points = None,
    at: At = None,
    columns: Columns = None,
    target: Annotated[str | None, typer.Option(help="Column of true values: print R2 too.")] = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict a number for each point."""
    import numpy as np

    check(output, TABLES, force, file, points)
    model = files.load(file, "SketchRegressor")
    query_points, truth = files.query_points(model, context.params, target)
    found = {"predicted": _in_blocks(model.predict, query_points)}
    if truth is None:
        _print_rows(query_points, found, output, json)
        return
    left, variance = np.square(truth - found["predicted"]).mean(), truth.var()
    metrics = {"r2": float(1 - left / variance) if variance else None, "rmse": float(np.sqrt(left))}
    _print_rows(query_points, {**found, "true_value": truth}, output, json, metrics)


@takes(input_files.TEXT, before="output")
def anomalies(
    context: typer.Context,
    file: Model,
    points: Points = None,
    at: At = None,
    columns: Columns = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Score how anomalous each point is; lower is more anomalous.

    The most anomalous are shown first, with their row numbers; --json and -o keep the input order.
    """
    import numpy as np

    check(output, TABLES, force, file, points)
    model = files.load(file, "SketchAnomalyDetector")
    query_points, _ = files.query_points(model, context.params, None)
    scores = _in_blocks(model.score_samples, query_points) + 0.0  # no point has a score of -0
    found = {"score": scores, "anomaly": scores < model.offset_}
    if json:
        _print_rows(query_points, found, output, json)
        return
    first = np.argsort(scores, kind="stable")
    _print_rows(query_points, found, output, json, order=first)
    fraction = f"{int(found['anomaly'].sum()):,} of {len(scores):,}"
    print(f"{fraction} are anomalies: below {model.offset_:.6g}, the threshold of the model.")


def _in_blocks(answers: Any, query_points: Any) -> Any:
    """What a model answers about points, which is of each point alone, with a bar."""
    import numpy as np

    from sfumato.cli import printing

    size, found = len(query_points), []
    with printing.progress("evaluating", "points") as advance:
        advance(0, size)
        for start in range(0, size, BLOCK):
            if isinstance(query_points, np.ndarray):
                part = query_points[start : start + BLOCK]
            else:
                part = query_points.slice(start, BLOCK)
            found.append(answers(part))
            advance(min(start + BLOCK, size), size)
    return found[0] if len(found) == 1 else np.concatenate(found)


def check(
    output: Path | None,
    endings: tuple[str, ...],
    force: bool,
    *inputs: Path | None,
    option: str = "-o",
) -> None:
    """Refuse before the work what could not be written after it."""
    if output is not None:
        if output.suffix.lower() not in endings:
            raise ValueError(f"{option} {output}: must end in {', '.join(endings)}.")
        check_output(output, force, *inputs)


def _check_plot(plot: Path | None, force: bool, *others: Path | None) -> None:
    from sfumato.cli.density.figure import KINDS

    check(plot, KINDS, force, *others, option="--plot")


def _print_rows(
    query_points: Any,
    found: dict[str, Any],
    output: Path | None,
    json: bool,
    more: dict[str, Any] | None = None,
    order: Any = None,
) -> None:
    """The answers beside their points: all of them to a file or as JSON, the first to people."""
    import numpy as np

    from sfumato.cli import printing
    from sfumato.data.tables import write

    given = _columns(query_points)
    columns = {f"{name}_given" if name in found else name: each for name, each in given.items()}
    columns |= found
    size = len(next(iter(found.values())))
    if output is not None:
        write(output, columns)
    if json:
        printing.document({"rows": _rows(columns), **(more or {})}, json)
        return
    if output is None:
        shown = columns if order is None else {"row": np.arange(1, size + 1), **columns}
        first = (np.arange(size) if order is None else order)[:SHOWN]
        printing.rows(_rows({name: np.asarray(each)[first] for name, each in shown.items()}), json)
    if output is not None:
        print(f"{output}: {size:,} rows.")
    elif size > SHOWN:
        print(f"... and {size - SHOWN:,} more; -o FILE writes all.")
    if more is not None:
        printing.document(more, json)
        print(CURATOR)


def _measure(model: Any) -> str:
    """What the numbers of a model are: a density, or where the kernel has none its mean."""
    return "kernel_mean" if model.kernel == "p-stable" else "density"


def _rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    lists = [values.tolist() for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def _columns(query_points: Any) -> dict[str, Any]:
    import numpy as np

    if isinstance(query_points, np.ndarray):
        return {f"x{j}": query_points[:, j] for j in range(query_points.shape[1])}
    return {name: query_points.column(name).to_numpy() for name in query_points.column_names}


def modes(
    file: Model,
    n: Annotated[int | None, typer.Option("-n", help="Maximum number of modes.", min=1)] = None,
    threshold: Annotated[
        float,
        typer.Option(
            help="Number of standard deviations of the noise by which a mode must stand out."
        ),
    ] = 6.0,
    seed: Annotated[int, typer.Option(help="Seed of the starting points.")] = 0,
    json: Json = False,
) -> None:
    """Find the modes of the density that stand out of the noise.

    at_bounds marks a mode at the edge of the public bounds, where all rows beyond are counted.
    """
    from sfumato.cli import printing
    from sfumato.density import find_modes
    from sfumato.density.modes import at_bounds

    model = files.load(file, "SketchDensity", "SketchSampler")
    positions, values = find_modes(model, n, threshold=threshold, random_state=seed)
    names = files.column_names(model)
    if not len(positions) and not json:
        print("No mode stands out of the noise.")
        return
    edges, name = at_bounds(model, positions).tolist(), _measure(model)
    found = zip(positions.tolist(), values.tolist(), edges, strict=True)
    printing.rows(
        [
            {**dict(zip(names, mode, strict=True)), name: value, "at_bounds": edge}
            for mode, value, edge in found
        ],
        json,
    )


def sample(
    file: Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the rows: .csv or .parquet.")
    ],
    n: Annotated[int, typer.Option("-n", help="Number of rows.", min=1)] = 1000,
    seed: Annotated[
        int | None, typer.Option(help="Random seed; default: fresh rows each time.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw synthetic rows from the model, at no further cost."""
    import numpy as np

    from sfumato.cli import printing
    from sfumato.data.tables import write

    check(output, TABLES, force, file)
    model = files.load(file, "SketchDensity", "SketchSampler", "PrivateTableSampler")
    drawn = model.sample(n, random_state=np.random.default_rng(seed) if seed is None else seed)
    names = files.column_names(model)
    columns = drawn.columns if hasattr(drawn, "columns") else drawn.T
    write(output, dict(zip(names, columns, strict=True)))
    shown = names if json else ", ".join(names)
    printing.document({"file": str(output), "rows": len(drawn), "columns": shown}, json)
