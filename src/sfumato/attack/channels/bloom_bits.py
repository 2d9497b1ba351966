"""Likelihood of Bloom filters whose bits were flipped at random (BLIP)."""

from functools import cached_property
from typing import Any

import numpy as np

from sfumato.attack.channels.profile_size import SIGMAS, Sizes, release_sizes
from sfumato.core.tables import described
from sfumato.kernels.attack import belief_propagation as propagate
from sfumato.kernels.attack import gibbs_bloom as gibbs_bits

__all__ = ["BitChannel", "PackedRows"]


class PackedRows:
    """A table of bits, packed eight to a byte and unpacked one slice at a time.

    Takes `packed`, rows x bytes with the lowest bit first, and `length`, the bits of a row; bits
    beyond it are 0.

    >>> rows = PackedRows.of([[True, False, True], [False, False, False]])
    >>> rows.shape, rows[0], rows.fractions().round(2)
    ((2, 3), array([ True, False,  True]), array([0.67, 0.  ]))
    """

    def __init__(self, packed: np.ndarray, length: int) -> None:
        self.shape: tuple[int, int]
        self._packed, self.shape = packed, (len(packed), length)

    @classmethod
    def of(cls, bits: Any) -> "PackedRows":
        """Pack rows of booleans."""
        bits = np.asarray(bits, bool)
        return cls(np.packbits(bits, axis=1, bitorder="little"), bits.shape[1])

    @classmethod
    def of_words(cls, words: np.ndarray, length: int) -> "PackedRows":
        """Wrap rows that are already packed into words; contiguous arrays are not copied."""
        return cls(np.ascontiguousarray(words).view(np.uint8), length)

    def __getitem__(self, rows: slice | int) -> np.ndarray:
        """Unpack one row, or a slice of rows, to booleans."""
        packed, length = self._packed[rows], self.shape[1]
        return np.unpackbits(packed, axis=-1, count=length, bitorder="little").view(bool)

    def fractions(self) -> np.ndarray:
        """Fraction of ones in each row."""
        return np.asarray(np.bitwise_count(self._packed).sum(axis=1) / self.shape[1])


LEAST_FLIP = 1e-12  # at 0, a single bit could rule an item out permanently
DAMPING = 0.2  # of messages: enough to stop oscillations on large profiles


