"""Tables, frames, dicts of columns and streams as Arrow batches, copied at most by slices."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from sfumato.data._pieces import Found, Piece, Reading, missing_column, row_bytes, sliced

__all__ = ["find"]

STREAM_ROW_BYTES = 64  # a stream tells its types only when it is read
KINDS = (
    "a path, a list of paths, an Arrow table, batch, reader or dataset, a pandas or polars frame, "
    "a dict of columns or an iterator of those"
)


def find(source: Any, columns: list[str]) -> Found:
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


def _frame(source: Any, columns: list[str]) -> Found:
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
    return Found([piece], source.num_rows, row_bytes(source.schema, columns))


def _exported(source: Any, columns: list[str]) -> Found:
    """A frame or query of another library by the Arrow protocol: its own memory, no copy."""
    schema = pa.RecordBatchReader.from_stream(source).schema
    _check(schema, columns)

    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        yield from sliced(pa.RecordBatchReader.from_stream(source), reading.batch_rows)

    rows = len(source) if hasattr(source, "__len__") else None
    return Found([Piece("the table", 0, batches)], rows, row_bytes(schema, columns))


def _pandas(frame: Any, columns: list[str]) -> Found:
    """A pandas frame, converted slice by slice so that its texts are never all there twice."""
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
    return Found([Piece("the frame", 0, batches)], len(frame), width)


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
    whole = [a.combine_chunks() if isinstance(a, pa.ChunkedArray) else a for a in arrays]
    return pa.RecordBatch.from_arrays(whole, names=list(source))


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


def _dataset(source: ds.Dataset, columns: list[str]) -> Found:
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
    return Found(pieces, counted, row_bytes(source.schema, columns))


def _fragment(
    part: Any, schema: pa.Schema, columns: list[str]
) -> Callable[[Reading], Iterator[pa.RecordBatch]]:
    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        limits = {"batch_size": reading.batch_rows, "batch_readahead": 0, "fragment_readahead": 0}
        yield from part.to_batches(schema=schema, columns=columns, use_threads=False, **limits)

    return batches


def _iterable(source: Iterable[Any], columns: list[str]) -> Found:
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


def _once(start: Callable[[], Iterator[pa.RecordBatch]], width: int) -> Found:
    used: list[bool] = []

    def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
        if used:
            raise ValueError(
                "data: a stream can be read once; give a file, table or frame instead."
            )
        used.append(True)
        yield from sliced(start(), reading.batch_rows)

    return Found([Piece("the stream", 0, batches)], None, width)


def _check(schema: pa.Schema, columns: list[str]) -> None:
    for column in columns:
        if column not in schema.names:
            raise missing_column("the table", column, schema.names)
        if schema.names.count(column) > 1:
            raise ValueError(f"the table: two columns are named {column!r}; rename one.")
