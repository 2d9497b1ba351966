"""The nearest line among all centroids is what comparing all of them finds."""

import numpy as np
import pytest

from sfumato.kernels.alignment import aligned
from sfumato.kernels.retrieve import sign_search as exhaustive


def panels_of(rows):
    out = aligned((-(-len(rows) // 32), rows.shape[1], 32), np.float32)
    for i, row in enumerate(rows):
        out[i // 32, :, i % 32] = row
    return out


@pytest.mark.parametrize(("count", "dimension"), [(1, 1), (20, 3), (32, 2), (1000, 8)])
def test_the_largest_product_of_either_sign_is_found(count, dimension):
    rng = np.random.default_rng(count)
    # Integers: products are exact and often equal; of those the first must be found.
    rows = rng.integers(-3, 4, (count, dimension)).astype(np.float32)
    rows[0] = 1
    x = rng.integers(-3, 4, (40, dimension)).astype(np.float32)
    out = np.empty(len(x), np.int64)
    exhaustive.nearest(panels_of(rows), x, out)
    products = x @ rows.T
    queries = np.abs(products).argmax(axis=1)
    sign = products[np.arange(len(x)), queries]
    np.testing.assert_array_equal(out, np.where(sign < 0, ~queries, queries))


def test_one_vector_does_not_depend_on_the_others():
    rng = np.random.default_rng(5)
    panels = panels_of(rng.normal(size=(300, 6)).astype(np.float32))
    x = rng.normal(size=(8, 6)).astype(np.float32)
    together, alone = np.empty(8, np.int64), np.empty(4, np.int64)
    exhaustive.nearest(panels, x, together)
    for i in range(8):
        exhaustive.nearest(panels, np.repeat(x[i : i + 1], 4, axis=0), alone)
        assert (alone == together[i]).all()
