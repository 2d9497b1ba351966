"""How commands read ratings, lists of ids, and one id from the command line."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli._options import check_output

__all__ = [
    "Columns",
    "check_report",
    "columns",
    "curators_report",
    "id_of",
    "listed",
    "private",
    "read",
    "reported",
    "typed",
]

User = Annotated[str | None, typer.Option("--user-column", help="Name or number, from 0.")]
Item = Annotated[str | None, typer.Option("--item-column", help="Name or number, from 0.")]
Rating = Annotated[str | None, typer.Option("--rating-column", help="Name or number, from 0.")]
Time = Annotated[str | None, typer.Option("--time-column", help="Name or number, from 0.")]
Delimiter = Annotated[str | None, typer.Option(help="Between fields; guessed unless told.")]
Skip = Annotated[bool, typer.Option("--skip-bad", help="Leave out and count bad rows.")]
Encoding = Annotated[str, typer.Option(help="Of the text: utf-8, latin-1 or utf-16; not guessed.")]
Told = Annotated[str | None, typer.Option("--encoding", help="Guessed, but utf-8 with --epsilon.")]

Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether line 1 holds names; as it looks if untold."),
]
Report = Annotated[
    Path | None,
    typer.Option(
        help="Where to write, for the curator, how many rows were left out or clipped: raw counts."
    ),
]

Columns = dict[str, Any]
ROLES = ("users", "items", "ratings", "times")
BETWEEN_FIELDS = re.compile(r"\t|::|;|,")


def columns(options: dict[str, Any]) -> Columns:
    """The options of `read_interactions` among those of a command."""
    named = {role: options.get(f"{role.removesuffix('s')}_column") for role in ROLES}
    given: Columns = {name: _place(value) for name, value in named.items() if value is not None}
    if options.get("delimiter") is not None:
        given["delimiter"] = options["delimiter"].replace("\\t", "\t")
    if options.get("skip_bad"):
        given["on_error"] = "skip"
    for name in ("encoding", "header"):
        if options.get(name) is not None:
            given[name] = options[name]
    return given


def private(options: dict[str, Any]) -> Columns:
    """As `columns`, so that one row changes nothing about how the others are read, and none stops.

    All rows that can be read are kept, since of rows that put each other out one more would change
    two; times, which nothing private is learned from, are not read.
    """
    given = {name: value for name, value in columns(options).items() if name != "on_error"}
    return {**given, "times": False, "invalid": "drop"}


def check_report(report: Path | None, output: Path, force: bool, *inputs: Path | None) -> None:
    """Refuse a report that could not be written, or would be the output or an input."""
    if report is None:
        return
    if report.resolve() == output.resolve():
        raise FileExistsError(f"{report}: is the output as well; name another report.")
    check_output(report, force, *inputs)


def curators_report(
    path: Path | None, rows: Any, lists: dict[str, Any], bounds: Any = None
) -> None:
    """Write what a private command leaves out of the rows and clips, if that was asked for."""
    if path is None:
        return
    from dataclasses import asdict
    from json import dumps

    from sfumato.sketch._format import write_whole

    used = rows.outside(users=lists.get("users"), items=lists.get("catalogue"), bounds=bounds)
    told = {
        "audience": "the curator alone: exact counts of raw rows, no part of a release",
        "read": asdict(rows.report),
        "used": asdict(used),
    }
    write_whole(path, (dumps(told, indent=1) + "\n").encode())


def read(path: Path, given: Columns) -> Any:
    """The ratings of a file; a missing file is told by its name."""
    from sfumato.data import read_interactions

    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    return read_interactions(path, **given)


def reported(*read: Any) -> dict[str, Any]:
    """What was left out of files, where anything was."""
    told = [str(each.report) for each in read if each is not None and each.report is not None]
    dropped = [each for each in told if "dropped" in each or "skipped" in each]
    return {"left_out": " ".join(dropped)} if dropped else {}


def listed(path: Path, name: str, ratings: Path, encoding: str | None = None) -> Any:
    """The ids of a text file, one a line: integers if all of them are."""
    if ratings.exists() and path.samefile(ratings):
        raise ValueError(f"{name}: {path} is the file of ratings; write the ids, one a line.")
    lines = _text(path, name, encoding or "utf-8").splitlines()
    for at, line in enumerate(lines, 1):
        if BETWEEN_FIELDS.search(line):
            raise ValueError(
                f"{name}: line {at} of {path} has several fields; write one id a line."
            )
    ids = [line for line in lines if line]
    if not ids:
        raise ValueError(f"{name}: {path} lists no ids; write one a line.")
    return typed(ids)


def _text(path: Path, name: str, encoding: str) -> str:
    try:
        return path.read_text(encoding.replace("utf-8", "utf-8-sig"))
    except (UnicodeError, LookupError):
        raise ValueError(f"{name}: {path} is not {encoding}; see --encoding.") from None


def typed(texts: list[str]) -> Any:
    """Ids as a file of ratings would have them: integers if all are, written plainly."""
    import numpy as np

    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return np.array(texts, object)
    plain = all(
        str(number) == text and -(2**63) <= number < 2**63
        for number, text in zip(numbers, texts, strict=True)
    )
    return np.array(numbers, np.int64) if plain else np.array(texts, object)


def id_of(text: str, kind: str) -> int | str:
    """One id of the kind that a file has."""
    if kind != "integers":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"ids here are integers; {text!r} is none.") from None


def _place(text: str) -> str | int:
    return int(text) if text.isdigit() else text
