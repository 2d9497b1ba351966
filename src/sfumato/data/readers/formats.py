"""How a file of a table is written: by its name, its first lines, and what was said about it."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from sfumato.core.validation import flag, one_of, optional
from sfumato.data.readers.base import FirstLine, missing_column
from sfumato.errors import ParameterError

__all__ = [
    "ENCODING",
    "ENDINGS",
    "GIVEN",
    "HEADER",
    "INDEX_NAMES",
    "QUOTE",
    "SNIFFED_ROWS",
    "Form",
    "TextFormat",
    "are_names",
    "as_gzip",
    "check_delimiter",
    "delimiter_of",
    "encoding_of",
    "first_row",
    "form_of",
    "is_array",
    "is_ipc",
    "is_number",
    "is_parquet",
    "is_typed",
    "position_of",
    "resolved",
    "split_rows",
    "start_of",
]

ENCODING = optional(one_of(("utf-8", "latin-1", "utf-16")))
DELIMITERS = ("::", "\t", "; ", ";", ", ", ",", "|", " ")
IN_NAMES = (" ", ", ")  # which a field of a .csv may well hold
SNIFFED_ROWS = 20
SNIFFED = 1 << 16  # bytes that show the dialect, by their first rows
HEADER = 1 << 20  # characters of a header line, at most
CHUNK = 1 << 23
QUOTE = '"'
# Names of the column of row numbers that pandas writes.
INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")
# Endings of files that are neither text nor one of our formats, whatever they contain.
OTHERS = frozenset(
    f".{each}"
    for each in (
        *("xlsx", "xls", "xlsm", "ods", "doc", "docx", "pdf", "html", "xml", "png", "jpg"),
        *("zip", "tar", "tgz", "7z", "bz2", "xz", "zst", "exe", "bin"),
        *("pkl", "pickle", "db", "sqlite", "h5", "hdf5", "orc", "avro"),
    )
)


@dataclass(frozen=True)
class TextFormat:
    """How delimited text is written, as far as it is given; None: by its name and first lines.

    guess: whether more than line 1 is looked at.
    """

    delimiter: str | None = None
    header: bool | None = None
    encoding: str | None = "utf-8"
    guess: bool = True

    @classmethod
    def checked(
        cls,
        owner: str,
        delimiter: str | None,
        header: bool | None,
        encoding: str | None,
        guess: bool = True,
    ) -> "TextFormat":
        """The format of these options, which `owner` takes."""
        return cls(
            check_delimiter(owner, delimiter),
            optional(flag).check(owner, "header", header),
            ENCODING.check(owner, "encoding", encoding),
            flag.check(owner, "guess", guess),
        )


GIVEN = TextFormat()


def check_delimiter(owner: str, value: Any) -> str | None:
    """Raise ValueError for what cannot be a delimiter."""
    if value is not None and not (isinstance(value, str) and 1 <= len(value) <= 4):
        raise ParameterError.of(owner, "delimiter", f"must be 1 to 4 characters, not {value!r}.")
    return value


@dataclass(frozen=True)
class Form:
    """Format of a file: the delimiter of its fields, or "" for JSON of this layout.

    names: of the columns, their numbers where there is no header; skip: blank lines before it.
    """

    delimiter: str = ""
    layout: str = ""
    gzip: bool = False
    header: bool = True
    encoding: str = "utf-8"
    names: Sequence[str] = field(default=(), compare=False)
    skip: int = 0


FORMS = {
    ".csv": Form(","),
    ".tsv": Form("\t"),
    ".jsonl": Form(layout="newline_delimited"),
    ".ndjson": Form(layout="newline_delimited"),
    ".json": Form(layout="auto"),
}
ENDINGS = tuple(FORMS)
ARRAYS = (".npy", ".npz")
IPC = (".arrow", ".feather", ".ipc")


def form_of(path: Path) -> Form | None:
    """Format by the ending of the name, or None."""
    name = path.name.lower()
    zipped = name.endswith(".gz")
    form = FORMS.get(Path(name.removesuffix(".gz")).suffix)
    return Form(form.delimiter, form.layout, zipped) if form else None


def is_parquet(path: Path) -> bool:
    """Whether the name is that of a Parquet file."""
    return path.name.lower().endswith((".parquet", ".pq"))


def is_array(path: Path) -> bool:
    """Whether the name is that of arrays of NumPy."""
    return path.suffix.lower() in ARRAYS


def is_ipc(path: Path) -> bool:
    """Whether the name is that of an Arrow IPC file."""
    return path.suffix.lower() in IPC


def is_typed(path: Path) -> bool:
    """Whether the columns of the file have types of their own, as no text has."""
    return is_parquet(path) or is_array(path) or is_ipc(path)


def resolved(
    path: Path, given: TextFormat, wanted: Sequence[str] = (), *, private: bool = False
) -> Form:
    """Format of a text file, from its name and its first rows as far as it is not given.

    wanted: names or numbers of columns, which show whether line 1 has names. private: the first
    line alone is looked at, which is taken to be public, and none if all is given.
    """
    form = form_of(path)
    if form is not None and form.layout:
        return form
    _refuse_others(path)
    zipped = as_gzip(path)
    if private and given.header is False and (given.delimiter or form is not None):
        last = max([int(each) for each in wanted if each.isdigit()], default=0)
        between = given.delimiter or (form.delimiter if form else "")
        names = tuple(map(str, range(last + 1)))
        return Form(between, "", zipped, False, given.encoding or "utf-8", names)
    guess = given.guess and not private
    encoding = given.encoding or (encoding_of(path, zipped) if guess else "utf-8")
    start = start_of(path, zipped).decode(encoding.replace("utf-8", "utf-8-sig"), "replace")
    if "\0" in (start.lstrip("\r\n").partition("\n")[0] if private else start):
        raise ValueError(f"{path}: is not text; is it {encoding}? Else give encoding=.")
    between = given.delimiter or _between(start, form, SNIFFED_ROWS if guess else 1)
    fields = first_row(path, Form(between, "", zipped, True, encoding))
    header = given.header
    if header is None:
        header = are_names(fields) or not all(_is_position(each, fields) for each in wanted)
    skip = len(start) - len(start.lstrip("\r\n"))
    skip = start[:skip].count("\n")
    if not header:
        numbered = tuple(map(str, range(len(fields))))
        return Form(between, "", zipped, False, encoding, numbered, skip)
    _check_names(path, fields)
    names = tuple(fields) if are_names(fields) else FirstLine(fields)
    return Form(between, "", zipped, True, encoding, names, skip)


def _is_position(column: str, fields: Sequence[str]) -> bool:
    """Whether a column is requested by its number, as "2020" of three columns is not."""
    return bool(re.fullmatch("[0-9]{1,9}", column)) and int(column) < len(fields)


def _refuse_others(path: Path) -> None:
    if Path(path.name.lower().removesuffix(".gz")).suffix in OTHERS:
        raise ValueError(
            f"{path}: the name must end in .parquet, {', '.join(ENDINGS)}, .txt, .arrow, .npy or "
            ".npz, text also with .gz."
        )


def _check_names(path: Path, names: Sequence[str]) -> None:
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{path}: line 1: the header is not UTF-8 text.") from None
    lower = [name.lower() for name in names if name]
    if len(set(lower)) < len(lower):
        raise ValueError(f"{path}: line 1: two columns have one name (upper case does not count).")


def position_of(path: Path | str, names: Sequence[str], column: str) -> int:
    """Position of the column of this name, or of this number if no column is named so."""
    if column in names:
        return list(names).index(column)
    if _is_position(column, names):
        return int(column)
    raise missing_column(str(path), column, names)


def _between(start: str, form: Form | None, rows: int) -> str:
    """Delimiter of the first rows: that of the ending if it is there, else one that fits."""
    line = next((each for each in start.splitlines() if each), "")
    if form is None:
        return delimiter_of(start, rows) or ","
    if form.delimiter in line or not line:
        return form.delimiter
    return delimiter_of(start, rows, IN_NAMES) or form.delimiter


def encoding_of(path: Path, zipped: bool) -> str:
    """UTF-8 if all of the file is, else Latin-1; UTF-16 by its first bytes."""
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")()
    opened: Any = gzip.open if zipped else open
    try:
        with opened(path, "rb") as file:
            first = file.read(CHUNK)
            if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "utf-16"
            plain = True
            while first:
                if not (plain and first.isascii()):
                    plain = False
                    decoder.decode(first)
                first = file.read(CHUNK)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "latin-1"
    except (EOFError, gzip.BadGzipFile, zlib.error):
        pass  # of which the reader tells
    return "utf-8"


def first_row(path: Path, form: Form) -> Sequence[str]:
    """Fields of the first row, which may be names; a quoted one may contain line feeds."""
    opened: Any = gzip.open if form.gzip else open
    errors = "surrogateescape" if form.encoding == "utf-8" else "replace"
    code = form.encoding.replace("utf-8", "utf-8-sig")
    try:
        with opened(path, "rt", encoding=code, errors=errors, newline="\n") as file:
            start = ""
            while len(start) <= HEADER and (line := file.readline(HEADER + 1 - len(start))):
                start += line if start or line.strip("\r\n") else ""
                if start and start.count(QUOTE) % 2 == 0 and line.endswith("\n"):
                    break
        if len(start) > HEADER and not start.endswith("\n"):
            raise ValueError(f"{path}: line 1: is longer than {HEADER} bytes, so no header.")
        fields = next(split_rows(start, form.delimiter), [])
    except csv.Error:
        raise ValueError(
            f"{path}: line 1: the header cannot be read: a name is too long, or a quote is open."
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{path}: the gzip file is damaged or cut off.") from None
    if not fields:
        raise ValueError(f"{path}: is empty; a first line with the names of the columns is needed.")
    return fields


def as_gzip(path: Path) -> bool:
    """Whether a file is compressed by gzip, by its name or its first bytes."""
    with path.open("rb") as file:
        return path.name.lower().endswith(".gz") or file.read(2) == b"\x1f\x8b"


def start_of(path: Path, zipped: bool) -> bytes:
    """First bytes of the text of a file."""
    opened: Any = gzip.open if zipped else open
    try:
        with opened(path, "rb") as file:
            return bytes(cast(BinaryIO, file).read(SNIFFED))
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{path}: the gzip file is damaged or cut off.") from None


def delimiter_of(start: str, rows: int, never: Sequence[str] = ()) -> str:
    """Delimiter of at least three fields in the first row, or else two, and equally in most others.

    A space is none where another delimiter makes two fields of every row: names contain spaces.
    """
    able = [each for each in DELIMITERS if each not in never]
    widths = {each: [len(row) for row in islice(split_rows(start, each), rows)] for each in able}
    if any(set(widths[each]) == {2} for each in able if each != " "):
        widths.pop(" ", None)
    for least in (3, 2):
        for delimiter, found in widths.items():
            if found and found[0] >= least and found.count(found[0]) * 2 >= len(found):
                return delimiter
    return ""


def split_rows(start: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the fields of the first rows; rows span lines only with a one-character delimiter."""
    if len(delimiter) == 1:
        yield from filter(None, csv.reader(io.StringIO(start, newline=""), delimiter=delimiter))
        return
    for line in filter(None, start.splitlines()):
        fields = line.split(delimiter)
        # Within quotes it does not delimit.
        closed = not any(field.count(QUOTE) % 2 for field in fields)
        yield [field.strip(QUOTE) for field in fields] if closed else [line]


def are_names(fields: Sequence[str]) -> bool:
    """Whether a first row looks like names: without a number, or those that pandas gives columns.

    >>> are_names(["", "0", "1"]), are_names(["user", "item"]), are_names(["7", "tea"])
    (True, True, False)
    """
    numbered = ["", *map(str, range(len(fields) - 1))]
    return not any(map(is_number, fields)) or list(fields) == numbered


def is_number(field: str) -> bool:
    """Whether a field is a number as Python reads it."""
    try:
        float(field)
    except ValueError:
        return False
    return True
