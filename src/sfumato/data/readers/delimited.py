"""Delimited text of any dialect, streamed by DuckDB as text; broken lines are numbered."""

import glob
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, cast

import pyarrow as pa

from sfumato.data.readers.base import FirstLine, Reading
from sfumato.data.readers.formats import (
    QUOTE,
    SNIFFED_ROWS,
    are_names,
    as_gzip,
    delimiter_of,
    split_rows,
    start_of,
)
from sfumato.data.readers.text_files import BUFFER, connected, literal, plain_errors
from sfumato.errors import ParameterError

__all__ = [
    "BROKEN",
    "FIELDS",
    "SNIFFED_ROWS",
    "Dialect",
    "Rejects",
    "line_of_reject",
    "line_of_row",
    "sniffed",
    "texts",
    "with_other_guess",
]

BATCH_ROWS = 1 << 17
LINE = 1 << 22  # letters of a line that are looked at for quotes
FIELDS = "the number of fields is wrong"
SPANNING = "the number of fields is wrong in a row that spans lines"
# DuckDB's names of faults of a line, and ours.
BROKEN = {
    "MISSING COLUMNS": FIELDS,
    "TOO MANY COLUMNS": FIELDS,
    "INVALID ENCODING": "the text is not in the file's encoding",
    "UNQUOTED VALUE": "a quote is not closed or stands inside a field",
    "LINE SIZE OVER MAXIMUM": "the line is too long",
}
REJECTED = (
    "SELECT line, min(error_type), bool_or(contains(csv_line, chr(10))) FROM reject_errors "
    "GROUP BY line"
)
Rejects = list[tuple[int, str]]


@dataclass(frozen=True)
class Dialect:
    """Format of a file, and the names of its columns ("" each if it has no header)."""

    delimiter: str
    header: bool
    names: tuple[str, ...]
    encoding: str = "utf-8"
    escape: str = QUOTE
    gzip: bool = False
    skip: int = 0  # blank lines before the first

    @property
    def width(self) -> int:
        return len(self.names)


def sniffed(
    path: Path,
    delimiter: str | None,
    header: bool | None,
    encoding: str | None,
    rows: int = SNIFFED_ROWS,
) -> Dialect:
    """Detect the dialect from the first `rows` rows, as far as it is not given."""
    zipped = as_gzip(path)
    start = start_of(path, zipped).decode(encoding or "utf-8-sig", errors="replace")
    lines = [line for line in start.splitlines() if line]
    if not lines:
        raise ValueError(f"{path}: is empty; lines with user and item are needed.")
    delimiter = delimiter_of(start, rows) if delimiter is None else delimiter
    if not delimiter:
        raise ParameterError(
            f"{path}: line 1: no delimiter stands between two fields or more; give delimiter=.",
            owner="read_interactions",
            parameter="delimiter",
        )
    first = next(split_rows(start, delimiter))
    if len(first) < 2:
        raise ParameterError(
            f"{path}: line 1: {delimiter!r} delimits no fields there; give another delimiter=.",
            owner="read_interactions",
            parameter="delimiter",
        )
    # A line of ratings contains at least one number, a line of names none.
    header = are_names(first) if header is None else header
    names = FirstLine(first) if header else ("",) * len(first)
    blank = start.splitlines().index(lines[0])
    return Dialect(delimiter, header, names, encoding or "utf-8", QUOTE, zipped, blank)


def texts(
    path: Path, dialect: Dialect, positions: list[int], rejects: Rejects
) -> Iterator[pa.RecordBatch]:
    """Yield the columns at these positions as batches of text; empty fields are null.

    Broken lines are left out; after the last batch `rejects` contains their numbers and reasons.
    """
    chosen = ", ".join(f"c{position}" for position in positions)
    query = f"SELECT {chosen} FROM read_csv({literal(glob.escape(str(path)))}, {_options(dialect)})"
    with plain_errors(path), connected(Reading()) as connection:
        yield from connection.sql(query).to_arrow_reader(BATCH_ROWS)
        found = connection.sql(REJECTED)
        rejects.extend((int(line), _reason(*why)) for line, *why in sorted(found.fetchall()))


def _reason(kind: str, spans: bool) -> str:
    reason = BROKEN.get(kind, "cannot be read")
    return SPANNING if spans and reason == FIELDS else reason


def line_of_row(path: Path, dialect: Dialect, row: int) -> int:
    """Line, from 1, where this row, from 0, begins, if no line before it was rejected."""
    rows = (line for line, blank in _begun(path, dialect) if not blank)
    return next(islice(rows, row + dialect.header, None))


def line_of_reject(path: Path, dialect: Dialect, reject: int) -> int:
    """Line of a reject, which DuckDB counts as if every row took one line."""
    return next(islice((line for line, _ in _begun(path, dialect)), reject - 1, None))


def _begun(path: Path, dialect: Dialect) -> Iterator[tuple[int, bool]]:
    """Yield the line where each row or blank line begins, and whether it is blank."""
    opened = gzip.open if dialect.gzip else open
    with opened(path, "rt", encoding=dialect.encoding, errors="replace", newline="\n") as file:
        inside = False
        for number, line in enumerate(_cut_lines(cast(TextIO, file)), 1):
            if not inside:
                yield number, not line.strip("\r\n")
            if QUOTE in line:
                inside = _ends_in_quotes(line, inside, dialect)


def _cut_lines(file: TextIO) -> Iterator[str]:
    """Yield the beginnings of lines, as one may be as long as the file."""
    while line := file.readline(LINE):
        remainder = line
        while len(remainder) == LINE and not remainder.endswith("\n"):
            remainder = file.readline(LINE)
        yield line


def _ends_in_quotes(line: str, inside: bool, dialect: Dialect) -> bool:
    """Whether a quoted field continues in the next line; `inside`: whether one did before."""
    if not dialect.delimiter:
        return False
    closing = '(?:[^"]|"")*"' if dialect.escape == QUOTE else r'(?:[^"\\]|\\.)*"'
    between = re.escape(dialect.delimiter)
    ends = rf"(?={between}|\r?\n?$)"
    if inside:
        closed = re.match(closing + ends, line, re.DOTALL)
        if not closed:
            return True
        line = line[closed.end() :]
    opened = f'(?:^|{between})"'
    unquoted = re.sub(opened + closing + ends, "", line, flags=re.DOTALL)
    return re.search(opened, unquoted) is not None


def with_other_guess(dialect: Dialect, rejects: Rejects, encoding: str | None) -> Dialect:
    """The dialect that the rejects suggest: another encoding, or backslash escapes."""
    kinds = {kind for _, kind in rejects}
    if encoding is None and BROKEN["INVALID ENCODING"] in kinds:
        dialect = replace(dialect, encoding="latin-1")
    if BROKEN["UNQUOTED VALUE"] in kinds:
        dialect = replace(dialect, escape="\\")
    return dialect


def _options(dialect: Dialect) -> str:
    columns = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(dialect.width))
    options: dict[str, Any] = {
        "columns": f"{{{columns}}}",
        "auto_detect": "false",
        "header": str(dialect.header).lower(),
        "skip": dialect.skip,
        "delim": literal(dialect.delimiter),
        "quote": literal(QUOTE),
        "escape": literal(dialect.escape),
        "encoding": literal(dialect.encoding),
        "compression": literal("gzip" if dialect.gzip else "none"),
        "buffer_size": BUFFER,
        "hive_partitioning": "false",
        "store_rejects": "true",
    }
    return ", ".join(f"{name}={value}" for name, value in options.items())
