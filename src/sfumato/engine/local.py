"""Threads of this machine: each folds the batches it reads, then all results are merged.

`Crew` are the threads, which take a piece of the source each and help with another's when no unread
piece is left.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from sfumato.core.tables import described
from sfumato.core.validation import integer, optional
from sfumato.data import Batches, Piece, Reading, read_batches
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
from sfumato.errors import NullValueError

if TYPE_CHECKING:
    from sfumato.engine.local_rows import LocalRows

__all__ = ["Crew", "LocalEngine", "lacks", "map_merge"]

T = TypeVar("T")
Fold = Callable[[Iterator[pa.RecordBatch]], T]
PAUSE = 0.1  # seconds between two calls of progress
PATIENCE = 10.0  # seconds to wait for a thread that a source keeps blocked after Ctrl-C


class Crew:
    """Worker threads over the pieces of a source, each of which folds the batches it pulls.

    A worker pulls a batch, folds it, drops it and pulls the next. There is no other queue, so a
    fast source waits for the workers and memory stays bounded.

    Parameters
    ----------
    batches : Batches
        The source.
    reading : Reading
        Number of threads and rows per batch.
    progress : callable or None
        As in `map_merge`.
    """

    def __init__(self, batches: Batches, reading: Reading, progress: Progress | None) -> None:
        self._batches, self._progress = batches, progress
        pieces = batches.pieces
        # A lone text file is parsed by as many threads as wait for it; of several, each by one.
        parsers = max(1, reading.threads // max(len(pieces), 1))
        own = Reading(reading.batch_rows, parsers, reading.memory)
        self._waiting = deque(_Open(at, piece, own) for at, piece in enumerate(pieces))
        self._begun: list[_Open] = []
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._failures: list[tuple[int, int, BaseException]] = []

    def run(self, folds: list[Fold[T]]) -> list[T]:
        """Give every batch to one of the folds; raise the error of the first failing batch."""
        workers = [_Worker(fold) for fold in folds]
        for each in workers:
            threading.Thread(target=self._work, args=(each,), daemon=True).start()
        try:
            for each in workers:
                while not each.end.wait(PAUSE):
                    self._report_progress(workers)
        finally:
            self._stop.set()
            deadline = time.monotonic() + PATIENCE
            for each in workers:
                each.end.wait(max(0.0, deadline - time.monotonic()))
            for piece in self._begun:
                piece.close()
        if self._failures:
            raise min(self._failures, key=lambda failure: failure[:2])[2]
        self._report_progress(workers)
        return [each.result for each in workers]

    def _report_progress(self, workers: "list[_Worker]") -> None:
        if self._progress is not None:
            self._progress(sum(each.done for each in workers), self._batches.rows)

    def _work(self, worker: "_Worker") -> None:
        try:
            worker.result = worker.fold(self._stream(worker))
        except BaseException as error:
            self._fail(worker, self._located(error, worker))
        finally:
            worker.end.set()

    def _stream(self, worker: "_Worker") -> Iterator[pa.RecordBatch]:
        """Batches of pieces that this worker reads alone or together with others."""
        for piece in iter(self._next_piece, None):
            worker.piece, worker.row = piece, piece.row
            while (pulled := piece.pull(self._stop)) is not None:
                worker.row, batch = pulled
                worker.batch = self._batches.finished(batch)
                rows = batch.num_rows
                del pulled, batch
                yield worker.batch
                worker.batch = None  # before the next is decoded
                worker.done += rows

    def _located(self, error: BaseException, worker: "_Worker") -> BaseException:
        """The error, or for a null of the batch one that says where it is."""
        # A sketch knows the row only within its batch; a step may also accept nulls. Arrow, and a
        # step of the caller, mention the null only in the message.
        missing = isinstance(error, NullValueError) or "null" in str(error)
        if not isinstance(error, ValueError) or not missing or worker.batch is None:
            return error
        null = first_null(worker.batch)
        if null is None or worker.piece is None:
            return error
        problem = f"{worker.piece.name}: row {worker.row + 1 + null[0]}: column {null[1]!r} is null"
        found = NullValueError(f"{problem}; skip nulls or fill them first.")
        found.__cause__ = error
        return found

    def _next_piece(self) -> "_Open | None":
        """A piece that no worker reads yet, else one that is being read and is not finished."""
        with self._lock:
            if self._stop.is_set():
                return None
            if self._waiting:
                self._begun.append(self._waiting.popleft())
                return self._begun[-1]
            self._begun = [piece for piece in self._begun if not piece.finished]
            return self._begun[0] if self._begun else None

    def _fail(self, worker: "_Worker", error: BaseException) -> None:
        self._stop.set()
        piece = worker.piece
        if piece is None:
            self._failures.append((-1, 0, error))
            return
        row = piece.row if piece.broken else worker.row
        if not str(error).startswith(f"{piece.name}: "):
            where = f"This was in the batch of {piece.name} from row {row + 1} on"
            error.add_note(f"{where}; rows of a batch count from 0.")
        self._failures.append((piece.at, row, error))


class _Worker:
    """A thread's fold, where it is, and its result; `end` is set when the thread has ended."""

    def __init__(self, fold: Fold[Any]) -> None:
        self.fold, self.done, self.row = fold, 0, 0
        self.piece: _Open | None = None
        self.batch: pa.RecordBatch | None = None
        self.result: Any = None
        # An event, because Python 3.11 takes a thread for ended whose join Ctrl-C interrupts.
        self.end = threading.Event()


