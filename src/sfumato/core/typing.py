"""Type aliases of columns and tables for signatures, without importing their libraries."""

import datetime
import decimal
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

__all__ = [
    "Bytes",
    "Column",
    "Ids",
    "Key",
    "Keys",
    "Matrix",
    "SupportsArray",
    "SupportsArrow",
]


class SupportsArray(Protocol):
    """Objects that NumPy can read: NumPy and Arrow arrays, pandas and polars series and frames."""

    def __array__(self) -> np.ndarray: ...


class SupportsArrow(Protocol):
    """Objects that Arrow can read by its C interface: arrays, tables, streams and data frames."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


Column: TypeAlias = SupportsArray | SupportsArrow | Sequence[Any]
"""One value per row: NumPy, Arrow, pandas, polars, or a list."""

Ids: TypeAlias = Column | int | str
"""A column of ids, integers or texts, or a single id."""

Key: TypeAlias = (
    str
    | bytes
    | complex
    | np.generic
    | decimal.Decimal
    | datetime.date
    | datetime.time
    | datetime.timedelta
    | None
)
"""One key of a sketch: text, a number, a date or time, or None for the missing one."""

Keys: TypeAlias = Column | Key
"""A column of keys, or a single one."""

Matrix: TypeAlias = SupportsArray | SupportsArrow | Sequence[Sequence[Any]]
"""Rows of numbers of equal length: a two-dimensional array, a data frame or lists."""

Bytes: TypeAlias = bytes | bytearray | memoryview
"""The bytes of a file."""
