"""Quantiles of the chi and normal laws and turns of the circle, the same bits on every machine.

The functions of the C library differ in their last digit from machine to machine; here only
+ - * / and sqrt touch floats, one NumPy operation at a time.
"""

import math

import numpy as np

__all__ = ["chi_quantile", "normal_quantile", "turned"]

STEP = 1 / 1024  # between lengths of the table
REACH = 9.0  # how far the table goes past the mode: all but a chance of 1e-17
TERMS = 12  # of the series of exp below 1/16
SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(10))
COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(11))


def chi_quantile(dimension: int, chances: np.ndarray) -> np.ndarray:
    """The length that a Gaussian vector of this dimension falls short of with these chances.

    Guarantee: within 3e-6 of the true quantile for chances from 0.001 to 1 - 1e-9, 1e-4 below.

    >>> round(float(chi_quantile(2, np.array([0.5]))[0]), 5)  # sqrt(2 ln 2)
    1.17741
    """
    mode = math.sqrt(dimension - 1)
    first = max(0, math.floor((mode - REACH) / STEP))
    lengths = np.arange(first, math.ceil((mode + REACH) / STEP) + 1) * STEP
    below = _distribution(dimension, lengths, round(mode / STEP) - first)
    place = np.clip(np.searchsorted(below, chances, side="right") - 1, 0, below.size - 2)
    gap = below[place + 1] - below[place]
    share = np.clip((chances - below[place]) / np.where(gap > 0, gap, 1), 0, 1)
    return np.asarray(lengths[place] + STEP * share)


def normal_quantile(chances: np.ndarray) -> np.ndarray:
    """Standard normal quantiles.

    >>> normal_quantile(np.array([0.5, 0.975])).round(5).tolist()
    [0.0, 1.95996]
    """
    centred = 2 * chances - 1
    return np.asarray(np.copysign(chi_quantile(1, np.abs(centred)), centred))


def turned(turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of an angle given in whole turns, from 0 to 1.

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
    """Chances of shorter lengths: running products of the density's ratios, then running sums."""
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
    """exp(-x): a short series, squared as often as brings x below 1/16."""
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
