"""The keys that hash functions are chosen by, from a seed; needs no compiler."""

import numpy as np

__all__ = ["GOLDEN", "MASK", "integer_hashes", "key_of"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASK = 2**64 - 1


def key_of(seed: int) -> np.uint64:
    """The mixed seed that integers are hashed with: mix(seed + GOLDEN), in plain Python."""
    z = (seed + int(GOLDEN)) & MASK
    z = ((z ^ z >> 27) * 0x3C79AC492BA7B653) & MASK
    z = ((z ^ z >> 33) * 0x1C69B3F74AC4AE35) & MASK
    return np.uint64(z ^ z >> 27)


def integer_hashes(count: int, seed: int) -> np.ndarray:
    """The hashes of 0, 1, ... count - 1, uint64: what `hash.integers` computes, without compiling.

    >>> integer_hashes(2, 1)
    array([15829713065663489932,  6669045184288502695], dtype=uint64)
    """
    z = np.arange(count, dtype=np.uint64) ^ key_of(seed)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x3C79AC492BA7B653)
    z = (z ^ z >> np.uint64(33)) * np.uint64(0x1C69B3F74AC4AE35)
    return z ^ z >> np.uint64(27)
