"""Products of pairs of rows are those of NumPy."""

import numpy as np
import pytest

from sfumato.kernels.recommend import sgd_dense as pairs


@pytest.mark.parametrize("size", [16, 32, 48])
def test_products_are_those_of_the_named_rows(size):
    rng = np.random.default_rng(size)
    users = rng.integers(-9, 10, (5, size)).astype(np.float32)  # integers: sums are exact
    items = rng.integers(-9, 10, (7, size)).astype(np.float32)
    user_rows, item_rows = rng.integers(0, 5, 40), rng.integers(0, 7, 40)
    out = np.empty(40)
    pairs.products(users, items, user_rows, item_rows, out)
    np.testing.assert_array_equal(out, (users[user_rows] * items[item_rows]).sum(axis=1))
