"""What a terminal shows while a command works: a bar where work is counted, else a clock."""

import copy
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from sfumato.cli.options import Quiet

__all__ = ["Advance", "add_quiet", "progress", "stop", "waiting"]

PATIENCE = 0.4  # seconds until the line is shown; the imports of a command take some before
STEP = 0.1  # between two drawings of the line, if nothing moves it
REST = 0.05  # at least, between two that move it
BAR = 24  # characters
CLEAR = "\r\x1b[2K"
_running: list["_Line"] = []  # the line of the running command, if it may have one


def add_quiet(group: Any) -> None:
    """Give every command below the group --quiet and -q; these and --json hide the line."""
    commands = list(_commands(group))
    own = _quiet_option()
    for command in commands:
        if not any("--quiet" in each.opts for each in command.params):
            command.params.append(copy.copy(own))
        for each in command.params:
            if {"--quiet", "--json"} & {*each.opts}:
                each.callback = _hides


def _quiet_option() -> Any:
    """The option --quiet of a command that does nothing with it."""

    def nothing(quiet: Quiet = False) -> None:
        pass

    made = typer.Typer(add_completion=False)
    made.command()(nothing)
    (own,) = (each for each in typer.main.get_command(made).params if "--quiet" in each.opts)
    own.expose_value = False
    return own


def _hides(context: Any, option: Any, value: bool) -> bool:
    """Take the line away, for good, if the option is given."""
    if value:
        stop()
    return value


def _commands(group: Any) -> Iterator[Any]:
    for each in group.commands.values():
        if hasattr(each, "commands"):
            yield from _commands(each)
        else:
            yield each


ENDLESS = "sfumato serve"  # it runs until it is stopped, and says what it does in its log


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show a line on stderr while the block runs, if it is a terminal and the block takes long.

    What is printed takes it away until `PATIENCE` seconds have passed again.
    """
    streams = sys.stdout, sys.stderr
    if title == ENDLESS or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    line = _Line(title, sys.stderr)
    _running.append(line)
    for name in ("stdout", "stderr"):
        if getattr(sys, name).isatty():  # a file or a pipe is not where the line is
            setattr(sys, name, _Printing(getattr(sys, name), line))
    line.start()
    try:
        yield
    finally:
        stop()
        sys.stdout, sys.stderr = streams


def stop() -> None:
    """Take the line of the running command away, for good."""
    while _running:
        _running.pop().stop()


class Advance:
    """The `progress` callback of the library: it keeps what is done and moves the bar.

    Attributes
    ----------
    title : str
        What is being done.
    done : int
        How much of it is done, in `unit`.
    total : int or None
        How much there is; None if that is not known.
    """

    done: int
    total: int | None

    def __init__(self, title: str, unit: str, line: "_Line | None" = None) -> None:
        self.title: str
        self.unit: str
        self.title, self.unit, self._line = title, unit, line
        self.done, self.total, self._note = 0, None, ""
        self._begin = time.monotonic()

    def __call__(self, done: int, total: int | None, valid: float | None = None) -> None:
        self.done, self.total = done, total
        if valid is not None:
            self._note = f", validation {valid:.4f}"
        if self._line is not None:
            self._line.draw_if_due()

    def drawn(self, filled: str, empty: str) -> str:
        """The line of now: a bar and the time left, or the number done if the total is unknown."""
        done, total, seconds = self.done, self.total, time.monotonic() - self._begin
        if not total:
            count = f" {done:,} {self.unit}," if done else ""
            return f"{self.title}{self._note}:{count} {seconds:.0f} s"
        fraction = min(done / total, 1.0)
        full = int(BAR * fraction)
        left = f", {_duration(seconds / fraction - seconds)} left" if 0 < fraction < 1 else ""
        bar = filled * full + empty * (BAR - full)
        return f"{self.title}{self._note} {bar} {done:,} of {total:,} {self.unit}{left}"


@contextmanager
def progress(title: str, unit: str = "rows", *, hidden: bool = False) -> Iterator[Advance]:
    """A bar in place of the clock while the block runs; hidden: the clock stays.

    Parameters
    ----------
    title : str
        What the block does.
    unit : str, default="rows"
        What is counted, in the plural.
    hidden : bool, default=False
        Whether the counts are not to be shown, such as those of a private file.
    """
    line = None if hidden or not _running else _running[-1]
    advance = Advance(title, unit, line)
    if line is None:
        yield advance
        return
    before, line.stage = line.stage, advance
    try:
        yield advance
    finally:
        line.stage = before


class _Line(threading.Thread):
    """The stage at work, or else the title and the seconds since the start, drawn in place."""

    def __init__(self, title: str, stream: Any) -> None:
        super().__init__(daemon=True)
        self.stage: Advance | None = None
        self._clock, self._stream = Advance(title, ""), stream
        self._ended, self._writing = threading.Event(), threading.RLock()
        self._due, self._shown = time.monotonic() + PATIENCE, False
        try:
            "━─".encode(getattr(stream, "encoding", None) or "utf-8")
            self._marks = ("━", "─")
        except UnicodeEncodeError:
            self._marks = ("#", "-")

    def run(self) -> None:
        while not self._ended.wait(STEP):
            self.draw_if_due()

    def draw_if_due(self) -> None:
        """Draw the line, if it may be there and is not new."""
        if time.monotonic() < self._due:
            return
        with self._writing:
            if not self._ended.is_set() and self._due < math.inf:
                self._draw()
                self._due = time.monotonic() + REST

    def _draw(self) -> None:
        room = shutil.get_terminal_size().columns - 1
        text = (self.stage or self._clock).drawn(*self._marks)[:room]
        self._shown = True
        self._stream.write(CLEAR + text)
        self._stream.flush()

    def print(self, stream: Any, text: str) -> int:
        """Write to a stream where the line is not, which comes back below it later."""
        with self._writing:
            self._clear()
            whole = text.endswith("\n")  # else the cursor is in what was printed
            self._due = time.monotonic() + PATIENCE if whole else math.inf
            return int(stream.write(text))

    def stop(self) -> None:
        """Take the line away, for good."""
        with self._writing:
            self._ended.set()
            self._clear()

    def _clear(self) -> None:
        if self._shown:
            self._shown = False
            self._stream.write(CLEAR)
            self._stream.flush()


class _Printing:
    """A stream whose output takes the line away first."""

    def __init__(self, stream: Any, line: _Line) -> None:
        self._stream, self._line = stream, line

    def write(self, text: str) -> int:
        return self._line.print(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _duration(seconds: float) -> str:
    """A time in words."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
