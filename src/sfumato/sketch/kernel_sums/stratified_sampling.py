"""Gaussian directions with offsets, spread evenly, each with exactly its marginal distribution.

Up to three dimensions directions are a spiral over half of the sphere, in four and five a lattice
of the cube, beyond that batches of orthogonal ones; lengths and offsets are stratified with them. A
uniform rotation or shift gives every single row its exact distribution. Also quantiles of the chi
and normal distributions, and cosines. Only + - * / and sqrt touch floats, one NumPy operation at a
time, so that all results are the same bits on every machine.
"""

import math
from functools import lru_cache

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.validation import one_of
from sfumato.sketch.projection.directions import dense, directions

__all__ = ["STRATA", "chi_quantile", "normal_quantile", "normal_rows", "turned", "unit_rows"]

STEP = 1 / 1024  # between lengths of the table
HALF_WIDTH = 9.0  # of the table around the mode: all but a probability of 1e-17
TERMS = 12  # of the series of exp below 1/16
SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(10))
COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(11))


def chi_quantile(dimension: int, probabilities: np.ndarray) -> np.ndarray:
    """Quantiles of the length of a Gaussian vector of this dimension.

    Guarantee: within 3e-6 of the true quantile for probabilities from 0.001 to 1 - 1e-9, 1e-4
    below.

    >>> round(float(chi_quantile(2, np.array([0.5]))[0]), 5)  # sqrt(2 ln 2)
    1.17741
    """
    mode = math.sqrt(dimension - 1)
    first = max(0, math.floor((mode - HALF_WIDTH) / STEP))
    lengths = np.arange(first, math.ceil((mode + HALF_WIDTH) / STEP) + 1) * STEP
    below = _distribution(dimension, lengths, round(mode / STEP) - first)
    index = np.clip(np.searchsorted(below, probabilities, side="right") - 1, 0, below.size - 2)
    gap = below[index + 1] - below[index]
    fraction = np.clip((probabilities - below[index]) / np.where(gap > 0, gap, 1), 0, 1)
    return np.asarray(lengths[index] + STEP * fraction)


def normal_quantile(probabilities: np.ndarray) -> np.ndarray:
    """Standard normal quantiles.

    >>> normal_quantile(np.array([0.5, 0.975])).round(5).tolist()
    [0.0, 1.95996]
    """
    centred = 2 * probabilities - 1
    return np.asarray(np.copysign(chi_quantile(1, np.abs(centred)), centred))


