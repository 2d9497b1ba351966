"""Exact noise: discrete Laplace and Gaussian numbers, coins and choices, with no float on the way.

Bits come from AES in counter mode with a fresh key of the operating system for every call. A table
of certain digits answers nearly all draws; where the digits of a draw do not decide, more are drawn
and compared in whole-number arithmetic, so that each law is met exactly.

Shares of noise: each party adds one, and together they are exactly, or nearly, the noise.
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
WORDS = 1 << 14  # random words held at a time


def discrete_laplace(scale: Any, size: Any = None, *, source: Source | None = None) -> Any:
    """Integers k, independent, each with chance proportional to exp(-|k| / scale).

    Parameters
    ----------
    scale : object
        Above 0 up to 2**40, taken exactly (a float as the fraction it is, or a Fraction, or text
        such as "21/2").
    size : object, default=None
        A shape, or None for one int.
    source : Source or None, default=None
        For tests only.

    Returns
    -------
    object
        TODO.

    References
    ----------
    .. [1] Canonne, Kamath and Steinke 2020, section 5.

    Examples
    --------
    >>> discrete_laplace("21/2", 1000).dtype
    dtype('int64')
    """
    scale = noise_scale("discrete_laplace", "scale", scale)
    cells = np.zeros(() if size is None else size, np.int64)
    laplace_sampler(scale).add(cells.reshape(-1), source or SystemSource())
    return int(cells[()]) if size is None else cells


def discrete_gaussian(sigma: Any, size: Any = None, *, source: Source | None = None) -> Any:
    """Integers k, independent, each with chance proportional to exp(-k**2 / (2 sigma**2)).

    Parameters
    ----------
    sigma : object
        Above 0 up to 2**40, taken exactly; size and source as in `discrete_laplace`.
    size : object, default=None
        TODO.
    source : Source or None, default=None
        TODO.

    Returns
    -------
    object
        TODO.

    References
    ----------
    .. [1] Canonne, Kamath and Steinke 2020, section 3.

    Examples
    --------
    >>> discrete_gaussian(10, (2, 3)).shape
    (2, 3)
    """
    sigma = noise_scale("discrete_gaussian", "sigma", sigma)
    cells = np.zeros(() if size is None else size, np.int64)
    gaussian_sampler(sigma**2).add(cells.reshape(-1), source or SystemSource())
    return int(cells[()]) if size is None else cells


def add_laplace(cells: np.ndarray, scale: Any, *, source: Source | None = None) -> None:
    """Add discrete Laplace noise to a contiguous int64 array, in place and in little memory.

    Parameters
    ----------
    cells : ndarray
        TODO.
    scale : object
        TODO.
    source : Source or None, default=None
        TODO.
    """
    scale, flat = noise_scale("add_laplace", "scale", scale), flat_cells("add_laplace", cells)
    if isinstance(source, ShareSource):
        source.add_laplace(flat, scale)
    else:
        laplace_sampler(scale).add(flat, source or SystemSource())


def add_gaussian(cells: np.ndarray, sigma: Any, *, source: Source | None = None) -> None:
    """Add discrete Gaussian noise to a contiguous int64 array, in place and in little memory.

    Parameters
    ----------
    cells : ndarray
        TODO.
    sigma : object
        TODO.
    source : Source or None, default=None
        TODO.
    """
    sigma, flat = noise_scale("add_gaussian", "sigma", sigma), flat_cells("add_gaussian", cells)
    if isinstance(source, ShareSource):
        source.add_gaussian(flat, sigma**2)
    else:
        gaussian_sampler(sigma**2).add(flat, source or SystemSource())


def coins(probability: Any, size: int, *, source: Source | None = None) -> np.ndarray:
    """Booleans, independent, each True with this rational probability, exactly.

    Parameters
    ----------
    probability : object
        TODO.
    size : int
        TODO.
    source : Source or None, default=None
        TODO.

    Returns
    -------
    ndarray
        TODO.
    """
    size = integer(0).check("coins", "size", size)
    words = flips(probability, size, source=source)
    return np.unpackbits(words.view(np.uint8), bitorder="little")[:size].view(np.bool_)


def flips(probability: Any, bits: int, *, source: Source | None = None) -> np.ndarray:
    """Words of 64 coins, lowest first: so many of them, further bits being 0.

    Parameters
    ----------
    probability : object
        TODO.
    bits : int
        TODO.
    source : Source or None, default=None
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Examples
    --------
    >>> int(flips("1/3", 3)[0]) < 8
    True
    """
    chance = rational.check("flips", "probability", probability)
    bits = integer(0).check("flips", "bits", bits)
    if chance >= 1:
        raise ValueError(f"flips: probability must be below 1, not {probability!r}.")
    out = np.zeros(-(-bits // 64), np.uint64)
    _flip(chance, out, source or SystemSource())
    if bits % 64:
        out[-1] &= np.uint64(2 ** (bits % 64) - 1)
    return out


def uniform(limit: int, size: int, *, source: Source | None = None) -> np.ndarray:
    """Integers from 0 to limit - 1, limit up to 2**63, each as likely as any other.

    Parameters
    ----------
    limit : int
        TODO.
    size : int
        TODO.
    source : Source or None, default=None
        TODO.

    Returns
    -------
    ndarray
        TODO.
    """
    limit = integer(1, 2**63).check("uniform", "limit", limit)
    source = source or SystemSource()
    out = np.empty(integer(0).check("uniform", "size", size), np.uint64)
    source.fill(out)
    fair = 2**64 - 2**64 % limit - 1  # words up to here hold every remainder equally often
    while (over := np.flatnonzero(out > np.uint64(fair))).size:
        again = np.empty(over.size, np.uint64)
        source.fill(again)
        out[over] = again
    return (out % np.uint64(limit)).view(np.int64)


def _flip(chance: Fraction, out: np.ndarray, source: Source) -> None:
    whole_part, rest = divmod(chance * 2**DIGITS, 1)  # the digits, and what is beyond them
    digits = [whole_part >> place & 1 for place in reversed(range(DIGITS))]
    while not rest and not digits[-1]:  # a number that equals all others is not below
        digits.pop()
    masks = np.array(digits, np.uint64) * np.uint64(2**64 - 1)
    words = np.empty(WORDS, np.uint64)
    left_open = np.empty(out.size, np.uint64)
    done = 0
    while done < out.size:
        source.fill(words)
        done = kernels.flip(words, masks, done, left_open, out)
    if rest:
        bits = reference.Bits(source)
        for j in np.flatnonzero(left_open):
            for place in range(64):
                if int(left_open[j]) >> place & 1 and reference.bernoulli(rest, bits):
                    out[j] |= np.uint64(1 << place)


def noise_scale(owner: str, name: str, value: Any) -> Fraction:
    """The scale of a noise, taken exactly, once it is within limits."""
    scale: Fraction = rational.check(owner, name, value)
    if scale > LARGEST:
        raise ValueError(f"{owner}: {name} must be at most 2**40, not {value!r}.")
    return scale


def flat_cells(owner: str, cells: np.ndarray) -> np.ndarray:
    """An array that can take noise in place, seen as one-dimensional."""
    if cells.dtype != np.int64 or not cells.flags.c_contiguous or not cells.flags.writeable:
        raise TypeError(f"{owner}: cells must be a contiguous, writeable array of int64.")
    flat = cells.reshape(-1)
    if flat.size and not -ROOM < flat.min() <= flat.max() < ROOM:
        raise ValueError(f"{owner}: cells must be below 2**62 in size, to leave room for noise.")
    return flat


PARTIES = integer(1, 2**20)
PI_SQUARED = 9.8696  # and a little more


def laplace_share(scale: Any, of: int, size: Any = None, *, source: Source | None = None) -> Any:
    """Integers, of which `of` independent ones sum to discrete Laplace noise of this scale.

    Parameters
    ----------
    scale : object
        Above 0 up to 2**40, taken exactly.
    of : int
        Shares from 1 up to 2**20.
    size : object, default=None
        A shape, or None for one int.
    source : Source or None, default=None
        For tests only.

    Returns
    -------
    object
        TODO.

    Notes
    -----
    **Guarantee.** The law is exact: each is the difference of two Polya numbers, of mass
    proportional to Gamma(k + 1 / of) / k! exp(-k / scale), drawn without floats.

    References
    ----------
    .. [1] Goryczka and Xiong 2017 (geometric noise from Polya shares); Fisher, Corbet and Williams
       1943 for the sums of logarithmic numbers that they are.

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
    """Add one share of `of` to each number of a contiguous int64 array, in place.

    Parameters
    ----------
    cells : ndarray
        TODO.
    scale : object
        TODO.
    of : int
        TODO.
    source : Source or None, default=None
        TODO.
    """
    exact = noise_scale("add_laplace_share", "scale", scale)
    of = PARTIES.check("add_laplace_share", "of", of)
    share_sampler(exact, of).add(flat_cells("add_laplace_share", cells), source or SystemSource())


