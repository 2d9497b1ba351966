"""A line on the terminal while a command that shows no bar of its own works for over a second."""

import copy
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["add_quiet", "stop", "waiting"]

PATIENCE = 1.0  # seconds until the line is shown
STEP = 0.25
QUIET = {"--quiet", "-q", "--json", "--help", "--version"}
_shown: list["_Line"] = []  # the line of the running command, if it may have one


def add_quiet(group: Any) -> None:
    """Give every command below the group --quiet, and -q where that is no other option."""
    commands = list(_commands(group))
    own = next(each for command in commands for each in command.params if "--quiet" in each.opts)
    for command in commands:
        taken = {option for each in command.params for option in each.opts}
        if "--quiet" not in taken:
            made = copy.copy(own)
            made.opts = ["--quiet"] if "-q" in taken else ["--quiet", "-q"]
            made.expose_value = False  # `waiting` reads it
            command.params.append(made)


def _commands(group: Any) -> Iterator[Any]:
    for each in group.commands.values():
        if hasattr(each, "commands"):
            yield from _commands(each)
        else:
            yield each


@contextmanager
def waiting(title: str, arguments: Sequence[str]) -> Iterator[None]:
    """Show a line on stderr from the second second on, until anything is printed.

    Nothing is shown with --quiet or --json, or where stderr is no terminal.
    """
    if QUIET & set(arguments) or not sys.stderr.isatty():
        yield
        return
    line, streams = _Line(title), (sys.stdout, sys.stderr)
    _shown.append(line)
    sys.stdout, sys.stderr = _Printing(sys.stdout), _Printing(sys.stderr)
    line.start()
    try:
        yield
    finally:
        stop()
        sys.stdout, sys.stderr = streams


def stop() -> None:
    """Take the line away, for good."""
    while _shown:
        _shown.pop().stop()


class _Line(threading.Thread):
    """The title and the seconds since the start, rewritten in place."""

    def __init__(self, title: str) -> None:
        super().__init__(daemon=True)
        self._title, self._stream, self._done = title, sys.stderr, threading.Event()
        self._writing = threading.Lock()

    def run(self) -> None:
        begin = time.monotonic()
        self._done.wait(PATIENCE)
        while not self._done.wait(STEP):
            with self._writing:
                if not self._done.is_set():
                    seconds = time.monotonic() - begin
                    self._stream.write(f"\r\x1b[2K{self._title}: {seconds:.0f} s")
                    self._stream.flush()

    def stop(self) -> None:
        with self._writing:
            self._done.set()
            if self.is_alive():
                self._stream.write("\r\x1b[2K")
                self._stream.flush()


class _Printing:
    """A stream whose first output takes the line away."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        stop()
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
