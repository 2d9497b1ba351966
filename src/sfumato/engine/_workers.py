"""Threads that share out a source: a piece each, and a hand with another's when none is left."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from sfumato.data import Batches, Piece, Reading
from sfumato.engine._protocol import Progress

__all__ = ["Crew"]

PAUSE = 0.1  # seconds between two calls of progress
PATIENCE = 10.0  # seconds to wait for a thread that a source keeps blocked after Ctrl-C


class Crew:
    """Workers over the pieces of a source, each with its own sketch.

    A worker pulls a batch, updates its sketch, lets the batch go and pulls the next: that is all
    the queue there is, so a fast source waits for the sketches and not the other way round.
    Parameters: batches, the source; reading, threads and rows of a batch; step, what is done with a
    sketch and a batch; progress, as for `map_merge`.
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
        """Feed every batch to one of the sketches; raise what the earliest failing batch raised."""
        self._done = [0] * len(sketches)
        # Events, because Python 3.11 takes a thread for ended whose join Ctrl-C interrupts.
        ends = [threading.Event() for _ in sketches]
        for worker in enumerate(zip(sketches, ends, strict=True)):
            threading.Thread(target=self._work, args=worker, daemon=True).start()
        try:
            for end in ends:
                while not end.wait(PAUSE):
                    self._tell()
        finally:
            self._stop.set()
            deadline = time.monotonic() + PATIENCE
            for end in ends:
                end.wait(max(0.0, deadline - time.monotonic()))
            for piece in self._begun:
                piece.close()
        if self._failures:
            raise min(self._failures, key=lambda failure: failure[:2])[2]
        self._tell()

    def _tell(self) -> None:
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
        """Pull batches of a piece, alone or beside others, until it has no more."""
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
            # A sketch knows the row only within its batch; a step may also take nulls.
            null = _first_null(batch) if "null" in str(error) else None
            if null is None:
                raise
            told = f"{name}: row {row + 1 + null[0]}: column {null[1]!r} is null"
            raise ValueError(f"{told}; skip nulls or fill them first.") from error

    def _next_piece(self) -> "_Open | None":
        """A piece that nobody reads yet, else one that somebody reads and has not finished."""
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
    """The first row of a batch with a null, and its column."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return min(
        ((each.is_null().index(True).as_py(), name) for name, each in columns if each.null_count),
        default=None,
    )


class _Open:
    """A piece being read by one worker or several, one batch at a time."""

    def __init__(self, at: int, piece: Piece, reading: Reading) -> None:
        self.at, self.name, self.row = at, piece.name, piece.first_row
        self.finished = self.broken = False
        self._piece, self._reading, self._lock = piece, reading, threading.Lock()
        self._batches: Iterator[pa.RecordBatch] | None = None

    def pull(self, stop: threading.Event) -> tuple[int, pa.RecordBatch] | None:
        """The next batch and the row that it begins at; None at the end or when all must stop."""
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
        """Let go of the file, unless a thread is still held up in it."""
        if self._lock.acquire(blocking=False):
            self._batches = None
            self._lock.release()
