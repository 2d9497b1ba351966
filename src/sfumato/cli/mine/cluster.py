"""`sfumato mine cluster`: clusters of the rows of a table, or a private release of them."""

import secrets
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines, input_files
from sfumato.cli.bounds import ColumnBounds, column_bounds
from sfumato.cli.mine import files
from sfumato.cli.mine.cluster_runs import InMemory, InTwoPasses, OnSpark, names_of, source_of
from sfumato.cli.options import (
    Dataset,
    Force,
    Json,
    Ledger,
    Quiet,
    Relation,
    ReleaseId,
    check_output,
    takes,
)

__all__ = ["cluster"]

METHODS = ("kmeans", "bfr", "cure", "hierarchical")
PAID = ("ledger", "dataset", "release_id", "unit", "relation", "contributions")
PRIVATE = (*PAID, "delta", "bounds", "rounds")
LOCAL = ("elbow", "figure", *input_files.TEXT)  # options of one machine


@takes(input_files.TEXT, before="figure")
def cluster(
    context: typer.Context,
    table: Annotated[
        Path, typer.Argument(help="A table: text, Parquet, Arrow, JSON lines, NumPy; - is stdin.")
    ],
    clusters: Annotated[
        int | None, typer.Option("--clusters", "-k", help="Number of clusters.", min=1)
    ] = None,
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "kmeans",
    columns: Annotated[
        str | None, typer.Option(help="Columns of numbers: a,b,...; default: all.")
    ] = None,
    elbow: Annotated[
        str | None,
        typer.Option(
            metavar="LOW:HIGH",
            help="Choose the number of clusters of kmeans in this range, such as 2:12.",
        ),
    ] = None,
    linkage: Annotated[
        str | None,
        typer.Option(help="With hierarchical: how the distance of two clusters is measured."),
    ] = None,
    outliers: Annotated[
        bool, typer.Option("--outliers", help="With bfr: label rows outside all clusters -1.")
    ] = False,
    epsilon: Annotated[
        float | None, typer.Option(help="Make a private release, with this epsilon for one row.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of the release.")] = 0.0,
    bounds: ColumnBounds = None,
    rounds: Annotated[
        int | None, typer.Option(help="With private kmeans: how often the centres move.")
    ] = None,
    ledger: Ledger = None,
    dataset: Dataset = None,
    release_id: ReleaseId = None,
    unit: Annotated[str | None, typer.Option(help="Privacy unit; default: event.")] = None,
    relation: Relation = None,
    contributions: Annotated[
        int | None, typer.Option(help="Maximum number of rows of one unit.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of samples and starts, never of noise.")] = 0,
    skip_nulls: Annotated[
        bool, typer.Option("--skip-nulls", help="Leave out rows with an empty or NaN cell.")
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the elbow, dendrogram or clusters: .png, .svg or .pdf."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help=f"Where to write the cluster of each row: {', '.join(files.TABLES)}; with "
            "--epsilon the centres, or the release with any other ending.",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find clusters of the rows of a table.

    bfr reads the table batch by batch, in bounded memory. With --epsilon a private release of
    centres and counts is made, charged before noise is drawn. The clusters of single rows are then
    never written.
    """
    given = context.params
    if method not in METHODS:
        raise ValueError(f"--method must be one of {', '.join(METHODS)}, not {method!r:.100}.")
    if (clusters is None) == (elbow is None):
        raise ValueError("--clusters or --elbow must be given, one of them.")
    _refuse_misfits(given)
    given["table"] = table = engines.located(context, table)
    if epsilon is not None:
        _release(context)
        return
    files.check_outputs(output, figure, force, table)
    begin = time.perf_counter()
    named = input_files.naming_options(("linkage",), n_clusters="clusters")
    with named, engines.chosen(context, LOCAL) as engine:
        found: Any
        if engine is not None:
            found = OnSpark(engine, context)
        else:
            found = InTwoPasses(given) if method == "bfr" else InMemory(given)
        seconds = round(time.perf_counter() - begin, 3)
        if figure is not None:
            _write_figure(figure, found.figure())
        if output is not None:
            found.write(output)
    _show(found, given, seconds)


def _refuse_misfits(given: dict[str, Any]) -> None:
    """Refuse options that would be ignored."""
    method, private = given["method"], given["epsilon"] is not None
    misfits = {
        "--elbow": given["elbow"] is not None and (method != "kmeans" or private),
        "--linkage": given["linkage"] is not None and method != "hierarchical",
        "--outliers": given["outliers"] and (method != "bfr" or private),
        "--figure": given["figure"] is not None and private,
        "--skip-nulls": given["skip_nulls"] and private,
        "--rounds": given["rounds"] is not None and method != "kmeans",
    }
    for option, misfit in misfits.items():
        if misfit:
            with_epsilon = " with --epsilon" if private else ""
            raise ValueError(f"{option} does not go with --method {method}{with_epsilon}.")
    if private and method not in ("kmeans", "bfr"):
        raise ValueError(f"--epsilon goes with --method kmeans or bfr, not {method}.")
    for name in () if private else PRIVATE:
        if given[name]:
            raise ValueError(f"--{name.replace('_', '-')} goes with --epsilon.")


def _write_figure(path: Path, drawn: Any) -> None:
    from sfumato.core.file_format import write_atomic

    out = BytesIO()
    drawn.savefig(out, format=path.suffix[1:].lower(), dpi=120)
    write_atomic(path, out.getvalue())


def _rows(counts: Any, centres: Any, names: list[str] | None) -> list[dict[str, Any]]:
    """One line per cluster for people."""
    named = names or [f"x{j}" for j in range(len(centres[0]))]
    return [
        {"cluster": at, "rows": count, **dict(zip(named, centre, strict=True))}
        for at, (count, centre) in enumerate(zip(counts, centres, strict=True))
    ]


def _show(found: Any, given: dict[str, Any], seconds: float) -> None:
    from sfumato.cli import printing

    about: dict[str, Any] = {
        "file": given["output"] and str(given["output"]),
        "method": given["method"],
        "clusters": len(found.centres),
        "rows": found.rows,
    }
    if found.curve is not None:
        about["elbow"] = found.curve.to_arrow().to_pylist()
    if given["json"]:
        about |= {"columns": found.names, "counts": found.counts, "centres": found.centres}
        printing.document({**about, **found.facts, "seconds": seconds}, True)
        return
    if found.curve is not None:
        printing.rows(about.pop("elbow"), False)
    if given["output"] is None:
        printing.rows(_rows(found.counts, found.centres, found.names), False)
        return
    facts = {name: value for name, value in found.facts.items() if not isinstance(value, list)}
    printing.document({**about, **facts, "seconds": seconds}, False)


def _release(context: typer.Context) -> None:
    """Make the private release that the options describe."""
    from sfumato.cli import printing, release_options

    given = context.params
    output, ledger, json = given["output"], given["ledger"], given["json"]
    if output is not None:
        check_output(output, given["force"], given["table"])
    if not given["bounds"]:
        raise ValueError("--epsilon needs --bounds: public, never taken from private data.")
    paid = {name: given[name] for name in PAID if given[name] is not None}
    if ledger is not None:
        if not ledger.exists() or not ledger.stat().st_size:
            raise FileNotFoundError(f"{ledger}: there is no ledger; make one with budget create.")
        paid["release_id"] = paid.get("release_id") or secrets.token_hex(16)
    named = paid.get("release_id")
    stored = release_options.is_stored(ledger, named)
    with release_options.way_back(ledger, named), engines.chosen(context, LOCAL) as engine:
        release, names = _fitted(engine, context, paid)
        if output is not None:
            _write_release(output, release, names)
    _show_release(release, given, names, stored)
    printing.promise(release.statement, json)
    if stored:
        print(f"sfumato: {named!r} was stored before; nothing was drawn.", file=sys.stderr)


def _fitted(
    engine: Any, context: typer.Context, paid: dict[str, Any]
) -> tuple[Any, list[str] | None]:
    """The release of private rows, and the names of their columns."""
    given = context.params
    if engine is not None:
        source = engines.address(context, given["table"])
        names = engines.column_names(engine, source, given["columns"])
        model = _model(given, names)
        return model.fit(source, engine=engine, columns=names, **paid).release_, names
    listed = names_of(given)
    model, rows = _model(given, listed), source_of(given, listed)
    # How many rows there are is not shown of those that are to be hidden.
    return model.fit(lambda: (part for part, _ in rows.parts()), **paid).release_, listed


def _model(given: dict[str, Any], names: list[str] | None) -> Any:
    from sfumato.mine.cluster import PrivateBFR, PrivateKMeans

    pairs = column_bounds(given["bounds"], names)
    width = len(names) if names is not None else _width(given["table"])
    if len(pairs) not in (1, width):
        raise ValueError(
            f"--bounds must be given once for all columns, or {width} times, not {len(pairs)}."
        )
    low, high = zip(*(pairs * width if len(pairs) == 1 else pairs), strict=True)
    options: dict[str, Any] = {"bounds": (low, high), "seed": given["seed"]}
    if given["rounds"] is not None:
        options["rounds"] = given["rounds"]
    made = PrivateKMeans if given["method"] == "kmeans" else PrivateBFR
    return made(given["clusters"], given["epsilon"], given["delta"], **options)


def _width(file: Path) -> int:
    """Number of columns of a matrix."""
    from sfumato.data.tables import matrix_of

    return int(matrix_of(file).shape[1])


def _write_release(output: Path, release: Any, names: list[str] | None) -> None:
    if output.suffix.lower() not in files.TABLES:
        release.save(output)
        return
    import pyarrow as pa

    centres = release.cluster_centers.tolist()
    files.write(output, pa.Table.from_pylist(_rows(release.counts.tolist(), centres, names)))


def _show_release(
    release: Any, given: dict[str, Any], names: list[str] | None, stored: bool
) -> None:
    from sfumato.cli import printing

    counts, centres = release.counts.tolist(), release.cluster_centers.tolist()
    if given["output"] is None and not given["json"]:
        printing.rows(_rows(counts, centres, names), False)
        return
    about: dict[str, Any] = {
        "file": given["output"] and str(given["output"]),
        "method": given["method"],
        "clusters": release.n_clusters,
        "deviation": release.deviation,
    }
    if given["json"]:
        about |= {"columns": names, "counts": counts, "centres": centres}
        if hasattr(release, "variances"):
            about["variances"] = release.variances.tolist()
        about |= {"statement": release.statement.to_dict(), "stored_before": stored}
    printing.document(about, given["json"])