class _Open:
    """A piece that one or more workers read, one batch at a time."""

    def __init__(self, at: int, piece: Piece, reading: Reading) -> None:
        self.at, self.name, self.row = at, piece.name, piece.first_row
        self.finished = self.broken = False
        self._piece, self._reading, self._lock = piece, reading, threading.Lock()
        self._batches: Iterator[pa.RecordBatch] | None = None

    def pull(self, stop: threading.Event) -> tuple[int, pa.RecordBatch] | None:
        """The first row of the next batch, and the batch; None at the end or when all must stop."""
        with self._lock:
            if self.finished or stop.is_set():
                return None
            try:
                self._batches = self._batches or self._piece.open(self._reading)
                batch = next(self._batches, None)
            except BaseException:
                self.finished = self.broken = True
                raise
            if batch is None:
                self.finished = True
                return None
            row, self.row = self.row, self.row + batch.num_rows
            return row, batch

    def close(self) -> None:
        """Release the file, unless a thread is still blocked reading it."""
        if self._lock.acquire(blocking=False):
            self._batches = None
            self._lock.release()


LEAST_ROWS = 1 << 10  # of a batch: below it the calls cost more than the work
COPIES = 3  # of a batch in memory: decoded, while its pages are decoded, as checked weights
WORKER_BYTES = 4 << 20  # of a thread besides its sketch and batch: pages, hashes, the stack


