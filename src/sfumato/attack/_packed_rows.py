"""Rows of bits, eight to a byte, unpacked only where they are looked at."""

from typing import Any

import numpy as np

__all__ = ["PackedRows"]


class PackedRows:
    """A table of bits in an eighth of its cells.

    Parameters: packed, rows x bytes, the first bit being the least; length, the bits of a row;
    those beyond are 0.

    >>> rows = PackedRows.of([[True, False, True], [False, False, False]])
    >>> rows.shape, rows[0], rows.shares().round(2)
    ((2, 3), array([ True, False,  True]), array([0.67, 0.  ]))
    """

    def __init__(self, packed: np.ndarray, length: int) -> None:
        self._packed, self.shape = packed, (len(packed), length)

    @classmethod
    def of(cls, bits: Any) -> "PackedRows":
        """Pack rows of booleans."""
        bits = np.asarray(bits, bool)
        return cls(np.packbits(bits, axis=1, bitorder="little"), bits.shape[1])

    @classmethod
    def of_words(cls, words: np.ndarray, length: int) -> "PackedRows":
        """Rows that are packed into words already; contiguous ones are not copied."""
        return cls(np.ascontiguousarray(words).view(np.uint8), length)

    def __getitem__(self, rows: slice | int) -> np.ndarray:
        """One row, or some, as booleans."""
        packed, length = self._packed[rows], self.shape[1]
        return np.unpackbits(packed, axis=-1, count=length, bitorder="little").view(bool)

    def shares(self) -> np.ndarray:
        """The share of ones in each row."""
        return np.asarray(np.bitwise_count(self._packed).sum(axis=1) / self.shape[1])
