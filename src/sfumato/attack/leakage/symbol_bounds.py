"""Information of noisy signs and noisy minima about a profile, in nats; and that of any release.

The thesis has no such formulas. These follow its single-item information (3.16) and its joint
information (3.19) for the channels of `Signs` and `Minima`, with independent parts as there.
"""

import math
from typing import Any

import numpy as np

from sfumato.attack.leakage.profile_bounds import blip_joint, blip_single, jlt_joint, jlt_single
from sfumato.attack.numerics import binary_entropy, within

__all__ = ["minima_joint", "minima_single", "profile_information", "signs_joint", "signs_single"]

GRID = np.linspace(-13, 13, 521)  # standard deviations; steps of 0.05 are exact to rounding here
RANKS, WEIGHTS = np.polynomial.legendre.leggauss(96)


def signs_single(bits: Any, size: Any, sigma: Any) -> np.ndarray:
    """Compute the information of the signs of a noisy projection about one item.

    Parameters
    ----------
    bits : array_like
        Number of released signs, at least 1.
    size : array_like
        Number of items in the profile, at least 1.
    sigma : array_like
        Standard deviation of the noise in units of one codeword's norm, at least 0.

    Returns
    -------
    ndarray
        Information in nats, at least 0.

    Notes
    -----
    **Guarantee.** Exact for codewords of independent normal numbers of variance 1 / bits and normal
    noise. An item shifts each projection by x; noise and the other items have the standard
    deviation s, with s**2 = sigma**2 + (size - 1) / bits. So a sign carries log 2 - h(Phi(x / s))
    nats. For weak signals that is 2 / pi of the information of the projection itself
    (`jlt_single`).

    Examples
    --------
    >>> round(float(signs_single(1000, 106, 3)), 4)
    0.035
    """
    owner = "signs_single"
    bits = within(owner, "bits", bits, 1)
    others = (within(owner, "size", size, 1) - 1) / bits
    return _signs(bits, 1 / bits, others + within(owner, "sigma", sigma, 0) ** 2)


def signs_joint(bits: Any, size: Any, sigma: Any) -> np.ndarray:
    """Compute the information of the signs of a noisy projection about a profile.

    Parameters
    ----------
    bits : array_like
        Number of released signs, at least 1.
    size : array_like
        Number of items in the profile, at least 0.
    sigma : array_like
        Standard deviation of the noise in units of one codeword's norm, at least 0.

    Returns
    -------
    ndarray
        Information in nats per profile; divide by `size` for nats per item.

    Notes
    -----
    **Guarantee.** Exact under the model of `signs_single`; an upper bound where the signs are not
    independent.

    Examples
    --------
    >>> round(float(signs_joint(1000, 106, 3)) / 106, 4)
    0.0351
    """
    owner = "signs_joint"
    bits = within(owner, "bits", bits, 1)
    power = within(owner, "size", size, 0) / bits
    return _signs(bits, power, within(owner, "sigma", sigma, 0) ** 2)


def minima_single(bins: Any, code_bits: Any, chance: Any, size: Any) -> np.ndarray:
    """Compute the information of noisy minima about one item of a profile.

    Parameters
    ----------
    bins : array_like
        Number of bins, at least 1.
    code_bits : array_like
        Bits of the code that is released for a bin, from 0 to 16.
    chance : array_like
        Probability of each false symbol in the randomized response, from 0 to 1 / (2**code_bits +
        1).
    size : array_like
        Number of items in the profile, known to the attacker, at least 1.

    Returns
    -------
    ndarray
        Information in nats, at least 0.

    Notes
    -----
    **Guarantee.** Exact for random hashes with bins taken as independent. An item of rank u, from 0
    to 1, is the minimum of its bin with probability (1 - u / bins)**(size - 1), and then its code
    is randomized; otherwise the code of another item is. Every other bin has one item less to draw
    from.

    Examples
    --------
    >>> round(float(minima_single(1024, 4, 0.03, 106)), 3)
    1.245
    """
    owner = "minima_single"
    bins, codes, p_false = _response(owner, bins, code_bits, chance)
    others = within(owner, "size", size, 1) - 1
    empty = _empty(bins, others + 1)
    before = _divergence(_answers(codes, p_false, _empty(bins, others)), codes, p_false, empty)
    # Integrate over ranks: the quadrature nodes lie along a last axis of their own.
    least = (1 - (RANKS + 1) / 2 / bins[..., None]) ** others[..., None]
    here = _own_bin(codes[..., None], p_false[..., None], least, empty[..., None]) @ (WEIGHTS / 2)
    with np.errstate(invalid="ignore"):
        elsewhere = np.where(bins == 1, 0.0, (bins - 1) * before)
    return np.asarray(np.maximum(here + elsewhere, 0))


def minima_joint(bins: Any, code_bits: Any, chance: Any, size: Any) -> np.ndarray:
    """Compute the information of noisy minima about an entire profile.

    Parameters
    ----------
    bins : array_like
        Number of bins, at least 1.
    code_bits : array_like
        Bits of the code that is released for a bin, from 0 to 16.
    chance : array_like
        Probability of each false symbol in the randomized response, from 0 to 1 / (2**code_bits +
        1).
    size : array_like
        Number of items in the profile, at least 0.

    Returns
    -------
    ndarray
        Information in nats per profile; divide by `size` for nats per item.

    Notes
    -----
    **Guarantee.** Exact under the model of `minima_single`; an upper bound where bins are not
    independent.

    Examples
    --------
    >>> round(float(minima_joint(1024, 4, 0.03, 106)) / 106, 3)
    1.284
    """
    owner = "minima_joint"
    bins, codes, p_false = _response(owner, bins, code_bits, chance)
    empty = _empty(bins, within(owner, "size", size, 0))
    total = _entropy(_answers(codes, p_false, empty), codes)
    noise = _entropy((1 - codes * p_false, p_false), codes)
    return np.asarray(np.maximum(bins * (total - noise), 0))


