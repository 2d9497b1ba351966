"""CSV, TSV and JSON files, plain or gzip, streamed by DuckDB; errors name lines, not values."""

import csv
import glob
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.core.row_values import SAMPLE, kind_of, typed
from sfumato.data.readers.base import Piece, Reading, SourceLayout, missing_column, of_the_machine

__all__ = [
    "BUFFER",
    "ENDINGS",
    "Form",
    "connected",
    "find",
    "form_of",
    "header_of",
    "json_names",
    "plain_errors",
]

HEADER = 1 << 20  # bytes of a header line, at most
BUFFER = 8 << 20  # bytes of CSV parsed at a time; DuckDB's own 32 MB would not fit small limits
READER_BYTES = 64 << 20
NESTED = ("STRUCT", "MAP", "UNION")
JSON_KINDS = {
    "BIGINT": pa.int64(),
    "UBIGINT": pa.uint64(),
    "HUGEINT": pa.uint64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
}


@dataclass(frozen=True)
class Form:
    """Format of a file: the delimiter of its fields, or "" for JSON of this layout."""

    delimiter: str = ""
    layout: str = ""
    gzip: bool = False


FORMS = {
    ".csv": Form(","),
    ".tsv": Form("\t"),
    ".jsonl": Form(layout="newline_delimited"),
    ".ndjson": Form(layout="newline_delimited"),
    ".json": Form(layout="auto"),
}
ENDINGS = tuple(FORMS)


def form_of(path: Path) -> Form | None:
    """Format by the ending of the name, or None."""
    name = path.name.lower()
    zipped = name.endswith(".gz")
    form = FORMS.get(Path(name.removesuffix(".gz")).suffix)
    return Form(form.delimiter, form.layout, zipped) if form else None


def find(path: Path, form: Form, columns: list[str], text: frozenset[str]) -> SourceLayout:
    with plain_errors(path), connected(Reading()) as connection:
        sample = _csv_types if form.delimiter else _json_types
        types, kinds = sample(connection, path, form, columns, text)

    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        with plain_errors(path), connected(reading) as connection:
            _check_end(path, form)
            rows = _relation(connection, path, form, types)
            rows = rows.select(*map(duckdb.ColumnExpression, columns))
            yield from typed(rows.to_arrow_reader(reading.batch_rows), kinds, str(path))

    return SourceLayout([Piece(str(path), 0, batches)], None, 64 * len(columns), READER_BYTES)


def json_names(path: Path, form: Form) -> list[str]:
    """Names of the columns of a JSON file."""
    with plain_errors(path), connected(Reading()) as connection:
        return list(_relation(connection, path, form, {}).columns)


@contextmanager
def connected(reading: Reading) -> Iterator[Any]:
    limit = READER_BYTES if reading.memory is None else reading.memory
    options: dict[str, Any] = {
        "threads": reading.threads,
        "memory_limit": f"{max(limit, 32 << 20) * reading.threads // 1000}KB",
        "autoinstall_known_extensions": False,  # reading a file never reaches for the network
        "autoload_known_extensions": False,
    }
    with duckdb.connect(config=options) as connection:
        yield connection


def _relation(connection: Any, path: Path, form: Form, types: dict[str, str]) -> Any:
    """The file as a DuckDB relation; for CSV, `types` must name every column in order.

    Types are only text or raw JSON: to a number DuckDB would cast 007, 1.5, 1e3 and true too.
    """
    name = glob.escape(str(path))  # DuckDB expands globs too, and a name may look like one
    compression = "gzip" if form.gzip else "none"
    common = {"compression": compression, "hive_partitioning": False}
    if not form.delimiter:
        options = {"format": form.layout, "sample_size": SAMPLE, "columns": types or None}
        return connection.read_json(name, **options, **common)
    return connection.read_csv(
        name,
        header=True,
        delimiter=form.delimiter,
        quotechar='"',
        escapechar='"',
        auto_detect=False,
        columns=types,
        buffer_size=BUFFER,
        **common,
    )


def _csv_types(
    connection: Any, path: Path, form: Form, columns: list[str], text: frozenset[str]
) -> tuple[dict[str, str], dict[str, pa.DataType]]:
    """DuckDB types of all columns of the file, and Arrow types of the wanted ones."""
    names = header_of(path, form)
    for column in columns:
        if column not in names:
            raise missing_column(str(path), column, names)
    types = dict.fromkeys(names, "VARCHAR")
    rows = _relation(connection, path, form, types)
    rows = rows.select(*map(duckdb.ColumnExpression, columns)).limit(SAMPLE)
    sample = rows.to_arrow_reader(SAMPLE).read_all()
    kinds = {column: kind_of(sample.column(column)) for column in columns}
    return types, {**kinds, **dict.fromkeys(text, pa.string())}


