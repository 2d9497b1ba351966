"""Sums of codewords with discrete Gaussian noise: codebook, calibration and privacy loss."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.core.typing import Ids
from sfumato.core.validation import fraction, integer, optional, positive
from sfumato.kernels import profile_codes as kernels
from sfumato.kernels.alignment import frozen
from sfumato.kernels.sketch import codes as codebooks
from sfumato.privacy.accounting.calibration import epsilon_of, gaussian_sigma
from sfumato.privacy.accounting.gaussian_steps import SMOOTH
from sfumato.privacy.accounting.losses import Concentrated, GaussianNoise, Loss
from sfumato.privacy.noise.discrete import LARGEST
from sfumato.privacy.release import ReleaseRequest
from sfumato.privacy.rounding import round_up
from sfumato.profile.mechanism import ProfileMechanism
from sfumato.profile.released import ReleasedProfiles
from sfumato.profile.similarity import PairwiseProfiles

__all__ = [
    "LENGTH",
    "LENGTHS",
    "SCALE",
    "CodewordProfiles",
    "GaussianMechanism",
    "ProjectionNoise",
    "codewords",
    "entries",
    "mean_square",
    "sums",
]

# The longest codeword, in integers: large enough that rounding toward zero takes little off,
# 0.8 sqrt(length) / SCALE of the squared norm (0.15 % at 1,000 entries, 1.2 % at the most), small
# enough that 2**16 codewords are summed in 32 bits.
SCALE = 2**14
LENGTH = 2**16  # entries of a codeword, at most
TABLE = 2**24  # entries of codewords in memory at a time: 64 MiB
SUMS = 2**20  # entries of sums at a time: 8 MiB
BLOCK = 2**16  # entries of normals that are made, rounded and dropped


def codewords(hashes: np.ndarray, length: int, scale: int = SCALE) -> np.ndarray:
    """Codeword of each hash: uniform on the sphere, rounded towards zero to integers.

    **Guarantee.** The squared norm of every codeword, in integers, is at most scale**2. A codeword
    depends only on its hash, the length and the scale, and is equal on every machine.

    >>> word = codewords(np.array([7], np.uint64), 100)
    >>> word.dtype, bool((word.astype(np.int64) ** 2).sum() <= SCALE**2)
    (dtype('int32'), True)
    """
    panels = _panels(hashes, length, scale)
    words = panels.transpose(1, 0, 2).reshape(hashes.size, len(panels) * codebooks.PANEL)
    return np.ascontiguousarray(words[:, :length])


@lru_cache(64)
def mean_square(length: int, scale: int = SCALE) -> float:
    """Mean squared norm of a codeword, over 64 of them, which differ by far less than 1 %."""
    some = codewords(np.arange(64, dtype=np.uint64), length, scale).astype(np.float64)
    return float((some**2).sum() / len(some))


def sums(hashes: np.ndarray, starts: np.ndarray, length: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Sum the codewords of each set, some sets at a time, as int64.

    Each codeword is computed once if those of all distinct items fit TABLE, else once per part;
    memory is bounded either way. A sum of 2**31 codewords is below 2**45.
    """
    coded = pa.array(hashes).dictionary_encode()
    items = np.asarray(coded.dictionary, np.uint64)
    positions = np.asarray(coded.indices, np.int32)
    per_table = max(1, TABLE // length)
    complete = _panels(items, length, SCALE) if items.size <= per_table else None
    rows = max(1, (SUMS if complete is not None else 8 * SUMS) // length)
    for first in range(0, starts.size - 1, rows):
        bounds = starts[first : first + rows + 1]
        out = np.zeros((bounds.size - 1, length), np.int64)
        for at in range(0, items.size, per_table):
            part = items[at : at + per_table]
            table = _panels(part, length, SCALE) if complete is None else complete
            kernels.add(table, at, positions, bounds, out)
        yield slice(first, first + bounds.size - 1), out


def _panels(hashes: np.ndarray, length: int, scale: int) -> np.ndarray:
    """Codewords in an even number of panels of sixteen entries, padded with zeros."""
    count = 2 * -(-length // (2 * codebooks.PANEL))
    out = np.empty((count, hashes.size, codebooks.PANEL), np.int32)
    step = max(1, BLOCK // length)
    for start in range(0, hashes.size, step):
        part = slice(start, min(start + step, hashes.size))
        normals = np.empty((count, part.stop - start, codebooks.PANEL))
        codebooks.gaussian(frozen(hashes[part]), normals)
        kernels.round_inward(normals, length, scale, start, out)
    return out


FEWEST, MOST = 128, 1024  # entries of a codeword by default
BY_EPSILON, BY_SIGMA = 64, 300  # entries at epsilon 1, and at sigma 1, which is about epsilon 5


def entries(name: str, given: Any, epsilon: Any, sigma: Any) -> dict[str, Any]:
    """The number of entries that was given, or that is best for similar users at this noise.

    Chosen by public numbers alone. Similarities are most accurate where the noise of all entries
    is about as large as the items. What is no positive number is left to validation.

    >>> entries("bits", None, 4, None), entries("bits", None, None, 4.0), entries("bits", 7, 4, 0)
    ({'bits': 256}, {'bits': 128}, {'bits': 7})
    """
    if given is not None:
        return {name: given}
    best = float(FEWEST)
    if isinstance(epsilon, int | float) and epsilon > 0:
        best = BY_EPSILON * epsilon
    elif isinstance(sigma, int | float) and sigma > 0:
        best = BY_SIGMA / sigma
    return {name: round(min(max(best, FEWEST), MOST))}


FAINT = 1e-9  # epsilon stated where delta alone covers the loss
R = TypeVar("R", bound=ReleasedProfiles)


@dataclass(frozen=True)
class ProjectionNoise:
    """Gaussian noise on integers that one item changes by a vector of at most this squared norm.

    Guarantee: `loss` covers the noise. Proof: D(v) is discrete and N(v) continuous Gaussian noise,
    s = SMOOTH, and c the norm rounded up to an integer. As `gaussian_steps` shows, D(V + 2 s) on
    each number is a rounding of N(V + s), up to factors closer to 1 than 1e-100. N(V + s) looks the
    same from all sides, so that a change of norm c moves one number by c; and N(V + s) on one
    number is D(V) plus N(s), up to such a factor, if V >= s. So no change of norm c or less is
    easier to distinguish than one integer moved by c under D(V), whose loss is exact. With less
    noise the loss is that of concentrated privacy (Canonne, Kamath and Steinke 2020, Theorem 14).
    """

    sigma: Fraction
    norm_squared: int

    @classmethod
    def of(cls, request: ReleaseRequest, norm_squared: int, sigma: float | None) -> Self:
        """Noise of a given sigma (in codewords), or calibrated to the request's privacy."""
        if sigma is None:
            change = _norm(norm_squared) * request.events
            one = gaussian_sigma(request.epsilon, request.delta, change=change)
            variance = math.ceil(max(one * one, Fraction(SMOOTH)))
            exact = Fraction(math.isqrt(variance + 2 * SMOOTH) + 1)
        else:
            exact = Fraction(math.ceil(Fraction(sigma) * SCALE))  # rounded to more noise
        if exact > LARGEST:
            raise ValueError(
                f"{request.owner}: the noise would be too large for 64 bits; raise epsilon, or "
                "lower sigma or contributions."
            )
        return cls(exact, norm_squared)

    def loss(self, items: int, relation: str) -> Loss:
        """Loss of `items` items, whose codewords have a sum of at most `items` times the norm."""
        variance = self.sigma**2 - 2 * SMOOTH
        if variance >= SMOOTH:
            return GaussianNoise(variance, _norm(self.norm_squared) * items, relation=relation)
        rho = Fraction(items**2 * self.norm_squared) / (2 * self.sigma**2)
        return Concentrated(round_up(rho), relation=relation)

    def epsilon(self, items: int, delta: float) -> float:
        """Epsilon of `items` items added or removed; a replaced item counts as two."""
        return epsilon_of(self.loss(items, "add/remove"), delta)


def _norm(squared: int) -> int:
    """Square root, rounded up."""
    root = math.isqrt(squared)
    return root + (root * root < squared)


class GaussianMechanism(ProfileMechanism[R]):
    """Base of mechanisms that take an epsilon or a sigma, and a delta."""

    LIMITS: ClassVar[dict[str, Any]] = {
        "epsilon": optional(positive),
        "delta": fraction,
        "sigma": optional(positive),
        **ProfileMechanism.LIMITS,
    }
    epsilon: float | None
    delta: float
    sigma: float | None

    def _set_parameters(self, given: dict[str, Any]) -> None:
        owner, sigma = type(self).__name__, given["sigma"]
        if given["epsilon"] is None and (sigma is None or (sigma == 0 and sigma is not False)):
            raise ValueError(
                f"{owner}: epsilon must be given, or sigma above 0; without noise the profiles "
                "would not be private."
            )
        if given["epsilon"] is not None and sigma is not None:
            raise ValueError(f"{owner}: epsilon or sigma must be given, not both.")
        super()._set_parameters(given)

    def _privacy_parameters(self) -> tuple[float, float]:
        return FAINT if self.epsilon is None else self.epsilon, self.delta

    def _sentence(self, request: ReleaseRequest, noise: ProjectionNoise) -> str:
        """The noise and both losses: of one item, and of an entire profile."""
        losses = self._loss_sentence(request, lambda items: noise.epsilon(items, request.delta))
        return (
            f"discrete Gaussian noise of sigma {float(noise.sigma / SCALE):.6g} codewords on each "
            f"number; at delta {request.delta:g} {losses}"
        )


LENGTHS = integer(1, LENGTH)


class CodewordProfiles(PairwiseProfiles, in_files=False):
    """Base of releases with discrete Gaussian noise on sums of codewords.

    A subclass defines `_length`, the entries of a codeword, and `_moved`, the squared sensitivity
    to one item. scale is the norm of the longest codeword in the stored integers; sigma is the
    standard deviation of the noise in codewords, as of the mechanism.
    """

    version = 2  # before, sigma was in integers
    scale: Annotated[int, integer(1, SCALE)]
    sigma: Annotated[float, positive]

    @property
    def grid_sigma(self) -> float:
        """Standard deviation of the noise in the stored integers: exactly sigma times scale."""
        return self.sigma * self.scale

    def codewords(self, items: Ids) -> np.ndarray:
        """Compute the codeword of each item.

        Parameters
        ----------
        items : array_like or scalar
            Item ids, integers or text, in a profile or not.

        Returns
        -------
        ndarray of shape (n_items, length)
            Codewords in integers, int32, each of norm at most `scale`.
        """
        return codewords(self._hashed(items), self._length, self.scale)

    def _loss(self, items: int) -> float:
        """Epsilon of `items` items, whose codewords have a sum of at most `items` times the norm.

        The codewords of most profiles are nearly orthogonal; then the norm grows as the square
        root.
        """
        noise = ProjectionNoise(Fraction(self.sigma) * self.scale, self._moved)
        return noise.epsilon(items, self.statement.delta)

    @property
    def _length(self) -> int:
        raise NotImplementedError

    @property
    def _entries(self) -> int:
        return self._length

    @property
    def _moved(self) -> int:
        """Squared L2 sensitivity to one item, in the stored integers."""
        return self.scale**2

    @property
    def _unit(self) -> float:
        """Mean squared norm of a codeword, which converts sums of squares to items."""
        return mean_square(self._length, self.scale)

    @property
    def _items_of_noise(self) -> float:
        """Expected squared norm of the noise, as a number of items."""
        return self._length * self.grid_sigma**2 / self._unit
