"""Information of a BLIP and of a noisy projection about a profile, in nats.

The formulas of the thesis, equations (3.16) to (3.26) (mutual information), corrected.
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
    """Compute the probability that BLIP flips a bit.

    Parameters
    ----------
    epsilon : array_like
        Privacy parameter of one item, at least 0.
    hashes : array_like
        Number of hash functions, at least 1.

    Returns
    -------
    ndarray
        1 / (1 + exp(epsilon / hashes)), from 0 to 1/2.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.1, equation (3.4) (flip probability of BLIP).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> round(float(flip_chance(8, 20)), 4)
    0.4013
    """
    from scipy.special import expit

    epsilon = within("flip_chance", "epsilon", epsilon, 0)
    return np.asarray(expit(-epsilon / within("flip_chance", "hashes", hashes, 1)))


def occupancy(bits: Any, hashes: Any, size: Any) -> np.ndarray:
    """Compute the probability that a bit of a Bloom filter is set.

    Parameters
    ----------
    bits : array_like
        Number of bits in the filter, at least 1.
    hashes : array_like
        Number of hash functions, at least 1.
    size : array_like
        Number of items in the filter, at least 0.

    Returns
    -------
    ndarray
        1 - (1 - 1 / bits)**(hashes * size).

    Notes
    -----
    For random sizes, the occupancy (3.8) is the mean of this value over their distribution.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.1, equations (3.5) (bits set by one item) and (3.6) (occupancy
       of a profile). https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> round(float(occupancy(5000, 20, 106)), 4)
    0.3456
    """
    owner = "occupancy"
    bits, hashes = within(owner, "bits", bits, 1), within(owner, "hashes", hashes, 1)
    return np.asarray(share_of_size(within(owner, "size", size, 0), bits, hashes))


def blip_single(bits: Any, hashes: Any, flip_probability: Any, size: Any) -> np.ndarray:
    """Compute the information of a BLIP about one item of a profile.

    Parameters
    ----------
    bits : array_like
        Number of bits in the filter, at least 1.
    hashes : array_like
        Number of hash functions, at least 1.
    flip_probability : array_like
        Probability that a bit is flipped, from 0 to 1/2.
    size : array_like
        Number of items in the profile, known to the attacker, at least 1.

    Returns
    -------
    ndarray
        Information in nats, at least 0.

    Notes
    -----
    **Guarantee.** Exact if each bit of a codeword is set independently with the probability (3.5),
    the other items are equally random and their number is known. Codewords of a Bloom filter set at
    most `hashes` bits, so their bits are not quite independent. The value is also the divergence of
    profiles with the item from those without it, which bounds the false-positive rate in (3.12).

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.16) (information about one item), correct as
       printed. https://theses.hal.science/tel-01430156

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
    """Compute the information of a BLIP about one item when profile sizes vary.

    Bits that the item does not set then carry almost no information about it.

    Parameters
    ----------
    bits : array_like
        Number of bits in the filter, at least 1.
    hashes : array_like
        Number of hash functions, at least 1.
    flip_probability : array_like
        Probability that a bit is flipped, from 0 to 1/2.
    share : array_like
        Probability that a bit of the unflipped filter is set, from 0 to 1: the mean occupancy
        (3.8).

    Returns
    -------
    ndarray
        Information in nats, at least 0.

    Notes
    -----
    **Guarantee.** With p the probability (3.5) that the item sets a bit, m the probability that a
    released bit is set and d the divergence of two Bernoulli distributions, the value is bits * p *
    d(1 - flip_probability, m). This is the divergence of profiles with the item from those without
    it, if all other items are present independently of it (sizes are then approximately Poisson).
    It is also the mean of the single decoder's score (3.27) over profiles that have the item.

    The mixed information of the thesis, equation (3.18), has h(m) - h(flip) in place of d(1 - flip,
    m). They differ by (1 - flip - m) log((1 - m) / m): (3.18) is right for half-full filters (m =
    1/2), too low for emptier ones (0.354 in the example) and too high for fuller ones.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.18) (information about one item, sizes mixed),
       corrected. https://theses.hal.science/tel-01430156

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
    """Compute the information of a BLIP about an entire profile.

    Parameters
    ----------
    bits : array_like
        Number of bits in the filter, at least 1.
    hashes : array_like
        Number of hash functions, at least 1.
    flip_probability : array_like
        Probability that a bit is flipped, from 0 to 1/2.
    size : array_like
        Number of items in the profile, at least 0.

    Returns
    -------
    ndarray
        Information in nats per profile; divide by `size` for nats per item.

    Notes
    -----
    **Guarantee.** Exact for independent bits. An upper bound for every hash function, catalogue and
    distribution of profiles whose bits are set with this probability, because the joint entropy is
    at most the sum of the entropies of the bits.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.19) (information about a profile), correct as
       printed. https://theses.hal.science/tel-01430156

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
    """Compute the capacity of one released bit of a BLIP.

    Parameters
    ----------
    epsilon : array_like
        Privacy parameter of one item, at least 0.
    hashes : array_like
        Number of hash functions, at least 1.

    Returns
    -------
    ndarray
        The capacity log 2 - h(flip probability) in nats, from 0 to log 2.

    Notes
    -----
    **Guarantee.** No bit carries more information, for any distribution of profiles. With x =
    epsilon / hashes the value is at most x**2 / 8, because its derivative in x is x flip (1 - flip)
    <= x / 4.

    In the per-bit bound of the thesis, equation (3.21), the second step is an equality and the
    others are right but loose: the last two bounds, x / (1 + exp(-x)) and x, are linear in x, while
    the capacity is quadratic.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.21) (information per bit), tightened.
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> round(float(flip_bound(8, 20)), 6), round(0.4**2 / 8, 6)
    (0.019607, 0.02)
    """
    return np.asarray(math.log(2) - binary_entropy(flip_chance(epsilon, hashes)))


