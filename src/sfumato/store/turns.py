"""Turns of writers of one file: whoever waits longest is next, across threads and processes.

SQLite itself lets waiting processes sleep and try again, so a process that commits all the time
would keep the others out. Correctness rests on SQLite's own lock; turns only add fairness, and
where the system lacks these locks there are none.
"""

import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Turns"]

NEXT, NOW = 0, 1  # bytes of the file that are locked: to be the next writer, to be the writer
_COMMAND = getattr(fcntl, "F_OFD_SETLKW", None)


class Turns:
    """A small file beside the database, whose two bytes are locked in order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: int | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._handle is not None:
                os.close(self._handle)
            self._handle = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn to write; one thread at a time uses an object."""
        if _COMMAND is None:
            yield
            return
        self._set(NEXT, fcntl.F_WRLCK)
        try:
            self._set(NOW, fcntl.F_WRLCK)
        finally:
            self._set(NEXT, fcntl.F_UNLCK)
        try:
            yield
        finally:
            self._set(NOW, fcntl.F_UNLCK)

    def _set(self, byte: int, kind: int) -> None:
        with self._lock:
            if self._handle is None:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            handle = self._handle
        assert _COMMAND is not None
        # struct flock: type, whence, start, length, pid (0 for locks of an open file)
        fcntl.fcntl(handle, _COMMAND, struct.pack("hhqqi4x", kind, os.SEEK_SET, byte, 1, 0))
