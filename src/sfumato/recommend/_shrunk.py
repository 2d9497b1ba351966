"""Neighbours from noisy counts: what stands out of the noise counts, popularity fills the rest.

Pairs of items that have nothing to do with each other occur about B d_i d_j times, d being the
counts of items. B is fitted by least squares, so that frequent pairs, whose counts the noise hides
least, decide. A pair occurs (1 + x) B d_i d_j times, x being of mean 0 and variance t, which is
fitted likewise. Given the noisy count, the best linear guess of x B d_i d_j is the excess of the
count times t E**2 / (t E**2 + E + noise variance), E = B d_i d_j: near the whole excess where
counts are large, near nothing where noise is. The neighbours of an item are those of the largest
guesses over sqrt(d_i d_j), if their excess stands a deviation above noise and chance, and weigh
just that. All of it is computed from released numbers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

__all__ = ["Neighbours", "shrunk"]

BLOCK = 1 << 21  # pairs looked at a time
SURE = 2.0  # deviations that the count of an item stands above 0 by, to be believed
LIKELY = 4.0  # the largest variance of x that is believed
TINY = 1e-12

Rows = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Neighbours:
    """places: neighbours of each item, surest first; weights: how alike, 0 where there is none.

    popular: what an item scores for everybody.
    """

    places: np.ndarray
    weights: np.ndarray
    popular: np.ndarray


def shrunk(
    counts: np.ndarray, deviation: float, pairs: Rows, variance: float, most: int
) -> Neighbours:
    """The neighbours of every item.

    counts, noisy, of items, and the standard deviation of their noise; pairs, the noisy counts of
    some items with all items, and the variance of their noise; most, neighbours of an item.
    """
    sure = np.where(counts > SURE * deviation, counts, 0.0)
    sizes = np.maximum(sure, max(float(sure.mean()) / 10, TINY))
    rate = _rate(sizes, pairs)
    spread = _spread(sizes, pairs, rate, variance)
    roots = np.sqrt(sizes)
    most = min(most, counts.size - 1)
    places = np.zeros((counts.size, most), np.int32)
    weights = np.zeros((counts.size, most), np.float32)
    for rows, seen, expected in _blocks(sizes, pairs, rate):
        kept, chance = spread * expected**2, expected + variance + TINY
        guess = (seen - expected) * kept / (kept + chance)
        guess[(seen - expected < np.sqrt(chance)) | (expected == 0)] = 0.0
        guess /= roots[rows, None] * roots
        places[rows] = _strongest(guess, most)
        weights[rows] = np.take_along_axis(guess, places[rows], axis=1)
    return Neighbours(places, weights, rate * roots * float(roots.mean()))


def _blocks(
    sizes: np.ndarray, pairs: Rows, rate: float
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Some items, their noisy counts with all items, and what these would be by popularity."""
    step = max(1, BLOCK // sizes.size)
    for start in range(0, sizes.size, step):
        rows = np.arange(start, min(start + step, sizes.size))
        expected = rate * sizes[rows, None] * sizes
        expected[np.arange(rows.size), rows] = 0.0
        yield rows, pairs(rows), expected


def _rate(sizes: np.ndarray, pairs: Rows) -> float:
    """B, by least squares of the counts of pairs on d_i d_j."""
    both = squares = 0.0
    for _, seen, product in _blocks(sizes, pairs, 1.0):
        both += float((seen * product).sum())
        squares += float((product**2).sum())
    return max(both / squares, TINY) if squares else TINY


def _spread(sizes: np.ndarray, pairs: Rows, rate: float, variance: float) -> float:
    """t, from the squares of excesses less what noise and chance add to them, told on the low side.

    A square of Laplace noise has variance 5 chance**2, and each pair is here twice. Two
    deviations are taken off: without a signal, t is then mostly 0 and popularity decides.
    """
    over = squares = doubt = 0.0
    for _, seen, expected in _blocks(sizes, pairs, rate):
        chance = expected + variance + TINY
        trust = (expected / chance) ** 2
        over += float((trust * ((seen - expected) ** 2 - chance)).sum())
        squares += float((trust * expected**2).sum())
        doubt += float(((trust * chance) ** 2).sum())
    return min(max((over - 2 * (10 * doubt) ** 0.5) / squares, 0.0), LIKELY) if squares else 0.0


def _strongest(near: np.ndarray, most: int) -> np.ndarray:
    """The places of the largest of each row, largest first, ties in order of place."""
    found = np.argpartition(-near, most - 1, axis=1)[:, :most]
    order = np.lexsort((found, -np.take_along_axis(near, found, axis=1)), axis=1)
    return np.take_along_axis(found, order, axis=1)
