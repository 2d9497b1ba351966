"""Read any source as Arrow batches of the wanted columns, piece by piece in bounded memory."""

import errno
import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.tables import described
from sfumato.core.validation import integer
from sfumato.data.readers import arrays, arrow, formats, text_files
from sfumato.data.readers.base import BATCH_ROWS, Piece, Reading, SourceLayout

__all__ = ["Batches", "Piece", "Reading", "read_batches", "read_private"]

ROWS = integer(1, 2**31 - 1)
CELL = 32  # bytes of a text, about
SCALARS = str, int, float


def read_batches(
    source: Any,
    columns: Sequence[str],
    *,
    batch_rows: int | None = None,
    text: Sequence[str] = (),
    keys: Sequence[str] = (),
    skip_nulls: bool = False,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = "utf-8",
    guess: bool = True,
) -> "Batches":
    """Read a source of any size as batches of some columns.

    Parameters
    ----------
    source : path_like, list of paths, table, frame, dict of columns or iterator
        One of:

        - a path, a glob or a list of them, all of regular files: .parquet, .arrow or .feather;
          .npy or .npz, which are read into memory; .jsonl, .ndjson or .json; any other name is
          delimited text. Text may be compressed by gzip;
        - an Arrow table, batch, reader or dataset, a pandas or polars frame, or a dict of columns;
        - an iterator of tables, batches, frames or dicts.
    columns : sequence of str
        Names of the columns to read. Of a file also their numbers from 0, as "0", where no column
        has that name.
    batch_rows : int or None, default=None
        Maximum number of rows of a batch, at least 1; None for 65,536.
    text : sequence of str, default=()
        Columns to read as text, whatever they look like.
    keys : sequence of str, default=()
        Columns that will be hashed. Text files return them as text, other sources as they are, so
        that no row changes how another one is read. A lone column of keys in Parquet may come as
        Arrow's views of texts, which need no copy.
    skip_nulls : bool, default=False
        Whether rows with a null in these columns are left out.
    delimiter : str or None, default=None
        Delimiter of the fields of text, 1 to 4 characters; None for that of the ending (.csv,
        .tsv) if it is in line 1, else detected.
    header : bool or None, default=None
        Whether line 1 of delimited text contains the names of the columns; None if one of them is
        requested, or if line 1 has no number.
    encoding : {"utf-8", "latin-1", "utf-16"} or None, default="utf-8"
        Encoding of delimited text; None for UTF-8 if all of a file is, else Latin-1.
    guess : bool, default=True
        False for private use: of delimited text only line 1 is looked at, which is taken to be
        public, and the encoding is UTF-8 unless given.

    Returns
    -------
    Batches
        The source, not yet read; iterate over it for Arrow record batches.

    Notes
    -----
    **Guarantee.** A reader keeps one batch in memory at a time, plus a few MiB for Parquet and up
    to 64 MiB per thread for text files, whatever the size of the source. Every row comes once.
    Errors name file, line, row or column, never a value.

    A header line has up to 1 MiB; a row of more than a few MiB is refused. A column is of integers
    if its first 20,000 values are, written without leading zeros; otherwise of numbers or text. A
    later value of another type, or written otherwise, raises; it is never converted.

    Examples
    --------
    >>> views = {"item": ["tea", "milk", None], "user": [7, 7, 8]}
    >>> [batch.to_pydict() for batch in read_batches(views, ["item"], skip_nulls=True)]
    [{'item': ['tea', 'milk']}]
    """
    names = _names(columns)
    as_text, as_keys = (frozenset(_names(some, empty=True)) for some in (text, keys))
    for what, some in (("text", as_text), ("keys", as_keys)):
        if not some <= set(names):
            raise ValueError(f"data: {what} names {min(some - set(names))!r}, which is not read.")
    rows = BATCH_ROWS if batch_rows is None else ROWS.check("data", "batch_rows", batch_rows)
    if isinstance(source, Batches):
        raise TypeError("data: the source is already Batches; pass it on as it is.")
    given = formats.TextFormat.checked("read_batches", delimiter, header, encoding, guess)
    found = _find(source, names, as_text, as_keys, given)
    return Batches(names, found, Reading(rows), as_text, skip_nulls)


def read_private(source: Any, columns: Sequence[str]) -> "Batches":
    """Read a source as `read_batches` does, but files of text line by line, as texts.

    So no line is refused, and none changes how another is read: one that is no row is left out.
    """
    names = _names(columns)
    if not (isinstance(source, str | os.PathLike) or are_paths(source)):
        return read_batches(source, columns)
    paths = [source] if isinstance(source, str | os.PathLike) else source
    none, given = frozenset[str](), formats.GIVEN
    files = [
        _file(path, names, none, none, given) if formats.is_typed(path) else _lines(path, names)
        for each in paths
        for path in matches(each)
    ]
    return Batches(names, _together(files), Reading(BATCH_ROWS))


def _lines(path: Path, names: list[str]) -> SourceLayout:
    """The lines of a file of text, one piece."""
    from sfumato.data.tables import read_one_by_one

    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        for part in read_one_by_one(path, names):
            texts = [pa.array(map(_plain_text, cells), pa.large_string()) for cells in part]
            yield pa.RecordBatch.from_arrays(texts, names=names)

    return SourceLayout([Piece(str(path), 0, batches)], None, CELL * len(names))


