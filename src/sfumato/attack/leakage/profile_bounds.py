"""What a BLIP tells about one item and about a whole profile, in nats: (3.16) to (3.24).

What a noised projection tells of one item and of a whole profile, in nats: (3.25), (3.26).
"""

import math
from typing import Any

import numpy as np

from sfumato.attack.numerics import binary_divergence, binary_entropy, within
from sfumato.profile.bloom_occupancy import noisy_share, share_of_size

__all__ = [
    "blip_joint",
    "blip_joint_designed",
    "blip_single",
    "blip_single_designed",
    "blip_single_mixed",
    "flip_bound",
    "flip_chance",
    "jlt_joint",
    "jlt_joint_bound",
    "jlt_single",
    "jlt_single_bound",
    "occupancy",
    "recommended_hashes",
]


def flip_chance(epsilon: Any, hashes: Any) -> np.ndarray:
    """(3.4): the chance that a bit is flipped, 1 / (1 + exp(epsilon / hashes)).

    Parameters
    ----------
    epsilon : object
        TODO.
    hashes : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Examples
    --------
    >>> round(float(flip_chance(8, 20)), 4)
    0.4013
    """
    from scipy.special import expit

    epsilon = within("flip_chance", "epsilon", epsilon, 0)
    return np.asarray(expit(-epsilon / within("flip_chance", "hashes", hashes, 1)))


def occupancy(bits: Any, hashes: Any, size: Any) -> np.ndarray:
    """(3.6), with (3.5) at size 1: the chance that a bit of a filter of so many items is set.

    For sizes that vary, (3.8) is its mean over their law.

    Parameters
    ----------
    bits : object
        TODO.
    hashes : object
        TODO.
    size : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Examples
    --------
    >>> round(float(occupancy(5000, 20, 106)), 4)
    0.3456
    """
    owner = "occupancy"
    bits, hashes = within(owner, "bits", bits, 1), within(owner, "hashes", hashes, 1)
    return np.asarray(share_of_size(within(owner, "size", size, 0), bits, hashes))


def blip_single(bits: Any, hashes: Any, flip_probability: Any, size: Any) -> np.ndarray:
    """(3.16): nats that a BLIP tells about one item of a profile of exactly this many items.

    Thesis (3.16): right.

    bits and hashes from 1 up;

    Parameters
    ----------
    bits : object
        TODO.
    hashes : object
        TODO.
    flip_probability : object
        From 0 to 1/2.
    size : object
        From 1 up.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** Exact where every bit of a codeword is set independently with the chance of
    (3.5), the other items are as random and their number is known. Codewords of a Bloom filter set
    at most `hashes` bits, so theirs are not quite independent. This is also the divergence of
    profiles with the item from those without, which is what (3.12) asks for.

    Examples
    --------
    >>> round(float(blip_single(5000, 20, 0.4013, 106)), 3)
    0.672
    """
    owner = "blip_single"
    flip = within(owner, "flip_probability", flip_probability, 0, 0.5)
    size = within(owner, "size", size, 1)
    set_by_one = occupancy(bits, hashes, 1)
    mixed = noisy_share(occupancy(bits, hashes, size), flip)
    others = noisy_share(occupancy(bits, hashes, size - 1), flip)
    each = set_by_one * binary_divergence(1 - flip, mixed)
    each = each + (1 - set_by_one) * binary_divergence(others, mixed)
    return np.asarray(np.asarray(bits, np.float64) * each)


def blip_single_mixed(bits: Any, hashes: Any, flip_probability: Any, share: Any) -> np.ndarray:
    """(3.18), corrected: the same where sizes vary, so that absent bits tell next to nothing.

    Thesis (3.18) has h(m) - h(flip) in place of d(1 - flip, m). The two differ by (1 - flip - m)
    log((1 - m) / m): right for filters that are half full, where m = 1/2, too low for emptier ones
    (0.354 in the example) and too high for fuller ones.

    as of `blip_single`;

    Parameters
    ----------
    bits : object
        TODO.
    hashes : object
        TODO.
    flip_probability : object
        TODO.
    share : object
        The chance (3.8) that a bit of the filter is set.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** The divergence of profiles with the item from those without where all other items
    come and go independently of it (sizes are then near a Poisson law): bits p d(1 - flip, m), m
    the chance of a released bit to be set and d the divergence of two coins. It is the mean of the
    score (3.27) over profiles that have the item.

    Examples
    --------
    >>> round(float(blip_single_mixed(5000, 20, 0.4013, occupancy(5000, 20, 106))), 3)
    0.669
    """
    owner = "blip_single_mixed"
    flip = within(owner, "flip_probability", flip_probability, 0, 0.5)
    mixed = noisy_share(within(owner, "share", share, 0, 1), flip)
    ones = np.asarray(bits, np.float64) * occupancy(bits, hashes, 1)
    return np.asarray(ones * binary_divergence(1 - flip, mixed))


