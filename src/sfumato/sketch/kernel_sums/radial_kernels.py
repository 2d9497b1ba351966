"""Radial kernels: their values, their slices along one direction, and their frequencies.

Every kernel k(|x - q| / bandwidth) is 1 at distance 0 and falls to 0: "p-stable", the probability
that a Gaussian projection puts both into one bucket of a bandwidth (Datar et al. 2004);
"gaussian", exp(-r**2 / 2); "exponential", exp(-r).
"""

import math
from functools import cache
from typing import Any

import numpy as np

from sfumato.core.validation import one_of
from sfumato.sketch.kernel_sums.stratified_sampling import normal_rows
from sfumato.sketch.similarity.p_stable import collision_probability

__all__ = ["KERNEL", "KINDS", "frequencies", "profile", "slice_profile"]

KINDS = ("p-stable", "gaussian", "exponential")
KERNEL = one_of(KINDS)
SPAN = -32.0, 26.0  # logs of projections; past them the slices are 1 and 0 but for 1e-13
SIZES = -37.0, 2.3  # logs of |Z|; the probability of others is less than 1e-15
LARGEST = 30.0  # log of the projection beyond which cosine slices are 0
KUMMER = 60  # the dimension up to which Kummer's function is evaluated to the last digits
FAR = 40.0  # cosine slices of an odd dimension are below 1e-300 from here on
VANISHED = 13.0  # those of a large dimension are below 1e-17 from here on


def profile(kind: str, ratio: np.ndarray) -> np.ndarray:
    """The kernel at distances given in bandwidths.

    >>> profile("gaussian", np.array([0.0, 1.0])).round(4).tolist()
    [1.0, 0.6065]
    """
    ratio = np.abs(np.asarray(ratio, np.float64))
    if kind == "gaussian":
        return np.asarray(np.exp(-(ratio**2) / 2))
    if kind == "exponential":
        return np.asarray(np.exp(-ratio))
    return collision_probability(ratio, 2)


def slice_profile(kind: str, dimension: int, ratio: np.ndarray) -> np.ndarray:
    """The function g of one projection whose mean over all directions is the kernel.

    Guarantee: E g(theta . z) = k(|z|) for theta uniform on the unit sphere of `dimension`
    coordinates. It is g(t) = E f(rho t), where rho is the length of a Gaussian vector and f the
    triangle (p-stable) or the cosine (gaussian); for "exponential" that vector is Cauchy, i.e.
    Gaussian divided by an independent |Z|. g has width 1 / sqrt(dimension); that of the last two
    oscillates. Parameters: ratio, projections of x - q in bandwidths, of either sign.

    >>> t = np.linspace(0, 3, 4)  # in three dimensions g is the derivative of t k(t)
    >>> bool(np.allclose(slice_profile("exponential", 3, t), (1 - t) * np.exp(-t)))
    True
    """
    ratio = np.abs(np.asarray(ratio, np.float64))
    if kind == "gaussian":
        return _cosine_slices(dimension, ratio)
    if kind == "exponential":
        return _cauchy_slices(dimension, ratio)
    return _triangle_slices(dimension, ratio)


def frequencies(kind: str, rows: int, dimension: int, seed: int, stratified: bool) -> np.ndarray:
    """Rows w, in units of 1 / bandwidth, with E cos(w . (x - q)) = k(|x - q|): Bochner's theorem.

    Each row has exactly the kernel's spectral distribution; `stratified` ones are spread evenly.
    """
    strata = "stratified" if stratified else "independent"
    directions, positions = normal_rows(rows, dimension, seed, strata)
    if kind == "gaussian":
        return directions
    positions = np.maximum(positions, 2.0**-54)
    lengths = _fejer_quantile(positions) if kind == "p-stable" else _inverse_normal_size(positions)
    return np.asarray(directions * lengths[:, None])


def _triangle_slices(dimension: int, ratio: np.ndarray) -> np.ndarray:
    """E max(0, 1 - rho t) for rho of the chi distribution: two incomplete gamma functions."""
    from scipy.special import gammainc, gammaln

    half = dimension / 2
    mean = math.sqrt(2) * math.exp(gammaln(half + 0.5) - gammaln(half))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        limit = 0.5 / ratio**2
        lost = np.where(np.isfinite(ratio), mean * ratio * gammainc(half + 0.5, limit), 0.0)
        return np.where(ratio == 0, 1.0, gammainc(half, limit) - np.where(ratio == 0, 0.0, lost))


def _cosine_slices(dimension: int, ratio: np.ndarray) -> np.ndarray:
    """E cos(rho t) for rho of the chi distribution: Kummer's function, 0 far out at odd d."""
    from scipy.special import hyp1f1

    if dimension > KUMMER:
        return _cosine_sums(dimension, ratio)
    far = FAR if dimension % 2 else 2.0**100
    near = np.minimum(ratio, far)
    return np.asarray(np.where(ratio > far, 0.0, hyp1f1(dimension / 2, 0.5, -(near**2) / 2)))


def _cosine_sums(dimension: int, ratio: np.ndarray) -> np.ndarray:
    """The same by the trapezoid rule, where Kummer's function would lose all its digits.

    The chi distribution is then near a Gaussian of variance 1/2, for which steps of 0.2 are exact.
    """
    lengths = math.sqrt(dimension) + np.arange(-9, 9, 0.2)
    lengths = lengths[lengths > 0]
    logs = (dimension - 1) * np.log(lengths) - lengths**2 / 2
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    out = np.zeros(ratio.shape)
    inside = ratio < VANISHED
    for start, weight in zip(lengths, weights, strict=True):
        out[inside] += weight * np.cos(start * ratio[inside])
    return out


def _cauchy_slices(dimension: int, ratio: np.ndarray) -> np.ndarray:
    """The mean of the cosine slices at t / |Z|, interpolated in a table of log t."""
    with np.errstate(divide="ignore"):
        positions = np.clip(np.log(ratio * math.sqrt(dimension)), *SPAN)
    return np.asarray(_cauchy_table(dimension)(positions))


@cache
def _cauchy_table(dimension: int) -> Any:
    """A spline in log t: the trapezoid rule in log |Z|, as one convolution for all log t."""
    from scipy.interpolate import CubicSpline

    step = min(0.02, 0.4 / math.sqrt(dimension))
    sizes = np.arange(*SIZES, step)
    weights = math.sqrt(2 / math.pi) * step * np.exp(sizes - np.exp(2 * sizes) / 2)
    positions = np.arange(SPAN[0] - step, SPAN[1] + 2 * step, step)
    wide = positions[0] - sizes[-1] + step * np.arange(positions.size + sizes.size - 1)
    slices = _cosine_slices(dimension, np.exp(np.minimum(wide, LARGEST)) / math.sqrt(dimension))
    return CubicSpline(positions, np.convolve(slices, weights, mode="valid"))


def _fejer_quantile(positions: np.ndarray) -> np.ndarray:
    """Quantiles of |u| where u has density (1 - cos u) / (pi u**2), the triangle's transform.

    By bisection: the probability of |u| <= v is (Si(v) - (1 - cos v) / v) 2 / pi.
    """
    from scipy.special import sici

    low, high = np.zeros(positions.size), np.full(positions.size, 2.0**60)
    for _ in range(120):
        middle = (low + high) / 2
        below = 2 / math.pi * (sici(middle)[0] - 2 * np.sin(middle / 2) ** 2 / middle) < positions
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def _inverse_normal_size(positions: np.ndarray) -> np.ndarray:
    """Quantiles of 1 / |Z|, Z standard normal."""
    from scipy.special import ndtri

    return np.asarray(-1 / ndtri(positions / 2))
