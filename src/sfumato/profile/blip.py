"""BLIP: profiles as Bloom filters whose bits are flipped with a known probability."""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, between, fraction, integer
from sfumato.kernels import profile_sets as filters
from sfumato.kernels.alignment import aligned
from sfumato.privacy.accounting.losses import Flips
from sfumato.privacy.mechanisms.randomized_response import GRID
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import ReleaseRequest
from sfumato.privacy.statement import PrivacyStatement
from sfumato.profile import bloom_occupancy as occupancy
from sfumato.profile.blip_estimation import (
    SURE,
    AlignedFilterPairs,
    FilterPairs,
    FilterRanks,
    Filters,
    bounds,
    size_variance,
)
from sfumato.profile.item_sets import ProfileSets
from sfumato.profile.mechanism import ProfileMechanism, ProfilePlan, Progress, advance
from sfumato.profile.released import LEFT, ReleasedProfiles
from sfumato.sketch.response_release import answers_of, bits_answered

__all__ = ["BITS", "HASHES", "Blip", "ReleasedBlip", "width"]

BITS, HASHES = integer(8, 2**26), integer(1, 64)
LINE = 8  # words of a cache line
PAIRS, LEAST = 1 << 16, 1 << 10  # pairs compared at a time, and the fewest rows: they fit a cache
ABREAST = 64  # queries per pass over all rows
NOISY = 1.0  # variance of a bit, as of about epsilon 1 for each hash
FULL = 0.99  # share of ones above which filters rank alike


