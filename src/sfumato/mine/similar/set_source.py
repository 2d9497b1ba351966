"""Sets of hashes to search: those of `ShingleSets`, or of texts, which are hashed when needed."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from sfumato.kernels.mine.similar import shingles as kernels
from sfumato.mine.similar.shingling import BLOCK, ShingleSets, Shingling
from sfumato.mine.similar.texts import Texts

__all__ = ["GivenSets", "SetSource", "TextSets", "source_of"]


class SetSource(Protocol):
    """What a search needs of the sets of n documents."""

    def __len__(self) -> int: ...

    def lengths(self) -> np.ndarray:
        """Number of hashes of each set, or more."""

    def blocks(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield first row, hashes and ends of some sets at a time; there may be repeats."""

    def members(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sorted distinct hashes of the sets of ascending rows, and where each set ends."""

    def fingerprints(self) -> np.ndarray:
        """One number per document, equal only for equal sets; after all `blocks` were read."""


def source_of(owner: str, texts: Any, shingling: Shingling) -> SetSource:
    """The sets themselves, or those of texts."""
    if isinstance(texts, ShingleSets):
        return GivenSets(texts)
    return TextSets(Texts(owner, texts), shingling)


class GivenSets:
    """Sets of hashes in memory."""

    def __init__(self, sets: ShingleSets) -> None:
        self.sets = sets

    def __len__(self) -> int:
        return len(self.sets)

    def lengths(self) -> np.ndarray:
        return self.sets.sizes

    def blocks(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        yield 0, self.sets.hashes, self.sets.offsets

    def members(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hashes, offsets = self.sets.hashes, self.sets.offsets
        ends = np.empty(rows.size + 1, np.int64)
        found = np.empty(int((offsets[rows + 1] - offsets[rows]).sum()), np.uint64)
        kernels.gather(hashes, offsets, rows, found, ends)
        return found, _distinct(found, ends)

    def fingerprints(self) -> np.ndarray:
        out = np.empty(len(self), np.uint64)
        kernels.fingerprints(self.sets.hashes, self.sets.offsets, out)
        return out


class TextSets:
    """Sets of the shingles of texts, of which only one block is held at a time."""

    def __init__(self, texts: Texts, shingling: Shingling) -> None:
        self.texts: Texts
        self.shingling: Shingling
        self.texts, self.shingling = texts, shingling
        self._fingerprints = np.zeros(len(texts), np.uint64)

    def __len__(self) -> int:
        return len(self.texts)

    def lengths(self) -> np.ndarray:
        return self.texts.lengths()

    def blocks(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        for row, chunk in self.texts.blocks(BLOCK):
            block = self.shingling.hashed(chunk)
            self._fingerprints[row : row + len(chunk)] = block.fingerprints
            yield row, block.hashes, block.ends

    def members(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        block = self.shingling.hashed(self.texts.take(rows))
        return block.hashes, _distinct(block.hashes, block.ends)

    def fingerprints(self) -> np.ndarray:
        return self._fingerprints


def _distinct(hashes: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Sort each set in place and drop repeats; gives where each one ends."""
    bounds = np.empty_like(ends)
    kernels.distinct(hashes, ends, bounds)
    return bounds
