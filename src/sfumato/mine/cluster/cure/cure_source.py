"""Points of files and tables a batch at a time, and a uniform sample of them."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.arrays import LARGEST
from sfumato.data import read_batches

__all__ = ["PointBatches", "uniform_sample"]


class PointBatches:
    """Batches of points with the rows they were read from.

    owner is for errors, source and batch_rows as in `read_batches`, columns are those of the
    points. Numbers of text files are read as text, since a first few may look like integers.
    """

    def __init__(
        self, owner: str, source: Any, columns: Sequence[str], batch_rows: int | None
    ) -> None:
        self.owner: str
        self.columns: list[str]
        self.owner, self.columns = owner, list(columns)
        text = self.columns if _is_text(source) else ()
        self._batches = read_batches(source, self.columns, batch_rows=batch_rows, text=text)
        self.rows: int | None = self._batches.rows

    def __iter__(self) -> Iterator[np.ndarray]:
        row = 0
        for batch in self._batches:
            points = np.empty((batch.num_rows, len(self.columns)))
            for at, name in enumerate(self.columns):
                points[:, at] = self._numbers(batch.column(name), name, row)
            yield points
            row += batch.num_rows

    def _numbers(self, column: Any, name: str, row: int) -> np.ndarray:
        if pa.types.is_string(column.type):
            column = pc.utf8_trim_whitespace(column)
        try:
            numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        except pa.ArrowException:
            raise ValueError(
                f"{self.owner}: column {name!r} must be numbers; some of rows {row} to "
                f"{row + len(column) - 1} are not."
            ) from None
        if numbers.size and not (numbers.min() >= -LARGEST and numbers.max() <= LARGEST):
            at = row + int((~(np.abs(numbers) <= LARGEST)).argmax())
            raise ValueError(
                f"{self.owner}: column {name!r} must be finite and at most {LARGEST:g} in size; "
                f"row {at} is missing, NaN, inf or larger. Drop or fill such rows first."
            )
        return np.asarray(numbers)


def _is_text(source: Any) -> bool:
    """Whether the source is files other than Parquet."""
    paths = source if isinstance(source, list | tuple) else [source]
    return all(
        isinstance(path, str | os.PathLike) and not str(path).lower().endswith(".parquet")
        for path in paths
    )


def uniform_sample(
    batches: PointBatches, size: int, draws: np.random.Generator
) -> tuple[np.ndarray, int]:
    """A uniform sample without replacement in the order of rows, and how many rows there are.

    Each row draws a number, and those with the smallest are retained.
    """
    points = np.empty((0, len(batches.columns)))
    keys, count = np.empty(0), 0
    for batch in batches:
        count += len(batch)
        drawn = draws.random(len(batch))
        low = drawn < (keys.max() if keys.size == size else 2.0)
        points = np.concatenate((points, batch[low]))
        keys = np.concatenate((keys, drawn[low]))
        if keys.size > size:
            retained = np.sort(np.argpartition(keys, size - 1)[:size])
            points, keys = points[retained], keys[retained]
    return points, count
