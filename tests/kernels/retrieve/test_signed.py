"""Given codes are ranked by their factor times the weighted sum of their bits."""

import numpy as np
import pytest

from sfumato.kernels.retrieve import rerank as signed
from sfumato.retrieve.binary.store import Panels


@pytest.mark.parametrize("bits", [1, 63, 64, 100, 256])
@pytest.mark.parametrize("factored", [True, False])
def test_the_best_are_those_of_a_matrix_product(bits, factored):
    rng = np.random.default_rng(bits)
    count, queries, k = 300, 5, 7
    signs = rng.integers(0, 2, (count, bits)) * 2 - 1
    packed = np.zeros((count, -(-bits // 64) * 8), np.uint8)
    packed[:, : -(-bits // 8)] = np.packbits(signs > 0, axis=1, bitorder="little")
    blocks = Panels(packed.shape[1] // 8).append(packed.view(np.uint64)).blocks
    factors = rng.lognormal(size=count if factored else 0).astype(np.float32)
    weights = rng.normal(size=(queries, bits)).astype(np.float32)
    offsets = rng.normal(size=queries).astype(np.float32)
    shifts = rng.normal(size=count if factored else 0).astype(np.float32)
    lists = [np.sort(rng.permutation(count)[:size]) for size in (0, 1, 6, 40, 300)]
    starts = np.cumsum([0, *map(len, lists)])
    places, scores = np.full((queries, k), -1), np.full((queries, k), -np.inf, np.float32)
    filled = np.pad(weights, ((0, 0), (0, -bits % 64)))
    signed.best(
        blocks, factors, shifts, filled, offsets, starts, np.concatenate(lists), places, scores
    )  # fmt: skip
    for q, rows in enumerate(lists):
        every = signs[rows] @ weights[q].astype(np.float64) + offsets[q]
        if factored:
            every = every * factors[rows] + shifts[rows]
        order = np.lexsort((rows, -every))[:k]
        np.testing.assert_allclose(scores[q, : order.size], every[order], rtol=1e-4, atol=1e-5)
        assert np.isneginf(scores[q, order.size :]).all()
        assert (places[q, order.size :] == -1).all()
        if bits > 1:  # with one bit, rounding may part what is equal
            np.testing.assert_array_equal(places[q, : order.size], rows[order])
