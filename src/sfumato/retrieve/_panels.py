"""Panels: packed codes that grow, laid out for the scan, and never move under a reader."""

from typing import Self

import numpy as np

from sfumato._require import whole
from sfumato.kernels.lanes import aligned
from sfumato.kernels.scan import BLOCK, frozen

__all__ = ["Panels"]

WORDS = whole(1, 1024)


class Panels:
    """A store of codes, word after word in blocks of BLOCK codes.

    Guarantee: codes come back as they were added, row by row. A row once added is never written
    again, so who holds `blocks` and `count` keeps reading the same codes while others are appended.
    One thread appends at a time; another that reads takes `count` first, then `blocks`.
    Parameters: words, 64-bit words of a code, from 1 to 1024.

    >>> panels = Panels(2).append(np.array([[1, 2], [3, 4]], np.uint64))
    >>> panels.count, panels.take(np.array([1]))
    (2, array([[3, 4]], dtype=uint64))
    """

    def __init__(self, words: int) -> None:
        self.words = WORDS.check("Panels", "words", words)
        self.count = 0
        self._blocks = aligned((0, self.words, BLOCK), np.uint64)

    @classmethod
    def over(cls, blocks: np.ndarray, count: int) -> Self:
        """Panels that read stored blocks in place; the first append copies them.

        Parameters: blocks, uint64 (ceil(count / BLOCK), words, BLOCK), C-contiguous, read-only or
        not; count, how many rows they hold.
        """
        fits = blocks.ndim == 3 and blocks.shape[0] == -(-count // BLOCK) and count >= 0
        if not fits or blocks.shape[2] != BLOCK or blocks.dtype != np.uint64:
            raise ValueError(
                f"Panels: blocks must be uint64 of shape (ceil(count / {BLOCK}), words, {BLOCK}) "
                f"for count {count}, not {blocks.dtype} of shape {blocks.shape}."
            )
        panels = cls(blocks.shape[1])
        panels._blocks, panels.count = frozen(blocks), count
        return panels

    @property
    def blocks(self) -> np.ndarray:
        """The blocks that hold rows, uint64 (ceil(count / BLOCK), words, BLOCK), not writable."""
        return frozen(self._blocks[: -(-self.count // BLOCK)])

    @property
    def nbytes(self) -> int:
        """Bytes of memory, room for later rows included."""
        return self._blocks.nbytes

    def append(self, codes: np.ndarray) -> Self:
        """Add codes, uint64 (n, words), as rows count to count + n - 1."""
        codes = np.asarray(codes)
        if codes.ndim != 2 or codes.shape[1] != self.words or codes.dtype != np.uint64:
            raise ValueError(
                f"Panels: codes must be uint64 of shape (n, {self.words}), "
                f"not {codes.dtype} of shape {codes.shape}."
            )
        self._reserve(self.count + len(codes))
        self._write(codes)
        self.count += len(codes)
        return self

    def take(self, rows: np.ndarray) -> np.ndarray:
        """The codes of these rows, uint64 (m, words)."""
        rows = np.asarray(rows, np.int64)
        if rows.size and not 0 <= rows.min() <= rows.max() < self.count:
            raise IndexError(f"Panels: rows must be from 0 to {self.count - 1}.")
        return self._blocks[rows // BLOCK, :, rows % BLOCK]

    def codes(self) -> np.ndarray:
        """All codes in the order of rows, uint64 (count, words), a copy."""
        rows = self.blocks.transpose(0, 2, 1).reshape(-1, self.words)
        return rows[: self.count].copy()

    def _reserve(self, count: int) -> None:
        """Make room; readers keep the old array, whose rows stay as they are."""
        needed = -(-count // BLOCK)
        if needed > len(self._blocks) or not self._blocks.flags.writeable:
            room = max(needed, 2 * len(self._blocks))
            grown = aligned((room, self.words, BLOCK), np.uint64)
            grown[: len(self.blocks)] = self.blocks
            self._blocks = grown

    def _write(self, codes: np.ndarray) -> None:
        """Put codes behind row count - 1: the rest of a block, whole blocks, the start of one."""
        at, start = self.count, 0
        head = min(-at % BLOCK, len(codes))
        if head:
            self._blocks[at // BLOCK, :, at % BLOCK : at % BLOCK + head] = codes[:head].T
            at, start = at + head, head
        full = (len(codes) - start) // BLOCK
        whole_blocks = codes[start : start + full * BLOCK].reshape(full, BLOCK, self.words)
        self._blocks[at // BLOCK : at // BLOCK + full] = whole_blocks.transpose(0, 2, 1)
        rest = codes[start + full * BLOCK :]
        if len(rest):
            self._blocks[at // BLOCK + full, :, : len(rest)] = rest.T
