"""Sums of codewords in Gaussian noise (JLT), as decoders see them.

Signs of sums of codewords in Gaussian noise, as decoders see them.
"""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from sfumato.attack.channels.profile_size import SIGMAS, Sizes, release_sizes
from sfumato.attack.numerics import Factor, sigmoid
from sfumato.core.tables import described
from sfumato.core.typing import Matrix
from sfumato.kernels.attack import gibbs_gaussian as gibbs_vectors
from sfumato.kernels.attack.gibbs import BLOCK

__all__ = ["SignChannel", "VectorChannel", "VectorMessages", "VectorState", "scaled_codes"]

LEAST_NOISE = 1e-6  # variance a component, of codewords of norm 1: rounding is louder below
DAMPING = 0.3  # of beliefs and of residuals


class VectorChannel:
    """Released vectors, each the sum of a profile's codewords and noise, and all codewords.

    Thesis 3.2.

    Parameters
    ----------
    vectors : array_like
        Users x dimensions.
    codewords : array_like
        Items x dimensions.
    sigma : float
        The standard deviation of the noise in each component, from 0 up, in the same units (0
        stands for rounding).
    sizes : Sizes or None, default=None
        What is known of profile sizes, else read off the norms by (3.11), corrected.

    Examples
    --------
    >>> seen = VectorChannel([[1.0, 1.0, 0.0]], np.eye(3), 0.1)
    >>> seen.sizes.told.round(2), seen.single(slice(0, 1)).round(1)
    (array([1.97]), array([[ 0.8,  0.8, -0.8]]))
    """

    def __init__(
        self, vectors: Matrix, codewords: Matrix, sigma: float, sizes: Sizes | None = None
    ) -> None:
        self._codes, self._powers, scale = scaled_codes(codewords)
        self._factors = Factor(self._codes), Factor(self._codes.T)
        self._vectors = np.asarray(vectors, np.float32) / np.float32(scale)
        self.users, self.items = len(self._vectors), len(self._codes)
        self._noise = max((float(sigma) / scale) ** 2, LEAST_NOISE)
        self._given = sizes

    def __repr__(self) -> str:
        return described(self, users=self.users, items=self.items, dimensions=self._codes.shape[1])

    @classmethod
    def of_release(cls, released: Any, items: np.ndarray) -> "VectorChannel":
        """The channel of a released JLT to these items.

        Parameters
        ----------
        released : object
            TODO.
        items : ndarray
            TODO.

        Returns
        -------
        VectorChannel
            The channel of a released JLT to these items.
        """
        sizes, codewords = release_sizes(released), released.codewords(items)
        return cls(released.vectors, codewords, released.grid_sigma, sizes)

    @cached_property
    def sizes(self) -> Sizes:
        """What the norms tell about how many items there are."""
        return self._given or self._by_norm()

    def _by_norm(self) -> Sizes:
        length = self._vectors.shape[1]
        norms = np.square(self._vectors).sum(axis=1, dtype=np.float64)
        told = (norms - length * self._noise) / self._powers.mean()
        spread = np.sqrt(2 / length) * norms / self._powers.mean()
        return Sizes(told, spread, told + SIGMAS * spread)

    def single(self, rows: slice, sizes: np.ndarray | None = None) -> np.ndarray:
        """Each codeword against Gaussian noise as strong as the whole row (section 3.2.2).

        Parameters
        ----------
        rows : slice
            TODO.
        sizes : ndarray or None, default=None
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        vectors = self._vectors[rows]
        power = np.maximum(np.square(vectors).mean(axis=1, keepdims=True), self._noise)
        matched = self._factors[1].after(vectors)
        return np.asarray((matched - self._powers / 2) / power, np.float64)

    def messages(self, rows: slice) -> "VectorMessages":
        """Messages between the items and the components of these users' vectors.

        Parameters
        ----------
        rows : slice
            TODO.

        Returns
        -------
        VectorMessages
            TODO.
        """
        vectors, noise = self._vectors[rows], self._noise

        def residual(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            whole = variance + noise
            return (vectors - mean) / whole, 1 / whole

        return VectorMessages(self._factors, self._powers, residual)

    def state(self, row: int, chosen: np.ndarray, inside: np.ndarray) -> "VectorState":
        """A changing profile of one user: of the chosen candidates, at first those `inside`.

        Parameters
        ----------
        row : int
            TODO.
        chosen : ndarray
            TODO.
        inside : ndarray
            TODO.

        Returns
        -------
        VectorState
            A changing profile of one user: of the chosen candidates, at first those `inside`.
        """
        return VectorState(chosen, self._codes[chosen], self._vectors[row], self._noise, inside)

    def debiased(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Rows, codewords and noise variance of the linear model.

        Returns
        -------
        tuple
            TODO.
        """
        return self._vectors, self._codes, self._noise


