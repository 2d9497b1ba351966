"""A process that runs commands in forks of itself, each ended with SIGKILL at a step or a time.

A step is whatever changes the disk: a write, fsync, rename, link or removal, and each statement
that SQLite runs. `python killer.py` reads lines of JSON [words, step, seconds] and answers each
with a line [exit code, steps, seconds]; step 0 and seconds 0 let the command end by itself. The
first command runs in the process itself, so that later forks find all that it imports and compiles.
"""

import builtins
import gc
import io
import json
import mmap
import os
import select
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

PATIENCE = 60.0  # seconds of a command that is not killed


class Killer:
    """The process, seen from a test."""

    def __init__(self, folder: Path) -> None:
        with open(folder.with_suffix(".errors"), "wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
            )

    def run(self, words: list[str], step: int = 0, seconds: float = 0.0) -> tuple[int, int, float]:
        """Exit code, steps and seconds of a command; it is killed at the step or the time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([words, step, seconds]) + "\n")
        self._process.stdin.flush()
        code, steps, took = json.loads(self._process.stdout.readline())
        return code, steps, took

    def __enter__(self) -> "Killer":
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def main() -> None:
    """Answer the lines."""
    import typer

    from sfumato.cli import app

    command = typer.main.get_command(app)
    _draw_once()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    steps, warm = mmap.mmap(-1, 8), False
    for line in sys.stdin:
        words, step, seconds = json.loads(line)
        if not warm:  # what the first command imports and compiles is there from now on
            _run(command, words)
            warm = True
            assert threading.active_count() == 1
            gc.collect()
            gc.freeze()
        steps[:8] = bytes(8)
        begin = time.monotonic()
        if (child := os.fork()) == 0:
            _count(steps, step)
            os._exit(_run(command, words))
        ended = os.pidfd_open(child)
        if not select.select([ended], [], [], seconds or PATIENCE)[0]:
            os.kill(child, signal.SIGKILL if seconds else signal.SIGABRT)
        done = os.waitpid(child, 0)
        os.close(ended)
        code, took = os.waitstatus_to_exitcode(done[1]), time.monotonic() - begin
        answers.write(json.dumps([code, int.from_bytes(steps[:8], "little"), took]) + "\n")
        answers.flush()


def _run(command: Any, words: list[str]) -> int:
    from sfumato.core import file_format

    file_format._SWEPT.clear()  # as in a process of its own
    try:
        command.main(words, prog_name="sfumato")
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        sys.stderr.flush()
    return 1


def _draw_once() -> None:
    """Let a figure be the one that was drawn first: how it is written is what matters here."""
    from matplotlib.figure import Figure

    usual, drawn = Figure.savefig, dict[Any, Any]()

    def savefig(self: Any, out: Any, **options: Any) -> None:
        kind = io.StringIO if isinstance(out, io.TextIOBase) else io.BytesIO
        if kind not in drawn:
            buffer = kind()
            usual(self, buffer, **options)
            drawn[kind] = buffer.getvalue()
        out.write(drawn[kind])

    Figure.savefig = savefig  # type: ignore[method-assign]


def _count(steps: mmap.mmap, last: int) -> None:
    """Count the steps of this process, and end it before the last."""
    from sfumato.core import file_format

    def step(*_: Any) -> None:
        taken = int.from_bytes(steps[:8], "little") + 1
        if taken == last:
            os.kill(os.getpid(), signal.SIGKILL)
        steps[:8] = taken.to_bytes(8, "little")

    def counted(function: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            step()
            return function(*given, **named)

        return call

    file_format._PartFile.write = counted(file_format._PartFile.write)  # type: ignore[method-assign]
    for name in ("fsync", "replace", "rename", "link", "unlink", "mkdir", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    usual_open, usual_connect = builtins.open, sqlite3.connect

    def open_counted(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        if set(mode) & set("wax+"):
            step()
        opened = usual_open(file, mode, *given, **named)
        if set(mode) & set("wax+"):
            step()  # it is there, and empty
        return opened

    def connect_counted(*given: Any, **named: Any) -> Any:
        connection = usual_connect(*given, **named)
        connection.set_trace_callback(step)
        return connection

    usual_handle = os.open

    def handle_counted(path: Any, flags: int, *given: Any, **named: Any) -> int:
        if not flags & os.O_CREAT:
            return usual_handle(path, flags, *given, **named)
        step()
        handle = usual_handle(path, flags, *given, **named)
        step()
        return handle

    os.open = handle_counted
    builtins.open = io.open = open_counted
    sqlite3.connect = connect_counted


if __name__ == "__main__":
    main()
