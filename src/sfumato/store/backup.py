"""Backups: all tables of one moment in one file, which either backend reads.

0   8  magic "SFSTORE" and a newline
8      records: length of the name (2 bytes, little-endian as all that follows), the name, length of
       the body (8), the body; the first is "header" with JSON, then a table's name with an Arrow
       stream of some of its rows, any number of times
end    a record "end" whose body is the SHA-256 of everything before it
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sfumato.core.file_format import atomic_writer, json_object, regular
from sfumato.errors import ParameterError, StoreDamaged
from sfumato.store import schema as _schema
from sfumato.store.backend import Backend, Session
from sfumato.store.records import StoreInfo

__all__ = ["described", "restore", "write"]

MAGIC, FORMAT = b"SFSTORE\n", 1
ROWS = 8_192  # rows of a record
LARGE = {"snapshot_part", "stored", "stored_release", "telemetry_count", "product"}
NUMBERED = ("event", "erasure")  # tables that number their rows
BLOCK = 1 << 20
NAME_LIMIT, BODY_LIMIT = 100, 1 << 34
TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary()}


def described(backend: Backend, session: Session) -> StoreInfo:
    """Describe a store."""

    def number(statement: str) -> int:
        return int(session.execute(statement).fetchone()[0])

    return StoreInfo(
        backend.name,
        backend.location,
        _schema.version_of(backend, session),
        number("SELECT count(*) FROM event"),
        number("SELECT coalesce(max(seq), 0) FROM event"),
        backend.nbytes(session),
        number("SELECT count(*) FROM snapshot"),
        number("SELECT count(*) FROM stored_release"),
        number("SELECT count(*) FROM dataset"),
        number("SELECT count(*) FROM telemetry_count"),
        number("SELECT count(*) FROM api_key WHERE revoked IS NULL"),
        number("SELECT count(*) FROM erasure"),
    )


def write(backend: Backend, path: Path) -> dict[str, int]:
    """Write all tables of one moment to a new file."""
    if path.exists():
        raise ParameterError.of("Store", "path", f"must be a new file, and {path} is there.")
    counts = dict.fromkeys(_schema.TABLES, 0)
    with backend.reading() as session, atomic_writer(path) as file:
        out = _Hashed(file)
        out.write(MAGIC)
        version = _schema.version_of(backend, session)
        last = {table: backend.last_number(session, table) for table in NUMBERED}
        header = {"format": FORMAT, "version": version, "last": last}
        _record(out, "header", json.dumps(header).encode())
        for table, columns in _schema.TABLES.items():
            for rows in _pieces(session, table, columns):
                _record(out, table, _packed(columns, rows))
                counts[table] += len(rows)
        _record(out, "end", out.digest())
    return counts


def restore(backend: Backend, path: Path) -> dict[str, int]:
    """Fill an empty database from a file, in one transaction, after checking all of it."""
    counts = dict.fromkeys(_schema.TABLES, 0)
    with regular(path) as (file, size):
        header = _checked(file, size, path)
        with backend.writing() as session:
            _empty(backend, session, header["version"])
            for table, body in _records(file, size, path):
                if table in counts:
                    columns, rows = _unpacked(table, body, path)
                    session.insert_many(table, columns, rows)
                    counts[table] += len(rows)
            for table in NUMBERED:  # new rows are numbered after removed ones too
                backend.set_last_number(session, table, header["last"][table])
    _schema.migrate(backend)
    return counts


class _Hashed:
    """A file that is hashed while it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self._hash.update(data)
        self._file.write(data)

    def digest(self) -> bytes:
        return self._hash.digest()


def _record(out: _Hashed, name: str, body: bytes) -> None:
    lead = len(name).to_bytes(2, "little") + name.encode() + len(body).to_bytes(8, "little")
    out.write(lead)
    out.write(body)


def _pieces(session: Session, table: str, columns: tuple[str, ...]) -> Iterator[list[Any]]:
    order = "seq" if table == "event" else columns[0]
    statement = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"
    return session.stream(statement, 16 if table in LARGE else ROWS)


def _packed(columns: tuple[str, ...], rows: list[Any]) -> bytes:
    """Encode rows as an Arrow stream."""
    arrays = []
    for values in zip(*rows, strict=True):
        kind = next((type(value) for value in values if value is not None), str)
        arrays.append(pa.array(values, TYPES[bytes if kind is memoryview else kind]))
    batch = pa.record_batch(arrays, names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _unpacked(table: str, body: bytes, path: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    try:
        content = pa.ipc.open_stream(body).read_all()
    except (pa.ArrowException, OSError, ValueError):
        raise _damaged(path, f"the rows of table {table} cannot be read") from None
    names = list(content.column_names)
    if not set(names) <= set(_schema.TABLES[table]):
        raise _damaged(path, f"table {table} has unknown columns")
    return names, list(zip(*(column.to_pylist() for column in content.columns), strict=True))


def _checked(file: BinaryIO, size: int, path: Path) -> dict[str, Any]:
    """Verify the checksum of a file and its version; return its header."""
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        raise StoreDamaged(f"Store: {path} is not a backup of a store.")
    end = 2 + len("end") + 8 + 32
    total = hashlib.sha256()
    file.seek(0)
    left = size - end
    while left > 0:
        block = file.read(min(BLOCK, left))
        if not block:
            break
        total.update(block)
        left -= len(block)
    tail = file.read(end)
    expected = (3).to_bytes(2, "little") + b"end" + (32).to_bytes(8, "little") + total.digest()
    if left or tail != expected:
        raise _damaged(path, "it is cut off, or its checksum does not match")
    name, body = next(_records(file, size, path))
    if name != "header":
        raise _damaged(path, "its header is missing")
    try:
        header = json_object(body)
        form, version = int(header["format"]), int(header["version"])
        header["last"] = {table: int(header["last"][table]) for table in NUMBERED}
    except (ValueError, KeyError, TypeError):
        raise _damaged(path, "its header cannot be read") from None
    _schema.check_newer(str(path), version)
    if form != FORMAT or version < 1:
        raise _damaged(path, f"format {form} cannot be read, only {FORMAT}")
    return header


def _records(file: BinaryIO, size: int, path: Path) -> Iterator[tuple[str, bytes]]:
    file.seek(len(MAGIC))
    while file.tell() < size:
        length = int.from_bytes(file.read(2), "little")
        name = file.read(min(length, NAME_LIMIT)).decode("ascii", "replace")
        body = int.from_bytes(file.read(8), "little")
        if body > min(BODY_LIMIT, size - file.tell()):
            raise _damaged(path, "a record is longer than the file")
        yield name, file.read(body)


def _empty(backend: Backend, session: Session, version: int) -> None:
    """Make the tables of a version in an empty database, or empty those that hold nothing."""
    found = _schema.version_of(backend, session)
    if found == 0:
        _schema.lay_out(session, backend.name, version)
    elif found != version:
        raise ParameterError.of(
            "Store", "location", "has tables of another version; restore into a new database."
        )
    used = [
        table
        for table in _schema.TABLES
        if table not in ("secret", "head")
        and session.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None
    ]
    if used:
        raise ParameterError.of(
            "Store",
            "location",
            f"must be a new or empty store, and {backend.location} is not empty.",
        )
    session.execute("DELETE FROM secret")
    session.execute("DELETE FROM head")


def _damaged(path: Path, what: str) -> StoreDamaged:
    return StoreDamaged(f"Store: backup {path} is damaged: {what}. Take another backup.")
