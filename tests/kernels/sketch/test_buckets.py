"""Buckets are rounded down, wrapped to 32 bits, refused when too far, and compared one to one."""

import numpy as np

from sfumato.kernels.sketch import codes as buckets

RNG = np.random.default_rng(4)


def test_buckets_are_rounded_down():
    values, offsets = RNG.normal(size=(20, 16)), RNG.uniform(0, 0.3, 10)
    out = np.empty((20, 10), np.int32)
    assert buckets.fill(values, offsets, 0.3, 2.0**53, out) == -1
    np.testing.assert_array_equal(out, np.floor((values[:, :10] + offsets) / 0.3))
    assert out.min() < 0 < out.max()


def test_buckets_wrap_at_32_bits_and_the_first_row_past_reach_is_named():
    far = 2.0 ** np.array([[0, 31, 33], [1, 32, 52], [1, 53, 1], [900, 1, 1]])
    out = np.empty((4, 3), np.int32)
    assert buckets.fill(far, np.zeros(3), 1.0, 2.0**53, out) == 2
    np.testing.assert_array_equal(out[:2], [[1, -(2**31), 0], [2, 0, 0]])
    for bad in (np.inf, -np.inf, np.nan, -(2.0**53)):
        assert buckets.fill(np.array([[bad]]), np.zeros(1), 1.0, 2.0**53, out[:1, :1]) == 0


def test_equal_counts_the_places_that_agree():
    left = RNG.integers(-2, 2, (5, 7), np.int32)
    right = RNG.integers(-2, 2, (32, 7), np.int32)
    panels = np.ascontiguousarray(right.reshape(2, 16, 7).transpose(0, 2, 1))
    out = np.empty((5, 32), np.int32)
    buckets.equal(left, panels, out)
    np.testing.assert_array_equal(out, (left[:, None] == right).sum(axis=2))
