"""Rows of `LocalEngine`: read by its threads, or held in memory once they are shuffled."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.hashing import hash_column
from sfumato.data import Batches
from sfumato.engine.base import Mapped
from sfumato.engine.local import LocalEngine

__all__ = ["LocalRows"]

T = TypeVar("T")
Partition = list[pa.RecordBatch]
PER_THREAD = 4  # partitions for each thread, so that an uneven one does not decide


class LocalRows:
    """Rows of a source, in partitions that threads of this machine work on.

    Made by `LocalEngine.rows`. A partition of a source that was not shuffled is what one thread
    happens to read of it. `shuffle` and `persist` hold the rows in memory.

    Parameters
    ----------
    engine : LocalEngine
        The engine.
    source : Batches or list of list of RecordBatch
        The source, or partitions in memory.
    maps : tuple of callable, default=()
        Functions that convert the batches of a partition, one after the other.

    Examples
    --------
    >>> events = {"user": [7, 8, 7], "item": ["tea", "milk", "rum"]}
    >>> rows = LocalEngine(threads=2).rows(events, ["user", "item"]).shuffle("user")
    >>> sorted(len(set(batch["user"].to_pylist())) for batch in rows.batches())
    [1, 1]
    """

    def __init__(
        self,
        engine: LocalEngine,
        source: Batches | list[Partition],
        maps: tuple[Mapped, ...] = (),
    ) -> None:
        self._engine, self._source, self._maps = engine, source, maps

    def __repr__(self) -> str:
        held = "in memory" if isinstance(self._source, list) else repr(self._source)
        return f"LocalRows({held}, maps={len(self._maps)})"

    def map(self, function: Mapped, schema: pa.Schema) -> Self:
        """Convert the batches of every partition; see `Rows.map`."""
        return type(self)(self._engine, self._source, (*self._maps, function))

    def shuffle(self, by: str) -> Self:
        """Move rows, so that all rows of one value are in one partition; see `Rows.shuffle`."""
        parts = PER_THREAD * self._engine.cores

        def split(batches: Iterator[pa.RecordBatch]) -> list[Partition]:
            found: list[Partition] = [[] for _ in range(parts)]
            for batch in batches:
                owners = (hash_column(batch.column(by)) % np.uint64(parts)).astype(np.int64)
                order = np.argsort(owners, kind="stable")
                bounds = np.searchsorted(owners[order], np.arange(parts + 1))
                moved = batch.take(pa.array(order))
                for part in range(parts):
                    if bounds[part] < bounds[part + 1]:
                        found[part].append(
                            moved.slice(bounds[part], bounds[part + 1] - bounds[part])
                        )
            return found

        joined = self.fold(split, lambda a, b: [x + y for x, y in zip(a, b, strict=True)])
        return type(self)(self._engine, [part for part in joined if part])

    def persist(self) -> Self:
        """Hold the rows in memory; see `Rows.persist`."""
        if isinstance(self._source, list) and not self._maps:
            return self
        held = self.fold(lambda batches: [list(batches)], lambda a, b: a + b)
        return type(self)(self._engine, [part for part in held if part])

    def unpersist(self) -> None:
        """Free what `persist` keeps; memory is freed with the last reference."""

    def fold(self, fold: Callable[[Iterator[pa.RecordBatch]], T], merge: Callable[[T, T], T]) -> T:
        """Fold every partition into one value, and merge the values; see `Rows.fold`."""

        def folded(batches: Iterator[pa.RecordBatch]) -> T:
            return fold(self._mapped(batches))

        if isinstance(self._source, Batches):
            names = self._source.columns
            return self._engine.fold(self._source, folded, merge, columns=names)
        if not self._source:
            return folded(iter(()))
        with ThreadPoolExecutor(self._engine.cores) as threads:
            return reduce(merge, threads.map(lambda part: folded(iter(part)), self._source))

    def _mapped(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for function in self._maps:
            batches = function(batches)
        return batches

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the batches one after the other, in this thread; see `Rows.batches`."""
        if isinstance(self._source, Batches):
            yield from self._mapped(iter(self._source))
            return
        for part in self._source:
            yield from self._mapped(iter(part))

    def write(self, path: Any) -> None:
        """Write the rows as a Parquet file of a new folder; see `Rows.write`."""
        folder = Path(path)
        folder.mkdir(parents=True)
        writer = None
        try:
            for batch in self.batches():
                if writer is None:
                    writer = pq.ParquetWriter(folder / "part-0.parquet", batch.schema)
                writer.write_batch(batch)
        finally:
            if writer is not None:
                writer.close()
