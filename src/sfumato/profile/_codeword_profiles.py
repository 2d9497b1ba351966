"""What released sums of codewords share, whole or only their signs: codewords, noise and losses."""

from fractions import Fraction
from typing import Annotated, Any

import numpy as np

from sfumato._require import positive, whole
from sfumato.profile._codewords import LENGTH, SCALE, codewords, mean_square
from sfumato.profile._gaussian import GaussianNoise
from sfumato.profile._pairwise import PairwiseProfiles

__all__ = ["LENGTHS", "CodewordProfiles"]

LENGTHS = whole(1, LENGTH)


class CodewordProfiles(PairwiseProfiles, in_files=False):
    """The base of releases whose noise is discrete Gaussian, on sums of codewords.

    A subclass says in `_length` how many numbers a codeword has, and in `_moved` how far one item
    moves what gets the noise. scale is the norm of the longest codeword in the whole numbers that
    are kept; sigma that of the noise in codewords, as the mechanism takes it.
    """

    version = 2  # before, sigma was in whole numbers
    scale: Annotated[int, whole(1, SCALE)]
    sigma: Annotated[float, positive]

    @property
    def grid_sigma(self) -> float:
        """The sigma of the noise in the whole numbers that are kept: sigma times scale, exactly."""
        return self.sigma * self.scale

    def codewords(self, items: Any) -> np.ndarray:
        """The codeword of each item, a row of whole numbers whose norm is at most `scale`."""
        return codewords(self._hashed(items), self._length, self.scale)

    def _loss(self, items: int) -> float:
        """For any items: their codewords together are at most so many times as long as one.

        Those of most profiles are nearly orthogonal, and then lose no more than the root of so
        many.
        """
        noise = GaussianNoise(Fraction(self.sigma) * self.scale, self._moved)
        return noise.epsilon(items, self.statement.delta)

    @property
    def _length(self) -> int:
        raise NotImplementedError

    @property
    def _moved(self) -> int:
        """The most that one item moves what gets the noise, as a squared norm."""
        return self.scale**2

    @property
    def _unit(self) -> float:
        """The mean squared norm of a codeword, by which sums of squares become items."""
        return mean_square(self._length, self.scale)

    @property
    def _items_of_noise(self) -> float:
        """The noise of all numbers of a sum together, as so many items."""
        return self._length * self.grid_sigma**2 / self._unit
