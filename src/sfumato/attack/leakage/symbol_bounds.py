"""What noised signs and noised minima tell of one item and of a whole profile, in nats.

The thesis has no such formulas; these follow its (3.16) and (3.19) for the channels of `Signs` and
`Minima`. The parts of a release are taken as independent, as there.

What released profiles tell about one item and about whole profiles, by the kind of release.
"""

import math
from typing import Any

import numpy as np

from sfumato.attack.leakage.profile_bounds import blip_joint, blip_single, jlt_joint, jlt_single
from sfumato.attack.numerics import binary_entropy, within

__all__ = ["minima_joint", "minima_single", "profile_information", "signs_joint", "signs_single"]

REACH = np.linspace(-13, 13, 521)  # deviations; steps of 0.05 are exact to rounding for such bells
RANKS, WEIGHTS = np.polynomial.legendre.leggauss(96)


def signs_single(bits: Any, size: Any, sigma: Any) -> np.ndarray:
    """Nats that the signs of a noised projection tell about one item of a profile.

    as of `jlt_single`.

    Parameters
    ----------
    bits : object
        TODO.
    size : object
        TODO.
    sigma : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** Exact for codewords of independent normal numbers of variance 1 / bits and normal
    noise. An item moves each projection by x, noise and other items spread it by s with s**2 =
    sigma**2 + (size - 1) / bits, so a sign tells log 2 - h(Phi(x / s)). For weak signals that is 2
    / pi of what the projection itself would tell (`jlt_single`).

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
    """Nats that the signs of a noised projection tell about a whole profile, size from 0 up.

    Parameters
    ----------
    bits : object
        TODO.
    size : object
        TODO.
    sigma : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** As of `signs_single`; an upper bound where the signs are not independent.

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
    """Nats that noised minima tell about one item of a profile of exactly this many items.

    Parameters
    ----------
    bins : object
        From 1 up.
    code_bits : object
        Of a code, from 0 to 16.
    chance : object
        Of every wrong symbol, from 0 up, at which an answer is still likeliest the true one.
    size : object
        From 1 up.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** Exact for random hashes where bins are taken as independent. An item of rank u,
    from 0 to 1, is the least of its bin with a chance of (1 - u / bins)**(size - 1), and then its
    code is what the noise is put on; else the code of another. All other bins hold one item less
    than they would.

    Examples
    --------
    >>> round(float(minima_single(1024, 4, 0.03, 106)), 3)
    1.245
    """
    owner = "minima_single"
    bins, codes, chance = _response(owner, bins, code_bits, chance)
    others = within(owner, "size", size, 1) - 1
    empty = _empty(bins, others + 1)
    before = _divergence(_answers(codes, chance, _empty(bins, others)), codes, chance, empty)
    # Over ranks: the nodes lie along a last axis of their own.
    least = (1 - (RANKS + 1) / 2 / bins[..., None]) ** others[..., None]
    here = _own_bin(codes[..., None], chance[..., None], least, empty[..., None]) @ (WEIGHTS / 2)
    with np.errstate(invalid="ignore"):
        rest = np.where(bins == 1, 0.0, (bins - 1) * before)
    return np.asarray(np.maximum(here + rest, 0))


def minima_joint(bins: Any, code_bits: Any, chance: Any, size: Any) -> np.ndarray:
    """Nats that noised minima tell about a whole profile, size from 0 up.

    Parameters
    ----------
    bins : object
        TODO.
    code_bits : object
        TODO.
    chance : object
        TODO.
    size : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** As of `minima_single`; an upper bound where bins are not independent.

    Examples
    --------
    >>> round(float(minima_joint(1024, 4, 0.03, 106)) / 106, 3)
    1.284
    """
    owner = "minima_joint"
    bins, codes, chance = _response(owner, bins, code_bits, chance)
    empty = _empty(bins, within(owner, "size", size, 0))
    told = _entropy(_answers(codes, chance, empty), codes)
    noise = _entropy((1 - codes * chance, chance), codes)
    return np.asarray(np.maximum(bins * (told - noise), 0))


