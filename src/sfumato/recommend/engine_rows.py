"""Rows of an engine as interactions and as columns of numbers."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sfumato.data.interactions import Interactions

__all__ = ["Batches", "gathered", "interactions_of", "number_columns", "sorted_batch"]

Batches: TypeAlias = Iterator[pa.RecordBatch]


def interactions_of(batches: Batches, columns: Sequence[str]) -> Iterator[Interactions]:
    """Read users, items and, if named, ratings of batches with rows; ValueError if invalid."""
    for batch in batches:
        if batch.num_rows:
            yield Interactions(*(batch.column(name) for name in columns))


def number_columns(batch: pa.RecordBatch, names: Sequence[str]) -> list[np.ndarray]:
    """Return columns of a batch as arrays."""
    return [batch.column(name).to_numpy(zero_copy_only=False) for name in names]


def gathered(batches: Batches, schema: pa.Schema) -> list[np.ndarray]:
    """Return the columns of all batches of a partition, which may be none."""
    found = [[np.empty(0, field.type.to_pandas_dtype()) for field in schema]]
    found += [number_columns(batch, schema.names) for batch in batches]
    return [np.concatenate(column) for column in zip(*found, strict=True)]


def sorted_batch(columns: Sequence[np.ndarray], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows ordered by their columns, the first one first, so that no source decides."""
    order = np.lexsort(list(columns)[::-1])
    return pa.RecordBatch.from_arrays([pa.array(each[order]) for each in columns], schema=schema)
