"""Width of the cells of random lines, from the distance of what is to be found."""

import math
from typing import Any

import numpy as np

from sfumato.core.typing import Matrix
from sfumato.core.validation import check_random_state, fraction, integer, positive
from sfumato.retrieve.metric import matrix
from sfumato.sketch.similarity.p_stable import PStableSketch

__all__ = ["suggest_width"]

OWNER = "suggest_width"
BANDS, ROWS, NEIGHBOURS = integer(1, 2**12), integer(1, 64), integer(1)
SAMPLE = 20_000  # rows of a sample that are compared
QUERIES = 500  # rows of it whose neighbours are sought
STEPS = 80  # of the bisection: more than float64 resolves


def suggest_width(
    radius: float | None = None,
    *,
    sample: Matrix | None = None,
    neighbours: int = 10,
    within: float = 0.9,
    bands: int = 32,
    rows: int = 12,
    recall: float = 0.95,
    p: int = 2,
    random_state: Any = 0,
) -> float:
    """Compute the smallest width of p-stable hashes that finds neighbours at a distance.

    Parameters
    ----------
    radius : float or None, default=None
        Distance of the farthest vectors to be found, above 0. Either it or `sample` is given.
    sample : array_like of shape (n, dimension) or None, default=None
        Vectors like those of the index, more than `neighbours` of them. The radius is then the
        `within` quantile of the distances from some of them to their neighbours of rank
        `neighbours`. In a small sample of a large set these are farther away, so the width errs on
        the side of recall. A width from private vectors reveals something about them.
    neighbours : int, default=10
        Rank of the neighbour to be found, at least 1.
    within : float, default=0.9
        Fraction of the vectors of `sample` whose neighbours are within the radius.
    bands : int, default=32
        Number of tables, 1 to 4096.
    rows : int, default=12
        Hashes per key of a table, 1 to 64.
    recall : float, default=0.95
        Probability that a vector at this distance is a candidate, between 0 and 1.
    p : int, default=2
        2 for Euclidean distances, 1 for sums of absolute differences.
    random_state : int, Generator or None, default=0
        Seed of the choice of rows of `sample`.

    Returns
    -------
    float
        Width for ``LshIndex(bands, rows, metric="euclidean", width=...)``, or for `PStableSketch`
        with ``bands=1, rows=1`` and `recall` as the wanted probability of a collision.

    Notes
    -----
    **Guarantee.** A vector at distance `radius` shares a bucket with probability `recall`, up to
    rounding, and nearer ones with a larger one: the width solves
    ``1 - (1 - P(radius / width)**rows)**bands = recall`` for the collision probability P of one
    hash, ``P(r) = 1 - 2 Phi(-1 / r) - 2 r / sqrt(2 pi) (1 - exp(-1 / (2 r**2)))`` for p = 2 [1]_.
    A wider cell would find more that is far away, a narrower one would miss neighbours.

    References
    ----------
    .. [1] Datar, Immorlica, Indyk, Mirrokni. "Locality-Sensitive Hashing Scheme Based on p-Stable
       Distributions". SoCG 2004, section 3.2. https://doi.org/10.1145/997817.997857

    Examples
    --------
    >>> from sfumato.retrieve import LshIndex
    >>> width = suggest_width(radius=2.0, bands=16, rows=8)
    >>> index = LshIndex(16, 8, metric="euclidean", width=width)
    >>> round(width, 2), round(index.probability(2.0), 4)
    (8.05, 0.95)
    """
    if (radius is None) == (sample is None):
        raise ValueError(f"{OWNER}: radius or sample must be given, not both.")
    bands, rows = BANDS.check(OWNER, "bands", bands), ROWS.check(OWNER, "rows", rows)
    recall = fraction.check(OWNER, "recall", recall)
    p = integer(1, 2).check(OWNER, "p", p)
    if sample is not None:
        rank = NEIGHBOURS.check(OWNER, "neighbours", neighbours)
        within = fraction.check(OWNER, "within", within)
        radius = _radius(sample, rank, within, p, random_state)
    key: float = -math.expm1(math.log1p(-recall) / bands)  # probability that a whole key agrees
    radius = float(positive.check(OWNER, "radius", radius))
    return radius / _ratio(math.pow(key, 1 / rows), p)


def _ratio(agree: float, p: int) -> float:
    """Distance, in widths, at which one hash agrees with this probability."""
    probability = PStableSketch(1.0, hashes=1, p=p).collision_probability
    low, high = -200.0, 200.0  # logarithms of base 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if probability(math.exp2(middle)) > agree else (low, middle)
    return math.exp2(low)


def _radius(sample: Any, rank: int, within: float, p: int, random_state: Any) -> float:
    """Quantile of the distances from some rows to their neighbours of this rank."""
    vectors = matrix(OWNER, sample, None).astype(np.float64)
    if len(vectors) <= rank:
        raise ValueError(f"{OWNER}: sample must have more than {rank} rows, not {len(vectors)}.")
    draws = check_random_state(OWNER, random_state)
    vectors = vectors[draws.permutation(len(vectors))[:SAMPLE]]
    distances = [
        np.partition(np.linalg.norm(vectors - row, p, axis=1), rank)[rank]  # 0 is the row itself
        for row in vectors[:QUERIES]
    ]
    radius = float(np.quantile(distances, within))
    if radius == 0:
        raise ValueError(f"{OWNER}: sample has equal rows alone as neighbours; give a radius.")
    return radius
