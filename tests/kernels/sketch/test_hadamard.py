"""The fast transform is the product with the Hadamard matrix."""

import numpy as np
import pytest
from scipy import linalg

from sfumato.kernels.sketch import projections as hadamard


@pytest.mark.parametrize("length", [8, 16, 64, 1024])
def test_transform_is_the_product_and_keeps_norms(length):
    rows = np.random.default_rng(length).normal(size=(5, length))
    out = rows.copy()
    hadamard.transform(out)
    np.testing.assert_allclose(out, rows @ linalg.hadamard(length), rtol=1e-11, atol=1e-11)
    norms = np.linalg.norm(rows, axis=1) * np.sqrt(length)
    np.testing.assert_allclose(np.linalg.norm(out, axis=1), norms, rtol=1e-13)
