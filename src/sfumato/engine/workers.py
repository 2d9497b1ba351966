"""Threads over the pieces of a source, each of which folds the batches that it pulls.

A thread takes a piece of the source, and helps with another's when no unread piece is left.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from sfumato.data import Batches, Piece, Reading
from sfumato.engine.base import Progress, first_null
from sfumato.errors import NullValueError

__all__ = ["Crew", "Fold"]

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
