"""Released JLT profiles: sizes, items in common and neighbours, from noisy sums of codewords."""

from functools import cached_property
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np

from sfumato._require import fraction
from sfumato.profile._codeword_profiles import LENGTHS, CodewordProfiles
from sfumato.profile._measures import Spread
from sfumato.profile._pairwise import Pairs
from sfumato.sketch._base import Cells

__all__ = ["ReleasedJlt", "cells_of"]

AT_ONCE = 2**23  # numbers turned into floats at a time: 32 MiB
NARROW = 2**26  # sigma below which 32 bits hold noise of any size that occurs


class ReleasedJlt(CodewordProfiles):
    """Sums of the codewords of each profile, with Gaussian noise on every number, for good.

    Made by `Jlt.release`. Guarantee: (epsilon, delta)-differential privacy with a public seed, as
    its `statement` says. Sizes, items in common and memberships are unbiased over noise and
    codebook; cosine and Jaccard divide them by sizes, which are not taken below their standard
    error. Neighbours are ranked by the similarity of the noisy vectors, as dividing by small noisy
    sizes would favour small profiles; the similarities told are those without noise.
    Parameters: dimensions, scale (the norm of the longest codeword in the whole numbers of
    `vectors`), sigma (of the noise, in codewords, as of `Jlt`; `grid_sigma` in those whole
    numbers), seed, kind of the users' ids. `vectors` holds a row for each user.

    >>> from sfumato.data import Interactions
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.profile import Jlt
    >>> had = Interactions([1] * 200 + [2] * 200, [*range(200), *range(100, 300)], [1] * 400)
    >>> told = Jlt(epsilon=60).release(had, users=[1, 2], source=InsecureSeededSource(1))
    >>> inner = told.similarity(measure="inner")[0, 1]
    >>> bool(abs(inner - 100) < 3 * told.similarity_variance(measure="inner")[0, 1] ** 0.5)
    True

    Thesis (3.10), (3.11) without its factor L / (L - 1): the noise has a known mean, 0.
    """

    dimensions: Annotated[int, LENGTHS]
    vectors: np.ndarray
    _of = "Jlt"

    def estimate_size(self) -> np.ndarray:
        """How many items each profile has: squares less those of the noise; it may be below 0."""
        return self._energies - self._items_of_noise

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of items between which each true one lies, with about this probability.

        A sum of squares is taken as chi-square, of as many degrees as dimensions, and its cube root
        as normal (Wilson and Hilferty 1931).
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

    def memberships(self, items: Any, rows: Any = None) -> np.ndarray:
        """For each row and item an estimate of 1 if it is in the profile and of 0 if not.

        Unbiased; its variance is sigma**2 of noise and size / dimensions of other items.
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

    def _inner(self, pairs: Pairs) -> np.ndarray:
        return np.asarray(pairs.counted, np.float64)

    def _noisy(self, pairs: Pairs, measure: str) -> np.ndarray:
        products = pairs.counted.astype(np.float64)
        if measure == "inner":
            return products
        left, right = self._energies[pairs.left], pairs.there._energies[pairs.right]
        below = np.sqrt(left * right) if measure == "cosine" else left + right - products
        return np.asarray(products / np.maximum(below, 1e-300))

    def _size_variance(self) -> np.ndarray:
        return 2 * self._energies**2 / self.dimensions

    def _spread(self, pairs: Pairs, measure: str) -> np.ndarray:
        """The covariances of sums of products of normals: over the noise and the codebook."""
        left, right = self._energies[pairs.left], pairs.there._energies[pairs.right]
        inner, n = self._inner(pairs), self.dimensions
        spread = Spread(
            (left * right + inner**2) / n,
            2 * left**2 / n,
            2 * right**2 / n,
            2 * left * inner / n,
            2 * right * inner / n,
            2 * inner**2 / n,
        )
        return spread.of(measure, inner, *self._floored(pairs))

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