def _plain_text(cell: Any) -> str | None:
    """A cell of text or of JSON as a text, by itself; None for lists and objects."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    try:
        return str(cell).encode("utf-8", "replace").decode() if isinstance(cell, SCALARS) else None
    except ValueError:  # an integer of thousands of digits
        return None


@dataclass(frozen=True)
class Batches:
    """A source that is described but not yet read.

    Made by `read_batches`. Iteration reads all of it in order on one thread; an engine opens the
    pieces on its own threads. A stream can be read once; files, tables and frames repeatedly.

    Parameters
    ----------
    columns : list of str
        Names of the columns to read.
    found : SourceLayout
        Pieces and sizes of the source.
    reading : Reading
        Resources of a reader.
    text : frozenset of str, optional
        Columns to convert to text.
    skip_nulls : bool, default=False
        Whether rows with a null in these columns are left out.

    Examples
    --------
    >>> batches = read_batches({"item": ["tea", "milk"]}, ["item"])
    >>> batches.rows, len(batches.pieces)
    (2, 1)
    """

    columns: list[str]
    found: SourceLayout
    reading: Reading
    text: frozenset[str] = frozenset()
    skip_nulls: bool = False

    def __repr__(self) -> str:
        sizes = {"pieces": len(self.pieces), "rows": self.rows}
        return described(self, columns=self.columns, **sizes, reading=self.reading)

    @property
    def pieces(self) -> list[Piece]:
        """Pieces that can be read independently; pass each of their batches to `finished`."""
        return self.found.pieces

    @property
    def rows(self) -> int | None:
        """Number of rows, or None if it is not known before reading."""
        return self.found.rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for piece in self.pieces:
            yield from map(self.finished, piece.open(self.reading))

    def finished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Select, convert and filter the columns of a batch of a piece.

        Parameters
        ----------
        batch : RecordBatch
            A batch that one of the `pieces` returned.

        Returns
        -------
        RecordBatch
            The batch with the requested columns in order, converted to text and without nulls as
            requested.
        """
        batch = batch.select(self.columns)
        for name in self.text:
            at = self.columns.index(name)
            if not pa.types.is_string(batch.column(at).type):
                batch = batch.set_column(at, name, _as_text(batch.column(at), name))
        if self.skip_nulls and any(column.null_count for column in batch.columns):
            keep = pc.is_valid(batch.column(0))
            for column in batch.columns[1:]:
                keep = pc.and_(keep, pc.is_valid(column))
            batch = batch.filter(keep)
        return batch


def _as_text(column: pa.Array, name: str) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise TypeError(f"{name}: {column.type} cannot be read as text.") from None


def _find(
    source: Any,
    columns: list[str],
    text: frozenset[str],
    keys: frozenset[str],
    given: formats.TextFormat,
) -> SourceLayout:
    if isinstance(source, str | os.PathLike) or are_paths(source):
        paths = [source] if isinstance(source, str | os.PathLike) else source
        files = [_file(p, columns, text, keys, given) for each in paths for p in matches(each)]
        return _together(files)
    return arrow.find(source, columns)


def are_paths(source: Any) -> bool:
    return (
        isinstance(source, list | tuple)
        and len(source) > 0
        and all(isinstance(each, str | os.PathLike) for each in source)
    )


def matches(path: str | os.PathLike[str]) -> list[Path]:
    """The file, or the files that match a glob, sorted by name."""
    plain = Path(path)
    if plain.is_dir():
        raise IsADirectoryError(f"{plain}: is a folder; give its files, for example {plain}/*.csv.")
    if plain.exists():
        if not plain.is_file():  # a table is opened more than once, a pipe cannot be
            raise OSError(errno.EINVAL, "is not a regular file", str(plain))
        return [plain]
    matched = sorted(glob.glob(str(path), recursive=True)) if glob.has_magic(str(path)) else []
    if not matched:
        raise FileNotFoundError(f"{plain}: there is no such file.")
    return [Path(each) for each in matched]


def _file(
    path: Path,
    columns: list[str],
    text: frozenset[str],
    keys: frozenset[str],
    given: formats.TextFormat,
) -> SourceLayout:
    if not formats.is_typed(path):
        return text_files.find(path, formats.resolved(path, given, columns), columns, text | keys)
    table = arrays.table_of(path) if formats.is_array(path) else None
    names = arrow.names_of(path) if table is None else table.column_names
    chosen = [names[formats.position_of(path, names, column)] for column in columns]
    distinct = list(dict.fromkeys(chosen))
    if table is not None:
        found = arrow.find(table, distinct)
    elif formats.is_parquet(path):
        pairs = zip(chosen, columns, strict=True)
        hashed = frozenset(name for name, column in pairs if column in keys - text)
        found = arrow.find_parquet(path, distinct, hashed)
    else:
        found = arrow.find_ipc(path, distinct)
    return found if chosen == columns else _renamed(found, chosen, columns)


def _renamed(found: SourceLayout, chosen: list[str], columns: list[str]) -> SourceLayout:
    """The same pieces, whose columns have the names by which they were requested."""

    def under(piece: Piece) -> Piece:
        def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
            for batch in piece.open(reading):
                arrays = [batch.column(name) for name in chosen]
                yield pa.RecordBatch.from_arrays(arrays, names=columns)

        return Piece(piece.name, piece.first_row, batches)

    return replace(found, pieces=[under(piece) for piece in found.pieces])


def _together(files: list[SourceLayout]) -> SourceLayout:
    rows = [file.rows for file in files]
    return SourceLayout(
        [piece for file in files for piece in file.pieces],
        None if None in rows else sum(count for count in rows if count is not None),
        max(file.row_bytes for file in files),
        max(file.reader_bytes for file in files),
        lambda: max(file.largest() for file in files),
    )


def _names(columns: Sequence[str], *, empty: bool = False) -> list[str]:
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise TypeError("data: columns must be a list of names.")
    names = list(dict.fromkeys(columns))
    if not names and not empty:
        raise ValueError("data: name at least one column.")
    return names
