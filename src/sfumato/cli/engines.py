"""Where a command runs: `sfumato --engine spark --master URL COMMAND ...`, or this machine."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.cli import input_files
from sfumato.cli.options import given_options, refuse_options

__all__ = [
    "ENGINES",
    "address",
    "check",
    "chosen",
    "column_names",
    "command_words",
    "located",
    "on_spark",
]

ENGINES = ("local", "spark")
MASTER = "local[*]"
# Commands that Spark can run. All others work on one machine, from files or stdin.
ON_SPARK = (
    "sketch build",
    "density build",
    "fit",
    "mine cluster",
    "mine itemsets",
    "mine rank",
    "mine rules",
    "mine similar",
    "recommend",
    "telemetry aggregate",
    "telemetry decode",
)
# What makes one small file of another: the long work was that of the command that wrote it.
AFTERWARDS = {
    "sketch release": "the sketch is one file already, which sketch build makes on Spark",
    "sketch merge": "the sketches are files already, which sketch build makes on Spark",
    "density query": "the model is one file already, which density build makes on Spark",
    "evaluate": "the model and the test rows are files of this machine",
}
WORD = re.compile(r"[a-z][a-z-]*")


INNER = "store", "keys"  # the group within a group


def command_words(arguments: Sequence[str]) -> list[str]:
    """The words of the command, without the options before it and what follows it."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("--"):
        at += 2 if arguments[at] in ("--engine", "--master") else 1
    words = 3 if tuple(arguments[at : at + 2]) == INNER else 2
    return list(itertools.takewhile(WORD.fullmatch, arguments[at : at + words]))


def check(arguments: Sequence[str]) -> None:
    """Raise where the command line names an engine that cannot run its command."""
    engine, master = (_value(arguments, option) for option in ("--engine", "--master"))
    engine = "local" if engine is None else engine
    if engine not in ENGINES:
        raise ValueError(f"--engine must be one of {', '.join(ENGINES)}, not {engine!r:.100}.")
    if engine == "local" and master is not None:
        raise ValueError("--master is of --engine spark; give both or neither.")
    words = " ".join(command_words(arguments))
    if engine == "spark" and not any(f"{words} ".startswith(f"{each} ") for each in ON_SPARK):
        why = f", as {AFTERWARDS[words]}" if words in AFTERWARDS else ""
        raise ValueError(
            f"{words}: runs on this machine only{why}; leave --engine out. Spark runs: "
            f"{', '.join(ON_SPARK)}."
        )


def _value(arguments: Sequence[str], option: str) -> str | None:
    """The value of an option before the command; None without it."""
    command = command_words(arguments)
    before = arguments[: arguments.index(command[0])] if command else arguments
    for at, each in enumerate(before):
        if each == option and at + 1 < len(before):
            return before[at + 1]
        if each.startswith(f"{option}="):
            return each.partition("=")[2]
    return None


def on_spark(context: Any) -> bool:
    """Whether the command line names Spark."""
    return bool(_named(context).get("engine", "local") == "spark")


def _named(context: Any) -> dict[str, Any]:
    return context.find_root().obj or {}


@contextmanager
def chosen(context: Any, refused: Iterable[str] = ()) -> Iterator[Any]:
    """The engine of Spark that the command line names, stopped at the end; None for threads.

    refused: options of the command that Spark does not have.
    """
    if not on_spark(context):
        yield None
        return
    command = " ".join(context.command_path.split()[1:])
    refuse_options(command, "--engine spark", given_options(context.params), refused)
    from sfumato.engine import SparkEngine

    with SparkEngine(_named(context)["master"] or MASTER) as engine:
        yield engine


def address(context: Any, path: Path | str) -> str:
    """What Spark reads: the argument as it was written, of whose address Path loses a slash."""
    written = _named(context).get("arguments", ())
    return next((each for each in written if "://" in each and Path(each) == Path(path)), str(path))


def located(context: Any, path: Path) -> Path:
    """The file, a copy of it if it is a pipe; on Spark the path, which its executors read."""
    return path if on_spark(context) else input_files.located(path)


def column_names(engine: Any, source: Any, written: str | None) -> list[str]:
    """The columns that were named, with commas between, or all of a source."""
    names = None if written is None else [name.strip() for name in written.split(",")]
    return list(engine.read(source, names).columns)