def _signs(bits: np.ndarray, power: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """bits (log 2 - E h(Phi(r Z))) for a standard normal Z and r**2 = power / variance."""
    from scipy.special import ndtr

    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(power == 0, np.inf, variance / power)[..., None]  # 1 / r**2
        # h(Phi(u)) falls like a Gaussian of deviation 1, u's is r: their product is narrower.
        width = 1 / np.sqrt(1 + inverse)
        bell = np.exp(-(GRID**2) / 2 * inverse / (1 + inverse)) * np.sqrt(inverse / (1 + inverse))
    bell = np.where(np.isinf(inverse), np.exp(-(GRID**2) / 2), bell)
    step = (GRID[1] - GRID[0]) / math.sqrt(2 * math.pi)
    entropy = (binary_entropy(ndtr(width * GRID)) * bell).sum(axis=-1) * step
    return np.asarray(np.maximum(bits * (math.log(2) - entropy), 0))


def _response(
    owner: str, bins: Any, code_bits: Any, p_false: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bins, number of codes and probability of each false symbol, checked."""
    codes = np.asarray(2.0 ** within(owner, "code_bits", code_bits, 0, 16))
    p_false = within(owner, "chance", p_false, 0)
    if not bool(((codes + 1) * p_false <= 1 + 1e-12).all()):
        raise ValueError(f"{owner}: chance must be at most 1 / (2**code_bits + 1).")
    return within(owner, "bins", bins, 1), codes, p_false


def _empty(bins: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Probability that a bin has no item."""
    return np.asarray((1 - 1 / bins) ** items)


def _answers(codes: Any, p_false: Any, empty: Any) -> tuple[Any, Any]:
    """Probabilities of the answer "empty" and of each code, for equally likely codes."""
    more = 1 - (codes + 1) * p_false  # extra probability of the true answer
    return p_false + more * empty, p_false + more * (1 - empty) / codes


def _own_bin(codes: Any, p_false: Any, least: Any, empty: Any) -> Any:
    """Divergence of an item's bin, its minimum with probability `least`, from a random bin."""
    from scipy.special import rel_entr

    more = 1 - (codes + 1) * p_false
    other = p_false + more * (1 - least) / codes
    without = _answers(codes, p_false, empty)
    own = rel_entr(other + more * least, without[1])
    return own + (codes - 1) * rel_entr(other, without[1]) + rel_entr(p_false, without[0])


def _divergence(answers: tuple[Any, Any], codes: Any, p_false: Any, empty: Any) -> Any:
    """Divergence of these answers from those of bins that are empty with probability `empty`."""
    from scipy.special import rel_entr

    other = _answers(codes, p_false, empty)
    return rel_entr(answers[0], other[0]) + codes * rel_entr(answers[1], other[1])


def _entropy(probabilities: tuple[Any, Any], codes: Any) -> Any:
    """Entropy of one answer of the first probability and `codes` answers of the second."""
    from scipy.special import entr

    return entr(probabilities[0]) + codes * entr(probabilities[1])


def profile_information(released: Any, size: Any) -> tuple[np.ndarray, np.ndarray]:
    """Compute the information of released profiles about one item and about all.

    Parameters
    ----------
    released : ReleasedBlip, ReleasedJlt, ReleasedSigns or ReleasedMinima
        Released profiles; only their public parameters are read.
    size : array_like
        Number of items in a profile, at least 1.

    Returns
    -------
    tuple of ndarray
        Information about one item, and information about the entire profile divided by `size`, both
        in nats per item and in the shape of `size`.

    Raises
    ------
    TypeError
        If `released` is of another kind.

    Notes
    -----
    **Guarantee.** Exact in the model of the formulas in `bounds`: random codewords, equally likely
    items and a known size, so that a released noisy size adds nothing. The second value is never
    below the first. A catalogue of N items limits the joint information of a profile to log(N
    choose size). Noise and codewords of projections are modelled as normal and continuous, which is
    accurate for sigma above a few units.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> class ReleasedJlt(SimpleNamespace):
    ...     "Stand-in with the public parameters of a release."
    >>> single, joint = profile_information(ReleasedJlt(dimensions=1000, sigma=3), 106)
    >>> round(float(single), 4), round(float(joint), 4)
    (0.0549, 0.0552)
    """
    for kind in type(released).__mro__:
        if kind.__name__ in _KINDS:
            single, joint = _KINDS[kind.__name__](released, np.asarray(size, np.float64))
            return single, joint / np.asarray(size, np.float64)
    raise TypeError(
        "profile_information: released must be made by Blip, Jlt, Signs or Minima, not "
        f"{type(released).__name__}."
    )


def _blip(released: Any, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    arguments = released.bits, released.hashes, float(released.flip_probability), size
    return blip_single(*arguments), blip_joint(*arguments)


def _jlt(released: Any, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    arguments = released.dimensions, size, _noise(released)
    return jlt_single(*arguments), jlt_joint(*arguments)


def _signs_information(released: Any, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    arguments = released.bits, size, _noise(released)
    return signs_single(*arguments), signs_joint(*arguments)


def _minima(released: Any, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    arguments = released.bins, released.code_bits, float(released.chance), size
    return minima_single(*arguments), minima_joint(*arguments)


def _noise(released: Any) -> float:
    """Standard deviation of the noise in units of one codeword's norm."""
    return float(released.sigma)


_KINDS = {
    "ReleasedBlip": _blip,
    "ReleasedJlt": _jlt,
    "ReleasedSigns": _signs_information,
    "ReleasedMinima": _minima,
}
