"""Rows of an engine as interactions and as columns of numbers."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sfumato.data.interactions import Interactions

__all__ = [
    "HALF",
    "ODD",
    "Batches",
    "check_sum",
    "gathered",
    "interactions_of",
    "number_columns",
    "sorted_batch",
]

Batches: TypeAlias = Iterator[pa.RecordBatch]
ODD = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)


def check_sum(data: Interactions) -> int:
    """Return a sum modulo 2**64 of one hash for each row, by which data are known in any order."""
    users, items = data.hashed()
    words = (users * ODD + items) ^ np.ascontiguousarray(data.ratings).view(np.uint64)
    return int(((words ^ words >> HALF) * ODD).sum(dtype=np.uint64))


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