def recommended_hashes(bits: Any, size: Any) -> np.ndarray:
    """Compute the number of hash functions that fills half of the bits.

    Parameters
    ----------
    bits : array_like
        Number of bits in the filter, at least 1.
    size : array_like
        Number of items in the profile, at least 1.

    Returns
    -------
    ndarray of int
        The smallest integer not below log(2) * bits / size.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.20) (recommended number of hash functions).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> recommended_hashes(5000, 106)
    array(33)
    """
    bits = within("recommended_hashes", "bits", bits, 1)
    size = within("recommended_hashes", "size", size, 1)
    return np.asarray(np.ceil(math.log(2) * bits / size).astype(np.int64))


def blip_joint_designed(epsilon: Any, false_positive_rate: Any) -> np.ndarray:
    """Compute the joint information per item of a BLIP designed for a false-positive rate.

    Parameters
    ----------
    epsilon : array_like
        Privacy parameter of one item, at least 0.
    false_positive_rate : array_like
        False-positive rate of the filter before flipping, above 0 and below 1.

    Returns
    -------
    ndarray
        Information about the entire profile, in nats per item.

    Notes
    -----
    **Guarantee.** The limit of `blip_joint` / size for large profiles, with the number of hash
    functions of (3.20) and the number of bits of (3.22), not rounded to integers. A half-full
    filter is the most informative.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.23) (joint information of a designed filter),
       correct as printed: the two signs in its exponent cancel, since h(p) = h(1 - p).
       https://theses.hal.science/tel-01430156

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
    """Compute the information about one item of a BLIP designed for a false-positive rate.

    Parameters
    ----------
    epsilon : array_like
        Privacy parameter of one item, at least 0.
    false_positive_rate : array_like
        False-positive rate of the filter before flipping, above 0 and below 1.

    Returns
    -------
    ndarray
        Information about one item in nats: log 2 times `blip_joint_designed`.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.24) (single information of a designed filter),
       correct as printed: (3.18), from which it follows, is right for a half-full filter.
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> round(float(blip_single_designed(20, 0.003)), 3)
    3.388
    """
    return np.asarray(math.log(2) * blip_joint_designed(epsilon, false_positive_rate))


def jlt_single(dimensions: Any, size: Any, sigma: Any) -> np.ndarray:
    """Compute the information of a noisy projection about one item of a profile.

    Parameters
    ----------
    dimensions : array_like
        Number of dimensions of the projection, at least 1.
    size : array_like
        Number of items in the profile, at least 1.
    sigma : array_like
        Standard deviation of the noise in units of one codeword's norm, at least 0. At 0 the other
        items of the profile still act as noise.

    Returns
    -------
    ndarray
        Information in nats, at least 0; infinite for a profile of one item without noise.

    Notes
    -----
    **Guarantee.** Exact for codewords of independent normal numbers of variance 1 / dimensions. At
    most 1 / (2 (sigma**2 + (size - 1) / dimensions)), however the noise was calibrated.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.25) (information about one item): its equality
       is right, its bound is not, see `jlt_single_bound`. https://theses.hal.science/tel-01430156

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
    """Compute the information of a noisy projection about an entire profile.

    Parameters
    ----------
    dimensions : array_like
        Number of dimensions of the projection, at least 1.
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
    **Guarantee.** Exact for codewords of independent normal numbers of variance 1 / dimensions. An
    upper bound for all other codewords of mean 0 and norm at most 1, because the normal
    distribution has the largest entropy for its variance. At most size / (2 sigma**2), however the
    noise was calibrated.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.26) (information about a profile), correct as
       printed. https://theses.hal.science/tel-01430156

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
    """Bound the information of a noisy projection about one item by epsilon.

    Parameters
    ----------
    epsilon : array_like
        Privacy parameter of one item, at least 0.
    dimensions : array_like
        Number of dimensions of the projection, at least 1.
    size : array_like
        Number of items in the profile, at least 1.

    Returns
    -------
    ndarray
        Upper bound on the information in nats.

    Notes
    -----
    **Guarantee.** At least `jlt_single` for noise as required by the thesis's calibration (3.10),
    sigma**2 > 16 / epsilon, for every delta that (3.10) allows. Tightly calibrated noise, as this
    library's `Jlt` uses, is weaker than (3.10) requires: call `jlt_single` with its sigma instead.

    The bound printed in (3.25) multiplies (size - 1) by the dimensions where it must divide. It is
    6,500 times lower in the example, and false.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.25) (bound on the information about one item),
       corrected. https://theses.hal.science/tel-01430156

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
    """Bound the joint information per item of a noisy projection by epsilon.

    Parameters
    ----------
    epsilon : array_like
        Privacy parameter of one item, at least 0.

    Returns
    -------
    ndarray
        Upper bound epsilon / 32, in nats per item.

    Notes
    -----
    **Guarantee.** At least `jlt_joint` / size for noise as required by the thesis's calibration
    (3.10), sigma**2 > 16 / epsilon. The bound epsilon**2 / (32 log(1 / delta)) is tighter.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.26) (bound on the information about a profile),
       correct as printed. https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> float(jlt_joint_bound(1))
    0.03125
    """
    return np.asarray(within("jlt_joint_bound", "epsilon", epsilon, 0) / 32)
