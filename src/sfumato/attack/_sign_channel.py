"""Signs of sums of codewords in Gaussian noise, as decoders see them."""

from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from sfumato.attack._products import Factor
from sfumato.attack._sizes import Sizes, release_sizes
from sfumato.attack._vector_channel import (
    LEAST_NOISE,
    VectorMessages,
    VectorState,
    scaled_codes,
)

__all__ = ["SignChannel"]

EVERY = 100  # steps between two drawings of the vectors behind the signs
HALF_LOG_TAU = 0.5 * np.log(2 * np.pi)


class SignChannel:
    """Released signs of noised projections, and the codewords of all candidates.

    Parameters: signs, users x bits, true where the noised projection was at least 0; codewords,
    items x bits; sigma, the noise's standard deviation in units of the codewords; sizes, what is
    known of profile sizes (signs alone do not tell them).

    >>> seen = SignChannel([[True, True, False]], np.eye(3), 0.5)
    >>> seen.single(slice(0, 1), np.ones(1)).round(2)
    array([[ 0.32,  0.32, -2.87]])

    Thesis 6.1 asks for a private hash beside BLIP and JLT.
    """

    def __init__(
        self, signs: Any, codewords: Any, sigma: float, sizes: Sizes | None = None
    ) -> None:
        self._codes, self._powers, scale = scaled_codes(codewords)
        self._factors = Factor(self._codes), Factor(self._codes.T)
        self._signs = np.where(np.asarray(signs, bool), np.float32(1), np.float32(-1))
        self.users, self.items = len(self._signs), len(self._codes)
        self._noise = max((float(sigma) / scale) ** 2, LEAST_NOISE)
        nothing = np.full(self.users, np.inf)
        self.sizes = sizes or Sizes(np.full(self.users, np.nan), nothing, nothing)

    @classmethod
    def of_release(cls, released: Any, items: np.ndarray) -> "SignChannel":
        """The channel of released signs to these items."""
        rows = np.ascontiguousarray(released.codes).view(np.uint8)
        signs = np.unpackbits(rows, axis=1, count=released.bits, bitorder="little")
        sizes, codewords = release_sizes(released), released.codewords(items)
        return cls(signs, codewords, released.grid_sigma, sizes)

    def single(self, rows: slice, sizes: np.ndarray) -> np.ndarray:
        """Each codeword alone: the rest of the profile adds to the noise of the probit.

        To the second order in the codeword, which is small beside that noise.
        """
        signs = self._signs[rows]
        others = np.maximum(sizes[rows] - 1, 0)[:, None] * self._powers.mean()
        spread = np.sqrt(self._noise + others / signs.shape[1])
        slope, bend = np.sqrt(2 / np.pi) / spread, (2 / np.pi) / spread**2
        matched = self._factors[1].after(signs)
        return np.asarray(slope * matched - bend * self._powers / 2, np.float64)

    def messages(self, rows: slice) -> VectorMessages:
        """Messages between the items and the signs of these users."""
        signs, noise = self._signs[rows], self._noise

        def residual(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            spread = np.sqrt(variance + noise)
            z = signs * mean / spread
            tail = _mills(z)
            return signs * tail / spread, tail * (tail + z) / spread**2

        return VectorMessages(self._factors, self._powers, residual)

    def state(self, row: int, chosen: np.ndarray, inside: np.ndarray) -> "_SignState":
        """A changing profile of one user: of the chosen candidates, at first those `inside`."""
        return _SignState(chosen, self._codes[chosen], self._signs[row], self._noise, inside)


class _SignState(VectorState):
    """The vector behind the signs is drawn now and then; between, it is a profile behind noise."""

    every = EVERY

    def __init__(
        self,
        chosen: np.ndarray,
        codes: np.ndarray,
        signs: np.ndarray,
        noise: float,
        inside: np.ndarray,
    ) -> None:
        self._signs = signs
        super().__init__(chosen, codes, signs, noise, inside)
        self.refresh(inside, None)

    def refresh(self, inside: np.ndarray, draws: np.random.Generator | None) -> None:
        """Draw the vector given the signs and the profile; without draws, expect it."""
        deviation = np.sqrt(self._noise)
        z = self._signs * self._codes[inside].sum(axis=0) / deviation
        if draws is None:
            away = z + _mills(z)
        else:
            away = z - ndtri_exp(log_ndtr(z) + np.log1p(-draws.random(z.size)))
        self.aim((self._signs * away * deviation).astype(np.float32), inside)


def _mills(z: np.ndarray) -> np.ndarray:
    """phi(z) / Phi(z), the mean beyond -z of a Gaussian."""
    return np.asarray(np.exp(-0.5 * np.square(z, dtype=np.float64) - HALF_LOG_TAU - log_ndtr(z)))
