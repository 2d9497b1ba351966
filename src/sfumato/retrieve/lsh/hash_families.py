"""Locality-sensitive hash families: near vectors agree more often; steps to missed buckets."""

import math
from functools import cached_property
from typing import Protocol

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.kernels.retrieve import bucket_tables as probes
from sfumato.kernels.retrieve import bucket_tables as tables
from sfumato.kernels.sketch import codes as buckets
from sfumato.retrieve.lsh.buckets import coefficients
from sfumato.sketch.projection.directions import directions as panels
from sfumato.sketch.projection.directions import project_all
from sfumato.sketch.similarity.p_stable import MAX_BUCKET, PStableSketch

__all__ = ["Bands", "HashFamily", "Hyperplanes", "RandomLines", "SetMinima"]


class HashFamily(Protocol):
    """Independent integer hashes of vectors."""

    def values(self, X: np.ndarray) -> np.ndarray:
        """Real values before rounding to hashes, float64 (rows, hashes)."""

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Hashes, int32 (rows, hashes)."""

    def steps(self, values: np.ndarray, codes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Steps to a neighbouring hash: cost of each (rows, hashes), and -1 or 1."""

    def weights(self, bands: int, rows: int, seed: int) -> np.ndarray:
        """Weights, uint64 (bands, rows): the key of a band is the weighted sum of its hashes."""


class Hyperplanes:
    """Sides of random hyperplanes through the origin; P(agree) = 1 - arccos(cosine) / pi.

    shape: number of bands and hashes per band. directions: "random", or "super-bit", which makes
    the hyperplanes of a band orthogonal as far as the dimension permits.

    Charikar 2002; Ji, Li, Yan, Zhang and Tian 2012.
    """

    def __init__(
        self, shape: tuple[int, int], dimension: int, seed: int, directions: str = "random"
    ) -> None:
        self._kind = "gaussian" if directions == "random" else directions
        self._used = _aligned(shape, dimension if directions == "super-bit" else 0)
        self._dimension, self._seed = dimension, seed

    @cached_property  # made when first used: a file of a few bytes can request many
    def _panels(self) -> np.ndarray:
        return panels(self._kind, int(self._used[-1]) + 1, self._dimension, self._seed)

    @cached_property
    def _squares(self) -> np.ndarray:
        return np.asarray((self._panels**2).sum(1).reshape(-1)[self._used])

    def values(self, X: np.ndarray) -> np.ndarray:
        return project_all(X, self._panels)[:, self._used]

    def codes(self, values: np.ndarray) -> np.ndarray:
        return (values >= 0).astype(np.int32)

    def steps(self, values: np.ndarray, codes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(values * values / self._squares, 1 - 2 * codes)]

    @staticmethod
    def agree(cosine: float) -> float:
        if not -1 <= cosine <= 1:
            raise ValueError(f"LshIndex: similarity must be a cosine from -1 to 1, not {cosine!r}.")
        return 1 - math.acos(cosine) / math.pi

    @staticmethod
    def weights(bands: int, rows: int, seed: int) -> np.ndarray:
        # The key is the bits themselves: up to 64 rows, and quickly sorted where they are few.
        return np.tile(np.uint64(1) << np.arange(rows, dtype=np.uint64), (bands, 1))


