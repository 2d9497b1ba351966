"""Exact discrete noise: Laplace and Gaussian integers, coins, uniform integers and noise shares.

Bits come from AES in counter mode with a fresh key of the operating system for every call. A table
of certified digits decides nearly all draws; where the digits of a draw do not decide, more are
drawn and compared in integer arithmetic, so that each distribution is met exactly. A few draws take
the reference sampler instead, which needs no table.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.core.validation import integer, rational
from sfumato.kernels import noise as kernels
from sfumato.privacy.noise.exact import reference
from sfumato.privacy.noise.share_sampler import ShareSource, share_sampler
from sfumato.privacy.noise.tables import gaussian_sampler, laplace_sampler
from sfumato.privacy.random_source import InsecureSeededSource, Source, SystemSource

__all__ = [
    "PARTIES",
    "InsecureSeededSource",
    "ShareSource",
    "add_gaussian",
    "add_laplace",
    "add_laplace_share",
    "coins",
    "discrete_gaussian",
    "discrete_laplace",
    "flips",
    "gaussian_gap",
    "laplace_share",
    "uniform",
]

LARGEST = 2**40  # scale: noise then stays far within 2**62
ROOM = 2**62  # numbers that take noise are smaller than this in size
DIGITS = 128  # binary digits of a probability that coins are compared to
WORDS = 1 << 14  # random words drawn at a time


def discrete_laplace(scale: Any, size: Any = None, *, source: Source | None = None) -> Any:
    """Sample independent integers k with probability proportional to exp(-abs(k) / scale).

    Parameters
    ----------
    scale : object
        Above 0 up to 2**40, taken exactly (a float as the fraction it is, a Fraction, or text such
        as "21/2").
    size : object, default=None
        Shape of the result; None for a single int.
    source : Source or None, default=None
        Source of random bits, for tests only; None draws them from the operating system.

    Returns
    -------
    object
        An int, or an int64 ndarray of shape `size`.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke. "The Discrete Gaussian for Differential Privacy". NeurIPS 2020,
       Algorithm 2 (sampling discrete Laplace noise). https://arxiv.org/abs/2004.00010

    Examples
    --------
    >>> discrete_laplace("21/2", 1000).dtype
    dtype('int64')
    """
    scale = noise_scale("discrete_laplace", "scale", scale)
    cells = np.zeros(() if size is None else size, np.int64)
    laplace_sampler(scale, cells.size).add(cells.reshape(-1), source or SystemSource())
    return int(cells[()]) if size is None else cells


def discrete_gaussian(sigma: Any, size: Any = None, *, source: Source | None = None) -> Any:
    """Sample independent integers k with probability proportional to exp(-k**2 / (2 sigma**2)).

    Parameters
    ----------
    sigma : object
        Above 0 up to 2**40, taken exactly (a float as the fraction it is, a Fraction, or text such
        as "21/2"). The standard deviation is at most sigma, and close to it from sigma = 1 up.
    size : object, default=None
        Shape of the result; None for a single int.
    source : Source or None, default=None
        Source of random bits, for tests only; None draws them from the operating system.

    Returns
    -------
    object
        An int, or an int64 ndarray of shape `size`.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke. "The Discrete Gaussian for Differential Privacy". NeurIPS 2020,
       Algorithm 3 (sampling discrete Gaussian noise). https://arxiv.org/abs/2004.00010

    Examples
    --------
    >>> discrete_gaussian(10, (2, 3)).shape
    (2, 3)
    """
    sigma = noise_scale("discrete_gaussian", "sigma", sigma)
    cells = np.zeros(() if size is None else size, np.int64)
    gaussian_sampler(sigma**2, cells.size).add(cells.reshape(-1), source or SystemSource())
    return int(cells[()]) if size is None else cells


def add_laplace(cells: np.ndarray, scale: Any, *, source: Source | None = None) -> None:
    """Add discrete Laplace noise to every cell of an array, in place and in little memory.

    Parameters
    ----------
    cells : ndarray
        Contiguous int64 array of numbers below 2**62 in size.
    scale : object
        Scale of the noise, above 0 up to 2**40, taken exactly.
    source : Source or None, default=None
        Source of random bits, for tests only; a `ShareSource` adds one noise share.

    Examples
    --------
    >>> cells = np.zeros(3, np.int64)
    >>> add_laplace(cells, 2)
    >>> cells.shape
    (3,)
    """
    scale, flat = noise_scale("add_laplace", "scale", scale), flat_cells("add_laplace", cells)
    if isinstance(source, ShareSource):
        source.add_laplace(flat, scale)
    else:
        laplace_sampler(scale, flat.size).add(flat, source or SystemSource())


def add_gaussian(cells: np.ndarray, sigma: Any, *, source: Source | None = None) -> None:
    """Add discrete Gaussian noise to every cell of an array, in place and in little memory.

    Parameters
    ----------
    cells : ndarray
        Contiguous int64 array of numbers below 2**62 in size.
    sigma : object
        Parameter of the noise, above 0 up to 2**40, taken exactly.
    source : Source or None, default=None
        Source of random bits, for tests only; a `ShareSource` adds one noise share.

    Examples
    --------
    >>> cells = np.zeros(3, np.int64)
    >>> add_gaussian(cells, 2)
    >>> cells.shape
    (3,)
    """
    sigma, flat = noise_scale("add_gaussian", "sigma", sigma), flat_cells("add_gaussian", cells)
    if isinstance(source, ShareSource):
        source.add_gaussian(flat, sigma**2)
    else:
        gaussian_sampler(sigma**2, flat.size).add(flat, source or SystemSource())


def coins(probability: Any, size: int, *, source: Source | None = None) -> np.ndarray:
    """Toss independent coins of one rational probability, exactly.

    Parameters
    ----------
    probability : object
        Probability of True, above 0 and below 1, taken exactly.
    size : int
        Number of coins, at least 0.
    source : Source or None, default=None
        Source of random bits, for tests only; None draws them from the operating system.

    Returns
    -------
    ndarray
        Booleans of shape (size,).

    Examples
    --------
    >>> coins("1/3", 5).shape
    (5,)
    """
    size = integer(0).check("coins", "size", size)
    words = flips(probability, size, source=source)
    return np.unpackbits(words.view(np.uint8), bitorder="little")[:size].view(np.bool_)


def flips(probability: Any, bits: int, *, source: Source | None = None) -> np.ndarray:
    """Toss independent coins of one rational probability, packed into 64-bit words.

    Parameters
    ----------
    probability : object
        Probability of a 1, above 0 and below 1, taken exactly.
    bits : int
        Number of coins, at least 0.
    source : Source or None, default=None
        Source of random bits, for tests only; None draws them from the operating system.

    Returns
    -------
    ndarray
        Words (uint64) of 64 coins each, lowest bit first; bits beyond the last coin are 0.

    Examples
    --------
    >>> int(flips("1/3", 3)[0]) < 8
    True
    """
    exact = rational.check("flips", "probability", probability)
    bits = integer(0).check("flips", "bits", bits)
    if exact >= 1:
        raise ValueError(f"flips: probability must be below 1, not {probability!r}.")
    out = np.zeros(-(-bits // 64), np.uint64)
    _flip(exact, out, source or SystemSource())
    if bits % 64:
        out[-1] &= np.uint64(2 ** (bits % 64) - 1)
    return out


def uniform(limit: int, size: int, *, source: Source | None = None) -> np.ndarray:
    """Sample independent uniform integers from 0 to limit - 1, exactly.

    Parameters
    ----------
    limit : int
        Number of values, from 1 to 2**63.
    size : int
        Number of integers, at least 0.
    source : Source or None, default=None
        Source of random bits, for tests only; None draws them from the operating system.

    Returns
    -------
    ndarray
        Integers (int64) of shape (size,).

    Examples
    --------
    >>> uniform(6, 100).max() < 6
    np.True_
    """
    limit = integer(1, 2**63).check("uniform", "limit", limit)
    source = source or SystemSource()
    out = np.empty(integer(0).check("uniform", "size", size), np.uint64)
    source.fill(out)
    fair = 2**64 - 2**64 % limit - 1  # words up to here have every remainder equally often
    while (over := np.flatnonzero(out > np.uint64(fair))).size:
        again = np.empty(over.size, np.uint64)
        source.fill(again)
        out[over] = again
    return (out % np.uint64(limit)).view(np.int64)


def _flip(probability: Fraction, out: np.ndarray, source: Source) -> None:
    """Fill words with coins: compare random digits with those of the probability."""
    leading, remainder = divmod(probability * 2**DIGITS, 1)  # the digits, and what is beyond them
    digits = [leading >> position & 1 for position in reversed(range(DIGITS))]
    while not remainder and not digits[-1]:  # equal numbers are not below
        digits.pop()
    masks = np.array(digits, np.uint64) * np.uint64(2**64 - 1)
    words = np.empty(WORDS, np.uint64)
    undecided = np.empty(out.size, np.uint64)
    done = 0
    while done < out.size:
        source.fill(words)
        done = kernels.flip(words, masks, done, undecided, out)
    if remainder:
        bits = reference.Bits(source)
        for j in np.flatnonzero(undecided):
            for position in range(64):
                if int(undecided[j]) >> position & 1 and reference.bernoulli(remainder, bits):
                    out[j] |= np.uint64(1 << position)


def noise_scale(owner: str, name: str, value: Any) -> Fraction:
    """Check the scale of a noise and return it as an exact fraction."""
    scale: Fraction = rational.check(owner, name, value)
    if scale > LARGEST:
        raise ValueError(f"{owner}: {name} must be at most 2**40, not {value!r}.")
    return scale


def flat_cells(owner: str, cells: np.ndarray) -> np.ndarray:
    """Check that an array can take noise in place, and return it as one-dimensional."""
    if cells.dtype != np.int64 or not cells.flags.c_contiguous or not cells.flags.writeable:
        raise TypeError(f"{owner}: cells must be a contiguous, writeable array of int64.")
    flat = cells.reshape(-1)
    if flat.size and not -ROOM < flat.min() <= flat.max() < ROOM:
        raise ValueError(f"{owner}: cells must be below 2**62 in size, to leave room for noise.")
    return flat


PARTIES = integer(1, 2**20)
PI_SQUARED = 9.8696  # and a little more


def laplace_share(scale: Any, of: int, size: Any = None, *, source: Source | None = None) -> Any:
    """Sample noise shares: `of` independent ones sum to discrete Laplace noise of this scale.

    Parameters
    ----------
    scale : object
        Scale of the full noise, above 0 up to 2**40, taken exactly.
    of : int
        Number of shares that make up the noise, from 1 to 2**20.
    size : object, default=None
        Shape of the result; None for a single int.
    source : Source or None, default=None
        Source of random bits, for tests only; None draws them from the operating system.

    Returns
    -------
    object
        An int, or an int64 ndarray of shape `size`.

    Notes
    -----
    **Guarantee.** The distribution is exact: each share is the difference of two Polya numbers, of
    mass proportional to Gamma(k + 1 / of) / k! exp(-k / scale), drawn without floats.

    References
    ----------
    .. [1] Goryczka, Xiong. "A Comprehensive Comparison of Multiparty Secure Additions with
       Differential Privacy". IEEE TDSC 14(5), 2017 (geometric noise from Polya shares).
       https://doi.org/10.1109/TDSC.2015.2484326
    .. [2] Quenouille. "A Relation Between the Logarithmic, Poisson, and Negative Binomial Series".
       Biometrics 5, 1949 (Polya numbers as sums of logarithmic numbers).
    .. [3] Fisher, Corbet, Williams. "The Relation Between the Number of Species and the Number of
       Individuals in a Random Sample of an Animal Population". Journal of Animal Ecology 12, 1943
       (the logarithmic distribution). https://doi.org/10.2307/1411

    Examples
    --------
    >>> shares = laplace_share(10, 4, (4, 1000))
    >>> shares.sum(axis=0).dtype  # discrete Laplace noise of scale 10
    dtype('int64')
    """
    cells = np.zeros(() if size is None else size, np.int64)
    add_laplace_share(cells, scale, of, source=source)
    return int(cells[()]) if size is None else cells


def add_laplace_share(
    cells: np.ndarray, scale: Any, of: int, *, source: Source | None = None
) -> None:
    """Add one noise share of discrete Laplace noise to every cell of an array, in place.

    Parameters
    ----------
    cells : ndarray
        Contiguous int64 array of numbers below 2**62 in size.
    scale : object
        Scale of the full noise, above 0 up to 2**40, taken exactly.
    of : int
        Number of shares that make up the noise, from 1 to 2**20.
    source : Source or None, default=None
        Source of random bits, for tests only; None draws them from the operating system.

    Examples
    --------
    >>> cells = np.zeros(3, np.int64)
    >>> add_laplace_share(cells, 10, of=4)
    >>> cells.shape
    (3,)
    """
    exact = noise_scale("add_laplace_share", "scale", scale)
    of = PARTIES.check("add_laplace_share", "of", of)
    flat = flat_cells("add_laplace_share", cells)
    share_sampler(exact, of, flat.size).add(flat, source or SystemSource())


def gaussian_gap(sigma: float, of: int, cells: int) -> float:
    """Bound the distance of summed discrete Gaussian shares from discrete Gaussian noise.

    Parameters
    ----------
    sigma : float
        Parameter of the full noise, above 0.
    of : int
        Number of shares, each of variance sigma**2 / of.
    cells : int
        Number of independent sums.

    Returns
    -------
    float
        Largest log-ratio of the probabilities of any outcome; infinite where sigma**2 / of is below
        1.

    Notes
    -----
    **Guarantee.** For `cells` independent sums of `of` numbers of variance sigma**2 / of, the
    probability of every outcome is within a factor exp(gap) of that under noise of this sigma. A
    mechanism that is (epsilon, delta)-differentially private with this noise is so with these sums
    at epsilon + 2 gap and delta exp(gap).

    Proof: noises of variances k v and v sum to z with probability proportional to exp(-z**2 / (2 (k
    + 1) v)) times the sum over x of exp(-(x - t)**2 / (2 c)), c = v k / (k + 1) >= v / 2, at some
    t. By Poisson summation that is sqrt(2 pi c) (1 + n), |n| <= 2.001 exp(-pi**2 v) for v >= 1; so
    the two distributions differ by a factor of at most (1 + n) / (1 - n) <= exp(5 exp(-pi**2 v)),
    of - 1 times. Compare [1]_.

    References
    ----------
    .. [1] Kairouz, Liu, Steinke. "The Distributed Discrete Gaussian Mechanism for Federated
       Learning with Secure Aggregation". ICML 2021. https://arxiv.org/abs/2102.06387

    Examples
    --------
    >>> gaussian_gap(100, 10, cells=2**20) < 1e-100
    True
    """
    each = sigma**2 / of
    if each < 1:
        return math.inf if of > 1 else 0.0
    return cells * 5.0 * (of - 1) * math.exp(-PI_SQUARED * each)
