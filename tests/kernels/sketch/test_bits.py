"""Packed signs are NumPy's packed bits; Hamming distances are counted one by one."""

import numpy as np
import pytest

from sfumato.kernels.sketch import codes as bits

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("width", [16, 48, 64, 80, 256])
def test_signs_are_packed_lowest_first(width):
    values = RNG.normal(size=(9, width))
    values[0], values[1, ::2] = 0.0, -0.0
    codes = np.empty((9, -(-width // 64)), np.uint64)
    bits.pack_signs(values, codes)
    whole = np.zeros((9, codes.shape[1] * 64), bool)
    whole[:, :width] = values > 0
    np.testing.assert_array_equal(codes, np.packbits(whole, axis=1, bitorder="little").view("<u8"))


@pytest.mark.parametrize("words", [1, 4, 5])
def test_hamming_counts_the_bits_that_differ(words):
    left = RNG.integers(0, 2**64, (3, words), np.uint64)
    right = RNG.integers(0, 2**64, (32, words), np.uint64)
    right[0], right[1] = left[0], ~left[0]
    panels = np.ascontiguousarray(right.reshape(2, 16, words).transpose(0, 2, 1))
    out = np.empty((3, 32), np.int32)
    bits.hamming(left, panels, out)
    np.testing.assert_array_equal(out, np.bitwise_count(left[:, None] ^ right).sum(axis=2))
    assert (out[0, 0], out[0, 1]) == (0, 64 * words)
