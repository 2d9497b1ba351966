"""MinHash: Jaccard similarities and sizes of sets from the minima of hashes."""

import math
from functools import lru_cache
from typing import Any, Self, Unpack

import numpy as np
import scipy

from sfumato.core.typing import Column
from sfumato.core.validation import fraction, integer
from sfumato.kernels.seed_keys import key_of
from sfumato.kernels.sketch import minhash as kernels
from sfumato.kernels.sketch import minhash as rows
from sfumato.kernels.sketch.layout import EMPTY, ROWS
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.release import ReleaseOptions, ReleaseRequest
from sfumato.sketch.similarity.packed_minima import FULL_BITS, PackedMinima, coefficients
from sfumato.sketch.similarity.released_min_hash import CODE_BITS, ReleasedMinHash, calibrated
from sfumato.sketch.similarity.token_sets import as_sets, runs

__all__ = ["MinHash", "evidence", "limits", "visits"]

RANGE = 2.0**32


MOST_VISITED = 512  # bins up to which their visits are tabulated, in 1 MiB


@lru_cache(maxsize=4)
def visits(bins: int) -> np.ndarray:
    """The table that `densify` fills empty bins by: a function of their number, and never changed.

    It is empty where it would not fit the cache of a core.
    """
    width = -(-bins // ROWS) * ROWS if bins <= MOST_VISITED else 0
    out = np.empty((bins if width else 0, width), np.uint32)
    if width:
        kernels.first_visits(bins, out)
    return out


def evidence(kind: str, minima: np.ndarray) -> tuple[int, float]:
    """Two numbers whose quotient estimates n; the second is 0 if the first is exactly n."""
    events, exposure = _search(kind, minima)
    if exposure == 0 or kind == "one-permutation":
        return events, exposure
    # The last event ends the search, so it does not count: this makes the estimate unbiased.
    return integer(2).check("MinHash", "permutations to estimate a size from", events) - 1, exposure


def limits(kind: str, minima: np.ndarray, confidence: float) -> tuple[float, float]:
    """Confidence limits of n from the minima."""

    events, exposure = _search(kind, minima)
    if exposure == 0:
        return float(events), float(events)
    miss = (1 - confidence) / 2
    # If empty bins end the search and not an event, one more event may have been imminent.
    more = events + (kind == "one-permutation")
    low, high = scipy.special.gammaincinv(events, miss), scipy.special.gammaincinv(more, 1 - miss)
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
    # Equal hashes are stored once, so values are sparser than keys: by log1p(-m) / -m.
    thin = min(minima.size / positions[-1] / RANGE, 1 - 1 / RANGE)
    return events, float(positions[-1] * thin / -np.log1p(-thin))


UNRELEASED = {
    "permutations": "one key may be the minimum of every permutation",
    "k-minimum": "one key may shift all others by one position",
}
TWO_BITS = 2.0  # epsilon per response from which two bits estimate better than one


class MinHash(PackedMinima):
    """Set of keys as a short signature, for Jaccard similarities and set sizes.

    A sketch is one set; `signatures` makes those of many sets at once. Keys have no weights, and
    repeated keys change nothing. Merges exactly, to the union, if `bits` is 32.

    Parameters
    ----------
    permutations : int, default=128
        Number of minima, from 1 to 2**16. The error is proportional to its inverse square root.
    seed : int, default=0
        Seed of the hash functions. Sketches merge and compare only if their seeds are equal.
    kind : {"permutations", "one-permutation", "k-minimum"}, default="permutations"
        Kind of the signature.

        - "permutations": the minimum under each permutation. As accurate for small sets as for
          large ones.
        - "one-permutation": the minimum in each bin of one hash. Faster for sets of several times
          as many keys as bins, slower for small ones. A set of fewer keys than bins leaves bins
          empty. Signatures copy values into those (densification), and cannot be merged; sketches
          do not, so they merge and compare without that loss.
        - "k-minimum": the lowest values of one hash. Exact for unions of fewer keys than
          `permutations`.
    bits : int, default=32
        Bits of each minimum in signatures and in bytes, from 1 to 32; "k-minimum" needs 32. Below
        32, the expected number of accidental matches is subtracted, so estimates may be negative;
        the sketch cannot merge, and takes no more keys once it is read back from bytes or a pickle.

    Attributes
    ----------
    held : str
        "minima", or "bits" in a sketch that was read back with fewer than 32 bits.

    Notes
    -----
    **Guarantee.** The estimated similarity is unbiased, and its error is at most ``error_bound(c)``
    with probability at least c for each pair of sets.

    Two empty sets have similarity 1, an empty and a non-empty one 0 (0 on average for signatures
    of few bits). Equal 32-bit hashes raise the similarity of sets of n keys by at most n / 2**33.

    References
    ----------
    .. [1] Broder. "On the resemblance and containment of documents". SEQUENCES 1997.
       https://doi.org/10.1109/SEQUEN.1997.666900
    .. [2] Li, Owen, Zhang. "One Permutation Hashing". NIPS 2012. https://arxiv.org/abs/1208.1259
    .. [3] Shrivastava. "Optimal Densification for Fast and Accurate Minwise Hashing". ICML 2017.
       https://arxiv.org/abs/1703.04664
    .. [4] Beyer, Haas, Reinwald, Sismanis, Gemulla. "On Synopses for Distinct-Value Estimation
       Under Multiset Operations". SIGMOD 2007 (kind "k-minimum").
    .. [5] Li, König. "Theory and Applications of b-Bit Minwise Hashing". CACM 2011.
    .. [6] Hoeffding. "Probability Inequalities for Sums of Bounded Random Variables". JASA 1963,
       Theorems 1 and 4 (sampling with and without replacement; the error bound).

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
        bits: int = FULL_BITS,
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
        bits: int = FULL_BITS,
    ) -> Self:
        """Build the sketch of shortest signature with a given error bound.

        Parameters
        ----------
        error : float
            Bound on the error of a similarity, between 0 and 1.
        confidence : float, default=0.99
            Probability with which the bound holds for each pair, between 0 and 1.
        seed : int, default=0
            Seed of the hash functions.
        kind : {"permutations", "one-permutation", "k-minimum"}, default="permutations"
            Kind of the signature, as in `MinHash`.
        bits : int, default=32
            Bits of each minimum, from 1 to 32.

        Returns
        -------
        Self
            An empty sketch that has this error bound if no bin is empty.
        """
        error = fraction.check("MinHash", "error", error)
        one = cls(1, seed=seed, kind="permutations", bits=bits)
        needed = math.ceil((one._half_width(confidence, 1) / error) ** 2)
        return cls(needed, seed=seed, kind=kind, bits=bits)

    def update(self, keys: Column) -> Self:
        """Add keys to the set.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys of any types; 7, "7" and 7.0 are the same key, and all missing values are one key.

        Returns
        -------
        Self
            The sketch itself.

        Raises
        ------
        ValueError
            The sketch was read back from bytes that have fewer than 32 bits of each minimum.
        """
        column = self._key_column(keys)
        if self.held == "bits":
            raise ValueError(
                f"MinHash: keys cannot be added, only {self.bits} bits of each minimum were stored "
                "in the bytes; update before saving."
            )
        self._note_keys(column)
        self._fold(column, np.array([0, column.size]), self._minima[np.newaxis])
        return self

    def similarity(self, other: Self) -> float:
        """Estimate the Jaccard similarity to another set.

        Parameters
        ----------
        other : Self
            Sketch of the same parameters, the seed included.

        Returns
        -------
        float
            Estimated size of the intersection over that of the union; 1 if both sets are empty, 0
            if one is. Below 32 bits it is corrected for accidental matches and may be negative.
            Bins that are empty in both sketches are excluded, which is more accurate than comparing
            densified signatures.
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
        # A set whose only hash is EMPTY has no full bin at all.
        return (equal - self._match * both) / (1 - self._match) / max(either, 1)

    jaccard = similarity

    def signature(self) -> np.ndarray:
        """Return the signature of the set, as a row of `signatures`.

        Returns
        -------
        ndarray of shape (permutations,)
            The minima, densified and truncated to `bits`, as uint8, uint16 or uint32; all bits are
            1 for an empty set.
        """
        values = self._values()[np.newaxis].copy()
        if self.kind == "one-permutation":
            kernels.densify(visits(self.permutations), values)
        return np.asarray(values[0] & np.uint32(2**self.bits - 1), self._dtype)

    def signatures(self, tokens: Any, offsets: Any = None) -> np.ndarray:
        """Compute the signatures of many sets; only the parameters of the sketch are used.

        Parameters
        ----------
        tokens : array_like
            Keys of all sets, concatenated; or, without `offsets`, a column of lists of keys.
        offsets : array_like of shape (n + 1,) or None, default=None
            Integers from 0 to the number of tokens that do not decrease: set i has the tokens
            offsets[i] to offsets[i + 1].

        Returns
        -------
        ndarray of shape (n, permutations)
            One signature per row, as uint8, uint16 or uint32.

        Examples
        --------
        >>> MinHash(4).signatures([1, 2, 3, 1, 2], [0, 3, 5]).shape
        (2, 4)
        """
        column, ends = as_sets("MinHash", tokens, offsets)
        minima = np.full((ends.size - 1, self.permutations), EMPTY, np.uint32)
        self._fold(column, ends, minima)
        if self.kind == "one-permutation":
            kernels.densify(visits(self.permutations), minima)
        if self.bits == FULL_BITS:
            return minima
        out = np.empty(minima.shape, self._dtype)
        kernels.cut(minima, self.bits, out)
        return out

    def similarities(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Estimate the Jaccard similarities of corresponding rows of signatures.

        Parameters
        ----------
        left : ndarray of shape (n, permutations)
            Signatures by `signatures` of a sketch of these parameters.
        right : ndarray of shape (n, permutations)
            As many signatures.

        Returns
        -------
        ndarray of shape (n,)
            Estimated similarity of row i of `left` and row i of `right`. Below 32 bits it is
            corrected for accidental matches and may be negative.
        """
        left, right = self._matrix("left", left), self._matrix("right", right)
        if len(left) != len(right):
            raise ValueError(f"MinHash: left has {len(left)} rows and right {len(right)}.")
        out = np.empty(len(left))
        (rows.shared_pairs if self.kind == "k-minimum" else rows.equal_pairs)(left, right, out)
        return (out - self._match) / (1 - self._match)

    def similarity_matrix(self, left: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
        """Estimate the Jaccard similarities of all pairs of signatures.

        Parameters
        ----------
        left : ndarray of shape (n, permutations)
            Signatures by `signatures` of a sketch of these parameters.
        right : ndarray of shape (m, permutations) or None, default=None
            Other signatures; None compares `left` with itself.

        Returns
        -------
        ndarray of shape (n, m)
            Estimated similarity of every row of `left` and every row of `right`. Below 32 bits it
            is corrected for accidental matches and may be negative.
        """
        left = self._matrix("left", left)
        right = left if right is None else self._matrix("right", right)
        out = np.empty((len(left), len(right)))
        (rows.shared_table if self.kind == "k-minimum" else rows.equal_table)(left, right, out)
        return (out - self._match) / (1 - self._match)

    def estimate_size(self) -> float:
        """Estimate the number of distinct keys in the set.

        Returns
        -------
        float
            Estimated number; it needs all 32 bits of the minima.
        """
        events, exposure = evidence(self.kind, self._full_minima())
        return float(events / exposure) if exposure else float(events)

    def size_bounds(self, confidence: float = 0.99) -> tuple[float, float]:
        """Compute confidence limits of the number of distinct keys.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the interval contains the true number, between 0 and 1.

        Returns
        -------
        tuple
            Lower and upper limit.
        """
        confidence = fraction.check("MinHash", "confidence", confidence)
        return limits(self.kind, self._full_minima(), confidence)

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of a similarity to this sketch.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for each pair of sets, between 0 and 1.

        Returns
        -------
        float
            Bound on the absolute error, at most 1.

        Notes
        -----
        By Hoeffding's inequality: each minimum is a sample from the union, with or without
        replacement. Bins that are empty here may be empty in the other set, and do not count.
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
        """Release a differentially private copy by randomized response on every bin.

        Only kind "one-permutation" can be released.

        Parameters
        ----------
        epsilon : float, Privacy or None, default=None
            Privacy loss of the release, above 0. A `sfumato.privacy.Privacy` here, or as the
            option `privacy`, replaces `epsilon`, `delta` and the options except `source`.
        delta : float, default=0.0
            Accepted as in other releases, from 0 to below 1; none of it is spent.
        bits : int or None, default=None
            Bits of each minimum in the release, from 1 to 7. None takes 1 if epsilon per response
            is below 2, else 2, which estimated best in measurements.
        **options : dict
            `ledger`, `dataset`, `unit`, `relation`, `contributions`, `release_id`, `privacy` and
            `source`, as in `CountMin.release`.

        Returns
        -------
        ReleasedMinHash
            The released copy: for each bin some bits of its minimum, or "empty".

        Notes
        -----
        **Guarantee.** Epsilon-differentially private for one unit, with a public seed. Adding or
        removing a key changes at most the minimum of its own bin; replacing a key changes two.

        Signatures must not be released: they are densified, so one key may be in many bins. Other
        work [1]_ divides epsilon among the bins that densification fills from one; here no bin is
        filled, and epsilon is not divided.

        References
        ----------
        .. [1] Li, Li. "Differentially Private One Permutation Hashing and Bin-wise Consistent
           Weighted Sampling". 2023. https://arxiv.org/abs/2306.07674

        Examples
        --------
        >>> items = MinHash(64, kind="one-permutation").update(range(100))
        >>> items.release(epsilon=1).bits
        1
        """
        if self.kind in UNRELEASED:
            raise ValueError(
                f"MinHash: cannot be released, kind is {self.kind!r} and {UNRELEASED[self.kind]}; "
                "use kind='one-permutation'."
            )
        request = ReleaseRequest.of("MinHash", epsilon, delta, options)
        cells = min(request.events, self.permutations)  # bins that one unit may change
        if bits is None:
            bits = min(1 if request.epsilon / cells < TWO_BITS else 2, self.bits)
        bits = CODE_BITS.check("MinHash", "bits", bits)
        return calibrated(self._codes(bits), bits, self.seed, request, cells).publish(request)

    def _codes(self, bits: int) -> np.ndarray:
        """The given number of bits of each minimum; 2**bits for an empty bin."""
        values = self._values()
        cut = values.copy()
        if self.bits == FULL_BITS:
            kernels.cut(values[np.newaxis], bits, cut[np.newaxis])
        elif bits > self.bits:
            raise ValueError(f"MinHash: bits must be at most the {self.bits} it has, not {bits}.")
        return np.where(values == EMPTY, 2**bits, cut & np.uint32(2**bits - 1)).astype(np.uint8)

    def _half_width(self, confidence: float, drawn: int) -> float:
        miss = 1 - fraction.check("MinHash", "confidence", confidence)
        return math.sqrt(math.log(2 / miss) / (2 * drawn)) / (1 - self._match)

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
