"""Clusters of a table for `sfumato mine cluster`: in memory, in two passes, or on an engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from sfumato.cli import engines, input_files
from sfumato.cli.mine import files

__all__ = ["InMemory", "InTwoPasses", "OnSpark", "names_of", "source_of"]

REMEDY = "--skip-nulls leaves such rows out."


def names_of(given: dict[str, Any]) -> list[str] | None:
    """Names of the columns, which are said where not all are taken."""
    from sfumato.cli.density.files import announce, chosen

    private = given["epsilon"] is not None
    written = input_files.text_format(given, private=private)
    names = chosen(given["table"], given["columns"], None, written, private=private)
    announce(given["table"], names, given)
    return names


def source_of(given: dict[str, Any], names: list[str] | None) -> Any:
    """The rows of the table, part by part."""
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


class OnSpark:
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


class InMemory(_Labelled):
    """Clusters of a table that is read into memory."""

    def __init__(self, given: dict[str, Any]) -> None:
        from sfumato.cli import printing

        self.tree: Any = None
        self.names, self.curve = names_of(given), None
        self.points = _matrix(source_of(given, self.names).all()[0])
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


class InTwoPasses(_Labelled):
    """Clusters of BFR: one pass for their sums, one for the clusters of rows."""

    curve = None

    def __init__(self, given: dict[str, Any]) -> None:
        import numpy as np

        from sfumato.cli import printing
        from sfumato.mine.cluster import BFR, BFRSummary

        self.names = names_of(given)
        self.source = source_of(given, self.names)
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
