"""Bits of Bloom filters that were flipped at random (BLIP), as decoders see them.

Rows of bits, eight to a byte, unpacked only where they are looked at.
"""

from functools import cached_property
from typing import Any

import numpy as np

from sfumato.attack.channels.profile_size import SIGMAS, Sizes, release_sizes
from sfumato.core.tables import described
from sfumato.kernels.attack import belief_propagation as propagate
from sfumato.kernels.attack import gibbs_bloom as gibbs_bits

__all__ = ["BitChannel", "PackedRows"]


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


LEAST_FLIP = 1e-12  # certainty would let one bit forbid an item for good
DAMPING = 0.2  # of messages: enough to end the cycles of large profiles


class BitChannel:
    """Released Bloom filters and the bits that each candidate sets.

    Thesis 3.1 and 3.3.1.

    Parameters
    ----------
    bits : object
        Users x length, true where a bit is 1, or such rows packed (they stay so, but for those at
        hand).
    positions : object
        Items x hashes, the bits an item sets (those that coincide count once).
    flip : float
        The probability of each bit to be wrong, from 0 to 1/2.
    sizes : Sizes or None, default=None
        What is known of profile sizes, else read off the bits by (3.9) and (3.6).

    Examples
    --------
    >>> seen = BitChannel(np.eye(2, 4, dtype=bool), [[0, 0], [1, 2]], 0.1)
    >>> seen.users, seen.items, seen.single(slice(0, 1)).round(2)
    (2, 2, array([[ 1.28, -4.03]]))
    """

    def __init__(self, bits: Any, positions: Any, flip: float, sizes: Sizes | None = None) -> None:
        self._bits = bits if isinstance(bits, PackedRows) else PackedRows.of(bits)
        self.users, self._length = self._bits.shape
        self._starts, self._places = _distinct(np.asarray(positions, np.int32))
        self.items, self.flip = self._starts.size - 1, max(float(flip), LEAST_FLIP)
        self._given = sizes

    def __repr__(self) -> str:
        return described(
            self, users=self.users, items=self.items, bits=self._length, flip=self.flip
        )

    @classmethod
    def of_release(cls, released: Any, items: np.ndarray) -> "BitChannel":
        """The channel of a released BLIP to these items.

        Parameters
        ----------
        released : object
            TODO.
        items : ndarray
            TODO.

        Returns
        -------
        BitChannel
            The channel of a released BLIP to these items.
        """
        bits = PackedRows.of_words(released.words, released.bits)
        flip, positions = float(released.flip_probability), released.positions(items)
        return cls(bits, positions, flip, release_sizes(released))

    @cached_property
    def sizes(self) -> Sizes:
        """What the bits tell about how many items there are."""
        return self._given or self._occupancy()

    def _occupancy(self) -> Sizes:
        """(3.9) through (3.6), by the mean number of distinct bits an item sets."""
        if self.flip == 0.5:
            nothing = np.full(self.users, np.inf)
            return Sizes(np.full(self.users, np.nan), nothing, nothing)
        ones = self._bits.shares()
        error = np.sqrt(np.maximum(ones * (1 - ones), 1 / self._length) / self._length)
        missed = 1 - self._places.size / self.items / self._length

        def items(share: np.ndarray) -> np.ndarray:
            filled = (share - self.flip) / (1 - 2 * self.flip)
            return np.asarray(np.log(np.maximum(1 - filled, 0.5 / self._length)) / np.log(missed))

        told = items(ones)
        return Sizes(told, items(ones + error) - told, items(ones + SIGMAS * error))

    def single(self, rows: slice, sizes: np.ndarray | None = None) -> np.ndarray:
        """(3.27) to (3.29): each item against bits that are 1 as often as in the whole row.

        Parameters
        ----------
        rows : slice
            TODO.
        sizes : ndarray or None, default=None
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        bits = self._bits[rows]
        share = np.clip(bits.mean(axis=1, keepdims=True), self.flip, 1 - self.flip)
        hits = np.add.reduceat(bits[:, self._places], self._starts[:-1], axis=1, dtype=np.int32)
        misses = np.diff(self._starts) - hits
        right, wrong = np.log((1 - self.flip) / share), np.log(self.flip / (1 - share))
        return np.asarray(hits * right + misses * wrong)

    def messages(self, rows: slice) -> "_BitMessages":
        """Messages between the items and the bits of these users.

        Parameters
        ----------
        rows : slice
            TODO.

        Returns
        -------
        _BitMessages
            TODO.
        """
        return _BitMessages(self._starts, self._places, self._bits[rows], self.flip)

    def state(self, row: int, chosen: np.ndarray, inside: np.ndarray) -> "_BitState":
        """A changing profile of one user: of the chosen candidates, at first those `inside`.

        Parameters
        ----------
        row : int
            TODO.
        chosen : ndarray
            TODO.
        inside : ndarray
            TODO.

        Returns
        -------
        _BitState
            A changing profile of one user: of the chosen candidates, at first those `inside`.
        """
        starts, places = _part(self._starts, self._places, chosen)
        return _BitState(chosen, starts, places, self._bits[row], self.flip, inside)

    def debiased(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Rows, codewords and noise variance of a linear model: what the bits were, expected.

        Returns
        -------
        tuple
            TODO.
        """
        told = max(1 - 2 * self.flip, LEAST_FLIP)
        rows = self._bits[:].astype(np.float32)
        rows -= self.flip
        rows /= told
        codes = np.zeros((self.items, self._length), np.float32)
        codes[np.repeat(np.arange(self.items), np.diff(self._starts)), self._places] = 1
        return rows, codes, self.flip * (1 - self.flip) / told**2