class VectorMessages:
    """Approximate message passing over a dense codebook (Donoho, Maleki, Montanari; Rangan's form).

    Parameters: factors, the codewords and their transpose; powers, their squared norms; residual,
    from expected components and their variances to the score and curvature of what was released.
    """

    def __init__(self, factors: tuple[Factor, Factor], powers: np.ndarray, residual: Any) -> None:
        self._factors, self._powers, self._residual = factors, powers, residual
        self._beliefs: np.ndarray | None = None
        self._score: Any = 0.0
        self._ratios: Any = None

    def sweep(self, log_odds: np.ndarray) -> np.ndarray:
        """One exchange of messages, with a share of the old ones."""
        ratios = 0.0 if self._ratios is None else self._ratios
        new = sigmoid(log_odds + ratios).astype(np.float32)
        old = new if self._beliefs is None else self._beliefs
        self._beliefs = beliefs = (1 - DAMPING) * new + DAMPING * old
        mean = self._factors[0].after(beliefs)
        variance = (beliefs * (1 - beliefs) * self._powers).sum(axis=1) / mean.shape[1]
        mean -= variance[:, None] * self._score
        score, curvature = self._residual(mean, variance[:, None])
        keep = 0.0 if self._ratios is None else DAMPING
        self._score = (1 - keep) * score + keep * self._score
        sharpness = curvature.mean(axis=1, keepdims=True) * self._powers
        self._ratios = self._factors[1].after(self._score) + sharpness * (beliefs - 0.5)
        return np.asarray(self._ratios, np.float64)


