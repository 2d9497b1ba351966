"""HyperLogLog registers: register [first p bits of a hash] = 1 + most leading zeros of the rest."""

import numpy as np

from ._jit import inline, kernel
from .lanes import bits, count_leading_zeros, count_trailing_zeros, load

__all__ = ["observe"]


@inline
def _raise(registers, precision, h):
    guard = np.uint64(1) << np.uint64(precision - 1)  # caps the rank at 64 - precision + 1
    rank = np.uint8(count_leading_zeros(h << np.uint64(precision) | guard) + 1)
    register = h >> np.uint64(64 - precision)
    if registers[register] < rank:
        registers[register] = rank


@kernel
def observe(registers, precision, hashes):
    """Raise the registers.

    A hash whose rest has fewer leading zeros than the lowest register changes nothing; once that is
    above zero, eight hashes at a time are tested against it and most go no further.
    """
    lowest = np.uint8(255)
    for register in registers:
        lowest = min(lowest, register)
    if lowest == 0:
        for i in range(hashes.size):
            _raise(registers, precision, hashes[i])
        return
    rest, limit = np.uint64(precision), np.uint64(1) << np.uint64(64 - lowest)
    whole = hashes.size & ~7
    for i in range(0, whole, 8):
        left = bits(load(hashes, i) << rest < limit)
        while left:
            _raise(registers, precision, hashes[i + count_trailing_zeros(left)])
            left &= left - np.uint64(1)
    for i in range(whole, hashes.size):
        _raise(registers, precision, hashes[i])
