"""What every engine offers: rows in partitions, folded and merged, and `map_merge` on top of it."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

from sfumato.errors import EngineError
from sfumato.sketch import Sketch

__all__ = [
    "Engine",
    "Mapped",
    "Progress",
    "Rows",
    "S",
    "Step",
    "check_maker",
    "columns_of",
    "filled",
    "first_null",
    "step_of",
]

S = TypeVar("S", bound=Sketch)
T = TypeVar("T")
Progress = Callable[[int, int | None], None]
Step = Callable[[Any, pa.RecordBatch], Any]


Mapped = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@runtime_checkable
class Rows(Protocol):
    """Protocol of rows in partitions, on which an algorithm works without knowing the engine.

    Nothing is computed before `fold`, `batches`, `write` or `persist`.

    Parameters
    ----------
    *args, **kwargs : object
        Not used: engines make rows, and the protocol is never instantiated.

    Examples
    --------
    >>> from sfumato.engine import LocalEngine
    >>> rows: Rows = LocalEngine().rows({"item": ["tea", "milk"]}, ["item"])
    >>> [batch.num_rows for batch in rows.batches()]
    [2]
    """

    def map(self, function: Mapped, schema: pa.Schema) -> Self:
        """Convert the batches of every partition.

        Parameters
        ----------
        function : callable
            Called with an iterator of the batches of a partition, once per partition; returns an
            iterator of other batches. It must be picklable and always give the same rows.
        schema : Schema
            Arrow schema of the batches that it returns.

        Returns
        -------
        Self
            The converted rows.
        """
        ...

    def shuffle(self, by: str) -> Self:
        """Move rows, so that all rows of one value of a column are in one partition.

        Parameters
        ----------
        by : str
            Name of the column.

        Returns
        -------
        Self
            The same rows in other partitions.
        """
        ...

    def persist(self) -> Self:
        """Keep the rows when they are first computed, for work that passes over them again.

        Returns
        -------
        Self
            Rows that are computed once; `unpersist` frees them.
        """
        ...

    def unpersist(self) -> None:
        """Free what `persist` keeps."""
        ...

    def fold(self, fold: Callable[[Iterator[pa.RecordBatch]], T], merge: Callable[[T, T], T]) -> T:
        """Fold the batches of every partition into one value, and merge the values into one.

        Parameters
        ----------
        fold : callable
            Called once per partition with an iterator of its batches; returns a value that can be
            pickled.
        merge : callable
            Called with two values; returns one. It must be associative and commutative.

        Returns
        -------
        object
            The value of all rows.
        """
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Bring the rows to the caller, partition by partition.

        Returns
        -------
        iterator of RecordBatch
            The batches.
        """
        ...

    def write(self, path: Any) -> None:
        """Write the rows as Parquet files of a folder.

        Parameters
        ----------
        path : path_like
            The folder; it must not be there yet.
        """
        ...


class Engine(Protocol):
    """Protocol of where work runs: threads of this machine, or Spark.

    An algorithm asks the engine it was given and does not know which it is.

    Parameters
    ----------
    *args, **kwargs : object
        Not used: engines follow this protocol, and it is never instantiated.

    Examples
    --------
    >>> from sfumato.engine import LocalEngine
    >>> engine: Engine = LocalEngine(threads=2)
    >>> engine.lacks
    {}
    """

    @property
    def lacks(self) -> Mapping[str, str]:
        """Options of its methods that the engine does not support, each with the reason."""
        ...

    @property
    def cores(self) -> int:
        """Number of partitions that it works on at once."""
        ...

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
        """Build the sketch of all rows of a source; see `sfumato.engine.map_merge`.

        Parameters
        ----------
        source : object
            What the engine reads, or rows of it: see the engine and `Rows`.
        make_sketch : callable
            Returns a new, empty sketch; always with the same parameters. Spark pickles it.
        column : str, sequence of str or None, default=None
            Name of the column of keys, or of the columns that are the rows of a matrix.
        weights : str or None, default=None
            Name of the column of weights; None counts every row once.
        batch_rows : int or None, default=None
            Maximum number of rows per batch, unless the engine `lacks` it.
        progress : callable or None, default=None
            Called with the number of rows done and the total number, or None if unknown, unless
            the engine `lacks` it.
        update : callable or None, default=None
            Called as ``update(sketch, batch)`` in place of ``sketch.update``.

        Returns
        -------
        Sketch
            The sketch of all rows.
        """
        ...

    def rows(self, source: Any, columns: Sequence[str], *, private: bool = False) -> Rows:
        """Take the rows of a source, to work on them in partitions.

        Parameters
        ----------
        source : object
            What the engine reads: see the engine.
        columns : sequence of str
            Names of the columns to read.
        private : bool, default=False
            Whether files of text are read line by line, as texts, so that no line is refused and
            none changes how another is read. Other sources have columns of a type.

        Returns
        -------
        Rows
            The rows, not yet read.
        """
        ...

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
        """Fold the batches of every partition into one value, and merge the values into one.

        Parameters
        ----------
        source : object
            What the engine reads: see the engine.
        fold : callable
            Called once per partition with an iterator of its Arrow record batches; returns a value
            that can be pickled, as can the function itself.
        merge : callable
            Called with two values; returns one. It must be associative and commutative, since
            neither the partitions nor their order are fixed.
        columns : sequence of str
            Names of the columns to read.
        batch_rows : int or None, default=None
            Maximum number of rows per batch, unless the engine `lacks` it.
        progress : callable or None, default=None
            Called with the number of rows done and the total number, or None if unknown, unless
            the engine `lacks` it.

        Returns
        -------
        object
            The value of all rows.
        """
        ...


def check_maker(make_sketch: Any) -> Any:
    """Return a sketch of the maker; TypeError if it is no function."""
    if not callable(make_sketch):
        raise TypeError("map_merge: make_sketch must be a function that makes an empty sketch.")
    return make_sketch()


def columns_of(column: str | Sequence[str] | None, weights: str | None) -> list[str]:
    """Names of all columns that `map_merge` reads."""
    keys = [] if column is None else [column] if isinstance(column, str) else list(column)
    return keys if weights is None else [*keys, weights]


def step_of(sketch: Any, column: str | Sequence[str], weights: str | None) -> Step:
    """How a batch is added to a sketch: its keys, or its rows as a matrix, with their weights."""
    if weights is not None and "weights" not in inspect.signature(sketch.update).parameters:
        raise EngineError(f"{type(sketch).__name__}: takes no weights; leave them out.")

    def step(sketch: Any, batch: pa.RecordBatch) -> None:
        rows = batch.column(column) if isinstance(column, str) else _matrix(batch, column)
        if weights is None:
            sketch.update(rows)
        else:
            sketch.update(rows, batch.column(weights))

    return step


def _matrix(batch: pa.RecordBatch, columns: Sequence[str]) -> np.ndarray:
    return np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns])


def filled(sketch: T, step: Step, batches: Iterable[pa.RecordBatch]) -> T:
    """Add all batches to a sketch; each is dropped before the next one is decoded."""
    for batch in batches:
        step(sketch, batch)
        del batch
    return sketch


def first_null(batch: pa.RecordBatch) -> tuple[int, str] | None:
    """Row and column of the first null in a batch, or None."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return min(
        ((each.is_null().index(True).as_py(), name) for name, each in columns if each.null_count),
        default=None,
    )
