"""Signs: each profile the signs of a noisy sum of its items' codewords, and its noisy size."""

from typing import Any, ClassVar

import numpy as np

from sfumato._require import Limit
from sfumato.privacy._source import Source
from sfumato.privacy.noise import add_gaussian
from sfumato.profile._codeword_profiles import LENGTHS
from sfumato.profile._codewords import SCALE, sums
from sfumato.profile._gaussian import GaussianMechanism, GaussianNoise
from sfumato.profile._mechanism import ProfilePlan
from sfumato.profile._sets import ProfileSets
from sfumato.profile.released_signs import ReleasedSigns
from sfumato.sketch._release import Terms

__all__ = ["Signs"]

# Of one item in the noisy size: a quarter of a codeword makes the noise 3 % larger, and sizes are
# then right within four times the noise in codewords: 3 items at epsilon 8, 10 at epsilon 2.
WEIGHT = SCALE // 4


class Signs(GaussianMechanism[ReleasedSigns]):
    """Profiles as the signs of noisy sums of codewords: a private hash whose angle is similarity.

    Guarantee: (epsilon, delta) for one item more or less in one profile, with a public seed: it
    moves the sum by its codeword and the size by one, together a vector of squared norm at most
    scale**2 + weight**2 in whole numbers; discrete Gaussian noise is added to all of them, and
    taking signs of the result costs nothing more.
    Against `Jlt` of as many numbers: 32 times less room and comparisons by XOR, for a standard
    error of similarities that is pi / 2 times as large; the noise is the same but for 3 %.
    Parameters: bits, signs of a profile, up to 65,536: every one has the noise of the whole budget
    however many there are, so that similarities are best at about items / sigma**2 of them,
    200 for 100 items at epsilon 8; epsilon, of one unit, or sigma, of the noise in codewords;
    delta, between 0 and 1; seed, of the codebook; typical_size, public: the number of items for
    which the statement tells the loss of a whole profile.

    >>> from sfumato.data import Interactions
    >>> had = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> told = Signs(bits=200, epsilon=8).release(had, users=["ann", "bob"])
    >>> told.codes.shape, told.counts.shape
    ((2, 4), (2,))

    Charikar 2002; Kenthapadi, Korolova, Mironov and Mishra 2013; thesis 6.1.
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"bits": LENGTHS, **GaussianMechanism.LIMITS}
    bits: int

    def __init__(
        self,
        *,
        bits: int = 1000,
        epsilon: float | None = None,
        delta: float = 1e-6,
        sigma: float | None = None,
        seed: int = 0,
        typical_size: int = 100,
    ) -> None:
        self._set_parameters(
            bits=bits,
            epsilon=epsilon,
            delta=delta,
            sigma=sigma,
            seed=seed,
            typical_size=typical_size,
        )

    def _plan(self, terms: Terms, sets: ProfileSets) -> ProfilePlan[ReleasedSigns]:
        noise = GaussianNoise.of(terms, SCALE**2 + WEIGHT**2, self.sigma)
        public: dict[str, Any] = dict(
            bits=self.bits, scale=SCALE, weight=WEIGHT, sigma=float(noise.sigma / SCALE)
        )

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {**self._ids(sets), **self._signed(sets, noise, source)}

        return ProfilePlan(
            ReleasedSigns,
            {"kind": sets.kind, "seed": self.seed, **public},
            noise.loss(terms.events, terms.relation),
            f"{self.bits} signs of sums of codewords, and sizes, " + self._sentence(terms, noise),
            noisy,
            nbytes=len(sets) * 8 * (-(-self.bits // 64) + 1),
        )

    def _signed(
        self, sets: ProfileSets, noise: GaussianNoise, source: Source
    ) -> dict[str, np.ndarray]:
        counts = sets.sizes.astype(np.int64) * WEIGHT
        add_gaussian(counts, noise.sigma, source=source)
        codes = np.zeros((len(sets), -(-self.bits // 64)), np.uint64)
        for part, cells in sums(sets.hashes, sets.starts, self.bits):
            add_gaussian(cells, noise.sigma, source=source)
            packed = np.packbits(cells >= 0, axis=1, bitorder="little")
            codes.view(np.uint8)[part, : packed.shape[1]] = packed
        return {"codes": codes, "counts": counts}