def blip_joint(bits: Any, hashes: Any, flip_probability: Any, size: Any) -> np.ndarray:
    """(3.19): nats that a BLIP tells about a whole profile; divide by size for those an item.

    Thesis (3.19): right.

    as of `blip_single`;

    Parameters
    ----------
    bits : object
        TODO.
    hashes : object
        TODO.
    flip_probability : object
        TODO.
    size : object
        From 0 up.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** Exact for independent bits, and an upper bound for every hash, catalogue and law
    of profiles whose bits are set this often, since entropies of parts add up to no less than that
    of the whole.

    Examples
    --------
    >>> round(float(blip_joint(5000, 20, 0.4013, 106)) / 106, 3)
    0.837
    """
    flip = within("blip_joint", "flip_probability", flip_probability, 0, 0.5)
    mixed = noisy_share(occupancy(bits, hashes, size), flip)
    each = binary_entropy(mixed) - binary_entropy(flip)
    return np.asarray(np.maximum(np.asarray(bits, np.float64) * each, 0))


def flip_bound(epsilon: Any, hashes: Any) -> np.ndarray:
    """(3.21), and tighter: the most nats that one bit of a BLIP tells, whatever it says.

    Thesis (3.21): its second step is an equality, the rest is right but coarse: its last two
    bounds, x / (1 + exp(-x)) and x, fall with x where the truth falls with its square.

    Parameters
    ----------
    epsilon : object
        TODO.
    hashes : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** With x = epsilon / hashes it is log 2 - h(flip), which is at most x**2 / 8, the
    slope of the former being x flip (1 - flip) <= x / 4.

    Examples
    --------
    >>> round(float(flip_bound(8, 20)), 6), round(0.4**2 / 8, 6)
    (0.019607, 0.02)
    """
    return np.asarray(math.log(2) - binary_entropy(flip_chance(epsilon, hashes)))


def recommended_hashes(bits: Any, size: Any) -> np.ndarray:
    """(3.20): the hashes that fill a filter to a half, rounded up.

    Parameters
    ----------
    bits : object
        TODO.
    size : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Examples
    --------
    >>> recommended_hashes(5000, 106)
    array(33)
    """
    bits = within("recommended_hashes", "bits", bits, 1)
    size = within("recommended_hashes", "size", size, 1)
    return np.asarray(np.ceil(math.log(2) * bits / size).astype(np.int64))


def blip_joint_designed(epsilon: Any, false_positive_rate: Any) -> np.ndarray:
    """(3.23): nats an item of the joint kind for a filter sized by (3.20) and (3.22).

    Thesis (3.23): right; the two signs in its exponent cancel, as h(p) = h(1 - p).

    Parameters
    ----------
    epsilon : object
        TODO.
    false_positive_rate : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** The limit of `blip_joint` / size for large profiles where the hashes are not
    rounded to integers; a filter that is half full tells most.

    Examples
    --------
    >>> round(float(blip_joint_designed(20, 0.003)), 3)
    4.887
    """
    owner = "blip_joint_designed"
    rate = within(owner, "false_positive_rate", false_positive_rate, 0, 1)
    hashes = -np.log2(rate)
    if not bool(((hashes > 0) & np.isfinite(hashes)).all()):
        raise ValueError(f"{owner}: false_positive_rate must lie between 0 and 1, both excluded.")
    from scipy.special import expit

    flip = expit(-within(owner, "epsilon", epsilon, 0) / hashes)
    return np.asarray(hashes * (1 - binary_entropy(flip) / math.log(2)))


