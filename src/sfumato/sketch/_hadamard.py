"""The fast Johnson-Lindenstrauss map: random signs, Walsh-Hadamard transform, sampled entries."""

import numpy as np

from sfumato.hashing import KeyColumn, hash_column
from sfumato.kernels import codebooks, hadamard
from sfumato.kernels.codebooks import PANEL
from sfumato.sketch._directions import panel_count

__all__ = ["FastMap", "padded_length", "positions"]

NUMBERS = 2**20  # transformed at a time: 8 MiB
SHORTEST = 8  # the kernel's first step takes eight numbers


def padded_length(dimension: int) -> int:
    """The power of two that the transform works on."""
    return max(SHORTEST, 1 << (dimension - 1).bit_length())


class FastMap:
    """The map of vectors of one dimension to `count` numbers, unscaled, from a seed.

    Sampling all of them keeps norms exactly, but for the factor sqrt(count).
    """

    def __init__(self, dimension: int, count: int, seed: int) -> None:
        length = padded_length(dimension)
        hashes = hash_column(range(length), seed)
        self.length, self.count = length, count
        self.flips = 1.0 - 2.0 * (hashes >> np.uint64(63)).astype(np.float64)[:dimension]
        # The order of other bits of the hash is a random one, whatever the signs.
        order = np.argsort(hashes << np.uint64(1), kind="stable")
        self.sample = np.sort(order[:count])

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """The sampled entries of the transform of every row."""
        out = np.empty((len(rows), self.count))
        step = max(1, NUMBERS // self.length)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            padded = np.zeros((len(part), self.length))
            np.multiply(part, self.flips, out=padded[:, : self.flips.size])
            hadamard.transform(padded)
            out[start : start + step] = padded[:, self.sample]
        return out

    def entries(self, coordinates: np.ndarray, out: np.ndarray) -> None:
        """What each coordinate contributes to the sampled entries, in panels."""
        sample = np.zeros(PANEL * panel_count(self.count), np.uint64)
        sample[: self.count] = self.sample
        flips = self.flips[coordinates.astype(np.int64)]
        codebooks.walsh(coordinates, flips, sample, out)


def positions(owner: str, column: KeyColumn, dimension: int) -> np.ndarray:
    """Keys that are coordinates from 0 to dimension - 1, as they are."""
    if column.kind == "text" or any(piece.missing is not None for piece in column.pieces):
        raise TypeError(f"{owner}: keys must be coordinates for kind 'hadamard', whole numbers.")
    pieces = [_plain(piece.values) for piece in column.pieces]
    keys = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    outside = (keys < 0) | (keys >= dimension)
    if outside.any():
        raise ValueError(
            f"{owner}: keys must be coordinates from 0 to {dimension - 1} for kind 'hadamard'; row "
            f"{int(outside.argmax())} is not."
        )
    return keys.astype(np.uint64)


def _plain(values: np.ndarray) -> np.ndarray:
    if isinstance(values, np.ndarray):
        return values
    return np.asarray(values.dictionary_decode())