class ReleasedBlip(ReleasedProfiles):
    """Released Bloom filters of profiles, every bit flipped with a known probability.

    Made by `Blip.release`, not by hand. Estimates sizes, common items, similarities, neighbours and
    memberships from the released bits alone.

    Notes
    -----
    **Guarantee.** Epsilon-differentially private with a public seed; `statement` names the unit,
    the relation and the epsilon. Every estimate is post-processing of the released bits, at no
    further privacy cost.

    Estimates are debiased, and their variances include the flips and the hash collisions. Sizes
    follow from the fraction of ones, corrected for the flips by (3.9) and for collisions by (3.6);
    they are finite in a full filter. The fraction of ones is approximated as normal in
    `size_bounds`, whose upper bound is infinite where more items would not fill the filter further.

    A membership compares the fraction of the item's own bits that are set with that of all other
    bits. It is unbiased except for the division by the fraction of other bits that are not set, and
    NaN where that fraction is less than 1.96 standard errors above 0, as in a full filter.

    With the ranking "pairs", `nearest` and `nearest_rows` rank by similarities that are shrunk
    towards 0 according to their noise, because otherwise small profiles, which noise alters most,
    would rank first. At epsilon 0 all estimates are NaN.

    `words` contains one filter per row: 64 bits per word, lowest first, padded with zeros to
    complete cache lines.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.1, equations (3.3)-(3.4) (BLIP and its flip probability),
       (3.5)-(3.8) (fill of a filter) and (3.9) (debiasing). https://theses.hal.science/tel-01430156
    .. [2] Alaggan, Gambs, Kermarrec. "BLIP: Non-interactive Differentially-Private Similarity
       Computation on Bloom Filters". SSS 2012.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.privacy.noise import InsecureSeededSource  # for tests only
    >>> from sfumato.profile import Blip
    >>> users, items = [1] * 200 + [2] * 200, [*range(200), *range(100, 300)]
    >>> interactions = Interactions(users, items, [1] * 400)
    >>> source = InsecureSeededSource(1)
    >>> released = Blip(epsilon=60).release(interactions, users=[1, 2], source=source)
    >>> released.estimate_size().round(), released.similarity(metric="inner").round()[0]
    (array([200., 196.]), array([200., 104.]))
    """

    bits: Annotated[int, BITS]
    hashes: Annotated[int, HASHES]
    epsilon: Annotated[float, between(0, math.inf)]
    words: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _of = "Blip"
    _of_sizes = ("cosine", "jaccard", "inner")

    @property
    def flip_probability(self) -> Fraction:
        """Probability that a released bit differs from the true one."""
        return answers_of(self.statement).probability if self.epsilon else Fraction(1, 2)

    def positions(self, items: Ids) -> np.ndarray:
        """Compute the positions of the bits that each item sets.

        Parameters
        ----------
        items : array_like or scalar
            Item ids, integers or text, in a profile or not.

        Returns
        -------
        ndarray of shape (n_items, hashes)
            Positions from 0 to ``bits - 1``, uint32. Positions of one item may coincide.
        """
        hashed = self._hashed(items)
        out = np.empty((hashed.size, self.hashes), np.uint32)
        filters.positions(hashed, self.bits, out)
        return out

    def bit_shares(self, items: Ids, prior: Any) -> np.ndarray:
        """Compute the prior probability of each bit to be set, from the popularity of items.

        This is before the flips, with items modelled as independent.

        Parameters
        ----------
        items : array_like or scalar
            Item ids.
        prior : array_like of shape (n_items,)
            Probability of each item to be in a profile, from 0 to 1.

        Returns
        -------
        ndarray of shape (bits,)
            Probability of each bit to be set in a random profile.

        References
        ----------
        .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques".
           PhD thesis, Rennes 2016, section 3.1.3 (bits of unequal probability).
           https://theses.hal.science/tel-01430156
        """
        return occupancy.bit_shares(prior, self.positions(items), self.bits)

    def estimate_size(self) -> np.ndarray:
        return np.asarray(np.maximum(self._filters.sizes, 0.0))

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        return bounds(self._filters, confidence, type(self).__name__)

    def memberships(self, items: Ids, rows: Any = None) -> np.ndarray:
        checked, (positions, counts) = (
            self._checked_rows(rows),
            occupancy.distinct(self.positions(items)),
        )
        hits = np.empty((checked.size, counts.size), np.int64)
        filters.found(self.words, checked, positions, counts, hits)
        flip, others = self._filters.flip, self.bits - counts
        own = 1 - occupancy.true_share(hits / counts, flip)
        with np.errstate(divide="ignore", invalid="ignore"):  # where an item sets all bits
            set_by_others = (self._filters.ones[checked, np.newaxis] - hits) / others
            unset = 1 - occupancy.true_share(set_by_others, flip)
            error = np.sqrt((self._filters.noise + np.maximum(unset, 0.0)) / others)
            return np.where(unset > SURE * error, 1 - own / unset, np.nan)

    def _loss(self, items: int) -> float:
        """Epsilon of the min(items hashes, bits) bits that these items set."""
        if not self.epsilon:
            return 0.0
        return Flips(self.flip_probability, min(items * self.hashes, self.bits)).epsilon

    @cached_property
    def _filters(self) -> Filters:
        """Counts of all rows that sizes and comparisons need, computed once."""
        ones = np.empty(len(self.words), np.int64)
        filters.ones(self.words, ones)
        return Filters.of(self.bits, self.hashes, float(self.flip_probability), ones)

    @cached_property
    def _ranks(self) -> FilterRanks:
        """What queries are ranked by, computed once."""
        return FilterRanks.of(self._filters)

    def _pairs(
        self, rows: np.ndarray, other: "ReleasedBlip"
    ) -> Iterator[tuple[slice, slice, FilterPairs]]:
        """Pair these rows with all of the other's, in blocks that fit a cache."""
        for start in range(0, rows.size, ABREAST):
            mine = slice(start, min(start + ABREAST, rows.size))
            here, queries = self._filters.rows(rows[mine]), self.words[rows[mine]]
            step = max(PAIRS // len(queries), LEAST)
            for first in range(0, len(other), step):
                yours = slice(first, min(first + step, len(other)))
                both = np.empty((len(queries), yours.stop - first), np.int32)
                filters.common(other.words[yours], queries, both)
                yield mine, yours, FilterPairs(here, other._filters.rows(yours), both)

    def _similarity(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        return self._blocks(rows, other, lambda pairs: pairs.estimate(metric))

    def _variance(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        return self._blocks(rows, other, lambda pairs: pairs.variance(metric))

    def _size_variance(self) -> np.ndarray:
        return size_variance(self.estimate_size(), self.bits, self.hashes, self._filters.flip)

    def _blocks(self, rows: np.ndarray, other: Any, evaluate: Any) -> np.ndarray:
        out = np.empty((rows.size, len(other)))
        for mine, yours, pairs in self._pairs(rows, other):
            out[mine, yours] = evaluate(pairs)
        return out

    def _rank_by_pairs(
        self, rows: np.ndarray, own: np.ndarray, there: Any, metric: str, found: np.ndarray
    ) -> None:
        """Rank by similarities that are shrunk towards 0."""
        best = np.full(found.shape, -np.inf)
        for start in range(0, rows.size, ABREAST):
            part = slice(start, start + ABREAST)
            mine, shared = there._ranks.queries(self._filters.rows(rows[part]), metric)
            kinds, queries = there._ranks.kinds, self.words[rows[part]]
            scratch = np.empty(4, np.int64), np.zeros((len(queries), kinds.shape[1]), np.int64)
            filters.nearest(
                there.words, there._ranks.codes, queries, mine, kinds, shared,
                own[part], *scratch, found[part], best[part],
            )  # fmt: skip

    def _aligned(self, rows: np.ndarray, others: np.ndarray, there: Any, metric: str) -> np.ndarray:
        both = np.bitwise_count(self.words[rows] & there.words[others]).sum(axis=1, dtype=np.int64)
        pairs = AlignedFilterPairs(self._filters.rows(rows), there._filters.rows(others), both)
        return pairs.estimate(metric)

    @property
    def _suits_population(self) -> bool:
        """Several bits of an item are not independent, which matters where noise is little."""
        return self.hashes == 1 or self._filters.noise > NOISY

    @property
    def _entries(self) -> int:
        return self.bits

    @property
    def _cells_of_collisions(self) -> float:
        return float(self.bits)

    @property
    def _vector_noise(self) -> np.ndarray:
        return np.full(self.bits, self._filters.noise)

    def _noisy_vectors(self, rows: np.ndarray) -> np.ndarray:
        """Debiased bits relative to their mean: different items share bits by chance."""
        packed = np.ascontiguousarray(self.words[rows]).view(np.uint8)
        ones = np.unpackbits(packed, axis=1, bitorder="little", count=self.bits)
        share = self._filters.ones[rows, np.newaxis] / np.float32(self.bits)
        return np.asarray((ones - share) / np.float32(1 - 2 * self.flip_probability), np.float32)

    def _noisy_sizes(self, rows: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, float]:
        """Bits set before the flips, whose noise the mean of the bits contains."""
        shares = occupancy.true_share(self._filters.ones[rows] / self.bits, self._filters.flip)
        return self.bits * shares, self.bits * self._filters.noise

    def _shape(
        self, along: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        share = np.minimum(sizes / self.bits, FULL)
        energy = self.bits * share * (1 - share)
        left = np.maximum(energy - along**2, LEFT * energy)
        return 1 - share, -self.bits * np.log1p(-share), left

    def _to_agree(self, other: Any) -> tuple[str, ...]:
        return ("bits", "hashes", "seed")  # the noise may differ

    def _layout(self) -> dict[str, Cells]:
        return {**self._id_layout(), "words": Cells(np.uint64, (-1, width(self.bits)), "")}

    def _seal(self, statement: PrivacyStatement) -> None:
        answers_of(statement)
        super()._seal(statement)

    def _check_state(self) -> None:
        self._check_rows(self.words)
        used, spare = -(-self.bits // 64), -self.bits % 64
        beyond = self.words[:, used:].any()
        if beyond or (spare and (self.words[:, used - 1] >> np.uint64(64 - spare)).any()):
            raise ValueError("a bit is set beyond the last.")


def width(bits: int) -> int:
    """Words of a row: enough for the bits, in complete cache lines."""
    return -(-bits // 512) * LINE


PIECE = 1 << 10  # rows whose flips are drawn together
FAINTEST = Fraction(GRID // 2 - 1, GRID)  # the probability nearest to 1/2 that can be stated


class Blip(ProfileMechanism[ReleasedBlip]):
    """Mechanism that releases profiles as Bloom filters with randomly flipped bits.

    Suited to finding similar users and testing single items. The release takes about ``bits / 8``
    bytes per user, whatever the number of items.

    Parameters
    ----------
    epsilon : float
        Privacy loss of one unit, at least 0; by default the unit is one item of a profile.
    bits : int, default=2048
        Bits of a filter, 8 to 2**26. More bits than this for up to about 200 items find more at
        epsilon 8 and above, and add noise below.
    hashes : int, default=1
        Bits that each item sets, 1 to 64. Epsilon is divided among them, so that one hash finds by
        far the most similar users. The thesis [1]_ has 20, in 5,000 bits.
    seed : int, default=0
        Public seed of the hash functions; part of the release.
    typical_size : int, default=100
        Public number of items of a profile for which the statement reports the privacy loss of an
        entire profile. It does not change the release.

    See Also
    --------
    Jlt : Sums of random codewords with Gaussian noise.
    Minima : Private one-permutation MinHash.
    Signs : Signs of the noisy sums, 32 times smaller.

    Notes
    -----
    **Guarantee.** Epsilon-differentially private (delta = 0) for one item of one profile under
    add/remove, with a public seed. One item changes at most `hashes` bits, and each bit is flipped
    with p = 1 / (1 + exp(epsilon / hashes)), a multiple of 2**-32 rounded towards 1/2. Removing an
    entire profile of c items has the loss min(c hashes, bits) epsilon / hashes, which the statement
    reports too; replacing c items by others counts as 2 c items. With epsilon 0 every bit is a fair
    coin.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equations (3.3)-(3.4) (BLIP and its flip probability).
       https://theses.hal.science/tel-01430156
    .. [2] Alaggan, Gambs, Kermarrec. "BLIP: Non-interactive Differentially-Private Similarity
       Computation on Bloom Filters". SSS 2012.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> interactions = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> blip = Blip(epsilon=8, typical_size=106)
    >>> released = blip.release(interactions, users=["ann", "bob"])
    >>> released.users_, released.words.shape
    (array(['ann', 'bob'], dtype=object), (2, 32))
    >>> released.statement.mechanism[-70:]
    'epsilon 848 (16384 for any profile), which hides next to nothing of it'
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "bits": BITS,
        "hashes": HASHES,
        "epsilon": between(0, math.inf),
        **ProfileMechanism.LIMITS,
    }
    bits: int
    hashes: int
    epsilon: float

    def __init__(
        self,
        *,
        epsilon: float,
        bits: int = 2048,
        hashes: int = 1,
        seed: int = 0,
        typical_size: int = 100,
    ) -> None:
        self._set_parameters(locals())

    @classmethod
    def sized(
        cls, items: int, false_positive_rate: float, epsilon: float, *, seed: int = 0
    ) -> Self:
        """Build a mechanism whose filters have a given false-positive rate before the flips.

        It suits tests of single items at high epsilon. The rate does not count the flips, and
        epsilon is divided among the hashes; to find similar users, the defaults are better.

        Parameters
        ----------
        items : int
            Number of items of a typical profile, 1 to 2**31; also `typical_size`.
        false_positive_rate : float
            Probability that an item outside such a profile has all its bits set, between 0 and 1.
        epsilon : float
            Privacy loss of one unit, at least 0.
        seed : int, default=0
            Public seed of the hash functions.

        Returns
        -------
        Self
            The mechanism, with `bits` and `hashes` chosen by [1]_.

        References
        ----------
        .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques".
           PhD thesis, Rennes 2016, equations (3.22) (number of bits) and (3.20) (number of hashes).
           https://theses.hal.science/tel-01430156

        Examples
        --------
        >>> Blip.sized(100, 0.01, epsilon=8)
        Blip(bits=959, hashes=7, epsilon=8.0, seed=0, typical_size=100)
        """
        items = integer(1, 2**31).check(cls.__name__, "items", items)
        rate = fraction.check(cls.__name__, "false_positive_rate", false_positive_rate)
        bits = max(8, math.ceil(-items * math.log(rate) / math.log(2) ** 2))
        hashes = math.ceil(math.log(2) * bits / items)
        return cls(bits=bits, hashes=hashes, epsilon=epsilon, seed=seed, typical_size=items)

    def _plan(
        self, request: ReleaseRequest, sets: ProfileSets, progress: Progress | None = None
    ) -> ProfilePlan[ReleasedBlip]:
        loss = self._loss(request)
        p = loss.probability if self.epsilon else Fraction(1, 2)

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {**self._ids(sets), "words": self._flipped(sets, p, source, progress)}

        return ProfilePlan(
            ReleasedBlip,
            self._public(sets),
            loss,
            self._sentence(request, p),
            noisy,
            nbytes=8 * width(self.bits) * len(sets),
        )

    def _loss(self, request: ReleaseRequest) -> Flips:
        """Loss of one unit; for fair coins, which cost nothing, the smallest that can be stated."""
        cells = min(self.hashes * request.events, self.bits)
        if not self.epsilon:
            return Flips(FAINTEST, cells, relation=request.relation)
        loss = bits_answered(request, cells).loss()
        assert isinstance(loss, Flips)
        return loss

    def _sentence(self, request: ReleaseRequest, p: Fraction) -> str:
        how = f"Bloom filter of {self.bits} bits and {self.hashes} hashes an item, "
        if not self.epsilon:
            return (
                how + "each bit replaced by a fair coin, so that nothing of a profile is revealed"
            )

        def loss(items: int) -> float:
            return Flips(p, min(items * self.hashes, self.bits)).epsilon

        how += f"each bit flipped with probability {float(p):.6g}; "
        return how + self._loss_sentence(request, loss, most=loss(self.bits))

    def _public(self, sets: ProfileSets) -> dict[str, Any]:
        names = ("bits", "hashes", "epsilon", "seed")
        return {"kind": sets.kind, **{name: getattr(self, name) for name in names}}

    def _flipped(
        self, sets: ProfileSets, p: Fraction, source: Source, progress: Progress | None
    ) -> np.ndarray:
        used = -(-self.bits // 64)
        out = aligned((len(sets), width(self.bits)), np.uint64)
        for start in range(0, len(sets), PIECE):
            rows = out[start : start + PIECE]
            ends = sets.starts[start : start + PIECE + 1]
            filters.insert(ends, sets.hashes, self.bits, self.hashes, rows)
            coins = noise.flips(p, len(rows) * used * 64, source=source).reshape(-1, used)
            if self.bits % 64:
                coins[:, -1] &= np.uint64(2 ** (self.bits % 64) - 1)
            rows[:, :used] ^= coins
            advance(progress, start + len(rows), len(sets))
        return out
