"""Item weights from a noisy Gram matrix: what stands out of the noise, or nothing.

All inputs are noisy or public numbers. Symmetric noise of n rows with standard deviation s off the
diagonal has eigenvalues up to 2 s sqrt(n) (Wigner's semicircle). A direction of the data is visible
beyond this edge only, and its eigenvalue is shrunk by what the noise added. The first direction is
popularity. Constants were chosen with FilmTrust, MovieLens, Last.fm and generated data in sight,
and checked on baskets of two shops (groceries, retail), which were not.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

__all__ = ["LARGEST", "SURE", "Head", "NoisyGram", "head_of", "head_scores"]

ENOUGH = 160.0  # users per noise of a user from which on pairs are worth their budget
HEAD = 6.0  # items of the head per square root of that
FEWEST, LARGEST = 30, 2048  # items of the head
SURE = 3.0  # standard deviations above 0 from which the count of an item is used
ROUNDS = 4  # of estimating the diagonal of the low-rank part
SAMPLED = 4.0  # times the variance by sampling users that counts for the edge, per own item
MOST_SAMPLED = 2.0
LEAST = 0.5  # fraction of the diagonal that no low-rank part explains
RIDGE = 5.0  # regularization, in standard deviations of the noise on the diagonal


def head_of(counts: np.ndarray, deviation: float, worth: float) -> np.ndarray:
    """Return the positions of the items whose pairs are worth measuring, most popular first.

    counts: noisy counts of items, with noise of this standard deviation. worth: noisy number of
    users, in standard deviations of the noise on the diagonal of a matrix to which a user adds at
    most 1 in norm. Empty if the noise would hide all but popularity, or if popularity itself is so
    uncertain that all of the budget should go there.
    """
    confident = int((counts > SURE * deviation).sum())
    if worth < ENOUGH or confident < min(FEWEST, counts.size // 2):
        return np.empty(0, np.int64)
    size = min(confident, int(HEAD * np.sqrt(worth)), LARGEST)
    return np.argsort(-counts, kind="stable")[: size if size > 1 else 0]


@dataclass(frozen=True)
class Head:
    """Items whose pairs were measured: positions, popularity, and weights between them.

    weights: a row for an own item; all 0 if nothing but popularity stands out of the noise.
    """

    positions: np.ndarray
    popular: np.ndarray
    weights: np.ndarray

    @classmethod
    def none(cls) -> "Head":
        """Return the head without items."""
        return cls(np.empty(0, np.int64), np.empty(0), np.empty((0, 0)))


@dataclass(frozen=True)
class NoisyGram:
    """Noisy Gram matrix of some items, whose diagonal cells are ignored.

    diagonal: an estimate of the diagonal, above 0. noise: standard deviation of the noise off the
    diagonal. unit: what a user adds to a cell, about. counts: noisy counts of the items, with noise
    of standard deviation count_noise.
    """

    matrix: np.ndarray
    diagonal: np.ndarray
    noise: float
    unit: float
    counts: np.ndarray
    count_noise: float

    @property
    def history(self) -> float:
        """Estimate of the number of items of a typical user, at least 1."""
        return 1.0 + max(self._pairs() / float(self.diagonal.sum()), 0.0)

    def deviation(self, sampled: float = 1.0) -> float:
        """Standard deviation of a cell: noise, and a part of what sampling users adds (Poisson)."""
        size = self.diagonal.size
        mean = max(self._pairs() / (size * (size - 1)), 0.0)
        return float(np.sqrt(self.noise**2 + sampled * self.unit * mean))

    def _pairs(self) -> float:
        """Sum off the diagonal."""
        return float(self.matrix.sum()) - float(np.trace(self.matrix))


def head_scores(positions: np.ndarray, noisy: NoisyGram) -> Head:
    """Return popularity and weights of the items at these positions.

    With one direction beyond the noise there are no weights, and popularity is the mean of the
    counts and of that direction, weighted by precision. With more, weights are those of
    `LinearItems`, solved on the denoised matrix.
    """
    # Long histories average over pairs, so that real directions lie below the edge of sampling too.
    edge = noisy.deviation(min(SAMPLED / noisy.history, MOST_SAMPLED))
    values, vectors = _directions(noisy.matrix, noisy.diagonal, edge)
    weights = np.zeros_like(noisy.matrix)
    if not values.size:
        return Head(positions, noisy.counts, weights)
    popular = _combined(noisy, float(values[-1]), vectors[:, -1])
    if values.size > 1:
        weights = _solved((vectors * values) @ vectors.T, noisy.diagonal, noisy.deviation())
    return Head(positions, popular, weights)


def _combined(noisy: NoisyGram, value: float, vector: np.ndarray) -> np.ndarray:
    """Return popularity by the counts and by the first direction, weighted by their precision."""
    first = vector * np.sign(vector.sum())
    scale = float(noisy.counts @ first)
    if scale <= 0:
        return noisy.counts
    of_counts, of_first = (value * noisy.count_noise) ** 2, (scale * noisy.deviation()) ** 2
    total = noisy.counts * of_first + scale * first * of_counts
    return np.asarray(total / (of_counts + of_first))


def _directions(
    noisy: np.ndarray, diagonal: np.ndarray, deviation: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues beyond the noise, rising and shrunk, and their eigenvectors.

    An eigenvalue x beyond the edge e becomes sqrt(x**2 - e**2), which has the least squared error
    (Gavish and Donoho, "Optimal Shrinkage of Singular Values", 2017, for square matrices). The
    diagonal of the low-rank part, below `diagonal`, is found by iteration.
    """
    matrix, edge = noisy.copy(), 2 * deviation * np.sqrt(diagonal.size)
    own = np.zeros(diagonal.size)
    for _ in range(ROUNDS):
        np.fill_diagonal(matrix, own)
        values, vectors = eigh(matrix, subset_by_value=(edge, np.inf))
        values = np.sqrt(values**2 - edge**2)
        own = np.minimum((vectors**2) @ values, diagonal)
    return values, vectors


def _solved(low_rank: np.ndarray, diagonal: np.ndarray, deviation: float) -> np.ndarray:
    """Return the weights of ridge regression of each item on the others, a row for an own item."""
    alone = np.maximum(diagonal - np.diag(low_rank), LEAST * diagonal)
    low_rank[np.diag_indices_from(low_rank)] += alone + RIDGE * np.sqrt(2) * deviation
    inverse = np.linalg.inv(low_rank)
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return np.asarray(weights)
