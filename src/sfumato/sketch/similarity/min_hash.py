"""MinHash: how alike two sets are, as the part of their union that they share, from signatures.

How many keys a set has, from the minima of their hashes.
"""

import math
from typing import Any, Self, Unpack

import numpy as np
from scipy.special import gammaincinv

from sfumato.core.typing import Column
from sfumato.core.validation import fraction, integer
from sfumato.kernels.hash import key_of
from sfumato.kernels.sketch import minhash as kernels
from sfumato.kernels.sketch import minhash as rows
from sfumato.kernels.sketch.minhash import EMPTY
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.release import ReleaseOptions, ReleaseRequest
from sfumato.sketch.similarity.packed_minima import WHOLE, PackedMinima, coefficients
from sfumato.sketch.similarity.released_min_hash import CODE_BITS, ReleasedMinHash, plan
from sfumato.sketch.similarity.token_sets import as_sets, runs

__all__ = ["MinHash", "evidence", "limits"]

RANGE = 2.0**32


def evidence(kind: str, minima: np.ndarray) -> tuple[int, float]:
    """Two numbers whose quotient estimates n; the second is 0 where the first is n itself."""
    events, exposure = _search(kind, minima)
    if exposure == 0 or kind == "one-permutation":
        return events, exposure
    # The last event ends the search, so it does not count: this makes the estimate unbiased.
    return integer(2).check("MinHash", "permutations to estimate a size from", events) - 1, exposure


def limits(kind: str, minima: np.ndarray, confidence: float) -> tuple[float, float]:
    """The lowest and highest n that agree with the minima."""
    events, exposure = _search(kind, minima)
    if exposure == 0:
        return float(events), float(events)
    miss = (1 - confidence) / 2
    # Where empty bins end the search instead of an event, one more event may have been about to.
    more = events + (kind == "one-permutation")
    low, high = gammaincinv(events, miss), gammaincinv(more, 1 - miss)
    return float(low / exposure), float(high / exposure)


def _search(kind: str, minima: np.ndarray) -> tuple[int, float]:
    full = minima != EMPTY
    events = int(np.count_nonzero(full))
    positions = (minima.astype(np.float64) + 0.5) / RANGE
    if events == 0 or (kind == "k-minimum" and events < minima.size):
        return events, 0.0
    if kind == "permutations":
        return events, float(-np.log1p(-positions).sum())
    if kind == "one-permutation":
        return events, float(np.where(full, positions, 1.0).mean())
    # Equal hashes are kept once, so that values lie thinner than keys: by log1p(-m) / -m.
    thin = min(minima.size / positions[-1] / RANGE, 1 - 1 / RANGE)
    return events, float(positions[-1] * thin / -np.log1p(-thin))


UNRELEASED = {
    "permutations": "one key may be the minimum of every permutation",
    "k-minimum": "one key may move all others by one place",
}
TWO_BITS = 2.0  # the epsilon of an answer from which two bits estimate better than one


