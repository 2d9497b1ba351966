"""Arrow arrays of plain numbers and texts, made and read without what Arrow imports for others.

`pyarrow.array` and `to_numpy` import pandas where it is installed, which takes longer than most
first calls.
"""

import sys
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

__all__ = ["cells", "number_array", "text_array", "text_cells"]

FEW = 1 << 16  # texts that are joined sooner than pandas is imported


def number_array(column: np.ndarray) -> pa.Array:
    """Return integers or floats as Arrow, on their own memory if they are contiguous.

    >>> number_array(np.array([3, 1])).to_pylist()
    [3, 1]
    """
    plain = np.ascontiguousarray(column)
    buffers = [None, pa.py_buffer(plain)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(plain.dtype), plain.size, buffers)


def cells(array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return integers or floats without nulls as NumPy, not writeable.

    >>> cells(number_array(np.array([3, 1])).slice(1))
    array([1])
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    found = np.frombuffer(array.buffers()[1] or b"", array.type.to_pandas_dtype())
    return found[array.offset :][: len(array)]


def text_array(rows: Sequence[str]) -> pa.Array:
    """Return texts, each of them a `str`, as Arrow's large strings.

    An unpaired surrogate raises UnicodeEncodeError.

    >>> text_array(["tea", "rum"]).to_pylist()
    ['tea', 'rum']
    """
    if len(rows) > FEW or "pandas" in sys.modules:
        return pa.array(rows, pa.large_string())
    letters = "".join(rows)
    words = rows if letters.isascii() else [row.encode() for row in rows]
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, words), np.int64, len(rows)), out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters.encode())]
    return pa.Array.from_buffers(pa.large_string(), len(rows), buffers)


def text_cells(array: pa.Array) -> np.ndarray:
    """Return texts as NumPy's objects, None for nulls.

    >>> text_cells(text_array(["tea", "rum"]))
    array(['tea', 'rum'], dtype=object)
    """
    if len(array) > FEW or "pandas" in sys.modules:
        return np.array(array.to_numpy(zero_copy_only=False), object)
    return np.array(array.to_pylist(), object)
