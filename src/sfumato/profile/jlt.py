"""JLT: profiles as sums of random codewords with Gaussian noise."""

from functools import cached_property
from statistics import NormalDist
from typing import Annotated, Any, ClassVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, fraction
from sfumato.kernels import profile_codes
from sfumato.privacy.noise.discrete import add_gaussian
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import ReleaseRequest
from sfumato.profile.gaussian_projection import (
    LENGTHS,
    SCALE,
    CodewordProfiles,
    GaussianMechanism,
    ProjectionNoise,
    entries,
    sums,
)
from sfumato.profile.item_sets import ProfileSets
from sfumato.profile.mechanism import ProfilePlan, Progress, advance
from sfumato.profile.similarity import OverlapVariance, RowPairs

__all__ = ["Jlt", "ReleasedJlt", "cells_of"]

AT_ONCE = 2**23  # numbers turned into floats at a time: 32 MiB
NARROW = 2**26  # sigma below which noise of any size that occurs fits 32 bits


class ReleasedJlt(CodewordProfiles):
    """Released sums of the codewords of each profile, with Gaussian noise on every entry.

    Made by `Jlt.release`, not by hand. Estimates sizes, common items, similarities, neighbours and
    memberships from the released vectors alone.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differentially private with a public seed; `statement` names the
    unit, the relation and the parameters. Every estimate is post-processing, at no further privacy
    cost. Sizes, common items and memberships are unbiased over noise and codebook; cosine and
    Jaccard divide them by sizes, which are floored at their standard error.

    Sizes are squared norms minus those of the noise, and may be negative. `size_bounds` takes the
    squared norm as chi-square with `dimensions` degrees of freedom, and its cube root as normal
    [3]_. A membership has the variance sigma**2 from the noise plus size / dimensions from the
    other items.

    With the ranking "pairs", neighbours are ranked by the similarity of the noisy vectors, because
    dividing by small noisy sizes would favour small profiles.

    `vectors` contains one row per user. `scale` is the norm of the longest codeword in the
    integers of `vectors`; `sigma` is the standard deviation of the noise in codewords, as of `Jlt`,
    and `grid_sigma` in those integers.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.2, equations (3.10) (noise) and (3.11) (size), the latter
       without its factor L / (L - 1), as the noise has the known mean 0.
       https://theses.hal.science/tel-01430156
    .. [2] Kenthapadi, Korolova, Mironov, Mishra. "Privacy via the Johnson-Lindenstrauss Transform".
       JPC 2013. https://arxiv.org/abs/1204.2606
    .. [3] Wilson, Hilferty. "The Distribution of Chi-Square". PNAS 1931.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.privacy.noise import InsecureSeededSource  # for tests only
    >>> from sfumato.profile import Jlt
    >>> users, items = [1] * 200 + [2] * 200, [*range(200), *range(100, 300)]
    >>> interactions = Interactions(users, items, [1] * 400)
    >>> source = InsecureSeededSource(1)
    >>> released = Jlt(epsilon=60).release(interactions, users=[1, 2], source=source)
    >>> error = released.similarity(metric="inner")[0, 1] - 100
    >>> bool(abs(error) < 3 * released.similarity_variance(metric="inner")[0, 1] ** 0.5)
    True
    """

    dimensions: Annotated[int, LENGTHS]
    vectors: np.ndarray
    _of = "Jlt"

    def estimate_size(self) -> np.ndarray:
        return self._energies - self._items_of_noise

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        confidence = fraction.check(type(self).__name__, "confidence", confidence)
        part = 2 / (9 * self.dimensions)
        half_width = NormalDist().inv_cdf((1 + confidence) / 2) * part**0.5
        with np.errstate(divide="ignore"):
            low, high = (
                self._energies / max(1 - part + side * half_width, 0.0) ** 3 - self._items_of_noise
                for side in (1, -1)
            )
        return np.maximum(low, 0.0), np.maximum(np.nan_to_num(high, nan=np.inf, posinf=np.inf), 0.0)

    def memberships(self, items: Ids, rows: Any = None) -> np.ndarray:
        words = self.codewords(items).astype(np.float64)
        lengths = np.maximum((words**2).sum(axis=1), 1.0)
        return np.asarray(self.vectors[self._checked_rows(rows)] @ (words.T / lengths))

    @property
    def _length(self) -> int:
        return self.dimensions

    @cached_property
    def _energies(self) -> np.ndarray:
        """Squared norms of the noisy vectors, as numbers of items."""
        out = np.empty(len(self))
        step = max(1, AT_ONCE // self.dimensions)
        for start in range(0, len(self), step):
            part = self.vectors[start : start + step].astype(np.float64)
            out[start : start + step] = np.einsum("ij,ij->i", part, part) / self._unit
        return out

    def _count(self, rows: np.ndarray, other: Any) -> np.ndarray:
        """Inner products of noisy vectors, in items; float32 errors are far below the noise."""
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

    @property
    def _vector_noise(self) -> np.ndarray:
        return np.full(self.dimensions, self._items_of_noise / self.dimensions)

    def _noisy_vectors(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.vectors[rows] / self._unit**0.5, np.float32)

    def _noisy_sizes(self, rows: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, float]:
        """Squared lengths of what is left, minus those of the noise."""
        each = self._items_of_noise / self.dimensions
        sizes = np.einsum("ij,ij->i", rest, rest, dtype=np.float64)
        sizes -= self._items_of_noise - each
        typical = max(float(self.estimate_size().mean()), 0.0)
        return sizes, 2 * each * self._items_of_noise + 4 * each * typical

    def _shape(
        self, along: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.ones_like(sizes), sizes + along**2, sizes

    def _size_variance(self) -> np.ndarray:
        return 2 * self._energies**2 / self.dimensions

    def _pair_variance(self, pairs: RowPairs, metric: str) -> np.ndarray:
        """Covariances of sums of products of normals, over the noise and the codebook."""
        left, right = self._energies[pairs.left], pairs.there._energies[pairs.right]
        inner, n = self._inner(pairs), self.dimensions
        variances = OverlapVariance(
            (left * right + inner**2) / n,
            2 * left**2 / n,
            2 * right**2 / n,
            2 * left * inner / n,
            2 * right * inner / n,
            2 * inner**2 / n,
        )
        return variances.of(metric, inner, *self._floored(pairs))

    def _to_agree(self, other: Any) -> Any:
        return ("dimensions", "scale", "seed")

    def _layout(self) -> dict[str, Cells]:
        shape = (-1, self.dimensions)
        return {**self._id_layout(), "vectors": Cells(cells_of(self.grid_sigma), shape, "")}

    def _check_state(self) -> None:
        self._check_rows(self.vectors)


def cells_of(sigma: float) -> Any:
    """Integer type of the vectors for this sigma; public, as sigma is."""
    return np.int32 if sigma < NARROW else np.int64


class Jlt(GaussianMechanism[ReleasedJlt]):
    """Mechanism that releases profiles as noisy sums of random codewords.

    A private Johnson-Lindenstrauss transform: inner products of the released vectors estimate the
    common items. Four bytes per dimension and user, eight for very large noise.

    Parameters
    ----------
    dimensions : int or None, default=None
        Entries of a vector, 1 to 65,536. The noise of an entry does not depend on their number, so
        more dimensions add noise to similarities, and fewer make items collide. None for 64 epsilon
        or 300 / sigma, from 128 to 1,024, which finds similar users well; releases are compared at
        equal dimensions. Memberships are most accurate at many; the thesis has 1,000.
    epsilon : float or None, default=None
        Privacy loss of one unit, above 0. Give either `epsilon` or `sigma`.
    delta : float, default=1e-06
        Delta of the guarantee, between 0 and 1.
    sigma : float or None, default=None
        Standard deviation of the noise in codewords, above 0, as in the thesis; the statement then
        reports the epsilon.
    seed : int, default=0
        Public seed of the codebook; part of the release.
    typical_size : int, default=100
        Public number of items of a profile for which the statement reports the privacy loss of an
        entire profile. It does not change the release.

    See Also
    --------
    Signs : Only the signs of these sums, 32 times smaller.
    Blip : Bloom filters with flipped bits.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differentially private for one item of one profile under
    add/remove, with a public seed. One item changes the sum by its codeword, whose squared norm in
    integers is at most scale**2 by construction (the squared L2 sensitivity), whatever the item,
    and the noise is discrete Gaussian. Its loss is that of continuous noise on one number that
    moves by the norm [4]_, up to factors below the rounding, which `ProjectionNoise` proves: sigma
    is 4.227 at epsilon 1 and delta 1e-6, where continuous noise needs 4.2247. Repeated items count
    once.

    References
    ----------
    .. [1] Kenthapadi, Korolova, Mironov, Mishra. "Privacy via the Johnson-Lindenstrauss Transform".
       JPC 2013. https://arxiv.org/abs/1204.2606
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.2. Its equation (3.10) (noise) is about continuous noise and
       holds with high probability only; sigma is calibrated by [3]_ and [4]_ instead.
       https://theses.hal.science/tel-01430156
    .. [3] Canonne, Kamath, Steinke. "The Discrete Gaussian for Differential Privacy". NeurIPS 2020,
       Theorem 7 (exact privacy of one number) and 14 (concentrated privacy of several numbers).
       https://arxiv.org/abs/2004.00010
    .. [4] Balle, Wang. "Improving the Gaussian Mechanism for Differential Privacy: Analytical
       Calibration and Optimal Denoising". ICML 2018, Theorem 8. https://arxiv.org/abs/1805.06530

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> interactions = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> released = Jlt(dimensions=200, sigma=1).release(interactions, users=["ann", "bob"])
    >>> released.users_, released.vectors.shape, round(released.statement.epsilon, 2)
    (array(['ann', 'bob'], dtype=object), (2, 200), 4.89)
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"dimensions": LENGTHS, **GaussianMechanism.LIMITS}
    dimensions: int

    def __init__(
        self,
        *,
        dimensions: int | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        sigma: float | None = None,
        seed: int = 0,
        typical_size: int = 100,
    ) -> None:
        self._set_parameters(locals() | entries("dimensions", dimensions, epsilon, sigma))

    def _plan(
        self, request: ReleaseRequest, sets: ProfileSets, progress: Progress | None = None
    ) -> ProfilePlan[ReleasedJlt]:
        noise = ProjectionNoise.of(request, SCALE**2, self.sigma)
        sigma, numbers = float(noise.sigma), len(sets) * self.dimensions
        public: dict[str, Any] = dict(dimensions=self.dimensions, scale=SCALE, sigma=sigma / SCALE)

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {**self._ids(sets), "vectors": self._vectors(sets, noise, source, progress)}

        return ProfilePlan(
            ReleasedJlt,
            {"kind": sets.kind, "seed": self.seed, **public},
            noise.loss(request.events, request.relation),
            f"sums of codewords in {self.dimensions} dimensions, " + self._sentence(request, noise),
            noisy,
            nbytes=np.dtype(cells_of(sigma)).itemsize * numbers,
        )

    def _vectors(
        self,
        sets: ProfileSets,
        noise: ProjectionNoise,
        source: Source,
        progress: Progress | None,
    ) -> np.ndarray:
        kind = cells_of(float(noise.sigma))
        out = np.empty((len(sets), self.dimensions), kind)
        most = np.iinfo(kind)
        for part, cells in sums(sets.hashes, sets.starts, self.dimensions):
            add_gaussian(cells, noise.sigma, source=source)
            # Noisy numbers that do not fit are clipped, which is post-processing.
            profile_codes.cut_to(cells, most.min, most.max, out[part])
            advance(progress, part.stop, len(sets))
        return out
