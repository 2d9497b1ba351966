"""Sketches from large sources by local threads: each fills its own sketch, then all are merged.

Also the `Engine` protocol that every engine follows, and `Crew`, the threads that take a piece of
the source each and help with another's when no unread piece is left.
"""

import inspect
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from sfumato.core.validation import integer
from sfumato.data import Batches, Piece, Reading, read_batches
from sfumato.errors import NullValueError
from sfumato.sketch import Sketch

__all__ = ["Crew", "Engine", "Progress", "S", "lacks", "map_merge"]

S = TypeVar("S", bound=Sketch)
Progress = Callable[[int, int | None], None]


class Engine(Protocol):
    """Protocol of the modules that can run `map_merge`.

    Parameters
    ----------
    *args, **kwargs : object
        Not used: modules follow this protocol, and it is never instantiated.

    Examples
    --------
    >>> import sfumato.engine.local
    >>> engine: Engine = sfumato.engine.local
    >>> engine.lacks
    {}
    """

    @property
    def lacks(self) -> Mapping[str, str]:
        """Options of `map_merge` that the engine does not support, each with the reason."""
        ...

    def map_merge(
        self,
        source: Any,
        make_sketch: Callable[[], S],
        *,
        column: str | None = None,
        weights: str | None = None,
        threads: int | None = None,
        memory_limit: int | None = None,
        batch_rows: int | None = None,
        progress: Progress | None = None,
        update: Callable[[S, pa.RecordBatch], Any] | None = None,
    ) -> S:
        """Build the sketch of all rows of a source; see `sfumato.engine.map_merge`.

        Parameters
        ----------
        source : object
            Anything that `sfumato.data.read_batches` accepts, or its result.
        make_sketch : callable
            Returns a new, empty sketch; always with the same parameters.
        column : str or None, default=None
            Name of the column of keys.
        weights : str or None, default=None
            Name of the column of weights; None counts every row once.
        threads : int or None, default=None
            Number of threads; None uses all available cores.
        memory_limit : int or None, default=None
            Upper bound in bytes on the memory of sketches, batches and readers.
        batch_rows : int or None, default=None
            Maximum number of rows per batch.
        progress : callable or None, default=None
            Called with the number of rows done and the total number, or None if unknown.
        update : callable or None, default=None
            Called as ``update(sketch, batch)`` in place of ``sketch.update``.

        Returns
        -------
        Sketch
            The sketch of all rows.
        """
        ...


PAUSE = 0.1  # seconds between two calls of progress
PATIENCE = 10.0  # seconds to wait for a thread that a source keeps blocked after Ctrl-C


