"""Rows of an engine as points, each read by itself, with a label or target beside them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.core.arrays import Readers, private_points
from sfumato.core.bounds import Box
from sfumato.core.row_values import numbers_of

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["PointReading", "PointRows", "no_rows"]

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]
BESIDE = "beside"


def no_rows(columns: Sequence[str]) -> pa.Table:
    """A table of these columns without rows, for checks of what is public."""
    return pa.table({name: pa.array([], pa.float64()) for name in columns})


@dataclass(frozen=True)
class PointReading:
    """Map from rows of a source to points within public bounds, and a number beside each.

    Parameters: owner, named in errors; columns of the points; box, their bounds; private, whether
    points are clipped to the box and rows that cannot be read are dropped, else these are refused;
    readers of columns that do not contain numbers; beside, a column of labels or targets, which
    `value` converts to numbers, NaN for those that cannot be used.
    """

    owner: str
    columns: tuple[str, ...]
    box: Box
    private: bool
    readers: Readers = field(default_factory=dict)
    beside: str | None = None
    value: Callable[[Any], np.ndarray] = numbers_of

    @property
    def names(self) -> list[str]:
        """The columns of the source that are read."""
        return list(dict.fromkeys([*self.columns, *([self.beside] if self.beside else [])]))

    @property
    def schema(self) -> pa.Schema:
        """Columns of the batches that are made: those of the points, and what is beside them."""
        made = [f"x{at}" for at in range(len(self.columns))] + ([BESIDE] if self.beside else [])
        return pa.schema([(name, pa.float64()) for name in made])

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            points = private_points(
                self.owner, table.select(list(self.columns)), len(self.columns), self.readers
            )
            if self.beside is not None:
                points = np.column_stack([points, self.value(table.column(self.beside))])
            arrays = [pa.array(each) for each in self._readable(points).T]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def require_rows(self, total: int) -> None:
        """Raise ValueError if there are no rows, unless they are private."""
        if not self.private and not total:
            raise ValueError(f"{self.owner}: the source must hold at least one row.")

    def _readable(self, rows: np.ndarray) -> np.ndarray:
        """Rows that are all numbers, in bounds if they are private."""
        columns, bad = len(self.columns), np.isnan(rows)
        if self.private:
            rows = rows[~bad.any(axis=1)]
            rows[:, :columns] = np.clip(rows[:, :columns], self.box.low, self.box.high)
            return rows
        if bad[:, :columns].any():
            raise ValueError(
                f"{self.owner}: X must be finite; a row holds NaN, null or text, or a category "
                "that is not listed. Drop or fill such rows first."
            )
        if not np.isfinite(rows[:, columns:]).all():
            raise ValueError(
                f"{self.owner}: column {self.beside!r} holds a value that cannot be used: none, or "
                "a label that is not in classes. Drop such rows first."
            )
        return rows


class PointRows:
    """Points in the partitions of an engine; `persist` keeps them for several passes."""

    def __init__(self, engine: "Engine", source: Any, reading: PointReading) -> None:
        self._rows = engine.rows(source, reading.names, private=reading.private).map(
            reading, reading.schema
        )
        self._beside, self._kept = reading.beside is not None, False
        self.columns: int = len(reading.columns)

    def persist(self) -> None:
        """Keep the points when they are first read."""
        self._rows, self._kept = self._rows.persist(), True

    def unpersist(self) -> None:
        """Free what `persist` keeps."""
        if self._kept:
            self._rows.unpersist()

    def fold(
        self,
        make: Callable[[], T],
        add: Callable[[T, np.ndarray, np.ndarray | None], T],
        merge: Callable[[T, T], T],
    ) -> T:
        """Add the points of each partition, and what is beside them, to a new value; merge all."""
        found: T = self._rows.fold(_Adding(make, add, self._beside), merge)
        return found

    def total(
        self, cells: Callable[[np.ndarray, np.ndarray | None], np.ndarray], shape: tuple[int, ...]
    ) -> np.ndarray:
        """Sum the integers that the function returns for the points of all batches."""
        return self.fold(
            lambda: np.zeros(shape, np.int64),
            lambda total, points, beside: total + cells(points, beside),
            lambda left, right: left + right,
        )


@dataclass(frozen=True)
class _Adding:
    """Fold of a partition."""

    make: Callable[[], Any]
    add: Callable[[Any, np.ndarray, np.ndarray | None], Any]
    beside: bool

    def __call__(self, batches: Batches) -> Any:
        value = self.make()
        for batch in batches:
            columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            beside = columns.pop() if self.beside else None
            value = self.add(value, np.column_stack(columns), beside)
        return value
