"""Ertl's estimate of a number of keys from the registers of HyperLogLog. Needs no compiler."""

import math
from typing import Any

__all__ = ["distinct"]


def distinct(tally: Any, size: int) -> float:
    """Ertl's estimate from the number of registers of each value, `size` in all.

    sigma(x) = x + sum over k of x**(2**k) 2**(k - 1), for the fraction x of empty registers;
    tau(x) = (1 - x - sum over k of (1 - x**(2**-k))**2 2**-k) / 3, for 1 - x of full registers.
    """
    top = len(tally) - 1
    x, tau, last = 1 - tally[top] / size, 0.0, -1.0
    if 0.0 < x < 1.0:
        y, tau = 1.0, 1 - x
        while tau != last:
            x, last = math.sqrt(x), tau
            y *= 0.5
            tau -= (1 - x) * (1 - x) * y
    z = size * (tau / 3)
    for k in range(top - 1, 0, -1):
        z = 0.5 * (z + tally[k])
    x, y, last = tally[0] / size, 1.0, -1.0
    if x == 1.0:
        return 0.0
    sigma = x
    while sigma != last:
        x, last = x * x, sigma
        sigma += x * y
        y += y
    z += size * sigma
    return size / (2 * math.log(2.0)) * size / z if z else math.inf
