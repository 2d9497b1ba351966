"""Parquet files as pieces of whole row groups, each read page by page on the thread that asks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
PIECE_ROWS = 1 << 18  # smaller row groups are read together


def find(path: Path, columns: list[str]) -> Found:
    with _plain_errors(path):
        metadata, schema = _opened(path)
    for column in columns:
        if column not in schema.names:
            raise missing_column(str(path), column, schema.names)
    pieces = [_piece(path, metadata, columns, *run) for run in _runs(metadata)]
    width = max(row_bytes(schema, columns), _stored_bytes(metadata, columns))
    return Found(pieces, metadata.num_rows, width, BUFFER)


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
