"""CSV, TSV and JSON files, plain or gzip, streamed by DuckDB; errors name lines, not values."""

import glob
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.core.row_values import SAMPLE, kind_of, typed
from sfumato.data.readers.base import Piece, Reading, SourceLayout, missing_column, of_the_machine
from sfumato.data.readers.formats import HEADER, QUOTE, Form, position_of

__all__ = [
    "BUFFER",
    "connected",
    "find",
    "json_names",
    "literal",
    "plain_errors",
]

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


def find(path: Path, form: Form, columns: list[str], text: frozenset[str]) -> SourceLayout:
    """Pieces of a text file; its columns come under the names by which they were requested."""
    with plain_errors(path), connected(Reading()) as connection:
        sample = _csv_types if form.delimiter else _json_types
        types, kinds, chosen = sample(connection, path, form, columns, text)

    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        with plain_errors(path), connected(reading) as connection:
            _check_end(path, form)
            rows = _relation(connection, path, form, types)
            rows = rows.select(*map(duckdb.ColumnExpression, chosen))
            found = (b.rename_columns(columns) for b in rows.to_arrow_reader(reading.batch_rows))
            yield from typed(found, kinds, str(path))

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


def _relation(
    connection: Any, path: Path, form: Form, types: dict[str, str], sample: int = SAMPLE
) -> Any:
    """The file as a DuckDB relation; for CSV, `types` must name every column in order.

    sample: objects of JSON that show its columns. Types are only text or raw JSON: to a number
    DuckDB would cast 007, 1.5, 1e3 and true too.
    """
    name = glob.escape(str(path))  # DuckDB expands globs too, and a name may look like one
    compression = "gzip" if form.gzip else "none"
    if not form.delimiter:
        return connection.read_json(
            name,
            format=form.layout,
            sample_size=sample,
            columns=types or None,
            compression=compression,
            hive_partitioning=False,
        )
    # Of another encoding than UTF-8 only the SQL function knows.
    options = {
        "columns": "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in types) + "}",
        "auto_detect": "false",
        "header": str(form.header).lower(),
        "skip": form.skip,
        "delim": literal(form.delimiter),
        "quote": literal(QUOTE),
        "escape": literal(QUOTE),
        "encoding": literal(form.encoding),
        "compression": literal(compression),
        "buffer_size": BUFFER,
        "hive_partitioning": "false",
    }
    written = ", ".join(f"{option}={value}" for option, value in options.items())
    return connection.sql(f"SELECT * FROM read_csv({literal(name)}, {written})")


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _csv_types(
    connection: Any, path: Path, form: Form, columns: list[str], text: frozenset[str]
) -> tuple[dict[str, str], dict[str, pa.DataType], list[str]]:
    """DuckDB types of all columns, Arrow types of the wanted ones, and DuckDB's names of those."""
    chosen = [f"c{position_of(path, form.names, column)}" for column in columns]
    types = {f"c{at}": "VARCHAR" for at in range(len(form.names))}
    rows = _relation(connection, path, form, types)
    rows = rows.select(*map(duckdb.ColumnExpression, chosen)).limit(SAMPLE)
    sample = rows.to_arrow_reader(SAMPLE).read_all().rename_columns(columns)
    kinds = {column: kind_of(sample.column(column)) for column in columns}
    return types, {**kinds, **dict.fromkeys(text, pa.string())}, chosen


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
) -> tuple[dict[str, str], dict[str, pa.DataType], list[str]]:
    """As for CSV; raw JSON distinguishes 7 from "7"."""
    sniffed = _relation(connection, path, form, {})
    found = dict(zip(sniffed.columns, map(str, sniffed.types), strict=True))
    chosen = [_json_name(connection, path, form, column, found) for column in columns]
    kinds, types = {}, {}
    for column, name in zip(columns, chosen, strict=True):
        if found[name].startswith(NESTED) or found[name].endswith("]"):
            raise TypeError(f"{path}: column {column!r} holds nested values, not one key each.")
        if found[name] == "JSON" and column not in text:
            raise TypeError(f"{path}: column {column!r} holds several types; read it as text.")
        # Dates and identifiers in JSON are texts that DuckDB would parse.
        kind = "VARCHAR" if column in text else found[name]
        kinds[column] = JSON_KINDS.get(kind, pa.string())
        types[name] = "VARCHAR" if kinds[column] == pa.string() else "JSON"
    return types, kinds, chosen


def _json_name(connection: Any, path: Path, form: Form, column: str, found: dict[str, str]) -> str:
    """The column of this name, or of this number among those of the first object."""
    if column in found:
        return column
    if not column.isdigit():
        raise missing_column(str(path), column, found)
    names = list(_relation(connection, path, form, {}, sample=1).columns)
    return str(names[position_of(path, names, column)])


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
        return f"{where}: not UTF-8 text; give its encoding=, or convert it."
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
