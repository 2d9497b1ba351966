"""BLIP: each profile a Bloom filter, every bit of which is flipped with one known probability.

Released BLIP profiles: sizes, items in common and neighbours, from flipped Bloom filters.
"""

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
from sfumato.kernels import top_k as largest
from sfumato.kernels.lanes import aligned
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
    Filters,
    bounds,
    size_variance,
)
from sfumato.profile.item_sets import ProfileSets
from sfumato.profile.mechanism import ProfileMechanism, ProfilePlan
from sfumato.profile.released import ReleasedProfiles
from sfumato.sketch.response_release import answers_of, bits_answered

__all__ = ["BITS", "HASHES", "Blip", "ReleasedBlip", "width"]

BITS, HASHES = integer(8, 2**26), integer(1, 64)
LINE = 8  # words of a cache line
PAIRS, LEAST = 1 << 16, 1 << 10  # rows read at a time, times or despite the queries: in a cache
ABREAST = 64  # queries that share one reading of all rows


class ReleasedBlip(ReleasedProfiles):
    """Bloom filters of profiles, every bit of which was flipped with a known probability, for good.

    Made by `Blip.release`.

    bits and hashes of a filter, seed of the hashes, epsilon as asked for; kind, of the users' ids.
    `words` are the filters, a row each: 64 bits a word, lowest first, padded with zeros to whole
    cache lines.

    Notes
    -----
    **Guarantee.** Epsilon-differential privacy with a public seed, as its `statement` says;
    estimates are debiased, and their variances include the flips and the collisions of hashes.
    `nearest` and `nearest_rows` rank by shrunk similarity, towards 0 by as much as noise may have
    made it, since else small profiles, of which noise is most, would win; they tell the debiased
    similarities, which therefore need not fall from the first to the last. At epsilon 0 there is
    nothing to estimate: NaN.

    References
    ----------
    .. [1] Thesis (3.3) to (3.9); Alaggan, Gambs and Kermarrec 2012.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.profile import Blip
    >>> had = Interactions([1] * 200 + [2] * 200, [*range(200), *range(100, 300)], [1] * 400)
    >>> told = Blip(epsilon=60).release(had, users=[1, 2], source=InsecureSeededSource(1))
    >>> told.estimate_size().round(), told.similarity(metric="inner").round()[0]
    (array([199., 202.]), array([199., 105.]))
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
        """How likely each bit is not what it was."""
        return answers_of(self.statement).probability if self.epsilon else Fraction(1, 2)

    def positions(self, items: Ids) -> np.ndarray:
        """The bits that each item sets, (N, hashes) as uint32; two of an item may coincide.

        Parameters
        ----------
        items : array_like or scalar
            TODO.

        Returns
        -------
        ndarray
            The bits that each item sets, (N, hashes) as uint32; two of an item may coincide.
        """
        hashed = self._hashed(items)
        out = np.empty((hashed.size, self.hashes), np.uint32)
        filters.positions(hashed, self.bits, out)
        return out

    def bit_shares(self, items: Ids, prior: Any) -> np.ndarray:
        """The chance of each bit to be set before the flips, by the popularity of these items.

        Thesis 3.1.3.

        Parameters
        ----------
        items : array_like or scalar
            A column.
        prior : object
            The chance of each to be in a profile.

        Returns
        -------
        ndarray
            The chance of each bit to be set before the flips, by the popularity of these items.
        """
        return occupancy.bit_shares(prior, self.positions(items), self.bits)

    def estimate_size(self) -> np.ndarray:
        """How many items each profile has: (3.9) through (3.6); finite where a filter is full.

        Returns
        -------
        ndarray
            How many items each profile has: (3.9) through (3.6); finite where a filter is full.
        """
        return np.asarray(np.maximum(self._filters.sizes, 0.0))

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of items between which each true one lies, with about this probability.

        The share of ones is nearly normal, with the variance of the flips and of the collisions.
        The upper one is infinite where more items would not fill the filter more.

        Parameters
        ----------
        confidence : float, default=0.95
            TODO.

        Returns
        -------
        tuple
            TODO.
        """
        return bounds(self._filters, confidence, type(self).__name__)

    def memberships(self, items: Ids, rows: Any = None) -> np.ndarray:
        """For each row and item an estimate of 1 if it is in the profile and of 0 if not.

        The share of the item's own bits that are set, against that of all others; unbiased but for
        the division by the share of others that are not set. NaN where that share is less than 1.96
        of its standard errors (of flips and of hashes) above 0: such a filter is full or its noise
        hides all, and the quotient would be of any size.

        Parameters
        ----------
        items : array_like or scalar
            TODO.
        rows : object, default=None
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        asked, (places, counts) = self._asked_rows(rows), occupancy.distinct(self.positions(items))
        hits = np.empty((asked.size, counts.size), np.int64)
        filters.found(self.words, asked, places, counts, hits)
        flip, rest = self._filters.flip, self.bits - counts
        own = 1 - occupancy.true_share(hits / counts, flip)
        with np.errstate(divide="ignore", invalid="ignore"):  # where an item sets all bits
            set_by_others = (self._filters.ones[asked, np.newaxis] - hits) / rest
            unset = 1 - occupancy.true_share(set_by_others, flip)
            error = np.sqrt((self._filters.noise + np.maximum(unset, 0.0)) / rest)
            return np.where(unset > SURE * error, 1 - own / unset, np.nan)

    def _loss(self, items: int) -> float:
        """min(items hashes, bits) times that of a bit."""
        if not self.epsilon:
            return 0.0
        return Flips(self.flip_probability, min(items * self.hashes, self.bits)).epsilon

    @cached_property
    def _filters(self) -> Filters:
        """What is counted once of all rows, for sizes and comparisons."""
        ones = np.empty(len(self.words), np.int64)
        filters.ones(self.words, ones)
        return Filters.of(self.bits, self.hashes, float(self.flip_probability), ones)

    def _pairs(
        self, rows: np.ndarray, other: "ReleasedBlip"
    ) -> Iterator[tuple[slice, slice, FilterPairs]]:
        """These rows against all of the other's, in parts: all others for some, then the next."""
        for start in range(0, rows.size, ABREAST):
            mine = slice(start, min(start + ABREAST, rows.size))
            here, asked = self._filters.rows(rows[mine]), self.words[rows[mine]]
            step = max(PAIRS // len(asked), LEAST)
            for first in range(0, len(other), step):
                yours = slice(first, min(first + step, len(other)))
                both = np.empty((len(asked), yours.stop - first), np.int32)
                filters.common(other.words[yours], asked, both)
                yield mine, yours, FilterPairs(here, other._filters.rows(yours), both)

    def _similarity(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        return self._blocks(rows, other, lambda pairs: pairs.estimate(metric))

    def _variance(self, rows: np.ndarray, other: Any, metric: str) -> np.ndarray:
        return self._blocks(rows, other, lambda pairs: pairs.variance(metric))

    def _size_variance(self) -> np.ndarray:
        return size_variance(self.estimate_size(), self.bits, self.hashes, self._filters.flip)

    def _blocks(self, rows: np.ndarray, other: Any, asked: Any) -> np.ndarray:
        out = np.empty((rows.size, len(other)))
        for mine, yours, pairs in self._pairs(rows, other):
            out[mine, yours] = asked(pairs)
        return out

    def _nearest(
        self,
        rows: np.ndarray,
        own: np.ndarray,
        there: Any,
        metric: str,
        found: np.ndarray,
        near: np.ndarray,
    ) -> None:
        """Ranked by shrunk similarities; what is told of those found are the debiased ones."""
        for mine, yours, pairs in self._pairs(rows, there):
            filters.keep(pairs.rank(metric), yours.start, own[mine], found[mine], near[mine])
        largest.ordered(found, near)
        queries, some = np.nonzero(found >= 0)
        whose, others = rows[queries], found[queries, some]
        both = np.empty(others.size, np.int32)
        filters.common_of(self.words, whose, there.words, others, both)
        pairs = AlignedFilterPairs(self._filters.rows(whose), there._filters.rows(others), both)
        near[queries, some] = pairs.estimate(metric)

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
    """The words of a row: enough for the bits, in whole cache lines."""
    return -(-bits // 512) * LINE


PIECE = 1 << 10  # rows whose flips are drawn together
FAINTEST = Fraction(GRID // 2 - 1, GRID)  # what a statement can tell that is nearest to 1/2


class Blip(ProfileMechanism[ReleasedBlip]):
    """Profiles as Bloom filters with flipped bits, from which items in common can be estimated.

    Parameters
    ----------
    epsilon : float
        From 0 up, of one unit.
    bits : int, default=5000
        Of a filter,.
    hashes : int, default=20
        Set per item (as many as `BloomFilter` takes).
    seed : int, default=0
        Of the hashes.
    typical_size : int, default=100
        Public: the number of items for which the statement tells the loss of a whole profile.

    Notes
    -----
    **Guarantee.** Pure epsilon for one item more or less in one profile, with a public seed: it
    changes at most `hashes` bits, and each is flipped with p = 1 / (1 + exp(epsilon / hashes)), a
    multiple of 2**-32 rounded toward 1/2. A whole profile of c items, that is all of them removed,
    is hidden only at min(c hashes, bits) epsilon / hashes, which the statement says too; exchanged
    for others they are twice as many. With epsilon 0 every bit is a fair coin.

    References
    ----------
    .. [1] Thesis (3.3), (3.4); Alaggan, Gambs and Kermarrec 2012.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> had = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> told = Blip(epsilon=8, typical_size=106).release(had, users=["ann", "bob"])
    >>> told.users_, told.words.shape
    (array(['ann', 'bob'], dtype=object), (2, 80))
    >>> told.statement.mechanism[-69:]
    'epsilon 848 (2000 for any profile), which hides next to nothing of it'
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
        bits: int = 5000,
        hashes: int = 20,
        seed: int = 0,
        typical_size: int = 100,
    ) -> None:
        self._set_parameters(locals())

    @classmethod
    def sized(
        cls, items: int, false_positive_rate: float, epsilon: float, *, seed: int = 0
    ) -> Self:
        """The filter that finds an item wrongly this often before the flips, in a full profile.

        Parameters
        ----------
        items : int
            Of a typical profile.
        false_positive_rate : float
            Between 0 and 1. Bits by (3.22), hashes by (3.20).
        epsilon : float
            TODO.
        seed : int, default=0
            TODO.

        Returns
        -------
        Self
            The filter that finds an item wrongly this often before the flips, in a full profile.

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

    def _plan(self, request: ReleaseRequest, sets: ProfileSets) -> ProfilePlan[ReleasedBlip]:
        loss = self._loss(request)
        p = loss.probability if self.epsilon else Fraction(1, 2)

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {**self._ids(sets), "words": self._flipped(sets, p, source)}

        return ProfilePlan(
            ReleasedBlip,
            self._public(sets),
            loss,
            self._sentence(request, p),
            noisy,
            nbytes=8 * width(self.bits) * len(sets),
        )

    def _loss(self, request: ReleaseRequest) -> Flips:
        """Of one unit; for fair coins, which cost nothing, the least that can be stated."""
        cells = min(self.hashes * request.events, self.bits)
        if not self.epsilon:
            return Flips(FAINTEST, cells, relation=request.relation)
        loss = bits_answered(request, cells).loss()
        assert isinstance(loss, Flips)
        return loss

    def _sentence(self, request: ReleaseRequest, p: Fraction) -> str:
        how = f"Bloom filter of {self.bits} bits and {self.hashes} hashes an item, "
        if not self.epsilon:
            return how + "each bit replaced by a fair coin, so that nothing of a profile is told"

        def loss(items: int) -> float:
            return Flips(p, min(items * self.hashes, self.bits)).epsilon

        how += f"each bit flipped with probability {float(p):.6g}; "
        return how + self._told(request, loss, most=loss(self.bits))

    def _public(self, sets: ProfileSets) -> dict[str, Any]:
        names = ("bits", "hashes", "epsilon", "seed")
        return {"kind": sets.kind, **{name: getattr(self, name) for name in names}}

    def _flipped(self, sets: ProfileSets, p: Fraction, source: Source) -> np.ndarray:
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
        return out
