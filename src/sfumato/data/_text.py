"""CSV, TSV and JSON files, plain or gzip, streamed by DuckDB; errors tell lines, not values."""

import csv
import glob
import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data._pieces import Found, Piece, Reading, missing_column

__all__ = ["ENDINGS", "Form", "find", "form_of"]

SAMPLE = 20_000  # rows that decide the type of a column
BUFFER = 8 << 20  # bytes of CSV parsed at a time; DuckDB's own 32 MB would not fit small limits
READER_BYTES = 64 << 20
INTEGER = r"^(0|-?[1-9][0-9]{0,19})$"  # 007 is text: as a number it would lose its zeros
NESTED = ("STRUCT", "MAP", "JSON", "UNION")


@dataclass(frozen=True)
class Form:
    """How a file is written: the delimiter of its fields, or "" for JSON of this layout."""

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
    """What the name's ending says, or None."""
    name = path.name.lower()
    zipped = name.endswith(".gz")
    form = FORMS.get(Path(name.removesuffix(".gz")).suffix)
    return Form(form.delimiter, form.layout, zipped) if form else None


def find(path: Path, form: Form, columns: list[str], text: frozenset[str]) -> Found:
    with _plain_errors(path), _connected(Reading()) as connection:
        types = (_csv_types if form.delimiter else _json_types)(connection, path, form, columns)
    types.update(dict.fromkeys(text, "VARCHAR"))

    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        with _plain_errors(path), _connected(reading) as connection:
            rows = _relation(connection, path, form, types)
            rows = rows.select(*map(duckdb.ColumnExpression, columns))
            yield from rows.to_arrow_reader(reading.batch_rows)

    return Found([Piece(str(path), 0, batches)], None, 64 * len(columns), READER_BYTES)


@contextmanager
def _connected(reading: Reading) -> Iterator[Any]:
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
    """The file as DuckDB sees it; for CSV the types must name every column of the file in order."""
    name = glob.escape(str(path))  # DuckDB expands globs too, and a name may look like one
    compression = "gzip" if form.gzip else "none"
    common = {"compression": compression, "hive_partitioning": False}
    if not form.delimiter:
        return connection.read_json(name, format=form.layout, columns=types or None, **common)
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


def _csv_types(connection: Any, path: Path, form: Form, columns: list[str]) -> dict[str, str]:
    names = _header(path, form)
    for column in columns:
        if column not in names:
            raise missing_column(str(path), column, names)
    types = dict.fromkeys(names, "VARCHAR")
    rows = _relation(connection, path, form, types)
    rows = rows.select(*map(duckdb.ColumnExpression, columns)).limit(SAMPLE)
    sample = rows.to_arrow_reader(SAMPLE).read_all()
    return {**types, **{column: _type_of(sample.column(column)) for column in columns}}


def _header(path: Path, form: Form) -> list[str]:
    opened = gzip.open if form.gzip else open
    try:
        # Later lines are DuckDB's to judge, so what is not UTF-8 there must not stop us here.
        with opened(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            names = next(csv.reader(file, delimiter=form.delimiter), [])
        "".join(names).encode()
    except (UnicodeEncodeError, csv.Error):
        raise ValueError(f"{path}: line 1: the header is not UTF-8 text.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{path}: the gzip file is damaged or cut off.") from None
    if not names:
        raise ValueError(f"{path}: is empty; a first line with the names of the columns is needed.")
    if len({name.lower() for name in names}) < len(names):
        raise ValueError(f"{path}: line 1: two columns have one name (upper case does not count).")
    return names


def _type_of(sample: pa.ChunkedArray) -> str:
    values = sample.drop_null()
    if not len(values):
        return "VARCHAR"
    whole = pc.all(pc.match_substring_regex(values, INTEGER)).as_py()
    numbers = [(pa.int64(), "BIGINT"), (pa.uint64(), "UBIGINT")] if whole else []
    zeros = pc.any(pc.match_substring_regex(values, r"^-?0[0-9]")).as_py()
    for kind, name in numbers if whole or zeros else [(pa.float64(), "DOUBLE")]:
        try:
            values.cast(kind)
        except pa.ArrowInvalid:
            continue
        return name
    return "VARCHAR"


def _json_types(connection: Any, path: Path, form: Form, columns: list[str]) -> dict[str, str]:
    sniffed = _relation(connection, path, form, {})
    kinds = dict(zip(sniffed.columns, map(str, sniffed.types), strict=True))
    types = {}
    for column in columns:
        if column not in kinds:
            raise missing_column(str(path), column, kinds)
        if kinds[column].startswith(NESTED) or kinds[column].endswith("]"):
            raise TypeError(f"{path}: column {column!r} holds nested values, not one key each.")
        kept = kinds[column] in ("BIGINT", "UBIGINT", "DOUBLE", "BOOLEAN")
        # Dates and identifiers in JSON are texts that DuckDB would parse.
        types[column] = {"HUGEINT": "UBIGINT"}.get(
            kinds[column], kinds[column] if kept else "VARCHAR"
        )
    return types


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None):
            raise  # the system's own: no permission, a broken disk
        raise ValueError(_sentence(path, str(error))) from None


def _sentence(path: Path, told: str) -> str:
    """What DuckDB says without the values it quotes: where it is, and which of the known faults."""
    line = re.search(r"[Ll]ine:? (\d+)", told)
    column = re.search(r'converting column "(.*?)"\. Could not', told)
    where = f"{path}: line {line[1]}" if line else str(path)
    if column or "Failed to cast" in told:
        name = f"column {column[1]!r}" if column else "a column"
        return f"{where}: {name} is not of the type of the first {SAMPLE} rows; read it as text."
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", told)
    if counts:
        return f"{where}: {counts[2]} fields where the header has {counts[1]}."
    if "unterminated quote" in told:
        return f"{where}: a quote is opened and never closed."
    if "unicode" in told.lower() or "utf-8" in told.lower():
        return f"{where}: not UTF-8 text; convert the file first."
    if "Out of Memory" in told:
        return f"{where}: a row does not fit the memory limit; raise it."
    if "Malformed JSON" in told:
        return f"{where}: malformed JSON."
    return f"{where}: cannot be read; the file is damaged or of another type than its name says."