def turned(turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of an angle given in turns, from 0 to 1.

    >>> turned(np.array([0.0, 0.125]))[0].round(6).tolist()
    [1.0, 0.707107]
    """
    quarter = np.rint(4 * turns)
    angle = (turns - quarter / 4) * (2 * math.pi)  # within pi/4
    square = angle * angle
    cosine, sine = _series(COSINE, square), _series(SINE, square) * angle
    turn = quarter.astype(int) % 4
    return (
        np.choose(turn, [cosine, -sine, -cosine, sine]),
        np.choose(turn, [sine, cosine, -sine, -cosine]),
    )


def _distribution(dimension: int, lengths: np.ndarray, mode: int) -> np.ndarray:
    """Cumulative probabilities of the lengths, by running products of density ratios."""
    # density(x + h) / density(x) = (1 + h / x)**(d - 1) exp(-h (x + h / 2))
    start = np.maximum(lengths[:-1], STEP / 2)  # the mode is past 0 where the power is not 0
    ratios = _power(lengths[1:] / start, dimension - 1) * _decay(STEP * (lengths[:-1] + STEP / 2))
    density = np.empty(lengths.size)
    density[mode] = 1
    density[mode + 1 :] = np.multiply.accumulate(ratios[mode:])
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        density[:mode] = 1 / np.multiply.accumulate(ratios[:mode][::-1])[::-1]
    if dimension > 1 and lengths[0] == 0:
        density[0] = 0
    below = np.zeros(lengths.size)
    below[1:] = np.add.accumulate(density[1:] + density[:-1])
    return np.asarray(below / below[-1])


def _decay(sizes: np.ndarray) -> np.ndarray:
    """exp(-x): a short series at x / 2**n below 1/16, squared n times."""
    halvings = max(0, math.frexp(float(sizes.max()) * 16)[1])
    series = _series(tuple(1 / math.factorial(k) for k in range(TERMS)), -sizes / 2**halvings)
    for _ in range(halvings):
        series = series * series
    return np.asarray(series)


def _power(base: np.ndarray, exponent: int) -> np.ndarray:
    out = np.ones(base.shape)
    while exponent:
        if exponent & 1:
            out = out * base
        base = base * base
        exponent >>= 1
    return out


def _series(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    out = np.full(x.shape, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        out = out * x + coefficient
    return out


STRATA = one_of(("stratified", "independent"))
LATTICE = range(4, 6)  # dimensions in which a lattice is best
MOST_LATTICES, LATTICE_POINTS = 200, 2**24  # that are compared
GOLDEN = (math.sqrt(5) - 1) / 2
KRONECKER = math.sqrt(2), math.sqrt(3)  # whose multiples, modulo 1, fill a square evenly


def normal_rows(rows: int, dimension: int, seed: int, strata: str) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian directions (rows, dimension) and offsets in [0, 1), from the seed alone.

    Guarantee: over seeds, each row is N(0, I) with an independent uniform offset. "independent"
    rows are jointly independent; "stratified" ones cover all directions, lengths and offsets
    evenly, which lowers the error of a mean over them and costs no privacy.

    >>> w, a = normal_rows(1000, 2, 0, "stratified")
    >>> w.shape, bool(np.abs(w.T @ w / 1000 - np.eye(2)).max() < 0.01), round(float(a.mean()), 2)
    ((1000, 2), True, 0.5)

    Spiral: Swinbank and Purser 2006; lattices: Sloan and Joe 1994; orthogonal batches: Yu et
    al. 2016.
    """
    if strata == "independent":
        normal = dense(directions("gaussian", rows, dimension, seed), rows)
        return normal, _uniform(rows, seed)
    if dimension in LATTICE:
        cube = _shifted(_lattice(rows, dimension + 1) / rows, seed)
        return normal_quantile(cube[:, :-1]), cube[:, -1]
    square = _shifted(np.arange(rows)[:, None] * np.array(KRONECKER), seed)
    lengths = chi_quantile(dimension, square[:, 0])
    return _sphere(rows, dimension, seed) * lengths[:, None], square[:, 1]


def unit_rows(rows: int, dimension: int, seed: int, strata: str) -> tuple[np.ndarray, np.ndarray]:
    """Unit directions (rows, dimension) and offsets in [0, 1), from the seed alone.

    Guarantee: each direction is uniform on the sphere and its offset uniform and independent;
    stratified ones are spread evenly, where opposite directions count as one.

    >>> unit_rows(4, 3, 0, "stratified")[0].shape
    (4, 3)
    """
    if strata == "independent" or dimension in LATTICE:
        normal, offsets = normal_rows(rows, dimension, seed, strata)
        return _unit(normal), offsets
    offsets = _shifted(np.arange(rows)[:, None] * KRONECKER[0], seed)[:, 0]
    return _sphere(rows, dimension, seed), offsets


def _unit(matrix: np.ndarray) -> np.ndarray:
    squares = np.zeros(len(matrix))
    for column in matrix.T:  # in this order on every machine
        squares += column * column
    return np.asarray(matrix / np.sqrt(squares)[:, None])


def _sphere(rows: int, dimension: int, seed: int) -> np.ndarray:
    """Directions over half of the circle or sphere, rotated at random, or orthogonal batches."""
    if dimension > 3:
        return dense(directions("super-bit", rows, dimension, seed), rows)
    index = np.arange(rows)
    height = (index + 0.5) / rows
    if dimension == 1:
        units = np.ones((rows, 1))
    elif dimension == 2:
        units = np.stack(turned(height / 2), axis=1)
    else:
        across = np.sqrt(1 - height * height)
        around = (across * part for part in turned(index * GOLDEN % 1))
        units = np.stack([*around, height], axis=1)
    rotation = dense(directions("orthogonal", dimension, dimension, seed), dimension)
    out = np.zeros((rows, dimension))
    for axis, towards in enumerate(rotation):
        out += units[:, axis, None] * towards
    return out


def _uniform(count: int, seed: int) -> np.ndarray:
    # Coordinates of directions are the keys 0 and up, so negative keys are unused.
    words = hash_column(range(-1, -1 - count, -1), seed)
    return np.asarray((words >> np.uint64(11)) * 2.0**-53)


def _shifted(points: np.ndarray, seed: int) -> np.ndarray:
    """Points of the cube, all shifted by one uniform vector, modulo 1: each is uniform."""
    moved = points % 1 + _uniform(points.shape[1], seed)
    return np.asarray(np.minimum(moved - np.floor(moved), 1 - 2.0**-53))


@lru_cache(maxsize=16)
def _lattice(rows: int, columns: int) -> np.ndarray:
    """Integer coordinates 0 .. rows - 1 of the best of some lattices i (1, a, a**2, ..) mod rows.

    Best is the smallest mean square error for periodic functions whose mixed second derivatives are
    bounded (P2), a product of Bernoulli polynomials.
    """
    count = max(8, min(MOST_LATTICES, LATTICE_POINTS // rows))
    tried = range(1, rows + 1, max(1, rows // count))
    return min((_korobov(rows, columns, a) for a in tried), key=_roughness)


def _korobov(rows: int, columns: int, generator: int) -> np.ndarray:
    powers = [pow(generator, k, rows) for k in range(columns)]
    return np.asarray(np.arange(rows)[:, None] * np.array(powers) % rows)


def _roughness(lattice: np.ndarray) -> float:
    x = lattice / len(lattice)
    product = np.ones(len(lattice))
    for column in x.T:
        product *= 1 + 2 * math.pi**2 * (column * column - column + 1 / 6)
    return float(np.add.accumulate(product)[-1])