class LocalEngine:
    """Threads of this machine.

    It reads all that `sfumato.data.read_batches` accepts, such as paths, data frames or an
    iterable of batches, and what that function returns.

    Parameters
    ----------
    threads : int or None, default=None
        Number of threads, from 1 to 1024; None uses all available cores.
    memory_limit : int or None, default=None
        Upper bound in bytes on the memory of the sketches (at their size when empty), of the
        batches (for rows of average size; for Parquet also the largest page) and of the readers.
        Threads and rows per batch are lowered to fit; ValueError if one thread does not fit.

    Notes
    -----
    **Guarantee.** Each thread has at most one batch in memory, so memory does not grow with the
    source. An error in one thread stops all of them and is raised with a note on where it occurred.
    Ctrl-C stops the threads after their current batch.

    Examples
    --------
    >>> from sfumato.sketch import HyperLogLog
    >>> views = {"user": [7, 8, 7]}
    >>> round(LocalEngine(threads=2).map_merge(views, HyperLogLog, column="user").estimate())
    2
    """

    lacks: Mapping[str, str] = {}  # this engine supports every option

    def __init__(self, threads: int | None = None, *, memory_limit: int | None = None) -> None:
        self.threads = THREADS.check("map_merge", "threads", threads)
        self.memory_limit = MEMORY.check("map_merge", "memory_limit", memory_limit)

    @property
    def workers(self) -> int:
        """Number of threads that work."""
        return self.threads or _cores()

    def __repr__(self) -> str:
        return described(self, threads=self.threads, memory_limit=self.memory_limit)

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
            Anything that `sfumato.data.read_batches` accepts, or its result.
        make_sketch : callable
            Returns a new, empty sketch; always with the same parameters.
        column : str, sequence of str or None, default=None
            Name of the column of keys, or of the columns that are the rows of a matrix.
        weights : str or None, default=None
            Name of the column of weights; None counts every row once.
        batch_rows : int or None, default=None
            Maximum number of rows per batch; None keeps the default of the source.
        progress : callable or None, default=None
            Called in the calling thread, about ten times a second.
        update : callable or None, default=None
            Called as ``update(sketch, batch)`` in place of ``sketch.update``.

        Returns
        -------
        Sketch
            The sketch of all rows.
        """
        first: S = check_maker(make_sketch)
        batches = _batches(source, columns_of(column, weights), keyed=hasattr(first, "keys"))
        step = update or step_of(first, _only(batches, column), weights)
        most = 1 if first.merging.kind == "refused" else None
        plan = self._plan(batches, first.nbytes, batch_rows, most)
        sketches = [first, *(make_sketch() for _ in range(plan.threads - 1))]
        if len({id(sketch) for sketch in sketches}) < len(sketches):
            raise ValueError("map_merge: make_sketch must make a new sketch at every call.")
        made = Crew(batches, plan, progress).run([_filling(each, step) for each in sketches])
        return _merged(made, lambda left, right: left.merge(right))

    def fold(
        self,
        source: Any,
        fold: Fold[T],
        merge: Callable[[T, T], T],
        *,
        columns: Sequence[str],
        batch_rows: int | None = None,
        progress: Progress | None = None,
    ) -> T:
        """Fold the batches that each thread reads into one value, and merge the values into one.

        Parameters
        ----------
        source : object
            Anything that `sfumato.data.read_batches` accepts, or its result.
        fold : callable
            Called once per thread with an iterator of Arrow record batches; returns a value.
        merge : callable
            Called with two values; returns one.
        columns : sequence of str
            Names of the columns to read.
        batch_rows : int or None, default=None
            Maximum number of rows per batch; None keeps the default of the source.
        progress : callable or None, default=None
            Called with the number of rows done and the total number, or None if unknown.

        Returns
        -------
        object
            The value of all rows.

        Examples
        --------
        >>> rows = {"price": [1.0, 2.5]}
        >>> def total(batches):
        ...     return sum(float(batch.column("price").to_numpy().sum()) for batch in batches)
        >>> LocalEngine().fold(rows, total, lambda a, b: a + b, columns=["price"])
        3.5
        """
        batches = _batches(source, list(columns), keyed=False)
        plan = self._plan(batches, 0, batch_rows, None)
        return _merged(Crew(batches, plan, progress).run([fold] * plan.threads), merge)

    def rows(self, source: Any, columns: Sequence[str]) -> "LocalRows":
        """Take the rows of a source, to work on them in partitions.

        Parameters
        ----------
        source : object
            Anything that `sfumato.data.read_batches` accepts, or its result.
        columns : sequence of str
            Names of the columns to read.

        Returns
        -------
        LocalRows
            The rows, not yet read.
        """
        from sfumato.engine.local_rows import LocalRows

        return LocalRows(self, _batches(source, list(columns), keyed=False))

    def _plan(
        self, batches: Batches, state: int, batch_rows: int | None, most: int | None
    ) -> Reading:
        """Threads and rows per batch for folds whose state has so many bytes."""
        wanted = most or self.workers
        if batch_rows is None:
            batch_rows = batches.reading.batch_rows
        rows = integer(1, 2**31 - 1).check("map_merge", "batch_rows", batch_rows)
        return _fit(batches, state, wanted, rows, self.memory_limit)


THREADS = optional(integer(1, 1024))
MEMORY = optional(integer(1))


def map_merge(
    source: Any,
    make_sketch: Callable[[], S],
    *,
    column: str | Sequence[str] | None = None,
    weights: str | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    batch_rows: int | None = None,
    progress: Progress | None = None,
    update: Step | None = None,
    engine: Engine | None = None,
) -> S:
    """Build the sketch of all rows of a source, in parallel.

    Every thread, or partition of Spark, fills a sketch of its own; at the end they are merged into
    one.

    Parameters
    ----------
    source : object
        What the engine reads. Local threads: anything that `sfumato.data.read_batches` accepts,
        such as a path, a data frame or an iterable of batches, or its result. Spark: a data frame
        of Spark, or paths of Parquet files.
    make_sketch : callable
        Returns a new, empty sketch; always with the same parameters.
    column : str, sequence of str or None, default=None
        Name of the column of keys, or names of columns of numbers whose rows a sketch of vectors
        takes. It may be omitted if `source` is the result of `read_batches` with a single column.
    weights : str or None, default=None
        Name of the column of weights; None counts every row once.
    threads : int or None, default=None
        Number of threads, from 1 to 1024; None uses all available cores. Not with `engine`.
    memory_limit : int or None, default=None
        Upper bound in bytes on memory, as of `LocalEngine`. Not with `engine`.
    batch_rows : int or None, default=None
        Maximum number of rows per batch; None keeps the default of the source.
    progress : callable or None, default=None
        Called in the calling thread, about ten times a second, with the number of rows done and
        the total number of rows, or None if that is unknown.
    update : callable or None, default=None
        Called as ``update(sketch, batch)`` in place of ``sketch.update(column, weights)``, for
        sketches that need other columns.
    engine : Engine or None, default=None
        Where the work runs; None for threads of this machine.

    Returns
    -------
    Sketch
        The sketch of all rows.

    Notes
    -----
    **Guarantee.** The result does not depend on the engine, the number of threads or partitions or
    the batch size: bit for bit if the sketch merges exactly, up to its stated tolerance if it
    merges with rounding (see `sfumato.sketch.Merging`). A sketch that refuses to merge is filled by
    one local thread, in order; Spark refuses it.

    Examples
    --------
    >>> from sfumato.sketch import CountMin
    >>> views = {"item": ["tea", "milk", "tea"]}
    >>> map_merge(views, lambda: CountMin(1024), column="item", threads=2).estimate(["tea"])
    array([2])
    """
    if engine is None:
        engine = LocalEngine(threads, memory_limit=memory_limit)
    elif threads is not None or memory_limit is not None:
        raise ValueError(
            "map_merge: threads and memory_limit belong to LocalEngine; leave them out."
        )
    return engine.map_merge(
        source,
        make_sketch,
        column=column,
        weights=weights,
        batch_rows=batch_rows,
        progress=progress,
        update=update,
    )


lacks = LocalEngine.lacks


def _filling(sketch: S, step: Step) -> Fold[S]:
    return lambda batches: filled(sketch, step, batches)


def _batches(source: Any, columns: list[str], *, keyed: bool) -> Batches:
    if not isinstance(source, Batches):
        if not columns:
            raise ValueError("map_merge: name the column, or pass what read_batches returns.")
        return read_batches(source, columns, keys=columns[:1] if keyed else [])
    for name in columns:
        if name not in source.columns:
            raise ValueError(
                f"map_merge: column {name!r} is not among those read: {', '.join(source.columns)}."
            )
    return source


def _only(batches: Batches, column: str | Sequence[str] | None) -> str | Sequence[str]:
    """The column that was named, or the only one that is read."""
    if column is None:
        if len(batches.columns) != 1:
            raise ValueError(f"map_merge: name one of the columns {', '.join(batches.columns)}.")
        return batches.columns[0]
    return column


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _fit(batches: Batches, sketch: int, threads: int, rows: int, limit: int | None) -> Reading:
    """The largest number of threads, and of rows per batch, that fit the memory limit."""
    if limit is None:
        return Reading(rows, threads)
    found, least = batches.found, min(rows, LEAST_ROWS)
    # A page of Parquet is read at once: as stored, decoded, and then as the rows of a batch.
    pages = (2 + COPIES) * found.largest()
    fixed = sketch + WORKER_BYTES + found.reader_bytes + pages
    row = COPIES * found.row_bytes
    threads = min(threads, limit // (fixed + row * least))
    if threads == 0:
        raise ValueError(
            f"map_merge: memory_limit must be at least {fixed + row * least} bytes, not {limit}: "
            f"one sketch takes {sketch}, its thread {fixed - sketch} (of which the longest values "
            f"take {pages}) and a small batch {row * least}; raise the limit, make the sketch "
            "smaller, or leave out rows with very long values."
        )
    return Reading(min(rows, (limit // threads - fixed) // row), threads, found.reader_bytes)


def _merged(values: list[T], merge: Callable[[T, T], T]) -> T:
    """Merge all values into one, pairwise, so that rounding errors stay small."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        unpaired = values[-1:] if len(values) % 2 else []
        values = [merge(left, right) for left, right in pairs] + unpaired
    return values[0]
