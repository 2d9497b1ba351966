"""Arrays as kernels want them: aligned with cache lines, or plain and frozen; no compiler."""

import math

import numpy as np

__all__ = ["LINE", "aligned", "frozen"]

LINE = 64  # bytes: one cache line, and one AVX-512 register


def aligned(shape: int | tuple[int, ...], dtype: np.typing.DTypeLike) -> np.ndarray:
    """A zeroed C-contiguous array whose first byte starts a cache line.

    >>> aligned((3, 16), np.float32).ctypes.data % 64
    0
    """
    cells = shape if isinstance(shape, int | np.integer) else math.prod(shape)
    raw = np.zeros(int(cells) * np.dtype(dtype).itemsize + LINE, np.uint8)
    return np.ndarray(shape, dtype, raw, -raw.__array_interface__["data"][0] % LINE)


def frozen(array: np.ndarray) -> np.ndarray:
    """A plain contiguous array that is not written, so that kernels are compiled once for all."""
    view = np.ascontiguousarray(array)[:]
    view.flags.writeable = False
    return view
