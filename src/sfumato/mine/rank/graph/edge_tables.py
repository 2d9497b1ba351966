"""Edges of a file sorted on disk by DuckDB, with positions in place of ids and out-degrees."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.mine.rank.graph.edge_files import EdgeFile

__all__ = ["SortedEdges", "sorted_edges"]

LEAST_MEMORY = 64 << 20
BATCH = 1 << 16


@contextmanager
def sorted_edges(
    file: EdgeFile, scratch: Path, self_loops: str, multi_edges: str, memory_limit: int
) -> Iterator["SortedEdges"]:
    """The edges of a file in a database of the folder `scratch`, after the policies."""
    import duckdb  # only when a graph is sorted on disk

    options: dict[str, Any] = {
        "memory_limit": f"{max(memory_limit, LEAST_MEMORY) // 1000}KB",
        "temp_directory": str(scratch / "spill"),
        "threads": 1,
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    with duckdb.connect(str(scratch / "edges.duckdb"), config=options) as connection:
        _load(connection, file)
        loops = "WHERE s <> t" if self_loops == "drop" else ""
        distinct = "DISTINCT" if multi_edges == "drop" else ""
        connection.execute(f"CREATE TABLE edges AS SELECT {distinct} s, t FROM given {loops}")
        # Nodes are those of all edges of the file, also of loops that are dropped.
        connection.execute(
            "CREATE TABLE nodes AS SELECT id, row_number() OVER (ORDER BY id) - 1 AS position "
            "FROM (SELECT s AS id FROM given UNION SELECT t FROM given)"
        )
        connection.execute("DROP TABLE given")
        connection.execute("CREATE TABLE degrees AS SELECT s, count(*) d FROM edges GROUP BY s")
        yield SortedEdges(connection)


class SortedEdges:
    """Positions of the edges, by stripe, source and target."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        rows = connection.execute("SELECT count(*) FROM nodes").fetchall()
        self.n_nodes: int = int(rows[0][0])

    def write_nodes(self, path: Path) -> None:
        """Write the ids by position."""
        rows = self.connection.sql("SELECT id FROM nodes ORDER BY position").to_arrow_reader(BATCH)
        with pq.ParquetWriter(path, rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)

    def read(self, stripe_size: int, batch: int) -> Iterator[pa.RecordBatch]:
        """Stripe, source, target and out-degree of the source, in this order."""
        yield from self.connection.sql(
            f"SELECT b.position // {stripe_size} AS stripe, a.position AS source, "
            "b.position AS target, d.d FROM edges e JOIN nodes a ON e.s = a.id "
            "JOIN nodes b ON e.t = b.id JOIN degrees d ON e.s = d.s ORDER BY stripe, source, target"
        ).to_arrow_reader(batch)


def _load(connection: Any, file: EdgeFile) -> None:
    """Copy the edges of a file into the table `given`, chunk by chunk."""
    chunks = file.chunks()
    first = next(chunks, None)
    kind = pa.int64() if first is None or isinstance(first[0], np.ndarray) else pa.large_string()
    schema = pa.schema({"s": kind, "t": kind})

    def batches() -> Iterator[pa.RecordBatch]:
        chunk = first
        while chunk is not None:
            columns = [_array(column, kind) for column in chunk[:2]]
            yield pa.record_batch(columns, schema=schema)
            chunk = next(chunks, None)

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    connection.register("reader", reader)
    connection.execute("CREATE TABLE given AS SELECT s, t FROM reader")
    connection.unregister("reader")


def _array(column: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pa.array(column).cast(kind)