class Crew:
    """Worker threads over the pieces of a source, each with its own sketch.

    A worker pulls a batch, updates its sketch, drops the batch and pulls the next. There is no
    other queue, so a fast source waits for the sketches and memory stays bounded.

    Parameters
    ----------
    batches : Batches
        The source.
    reading : Reading
        Number of threads and rows per batch.
    step : callable
        Called as ``step(sketch, batch)`` for every batch.
    progress : callable or None
        As in `map_merge`.
    """

    def __init__(
        self,
        batches: Batches,
        reading: Reading,
        step: Callable[[Any, pa.RecordBatch], Any],
        progress: Progress | None,
    ) -> None:
        self._batches, self._step, self._progress = batches, step, progress
        pieces = batches.pieces
        # A lone text file is parsed by as many threads as wait for it; of several, each by one.
        parsers = max(1, reading.threads // max(len(pieces), 1))
        own = Reading(reading.batch_rows, parsers, reading.memory)
        self._waiting = deque(_Open(at, piece, own) for at, piece in enumerate(pieces))
        self._begun: list[_Open] = []
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._failures: list[tuple[int, int, BaseException]] = []

    def run(self, sketches: list[Any]) -> None:
        """Feed every batch to one of the sketches; raise the error of the first failing batch."""
        self._done = [0] * len(sketches)
        # Events, because Python 3.11 takes a thread for ended whose join Ctrl-C interrupts.
        ends = [threading.Event() for _ in sketches]
        for worker in enumerate(zip(sketches, ends, strict=True)):
            threading.Thread(target=self._work, args=worker, daemon=True).start()
        try:
            for end in ends:
                while not end.wait(PAUSE):
                    self._report_progress()
        finally:
            self._stop.set()
            deadline = time.monotonic() + PATIENCE
            for end in ends:
                end.wait(max(0.0, deadline - time.monotonic()))
            for piece in self._begun:
                piece.close()
        if self._failures:
            raise min(self._failures, key=lambda failure: failure[:2])[2]
        self._report_progress()

    def _report_progress(self) -> None:
        if self._progress is not None:
            self._progress(sum(self._done), self._batches.rows)

    def _work(self, at: int, own: tuple[Any, threading.Event]) -> None:
        sketch, end = own
        try:
            for piece in iter(self._next_piece, None):
                self._drain(piece, at, sketch)
        finally:
            end.set()

    def _drain(self, piece: "_Open", at: int, sketch: Any) -> None:
        """Pull batches of a piece, alone or together with other workers, until it is exhausted."""
        row = piece.row
        try:
            while (pulled := piece.pull(self._stop)) is not None:
                row, batch = pulled
                self._take(sketch, batch, piece.name, row)
                self._done[at] += batch.num_rows
                del pulled, batch  # before the next is decoded
        except BaseException as error:
            self._fail(piece, piece.row if piece.broken else row, error)

    def _take(self, sketch: Any, batch: pa.RecordBatch, name: str, row: int) -> None:
        batch = self._batches.finished(batch)
        try:
            self._step(sketch, batch)
        except ValueError as error:
            # A sketch knows the row only within its batch; a step may also accept nulls. Arrow, and
            # a step of the caller, mention the null only in the message.
            missing = isinstance(error, NullValueError) or "null" in str(error)
            null = _first_null(batch) if missing else None
            if null is None:
                raise
            problem = f"{name}: row {row + 1 + null[0]}: column {null[1]!r} is null"
            raise NullValueError(f"{problem}; skip nulls or fill them first.") from error

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

    def _fail(self, piece: "_Open", row: int, error: BaseException) -> None:
        self._stop.set()
        if not str(error).startswith(f"{piece.name}: "):
            where = f"This was in the batch of {piece.name} from row {row + 1} on"
            error.add_note(f"{where}; rows of a batch count from 0.")
        self._failures.append((piece.at, row, error))


def _first_null(batch: pa.RecordBatch) -> tuple[int, str] | None:
    """Row and column of the first null in a batch, or None."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return min(
        ((each.is_null().index(True).as_py(), name) for name, each in columns if each.null_count),
        default=None,
    )


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


lacks: Mapping[str, str] = {}  # this engine supports every option

LEAST_ROWS = 1 << 10  # of a batch: below it the calls cost more than the work
COPIES = 3  # of a batch in memory: decoded, while its pages are decoded, as checked weights
WORKER_BYTES = 4 << 20  # of a thread besides its sketch and batch: pages, hashes, the stack


def map_merge(
    source: Any,
    make_sketch: Callable[[], S],
    *,
    column: str | None = None,
    weights: str | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    batch_rows: int | None = None,
    progress: Progress | None = None,
    update: Callable[[S, pa.RecordBatch], Any] | None = None,
) -> S:
    """Build the sketch of all rows of a source, in parallel threads.

    Each thread fills a sketch of its own; at the end they are merged into one.

    Parameters
    ----------
    source : object
        Anything that `sfumato.data.read_batches` accepts, such as a path, a data frame or an
        iterable of batches, or its result.
    make_sketch : callable
        Returns a new, empty sketch; always with the same parameters.
    column : str or None, default=None
        Name of the column of keys. It may be omitted if `source` is the result of `read_batches`
        with a single column.
    weights : str or None, default=None
        Name of the column of weights; None counts every row once.
    threads : int or None, default=None
        Number of threads, from 1 to 1024; None uses all available cores.
    memory_limit : int or None, default=None
        Upper bound in bytes on the memory of the sketches (at their size when empty), of the
        batches (for rows of average size; for Parquet also the largest page) and of the readers.
        `threads` and `batch_rows` are lowered to fit; ValueError if one thread does not fit.
    batch_rows : int or None, default=None
        Maximum number of rows per batch; None keeps the default of the source.
    progress : callable or None, default=None
        Called in the calling thread, about ten times a second, with the number of rows done and
        the total number of rows, or None if that is unknown.
    update : callable or None, default=None
        Called as ``update(sketch, batch)`` in place of ``sketch.update(column, weights)``, for
        sketches that need other columns. Select those with `read_batches`.

    Returns
    -------
    Sketch
        The sketch of all rows.

    Notes
    -----
    **Guarantee.** The result does not depend on the number of threads or the batch size: bit for
    bit if the sketch merges exactly, up to its stated tolerance if it merges with rounding (see
    `sfumato.sketch.Merging`). A sketch that refuses to merge is filled by one thread, in order.

    Each thread has at most one batch in memory, so memory does not grow with the source. An error
    in one thread stops all of them and is raised with a note on where it occurred. Ctrl-C stops the
    threads after their current batch.

    Examples
    --------
    >>> from sfumato.sketch import CountMin
    >>> views = {"item": ["tea", "milk", "tea"]}
    >>> map_merge(views, lambda: CountMin(1024), column="item", threads=2).estimate(["tea"])
    array([2])
    """
    if not callable(make_sketch):
        raise TypeError("map_merge: make_sketch must be a function that makes an empty sketch.")
    first = make_sketch()
    batches = _batches(source, column, weights, keyed=hasattr(first, "keys"))
    step = update or _updater(batches, column, weights)
    if weights is not None and update is None:
        _check_weighted(first)
    wanted = 1 if first.merging.kind == "refused" else _threads(threads)
    if batch_rows is None:
        batch_rows = batches.reading.batch_rows
    rows = integer(1, 2**31 - 1).check("map_merge", "batch_rows", batch_rows)
    plan = _fit(batches, first.nbytes, wanted, rows, memory_limit)
    sketches = [first, *(make_sketch() for _ in range(plan.threads - 1))]
    if len({id(sketch) for sketch in sketches}) < len(sketches):
        raise ValueError("map_merge: make_sketch must make a new sketch at every call.")
    Crew(batches, plan, step, progress).run(sketches)
    return _merged(sketches)


def _batches(source: Any, column: str | None, weights: str | None, *, keyed: bool) -> Batches:
    if not isinstance(source, Batches):
        if column is None:
            raise ValueError("map_merge: name the column, or pass what read_batches returns.")
        columns = [column] if weights is None else [column, weights]
        return read_batches(source, columns, keys=[column] if keyed else [])
    for name in (column, weights):
        if name is not None and name not in source.columns:
            raise ValueError(
                f"map_merge: column {name!r} is not among those read: {', '.join(source.columns)}."
            )
    return source


def _updater(
    batches: Batches, column: str | None, weights: str | None
) -> Callable[[Any, pa.RecordBatch], Any]:
    if column is None:
        if len(batches.columns) != 1:
            raise ValueError(f"map_merge: name one of the columns {', '.join(batches.columns)}.")
        column = batches.columns[0]
    key = column
    if weights is None:
        return lambda sketch, batch: sketch.update(batch.column(key))
    weight = weights
    return lambda sketch, batch: sketch.update(batch.column(key), batch.column(weight))


def _check_weighted(sketch: Any) -> None:
    if "weights" not in inspect.signature(sketch.update).parameters:
        raise ValueError(f"{type(sketch).__name__}: takes no weights; leave them out.")


def _threads(threads: int | None) -> int:
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    return integer(1, 1024).check("map_merge", "threads", threads)


def _fit(batches: Batches, sketch: int, threads: int, rows: int, limit: int | None) -> Reading:
    """The largest number of threads, and of rows per batch, that fit the memory limit."""
    if limit is None:
        return Reading(rows, threads)
    limit = integer(1).check("map_merge", "memory_limit", limit)
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


def _merged(sketches: list[S]) -> S:
    """Merge all sketches into the first, pairwise, so that rounding errors stay small."""
    while len(sketches) > 1:
        pairs = zip(sketches[::2], sketches[1::2], strict=False)
        unpaired = sketches[-1:] if len(sketches) % 2 else []
        sketches = [left.merge(right) for left, right in pairs] + unpaired
    return sketches[0]
