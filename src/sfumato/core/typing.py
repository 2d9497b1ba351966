"""Types of columns and tables in signatures; the libraries that make them are not imported."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

__all__ = ["Bytes", "Column", "Ids", "Matrix", "SupportsArray", "SupportsArrow"]


class SupportsArray(Protocol):
    """What NumPy can read: its arrays, series and frames of pandas and polars, Arrow arrays."""

    def __array__(self) -> np.ndarray: ...


class SupportsArrow(Protocol):
    """What Arrow can read by its C interface: its arrays, tables and streams, and frames."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


Column: TypeAlias = SupportsArray | SupportsArrow | Sequence[Any]
"""One value a row: NumPy, Arrow, pandas, polars, or a list."""

Ids: TypeAlias = Column | int | str
"""A column of ids, integers or texts, or a single one where one makes sense."""

Matrix: TypeAlias = SupportsArray | SupportsArrow | Sequence[Sequence[Any]]
"""Rows of numbers, all of one length: an array of two dimensions, a frame or lists."""

Bytes: TypeAlias = bytes | bytearray | memoryview
"""The bytes of a file."""
