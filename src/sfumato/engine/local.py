"""Threads of this machine: each folds the batches it reads, then all results are merged."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sfumato.core.tables import described
from sfumato.core.validation import integer, optional
from sfumato.data import Batches, Reading, read_batches
from sfumato.data.readers.batches import read_private
from sfumato.engine.base import (
    Engine,
    Progress,
    Rows,
    S,
    Step,
    check_maker,
    columns_of,
    filled,
    step_of,
)
from sfumato.engine.workers import Crew, Fold

__all__ = ["LocalEngine", "lacks", "map_merge"]

T = TypeVar("T")
LEAST_ROWS = 1 << 10  # of a batch: below it the calls cost more than the work
COPIES = 3  # of a batch in memory: decoded, while its pages are decoded, as checked weights
WORKER_BYTES = 4 << 20  # of a thread besides its sketch and batch: pages, hashes, the stack


class LocalEngine(Engine):
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
        self.threads: Any = THREADS.check("map_merge", "threads", threads)
        self.memory_limit: Any = MEMORY.check("map_merge", "memory_limit", memory_limit)

    @property
    def cores(self) -> int:
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
        first: S = check_maker(make_sketch)
        if isinstance(source, Rows):
            return self._sketch_of_rows(
                source, make_sketch, update or _step(first, column, weights)
            )
        batches = _batches(source, columns_of(column, weights), keyed=hasattr(first, "keys"))
        step = update or step_of(first, _only(batches, column), weights)
        most = 1 if first.merging.kind == "refused" else None
        plan = self._plan(batches, first.nbytes, batch_rows, most)
        sketches = [first, *(make_sketch() for _ in range(plan.threads - 1))]
        if len({id(sketch) for sketch in sketches}) < len(sketches):
            raise ValueError("map_merge: make_sketch must make a new sketch at every call.")
        made = Crew(batches, plan, progress).run([_filling(each, step) for each in sketches])
        return _merged(made, _merge)

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
        batches = _batches(source, list(columns), keyed=False)
        plan = self._plan(batches, 0, batch_rows, None)
        return _merged(Crew(batches, plan, progress).run([fold] * plan.threads), merge)

    def rows(self, source: Any, columns: Sequence[str], *, private: bool = False) -> Rows:
        from sfumato.engine.local_rows import LocalRows

        if private and not isinstance(source, Batches):
            source = read_private(source, list(columns))
        return LocalRows(self, _batches(source, list(columns), keyed=False))

    def _sketch_of_rows(self, rows: Rows, make_sketch: Callable[[], S], step: Step) -> S:
        """Build the sketch of rows that were mapped or shuffled."""
        first = make_sketch()
        if first.merging.kind == "refused":
            return filled(first, step, rows.batches())
        return rows.fold(lambda batches: filled(make_sketch(), step, batches), _merge)

    def _plan(
        self, batches: Batches, state: int, batch_rows: int | None, most: int | None
    ) -> Reading:
        """Threads and rows per batch for folds whose state has so many bytes."""
        wanted = most or self.cores
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
        of Spark, or paths of Parquet files. Both: rows of theirs, as `bound_rows` returns them.
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


lacks: Mapping[str, str] = LocalEngine.lacks


def _step(sketch: Any, column: str | Sequence[str] | None, weights: str | None) -> Step:
    """How batches of rows, whose column must be named, are added to a sketch."""
    if column is None:
        raise ValueError("map_merge: name the column.")
    return step_of(sketch, column, weights)


def _merge(left: S, right: S) -> S:
    return left.merge(right)


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
