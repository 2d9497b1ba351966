"""Products of a design by cohorts are those of plain matrices, however it is cut into parts."""

import numpy as np
import pytest
import scipy.sparse

from sfumato.telemetry.decoding import design
from sfumato.telemetry.decoding.design import Blocks


@pytest.mark.parametrize("entries", [1, 2 * 5 * 9, 2**21])
def test_products_are_those_of_full_matrices(monkeypatch, entries):
    monkeypatch.setattr(design, "ENTRIES", entries)
    rng, m, k, count = np.random.default_rng(1), 7, 5, 9
    plain = (rng.random((m * k, count)) < 0.4).astype(float)
    blocks = Blocks(scipy.sparse.csc_matrix(plain), m)
    assert len(blocks.parts) == {1: 7, 90: 4, 2**21: 1}[entries]
    own, fractions = plain.reshape(m, k, count), rng.random(count)
    weights = rng.random((m, k, k))
    weights += weights.transpose(0, 2, 1)
    covariance = rng.random((count, count))
    covariance += covariance.T
    gram = sum(blocks.gram(part, weights[part]) for part in blocks.parts)
    assert np.allclose(gram, sum(x.T @ w @ x for x, w in zip(own, weights, strict=True)))
    alone = sum(blocks.gram(part, weights[part, 0]) for part in blocks.parts)
    assert np.allclose(alone, plain.T @ (weights[:, 0].reshape(-1, 1) * plain))
    products = np.concatenate([blocks.sandwich(part, covariance) for part in blocks.parts])
    assert np.allclose(products, [x @ covariance @ x.T for x in own])
    pairs = np.concatenate([blocks.pairs(part, fractions) for part in blocks.parts])
    assert np.allclose(pairs, [(x * fractions) @ x.T for x in own])
    assert np.allclose(blocks @ fractions, own @ fractions)
    assert np.allclose(blocks @ covariance, own @ covariance)
    assert np.allclose(blocks.sums(weights[:, 0]), plain.T @ weights[:, 0].reshape(-1))
