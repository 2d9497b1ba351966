"""The chances of RAPPOR, of 65536, that make the least noise and keep what was promised."""

from fractions import Fraction

import numpy as np

from sfumato.telemetry._scheme import log_up

__all__ = ["GRID", "chances", "cost_of_flips", "cost_of_report", "sent"]

GRID = 2**16  # chances are multiples of its inverse


def sent(kept: int, p16: int, q16: int) -> Fraction:
    """The chance that a 1 is sent where the permanent response is 1 with kept / 65536."""
    return Fraction(q16 * kept + p16 * (GRID - kept), GRID * GRID)


def cost_of_flips(flip: int, hashes: int) -> float:
    """2h ln((1 - f/2) / (f/2)), rounded up: 2h cells may differ between two values."""
    return 2 * hashes * log_up(Fraction(GRID - flip, flip)) if flip else np.inf


def cost_of_report(flip: int, p16: int, q16: int, hashes: int) -> float:
    """h ln(q*(1 - p*) / (p*(1 - q*))), rounded up: h cells may become 0 and h others 1."""
    high, low = sent(GRID - flip, p16, q16), sent(flip, p16, q16)
    if low == 0 or high == 1:
        return np.inf
    return hashes * log_up(high * (1 - low) / (low * (1 - high)))


def chances(permanent: float, one: float, hashes: int) -> tuple[int, int, int]:
    """flip, p16 and q16: the least flip for `permanent`, and the p and q of least noise for `one`.

    Noise: low (1 - low) / (high - low)**2, the variance of the count of a cell that few values
    have, for one report.
    """
    flip = _least_flip(permanent, hashes)
    if cost_of_flips(flip, hashes) <= one:
        return flip, 0, GRID
    q16 = np.arange(1, GRID + 1)
    p16 = _least_p(q16, flip, one / hashes)
    high, low = (_sent(kept / GRID, p16, q16) for kept in (GRID - flip, flip))
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = np.where(p16 < q16, low * (1 - low) / (high - low) ** 2, np.inf)
    for at in np.argsort(noise, kind="stable"):
        p, q = int(p16[at]), int(q16[at])
        if p < q and cost_of_report(flip, p, q, hashes) <= one:
            return flip, p, q
    raise ValueError(f"Params: one must be larger, not {one!r}: the reports would tell nothing.")


def _least_flip(permanent: float, hashes: int) -> int:
    low, high = 0, GRID // 2 - 1
    if cost_of_flips(high, hashes) > permanent:
        raise ValueError(
            f"Params: permanent must be larger, not {permanent!r}: the reports would tell nothing."
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cost_of_flips(middle, hashes) <= permanent else (middle, high)
    return high


def _least_p(q16: np.ndarray, flip: int, bound: float) -> np.ndarray:
    """For every q the least p whose report costs at most the bound a hash, up to float rounding."""
    low, high = np.full(q16.size, -1), q16.copy()
    while (high - low).max() > 1:
        middle = (low + high) // 2
        a, b = (_sent(kept / GRID, middle, q16) for kept in (GRID - flip, flip))
        with np.errstate(divide="ignore", invalid="ignore"):
            fits = np.log(a * (1 - b)) - np.log(b * (1 - a)) <= bound * (1 - 1e-12)
        fits &= middle > low  # where nothing is left between, nothing moves
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return high


def _sent(kept: float, p16: np.ndarray, q16: np.ndarray) -> np.ndarray:
    return (q16 * kept + p16 * (1 - kept)) / GRID
