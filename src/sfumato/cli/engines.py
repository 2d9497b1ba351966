"""Where a command runs: `sfumato --engine spark --master URL COMMAND ...`, or this machine."""

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["ENGINES", "check", "chosen", "command_words"]

ENGINES = ("local", "spark")
MASTER = "local[*]"
# Commands that Spark can run. All others work on one machine, from files or stdin.
ON_SPARK = ("sketch build",)
WORD = re.compile(r"[a-z][a-z-]*")


def command_words(arguments: Sequence[str]) -> list[str]:
    """The words of the command, without the options before it and what follows it."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("--"):
        at += 2 if arguments[at] in ("--engine", "--master") else 1
    return list(itertools.takewhile(WORD.fullmatch, arguments[at : at + 2]))


def check(arguments: Sequence[str]) -> None:
    """Raise where the command line names an engine that cannot run its command."""
    engine, master = (_value(arguments, option) for option in ("--engine", "--master"))
    engine = "local" if engine is None else engine
    if engine not in ENGINES:
        raise ValueError(f"--engine must be one of {', '.join(ENGINES)}, not {engine!r:.100}.")
    if engine == "local" and master is not None:
        raise ValueError("--master is of --engine spark; give both or neither.")
    words = " ".join(command_words(arguments))
    if engine == "spark" and not any(words.startswith(each) for each in ON_SPARK):
        raise ValueError(
            f"{words}: runs on this machine only, leave --engine out; Spark runs: "
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


@contextmanager
def chosen(context: Any) -> Iterator[Any]:
    """The engine of Spark that the command line names, stopped at the end; None for threads."""
    named = context.find_root().obj or {}
    if named.get("engine", "local") == "local":
        yield None
        return
    from sfumato.engine import SparkEngine

    with SparkEngine(named["master"] or MASTER) as engine:
        yield engine
