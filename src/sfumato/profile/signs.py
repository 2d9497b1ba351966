"""Signs: profiles as the signs of noisy sums of codewords, with a noisy size."""

import math
from statistics import NormalDist
from typing import Annotated, Any, ClassVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, fraction, integer
from sfumato.kernels.sketch import codes as codes_kernels
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
from sfumato.sketch.similarity.row_codes import side_by_side

__all__ = ["ReleasedSigns", "Signs"]

AT_ONCE = 2**23  # signs turned into numbers at a time


class ReleasedSigns(CodewordProfiles):
    """Released signs of noisy sums of codewords, and a noisy size of each profile.

    Made by `Signs.release`, not by hand. Estimates sizes, common items, similarities, neighbours
    and memberships from the released signs and sizes alone.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differentially private with a public seed; `statement` names the
    unit, the relation and the parameters. Every estimate is post-processing, at no further privacy
    cost. Sizes are unbiased; common items and memberships are so up to terms of order 1 / bits and
    of the error of sizes.

    The fraction of different signs estimates the angle between the noisy sums, whose cosine is
    common / sqrt((size + noise) (size' + noise)) for a noise of bits sigma**2 items; the noisy
    sizes correct for it. Sizes may be negative. A membership is the product of signs and codeword,
    scaled: the sign of a normal of variance v and mean x is sqrt(2 / (pi v)) x on average, and v
    follows from the noisy size. With the ranking "pairs", neighbours are ranked by the noisy angle.

    `codes` contains one row of signs per user, 64 per word, lowest first: 1 where the noisy sum is
    at least 0. `counts` is `weight` times the size, with noise. `scale` (the norm of the longest
    codeword) and `weight` (of one item in `counts`) are in those integers; `sigma` is the standard
    deviation of the noise in codewords.

    References
    ----------
    .. [1] Charikar. "Similarity Estimation Techniques from Rounding Algorithms". STOC 2002, here of
       sums with noise. https://doi.org/10.1145/509907.509965
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 6.1 (proposes such a mechanism).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.privacy.noise import InsecureSeededSource  # for tests only
    >>> from sfumato.profile import Signs
    >>> users, items = [1] * 200 + [2] * 200, [*range(200), *range(100, 300)]
    >>> interactions = Interactions(users, items, [1] * 400)
    >>> source = InsecureSeededSource(1)
    >>> released = Signs(epsilon=60).release(interactions, users=[1, 2], source=source)
    >>> error = released.similarity(metric="inner")[0, 1] - 100
    >>> bool(abs(error) < 3 * released.similarity_variance(metric="inner")[0, 1] ** 0.5)
    True
    """

    bits: Annotated[int, LENGTHS]
    weight: Annotated[int, integer(1, SCALE)]
    codes: np.ndarray
    counts: np.ndarray
    _of = "Signs"

    def estimate_size(self) -> np.ndarray:
        return self.counts / self.weight

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        confidence = fraction.check(type(self).__name__, "confidence", confidence)
        half_width = NormalDist().inv_cdf((1 + confidence) / 2) * self.grid_sigma / self.weight
        size = self.estimate_size()
        return np.maximum(size - half_width, 0.0), np.maximum(size + half_width, 0.0)

    def memberships(self, items: Ids, rows: Any = None) -> np.ndarray:
        checked, words = self._checked_rows(rows), self.codewords(items).astype(np.float32)
        out = np.empty((checked.size, len(words)))
        step = max(1, AT_ONCE // self.bits)
        for start in range(0, checked.size, step):
            out[start : start + step] = self._signs(checked[start : start + step]) @ words.T
        total = (np.maximum(self.estimate_size()[checked], 1.0) + self._items_of_noise) / self.bits
        return np.asarray(out * np.sqrt(math.pi / 2 * total / self._unit)[:, np.newaxis])

    def noisy_cosine(self, other: Any = None, *, rows: Any = None) -> np.ndarray:
        """Estimate the cosine between the noisy sums, which includes their noise.

        Parameters
        ----------
        other : ReleasedSigns or None, default=None
            A release with the same parameters, at any epsilon; None for this one.
        rows : array_like of int or None, default=None
            Row numbers of this release, None for all.

        Returns
        -------
        ndarray of shape (n_rows, n_others)
            Cosines from -1 to 1, from the number of different signs alone.
        """
        return self._cosines(self._pairs(self._checked_rows(rows), self._other(other)))

    @property
    def _length(self) -> int:
        return self.bits

    @property
    def _moved(self) -> int:
        return self.scale**2 + self.weight**2

    @property
    def _average_size(self) -> float:
        return max(float(self.estimate_size().mean()), 0.0)

    @property
    def _vector_noise(self) -> np.ndarray:
        """Variance of a sign, scaled, that its mean leaves on average."""
        total = math.pi / 2 * (self._average_size + self._items_of_noise)
        return np.full(self.bits, (total - self._average_size) / self.bits)

    def _noisy_vectors(self, rows: np.ndarray) -> np.ndarray:
        """Signs in the scale of the sums of each row, which its size and the noise tell.

        The sign of a normal number is sqrt(2 / pi) times the number on average, in its deviations.
        """
        sizes = np.maximum(self.estimate_size()[rows], 0.0) + self._items_of_noise
        scales = np.sqrt(math.pi / 2 / self.bits * sizes).astype(np.float32)
        return np.asarray(self._signs(rows) * scales[:, np.newaxis])

    def _noisy_sizes(self, rows: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, float]:
        return self.estimate_size()[rows], float(self._size_variance()[0])

    def _signs(self, rows: np.ndarray) -> np.ndarray:
        packed = np.ascontiguousarray(self.codes[rows]).view(np.uint8)
        ones = np.unpackbits(packed, axis=1, bitorder="little", count=self.bits)
        return ones.astype(np.float32) * 2 - 1

    def _count(self, rows: np.ndarray, other: Any) -> np.ndarray:
        """Number of different signs; the other's rows are read once for every sixteen of these."""
        panels = side_by_side(self.codes[rows])
        out = np.empty((len(other), panels.shape[0] * panels.shape[2]), np.int32)
        codes_kernels.hamming(other.codes, panels, out)
        return out.T[: rows.size]

    def _cosines(self, pairs: RowPairs) -> np.ndarray:
        return np.asarray(np.cos(pairs.counted * (math.pi / self.bits)))

    def _totals(self, pairs: RowPairs) -> tuple[np.ndarray, np.ndarray]:
        """Size plus noise of both rows, in items."""
        here, there = (
            np.maximum(each.estimate_size(), 0.0) + each._items_of_noise
            for each in (self, pairs.there)
        )
        return here[pairs.left], there[pairs.right]

    def _inner(self, pairs: RowPairs) -> np.ndarray:
        left, right = self._totals(pairs)
        return np.asarray(self._cosines(pairs) * np.sqrt(left * right))

    def _noisy(self, pairs: RowPairs, metric: str) -> np.ndarray:
        if metric == "cosine":
            return self._cosines(pairs)
        inner = self._inner(pairs)
        if metric == "inner":
            return inner
        left, right = self._totals(pairs)
        return np.asarray(inner / (left + right - inner))

    def _size_variance(self) -> np.ndarray:
        return np.full(len(self), (self.grid_sigma / self.weight) ** 2)

    def _pair_variance(self, pairs: RowPairs, metric: str) -> np.ndarray:
        """Variance from independent bits and from independent errors of both sizes."""
        angle = pairs.counted * (math.pi / self.bits)
        left, right = self._totals(pairs)
        of_left = self._size_variance()[pairs.left]
        of_right = pairs.there._size_variance()[pairs.right]
        inner = self._inner(pairs)
        turned = np.sin(angle) ** 2 * np.maximum(angle * (math.pi - angle), 0.0) / self.bits
        by_left, by_right = inner / (2 * left), inner / (2 * right)
        variances = OverlapVariance(
            left * right * turned + by_left**2 * of_left + by_right**2 * of_right,
            of_left,
            of_right,
            by_left * of_left,
            by_right * of_right,
            np.zeros(()),
        )
        return variances.of(metric, inner, *self._floored(pairs))

    def _to_agree(self, other: Any) -> Any:
        return ("bits", "scale", "seed")

    def _layout(self) -> dict[str, Cells]:
        return {
            **self._id_layout(),
            "codes": Cells(np.uint64, (-1, -(-self.bits // 64)), ""),
            "counts": Cells(np.int64, (-1,), ""),
        }

    def _check_state(self) -> None:
        self._check_rows(self.codes)
        self._check_rows(self.counts)
        spare = -self.bits % 64
        if spare and (self.codes[:, -1] >> np.uint64(64 - spare)).any():
            raise ValueError("a code has more signs than it should.")


# Weight of one item in the noisy size: a quarter of a codeword makes the noise 3 % larger, and the
# error of sizes is then four times the noise in codewords: 3 items at epsilon 8, 10 at epsilon 2.
WEIGHT = SCALE // 4


class Signs(GaussianMechanism[ReleasedSigns]):
    """Mechanism that releases profiles as the signs of noisy sums of codewords.

    A private locality-sensitive hash: the fraction of different signs estimates the angle between
    profiles. One bit per sign and 8 bytes for the size, per user.

    Parameters
    ----------
    bits : int or None, default=None
        Signs of a profile, 1 to 65,536. Each has the noise of the entire budget, whatever their
        number. None for 64 epsilon or 300 / sigma, from 128 to 1,024, as the dimensions of `Jlt`.
    epsilon : float or None, default=None
        Privacy loss of one unit, above 0. Give either `epsilon` or `sigma`.
    delta : float, default=1e-06
        Delta of the guarantee, between 0 and 1.
    sigma : float or None, default=None
        Standard deviation of the noise in codewords, above 0; the statement then reports the
        epsilon.
    seed : int, default=0
        Public seed of the codebook; part of the release.
    typical_size : int, default=100
        Public number of items of a profile for which the statement reports the privacy loss of an
        entire profile. It does not change the release.

    See Also
    --------
    Jlt : The noisy sums themselves.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differentially private for one item of one profile under
    add/remove, with a public seed. One item changes the sum by its codeword and the size by one,
    together a vector of squared norm at most scale**2 + weight**2 in integers; discrete Gaussian
    noise is added to all of it, and taking signs of the result is post-processing.

    Compared with `Jlt` of as many entries: 32 times smaller and compared by XOR, with standard
    errors of similarities pi / 2 times as large; the noise is larger by 3 %.

    References
    ----------
    .. [1] Charikar. "Similarity Estimation Techniques from Rounding Algorithms". STOC 2002.
       https://doi.org/10.1145/509907.509965
    .. [2] Kenthapadi, Korolova, Mironov, Mishra. "Privacy via the Johnson-Lindenstrauss Transform".
       JPC 2013. https://arxiv.org/abs/1204.2606
    .. [3] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 6.1 (proposes such a mechanism).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> interactions = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> released = Signs(bits=200, epsilon=8).release(interactions, users=["ann", "bob"])
    >>> released.codes.shape, released.counts.shape
    ((2, 4), (2,))
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"bits": LENGTHS, **GaussianMechanism.LIMITS}
    bits: int

    def __init__(
        self,
        *,
        bits: int | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        sigma: float | None = None,
        seed: int = 0,
        typical_size: int = 100,
    ) -> None:
        self._set_parameters(locals() | entries("bits", bits, epsilon, sigma))

    def _plan(
        self, request: ReleaseRequest, sets: ProfileSets, progress: Progress | None = None
    ) -> ProfilePlan[ReleasedSigns]:
        noise = ProjectionNoise.of(request, SCALE**2 + WEIGHT**2, self.sigma)
        public: dict[str, Any] = dict(
            bits=self.bits, scale=SCALE, weight=WEIGHT, sigma=float(noise.sigma / SCALE)
        )

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {**self._ids(sets), **self._signed(sets, noise, source, progress)}

        return ProfilePlan(
            ReleasedSigns,
            {"kind": sets.kind, "seed": self.seed, **public},
            noise.loss(request.events, request.relation),
            f"{self.bits} signs of sums of codewords, and sizes, " + self._sentence(request, noise),
            noisy,
            nbytes=len(sets) * 8 * (-(-self.bits // 64) + 1),
        )

    def _signed(
        self,
        sets: ProfileSets,
        noise: ProjectionNoise,
        source: Source,
        progress: Progress | None,
    ) -> dict[str, np.ndarray]:
        counts = sets.sizes.astype(np.int64) * WEIGHT
        add_gaussian(counts, noise.sigma, source=source)
        codes = np.zeros((len(sets), -(-self.bits // 64)), np.uint64)
        for part, cells in sums(sets.hashes, sets.starts, self.bits):
            add_gaussian(cells, noise.sigma, source=source)
            packed = np.packbits(cells >= 0, axis=1, bitorder="little")
            codes.view(np.uint8)[part, : packed.shape[1]] = packed
            advance(progress, part.stop, len(sets))
        return {"codes": codes, "counts": counts}
