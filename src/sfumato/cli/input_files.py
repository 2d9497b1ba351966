"""How commands read ratings, features and lists of ids from files, and what they report of rows.

The options of their columns are those that `takes` gives to several commands.
"""

import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import check_output, given_options, option_name, refuse_options

__all__ = [
    "COLUMNS",
    "FEATURES",
    "NOTES",
    "TEXT",
    "Columns",
    "Encoding",
    "Header",
    "Report",
    "announce",
    "check_report",
    "columns",
    "curators_report",
    "features",
    "id_of",
    "is_table",
    "lines",
    "listed",
    "located",
    "naming_options",
    "note",
    "print_notes",
    "private",
    "public",
    "read",
    "readable",
    "reported",
    "shown_column",
    "shown_columns",
    "text_format",
    "titles",
    "typed",
]

Encoding = Annotated[str, typer.Option(help="Of the text: utf-8, latin-1 or utf-16; not guessed.")]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether line 1 has the names of columns; default: detected."
    ),
]
# How delimited text is written, of all commands that read a file.
TEXT: dict[str, Any] = {
    "header": Header,
    "delimiter": Annotated[str | None, typer.Option(help="Field separator; default: detected.")],
    "encoding": Annotated[
        str | None,
        typer.Option(help="utf-8, latin-1 or utf-16; default: detected, utf-8 where private."),
    ],
}
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
    **TEXT,
    "skip_bad": Annotated[bool, typer.Option("--skip-bad", help="Leave out and count bad rows.")],
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
TABLES = (
    *(".csv", ".tsv", ".jsonl", ".ndjson", ".json"),
    *(".parquet", ".pq", ".arrow", ".feather", ".ipc", ".npy", ".npz"),
)
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


def read(path: Path, given: Columns, options: Mapping[str, Any]) -> Any:
    """Read the interactions of a file and say which columns they are; "-" is stdin.

    options: all of the command.
    """
    from sfumato.data import read_interactions
    from sfumato.data.readers.batches import matches
    from sfumato.data.readers.ratings import chosen_columns

    file = located(path)
    with naming_options(TEXT):
        found = read_interactions(file, **given)
    announce(path, chosen_columns(matches(file)[0], given), options)
    return found


def text_format(options: Mapping[str, Any], *, private: bool = False) -> Any:
    """How delimited text is written, by the options of a command; private: nothing is guessed."""
    from sfumato.data.readers.formats import TextFormat

    given: dict[str, Any] = {name: options.get(name) for name in TEXT}
    if given["delimiter"] is not None:
        given["delimiter"] = given["delimiter"].replace("\\t", "\t")
    if private:
        given |= {"encoding": given["encoding"] or "utf-8", "guess": False}
    with naming_options(TEXT):
        return TextFormat.checked("sfumato", **given)


@contextmanager
def naming_options(options: Iterable[str], **others: str) -> Iterator[None]:
    """Name the option in place of the library's parameter in errors about one of these.

    others: options by the names of parameters that are called otherwise.
    """
    from sfumato.errors import ParameterError, ParameterTypeError

    try:
        yield
    except (ParameterError, ParameterTypeError) as error:
        option = others.get(error.parameter, error.parameter)
        begin = f"{error.owner}: {error.parameter} "
        if not str(error).startswith(begin) or option not in {*options, *others.values()}:
            raise
        sentence = f"{option_name(option)} {str(error).removeprefix(begin)}"
        raise type(error)(sentence, owner=error.owner, parameter=error.parameter) from None


def announce(
    file: Path | str, columns: Mapping[str, str] | Sequence[str], options: Mapping[str, Any]
) -> None:
    """Note which columns are read, unless --quiet or --json is given."""
    if isinstance(columns, Mapping):
        named = [f"{role} from {shown_column(name)}" for role, name in columns.items()]
    else:
        named = [shown_columns(columns)]
    note(file, ", ".join(named), options)


def note(file: Path | str, remark: str, options: Mapping[str, Any]) -> None:
    """Note how a file is read, unless --quiet or --json is given."""
    if not options.get("quiet") and not options.get("json"):
        name = "stdin" if str(file) == "-" else file
        NOTES.append(f"sfumato: {name}: {remark}.")


NOTES: list[str] = []  # of the command that runs


def print_notes() -> None:
    """Say on stderr which columns were read, once a command has done its work.

    An error is one line alone.
    """
    for note in dict.fromkeys(NOTES):
        print(readable(note), file=sys.stderr)


