"""How commands read ratings, features and lists of ids from files, and what they report of rows.

The options of their columns are those that `takes` gives to several commands.
"""

import re
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import check_output, given_options, option_name, refuse_options

__all__ = [
    "COLUMNS",
    "FEATURES",
    "PRIVATE_COLUMNS",
    "Columns",
    "Encoding",
    "Header",
    "Report",
    "check_report",
    "columns",
    "curators_report",
    "features",
    "id_of",
    "listed",
    "private",
    "public",
    "read",
    "reported",
    "typed",
]

Encoding = Annotated[str, typer.Option(help="Of the text: utf-8, latin-1 or utf-16; not guessed.")]
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

# Options of several commands, which `takes` gives them.
COLUMNS: dict[str, Any] = {
    **{
        f"{name}_column": Annotated[str | None, typer.Option(help="Name or number, from 0.")]
        for name in ("user", "item", "rating", "time")
    },
    "no_ratings": Annotated[bool, typer.Option("--no-ratings", help="Only users and items.")],
    "header": Header,
    "delimiter": Annotated[str | None, typer.Option(help="Field separator; default: detected.")],
    "skip_bad": Annotated[bool, typer.Option("--skip-bad", help="Leave out and count bad rows.")],
}
PRIVATE_COLUMNS: dict[str, Any] = {
    **{name: kind for name, kind in COLUMNS.items() if name != "skip_bad"},
    "encoding": Annotated[str | None, typer.Option(help="Guessed, but utf-8 with --epsilon.")],
    "skip_bad": COLUMNS["skip_bad"],
}
FEATURES: dict[str, Any] = {
    "item_features": Annotated[
        Path | None, typer.Option(help="Features of items: ids in the first column.")
    ],
    "text_columns": Annotated[
        str | None, typer.Option(help="Texts of --item-features: names or numbers, by commas.")
    ],
    "feature_columns": Annotated[
        str | None, typer.Option(help="Categories of --item-features: genre,year or genre=2.")
    ],
    "user_features": Annotated[
        Path | None, typer.Option(help="Attributes of users: ids in the first column.")
    ],
    "attribute_columns": Annotated[
        str | None, typer.Option(help="Categories of --user-features: names or numbers.")
    ],
    "value_separator": Annotated[
        str | None, typer.Option(help="Between the values of a category; default: |.")
    ],
}

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
    if options.get("no_ratings"):
        if "ratings" in given:
            raise ValueError("--rating-column does not go with --no-ratings; give one of them.")
        given["ratings"] = False
    for name in ("encoding", "header"):
        if options.get(name) is not None:
            given[name] = options[name]
    return given


def private(options: dict[str, Any]) -> Columns:
    """As `columns`, so that one row changes nothing about how the others are read, and none stops.

    All readable rows are used, duplicates included: dropping duplicates would let one added row
    change two. Times are not read, since no private model uses them.
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
    """Write how many rows a private command drops and clips, if --report was given."""
    if path is None:
        return
    from dataclasses import asdict
    from json import dumps

    from sfumato.core.file_format import write_atomic

    used = rows.outside(users=lists.get("users"), items=lists.get("catalogue"), bounds=bounds)
    reports = {
        "audience": "the curator alone: exact counts of raw rows, no part of a release",
        "read": asdict(rows.report),
        "used": asdict(used),
    }
    write_atomic(path, (dumps(reports, indent=1) + "\n").encode())


def read(path: Path, given: Columns) -> Any:
    """Read the interactions of a file; the error of a missing one names it."""
    from sfumato.data import read_interactions

    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    return read_interactions(path, **given)


FEATURE_FILES = {"features": "item_features", "attributes": "user_features"}
FEATURE_COLUMNS = {
    "item_features": ("text_columns", "feature_columns"),
    "user_features": ("attribute_columns",),
}


def features(command: str, kinds: list[Any], options: dict[str, Any]) -> dict[str, Any]:
    """The features of items and attributes of users that were given, for models of these kinds."""
    found, given = {}, given_options(options)
    for role, name in FEATURE_FILES.items():
        takers = [each for each in kinds if role in signature(each.fit).parameters]
        columns = [option_name(each) for each in FEATURE_COLUMNS[name]]
        if name in given:
            if not takers:
                raise ValueError(f"{command}: {option_name(name)} does not go with these models.")
            found[role] = _features(command, name, given)
            continue
        if any(role in getattr(each, "NEEDS", ()) for each in takers):
            raise ValueError(
                f"{command}: {takers[0].__name__} needs {option_name(name)} FILE, a table of "
                f"{role} with ids in its first column, and {' or '.join(columns)}."
            )
        refuse_options(command, f"no {option_name(name)}", given, FEATURE_COLUMNS[name])
    return found


def _features(command: str, name: str, given: dict[str, Any]) -> Any:
    from sfumato.data import read_features

    path, columns = given[name], FEATURE_COLUMNS[name]
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file; {option_name(name)} names it.")
    if not any(each in given for each in columns):
        wanted = " or ".join(option_name(each) for each in columns)
        raise ValueError(f"{command}: {option_name(name)} goes with {wanted}: name its columns.")
    chosen = {each: given[each].split(",") for each in columns if each in given}
    texts = [_place(each.strip()) for each in chosen.pop("text_columns", [])]
    categories = {}
    for each in (each for several in chosen.values() for each in several):
        called, _, column = each.strip().partition("=")
        categories[called] = _place(column or called)
    separator = given.get("value_separator", "|")
    return read_features(path, texts=texts or None, categories=categories, separator=separator)


def reported(*read: Any) -> dict[str, Any]:
    """What was left out of files, where anything was."""
    reports = [str(each.report) for each in read if each is not None and each.report is not None]
    dropped = [each for each in reports if "dropped" in each or "skipped" in each]
    return {"left_out": " ".join(dropped)} if dropped else {}


def public(options: dict[str, Any]) -> dict[str, Any]:
    """The public lists that were given."""
    names = {"catalogue": "catalogue", "users": "accounts"}
    return {
        role: listed(options[name], name, options["ratings"], options["encoding"])
        for role, name in names.items()
        if options[name] is not None
    }


def listed(path: Path, name: str, ratings: Path, encoding: str | None = None) -> Any:
    """Read ids from a text file, one per line: integers if all of them are."""
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
