"""Threads of this machine: each fills its own sketch, then the sketches merge into one."""

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from sfumato._require import whole
from sfumato.data import Batches, Reading, read_batches
from sfumato.engine._protocol import Progress, S
from sfumato.engine._workers import Crew

__all__ = ["lacks", "map_merge"]

lacks: Mapping[str, str] = {}  # this engine has every option

LEAST_ROWS = 1 << 10  # of a batch: below it the calls cost more than the work
HELD = 3  # a batch is held decoded, while its pages are decoded, and as checked weights
WORKER_BYTES = 4 << 20  # of a thread beside its sketch and batch: pages, hashes, the stack


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
    """The sketch of all rows of a source, made by threads that each fill a sketch of their own.

    Guarantee: an exactly merging sketch is the same bit for bit whatever the threads and the batch
    size; a rounding one up to its stated tolerance. A sketch that refuses to merge is made on one
    thread, in order. No thread is more than one batch ahead, so memory does not grow with the
    source. An error in a thread stops all and is raised with a note that says where; Ctrl-C stops
    them after the batch at hand.
    Parameters: source, whatever `read_batches` takes, or its result; make_sketch, makes an empty
    sketch, always with the same parameters; column, the keys; weights, their weights; threads, up
    to all cores; memory_limit, bytes for sketches (at the size they have when empty), batches (of
    rows of average size, and in Parquet the largest page beside them) and readers, to which threads
    and batch_rows are lowered, else it is refused; batch_rows, most
    rows of a batch; progress, called here with rows done and rows of all or None, about ten times a
    second; update, called with a sketch and a batch instead of `sketch.update(column, weights)`,
    for sketches that need other columns (which `read_batches` then names).

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
    rows = whole(1, 2**31 - 1).check("map_merge", "batch_rows", batch_rows)
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
    return whole(1, 1024).check("map_merge", "threads", threads)


def _fit(batches: Batches, sketch: int, threads: int, rows: int, limit: int | None) -> Reading:
    """As many threads and rows a batch, of those wanted, as fit the memory limit."""
    if limit is None:
        return Reading(rows, threads)
    limit = whole(1).check("map_merge", "memory_limit", limit)
    found, least = batches.found, min(rows, LEAST_ROWS)
    # A page of Parquet is read whole: as stored, decoded, and then as the rows of a batch.
    pages = (2 + HELD) * found.largest()
    fixed = sketch + WORKER_BYTES + found.reader_bytes + pages
    row = HELD * found.row_bytes
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
    """All sketches merged into the first, neighbours first, so that rounding stays small."""
    while len(sketches) > 1:
        pairs = zip(sketches[::2], sketches[1::2], strict=False)
        odd = sketches[-1:] if len(sketches) % 2 else []
        sketches = [left.merge(right) for left, right in pairs] + odd
    return sketches[0]