class _BitMessages:
    def __init__(
        self, starts: np.ndarray, places: np.ndarray, bits: np.ndarray, flip: float
    ) -> None:
        self._code, self._bits, self._flip = (starts, places), bits, flip
        self._absent: np.ndarray | None = None

    def sweep(self, log_odds: np.ndarray) -> np.ndarray:
        odds, counts = np.exp(log_odds), np.diff(self._code[0])
        damping = DAMPING
        if self._absent is None:
            self._absent = np.repeat(1 / (1 + odds), counts, axis=1)
            damping = 0.0
        out = np.empty(odds.shape)
        propagate.bits(*self._code, self._bits, self._flip, odds, damping, self._absent, out)
        return out


class _BitState:
    every = 0

    def __init__(
        self,
        chosen: np.ndarray,
        starts: np.ndarray,
        places: np.ndarray,
        bits: np.ndarray,
        flip: float,
        inside: np.ndarray,
    ) -> None:
        self.order, length = chosen, bits.size
        answers = np.where(bits, 1, -1).astype(np.int32)
        cover = np.bincount(_part(starts, places, inside)[1], minlength=length).astype(np.int32)
        holders_from, holders = np.zeros(length + 1, np.int32), np.empty_like(places)
        mended = np.zeros(chosen.size, np.int32)
        gibbs_bits.index_bits(starts, places, answers, cover, holders_from, holders, mended)
        step, most = np.log((1 - flip) / flip), int(np.diff(starts).max())
        table = np.exp(step * np.arange(-most, most + 1))
        self._arrays = (
            *(starts, places, answers, holders_from, holders, cover, mended, table, float(step)),
        )

    def weigh(self, live: np.ndarray, weight: np.ndarray) -> None:
        mended, table = self._arrays[6], self._arrays[7]
        weight[: mended.size] = live[: mended.size] * table[table.size // 2 + mended]

    def walk(self, *arrays: Any) -> None:
        gibbs_bits.walk_bits(*self._arrays, *arrays)

    def climb(self, *arrays: Any) -> None:
        gibbs_bits.climb_bits(*self._arrays, *arrays)

    def refresh(self, inside: np.ndarray, draws: np.random.Generator | None) -> None:
        pass  # bits are what they are


def _distinct(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the bits of each item start, and the bits, each once."""
    ordered = np.sort(positions, axis=1)
    keep = np.ones(ordered.shape, bool)
    keep[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    starts = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    return starts.astype(np.int64), ordered[keep]


def _part(
    starts: np.ndarray, places: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The bits of some of the items."""
    counts = np.diff(starts)[chosen]
    ends = np.cumsum(counts)
    at = np.arange(counts.sum()) + np.repeat(starts[chosen] - (ends - counts), counts)
    return np.concatenate([[0], ends]).astype(np.int64), places[at]
