"""Released signs of noisy profiles: neighbours and items in common from one bit a number."""

import math
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np

from sfumato._require import fraction, whole
from sfumato.kernels.bits import hamming
from sfumato.profile._codeword_profiles import LENGTHS, CodewordProfiles
from sfumato.profile._codewords import SCALE
from sfumato.profile._measures import Spread
from sfumato.profile._pairwise import Pairs
from sfumato.sketch._base import Cells
from sfumato.sketch._code_table import side_by_side

__all__ = ["ReleasedSigns"]

AT_ONCE = 2**23  # signs turned into numbers at a time


class ReleasedSigns(CodewordProfiles):
    """The signs of sums of codewords that got noise, and a noisy size for each profile, for good.

    Made by `Signs.release`. Guarantee: (epsilon, delta)-differential privacy with a public seed, as
    its `statement` says. Signs tell the angle of the noisy sums, whose cosine is
    common / sqrt((size + noise) (size' + noise)) for a noise of bits sigma**2 items; the
    noisy sizes undo it. Sizes are unbiased; items in common and memberships are so up to terms of
    1 / bits and of the error of sizes. Neighbours are ranked by the noisy angle itself.
    Parameters: bits, scale (the longest codeword) and weight (of one item in `counts`) in whole
    numbers, sigma (of the noise, in codewords), seed, kind of the users' ids. `codes` holds a row
    of signs for each user, 64 a word, lowest first: 1 where the noisy sum is 0 or more; `counts`
    weight times the size, with noise.

    >>> from sfumato.data import Interactions
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.profile import Signs
    >>> had = Interactions([1] * 200 + [2] * 200, [*range(200), *range(100, 300)], [1] * 400)
    >>> told = Signs(epsilon=60).release(had, users=[1, 2], source=InsecureSeededSource(1))
    >>> inner = told.similarity(measure="inner")[0, 1]
    >>> bool(abs(inner - 100) < 3 * told.similarity_variance(measure="inner")[0, 1] ** 0.5)
    True

    Charikar 2002, of sums with noise: thesis 6.1 asks for such a third mechanism.
    """

    bits: Annotated[int, LENGTHS]
    weight: Annotated[int, whole(1, SCALE)]
    codes: np.ndarray
    counts: np.ndarray
    _of = "Signs"

    def estimate_size(self) -> np.ndarray:
        """How many items each profile has, from its noisy count; it may be below 0."""
        return self.counts / self.weight

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of items between which each true one lies, with this probability."""
        confidence = fraction.check(type(self).__name__, "confidence", confidence)
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * self.grid_sigma / self.weight
        size = self.estimate_size()
        return np.maximum(size - reach, 0.0), np.maximum(size + reach, 0.0)

    def memberships(self, items: Any, rows: Any = None) -> np.ndarray:
        """For each row and item an estimate of 1 if it is in the profile and of 0 if not.

        The sign of a normal of variance v moved by x is sqrt(2 / (pi v)) x on average, so signs
        times codeword are undone by the root of v, which the noisy size tells.
        """
        asked, words = self._asked_rows(rows), self.codewords(items).astype(np.float32)
        out = np.empty((asked.size, len(words)))
        step = max(1, AT_ONCE // self.bits)
        for start in range(0, asked.size, step):
            out[start : start + step] = self._signs(asked[start : start + step]) @ words.T
        total = (np.maximum(self.estimate_size()[asked], 1.0) + self._items_of_noise) / self.bits
        return np.asarray(out * np.sqrt(math.pi / 2 * total / self._unit)[:, np.newaxis])

    def noisy_cosine(self, other: Any = None, *, rows: Any = None) -> np.ndarray:
        """The cosine of the angle of the noisy sums, which signs alone tell: rows x others."""
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

    def _cosines(self, pairs: Pairs) -> np.ndarray:
        return np.asarray(np.cos(pairs.counted * (math.pi / self.bits)))

    def _totals(self, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """The size and noise of both rows, as so many items."""
        here, there = (
            np.maximum(each.estimate_size(), 0.0) + each._items_of_noise
            for each in (self, pairs.there)
        )
        return here[pairs.left], there[pairs.right]

    def _inner(self, pairs: Pairs) -> np.ndarray:
        left, right = self._totals(pairs)
        return np.asarray(self._cosines(pairs) * np.sqrt(left * right))

    def _noisy(self, pairs: Pairs, measure: str) -> np.ndarray:
        if measure == "cosine":
            return self._cosines(pairs)
        inner = self._inner(pairs)
        if measure == "inner":
            return inner
        left, right = self._totals(pairs)
        return np.asarray(inner / (left + right - inner))

    def _size_variance(self) -> np.ndarray:
        return np.full(len(self), (self.grid_sigma / self.weight) ** 2)

    def _spread(self, pairs: Pairs, measure: str) -> np.ndarray:
        """The bits are independent; the errors of sizes are so of them and of each other."""
        angle = pairs.counted * (math.pi / self.bits)
        left, right = self._totals(pairs)
        of_left = self._size_variance()[pairs.left]
        of_right = pairs.there._size_variance()[pairs.right]
        inner = self._inner(pairs)
        turned = np.sin(angle) ** 2 * np.maximum(angle * (math.pi - angle), 0.0) / self.bits
        by_left, by_right = inner / (2 * left), inner / (2 * right)
        spread = Spread(
            left * right * turned + by_left**2 * of_left + by_right**2 * of_right,
            of_left,
            of_right,
            by_left * of_left,
            by_right * of_right,
            np.zeros(()),
        )
        return spread.of(measure, inner, *self._floored(pairs))

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