def _signs(bits: np.ndarray, power: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """bits (log 2 - E h(Phi(r Z))), Z normal and r**2 = power / spread."""
    from scipy.special import ndtr

    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(power == 0, np.inf, spread / power)[..., None]  # 1 / r**2
        # h(Phi(u)) falls as a bell of deviation 1 and u as one of r; their product is narrower.
        width = 1 / np.sqrt(1 + inverse)
        bell = np.exp(-(REACH**2) / 2 * inverse / (1 + inverse)) * np.sqrt(inverse / (1 + inverse))
    bell = np.where(np.isinf(inverse), np.exp(-(REACH**2) / 2), bell)
    step = (REACH[1] - REACH[0]) / math.sqrt(2 * math.pi)
    doubt = (binary_entropy(ndtr(width * REACH)) * bell).sum(axis=-1) * step
    return np.asarray(np.maximum(bits * (math.log(2) - doubt), 0))


def _response(
    owner: str, bins: Any, code_bits: Any, chance: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    codes = np.asarray(2.0 ** within(owner, "code_bits", code_bits, 0, 16))
    chance = within(owner, "chance", chance, 0)
    if not bool(((codes + 1) * chance <= 1 + 1e-12).all()):
        raise ValueError(f"{owner}: chance must be at most 1 / (2**code_bits + 1).")
    return within(owner, "bins", bins, 1), codes, chance


def _empty(bins: np.ndarray, items: np.ndarray) -> np.ndarray:
    """The chance that no item falls into a bin."""
    return np.asarray((1 - 1 / bins) ** items)


def _answers(codes: Any, chance: Any, empty: Any) -> tuple[Any, Any]:
    """The chances of the answers "empty" and of each code, for codes as likely as each other."""
    more = 1 - (codes + 1) * chance  # how much likelier an answer is where it is the true one
    return chance + more * empty, chance + more * (1 - empty) / codes


def _own_bin(codes: Any, chance: Any, least: Any, empty: Any) -> Any:
    """The divergence of the bin of an item, least there so often, from one without the item."""
    from scipy.special import rel_entr

    more = 1 - (codes + 1) * chance
    other = chance + more * (1 - least) / codes
    without = _answers(codes, chance, empty)
    own = rel_entr(other + more * least, without[1])
    return own + (codes - 1) * rel_entr(other, without[1]) + rel_entr(chance, without[0])


def _divergence(answers: tuple[Any, Any], codes: Any, chance: Any, empty: Any) -> Any:
    from scipy.special import rel_entr

    other = _answers(codes, chance, empty)
    return rel_entr(answers[0], other[0]) + codes * rel_entr(answers[1], other[1])


def _entropy(chances: tuple[Any, Any], codes: Any) -> Any:
    """Of one answer of the first chance and `codes` answers of the second."""
    from scipy.special import entr

    return entr(chances[0]) + codes * entr(chances[1])


def profile_information(released: Any, size: Any) -> tuple[np.ndarray, np.ndarray]:
    """Nats that a release tells about one item of a profile, and about all of it, an item each.

    Parameters
    ----------
    released : object
        By `Blip`, `Jlt`, `Signs` or `Minima`.
    size : object
        Items of a profile, from 1 up, one number or an array.

    Returns
    -------
    tuple
        TODO.

    Notes
    -----
    **Guarantee.** Those of the formulas in `bounds`: exact in their model, in which codewords are
    drawn at random, all items are as likely and the size is known, so that noisy sizes tell nothing
    more. The second is never below the first. A catalogue of N items caps the second: no profile
    has more than log(N choose size) to tell. Noise and codewords of projections are taken as normal
    and continuous, which makes no difference that matters where sigma is above a few units.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> class ReleasedJlt(SimpleNamespace):
    ...     "Stands in for a release: what is public of it is all that is asked."
    >>> told = profile_information(ReleasedJlt(dimensions=1000, sigma=3), 106)
    >>> [round(float(each), 4) for each in told]
    [0.0549, 0.0552]
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
    told = released.bits, released.hashes, float(released.flip_probability), size
    return blip_single(*told), blip_joint(*told)


def _jlt(released: Any, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    told = released.dimensions, size, _noise(released)
    return jlt_single(*told), jlt_joint(*told)


def _signs_information(released: Any, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    told = released.bits, size, _noise(released)
    return signs_single(*told), signs_joint(*told)


def _minima(released: Any, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    told = released.bins, released.code_bits, float(released.chance), size
    return minima_single(*told), minima_joint(*told)


def _noise(released: Any) -> float:
    """Sigma in units of the norm of one codeword."""
    return float(released.sigma)


_KINDS = {
    "ReleasedBlip": _blip,
    "ReleasedJlt": _jlt,
    "ReleasedSigns": _signs_information,
    "ReleasedMinima": _minima,
}