def header_of(path: Path, form: Form) -> list[str]:
    opened = gzip.open if form.gzip else open
    try:
        with opened(path, "rb") as file:
            start = b""
            # A quoted name may contain line feeds.
            while len(start) <= HEADER and (line := file.readline(HEADER + 1 - len(start))):
                start += line
                if start.count(b'"') % 2 == 0 and line.endswith(b"\n"):
                    break
        if len(start) > HEADER and not start.endswith(b"\n"):
            raise ValueError(f"{path}: line 1: is longer than {HEADER} bytes, so no header.")
        # Later lines are DuckDB's to judge, so what is not UTF-8 there must not stop us here.
        text = start.decode("utf-8-sig", errors="surrogateescape")
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=form.delimiter), [])
        "".join(names).encode()
    except csv.Error:
        raise ValueError(
            f"{path}: line 1: the header cannot be read: a name is too long, or a quote is open."
        ) from None
    except UnicodeEncodeError:
        raise ValueError(f"{path}: line 1: the header is not UTF-8 text.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{path}: the gzip file is damaged or cut off.") from None
    if not names:
        raise ValueError(f"{path}: is empty; a first line with the names of the columns is needed.")
    if len({name.lower() for name in names}) < len(names):
        raise ValueError(f"{path}: line 1: two columns have one name (upper case does not count).")
    return names


def _check_end(path: Path, form: Form) -> None:
    """Refuse a last row that is too long, which DuckDB would silently omit."""
    if not form.delimiter or form.gzip:
        return
    with path.open("rb") as file:
        end = size = file.seek(0, io.SEEK_END)
        while end and size - end <= BUFFER:
            begin = max(0, end - HEADER)
            file.seek(begin)
            if b"\n" in file.read(end - begin).rstrip(b"\r\n"):
                return
            end = begin
    if size - end > BUFFER:
        problem = f"a row is longer than {BUFFER} bytes; leave it out, or cut its values."
        raise ValueError(f"{path}: the last line: {problem}")


def _json_types(
    connection: Any, path: Path, form: Form, columns: list[str], text: frozenset[str]
) -> tuple[dict[str, str], dict[str, pa.DataType]]:
    """As for CSV; raw JSON distinguishes 7 from "7"."""
    sniffed = _relation(connection, path, form, {})
    found = dict(zip(sniffed.columns, map(str, sniffed.types), strict=True))
    kinds = {}
    for column in columns:
        if column not in found:
            raise missing_column(str(path), column, found)
        if found[column].startswith(NESTED) or found[column].endswith("]"):
            raise TypeError(f"{path}: column {column!r} holds nested values, not one key each.")
        if found[column] == "JSON" and column not in text:
            raise TypeError(f"{path}: column {column!r} holds several types; read it as text.")
        # Dates and identifiers in JSON are texts that DuckDB would parse.
        kind = "VARCHAR" if column in text else found[column]
        kinds[column] = JSON_KINDS.get(kind, pa.string())
    return {name: "VARCHAR" if kinds[name] == pa.string() else "JSON" for name in kinds}, kinds


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if of_the_machine(error):
            raise
        raise ValueError(_sentence(path, str(error))) from None


def _sentence(path: Path, message: str) -> str:
    """DuckDB's message without the values it quotes: the line, and the known faults."""
    line = re.search(r"[Ll]ine:? (\d+)", message)
    where = f"{path}: line {line[1]}" if line else str(path)
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if counts:
        return f"{where}: {counts[2]} fields where the header has {counts[1]}."
    longest = re.search(r'size"? of (\d+) bytes exceeded', message)
    if longest or "does not support a full read" in message:
        most = longest[1] if longest else BUFFER
        return f"{where}: a row is longer than {most} bytes; leave it out, or cut its values."
    if "unterminated quote" in message:
        return f"{where}: a quote is opened and never closed."
    if "unicode" in message.lower() or "utf-8" in message.lower():
        return f"{where}: not UTF-8 text; convert the file first."
    if "Out of Memory" in message:
        return f"{where}: a row does not fit the memory limit; raise it."
    if "Malformed JSON" in message:
        # DuckDB names the line after the one that it could not parse.
        return (
            f"{path}: line {int(line[1]) - 1}: malformed JSON."
            if line
            else f"{path}: malformed JSON."
        )
    return f"{where}: cannot be read; the file is damaged or of another type than its name says."