class MinHash(PackedMinima):
    """The signature of a set of keys; two of them estimate the Jaccard similarity of the sets.

    Guarantee: the estimate is unbiased, and within error_bound(c) with probability c for each pair.
    It is about sets: keys have no weights, and repeats change nothing. Two empty sets have
    similarity 1, an empty and a full one 0 (signatures of few bits: 0 on average). Sets of n keys
    gain at most n / 2**33 from equal 32-bit hashes.
    Parameters: permutations, minima in a signature, 1 to 2**16; seed, of all hashes; kind, one of
    - "permutations", the minimum under each permutation: as accurate for small sets as for large;
    - "one-permutation", the minimum in each bin of one hash: several times faster; a set of fewer
      keys than bins leaves some empty. Signatures fill those from full ones (they are densified),
      sketches never do, so sketches merge and are compared without that loss. Densified signatures
      cannot be merged;
    - "k-minimum", the lowest of one hash: exact for unions of fewer keys than permutations;
    bits, 1 to 32, kept of each minimum in signatures and in bytes. Below 32, chance agreement is
    subtracted, so that an estimate may fall below 0; merge is refused; and a sketch read back from
    bytes or a pickle takes no more keys. "k-minimum" takes no fewer than 32.

    Parameters
    ----------
    permutations : int, default=128
        TODO.
    seed : int, default=0
        TODO.
    kind : str, default="permutations"
        TODO.
    bits : int, default=32
        TODO.

    References
    ----------
    .. [1] Broder 1997; bins: Li, Owen and Zhang 2012, densified as Shrivastava 2017; k-minimum:
       Beyer et al. 2007; bits: Li and Koenig 2011; error bound: Hoeffding 1963, Theorems 1 and 4.

    Examples
    --------
    >>> tea, milk = MinHash().update(range(1000)), MinHash().update(range(500, 1500))
    >>> bool(abs(tea.similarity(milk) - 1 / 3) < tea.error_bound(0.99))
    True
    """

    def __init__(
        self,
        permutations: int = 128,
        *,
        seed: int = 0,
        kind: str = "permutations",
        bits: int = WHOLE,
    ) -> None:
        self._set_parameters(permutations=permutations, seed=seed, kind=kind, bits=bits)
        self._allocate()

    @classmethod
    def from_error(
        cls,
        error: float,
        confidence: float = 0.99,
        *,
        seed: int = 0,
        kind: str = "permutations",
        bits: int = WHOLE,
    ) -> Self:
        """The shortest signature whose error bound is `error` (if no bin is empty).

        Parameters
        ----------
        error : float
            TODO.
        confidence : float, default=0.99
            TODO.
        seed : int, default=0
            TODO.
        kind : str, default="permutations"
            TODO.
        bits : int, default=32
            TODO.

        Returns
        -------
        Self
            The shortest signature whose error bound is `error` (if no bin is empty).
        """
        error = fraction.check("MinHash", "error", error)
        one = cls(1, seed=seed, kind="permutations", bits=bits)
        needed = math.ceil((one._half_width(confidence, 1) / error) ** 2)
        return cls(needed, seed=seed, kind=kind, bits=bits)

    def update(self, keys: Column) -> Self:
        """Put every key into the set.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        column = self._key_column(keys)
        if self.held == "bits":
            raise ValueError(
                f"MinHash: keys cannot be added, only {self.bits} bits of each minimum were kept "
                "in the bytes; update before saving."
            )
        self._note_keys(column)
        self._fold(column, np.array([0, column.size]), self._minima[np.newaxis])
        return self

    def similarity(self, other: Self) -> float:
        """The estimated Jaccard similarity of both sets: the part of their union that they share.

        Bins that are empty in both are left out, which is more accurate than densified signatures.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        float
            The estimated Jaccard similarity of both sets: the part of their union that they share.
        """
        self._check_same(other, "compare")
        if not self.keys or not other.keys:
            return float(self.keys == other.keys)
        mine, yours = self._values(), other._values()
        if self.kind == "k-minimum":
            return float(self.similarities(mine[np.newaxis], yours[np.newaxis])[0])
        full, theirs = mine != EMPTY, yours != EMPTY
        either, both, equal = (
            int(np.count_nonzero(each))
            for each in (full | theirs, full & theirs, full & (mine == yours))
        )
        # A set whose only hash is EMPTY has no full place at all.
        return (equal - self._chance * both) / (1 - self._chance) / max(either, 1)

    jaccard = similarity

    def signature(self) -> np.ndarray:
        """The minima, densified and cut to `bits`, as a row of `signatures`; all ones if empty.

        Returns
        -------
        ndarray
            The minima, densified and cut to `bits`, as a row of `signatures`; all ones if empty.
        """
        values = self._values()[np.newaxis].copy()
        if self.kind == "one-permutation":
            kernels.densify(values)
        return np.asarray(values[0] & np.uint32(2**self.bits - 1), self._dtype)

    def signatures(self, tokens: Any, offsets: Any = None) -> np.ndarray:
        """One signature a row for many sets; the sketch lends its parameters and is not changed.

        Parameters
        ----------
        tokens : object
            The keys of all sets one after the other.
        offsets : object, default=None
            Where each set starts and the last ends, from 0 to the number of tokens. Or tokens
            alone, a column of lists.

        Returns
        -------
        ndarray
            One signature a row for many sets; the sketch lends its parameters and is not changed.

        Examples
        --------
        >>> MinHash(4).signatures([1, 2, 3, 1, 2], [0, 3, 5]).shape
        (2, 4)
        """
        column, ends = as_sets("MinHash", tokens, offsets)
        minima = np.full((ends.size - 1, self.permutations), EMPTY, np.uint32)
        self._fold(column, ends, minima)
        if self.kind == "one-permutation":
            kernels.densify(minima)
        if self.bits == WHOLE:
            return minima
        out = np.empty(minima.shape, self._dtype)
        kernels.cut(minima, self.bits, out)
        return out

    def similarities(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The estimated similarity of row i of both signature matrices, for each i.

        Parameters
        ----------
        left : ndarray
            TODO.
        right : ndarray
            TODO.

        Returns
        -------
        ndarray
            The estimated similarity of row i of both signature matrices, for each i.
        """
        left, right = self._matrix("left", left), self._matrix("right", right)
        if len(left) != len(right):
            raise ValueError(f"MinHash: left has {len(left)} rows and right {len(right)}.")
        out = np.empty(len(left))
        (rows.shared_pairs if self.kind == "k-minimum" else rows.equal_pairs)(left, right, out)
        return (out - self._chance) / (1 - self._chance)

    def similarity_matrix(self, left: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
        """The estimated similarity of every row of left to every row of right, or of left.

        Parameters
        ----------
        left : ndarray
            TODO.
        right : ndarray or None, default=None
            TODO.

        Returns
        -------
        ndarray
            The estimated similarity of every row of left to every row of right, or of left.
        """
        left = self._matrix("left", left)
        right = left if right is None else self._matrix("right", right)
        out = np.empty((len(left), len(right)))
        (rows.shared_table if self.kind == "k-minimum" else rows.equal_table)(left, right, out)
        return (out - self._chance) / (1 - self._chance)

    def estimate_size(self) -> float:
        """The estimated number of different keys in the set.

        Returns
        -------
        float
            The estimated number of different keys in the set.
        """
        events, exposure = evidence(self.kind, self._whole_minima())
        return float(events / exposure) if exposure else float(events)

    def size_bounds(self, confidence: float = 0.99) -> tuple[float, float]:
        """Numbers of keys between which the true one lies, with this probability.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        tuple
            TODO.
        """
        confidence = fraction.check("MinHash", "confidence", confidence)
        return limits(self.kind, self._whole_minima(), confidence)

    def error_bound(self, confidence: float = 0.99) -> float:
        """How far a similarity to this sketch may be off, with this probability, for any sets.

        Each minimum is a draw from the union, with or without replacement. Bins that are empty here
        may be empty there, and do not count.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            How far a similarity to this sketch may be off, with this probability, for any sets.
        """
        drawn = self.permutations
        if self.kind == "one-permutation":
            drawn = int(np.count_nonzero(self._values() != EMPTY))
        return min(1.0, self._half_width(confidence, max(drawn, 1)))

    def release(
        self,
        epsilon: float | Privacy | None = None,
        delta: float = 0.0,
        *,
        bits: int | None = None,
        **options: Unpack[ReleaseOptions],
    ) -> ReleasedMinHash:
        """A private copy: a few bits of each bin's minimum, or "empty", answered at random.

        epsilon above 0;

        Parameters
        ----------
        epsilon : float, Privacy or None, default=None
            TODO.
        delta : float, default=0.0
            Which is not spent; bits kept of a minimum, 1 to 7, by default 1 where a bin is told at
            an epsilon below 2 and else 2, which was measured to estimate best.
        bits : int or None, default=None
            TODO.
        **options : dict
            Ledger and dataset, unit, relation, contributions, release_id (docs/privacy.md).

        Returns
        -------
        ReleasedMinHash
            A private copy: a few bits of each bin's minimum, or "empty", answered at random.

        Notes
        -----
        **Guarantee.** Epsilon-private for one unit, with a public seed; one-permutation sketches
        only. A key that is added or removed changes at most the minimum of its own bin, an
        exchanged key two. Signatures are densified, so that one key may be in many places: release
        sketches.

        References
        ----------
        .. [1] Li and Li 2023 divide epsilon among the bins that densification fills from one; here
           none is filled, and no epsilon divided.

        Examples
        --------
        >>> seen = MinHash(64, kind="one-permutation").update(range(100))
        >>> seen.release(epsilon=1).bits
        1
        """
        if self.kind in UNRELEASED:
            raise ValueError(
                f"MinHash: cannot be released, kind is {self.kind!r} and {UNRELEASED[self.kind]}; "
                "use kind='one-permutation'."
            )
        request = ReleaseRequest.of("MinHash", epsilon, delta, options)
        cells = min(request.events, self.permutations)  # bins that one unit changes, at most
        if bits is None:
            bits = min(1 if request.epsilon / cells < TWO_BITS else 2, self.bits)
        bits = CODE_BITS.check("MinHash", "bits", bits)
        return plan(self._codes(bits), bits, self.seed, request, cells).publish(request)

    def _codes(self, bits: int) -> np.ndarray:
        """So many bits of each minimum, 2**bits where there is none."""
        values = self._values()
        cut = values.copy()
        if self.bits == WHOLE:
            kernels.cut(values[np.newaxis], bits, cut[np.newaxis])
        elif bits > self.bits:
            raise ValueError(f"MinHash: bits must be at most the {self.bits} it keeps, not {bits}.")
        return np.where(values == EMPTY, 2**bits, cut & np.uint32(2**bits - 1)).astype(np.uint8)

    def _half_width(self, confidence: float, drawn: int) -> float:
        miss = 1 - fraction.check("MinHash", "confidence", confidence)
        return math.sqrt(math.log(2 / miss) / (2 * drawn)) / (1 - self._chance)

    def _fold(self, column: Any, offsets: np.ndarray, out: np.ndarray) -> None:
        key = key_of(self.seed)
        for start, values, form in runs(column, self.seed):
            first = int(np.searchsorted(offsets, start, "right")) - 1
            last = int(np.searchsorted(offsets, start + values.size))
            bounds = np.clip(offsets[first : last + 1] - start, 0, values.size)
            part = key, form, bounds
            if self.kind == "permutations":
                kernels.permute(values, *part, *coefficients(self.permutations), out[first:last])
            elif self.kind == "one-permutation":
                kernels.bin_minima(values, *part, out[first:last])
            else:
                kernels.keep_lowest(values, *part, out[first:last])

    def _matrix(self, name: str, given: Any) -> np.ndarray:
        matrix: np.ndarray = np.ascontiguousarray(given)
        fits = matrix.ndim == 2 and matrix.shape[1] == self.permutations
        if not fits or matrix.dtype != self._dtype:
            raise ValueError(
                f"MinHash: {name} must be signatures, {np.dtype(self._dtype)} in "
                f"{self.permutations} columns, not {matrix.dtype} of shape {matrix.shape}."
            )
        return matrix
