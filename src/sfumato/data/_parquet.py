"""Parquet files as pieces of whole row groups, each read page by page on the thread that asks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.data._pieces import (
    Found,
    Piece,
    Reading,
    missing_column,
    of_the_machine,
    row_bytes,
)

__all__ = ["find"]

BUFFER = 1 << 20  # bytes read from the file at a time, instead of a whole column of a row group
PAGE, PAGE_HEADER = 1 << 20, 1 << 16  # bytes of a page as usually written, and of its header
PIECE_ROWS = 1 << 18  # smaller row groups are read together


def find(path: Path, columns: list[str]) -> Found:
    with _plain_errors(path):
        metadata, schema = _opened(path)
    for column in columns:
        if column not in schema.names:
            raise missing_column(str(path), column, schema.names)
    pieces = [_piece(path, metadata, columns, *run) for run in _runs(metadata)]
    width = max(row_bytes(schema, columns), _stored_bytes(metadata, columns))
    return Found(
        pieces, metadata.num_rows, width, BUFFER, lambda: _largest_page(path, metadata, columns)
    )


def _opened(path: Path) -> tuple[Any, pa.Schema]:
    with pq.ParquetFile(path) as file:
        return file.metadata, file.schema_arrow


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if of_the_machine(error):
            raise
        told = f"{path}: cannot be read as Parquet; it is damaged or of another type."
        raise ValueError(told) from None


def _runs(metadata: Any) -> Iterator[tuple[int, list[int]]]:
    """Neighbouring row groups of together PIECE_ROWS or more, with the row that they begin at."""
    first, row, groups = 0, 0, list[int]()
    for group in range(metadata.num_row_groups):
        groups.append(group)
        row += metadata.row_group(group).num_rows
        if row - first >= PIECE_ROWS:
            yield first, groups
            first, groups = row, []
    if groups:
        yield first, groups


def _piece(path: Path, metadata: Any, columns: list[str], first: int, groups: list[int]) -> Piece:
    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        options = {"buffer_size": BUFFER, "pre_buffer": False, "metadata": metadata}
        with _plain_errors(path), pq.ParquetFile(path, **options) as file:
            yield from file.iter_batches(
                reading.batch_rows, row_groups=groups, columns=columns, use_threads=False
            )

    return Piece(str(path), first, batches)


def _stored_bytes(metadata: Any, columns: list[str]) -> int:
    """Bytes of a row before compression: what tells long texts from short ones."""
    size = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for at in range(group.num_columns):
            if group.column(at).path_in_schema.split(".")[0] in columns:
                size += group.column(at).total_uncompressed_size
    return int(size // max(metadata.num_rows, 1))


def _largest_page(path: Path, metadata: Any, columns: list[str]) -> int:
    """Bytes of the largest page of these columns, which is only ever read whole.

    A page holds at least one value, so no value is longer. Only the headers of pages are read;
    where one is not as expected, the whole column of its row group counts.
    """
    largest = 0
    with path.open("rb") as file:
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for at in range(group.num_columns):
                chunk = group.column(at)
                if chunk.path_in_schema.split(".")[0] in columns:
                    largest = max(largest, _largest_in(file, chunk))
    return largest


def _largest_in(file: BinaryIO, chunk: Any) -> int:
    whole = int(chunk.total_uncompressed_size)
    if whole <= PAGE:
        return whole
    at, largest = int(chunk.data_page_offset), 0
    if chunk.has_dictionary_page:
        at = min(at, int(chunk.dictionary_page_offset))
    end = at + int(chunk.total_compressed_size)
    while at < end:
        file.seek(at)
        header = _Header(file.read(PAGE_HEADER))
        try:
            fields = header.struct()
            size, stored = fields[2], fields[3]
        except (IndexError, KeyError, RecursionError):
            return whole
        largest, at = max(largest, size), at + header.at + max(stored, 0)
    return min(largest, whole)


class _Header:
    """A page header: a struct of Thrift's compact protocol; only its whole numbers are kept."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> dict[int, int]:
        """The whole numbers of the struct that begins here, by field; IndexError past the end."""
        fields, field = dict[int, int](), 0
        while kind := self._byte():
            field = field + (kind >> 4) if kind >> 4 else self._whole()
            value = self._value(kind & 15)
            if isinstance(value, int):
                fields[field] = value
        return fields

    def _value(self, kind: int) -> int | None:
        if kind in (4, 5, 6):
            return self._whole()
        if kind in (3, 7, 8):  # a byte, a double, bytes
            size = {3: 1, 7: 8}.get(kind) or self._varint()
            self.at += size
        elif kind in (9, 10):  # a list, a set
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                self._value(head & 15)
        elif kind == 12:
            self.struct()
        elif kind not in (1, 2):
            raise IndexError
        return None

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7

    def _whole(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
