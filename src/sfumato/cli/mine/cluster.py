"""`sfumato mine cluster`: clusters of the rows of a table, or a private release of them."""

import secrets
import sys
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines, input_files
from sfumato.cli.bounds import ColumnBounds, column_bounds
from sfumato.cli.mine import files
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
REMEDY = "--skip-nulls leaves such rows out."
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
            found = _OnSpark(engine, context)
        else:
            found = _Streamed(given) if method == "bfr" else _InMemory(given)
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


def _names(given: dict[str, Any]) -> list[str] | None:
    from sfumato.cli.density.files import announce, chosen

    private = given["epsilon"] is not None
    written = input_files.text_format(given, private=private)
    names = chosen(given["table"], given["columns"], None, written, private=private)
    announce(given["table"], names, given)
    return names


def _source(given: dict[str, Any], names: list[str] | None) -> Any:
    from sfumato.data.tables import PointFile

    private = given["epsilon"] is not None
    return PointFile(
        given["table"],
        names,
        skip_nulls=given["skip_nulls"],
        remedy=REMEDY,
        private=private,
        given=input_files.text_format(given, private=private),
    )


def _matrix(part: Any) -> Any:
    """Rows of a part of a table as one array."""
    import numpy as np

    if isinstance(part, np.ndarray):
        return part
    return np.column_stack([column.to_numpy() for column in part.columns])


class _Labelled:
    """Clusters whose labels are in memory."""

    labels: Any

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.labels)

    def write(self, output: Path) -> None:
        """Write the cluster of each row."""
        import pyarrow as pa

        files.write(output, pa.table({"row": range(self.rows), "cluster": self.labels}))


