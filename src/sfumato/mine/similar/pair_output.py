"""Pairs as they are found: in memory up to a limit, beyond it in a Parquet file."""

import os
import shutil
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.arrow_arrays import cells, number_array
from sfumato.core.validation import integer

__all__ = ["PAIRS", "PairOutput"]

PAIRS = integer(1, 2**40)
PAIR_BYTES = 24  # of two rows and a value, before Parquet packs them


class PairOutput:
    """Pairs (first, second, value): a table, or the data set of a Parquet file.

    The file is the caller's `path`, or a temporary one from the first pair above `most` on, which
    lives as long as the data set that is returned. owner and remedy are for warning and error;
    value is the name of the third column, kind the type of the first two. As a context manager it
    removes an unfinished file.
    """

    def __init__(
        self,
        owner: str,
        value: str,
        most: int,
        path: str | os.PathLike[str] | None,
        remedy: str,
        kind: pa.DataType | None = None,
    ) -> None:
        self.owner: str
        self.remedy: str
        self.owner, self.remedy = owner, remedy
        self.most: int = PAIRS.check(owner, "max_pairs", most)
        self.path = None if path is None else Path(path)
        kind = pa.int64() if kind is None else kind
        self.schema: Any = pa.schema({"first": kind, "second": kind, value: pa.float64()})
        self.count = 0
        self._parts: list[pa.Table] = []
        self._writer: Any = None
        self._folder: str | None = None  # of the temporary file

    def __enter__(self) -> "PairOutput":
        if self.path is not None:
            self._partial = self.path.with_name(f".{self.path.name}.partial")
            self._writer = pq.ParquetWriter(self._partial, self.schema)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._writer is None or self.path is None:
            return
        self._writer.close()
        if kind is None:
            self._partial.replace(self.path)
            return
        self._partial.unlink(missing_ok=True)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def check(self, more: int) -> None:
        """Move to disk if so many more pairs exceed the limit; raise ValueError if it is short."""
        if self.path is None and self.count + more > self.most:
            self._spill(more)
        if self._folder is not None and PAIR_BYTES * more > _free(self._folder) // 2:
            raise ValueError(
                f"{self.owner}: more than {self.most:,} pairs are similar, and {more:,} would fill "
                f"the disk of temporary files; {self.remedy}"
            )

    def _spill(self, more: int) -> None:
        self._folder = tempfile.mkdtemp(prefix="sfumato-pairs-")
        self.path = Path(self._folder, "pairs.parquet")
        self.__enter__()
        for part in self._parts:
            self._writer.write_table(part)
        self._parts.clear()

    def add(self, first: np.ndarray, second: np.ndarray, values: np.ndarray) -> None:
        """Append pairs."""
        self.check(first.size)
        self.count += first.size
        columns = zip((first, second, values), self.schema.types, strict=True)
        table = pa.table([_arrow(each, kind) for each, kind in columns], schema=self.schema)
        if self._writer is not None:
            self._writer.write_table(table)
        else:
            self._parts.append(table)

    def result(self, facts: dict[str, Any]) -> Any:
        """The sorted table, or the data set of the file; facts are its metadata."""
        metadata = {name: str(value) for name, value in facts.items()}
        if self.path is not None:
            return self._data_set(metadata)
        found = pa.concat_tables(self._parts or [self.schema.empty_table()])
        if self.schema.field("first").type == pa.int64():
            order = np.lexsort((cells(found["second"]), cells(found["first"])))
            found = found.take(number_array(order))
        else:
            found = found.sort_by([("first", "ascending"), ("second", "ascending")])
        return found.replace_schema_metadata(metadata).combine_chunks()

    def _data_set(self, metadata: dict[str, str]) -> Any:
        import pyarrow.dataset  # imported here: it is slow to import

        found = pyarrow.dataset.dataset(self.path)
        found = found.replace_schema(found.schema.with_metadata(metadata))
        if self._folder is not None:
            weakref.finalize(found, shutil.rmtree, self._folder, ignore_errors=True)
            warnings.warn(
                f"{self.owner}: {self.count:,} pairs are similar, more than max_pairs = "
                f"{self.most:,}, so they are in a temporary file and the result is its data set, "
                f"in no order; {self.remedy}",
                stacklevel=4,
            )
        return found


def _free(folder: str) -> int:
    return shutil.disk_usage(folder).free


def _arrow(column: np.ndarray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array(column, kind)
    return number_array(np.asarray(column, kind.to_pandas_dtype()))
