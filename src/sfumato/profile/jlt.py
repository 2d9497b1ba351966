"""JLT: each profile the sum of its items' codewords, with Gaussian noise on every number."""

from typing import Any, ClassVar

import numpy as np

from sfumato._require import Limit
from sfumato.kernels.codewords import cut_to
from sfumato.privacy._source import Source
from sfumato.privacy.noise import add_gaussian
from sfumato.profile._codeword_profiles import LENGTHS
from sfumato.profile._codewords import SCALE, sums
from sfumato.profile._gaussian import GaussianMechanism, GaussianNoise
from sfumato.profile._mechanism import ProfilePlan
from sfumato.profile._sets import ProfileSets
from sfumato.profile.released_jlt import ReleasedJlt, cells_of
from sfumato.sketch._release import Terms

__all__ = ["Jlt"]


class Jlt(GaussianMechanism[ReleasedJlt]):
    """Profiles as noisy sums of random codewords, from which items in common can be estimated.

    Guarantee: (epsilon, delta) for one item more or less in one profile, with a public seed: it
    moves the sum by its codeword, whose squared norm in whole numbers is at most scale**2 by
    construction, and the noise is discrete Gaussian. Repeated items count once.
    Parameters: dimensions, numbers of a vector, up to 65,536: the noise of each does not depend on
    how many there are, so similarities are best at about items / sigma**2 of them, and
    single items show best in many; epsilon, of one unit, or sigma, of the noise in codewords, as
    the thesis counts it (the statement then tells the epsilon); delta, between 0 and 1; seed, of
    the codebook; typical_size, public: the number of items for which the statement tells the loss
    of a whole profile.

    >>> from sfumato.data import Interactions
    >>> had = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> told = Jlt(dimensions=200, sigma=1).release(had, users=["ann", "bob"])
    >>> told.users_, told.vectors.shape, round(told.statement.epsilon, 2)
    (array(['ann', 'bob'], dtype=object), (2, 200), 5.22)

    Kenthapadi, Korolova, Mironov and Mishra 2013; thesis 3.2; sigma by Canonne, Kamath and Steinke
    2020 instead of (3.10), which is about continuous noise and holds with high probability only.
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"dimensions": LENGTHS, **GaussianMechanism.LIMITS}
    dimensions: int

    def __init__(
        self,
        *,
        dimensions: int = 1000,
        epsilon: float | None = None,
        delta: float = 1e-6,
        sigma: float | None = None,
        seed: int = 0,
        typical_size: int = 100,
    ) -> None:
        self._set_parameters(
            dimensions=dimensions,
            epsilon=epsilon,
            delta=delta,
            sigma=sigma,
            seed=seed,
            typical_size=typical_size,
        )

    def _plan(self, terms: Terms, sets: ProfileSets) -> ProfilePlan[ReleasedJlt]:
        noise = GaussianNoise.of(terms, SCALE**2, self.sigma)
        sigma, numbers = float(noise.sigma), len(sets) * self.dimensions
        public: dict[str, Any] = dict(dimensions=self.dimensions, scale=SCALE, sigma=sigma / SCALE)

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {**self._ids(sets), "vectors": self._vectors(sets, noise, source)}

        return ProfilePlan(
            ReleasedJlt,
            {"kind": sets.kind, "seed": self.seed, **public},
            noise.loss(terms.events, terms.relation),
            f"sums of codewords in {self.dimensions} dimensions, " + self._sentence(terms, noise),
            noisy,
            nbytes=np.dtype(cells_of(sigma)).itemsize * numbers,
        )

    def _vectors(self, sets: ProfileSets, noise: GaussianNoise, source: Source) -> np.ndarray:
        kind = cells_of(float(noise.sigma))
        out = np.empty((len(sets), self.dimensions), kind)
        most = np.iinfo(kind)
        for part, cells in sums(sets.hashes, sets.starts, self.dimensions):
            add_gaussian(cells, noise.sigma, source=source)
            # What noise made too large to keep is cut, which only those numbers decide.
            cut_to(cells, most.min, most.max, out[part])
        return out
