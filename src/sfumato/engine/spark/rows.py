"""Rows of `SparkEngine`: a data frame, on whose partitions Python works batch by batch."""

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa

from sfumato.engine.base import Mapped
from sfumato.engine.spark.session import translated
from sfumato.engine.spark.tasks import task_of

if TYPE_CHECKING:
    from sfumato.engine.spark.engine import SparkEngine

__all__ = ["SparkRows"]

T = TypeVar("T")


class SparkRows:
    """Rows of a data frame of Spark; made by `SparkEngine.rows`.

    Parameters
    ----------
    engine : SparkEngine
        The engine.
    frame : DataFrame
        The data frame.

    Attributes
    ----------
    frame : DataFrame
        The data frame, for whatever else Spark can do with it.

    Examples
    --------
    >>> def users(engine, events):
    ...     return engine.rows(events, ["user"]).shuffle("user").frame.count()
    """

    def __init__(self, engine: "SparkEngine", frame: Any) -> None:
        self.frame: Any
        self._engine, self.frame = engine, frame

    def __repr__(self) -> str:
        return f"SparkRows(columns={self.frame.columns})"

    def map(self, function: Mapped, schema: pa.Schema) -> Self:
        """Convert the batches of every partition; see `Rows.map`."""
        from pyspark.sql.pandas.types import from_arrow_schema

        with translated():
            frame = self.frame.mapInArrow(task_of(function), from_arrow_schema(schema))
        return type(self)(self._engine, frame)

    def shuffle(self, by: str) -> Self:
        """Move rows, so that all rows of one value are in one partition; see `Rows.shuffle`."""
        parts = 2 * self._engine.cores
        with translated():
            return type(self)(self._engine, self.frame.repartition(parts, f"`{by}`"))

    def persist(self) -> Self:
        """Keep the rows on the executors when they are first computed; see `Rows.persist`."""
        with translated():
            return type(self)(self._engine, self.frame.persist())

    def unpersist(self) -> None:
        """Free what `persist` keeps."""
        with translated():
            self.frame.unpersist()

    def fold(self, fold: Callable[[Iterator[pa.RecordBatch]], T], merge: Callable[[T, T], T]) -> T:
        """Fold every partition into one value, and merge the values in a tree; see `Rows.fold`."""
        return self._engine.fold(self.frame, fold, merge, columns=self.frame.columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Bring the batches to the driver, partition by partition; see `Rows.batches`."""
        with translated():
            packed = self.frame.mapInArrow(task_of(_packed), "batch binary")
            for row in packed.toLocalIterator(prefetchPartitions=True):
                yield from pa.ipc.open_stream(bytes(row.batch))

    def write(self, path: Any) -> None:
        """Write the rows as Parquet files of a new folder; see `Rows.write`."""
        with translated():
            self.frame.write.parquet(str(path))


def _packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as one row of its bytes."""
    for batch in batches:
        out = io.BytesIO()
        with pa.ipc.new_stream(out, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([out.getvalue()], pa.binary())], ["batch"])
