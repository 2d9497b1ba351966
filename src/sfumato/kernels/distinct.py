"""HyperLogLog registers: register [first p bits of a hash] = 1 + most leading zeros of the rest."""

import numpy as np

from ._jit import kernel
from .lanes import count_leading_zeros

__all__ = ["observe"]


@kernel
def observe(registers, precision, hashes, found):
    """Raise the registers; found is scratch of uint32, as long as the block."""
    guard = np.uint64(1) << np.uint64(precision - 1)  # caps the rank at 64 - precision + 1
    index, rest = np.uint64(64 - precision), np.uint64(precision)
    for i in range(hashes.size):
        rank = np.uint64(count_leading_zeros(hashes[i] << rest | guard)) + np.uint64(1)
        found[i] = (hashes[i] >> index) << np.uint64(8) | rank
    for i in range(hashes.size):
        rank = np.uint8(found[i] & np.uint32(255))
        if registers[found[i] >> np.uint32(8)] < rank:
            registers[found[i] >> np.uint32(8)] = rank
