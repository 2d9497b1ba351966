"""Signs: each profile the signs of a noisy sum of its items' codewords, and its noisy size.

Released signs of noisy profiles: neighbours and items in common from one bit a number.
"""

import math
from statistics import NormalDist
from typing import Annotated, Any, ClassVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, fraction, integer
from sfumato.kernels.sketch.codes import hamming
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
from sfumato.sketch.similarity.row_codes import side_by_side

__all__ = ["ReleasedSigns", "Signs"]

AT_ONCE = 2**23  # signs turned into numbers at a time


class ReleasedSigns(CodewordProfiles):
    """The signs of sums of codewords that got noise, and a noisy size for each profile, for good.

    Made by `Signs.release`.

    bits, scale (the longest codeword) and weight (of one item in `counts`) in whole numbers, sigma
    (of the noise, in codewords), seed, kind of the users' ids. `codes` holds a row of signs for
    each user, 64 a word, lowest first: 1 where the noisy sum is 0 or more; `counts` weight times
    the size, with noise.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differential privacy with a public seed, as its `statement`
    says. Signs tell the angle of the noisy sums, whose cosine is common / sqrt((size + noise)
    (size' + noise)) for a noise of bits sigma**2 items; the noisy sizes undo it. Sizes are
    unbiased; items in common and memberships are so up to terms of 1 / bits and of the error of
    sizes. Neighbours are ranked by the noisy angle itself.

    References
    ----------
    .. [1] Charikar 2002, of sums with noise: thesis 6.1 asks for such a third mechanism.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.profile import Signs
    >>> had = Interactions([1] * 200 + [2] * 200, [*range(200), *range(100, 300)], [1] * 400)
    >>> told = Signs(epsilon=60).release(had, users=[1, 2], source=InsecureSeededSource(1))
    >>> inner = told.similarity(metric="inner")[0, 1]
    >>> bool(abs(inner - 100) < 3 * told.similarity_variance(metric="inner")[0, 1] ** 0.5)
    True
    """

    bits: Annotated[int, LENGTHS]
    weight: Annotated[int, integer(1, SCALE)]
    codes: np.ndarray
    counts: np.ndarray
    _of = "Signs"

    def estimate_size(self) -> np.ndarray:
        """How many items each profile has, from its noisy count; it may be below 0.

        Returns
        -------
        ndarray
            How many items each profile has, from its noisy count; it may be below 0.
        """
        return self.counts / self.weight

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of items between which each true one lies, with this probability.

        Parameters
        ----------
        confidence : float, default=0.95
            TODO.

        Returns
        -------
        tuple
            TODO.
        """
        confidence = fraction.check(type(self).__name__, "confidence", confidence)
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * self.grid_sigma / self.weight
        size = self.estimate_size()
        return np.maximum(size - reach, 0.0), np.maximum(size + reach, 0.0)

    def memberships(self, items: Ids, rows: Any = None) -> np.ndarray:
        """For each row and item an estimate of 1 if it is in the profile and of 0 if not.

        The sign of a normal of variance v moved by x is sqrt(2 / (pi v)) x on average, so signs
        times codeword are undone by the root of v, which the noisy size tells.

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
        asked, words = self._asked_rows(rows), self.codewords(items).astype(np.float32)
        out = np.empty((asked.size, len(words)))
        step = max(1, AT_ONCE // self.bits)
        for start in range(0, asked.size, step):
            out[start : start + step] = self._signs(asked[start : start + step]) @ words.T
        total = (np.maximum(self.estimate_size()[asked], 1.0) + self._items_of_noise) / self.bits
        return np.asarray(out * np.sqrt(math.pi / 2 * total / self._unit)[:, np.newaxis])

    def noisy_cosine(self, other: Any = None, *, rows: Any = None) -> np.ndarray:
        """The cosine of the angle of the noisy sums, which signs alone tell: rows x others.

        Parameters
        ----------
        other : object, default=None
            TODO.
        rows : object, default=None
            TODO.

        Returns
        -------
        ndarray
            The cosine of the angle of the noisy sums, which signs alone tell: rows x others.
        """
        return self._cosines(self._pairs(self._asked_rows(rows), self._other(other)))

    @property
    def _length(self) -> int:
        return self.bits

    @property
    def _moved(self) -> int:
        return self.scale**2 + self.weight**2

    def _signs(self, rows: np.ndarray) -> np.ndarray:
        packed = np.ascontiguousarray(self.codes[rows]).view(np.uint8)
        ones = np.unpackbits(packed, axis=1, bitorder="little", count=self.bits)
        return ones.astype(np.float32) * 2 - 1

    def _count(self, rows: np.ndarray, other: Any) -> np.ndarray:
        """How many signs differ; the other's rows are read once for every sixteen of these."""
        panels = side_by_side(self.codes[rows])
        out = np.empty((len(other), panels.shape[0] * panels.shape[2]), np.int32)
        hamming(other.codes, panels, out)
        return out.T[: rows.size]

    def _cosines(self, pairs: RowPairs) -> np.ndarray:
        return np.asarray(np.cos(pairs.counted * (math.pi / self.bits)))

    def _totals(self, pairs: RowPairs) -> tuple[np.ndarray, np.ndarray]:
        """The size and noise of both rows, as so many items."""
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

    def _spread(self, pairs: RowPairs, metric: str) -> np.ndarray:
        """The bits are independent; the errors of sizes are so of them and of each other."""
        angle = pairs.counted * (math.pi / self.bits)
        left, right = self._totals(pairs)
        of_left = self._size_variance()[pairs.left]
        of_right = pairs.there._size_variance()[pairs.right]
        inner = self._inner(pairs)
        turned = np.sin(angle) ** 2 * np.maximum(angle * (math.pi - angle), 0.0) / self.bits
        by_left, by_right = inner / (2 * left), inner / (2 * right)
        spread = OverlapVariance(
            left * right * turned + by_left**2 * of_left + by_right**2 * of_right,
            of_left,
            of_right,
            by_left * of_left,
            by_right * of_right,
            np.zeros(()),
        )
        return spread.of(metric, inner, *self._floored(pairs))

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


# Of one item in the noisy size: a quarter of a codeword makes the noise 3 % larger, and sizes are
# then right within four times the noise in codewords: 3 items at epsilon 8, 10 at epsilon 2.
WEIGHT = SCALE // 4


class Signs(GaussianMechanism[ReleasedSigns]):
    """Profiles as the signs of noisy sums of codewords: a private hash whose angle is similarity.

    Parameters
    ----------
    bits : int, default=1000
        Signs of a profile, up to 65,536: every one has the noise of the whole budget however many
        there are, so that similarities are best at about items / sigma**2 of them, 200 for 100
        items at epsilon 8.
    epsilon : float or None, default=None
        Of one unit, or sigma, of the noise in codewords.
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
    moves the sum by its codeword and the size by one, together a vector of squared norm at most
    scale**2 + weight**2 in integers; discrete Gaussian noise is added to all of them, and taking
    signs of the result costs nothing more. Against `Jlt` of as many numbers: 32 times less room and
    comparisons by XOR, for a standard error of similarities that is pi / 2 times as large; the
    noise is the same but for 3 %.

    References
    ----------
    .. [1] Charikar 2002; Kenthapadi, Korolova, Mironov and Mishra 2013; thesis 6.1.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> had = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> told = Signs(bits=200, epsilon=8).release(had, users=["ann", "bob"])
    >>> told.codes.shape, told.counts.shape
    ((2, 4), (2,))
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
        self._set_parameters(locals())

    def _plan(self, request: ReleaseRequest, sets: ProfileSets) -> ProfilePlan[ReleasedSigns]:
        noise = ProjectionNoise.of(request, SCALE**2 + WEIGHT**2, self.sigma)
        public: dict[str, Any] = dict(
            bits=self.bits, scale=SCALE, weight=WEIGHT, sigma=float(noise.sigma / SCALE)
        )

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {**self._ids(sets), **self._signed(sets, noise, source)}

        return ProfilePlan(
            ReleasedSigns,
            {"kind": sets.kind, "seed": self.seed, **public},
            noise.loss(request.events, request.relation),
            f"{self.bits} signs of sums of codewords, and sizes, " + self._sentence(request, noise),
            noisy,
            nbytes=len(sets) * 8 * (-(-self.bits // 64) + 1),
        )

    def _signed(
        self, sets: ProfileSets, noise: ProjectionNoise, source: Source
    ) -> dict[str, np.ndarray]:
        counts = sets.sizes.astype(np.int64) * WEIGHT
        add_gaussian(counts, noise.sigma, source=source)
        codes = np.zeros((len(sets), -(-self.bits // 64)), np.uint64)
        for part, cells in sums(sets.hashes, sets.starts, self.bits):
            add_gaussian(cells, noise.sigma, source=source)
            packed = np.packbits(cells >= 0, axis=1, bitorder="little")
            codes.view(np.uint8)[part, : packed.shape[1]] = packed
        return {"codes": codes, "counts": counts}
