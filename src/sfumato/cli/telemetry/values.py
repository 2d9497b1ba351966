"""Columns of values for telemetry commands, in batches: text lines, stdin, or a file's column."""

import gzip
import io
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

import typer

from sfumato.cli import input_files

__all__ = ["Column", "SkipNulls", "batches", "listed"]

Column = Annotated[
    str | None,
    typer.Option(
        "--column", "-c", help="Column of values of a table of any format: its name or number."
    ),
]
SkipNulls = Annotated[
    bool, typer.Option("--skip-nulls", help="Leave out rows without a value, and empty lines.")
]
CHUNK = 1 << 22  # bytes of text read at a time


def batches(
    files: list[str],
    column: str | None,
    *,
    numbers: bool = False,
    skip_nulls: bool = False,
    empty: Counter[str] | None = None,
    reported: bool = False,
    given: Any = None,
) -> Iterator[tuple[str, int, Any]]:
    """The values of all files as Arrow arrays of text, or of floats where `numbers` says so.

    Each comes with its file and the number of its first value there, from 1 on. A file that is not
    there raises at once; no sentence of an error holds a value, only the file and the line or row.
    Empty lines are refused, for lines of two files pair; with `empty` they are counted there. Where
    values are to be `reported` none is refused: what is no UTF-8 is an empty line, empty lines stay
    unless they are counted, and whether a text is a number is left to the encoder. given: how text
    is written.
    """
    from sfumato.data.readers.formats import GIVEN

    given = given or GIVEN
    text = column is not None and (not numbers or reported)
    opened = [
        (
            file,
            _lines(file, empty, reported, given)
            if column is None
            else _column(
                file, column, text and not (numbers and _is_typed(file)), skip_nulls, given
            ),
        )
        for file in files or ["-"]
    ]
    return _all(opened, numbers and not reported)


def _is_typed(file: str) -> bool:
    from sfumato.data.readers.formats import is_typed

    return is_typed(Path(file))


def listed(
    file: Path,
    column: str | None,
    *,
    numbers: bool = False,
    notes: list[str] | None = None,
    given: Any = None,
) -> list[Any]:
    """All values of one file, without repetitions, which `notes` mention."""
    parts = batches([str(file)], column, numbers=numbers, empty=Counter(), given=given)
    found = [value.as_py() for _, _, part in parts for value in part]
    once = list(dict.fromkeys(found))
    if notes is not None:
        notes += _remarks(file, len(found) - len(once), once)
    return once


def _remarks(file: Path, repeated: int, values: list[Any]) -> list[str]:
    messages = []
    if repeated:
        messages.append(f"{file}: repeated values left out: {repeated}.")
    if spaced := sum(isinstance(value, str) and value != value.strip() for value in values):
        messages.append(
            f"{file}: values that begin or end with a space, which is part of them: {spaced}."
        )
    return messages


def _all(opened: list[tuple[str, Iterator[Any]]], numbers: bool) -> Iterator[tuple[str, int, Any]]:
    for file, found in opened:
        row = 1
        for batch in found:
            yield file, row, _floats(batch, file, row) if numbers else batch
            row += len(batch)


def _column(file: str, column: str, as_text: bool, skip_nulls: bool, given: Any) -> Iterator[Any]:
    from sfumato.data import read_batches

    text, path = [column] if as_text else [], input_files.located(file)
    found = read_batches(path, [column], text=text, skip_nulls=skip_nulls, **vars(given))
    return (batch.column(0) for batch in found)


def _lines(file: str, empty: Counter[str] | None, reported: bool, given: Any) -> Iterator[Any]:
    if file == "-":
        if sys.stdin is None:
            raise ValueError("stdin is closed; name a file of values.")
        return _split(_decoded(sys.stdin.buffer, given.encoding), "stdin", empty, reported)
    if input_files.is_table(file):
        raise ValueError(f"{file}: has columns; name one with --column.")
    if Path(file).is_dir():
        raise IsADirectoryError(f"{file}: is a folder, not a file of values.")
    if not Path(file).exists():
        raise FileNotFoundError(f"{file}: there is no such file.")
    if reported and Path(file).is_file():
        _refuse_fields(Path(file), given)
    return _unpacked(file, empty, reported, given)


def _refuse_fields(file: Path, given: Any) -> None:
    """Refuse lines of which all of the first have several fields, as those of a table do."""
    from sfumato.data.readers.formats import SNIFFED_ROWS, as_gzip, start_of

    start = start_of(file, as_gzip(file)).decode(given.encoding or "utf-8", "replace")
    lines = start.splitlines()[:SNIFFED_ROWS]
    for between in ("\t", "::", ";", ",", "|"):
        counts = {line.count(between) for line in lines}
        if len(lines) > 1 and len(counts) == 1 and counts != {0}:
            raise ValueError(
                f"{file}: its lines have several fields; name the column of values with --column, "
                "or for whole lines give --column 0, --no-header and a --delimiter that is in none."
            )


def _unpacked(file: str, empty: Counter[str] | None, reported: bool, given: Any) -> Iterator[Any]:
    from sfumato.data.readers.formats import encoding_of

    zipped, code = file.endswith(".gz"), given.encoding
    if code is None and given.guess and Path(file).is_file():
        code = encoding_of(Path(file), zipped)
    with gzip.open(file) if zipped else open(file, "rb") as opened:
        yield from _split(_decoded(cast(BinaryIO, opened), code), file, empty, reported)


def _decoded(opened: BinaryIO, encoding: str | None) -> Any:
    """The file itself where it is UTF-8, else its texts."""
    if encoding in (None, "utf-8"):
        return opened
    return io.TextIOWrapper(opened, encoding=encoding, errors="replace", newline="")


def _split(opened: Any, name: str, empty: Counter[str] | None, reported: bool) -> Iterator[Any]:
    """Arrays of the lines; the last may be empty."""
    rest, line = b"", 1
    while chunk := _read(opened, name):
        text = rest + chunk
        cut = text.rfind(b"\n", 0, max(len(text) - 2, 0)) + 1  # a last line of \r\n stays behind
        rest = text[cut:]
        if cut:
            yield _text(text[: cut - 1], name, line, empty, reported)
            line += text.count(b"\n", 0, cut)
    if rest := rest.replace(b"\r\n", b"\n").removesuffix(b"\n"):
        yield _text(rest.removesuffix(b"\n"), name, line, empty, reported)


def _read(opened: Any, name: str) -> bytes:
    try:
        data = opened.read(CHUNK)
        return data.encode() if isinstance(data, str) else bytes(data)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{name}: is cut off or damaged; gzip cannot read it.") from None


def _text(lines: bytes, name: str, first: int, empty: Counter[str] | None, reported: bool) -> Any:
    import pyarrow as pa

    split = lines.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").removesuffix(b"\r")
    found = split.split(b"\n")
    try:
        split.decode()
    except UnicodeDecodeError as error:
        at = first + split.count(b"\n", 0, error.start)
        if not reported:
            raise ValueError(f"{name}: line {at} is not UTF-8; give its --encoding.") from None
        found = [line if _is_utf8(line) else b"" for line in found]
    nonempty = found if reported and empty is None else [line for line in found if line]
    if len(nonempty) < len(found):
        if empty is None:
            raise ValueError(
                f"{name}, line {first + found.index(b'')} is empty; give a value a line, or "
                "--skip-nulls leaves such lines out."
            )
        empty[name] += len(found) - len(nonempty)
    return pa.array(nonempty, pa.binary()).cast(pa.string())


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


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
