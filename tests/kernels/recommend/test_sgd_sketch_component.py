"""The kernel of single numbers does (4.1) to (4.4), and its median is a median."""

import numpy as np
import pytest

from sfumato.core.hashing import hash_column
from sfumato.recommend.factorization.factor_cells import FactorCells


def by_hand(cells, hashes, median=False):
    """Read-outs in NumPy, from the written rule of cells and signs."""
    products = hashes[:, None, None] * cells._keys[None]
    slots = (products >> np.uint64(32)) * np.uint64(cells.width) >> np.uint64(32)
    rows = np.arange(cells.depth)[None, :, None] * cells.width + slots.astype(np.int64)
    signs = 1 - 2 * (products >> np.uint64(16) & np.uint64(1)).astype(np.float64)
    return (np.median if median else np.mean)(cells.table[rows] * signs, axis=1)


def started(depth, readout="mean", layout="component", width=70):
    cells = FactorCells(11, depth, width, layout, readout)
    cells.add_noise(0.3, np.random.default_rng(5))
    return cells


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("readout", ["mean", "median"])
def test_read_outs_are_the_mean_or_median_of_signed_cells(depth, readout):
    cells, hashes = started(depth, readout), hash_column(np.arange(40), 1)
    expected = by_hand(cells, hashes, readout == "median")
    np.testing.assert_allclose(cells._read(hashes), expected, atol=1e-6)


@pytest.mark.parametrize("layout", ["component", "block"])
def test_a_median_moves_by_the_step_too(layout):
    cells = started(5, "median", layout, width=3000)
    user, item = hash_column([5], 1), hash_column([9], 2)
    x, y = cells.vectors(user)[0], cells.vectors(item)[0]
    error = 2.0 - x[:-1] @ y[:-1] - x[-1] - y[-1]
    cells.descend(user, item, np.array([2], np.float32), clip=np.inf, rate=0.01, weight=0.1)
    expected = x + 0.01 * (error * np.append(y[:-1], 1) - 0.1 * x)
    np.testing.assert_allclose(cells.vectors(user)[0], expected, atol=1e-5)


def test_the_bias_is_the_first_number_read_and_the_last_one_served():
    cells, hashes = started(3), hash_column(np.arange(6), 1)
    read, served = cells._read(hashes), cells.vectors(hashes)
    np.testing.assert_allclose(served[:, -1], read[:, 0], atol=1e-6)
    np.testing.assert_allclose(served[:, 1:-1], read[:, 1:-1], atol=1e-6)
    np.testing.assert_allclose(served[:, 0], read[:, -1], atol=1e-6)
