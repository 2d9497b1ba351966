"""Baskets of table files: a Parquet column of lists, or rows (basket, item), chunk by chunk."""

import tempfile
import warnings
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core import arrow_compute as pc
from sfumato.data.readers.base import missing_column
from sfumato.data.readers.formats import GIVEN, TextFormat, position_of
from sfumato.mine.itemsets.sources.by_row import list_rows, text_ids
from sfumato.mine.itemsets.sources.columns import LISTS, RawChunk, grouped, of_arrow

__all__ = ["ListSource", "LongSource"]

SORTING: dict[str, Any] = {
    "threads": 1,
    "memory_limit": "256MB",
    "autoinstall_known_extensions": False,  # reading a file never reaches for the network
    "autoload_known_extensions": False,
}


class ListSource:
    """Baskets of a Parquet column of lists, the only one unless it is named."""

    def __init__(self, path: Path, item: str | None) -> None:
        self.path: Path
        self.name: str
        self.path, self.name = path, str(path)
        try:
            with pq.ParquetFile(path) as file:
                schema, metadata = file.schema_arrow, file.metadata
        except pa.ArrowException:
            raise ValueError(f"{path}: cannot be read as Parquet.") from None
        self.column: str = self._chosen(schema, item)
        size = sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
        self._row_bytes = max(16, 4 * size // max(metadata.num_rows, 1))  # unpacked to int64
        self._lenient = False

    def by_row(self) -> "ListSource":
        """The same baskets for private use: none is refused or changes how another is read."""
        made = copy(self)
        made._lenient = True
        return made

    def _chosen(self, schema: pa.Schema, item: str | None) -> str:
        lists: list[str] = [
            field.name for field in schema if any(test(field.type) for test in LISTS)
        ]
        if item is not None:
            if item not in schema.names:
                raise missing_column(self.name, item, schema.names)
            return item
        if len(lists) != 1:
            raise ValueError(
                f"{self.path}: has {len(lists)} columns of lists; name one by item=, or the "
                "columns of baskets and items by basket= and item=."
            )
        return lists[0]

    def chunks(self, chunk_bytes: int) -> Iterator[RawChunk]:
        """Baskets in order, about so many bytes at a time."""
        rows, first = max(1, chunk_bytes // self._row_bytes), 0
        with pq.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
            for batch in file.iter_batches(rows, columns=[self.column], use_threads=False):
                if self._lenient:
                    yield list_rows(batch.column(0))
                else:
                    yield of_arrow(batch.column(0), f"{self.path}: column {self.column!r}", first)
                first += batch.num_rows


class LongSource:
    """Baskets of rows (basket, item), read in order if that is theirs, else sorted by DuckDB.

    Reading that column once shows whether basket ids rise from row to row. If they do not,
    every pass sorts the rows on disk, in bounded memory.
    """

    def __init__(
        self, path: Path, basket: str, item: str, text: bool, given: TextFormat = GIVEN
    ) -> None:
        self.given = given
        self.path: Path
        self.name: str
        self.basket: str
        self.item: str
        self.path, self.name, self.basket, self.item = path, str(path), basket, item
        self.text: list[str] = [item] if text else []
        self._ordered: bool | None = None
        self._check_columns()

    def _check_columns(self) -> None:
        """Refuse missing columns now, by the header alone: JSON has none, and is read later."""
        from sfumato.data.tables import names_of

        if not self.path.name.lower().removesuffix(".gz").endswith((".json", ".jsonl", ".ndjson")):
            if self.given.header is False:
                return
            known = names_of(self.path, self.given, private=True)
            for column in (self.basket, self.item):
                position_of(self.path, known, column)

    def by_row(self) -> "_LongRows":
        """The same baskets for private use: none is refused or changes how another is read."""
        return _LongRows(self.path, self.basket, self.item, self.given)

    def _batches(self, columns: list[str]) -> Any:
        from sfumato.data import read_batches

        text = [name for name in self.text if name in columns]
        return read_batches(self.path, columns, text=text, **vars(self.given))

    def chunks(self, chunk_bytes: int) -> Iterator[RawChunk]:
        """Baskets in order, about so many bytes at a time."""
        if self._ordered is None:
            self._ordered = self._rises()
            if not self._ordered:
                warnings.warn(
                    f"{self.path}: rows are not sorted by {self.basket!r}, so every pass sorts "
                    "them first; sort the file once to save time.",
                    stacklevel=2,
                )
        rows = iter(self._batches([self.basket, self.item])) if self._ordered else self._sorted()
        rest: Any = None
        for batch in _at_least(rows, max(1, chunk_bytes // 32)):
            table = batch if rest is None else pa.concat_tables([rest, batch])
            column = table.column(self.basket)
            cut = _last_start(column)
            rest = table.slice(cut)
            if cut:
                yield self._gathered(table.slice(0, cut))
        if rest is not None and rest.num_rows:
            yield self._gathered(rest)

    def _gathered(self, table: pa.Table) -> RawChunk:
        columns = table.column(self.basket), table.column(self.item)
        return grouped(*columns, f"{self.path}: {self.basket}", f"{self.path}: {self.item}")

    def _rises(self) -> bool:
        last = None
        for batch in self._batches([self.basket]):
            column = batch.column(0)
            if not len(column):
                continue
            rises = pc.all(pc.less_equal(column[:-1], column[1:])).as_py()
            if rises is False or (last is not None and pc.greater(last, column[0]).as_py()):
                return False
            last = column[-1]
        return True

    def _sorted(self) -> Iterator[pa.RecordBatch]:
        return _in_order(iter(self._batches([self.basket, self.item])), self.basket)


class _LongRows:
    """Baskets of rows (basket, item), each row read on its own, sorted by DuckDB in every pass.

    A row without basket or item is left out.
    """

    def __init__(self, path: Path, basket: str, item: str, given: TextFormat = GIVEN) -> None:
        self.path: Path
        self.name: str
        self.basket: str
        self.item: str
        self.path, self.name, self.basket, self.item = path, str(path), basket, item
        self.given = given

    def by_row(self) -> "_LongRows":
        return self

    def chunks(self, chunk_bytes: int) -> Iterator[RawChunk]:
        """Baskets in order of the texts of their ids, about so many bytes at a time."""
        rest: Any = None
        for batch in _at_least(_in_order(self._rows(), "basket"), max(1, chunk_bytes // 32)):
            table = batch if rest is None else pa.concat_tables([rest, batch])
            cut = _last_start(table.column("basket"))
            rest = table.slice(cut)
            if cut:
                yield _gathered_runs(table.slice(0, cut))
        if rest is not None and rest.num_rows:
            yield _gathered_runs(rest)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        from sfumato.data.tables import read_one_by_one

        for baskets, items in read_one_by_one(self.path, [self.basket, self.item], self.given):
            columns = [text_ids(baskets), text_ids(items)]
            yield pa.record_batch(columns, names=["basket", "item"])


def _gathered_runs(table: pa.Table) -> RawChunk:
    """Baskets of sorted rows; rows without basket or item are left out."""
    table = table.drop_null().combine_chunks()
    if not table.num_rows:
        return RawChunk(np.zeros(1, np.int64), pa.array([], pa.large_string()))
    baskets, items = (table.column(k).combine_chunks() for k in range(2))
    new = np.flatnonzero(np.asarray(pc.not_equal(baskets[1:], baskets[:-1]))) + 1
    return RawChunk(np.concatenate([[0], new, [len(items)]]), items.cast(pa.large_string()))


def _in_order(batches: Iterator[pa.RecordBatch], basket: str) -> Iterator[pa.RecordBatch]:
    """Rows sorted by one column, on disk where memory does not suffice."""
    import duckdb

    first = next(batches, None)
    if first is None:
        return
    rows = pa.RecordBatchReader.from_batches(first.schema, _chained(first, batches))
    with (
        tempfile.TemporaryDirectory() as spilled,
        duckdb.connect(config={**SORTING, "temp_directory": spilled}) as connection,
    ):
        column = basket.replace('"', '""')
        sorted_rows = connection.from_arrow(rows).order(f'"{column}"')
        yield from sorted_rows.to_arrow_reader(1 << 16)


def _chained(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def _at_least(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= rows:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _last_start(column: pa.ChunkedArray) -> int:
    """Row where the last basket starts: the first of the rows equal to the last one."""
    same = np.asarray(pc.equal(column, column[-1]).fill_null(True))
    other = np.flatnonzero(~same)
    return int(other[-1]) + 1 if other.size else 0