def is_table(file: Path | str) -> bool:
    """Whether the name says that the file has columns."""
    return str(file).lower().removesuffix(".gz").endswith(TABLES)


def shown_column(column: str) -> str:
    """A column in a sentence, by its name or number."""
    return f"column {column}" if column.isdigit() else repr(column)


def shown_columns(columns: Sequence[str]) -> str:
    """One column or several in a sentence."""
    named = ", ".join(each if each.isdigit() else repr(each) for each in columns)
    return f"column {named}" if len(columns) == 1 else f"columns {named}"


# What the first bytes of stdin say that it is.
BEGINNINGS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"{": ".jsonl",
    b"[": ".json",
    b"\x1f\x8b": ".txt.gz",
}


def located(path: Path | str) -> Path:
    """The file, or for "-" and pipes a copy of what they hold, since files are read repeatedly."""
    path = Path(path)
    if str(path) == "-":
        if sys.stdin is None:
            raise ValueError("stdin is closed; name a file.")
        return _copied(sys.stdin.buffer, "stdin")
    if path.exists() and stat.S_ISFIFO(path.stat().st_mode):
        with path.open("rb") as file:
            return _copied(file, path.name)
    if not path.exists() and not any(sign in str(path) for sign in "*?["):
        raise FileNotFoundError(f"{path}: there is no such file.")
    return path


COPIES: dict[str, str] = {}  # what the files in these folders are copies of


def readable(sentence: str) -> str:
    """A sentence with the names of what was copied, in place of those of the copies."""
    for folder, name in COPIES.items():
        sentence = re.sub(re.escape(folder) + r"[^\s:;,]*", name, sentence)
    return sentence


def _copied(source: Any, name: str) -> Path:
    """A copy in a folder of our own, which goes when the command ends."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="sfumato-")
    atexit.register(folder.cleanup)
    COPIES[folder.name] = name
    begin = source.read(16)
    ending = next((e for b, e in BEGINNINGS.items() if begin.lstrip().startswith(b)), ".txt")
    file = Path(folder.name, name + ending)
    with file.open("wb") as copy:
        copy.write(begin)
        shutil.copyfileobj(source, copy)
    return file


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
    if str(path) != "-" and not path.exists():
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
    return read_features(
        located(path), texts=texts or None, categories=categories, separator=separator
    )


TITLES = ("title", "titles", "name")


def titles(path: Path, options: Mapping[str, Any]) -> dict[str, str]:
    """Titles of items by their ids, from a table; of an id that occurs twice the first.

    It may be written otherwise than the ratings are, so that its format is detected.
    """
    from sfumato.data import read_batches
    from sfumato.data.readers.formats import TextFormat, position_of
    from sfumato.data.tables import names_of, point_names

    file, given = located(path), TextFormat(encoding=None)
    named = [options["title_id_column"], options["title_column"]]
    if any(each is not None and not each.isdigit() for each in named):
        given = TextFormat(header=True, encoding=None)
    names, usable = names_of(file, given), point_names(file, None, given)
    if len(usable) < 2 and None in named:
        raise ValueError(f"--titles {path}: must have a column of ids and one of titles.")
    second = usable[1] if len(usable) > 1 else ""
    usual = next((name for name in usable if name.lower() in TITLES), second)
    columns = [each or by for each, by in zip(named, (usable[0], usual), strict=True)]
    chosen = [names[position_of(file, names, each)] for each in columns]
    found: dict[str, str] = {}
    for batch in read_batches(file, chosen, text=chosen, **vars(given)):
        for item, title in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found.setdefault(item, title)
    announce(path, dict(zip(("items", "titles"), chosen, strict=True)), options)
    return found


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
    written = lines(path, name, encoding)
    for at, line in enumerate(written, 1):
        if BETWEEN_FIELDS.search(line):
            raise ValueError(
                f"{name}: line {at} of {path} has several fields; write one id a line."
            )
    ids = [line for line in written if line]
    if not ids:
        raise ValueError(f"{name}: {path} lists no ids; write one a line.")
    return typed(ids)


def lines(path: Path, name: str, encoding: str | None = None) -> list[str]:
    """Lines of a list, also packed by gzip, or of stdin."""
    import gzip
    import zlib

    encoding = encoding or "utf-8"
    data = located(path).read_bytes()
    try:
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        return data.decode(encoding.replace("utf-8", "utf-8-sig")).splitlines()
    except (UnicodeError, LookupError):
        raise ValueError(f"{name}: {path} is not {encoding}; see --encoding.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{name}: {path} is cut off or damaged.") from None


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