class _OnSpark:
    """Clusters of rows in Parquet files, which stay where they are."""

    curve = None

    def __init__(self, engine: Any, context: typer.Context) -> None:
        from sfumato.mine import cluster as room

        given = context.params
        if given["method"] not in ("kmeans", "bfr"):
            raise ValueError(
                f"mine cluster: --method {given['method']} runs on this machine only; leave "
                "--engine out."
            )
        self.names, self.source = _spark_rows(engine, context)
        self.engine, options = engine, {"engine": engine, "columns": self.names}
        k, seed = given["clusters"], given["seed"]
        model: room.KMeans | room.BFR
        if given["method"] == "kmeans":
            model = room.KMeans(k, random_state=seed).fit(self.source, **options)
            self.facts: dict[str, Any] = {"inertia": model.inertia_, "rounds": model.n_iter_}
        else:
            width = len(self.names)
            summary = engine.map_merge(
                self.source, lambda: room.BFRSummary(k, width, seed=seed), column=self.names
            )
            outliers = "label" if given["outliers"] else "assign"
            model = room.BFR.from_summary(summary, outliers=outliers)
            self.facts = {"mini_clusters": len(summary.compressed)}
        self.facts["engine"] = repr(engine)
        self.model, self.centres = model, model.cluster_centers_.tolist()
        self.counts = [int(count) for count in model.counts_]
        self.rows = int(model.counts_.sum())

    def write(self, output: Path) -> None:
        """Write the rows with their clusters, a folder of Parquet files."""
        import pyarrow as pa

        model, names = self.model, self.names

        def labelled(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                labels = pa.array(model.predict(_matrix(batch)), pa.int64())
                yield pa.RecordBatch.from_arrays([*batch.columns, labels], [*names, "cluster"])

        fields = [(name, pa.float64()) for name in names]
        schema = pa.schema([*fields, ("cluster", pa.int64())])
        self.engine.rows(self.source, names).map(labelled, schema).write(output)


def _spark_rows(engine: Any, context: typer.Context) -> tuple[list[str], Any]:
    """Names of the columns, and a frame of them as numbers."""
    given = context.params
    source = engines.address(context, given["table"])
    names = engines.column_names(engine, source, given["columns"])
    input_files.announce(source, names, given)
    frame = engine.read(source, names)
    frame = frame.selectExpr(*(f"CAST(`{name}` AS double) AS `{name}`" for name in names))
    return names, frame.dropna() if given["skip_nulls"] else frame


class _InMemory(_Labelled):
    """Clusters of a table that is read into memory."""

    def __init__(self, given: dict[str, Any]) -> None:
        from sfumato.cli import printing

        self.tree: Any = None
        self.names, self.curve = _names(given), None
        self.points = _matrix(_source(given, self.names).all()[0])
        hidden, k = given["quiet"] or given["json"], given["clusters"]
        if given["elbow"] is not None:
            from sfumato.mine.cluster import choose_k

            with printing.progress("clustering", "clusters", hidden=hidden) as advance:
                tried = _range(given["elbow"])
                options: Any = {"random_state": given["seed"], "progress": advance}
                self.curve = choose_k(self.points, tried, **options)
                k = self.curve.k
        with printing.progress("clustering", "iterations", hidden=hidden) as advance:
            self._fit(given, k, advance)

    def _fit(self, given: dict[str, Any], k: int, advance: Any) -> None:
        from sfumato.mine import cluster as room

        method, more = given["method"], {}
        model: Any
        if method == "kmeans":
            model = room.KMeans(k, random_state=given["seed"]).fit(self.points, progress=advance)
            self.facts = {"inertia": model.inertia_, "loss": model.loss_, "rounds": model.n_iter_}
        elif method == "cure":
            model = room.CURE(k, random_state=given["seed"]).fit(self.points)
            self.facts = {}
        else:
            more = {} if given["linkage"] is None else {"linkage": given["linkage"]}
            model = self.tree = room.Hierarchical(k, **more).fit(self.points)
            self.facts = {**more}
        self.labels = model.labels_
        self.counts, self.centres = _means(self.points, self.labels)
        if method == "kmeans":
            self.centres = model.cluster_centers_.tolist()

    def figure(self) -> Any:
        """The elbow where it was looked for, the tree of a hierarchy, else the clusters."""
        from sfumato.mine.cluster import plot_clusters, plot_dendrogram

        if self.curve is not None:
            return self.curve.figure()
        if self.tree is not None:
            return plot_dendrogram(self.tree)
        return plot_clusters(self.points, self.labels, centres=self.centres, names=self.names)


class _Streamed(_Labelled):
    """Clusters of BFR: one pass for their sums, one for the clusters of rows."""

    curve = None

    def __init__(self, given: dict[str, Any]) -> None:
        import numpy as np

        from sfumato.cli import printing
        from sfumato.mine.cluster import BFR, BFRSummary

        self.names = _names(given)
        self.source = _source(given, self.names)
        hidden, summary = given["quiet"] or given["json"], None
        with printing.progress("pass 1", hidden=hidden) as advance:
            for rows in self._parts(advance):
                if summary is None:
                    summary = BFRSummary(given["clusters"], rows.shape[1], seed=given["seed"])
                summary.update(rows)
        outliers = "label" if given["outliers"] else "assign"
        assert summary is not None
        model = BFR.from_summary(summary, outliers=outliers)
        self.model, self.counts = model, model.counts_.tolist()
        self.centres = model.cluster_centers_.tolist()
        with printing.progress("pass 2", hidden=hidden) as advance:
            self.labels = np.concatenate([model.predict(rows) for rows in self._parts(advance)])
        self.facts = {
            "variances": model.variances_.tolist(),
            "mini_clusters": len(summary.compressed),
            "retained": len(summary.retained),
        }

    def _parts(self, advance: Any) -> Iterator[Any]:
        done = 0
        for part, _ in self.source.parts():
            rows = _matrix(part)
            yield rows
            done += len(rows)
            advance(done, None)

    def figure(self) -> Any:
        """The clusters of the first rows."""
        from sfumato.mine.cluster import plot_clusters

        rows = next(self._parts(lambda *_: None))
        labels = self.labels[: len(rows)]
        return plot_clusters(rows, labels, centres=self.centres, names=self.names)


def _means(points: Any, labels: Any) -> tuple[list[int], list[list[float]]]:
    """Number of rows and mean of each cluster; rows of -1 are in none."""
    import numpy as np

    numbers = range(int(labels.max(initial=-1)) + 1)
    counts = [int((labels == k).sum()) for k in numbers]
    return counts, [
        points[labels == k].mean(axis=0).tolist() if counts[k] else [np.nan] * points.shape[1]
        for k in numbers
    ]


def _range(written: str) -> range:
    """Numbers of clusters, as 2:12."""
    low, colon, high = written.partition(":")
    if not colon or not low.isdecimal() or not high.isdecimal() or not 0 < int(low) < int(high):
        raise ValueError(f"--elbow must be LOW:HIGH, as 2:12, not {written!r:.100}.")
    return range(int(low), int(high) + 1)


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
    listed = _names(given)
    model, rows = _model(given, listed), _source(given, listed)
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
