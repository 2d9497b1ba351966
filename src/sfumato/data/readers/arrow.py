"""Tables, frames, dicts of columns, streams and Parquet files as Arrow batches.

Tables are sliced, not copied. Parquet is read in pieces of complete row groups, page by page.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sfumato.data.readers.base import (
    Piece,
    Reading,
    SourceLayout,
    missing_column,
    of_the_machine,
    row_bytes,
    sliced,
)
from sfumato.data.readers.formats import is_ipc
from sfumato.data.readers.parquet_pages import DAMAGED, PageHeader, Pages, readable

__all__ = ["find", "find_ipc", "find_parquet", "names_of"]

STREAM_ROW_BYTES = 64  # the types of a stream are known only when it is read
KINDS = (
    "a path, a list of paths, an Arrow table, batch, reader or dataset, a pandas or polars frame, "
    "a dict of columns or an iterator of those"
)


def find(source: Any, columns: list[str]) -> SourceLayout:
    if isinstance(source, ds.Dataset):
        return _dataset(source, columns)
    if isinstance(source, pa.RecordBatchReader):
        _check(source.schema, columns)
        return _once(lambda: iter(source), row_bytes(source.schema, columns))
    if _is_frame(source):
        return _frame(source, columns)
    if isinstance(source, Iterable) and not isinstance(source, str | bytes):
        return _iterable(source, columns)
    raise TypeError(f"data: the source must be {KINDS}, not {type(source).__name__}.")


def _is_frame(source: Any) -> bool:
    return (
        isinstance(source, pa.Table | pa.RecordBatch | Mapping)
        or _is_pandas(source)
        or hasattr(source, "__arrow_c_stream__")
    )


def _is_pandas(source: Any) -> bool:
    return hasattr(source, "iloc") and hasattr(source, "columns")


def _frame(source: Any, columns: list[str]) -> SourceLayout:
    if _is_pandas(source):
        return _pandas(source, columns)
    if isinstance(source, Mapping):
        source = _table_of(source, columns)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if not isinstance(source, pa.Table):
        return _exported(source, columns)
    _check(source.schema, columns)

    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        yield from source.select(columns).to_batches(max_chunksize=reading.batch_rows)

    piece = Piece("the table", 0, batches)
    return SourceLayout([piece], source.num_rows, row_bytes(source.schema, columns))


def _exported(source: Any, columns: list[str]) -> SourceLayout:
    """A frame or query of another library by the Arrow protocol, without a copy."""
    schema = pa.RecordBatchReader.from_stream(source).schema
    _check(schema, columns)

    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        yield from sliced(pa.RecordBatchReader.from_stream(source), reading.batch_rows)

    rows = len(source) if hasattr(source, "__len__") else None
    return SourceLayout([Piece("the table", 0, batches)], rows, row_bytes(schema, columns))


def _pandas(frame: Any, columns: list[str]) -> SourceLayout:
    """A pandas frame, converted slice by slice so that its texts are not all in memory twice."""
    names = [name for name in frame.columns if isinstance(name, str)]
    for column in columns:
        if column not in names:
            raise missing_column("the frame", column, names)
    frame = frame[columns]

    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(frame), reading.batch_rows):
            part = frame.iloc[start : start + reading.batch_rows]
            yield _batch({name: part[name] for name in columns})

    width = row_bytes(_batch({name: frame[name].iloc[:100] for name in columns}).schema, columns)
    return SourceLayout([Piece("the frame", 0, batches)], len(frame), width)


def _table_of(source: Mapping[str, Any], columns: list[str]) -> pa.Table:
    for column in columns:
        if column not in source:
            raise missing_column("the dict", column, map(str, source))
    arrays = {name: _array(source[name], name) for name in columns}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"data: the columns differ in length: {lengths}.")
    return pa.table(arrays)


def _batch(source: dict[str, Any]) -> pa.RecordBatch:
    arrays = [_array(values, name) for name, values in source.items()]
    joined = [a.combine_chunks() if isinstance(a, pa.ChunkedArray) else a for a in arrays]
    return pa.RecordBatch.from_arrays(joined, names=list(source))


def _array(values: Any, name: str) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):
            return pa.chunked_array(values)
        return pa.array(values, from_pandas=hasattr(values, "iloc"))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Arrow's own sentence quotes the value that does not fit.
        raise TypeError(f"{name}: the column is not of one type that Arrow knows.") from None


def _dataset(source: ds.Dataset, columns: list[str]) -> SourceLayout:
    _check(source.schema, columns)
    pieces, rows = [], 0
    for fragment in source.get_fragments():
        parquet = isinstance(fragment, ds.ParquetFileFragment)
        name, first = str(getattr(fragment, "path", "the dataset")), 0
        for part in fragment.split_by_row_group() if parquet else [fragment]:
            pieces.append(Piece(name, first, _fragment(part, source.schema, columns)))
            first += sum(group.num_rows for group in part.row_groups) if parquet else 0
        rows += first
    counted = (
        rows if all(isinstance(f, ds.ParquetFileFragment) for f in source.get_fragments()) else None
    )
    return SourceLayout(pieces, counted, row_bytes(source.schema, columns))


def _fragment(
    part: Any, schema: pa.Schema, columns: list[str]
) -> Callable[[Reading], Iterator[pa.RecordBatch]]:
    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        limits = {"batch_size": reading.batch_rows, "batch_readahead": 0, "fragment_readahead": 0}
        yield from part.to_batches(schema=schema, columns=columns, use_threads=False, **limits)

    return batches


def _iterable(source: Iterable[Any], columns: list[str]) -> SourceLayout:
    def batches() -> Iterator[pa.RecordBatch]:
        for at, each in enumerate(source):
            if not _is_frame(each):
                raise TypeError(
                    f"data: item {at} of the stream must be a batch, table, frame or dict of "
                    f"columns, not {type(each).__name__}."
                )
            for piece in _frame(each, columns).pieces:
                yield from piece.open(Reading(2**31 - 1))

    return _once(batches, STREAM_ROW_BYTES * len(columns))


def _once(start: Callable[[], Iterator[pa.RecordBatch]], width: int) -> SourceLayout:
    used: list[bool] = []

    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        if used:
            raise ValueError(
                "data: a stream can be read once; give a file, table or frame instead."
            )
        used.append(True)
        yield from sliced(start(), reading.batch_rows)

    return SourceLayout([Piece("the stream", 0, batches)], None, width)


def _check(schema: pa.Schema, columns: list[str]) -> None:
    for column in columns:
        if column not in schema.names:
            raise missing_column("the table", column, schema.names)
        if schema.names.count(column) > 1:
            raise ValueError(f"the table: two columns are named {column!r}; rename one.")


BUFFER = 1 << 20  # bytes read from the file at a time, instead of an entire column of a row group
PAGE, PAGE_HEADER = 1 << 20, 1 << 16  # bytes of a page as usually written, and of its header
PIECE_ROWS = 1 << 18  # smaller row groups are read together


def names_of(path: Path) -> list[str]:
    """Names of the columns of a Parquet or Arrow IPC file."""
    if is_ipc(path):
        return list(_ipc(path).schema.names)
    with _plain_errors(path):
        return list(pq.read_schema(path).names)


def find_ipc(path: Path, columns: list[str]) -> SourceLayout:
    """Pieces of an Arrow IPC file."""
    return _dataset(_ipc(path), columns)


def _ipc(path: Path) -> ds.Dataset:
    with _plain_errors(path, "an Arrow file"):
        return ds.dataset(str(path), format="ipc")


def find_parquet(
    path: Path, columns: list[str], keys: frozenset[str] = frozenset()
) -> SourceLayout:
    """Row groups of a file; a lone column of keys may become views of texts, which are faster."""
    with _plain_errors(path):
        metadata, schema = _opened(path)
    for column in columns:
        if column not in schema.names:
            raise missing_column(str(path), column, schema.names)
    runs = list(_runs(metadata))
    if len(columns) == 1 and keys.issuperset(columns):
        pieces = [_key_piece(path, metadata, schema.field(columns[0]), *run) for run in runs]
    else:
        pieces = [_piece(path, metadata, columns, *run) for run in runs]
    width = max(row_bytes(schema, columns), _stored_bytes(metadata, columns))
    return SourceLayout(
        pieces, metadata.num_rows, width, BUFFER, lambda: _largest_page(path, metadata, columns)
    )


def _opened(path: Path) -> tuple[Any, pa.Schema]:
    with pq.ParquetFile(path) as file:
        return file.metadata, file.schema_arrow


@contextmanager
def _plain_errors(path: Path, kind: str = "Parquet") -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, *DAMAGED) as error:
        if of_the_machine(error):
            raise
        sentence = f"{path}: cannot be read as {kind}; it is damaged or of another type."
        raise ValueError(sentence) from None


def _runs(metadata: Any) -> Iterator[tuple[int, list[int]]]:
    """Adjacent row groups of together at least PIECE_ROWS, with their first row."""
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


def _key_piece(path: Path, metadata: Any, field: pa.Field, first: int, groups: list[int]) -> Piece:
    """A piece of one column of keys, read page by page where that is possible."""
    names = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    at = names.index(field.name) if field.name in names else -1
    if at < 0 or not readable(metadata, groups, at, field.type):
        return _piece(path, metadata, [field.name], first, groups)
    levels = metadata.schema.column(at).max_definition_level

    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        with _plain_errors(path):
            for group in groups:
                chunk = metadata.row_group(group).column(at)
                for array in Pages(path, chunk, levels, field.type).arrays(reading.batch_rows):
                    yield pa.RecordBatch.from_arrays([array], names=[field.name])

    return Piece(str(path), first, batches)


def _stored_bytes(metadata: Any, columns: list[str]) -> int:
    """Uncompressed bytes of a row, which show how long texts are."""
    size = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for at in range(group.num_columns):
            if group.column(at).path_in_schema.split(".")[0] in columns:
                size += group.column(at).total_uncompressed_size
    return int(size // max(metadata.num_rows, 1))


def _largest_page(path: Path, metadata: Any, columns: list[str]) -> int:
    """Bytes of the largest page of these columns; a page is read at once.

    A page contains at least one value, so no value is longer. Only page headers are read; where
    one is not as expected, the entire column of its row group counts.
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
    total = int(chunk.total_uncompressed_size)
    if total <= PAGE:
        return total
    at, largest = int(chunk.data_page_offset), 0
    if chunk.has_dictionary_page:
        at = min(at, int(chunk.dictionary_page_offset))
    end = at + int(chunk.total_compressed_size)
    while at < end:
        file.seek(at)
        header = PageHeader(pa.py_buffer(file.read(PAGE_HEADER)))
        if header.size < 0:
            return total
        largest, at = max(largest, header.decompressed), at + header.size + header.stored
    return min(largest, total)