class RandomLines:
    """Cells of a given width on randomly shifted random lines; P(agree) as of `PStableSketch`.

    Datar, Immorlica, Indyk and Mirrokni 2004.
    """

    def __init__(self, shape: tuple[int, int], dimension: int, seed: int, width: float) -> None:
        hashes = shape[0] * shape[1]
        self.hashes, self.width = hashes, width
        self._dimension, self._seed = dimension, seed
        words = hash_column(range(-1, -1 - hashes, -1), seed)  # keys 0 and up are coordinates
        self._shifts = (words >> np.uint64(11)) * 2.0**-53

    @cached_property
    def _panels(self) -> np.ndarray:
        return panels("gaussian", self.hashes, self._dimension, self._seed)

    def values(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # `codes` refuses what is too far out
            return project_all(X, self._panels)[:, : self.hashes] / self.width + self._shifts

    def codes(self, values: np.ndarray) -> np.ndarray:
        out = np.empty(values.shape, np.int32)
        if buckets.fill(values, np.zeros(self.hashes), 1.0, MAX_BUCKET, out) >= 0:
            raise ValueError(
                "LshIndex: a vector is more than 2**53 times the width out; choose a larger width."
            )
        return out

    def steps(self, values: np.ndarray, codes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        below = values - np.floor(values)
        return [(below**2, np.full_like(codes, -1)), ((1 - below) ** 2, np.full_like(codes, 1))]

    @staticmethod
    def agree(distance: float, width: float) -> float:
        if distance < 0:
            raise ValueError(
                f"LshIndex: similarity must be a distance from 0 up, not {distance!r}."
            )
        return float(PStableSketch(width, hashes=1).collision_probability(distance))

    @staticmethod
    def weights(bands: int, rows: int, seed: int) -> np.ndarray:
        return coefficients(bands, rows, seed)


class SetMinima:
    """Minima of sets, computed before (MinHash); P(agree) is the Jaccard similarity.

    Broder 1997.
    """

    def values(self, X: np.ndarray) -> np.ndarray:
        return X

    def codes(self, values: np.ndarray) -> np.ndarray:
        return values.view(np.int32)

    def steps(self, values: np.ndarray, codes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        raise NotImplementedError  # other minima say nothing about buckets nearby

    @staticmethod
    def agree(jaccard: float) -> float:
        if not 0 <= jaccard <= 1:
            raise ValueError(
                f"LshIndex: similarity must be a Jaccard similarity from 0 to 1, not {jaccard!r}."
            )
        return jaccard

    @staticmethod
    def weights(bands: int, rows: int, seed: int) -> np.ndarray:
        return coefficients(bands, rows, seed)


class Bands:
    """One key per band of hashes, equal where all hashes of the band are equal.

    family has bands * rows hashes; seed is that of the combination into keys.
    """

    def __init__(self, family: HashFamily, bands: int, rows: int, seed: int) -> None:
        self.family, self.shape = family, (bands, rows)
        self._weights = family.weights(bands, rows, seed)

    def keys(self, X: np.ndarray) -> np.ndarray:
        """Keys, uint64 (len(X), bands)."""
        return self._keys(self.family.codes(self.family.values(X)))

    def probe_keys(self, X: np.ndarray, count: int) -> np.ndarray:
        """Keys, uint64 (len(X), bands, count): the own key of each band and the nearest others."""
        values = self.family.values(X)
        codes = self.family.codes(values)
        keys, shape = self._keys(codes), (len(X), *self.shape)
        if count == 1:
            return keys[:, :, None]
        moves = self.family.steps(values, codes)
        costs = np.concatenate([cost.reshape(shape) for cost, _ in moves], axis=2)
        steps = [by.reshape(shape).astype(np.int64).astype(np.uint64) for _, by in moves]
        out = np.empty((*keys.shape, count), np.uint64)
        added = np.concatenate([step * self._weights for step in steps], axis=2)
        probes.probe(keys, costs, added, self.shape[1], out)
        return out

    def _keys(self, codes: np.ndarray) -> np.ndarray:
        out = np.empty((len(codes), self.shape[0]), np.uint64)
        tables.combine(codes, self._weights, out)
        return out


def _aligned(shape: tuple[int, int], batch: int) -> np.ndarray:
    """Indices of the directions to use, so that a band is not split between orthogonal batches."""
    bands, rows = shape
    per_batch = batch // rows  # bands in a batch
    if not per_batch:
        return np.arange(bands * rows)
    band = np.arange(bands)
    first = band // per_batch * batch + band % per_batch * rows
    return np.asarray((first[:, None] + np.arange(rows)).reshape(-1))
