"""Weighted places whose kernel sums are those of a sketch: the smoothing of the kernel undone."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from sfumato.density._field import Field
from sfumato.density._sampling import by_population
from sfumato.sketch._radial import profile

__all__ = ["Match", "matched"]

PLACES = 1023  # candidates at a time: their kernel matrix has 4 MiB
ROUNDS = 2  # the second one places candidates where the first found weight
STEPS = 30  # of each round; more would fit the noise
POWER_STEPS = 8  # for the largest eigenvalue, which bounds a step
TABLE = 2**14  # values of the kernel
NEIGHBOUR = 3  # which neighbour's distance a drawn point may stray by, itself the first


@dataclass(frozen=True)
class Match:
    """Places, the share of the points that is near each, and how far its points may stray."""

    places: np.ndarray
    shares: np.ndarray
    reach: np.ndarray

    def drawn(self, field: Field, size: int, rng: np.random.Generator) -> np.ndarray:
        """Points near places that are taken by their shares, within the field's bounds."""
        chosen = rng.choice(len(self.places), size, p=self.shares)
        stray = rng.normal(size=(size, field.dimension)) * self.reach[chosen, None]
        return np.clip(self.places[chosen] + stray, *map(np.array, field.bounds))


def matched(field: Field, rng: np.random.Generator) -> Match:
    """Non-negative shares, summing to 1, of places in the box, with the kernel sums of the field.

    They minimise w K w / 2 - w f, which is half the squared distance in the kernel's own space
    between them and the data, up to a constant and to the errors of f; so it asks only for f at
    the places. Candidates are even points of the box, points drawn by the field, and points drawn
    by its power d + 1, which is integrable even where the kernel falls as 1 / distance.

    The distance: Gretton et al. 2012; its steps: Beck and Teboulle 2009, begun anew where they
    turn back (O'Donoghue and Candes 2015).
    """
    third = PLACES // 3
    sharp = partial(_power, field, field.dimension + 1)
    places = np.concatenate(
        [
            field.uniform(third, rng),
            by_population(field.values, field.bounds, third, rng),
            by_population(sharp, field.bounds, third, rng),
        ]
    )
    for left in reversed(range(ROUNDS)):
        shares = _shares(_kernel(field, places), field.values(places))
        if left:
            places = _nearer(field, places, shares, rng)
    return Match(places, shares, _reach(places))


def _power(field: Field, power: int, points: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(field.values(points), 0.0, 1.0) ** power)  # noise may pass 1


def _kernel(field: Field, places: np.ndarray) -> np.ndarray:
    """The kernel of every two places within 1e-6, read from a table over r / (1 + r)."""
    from scipy.spatial.distance import pdist, squareform

    far = pdist(places) / field.setting.bandwidth
    at = TABLE * (far / (1 + far))
    left = at.astype(np.int32)
    ends = np.arange(TABLE) / TABLE
    table = np.append(profile(field.setting.kernel, ends / (1 - ends)), 0.0)
    near = table[left] + (at - left) * np.diff(table, append=0.0)[left]
    kernel = squareform(near.astype(np.float32), checks=False)
    np.fill_diagonal(kernel, 1.0)
    return np.asarray(kernel)


def _shares(kernel: np.ndarray, told: np.ndarray) -> np.ndarray:
    """Where w K w / 2 - w f is least on the simplex, nearly: accelerated projected steps."""
    length = 1 / _largest_eigenvalue(kernel)
    told = told.astype(kernel.dtype)
    shares = ahead = np.full(told.size, 1 / told.size, kernel.dtype)
    pace = 1.0
    for _ in range(STEPS):
        fresh = _on_simplex(ahead - length * (kernel @ ahead - told))
        if (fresh - shares) @ (ahead - fresh) > 0:
            pace = 1.0
        faster = (1 + math.sqrt(1 + 4 * pace**2)) / 2
        ahead = fresh + (pace - 1) / faster * (fresh - shares)
        shares, pace = fresh, faster
    return np.asarray(shares / shares.sum(dtype=np.float64), np.float64)


def _largest_eigenvalue(kernel: np.ndarray) -> float:
    """A little above it; every entry is positive, so that repeated products find it soon."""
    vector = np.ones(len(kernel), kernel.dtype)
    for _ in range(POWER_STEPS):
        vector = kernel @ vector
        vector /= np.linalg.norm(vector)
    return float(vector @ (kernel @ vector)) * 1.1


def _on_simplex(vector: np.ndarray) -> np.ndarray:
    """The nearest vector of non-negative numbers that sum to 1 (Duchi et al. 2008)."""
    falling = np.sort(vector)[::-1]
    over = (np.cumsum(falling) - 1) / np.arange(1, vector.size + 1)
    return np.asarray(np.maximum(vector - over[np.flatnonzero(falling > over)[-1]], 0.0))


def _nearer(
    field: Field, places: np.ndarray, shares: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The places that got a share, and new ones around them in place of the others."""
    used = places[shares > 0]
    fresh = len(places) - len(used)
    spread = np.full(len(places), field.setting.bandwidth / 2 / np.sqrt(field.dimension))
    return np.concatenate([used, Match(places, shares, spread).drawn(field, fresh, rng)])


def _reach(places: np.ndarray) -> np.ndarray:
    """Half the distance to a near neighbour, as a deviation along each axis."""
    from scipy.spatial import KDTree

    apart = KDTree(places).query(places, NEIGHBOUR)[0][:, -1]
    return np.asarray(apart / 2 / np.sqrt(places.shape[1]))
