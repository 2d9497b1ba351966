"""Columns of values for telemetry commands, in batches: text lines, stdin, or a file's column."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

__all__ = ["Column", "SkipNulls", "batches", "is_table", "listed"]

Column = Annotated[
    str | None, typer.Option("--column", "-c", help="Of a CSV, TSV, Parquet or JSON lines file.")
]
SkipNulls = Annotated[bool, typer.Option("--skip-nulls", help="Leave out rows without a value.")]
TABLES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")
CHUNK = 1 << 22  # bytes of text read at a time


def batches(
    files: list[str], column: str | None, *, numbers: bool = False, skip_nulls: bool = False
) -> Iterator[Any]:
    """The values of all files as Arrow arrays of text, or of floats where `numbers` says so.

    A file that is not there raises at once; no sentence of an error holds a value, only the file
    and the line or row.
    """
    opened = [
        (file, _lines(file) if column is None else _column(file, column, numbers, skip_nulls))
        for file in files or ["-"]
    ]
    return _all(opened, numbers)


def listed(file: Path, column: str | None, *, numbers: bool = False) -> list[Any]:
    """All values of one file, without the later of those that come again."""
    found = [value for part in batches([str(file)], column, numbers=numbers) for value in part]
    return list(dict.fromkeys(value.as_py() for value in found))


def is_table(file: str) -> bool:
    """Whether the name says that the file has columns."""
    return file.lower().removesuffix(".gz").endswith(TABLES)


def _all(opened: list[tuple[str, Iterator[Any]]], numbers: bool) -> Iterator[Any]:
    for file, found in opened:
        row = 1
        for batch in found:
            yield _floats(batch, file, row) if numbers else batch
            row += len(batch)


def _column(file: str, column: str, numbers: bool, skip_nulls: bool) -> Iterator[Any]:
    from sfumato.data import read_batches

    if file == "-":
        raise ValueError("--column goes with files; stdin is read as lines, one value each.")
    text = [] if numbers else [column]
    found = read_batches(file, [column], text=text, skip_nulls=skip_nulls)
    return (batch.column(0) for batch in found)


def _lines(file: str) -> Iterator[Any]:
    if file == "-":
        if sys.stdin is None:
            raise ValueError("stdin is closed; name a file of values.")
        return _split(sys.stdin.buffer, "stdin")
    if is_table(file):
        raise ValueError(f"{file}: has columns; name one with --column.")
    if Path(file).is_dir():
        raise IsADirectoryError(f"{file}: is a folder, not a file of values.")
    if not Path(file).exists():
        raise FileNotFoundError(f"{file}: there is no such file.")
    return _unpacked(file)


def _unpacked(file: str) -> Iterator[Any]:
    with gzip.open(file) if file.endswith(".gz") else open(file, "rb") as opened:
        yield from _split(opened, file)  # type: ignore[arg-type]


def _split(opened: BinaryIO, name: str) -> Iterator[Any]:
    """Arrays of the lines that are not empty."""
    rest, line = b"", 1
    while chunk := _read(opened, name):
        whole, _, rest = (rest + chunk).rpartition(b"\n")
        if whole:
            yield _text(whole, name, line)
            line += whole.count(b"\n") + 1
    if rest:
        yield _text(rest, name, line)


def _read(opened: BinaryIO, name: str) -> bytes:
    try:
        return opened.read(CHUNK)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{name}: is cut off or damaged; gzip cannot read it.") from None


def _text(lines: bytes, name: str, first: int) -> Any:
    import pyarrow as pa

    split = lines.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").removesuffix(b"\r")
    try:
        split.decode()
    except UnicodeDecodeError as error:
        at = first + split.count(b"\n", 0, error.start)
        raise ValueError(f"{name}: line {at} is not UTF-8.") from None
    return pa.array([line for line in split.split(b"\n") if line], pa.binary()).cast(pa.string())


def _floats(batch: Any, file: str, first: int) -> Any:
    import pyarrow as pa

    try:
        return batch.cast(pa.float64())
    except pa.ArrowException:  # its sentence would hold the value
        for row, value in enumerate(batch, first):
            try:
                float(value.as_py())
            except (TypeError, ValueError):
                raise ValueError(f"{file}: value {row} is no number.") from None
        raise ValueError(f"{file}: holds something else than numbers.") from None