class BitChannel:
    """Likelihood of released Bloom filters (BLIP) given the bits of each candidate item.

    Decoders build it from a `ReleasedBlip`. Build it yourself to attack arrays that are not a
    release of this library.

    Parameters
    ----------
    bits : array_like of bool, shape (n_users, n_bits), or PackedRows
        Released bits, unpacked or packed; packed rows are unpacked one block at a time.
    positions : array_like of int, shape (n_items, n_hashes)
        Indices of the bits that each item sets; duplicates within an item count once.
    flip : float
        Probability that a bit was flipped, from 0 to 1/2.
    sizes : Sizes or None, default=None
        Estimated profile sizes. If None, they are estimated from the bits: the fraction of ones is
        debiased (thesis, equation (3.9)), and the occupancy (equation (3.6)) is inverted.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, sections 3.1 (BLIP) and 3.3.1 (single decoder).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> observed = BitChannel(np.eye(2, 4, dtype=bool), [[0, 0], [1, 2]], 0.1)
    >>> observed.users, observed.items, observed.single(slice(0, 1)).round(2)
    (2, 2, array([[ 1.28, -4.03]]))
    """

    def __init__(self, bits: Any, positions: Any, flip: float, sizes: Sizes | None = None) -> None:
        self._bits = bits if isinstance(bits, PackedRows) else PackedRows.of(bits)
        self.users: int
        self.users, self._length = self._bits.shape
        self._starts, self._positions = _distinct(np.asarray(positions, np.int32))
        self.items: int
        self.flip: float
        self.items, self.flip = self._starts.size - 1, max(float(flip), LEAST_FLIP)
        self._given = sizes

    def __repr__(self) -> str:
        return described(
            self, users=self.users, items=self.items, bits=self._length, flip=self.flip
        )

    @classmethod
    def of_release(cls, released: Any, items: np.ndarray) -> "BitChannel":
        """Build the channel of a released BLIP for these candidates.

        Parameters
        ----------
        released : ReleasedBlip
            Released profiles.
        items : ndarray of shape (n_items,)
            Identifiers of the candidates.

        Returns
        -------
        BitChannel
            Users and items in the order given.
        """
        bits = PackedRows.of_words(released.words, released.bits)
        flip, positions = float(released.flip_probability), released.positions(items)
        return cls(bits, positions, flip, release_sizes(released))

    @cached_property
    def sizes(self) -> Sizes:
        """Profile sizes estimated from the bits, with standard errors and upper bounds."""
        return self._given or self._occupancy()

    def _occupancy(self) -> Sizes:
        """Debias the fraction of ones (3.9), then invert the occupancy (3.6)."""
        if self.flip == 0.5:
            nothing = np.full(self.users, np.inf)
            return Sizes(np.full(self.users, np.nan), nothing, nothing)
        ones = self._bits.fractions()
        error = np.sqrt(np.maximum(ones * (1 - ones), 1 / self._length) / self._length)
        missed = 1 - self._positions.size / self.items / self._length

        def items(fraction: np.ndarray) -> np.ndarray:
            filled = (fraction - self.flip) / (1 - 2 * self.flip)
            return np.asarray(np.log(np.maximum(1 - filled, 0.5 / self._length)) / np.log(missed))

        estimates = items(ones)
        return Sizes(estimates, items(ones + error) - estimates, items(ones + SIGMAS * error))

    def single(self, rows: slice, sizes: np.ndarray | None = None) -> np.ndarray:
        """Compute the log-likelihood ratio of each item by itself.

        Each bit of an item is compared with a bit that is 1 as often as in the user's entire row.

        Parameters
        ----------
        rows : slice
            Users to decode.
        sizes : ndarray or None, default=None
            Not used; part of the interface that all channels have.

        Returns
        -------
        ndarray of shape (n_rows, n_items)
            Log-likelihood ratios: the scores of the single decoder, (3.27) to (3.29).
        """
        bits = self._bits[rows]
        ones = np.clip(bits.mean(axis=1, keepdims=True), self.flip, 1 - self.flip)
        hits = np.add.reduceat(bits[:, self._positions], self._starts[:-1], axis=1, dtype=np.int32)
        misses = np.diff(self._starts) - hits
        hit, miss = np.log((1 - self.flip) / ones), np.log(self.flip / (1 - ones))
        return np.asarray(hits * hit + misses * miss)

    def messages(self, rows: slice) -> "_BitMessages":
        """Start belief propagation between the items and the bits of these users.

        Parameters
        ----------
        rows : slice
            Users to decode.

        Returns
        -------
        _BitMessages
            Message state, with a method `sweep`.
        """
        return _BitMessages(self._starts, self._positions, self._bits[rows], self.flip)

    def state(self, row: int, chosen: np.ndarray, inside: np.ndarray) -> "_BitState":
        """Start a profile of one user that a Gibbs sampler or a hill climber changes.

        Parameters
        ----------
        row : int
            Index of the user.
        chosen : ndarray of int
            Indices of the candidates that may be in the profile.
        inside : ndarray of int
            Positions in `chosen` of the items in the initial profile.

        Returns
        -------
        _BitState
            The profile with the likelihood gain of each candidate.
        """
        starts, positions = _part(self._starts, self._positions, chosen)
        return _BitState(chosen, starts, positions, self._bits[row], self.flip, inside)

    def debiased(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Convert the channel to a linear model with additive noise.

        Returns
        -------
        tuple of (ndarray, ndarray, float)
            Unbiased estimates of the bits before flipping, float32 of shape (n_users, n_bits); the
            codewords of the items, 0 or 1, float32 of shape (n_items, n_bits); and the variance of
            the noise of one bit.
        """
        gain = max(1 - 2 * self.flip, LEAST_FLIP)
        rows = self._bits[:].astype(np.float32)
        rows -= self.flip
        rows /= gain
        codes = np.zeros((self.items, self._length), np.float32)
        codes[np.repeat(np.arange(self.items), np.diff(self._starts)), self._positions] = 1
        return rows, codes, self.flip * (1 - self.flip) / gain**2


class _BitMessages:
    def __init__(
        self, starts: np.ndarray, positions: np.ndarray, bits: np.ndarray, flip: float
    ) -> None:
        self._code, self._bits, self._flip = (starts, positions), bits, flip
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
        positions: np.ndarray,
        bits: np.ndarray,
        flip: float,
        inside: np.ndarray,
    ) -> None:
        self.order: np.ndarray
        self.order, length = chosen, bits.size
        answers = np.where(bits, 1, -1).astype(np.int32)
        cover = np.bincount(_part(starts, positions, inside)[1], minlength=length).astype(np.int32)
        holders_from, holders = np.zeros(length + 1, np.int32), np.empty_like(positions)
        mended = np.zeros(chosen.size, np.int32)
        gibbs_bits.index_bits(starts, positions, answers, cover, holders_from, holders, mended)
        step, most = np.log((1 - flip) / flip), int(np.diff(starts).max())
        table = np.exp(step * np.arange(-most, most + 1))
        self._arrays = (
            *(starts, positions, answers, holders_from, holders, cover, mended, table, float(step)),
        )

    def weigh(self, live: np.ndarray, weight: np.ndarray) -> None:
        mended, table = self._arrays[6], self._arrays[7]
        weight[: mended.size] = live[: mended.size] * table[table.size // 2 + mended]

    def walk(self, *arrays: Any) -> None:
        gibbs_bits.walk_bits(*self._arrays, *arrays)

    def climb(self, *arrays: Any) -> None:
        gibbs_bits.climb_bits(*self._arrays, *arrays)

    def refresh(self, inside: np.ndarray, draws: np.random.Generator | None) -> None:
        pass  # the released bits are fixed


def _distinct(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the bits of each item start, and the distinct bits of all items in a row."""
    ordered = np.sort(positions, axis=1)
    keep = np.ones(ordered.shape, bool)
    keep[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    starts = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    return starts.astype(np.int64), ordered[keep]


def _part(
    starts: np.ndarray, positions: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Starts and bits of some of the items."""
    counts = np.diff(starts)[chosen]
    ends = np.cumsum(counts)
    at = np.arange(counts.sum()) + np.repeat(starts[chosen] - (ends - counts), counts)
    return np.concatenate([[0], ends]).astype(np.int64), positions[at]
