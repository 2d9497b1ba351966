"""What a source is made of: pieces that are read independently, batch by batch.

What became of the rows of a source: how many were read, left out and why.
"""

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
TEXT_BYTES = 64  # what a text of unknown length is taken for


@dataclass(frozen=True)
class Reading:
    """How a piece is read: rows of a batch, threads and bytes that its reader may use.

    Parameters
    ----------
    batch_rows : int, default=65536
        TODO.
    threads : int, default=1
        TODO.
    memory : int or None, default=None
        TODO.
    """

    batch_rows: int = BATCH_ROWS
    threads: int = 1
    memory: int | None = None


@dataclass(frozen=True)
class Piece:
    """A run of rows that is read on its own: its name, its first row there, how to open it.

    Parameters
    ----------
    name : str
        TODO.
    first_row : int
        TODO.
    open : callable
        TODO.
    """

    name: str
    first_row: int
    open: Callable[[Reading], Iterator[pa.RecordBatch]] = field(repr=False)


@dataclass(frozen=True)
class SourceLayout:
    """A source's pieces, its rows if known, bytes of a row, and bytes of a reader beside those.

    largest: bytes of the largest part that can only be read whole; looked up when it is asked for.
    """

    pieces: list[Piece]
    rows: int | None
    row_bytes: int
    reader_bytes: int = 0
    largest: Callable[[], int] = int


class FirstLine(tuple[str, ...]):
    """The fields of line 1, taken for names; they may be somebody's values, so errors count them.

    >>> listed(FirstLine(["ann", "tea", "five"]))
    'there are 3 columns; if line 1 holds no names, give header=False'
    """

    __slots__ = ()


def listed(there: Iterable[str]) -> str:
    """What an error says of the columns that are there."""
    if isinstance(there, FirstLine):
        return f"there are {len(there)} columns; if line 1 holds no names, give header=False"
    return f"the columns are: {', '.join(there) or 'none'}"


def missing_column(name: str, column: str, there: Iterable[str]) -> ValueError:
    return ValueError(f"{name}: there is no column {column!r}; {listed(there)}.")


def of_the_machine(error: BaseException) -> bool:
    """Whether no permission, a broken disk or too little memory is at fault, and not the file."""
    return isinstance(error, MemoryError) or bool(getattr(error, "errno", None))


def row_bytes(schema: pa.Schema, columns: list[str]) -> int:
    """About how many bytes one row of these columns takes in memory."""
    return sum(_width(schema.field(column).type) for column in columns)


def sliced(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at most so many, without copying."""
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
    """Rows of the source, those kept, duplicates dropped, and rows skipped by reason.

    `rows` is what the source holds: kept + duplicates + all that was skipped. `encodings` names the
    text encoding of each text file; `clipped` are kept rows whose rating is beyond the bounds. All
    numbers are exact and of raw data: for the curator, and no part of what is private.

    Parameters
    ----------
    rows : int
        TODO.
    kept : int
        TODO.
    duplicates : int
        TODO.
    skipped : dict, optional
        TODO.
    encodings : dict, optional
        TODO.
    clipped : int, default=0
        TODO.
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
