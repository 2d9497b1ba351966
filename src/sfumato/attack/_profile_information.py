"""What released profiles tell about one item and about whole profiles, by the kind of release."""

from typing import Any

import numpy as np

from sfumato.attack._blip_bounds import blip_joint, blip_single
from sfumato.attack._jlt_bounds import jlt_joint, jlt_single
from sfumato.attack._symbol_bounds import minima_joint, minima_single, signs_joint, signs_single

__all__ = ["profile_information"]


def profile_information(released: Any, size: Any) -> tuple[np.ndarray, np.ndarray]:
    """Nats that a release tells about one item of a profile, and about all of it, an item each.

    Guarantee: those of the formulas in `bounds`: exact in their model, in which codewords are drawn
    at random, all items are as likely and the size is known, so that noisy sizes tell nothing more.
    The second is never below the first.
    A catalogue of N items caps the second: no profile has more than log(N choose size) to tell.
    Noise and codewords of projections are taken as normal and continuous, which makes no difference
    that matters where sigma is above a few units.
    Parameters: released, by `Blip`, `Jlt`, `Signs` or `Minima`; size, items of a profile, from 1
    up, one number or an array.

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


def _signs(released: Any, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    "ReleasedSigns": _signs,
    "ReleasedMinima": _minima,
}