class VectorState:
    """A changing profile behind Gaussian noise; `order` are its candidates."""

    every = 0

    def __init__(
        self,
        chosen: np.ndarray,
        codes: np.ndarray,
        vector: np.ndarray,
        noise: float,
        inside: np.ndarray,
    ) -> None:
        self.order, self._codes, self._noise = chosen, codes, noise
        self._gram = codes @ codes.T / np.float32(noise)
        self._gains = np.zeros(-(-chosen.size // BLOCK) * BLOCK)
        self.aim(vector, inside)

    def aim(self, vector: np.ndarray, inside: np.ndarray) -> None:
        """Set the gains for this released vector and the profile as it stands."""
        left = vector - self._codes[inside].sum(axis=0)
        told = self._codes @ left / self._noise - np.diag(self._gram) / 2
        self._gains[: told.size] = told

    def weigh(self, live: np.ndarray, weight: np.ndarray) -> None:
        """Nothing to prepare: the loop weighs at every step."""

    def walk(self, *arrays: Any) -> None:
        gibbs_vectors.walk_vectors(self._gram, self._gains, *arrays)

    def climb(self, *arrays: Any) -> None:
        gibbs_vectors.climb_vectors(self._gram, self._gains, *arrays)

    def refresh(self, inside: np.ndarray, draws: np.random.Generator | None) -> None:
        """Nothing to draw: the vector is known."""


def scaled_codes(codewords: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Codewords over their usual norm, the squared norms of these, and the usual norm."""
    codes = np.ascontiguousarray(codewords, np.float32)
    scale = float(np.sqrt(np.square(codes, dtype=np.float64).sum(axis=1).mean())) or 1.0
    codes = codes / np.float32(scale)
    return codes, np.square(codes).sum(axis=1), scale


EVERY = 100  # steps between two drawings of the vectors behind the signs
HALF_LOG_TAU = 0.5 * np.log(2 * np.pi)


class SignChannel:
    """Released signs of noised projections, and the codewords of all candidates.

    Thesis 6.1 asks for a private hash beside BLIP and JLT.

    Parameters
    ----------
    signs : object
        Users x bits, true where the noised projection was at least 0.
    codewords : array_like
        Items x bits.
    sigma : float
        The noise's standard deviation in units of the codewords.
    sizes : Sizes or None, default=None
        What is known of profile sizes (signs alone do not tell them).

    Examples
    --------
    >>> seen = SignChannel([[True, True, False]], np.eye(3), 0.5)
    >>> seen.single(slice(0, 1), np.ones(1)).round(2)
    array([[ 0.32,  0.32, -2.87]])
    """

    def __init__(
        self, signs: Any, codewords: Matrix, sigma: float, sizes: Sizes | None = None
    ) -> None:
        self._codes, self._powers, scale = scaled_codes(codewords)
        self._factors = Factor(self._codes), Factor(self._codes.T)
        self._signs = np.where(np.asarray(signs, bool), np.float32(1), np.float32(-1))
        self.users, self.items = len(self._signs), len(self._codes)
        self._noise = max((float(sigma) / scale) ** 2, LEAST_NOISE)
        nothing = np.full(self.users, np.inf)
        self.sizes = sizes or Sizes(np.full(self.users, np.nan), nothing, nothing)

    def __repr__(self) -> str:
        return described(self, users=self.users, items=self.items, dimensions=self._codes.shape[1])

    @classmethod
    def of_release(cls, released: Any, items: np.ndarray) -> "SignChannel":
        """The channel of released signs to these items.

        Parameters
        ----------
        released : object
            TODO.
        items : ndarray
            TODO.

        Returns
        -------
        SignChannel
            The channel of released signs to these items.
        """
        rows = np.ascontiguousarray(released.codes).view(np.uint8)
        signs = np.unpackbits(rows, axis=1, count=released.bits, bitorder="little")
        sizes, codewords = release_sizes(released), released.codewords(items)
        return cls(signs, codewords, released.grid_sigma, sizes)

    def single(self, rows: slice, sizes: np.ndarray) -> np.ndarray:
        """Each codeword alone: the rest of the profile adds to the noise of the probit.

        To the second order in the codeword, which is small beside that noise.

        Parameters
        ----------
        rows : slice
            TODO.
        sizes : ndarray
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        signs = self._signs[rows]
        others = np.maximum(sizes[rows] - 1, 0)[:, None] * self._powers.mean()
        spread = np.sqrt(self._noise + others / signs.shape[1])
        slope, bend = np.sqrt(2 / np.pi) / spread, (2 / np.pi) / spread**2
        matched = self._factors[1].after(signs)
        return np.asarray(slope * matched - bend * self._powers / 2, np.float64)

    def messages(self, rows: slice) -> VectorMessages:
        """Messages between the items and the signs of these users.

        Parameters
        ----------
        rows : slice
            TODO.

        Returns
        -------
        VectorMessages
            TODO.
        """
        signs, noise = self._signs[rows], self._noise

        def residual(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            spread = np.sqrt(variance + noise)
            z = signs * mean / spread
            tail = _mills(z)
            return signs * tail / spread, tail * (tail + z) / spread**2

        return VectorMessages(self._factors, self._powers, residual)

    def state(self, row: int, chosen: np.ndarray, inside: np.ndarray) -> "_SignState":
        """A changing profile of one user: of the chosen candidates, at first those `inside`.

        Parameters
        ----------
        row : int
            TODO.
        chosen : ndarray
            TODO.
        inside : ndarray
            TODO.

        Returns
        -------
        _SignState
            A changing profile of one user: of the chosen candidates, at first those `inside`.
        """
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