def blip_single_designed(epsilon: Any, false_positive_rate: Any) -> np.ndarray:
    """(3.24): the same about one item, log 2 = 0.69 times as much.

    Thesis (3.24): right, and (3.18) it is drawn from is right too, for a filter half full.

    Parameters
    ----------
    epsilon : object
        TODO.
    false_positive_rate : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Examples
    --------
    >>> round(float(blip_single_designed(20, 0.003)), 3)
    3.388
    """
    return np.asarray(math.log(2) * blip_joint_designed(epsilon, false_positive_rate))


def jlt_single(dimensions: Any, size: Any, sigma: Any) -> np.ndarray:
    """(3.25), its equality: nats that a noised projection tells about one item of a profile.

    Thesis (3.25): its equality is right, its bound is not; see `jlt_single_bound`.

    Parameters
    ----------
    dimensions : object
        From 1 up.
    size : object
        From 1 up; sigma of the noise, from 0 up, in units of one codeword's norm. Without noise a
        single item still hides among the others.
    sigma : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** Exact for codewords of independent normal numbers of variance 1 / dimensions. At
    most 1 / (2 (sigma**2 + (size - 1) / dimensions)), whatever the noise was calibrated for.

    Examples
    --------
    >>> round(float(jlt_single(1000, 106, 3)), 4)
    0.0549
    """
    owner = "jlt_single"
    dimensions = within(owner, "dimensions", dimensions, 1)
    others = within(owner, "size", size, 1) - 1
    with np.errstate(divide="ignore"):
        ratio = 1 / (others + dimensions * within(owner, "sigma", sigma, 0) ** 2)
    return np.asarray(dimensions / 2 * np.log1p(ratio))


def jlt_joint(dimensions: Any, size: Any, sigma: Any) -> np.ndarray:
    """(3.26), its equality: nats about a whole profile (not divided by size).

    Thesis (3.26): right.

    as of `jlt_single`;

    Parameters
    ----------
    dimensions : object
        TODO.
    size : object
        From 0 up.
    sigma : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** Exact for codewords as in `jlt_single`, an upper bound for all others of norm 1
    at most and mean 0: of all laws of one variance the normal one has the largest entropy. At most
    size / (2 sigma**2), whatever the noise was calibrated for.

    Examples
    --------
    >>> round(float(jlt_joint(1000, 106, 3)) / 106, 4)
    0.0552
    """
    owner = "jlt_joint"
    dimensions = within(owner, "dimensions", dimensions, 1)
    size = within(owner, "size", size, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = size / (dimensions * within(owner, "sigma", sigma, 0) ** 2)
    return np.asarray(np.where(size == 0, 0.0, dimensions / 2 * np.log1p(ratio)))


def jlt_single_bound(epsilon: Any, dimensions: Any, size: Any) -> np.ndarray:
    """(3.25), its bound corrected, for noise as strong as (3.10) asks for: sigma**2 > 16 / epsilon.

    Thesis (3.25) multiplies (size - 1) by the dimensions; dividing is right, and the printed bound,
    6,500 times lower in the example, is false.

    Parameters
    ----------
    epsilon : object
        TODO.
    dimensions : object
        TODO.
    size : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** At least `jlt_single` for every delta that (3.10) allows. Noise calibrated
    tightly, as ours is, is weaker than (3.10) asks for: ask `jlt_single` at its sigma.

    Examples
    --------
    >>> round(float(jlt_single_bound(1, 1000, 106)), 5)
    0.03105
    """
    owner = "jlt_single_bound"
    epsilon = within(owner, "epsilon", epsilon, 0)
    others = within(owner, "size", size, 1) - 1
    return np.asarray(
        epsilon / (32 + 2 * epsilon * others / within(owner, "dimensions", dimensions, 1))
    )


def jlt_joint_bound(epsilon: Any) -> np.ndarray:
    """(3.26), its bound: nats an item, for noise as strong as (3.10) asks for.

    Thesis (3.26): right; epsilon**2 / (32 log(1 / delta)) is lower still.

    Parameters
    ----------
    epsilon : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** At least `jlt_joint` / size, likewise.

    Examples
    --------
    >>> float(jlt_joint_bound(1))
    0.03125
    """
    return np.asarray(within("jlt_joint_bound", "epsilon", epsilon, 0) / 32)
