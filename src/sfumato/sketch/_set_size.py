"""How many keys a set has, from the minima of their hashes.

A hash of n keys, scaled to 0..1, is a stream of events at rate n. Minima tell how much of it had to
be searched, the exposure, for how many events; n times the exposure then follows a Gamma law.
"""

import numpy as np
from scipy.special import gammaincinv

from sfumato._require import whole
from sfumato.kernels.minhash import EMPTY

__all__ = ["evidence", "limits"]

RANGE = 2.0**32


def evidence(kind: str, minima: np.ndarray) -> tuple[int, float]:
    """Two numbers whose quotient estimates n; the second is 0 where the first is n itself."""
    events, exposure = _search(kind, minima)
    if exposure == 0 or kind == "one-permutation":
        return events, exposure
    # The last event ends the search, so it does not count: this makes the estimate unbiased.
    return whole(2).check("MinHash", "permutations to estimate a size from", events) - 1, exposure


def limits(kind: str, minima: np.ndarray, confidence: float) -> tuple[float, float]:
    """The lowest and highest n that agree with the minima."""
    events, exposure = _search(kind, minima)
    if exposure == 0:
        return float(events), float(events)
    miss = (1 - confidence) / 2
    # Where empty bins end the search instead of an event, one more event may have been about to.
    more = events + (kind == "one-permutation")
    low, high = gammaincinv(events, miss), gammaincinv(more, 1 - miss)
    return float(low / exposure), float(high / exposure)


def _search(kind: str, minima: np.ndarray) -> tuple[int, float]:
    full = minima != EMPTY
    events = int(np.count_nonzero(full))
    places = (minima.astype(np.float64) + 0.5) / RANGE
    if events == 0 or (kind == "k-minimum" and events < minima.size):
        return events, 0.0
    if kind == "permutations":
        return events, float(-np.log1p(-places).sum())
    if kind == "one-permutation":
        return events, float(np.where(full, places, 1.0).mean())
    # Equal hashes are kept once, so that values lie thinner than keys: by log1p(-m) / -m.
    thin = min(minima.size / places[-1] / RANGE, 1 - 1 / RANGE)
    return events, float(places[-1] * thin / -np.log1p(-thin))