def gaussian_gap(sigma: float, of: int, cells: int) -> float:
    """How far discrete Gaussian shares are from discrete Gaussian noise, at most: infinite if far.

    Noises of variances k v and v sum to z with chance proportional to exp(-z**2 / (2 (k + 1) v))
    times the sum over x of exp(-(x - t)**2 / (2 c)), c = v k / (k + 1) >= v / 2, at some t. By
    Poisson's summation that is sqrt(2 pi c) (1 + n), |n| <= 2.001 exp(-pi**2 v) for v >= 1; so the
    two laws differ by a factor of at most (1 + n) / (1 - n) <= exp(5 exp(-pi**2 v)), of - 1 times.
    Compare Kairouz, Liu and Steinke 2021.

    Parameters
    ----------
    sigma : float
        TODO.
    of : int
        TODO.
    cells : int
        TODO.

    Returns
    -------
    float
        How far discrete Gaussian shares are from discrete Gaussian noise, at most: infinite if far.

    Notes
    -----
    **Guarantee.** For `cells` independent sums of `of` numbers of variance sigma**2 / of, the
    chance of every outcome is within a factor exp(gap) of that under noise of this sigma. A
    mechanism that is (epsilon, delta)-private with this noise is so with these sums at epsilon + 2
    gap and delta exp(gap).

    Examples
    --------
    >>> gaussian_gap(100, 10, cells=2**20) < 1e-100
    True
    """
    each = sigma**2 / of
    if each < 1:
        return math.inf if of > 1 else 0.0
    return cells * 5.0 * (of - 1) * math.exp(-PI_SQUARED * each)
