"""Building blocks of readers: independent pieces of a source, and the report of a reading."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

__all__ = [
    "BATCH_ROWS",
    "FirstLine",
    "Piece",
    "Reading",
    "ReadingReport",
    "SourceLayout",
    "listed",
    "missing_column",
    "of_the_machine",
    "sliced",
]

BATCH_ROWS = 1 << 16  # half a MiB of 64-bit keys: fits a core's cache beside the sketch's rows
TEXT_BYTES = 64  # assumed length of a text


@dataclass(frozen=True)
class Reading:
    """Resources of one reader: rows per batch, threads and memory.

    Parameters
    ----------
    batch_rows : int, default=65536
        Maximum number of rows of a batch.
    threads : int, default=1
        Threads that a reader may use.
    memory : int or None, default=None
        Bytes that a reader may use, None for its default.

    Examples
    --------
    >>> Reading(batch_rows=1000)
    Reading(batch_rows=1000, threads=1, memory=None)
    """

    batch_rows: int = BATCH_ROWS
    threads: int = 1
    memory: int | None = None


@dataclass(frozen=True)
class Piece:
    """A run of rows of a source that can be read independently.

    Parameters
    ----------
    name : str
        Name of the file or source, for errors.
    first_row : int
        Number of its first row in that file, from 0.
    open : callable
        Function that takes a `Reading` and returns an iterator of Arrow record batches.

    Examples
    --------
    >>> from sfumato.data import read_batches
    >>> [piece] = read_batches({"item": ["tea", "milk"]}, ["item"]).pieces
    >>> piece.name, piece.first_row
    ('the table', 0)
    """

    name: str
    first_row: int
    open: Callable[[Reading], Iterator[pa.RecordBatch]] = field(repr=False)


@dataclass(frozen=True)
class SourceLayout:
    """Pieces of a source, its number of rows if known, bytes per row, and other bytes of a reader.

    largest: function that returns the bytes of the largest part that must be read at once.
    """

    pieces: list[Piece]
    rows: int | None
    row_bytes: int
    reader_bytes: int = 0
    largest: Callable[[], int] = int


class FirstLine(tuple[str, ...]):
    """Fields of line 1, taken as names; they may be private values, so errors only count them.

    >>> listed(FirstLine(["ann", "tea", "five"]))
    'there are 3 columns; if line 1 holds no names, give header=False'
    """

    __slots__ = ()


def listed(there: Iterable[str]) -> str:
    """Describe the existing columns, for an error message."""
    if isinstance(there, FirstLine):
        return f"there are {len(there)} columns; if line 1 holds no names, give header=False"
    return f"the columns are: {', '.join(there) or 'none'}"


def missing_column(name: str, column: str, there: Iterable[str]) -> ValueError:
    return ValueError(f"{name}: there is no column {column!r}; {listed(there)}.")


def of_the_machine(error: BaseException) -> bool:
    """Whether an error is due to permissions, disk or memory, and not to the file's contents."""
    return isinstance(error, MemoryError) or bool(getattr(error, "errno", None))


def row_bytes(schema: pa.Schema, columns: list[str]) -> int:
    """Approximate bytes of one row of these columns in memory."""
    return sum(_width(schema.field(column).type) for column in columns)


def sliced(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Cut batches to at most `rows` rows, without copying."""
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _width(kind: Any) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return TEXT_BYTES


@dataclass(frozen=True)
class ReadingReport:
    """Counts of the rows of a source: kept, duplicates, and skipped by reason.

    All counts are exact and of raw data: for the curator only, and no part of a private release.

    Parameters
    ----------
    rows : int
        Rows of the source: kept + duplicates + skipped.
    kept : int
        Rows that were kept.
    duplicates : int
        Older ratings of a pair of user and item that were dropped.
    skipped : dict of str, optional
        Number of skipped rows by reason.
    encodings : dict of str, optional
        Text encoding of each text file.
    clipped : int, default=0
        Kept rows whose rating is beyond the bounds.

    Examples
    --------
    >>> print(ReadingReport(rows=3, kept=2, duplicates=0, skipped={"the user is empty": 1}))
    3 rows read, 2 kept; 1 skipped: the user is empty.
    """

    rows: int
    kept: int
    duplicates: int
    skipped: dict[str, int] = field(default_factory=dict)
    encodings: dict[str, str] = field(default_factory=dict)
    clipped: int = 0

    def __str__(self) -> str:
        parts = [f"{self.rows} rows read, {self.kept} kept"]
        if self.duplicates:
            parts.append(f"{self.duplicates} older ratings of a pair dropped")
        parts += [f"{count} skipped: {reason}" for reason, count in self.skipped.items()]
        if self.clipped:
            parts.append(f"{self.clipped} ratings clipped to the bounds")
        return "; ".join(parts) + "."
