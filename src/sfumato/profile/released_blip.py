"""Released BLIP profiles: sizes, items in common and neighbours, from flipped Bloom filters."""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato._require import between, whole
from sfumato.kernels import filters, largest
from sfumato.privacy.loss import Flips
from sfumato.privacy.statement import PrivacyStatement
from sfumato.profile import occupancy
from sfumato.profile._blip_law import SURE, Filters, Found, Pairs, bounds, size_variance
from sfumato.profile._released import ReleasedProfiles
from sfumato.sketch._base import Cells
from sfumato.sketch._responses import answers_of

__all__ = ["BITS", "HASHES", "ReleasedBlip", "width"]

BITS, HASHES = whole(8, 2**26), whole(1, 64)
LINE = 8  # words of a cache line
PAIRS, LEAST = 1 << 16, 1 << 10  # rows read at a time, times or despite the queries: in a cache
ABREAST = 64  # queries that share one reading of all rows


class ReleasedBlip(ReleasedProfiles):
    """Bloom filters of profiles, every bit of which was flipped with a known probability, for good.

    Made by `Blip.release`. Guarantee: epsilon-differential privacy with a public seed, as its
    `statement` says; estimates are debiased, and their variances include the flips and the
    collisions of hashes. `nearest` and `nearest_rows` rank by shrunk similarity, towards 0 by as
    much as noise may have made it, since else small profiles, of which noise is most, would win;
    they tell the debiased similarities, which therefore need not fall from the first to the last.
    At epsilon 0 there is nothing to estimate: NaN.
    Parameters: bits and hashes of a filter, seed of the hashes, epsilon as asked for; kind, of the
    users' ids. `words` are the filters, a row each: 64 bits a word, lowest first, padded with zeros
    to whole cache lines.

    >>> from sfumato.data import Interactions
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.profile import Blip
    >>> had = Interactions([1] * 200 + [2] * 200, [*range(200), *range(100, 300)], [1] * 400)
    >>> told = Blip(epsilon=60).release(had, users=[1, 2], source=InsecureSeededSource(1))
    >>> told.estimate_size().round(), told.similarity(measure="inner").round()[0]
    (array([199., 202.]), array([199., 105.]))

    Thesis (3.3) to (3.9); Alaggan, Gambs and Kermarrec 2012.
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

    def positions(self, items: Any) -> np.ndarray:
        """The bits that each item sets, (N, hashes) as uint32; two of an item may coincide."""
        hashed = self._hashed(items)
        out = np.empty((hashed.size, self.hashes), np.uint32)
        filters.positions(hashed, self.bits, out)
        return out

    def bit_shares(self, items: Any, prior: Any) -> np.ndarray:
        """The chance of each bit to be set before the flips, by the popularity of these items.

        Thesis 3.1.3. Parameters: items, a column; prior, the chance of each to be in a profile.
        """
        return occupancy.bit_shares(prior, self.positions(items), self.bits)

    def estimate_size(self) -> np.ndarray:
        """How many items each profile has: (3.9) through (3.6); finite where a filter is full."""
        return np.asarray(np.maximum(self._filters.sizes, 0.0))

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of items between which each true one lies, with about this probability.

        The share of ones is nearly normal, with the variance of the flips and of the collisions.
        The upper one is infinite where more items would not fill the filter more.
        """
        return bounds(self._filters, confidence, type(self).__name__)

    def memberships(self, items: Any, rows: Any = None) -> np.ndarray:
        """For each row and item an estimate of 1 if it is in the profile and of 0 if not.

        The share of the item's own bits that are set, against that of all others; unbiased but for
        the division by the share of others that are not set. NaN where that share is less than
        1.96 of its standard errors (of flips and of hashes) above 0: such a filter is full or its
        noise hides all, and the quotient would be of any size.
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
    ) -> Iterator[tuple[slice, slice, Pairs]]:
        """These rows against all of the other's, in parts: all others for some, then the next."""
        for start in range(0, rows.size, ABREAST):
            mine = slice(start, min(start + ABREAST, rows.size))
            here, asked = self._filters.rows(rows[mine]), self.words[rows[mine]]
            step = max(PAIRS // len(asked), LEAST)
            for first in range(0, len(other), step):
                yours = slice(first, min(first + step, len(other)))
                both = np.empty((len(asked), yours.stop - first), np.int32)
                filters.common(other.words[yours], asked, both)
                yield mine, yours, Pairs(here, other._filters.rows(yours), both)

    def _similarity(self, rows: np.ndarray, other: Any, measure: str) -> np.ndarray:
        return self._blocks(rows, other, lambda pairs: pairs.estimate(measure))

    def _variance(self, rows: np.ndarray, other: Any, measure: str) -> np.ndarray:
        return self._blocks(rows, other, lambda pairs: pairs.variance(measure))

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
        measure: str,
        found: np.ndarray,
        near: np.ndarray,
    ) -> None:
        """Ranked by shrunk similarities; what is told of those found are the debiased ones."""
        for mine, yours, pairs in self._pairs(rows, there):
            filters.keep(pairs.rank(measure), yours.start, own[mine], found[mine], near[mine])
        largest.ordered(found, near)
        queries, some = np.nonzero(found >= 0)
        whose, others = rows[queries], found[queries, some]
        both = np.empty(others.size, np.int32)
        filters.common_of(self.words, whose, there.words, others, both)
        pairs = Found(self._filters.rows(whose), there._filters.rows(others), both)
        near[queries, some] = pairs.estimate(measure)

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
