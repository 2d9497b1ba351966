"""Pairs as they are found: collected to a limit, or written to Parquet in bounded memory."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.validation import integer

__all__ = ["PAIRS", "PairOutput"]

PAIRS = integer(1, 2**40)


class PairOutput:
    """A table of pairs (first, second, value) that refuses to grow past a limit, or a file.

    owner and remedy are for the error; value is the name of the third column. As a context manager
    it removes an unfinished file.
    """

    def __init__(
        self, owner: str, value: str, most: int, path: str | os.PathLike[str] | None, remedy: str
    ) -> None:
        self.owner, self.remedy = owner, remedy
        self.most = PAIRS.check(owner, "max_pairs", most)
        self.path = None if path is None else Path(path)
        self.schema = pa.schema({"first": pa.int64(), "second": pa.int64(), value: pa.float64()})
        self.count = 0
        self._parts: list[pa.Table] = []
        self._writer: Any = None

    def __enter__(self) -> "PairOutput":
        if self.path is not None:
            self._partial = self.path.with_name(f".{self.path.name}.partial")
            self._writer = pq.ParquetWriter(self._partial, self.schema)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._writer is not None:
            self._writer.close()
            if kind is None and self.path is not None:
                self._partial.replace(self.path)
            else:
                self._partial.unlink(missing_ok=True)

    def check(self, more: int) -> None:
        """Raise ValueError if so many more pairs would not fit."""
        if self.path is None and self.count + more > self.most:
            raise ValueError(
                f"{self.owner}: more than {self.most:,} pairs are similar; {self.remedy}"
            )

    def add(self, first: np.ndarray, second: np.ndarray, values: np.ndarray) -> None:
        """Append pairs."""
        self.check(first.size)
        self.count += first.size
        table = pa.table([first, second, values], schema=self.schema)
        if self._writer is not None:
            self._writer.write_table(table)
        else:
            self._parts.append(table)

    def result(self, facts: dict[str, Any]) -> Any:
        """The sorted table with facts as metadata, or the data set of the file."""
        if self.path is not None:
            import pyarrow.dataset  # imported here: it is slow to import

            return pyarrow.dataset.dataset(self.path)
        found = pa.concat_tables([self.schema.empty_table(), *self._parts])
        order = np.lexsort((found["second"].to_numpy(), found["first"].to_numpy()))
        metadata = {name: str(value) for name, value in facts.items()}
        return found.take(order).replace_schema_metadata(metadata).combine_chunks()
