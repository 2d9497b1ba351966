"""Likelihood of sums of codewords in Gaussian noise (JLT), and of the signs of such sums."""

from functools import cached_property
from typing import Any

import numpy as np
import scipy

from sfumato.attack.channels.profile_size import SIGMAS, Sizes, release_sizes
from sfumato.attack.numerics import Factor, sigmoid
from sfumato.core.tables import described
from sfumato.core.typing import Matrix
from sfumato.kernels.attack import gibbs
from sfumato.kernels.attack import gibbs_gaussian as gibbs_vectors

__all__ = ["SignChannel", "VectorChannel", "VectorMessages", "VectorState", "scaled_codes"]

LEAST_NOISE = 1e-6  # variance per component for codewords of norm 1; rounding exceeds less
DAMPING = 0.3  # of beliefs and of residuals


class VectorChannel:
    """Likelihood of released vectors (JLT): sums of a profile's codewords in Gaussian noise.

    Parameters
    ----------
    vectors : array_like of shape (n_users, n_dimensions)
        Released vectors.
    codewords : array_like of shape (n_items, n_dimensions)
        Codeword of each candidate item.
    sigma : float
        Standard deviation of the noise in each component, at least 0, in the units of the
        codewords. At 0 a small variance for rounding is assumed.
    sizes : Sizes or None, default=None
        Estimated profile sizes. If None, they are estimated from the norms of the vectors, by the
        norm estimator (3.11), corrected.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.2 (Johnson-Lindenstrauss transform with noise).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> observed = VectorChannel([[1.0, 1.0, 0.0]], np.eye(3), 0.1)
    >>> observed.sizes.estimates.round(2), observed.single(slice(0, 1)).round(1)
    (array([1.97]), array([[ 0.8,  0.8, -0.8]]))
    """

    def __init__(
        self, vectors: Matrix, codewords: Matrix, sigma: float, sizes: Sizes | None = None
    ) -> None:
        self._codes, self._powers, scale = scaled_codes(codewords)
        self._factors = Factor(self._codes), Factor(self._codes.T)
        self._vectors = np.asarray(vectors, np.float32) / np.float32(scale)
        self.users: int
        self.items: int
        self.users, self.items = len(self._vectors), len(self._codes)
        self._noise = max((float(sigma) / scale) ** 2, LEAST_NOISE)
        self._given = sizes

    def __repr__(self) -> str:
        return described(self, users=self.users, items=self.items, dimensions=self._codes.shape[1])

    @classmethod
    def of_release(cls, released: Any, items: np.ndarray) -> "VectorChannel":
        """Build the channel of a released JLT for these candidates.

        Parameters
        ----------
        released : ReleasedJlt
            Released profiles.
        items : ndarray of shape (n_items,)
            Identifiers of the candidates.

        Returns
        -------
        VectorChannel
            Users and items in the order given.
        """
        sizes, codewords = release_sizes(released), released.codewords(items)
        return cls(released.vectors, codewords, released.grid_sigma, sizes)

    @cached_property
    def sizes(self) -> Sizes:
        """Profile sizes estimated from the norms, with standard errors and upper bounds."""
        return self._given or self._by_norm()

    def _by_norm(self) -> Sizes:
        """Sizes from squared norms: noise subtracted, divided by the mean power of a codeword."""
        length = self._vectors.shape[1]
        norms = np.square(self._vectors).sum(axis=1, dtype=np.float64)
        estimates = (norms - length * self._noise) / self._powers.mean()
        errors = np.sqrt(2 / length) * norms / self._powers.mean()
        return Sizes(estimates, errors, estimates + SIGMAS * errors)

    def single(self, rows: slice, sizes: np.ndarray | None = None) -> np.ndarray:
        """Compute the log-likelihood ratio of each item by itself.

        The other items act as Gaussian noise, with the mean power of the user's entire row.

        Parameters
        ----------
        rows : slice
            Users to decode.
        sizes : ndarray or None, default=None
            Not used; part of the interface that all channels have.

        Returns
        -------
        ndarray of shape (n_rows, n_items)
            Log-likelihood ratios under the Gaussian model (thesis, section 3.2.2).
        """
        vectors = self._vectors[rows]
        power = np.maximum(np.square(vectors).mean(axis=1, keepdims=True), self._noise)
        matched = self._factors[1].after(vectors)
        return np.asarray((matched - self._powers / 2) / power, np.float64)

    def messages(self, rows: slice) -> "VectorMessages":
        """Start approximate message passing between the items and these users' vectors.

        Parameters
        ----------
        rows : slice
            Users to decode.

        Returns
        -------
        VectorMessages
            Message state, with a method `sweep`.
        """
        vectors, noise = self._vectors[rows], self._noise

        def residual(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            total = variance + noise
            return (vectors - mean) / total, 1 / total

        return VectorMessages(self._factors, self._powers, residual)

    def state(self, row: int, chosen: np.ndarray, inside: np.ndarray) -> "VectorState":
        """Start a profile of one user that a Gibbs sampler or a hill climber changes.

        Parameters
        ----------
        row : int
            Index of the user.
        chosen : ndarray of int
            Indices of the candidates that may be in the profile.
        inside : ndarray of int
            Positions in `chosen` of the items in the initial profile.

        Returns
        -------
        VectorState
            The profile with the likelihood gain of each candidate.
        """
        return VectorState(chosen, self._codes[chosen], self._vectors[row], self._noise, inside)

    def debiased(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the linear model of the channel.

        Returns
        -------
        tuple of (ndarray, ndarray, float)
            Vectors (users x dimensions), codewords (items x dimensions) and the variance of the
            noise of one component, all scaled to codewords of mean square norm 1.
        """
        return self._vectors, self._codes, self._noise


class VectorMessages:
    """Approximate message passing over a dense codebook (Donoho, Maleki, Montanari; Rangan's form).

    Takes `factors`, the codewords and their transpose; `powers`, their squared norms; and
    `residual`, a function from the mean and variance of each component to the score and curvature
    of the likelihood.
    """

    def __init__(self, factors: tuple[Factor, Factor], powers: np.ndarray, residual: Any) -> None:
        self._factors, self._powers, self._residual = factors, powers, residual
        self._beliefs: np.ndarray | None = None
        self._score: Any = 0.0
        self._ratios: Any = None

    def sweep(self, log_odds: np.ndarray) -> np.ndarray:
        """Exchange messages once, damped with the previous ones."""
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
    """A changing profile observed in Gaussian noise; `order` numbers its candidates."""

    every = 0

    def __init__(
        self,
        chosen: np.ndarray,
        codes: np.ndarray,
        vector: np.ndarray,
        noise: float,
        inside: np.ndarray,
    ) -> None:
        self.order: np.ndarray
        self.order, self._codes, self._noise = chosen, codes, noise
        self._gram = codes @ codes.T / np.float32(noise)
        self._gains = np.zeros(-(-chosen.size // gibbs.BLOCK) * gibbs.BLOCK)
        self.aim(vector, inside)

    def aim(self, vector: np.ndarray, inside: np.ndarray) -> None:
        """Set the gains for this released vector and the current profile."""
        residual = vector - self._codes[inside].sum(axis=0)
        gains = self._codes @ residual / self._noise - np.diag(self._gram) / 2
        self._gains[: gains.size] = gains

    def weigh(self, live: np.ndarray, weight: np.ndarray) -> None:
        """Do nothing: the kernel computes the weights at every step."""

    def walk(self, *arrays: Any) -> None:
        gibbs_vectors.walk_vectors(self._gram, self._gains, *arrays)

    def climb(self, *arrays: Any) -> None:
        gibbs_vectors.climb_vectors(self._gram, self._gains, *arrays)

    def refresh(self, inside: np.ndarray, draws: np.random.Generator | None) -> None:
        """Do nothing: the vector is known."""


def scaled_codes(codewords: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Codewords divided by their root mean square norm, their squared norms, and that norm."""
    codes = np.ascontiguousarray(codewords, np.float32)
    scale = float(np.sqrt(np.square(codes, dtype=np.float64).sum(axis=1).mean())) or 1.0
    codes = codes / np.float32(scale)
    return codes, np.square(codes).sum(axis=1), scale


EVERY = 100  # steps between two samples of the vectors behind the signs
HALF_LOG_TAU = 0.5 * np.log(2 * np.pi)


class SignChannel:
    """Likelihood of the released signs of noisy projections.

    Parameters
    ----------
    signs : array_like of bool, shape (n_users, n_bits)
        True where the noisy projection was at least 0.
    codewords : array_like of shape (n_items, n_bits)
        Codeword of each candidate item.
    sigma : float
        Standard deviation of the noise in the units of the codewords, at least 0.
    sizes : Sizes or None, default=None
        Estimated profile sizes. Signs alone do not determine them: if None, they are unknown (NaN).

    Notes
    -----
    Section 6.1 of the thesis proposes a private hash as a third mechanism beside BLIP and JLT.

    Examples
    --------
    >>> observed = SignChannel([[True, True, False]], np.eye(3), 0.5)
    >>> observed.single(slice(0, 1), np.ones(1)).round(2)
    array([[ 0.32,  0.32, -2.87]])
    """

    def __init__(
        self, signs: Any, codewords: Matrix, sigma: float, sizes: Sizes | None = None
    ) -> None:
        self._codes, self._powers, scale = scaled_codes(codewords)
        self._factors = Factor(self._codes), Factor(self._codes.T)
        self._signs = np.where(np.asarray(signs, bool), np.float32(1), np.float32(-1))
        self.users: int
        self.items: int
        self.users, self.items = len(self._signs), len(self._codes)
        self._noise = max((float(sigma) / scale) ** 2, LEAST_NOISE)
        nothing = np.full(self.users, np.inf)
        self.sizes: Sizes = sizes or Sizes(np.full(self.users, np.nan), nothing, nothing)

    def __repr__(self) -> str:
        return described(self, users=self.users, items=self.items, dimensions=self._codes.shape[1])

    @classmethod
    def of_release(cls, released: Any, items: np.ndarray) -> "SignChannel":
        """Build the channel of released signs for these candidates.

        Parameters
        ----------
        released : ReleasedSigns
            Released profiles.
        items : ndarray of shape (n_items,)
            Identifiers of the candidates.

        Returns
        -------
        SignChannel
            Users and items in the order given.
        """
        rows = np.ascontiguousarray(released.codes).view(np.uint8)
        signs = np.unpackbits(rows, axis=1, count=released.bits, bitorder="little")
        sizes, codewords = release_sizes(released), released.codewords(items)
        return cls(signs, codewords, released.grid_sigma, sizes)

    def single(self, rows: slice, sizes: np.ndarray) -> np.ndarray:
        """Compute the log-likelihood ratio of each item by itself.

        The other items of the profile add to the noise of a probit model, expanded to second order
        in the item's codeword, which is small beside that noise.

        Parameters
        ----------
        rows : slice
            Users to decode.
        sizes : ndarray of shape (n_users,)
            Expected size of each profile.

        Returns
        -------
        ndarray of shape (n_rows, n_items)
            Log-likelihood ratios.
        """
        signs = self._signs[rows]
        others = np.maximum(sizes[rows] - 1, 0)[:, None] * self._powers.mean()
        deviation = np.sqrt(self._noise + others / signs.shape[1])
        slope, bend = np.sqrt(2 / np.pi) / deviation, (2 / np.pi) / deviation**2
        matched = self._factors[1].after(signs)
        return np.asarray(slope * matched - bend * self._powers / 2, np.float64)

    def messages(self, rows: slice) -> VectorMessages:
        """Start approximate message passing between the items and these users' signs.

        Parameters
        ----------
        rows : slice
            Users to decode.

        Returns
        -------
        VectorMessages
            Message state, with a method `sweep`.
        """
        signs, noise = self._signs[rows], self._noise

        def residual(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            deviation = np.sqrt(variance + noise)
            z = signs * mean / deviation
            tail = _mills(z)
            return signs * tail / deviation, tail * (tail + z) / deviation**2

        return VectorMessages(self._factors, self._powers, residual)

    def state(self, row: int, chosen: np.ndarray, inside: np.ndarray) -> "_SignState":
        """Start a profile of one user that a Gibbs sampler or a hill climber changes.

        Parameters
        ----------
        row : int
            Index of the user.
        chosen : ndarray of int
            Indices of the candidates that may be in the profile.
        inside : ndarray of int
            Positions in `chosen` of the items in the initial profile.

        Returns
        -------
        _SignState
            The profile with the likelihood gain of each candidate.
        """
        return _SignState(chosen, self._codes[chosen], self._signs[row], self._noise, inside)


class _SignState(VectorState):
    """A profile observed in Gaussian noise; the vector behind the signs is resampled."""

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
        """Sample the vector given the signs and the profile; without a generator, take its mean."""
        deviation = np.sqrt(self._noise)
        z = self._signs * self._codes[inside].sum(axis=0) / deviation
        if draws is None:
            away = z + _mills(z)
        else:
            away = z - scipy.special.ndtri_exp(
                scipy.special.log_ndtr(z) + np.log1p(-draws.random(z.size))
            )
        self.aim((self._signs * away * deviation).astype(np.float32), inside)


def _mills(z: np.ndarray) -> np.ndarray:
    """phi(z) / Phi(z), the mean of a standard Gaussian truncated to values above -z."""
    return np.asarray(
        np.exp(-0.5 * np.square(z, dtype=np.float64) - HALF_LOG_TAU - scipy.special.log_ndtr(z))
    )
