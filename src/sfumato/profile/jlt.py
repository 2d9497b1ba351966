"""JLT: each profile the sum of its items' codewords, with Gaussian noise on every number.

Released JLT profiles: sizes, items in common and neighbours, from noisy sums of codewords.
"""

from functools import cached_property
from statistics import NormalDist
from typing import Annotated, Any, ClassVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, fraction
from sfumato.kernels.profile_codes import cut_to
from sfumato.privacy.noise.discrete import add_gaussian
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import ReleaseRequest
from sfumato.profile.gaussian_projection import (
    LENGTHS,
    SCALE,
    CodewordProfiles,
    GaussianMechanism,
    ProjectionNoise,
    sums,
)
from sfumato.profile.item_sets import ProfileSets
from sfumato.profile.mechanism import ProfilePlan
from sfumato.profile.similarity import OverlapVariance, RowPairs

__all__ = ["Jlt", "ReleasedJlt", "cells_of"]

AT_ONCE = 2**23  # numbers turned into floats at a time: 32 MiB
NARROW = 2**26  # sigma below which 32 bits hold noise of any size that occurs


class ReleasedJlt(CodewordProfiles):
    """Sums of the codewords of each profile, with Gaussian noise on every number, for good.

    Made by `Jlt.release`.

    Thesis (3.10), (3.11) without its factor L / (L - 1): the noise has a known mean, 0.

    dimensions, scale (the norm of the longest codeword in the integers of `vectors`), sigma (of the
    noise, in codewords, as of `Jlt`; `grid_sigma` in those whole numbers), seed, kind of the users'
    ids. `vectors` holds a row for each user.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differential privacy with a public seed, as its `statement`
    says. Sizes, items in common and memberships are unbiased over noise and codebook; cosine and
    Jaccard divide them by sizes, which are not taken below their standard error. Neighbours are
    ranked by the similarity of the noisy vectors, as dividing by small noisy sizes would favour
    small profiles; the similarities told are those without noise.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.profile import Jlt
    >>> had = Interactions([1] * 200 + [2] * 200, [*range(200), *range(100, 300)], [1] * 400)
    >>> told = Jlt(epsilon=60).release(had, users=[1, 2], source=InsecureSeededSource(1))
    >>> inner = told.similarity(metric="inner")[0, 1]
    >>> bool(abs(inner - 100) < 3 * told.similarity_variance(metric="inner")[0, 1] ** 0.5)
    True
    """

    dimensions: Annotated[int, LENGTHS]
    vectors: np.ndarray
    _of = "Jlt"

    def estimate_size(self) -> np.ndarray:
        """How many items each profile has: squares less those of the noise; it may be below 0.

        Returns
        -------
        ndarray
            How many items each profile has: squares less those of the noise; it may be below 0.
        """
        return self._energies - self._items_of_noise

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of items between which each true one lies, with about this probability.

        Parameters
        ----------
        confidence : float, default=0.95
            TODO.

        Returns
        -------
        tuple
            TODO.

        References
        ----------
        .. [1] A sum of squares is taken as chi-square, of as many degrees as dimensions, and its
           cube root as normal (Wilson and Hilferty 1931).
        """
        confidence = fraction.check(type(self).__name__, "confidence", confidence)
        part = 2 / (9 * self.dimensions)
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * part**0.5
        with np.errstate(divide="ignore"):
            low, high = (
                self._energies / max(1 - part + side * reach, 0.0) ** 3 - self._items_of_noise
                for side in (1, -1)
            )
        return np.maximum(low, 0.0), np.maximum(np.nan_to_num(high, nan=np.inf, posinf=np.inf), 0.0)

    def memberships(self, items: Ids, rows: Any = None) -> np.ndarray:
        """For each row and item an estimate of 1 if it is in the profile and of 0 if not.

        Unbiased; its variance is sigma**2 of noise and size / dimensions of other items.

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
        words = self.codewords(items).astype(np.float64)
        lengths = np.maximum((words**2).sum(axis=1), 1.0)
        return np.asarray(self.vectors[self._asked_rows(rows)] @ (words.T / lengths))

    @property
    def _length(self) -> int:
        return self.dimensions

    @cached_property
    def _energies(self) -> np.ndarray:
        """The squared norms of the noisy vectors, as so many items."""
        out = np.empty(len(self))
        step = max(1, AT_ONCE // self.dimensions)
        for start in range(0, len(self), step):
            part = self.vectors[start : start + step].astype(np.float64)
            out[start : start + step] = np.einsum("ij,ij->i", part, part) / self._unit
        return out

    def _count(self, rows: np.ndarray, other: Any) -> np.ndarray:
        """Inner products of noisy vectors, as so many items; float32 errs far less than noise."""
        mine = (self.vectors[rows] / self._unit).astype(np.float32)
        out = np.empty((rows.size, len(other)), np.float32)
        step = max(1, AT_ONCE // self.dimensions)
        for start in range(0, len(other), step):
            yours = other.vectors[start : start + step].astype(np.float32)
            np.matmul(mine, yours.T, out=out[:, start : start + step])
        return out

    def _inner(self, pairs: RowPairs) -> np.ndarray:
        return np.asarray(pairs.counted, np.float64)

    def _noisy(self, pairs: RowPairs, metric: str) -> np.ndarray:
        products = pairs.counted.astype(np.float64)
        if metric == "inner":
            return products
        left, right = self._energies[pairs.left], pairs.there._energies[pairs.right]
        below = np.sqrt(left * right) if metric == "cosine" else left + right - products
        return np.asarray(products / np.maximum(below, 1e-300))

    def _size_variance(self) -> np.ndarray:
        return 2 * self._energies**2 / self.dimensions

    def _spread(self, pairs: RowPairs, metric: str) -> np.ndarray:
        """The covariances of sums of products of normals: over the noise and the codebook."""
        left, right = self._energies[pairs.left], pairs.there._energies[pairs.right]
        inner, n = self._inner(pairs), self.dimensions
        spread = OverlapVariance(
            (left * right + inner**2) / n,
            2 * left**2 / n,
            2 * right**2 / n,
            2 * left * inner / n,
            2 * right * inner / n,
            2 * inner**2 / n,
        )
        return spread.of(metric, inner, *self._floored(pairs))

    def _to_agree(self, other: Any) -> Any:
        return ("dimensions", "scale", "seed")

    def _layout(self) -> dict[str, Cells]:
        shape = (-1, self.dimensions)
        return {**self._id_layout(), "vectors": Cells(cells_of(self.grid_sigma), shape, "")}

    def _check_state(self) -> None:
        self._check_rows(self.vectors)


def cells_of(sigma: float) -> Any:
    """The type that holds a vector with noise of this sigma; public, as sigma is."""
    return np.int32 if sigma < NARROW else np.int64


class Jlt(GaussianMechanism[ReleasedJlt]):
    """Profiles as noisy sums of random codewords, from which items in common can be estimated.

    Parameters
    ----------
    dimensions : int, default=1000
        Numbers of a vector, up to 65,536: the noise of each does not depend on how many there are,
        so similarities are best at about items / sigma**2 of them, and single items show best in
        many.
    epsilon : float or None, default=None
        Of one unit, or sigma, of the noise in codewords, as the thesis counts it (the statement
        then tells the epsilon).
    delta : float, default=1e-06
        Between 0 and 1.
    sigma : float or None, default=None
        TODO.
    seed : int, default=0
        Of the codebook.
    typical_size : int, default=100
        Public: the number of items for which the statement tells the loss of a whole profile.

    Notes
    -----
    **Guarantee.** (epsilon, delta) for one item more or less in one profile, with a public seed: it
    moves the sum by its codeword, whose squared norm in integers is at most scale**2 by
    construction, and the noise is discrete Gaussian. Repeated items count once.

    References
    ----------
    .. [1] Kenthapadi, Korolova, Mironov and Mishra 2013; thesis 3.2; sigma by Canonne, Kamath and
       Steinke 2020 instead of (3.10), which is about continuous noise and holds with high
       probability only.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> had = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> told = Jlt(dimensions=200, sigma=1).release(had, users=["ann", "bob"])
    >>> told.users_, told.vectors.shape, round(told.statement.epsilon, 2)
    (array(['ann', 'bob'], dtype=object), (2, 200), 5.22)
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
        self._set_parameters(locals())

    def _plan(self, request: ReleaseRequest, sets: ProfileSets) -> ProfilePlan[ReleasedJlt]:
        noise = ProjectionNoise.of(request, SCALE**2, self.sigma)
        sigma, numbers = float(noise.sigma), len(sets) * self.dimensions
        public: dict[str, Any] = dict(dimensions=self.dimensions, scale=SCALE, sigma=sigma / SCALE)

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {**self._ids(sets), "vectors": self._vectors(sets, noise, source)}

        return ProfilePlan(
            ReleasedJlt,
            {"kind": sets.kind, "seed": self.seed, **public},
            noise.loss(request.events, request.relation),
            f"sums of codewords in {self.dimensions} dimensions, " + self._sentence(request, noise),
            noisy,
            nbytes=np.dtype(cells_of(sigma)).itemsize * numbers,
        )

    def _vectors(self, sets: ProfileSets, noise: ProjectionNoise, source: Source) -> np.ndarray:
        kind = cells_of(float(noise.sigma))
        out = np.empty((len(sets), self.dimensions), kind)
        most = np.iinfo(kind)
        for part, cells in sums(sets.hashes, sets.starts, self.dimensions):
            add_gaussian(cells, noise.sigma, source=source)
            # What noise made too large to keep is cut, which only those numbers decide.
            cut_to(cells, most.min, most.max, out[part])
        return out
