"""Delimited text that holds plain numbers alone, parsed straight to them; other text is left."""

import gzip
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sfumato.data.readers.delimited import Dialect
from sfumato.data.readers.formats import QUOTE
from sfumato.data.readers.text_files import BUFFER
from sfumato.kernels.delimited_numbers import parse

__all__ = ["read"]

POWERS = 10.0 ** np.arange(20)
Columns = list[list[np.ndarray]]


def read(path: Path, dialect: Dialect, positions: list[int], integers: int) -> Columns | None:
    """Return the columns at these positions as chunks of numbers; None if a line is not plain.

    The first `integers` of them must be integers without leading zeros. Where a file is not plain
    it is for the reader of texts to say what each line holds, and which is wrong.
    """
    if dialect.skip or dialect.encoding == "utf-16":
        return None
    opened: Any = gzip.open if dialect.gzip else open
    try:
        with opened(path, "rb") as file:
            return _read(file, dialect, positions, integers)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return None


def _read(file: BinaryIO, dialect: Dialect, positions: list[int], integers: int) -> Columns | None:
    data = file.read(BUFFER)
    carriage = data[: data.find(b"\n") + 1].endswith(b"\r\n")
    if dialect.header:
        line, _, data = data.partition(b"\n")
        if line.count(QUOTE.encode()) % 2:  # a name spans lines
            return None
    columns: Columns = [[] for _ in positions]
    while data:
        more = file.read(BUFFER)
        if not more and not data.endswith(b"\n"):
            data += b"\r\n" if carriage else b"\n"
        end = data.rfind(b"\n") + 1
        found = _parsed(data[:end], carriage, dialect, positions, integers) if end else None
        if found is None:  # also of a line that is longer than what is read at a time
            return None
        for chunks, numbers in zip(columns, found, strict=True):
            chunks.append(numbers)
        data = data[end:] + more
    return columns


def _parsed(
    data: bytes, carriage: bool, dialect: Dialect, positions: list[int], integers: int
) -> list[np.ndarray] | None:
    """The numbers of complete lines, or None."""
    letters = np.frombuffer(data, np.uint8)
    rows, size = int(np.count_nonzero(letters == ord("\n"))), len(positions)
    values, scales = np.empty((size, rows), np.int64), np.empty((size, rows), np.uint8)
    columns = np.full(dialect.width, -1, np.int64)
    columns[positions] = np.arange(size)
    between = np.frombuffer(dialect.delimiter.encode(), np.uint8)
    canonical = np.arange(size) < integers
    if parse(letters, between, carriage, columns, canonical, values, scales) < rows:
        return None
    return [_number(*each) for each in zip(values, scales, strict=True)]


def _number(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return values / POWERS[scales] if scales.any() else values
