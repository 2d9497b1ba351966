"""BLIP: each profile a Bloom filter, every bit of which is flipped with one known probability."""

import math
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sfumato._require import Limit, between, fraction, whole
from sfumato.kernels import filters
from sfumato.kernels.lanes import aligned
from sfumato.privacy import noise
from sfumato.privacy._source import Source
from sfumato.privacy.loss import Flips
from sfumato.privacy.response import GRID
from sfumato.profile._mechanism import ProfileMechanism, ProfilePlan
from sfumato.profile._sets import ProfileSets
from sfumato.profile.released_blip import BITS, HASHES, ReleasedBlip, width
from sfumato.sketch._release import Terms
from sfumato.sketch._responses import bits_answered

__all__ = ["Blip"]

PIECE = 1 << 10  # rows whose flips are drawn together
FAINTEST = Fraction(GRID // 2 - 1, GRID)  # what a statement can tell that is nearest to 1/2


class Blip(ProfileMechanism[ReleasedBlip]):
    """Profiles as Bloom filters with flipped bits, from which items in common can be estimated.

    Guarantee: pure epsilon for one item more or less in one profile, with a public seed: it changes
    at most `hashes` bits, and each is flipped with p = 1 / (1 + exp(epsilon / hashes)), a multiple
    of 2**-32 rounded toward 1/2. A whole profile of c items, that is all of them removed, is hidden
    only at min(c hashes, bits) epsilon / hashes, which the statement says too; exchanged for others
    they are twice as many. With epsilon 0 every bit is a fair coin.
    Parameters: bits, of a filter, and hashes, set per item (as many as `BloomFilter` takes);
    epsilon, from 0 up, of one unit; seed, of the hashes; typical_size, public: the number of items
    for which the statement tells the loss of a whole profile.

    >>> from sfumato.data import Interactions
    >>> had = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> told = Blip(epsilon=8, typical_size=106).release(had, users=["ann", "bob"])
    >>> told.users_, told.words.shape
    (array(['ann', 'bob'], dtype=object), (2, 80))
    >>> told.statement.mechanism[-69:]
    'epsilon 848 (2000 for any profile), which hides next to nothing of it'

    Thesis (3.3), (3.4); Alaggan, Gambs and Kermarrec 2012.
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
        self._set_parameters(
            epsilon=epsilon, bits=bits, hashes=hashes, seed=seed, typical_size=typical_size
        )

    @classmethod
    def sized(
        cls, items: int, false_positive_rate: float, epsilon: float, *, seed: int = 0
    ) -> Self:
        """The filter that finds an item wrongly this often before the flips, in a full profile.

        Parameters: items, of a typical profile; false_positive_rate, between 0 and 1. Bits by
        (3.22), hashes by (3.20).

        >>> Blip.sized(100, 0.01, epsilon=8)
        Blip(bits=959, hashes=7, epsilon=8.0, seed=0, typical_size=100)
        """
        items = whole(1, 2**31).check(cls.__name__, "items", items)
        rate = fraction.check(cls.__name__, "false_positive_rate", false_positive_rate)
        bits = max(8, math.ceil(-items * math.log(rate) / math.log(2) ** 2))
        hashes = math.ceil(math.log(2) * bits / items)
        return cls(bits=bits, hashes=hashes, epsilon=epsilon, seed=seed, typical_size=items)

    def _plan(self, terms: Terms, sets: ProfileSets) -> ProfilePlan[ReleasedBlip]:
        loss = self._loss(terms)
        p = loss.probability if self.epsilon else Fraction(1, 2)

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {**self._ids(sets), "words": self._flipped(sets, p, source)}

        return ProfilePlan(
            ReleasedBlip,
            self._public(sets),
            loss,
            self._sentence(terms, p),
            noisy,
            nbytes=8 * width(self.bits) * len(sets),
        )

    def _loss(self, terms: Terms) -> Flips:
        """Of one unit; for fair coins, which cost nothing, the least that can be stated."""
        cells = min(self.hashes * terms.events, self.bits)
        if not self.epsilon:
            return Flips(FAINTEST, cells, relation=terms.relation)
        loss = bits_answered(terms, cells).loss()
        assert isinstance(loss, Flips)
        return loss

    def _sentence(self, terms: Terms, p: Fraction) -> str:
        how = f"Bloom filter of {self.bits} bits and {self.hashes} hashes an item, "
        if not self.epsilon:
            return how + "each bit replaced by a fair coin, so that nothing of a profile is told"

        def loss(items: int) -> float:
            return Flips(p, min(items * self.hashes, self.bits)).epsilon

        how += f"each bit flipped with probability {float(p):.6g}; "
        return how + self._told(terms, loss, most=loss(self.bits))

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
