"""Tensor sketches are count sketches of tensor powers, made by convolution."""

import numpy as np
import pytest

from sfumato.core.hashing import hash_column
from sfumato.kernels.hash import ROW
from sfumato.sketch import FeatureHasher, TensorSketch
from support.concurrency import at_once

RNG = np.random.default_rng(12)
X, Y = RNG.normal(size=(2, 12))


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("width", [1, 7, 16])
def test_features_are_the_count_sketch_of_the_tensor_power(degree, width):
    hashes = [int(h) for h in hash_column(range(4), seed=5)]
    row, want = X[:4], np.zeros(width)
    for index in np.ndindex(*[4] * degree):
        products = [hashes[i] * int(ROW[b]) % 2**64 for b, i in enumerate(index)]
        slot = sum((p >> 32) * width >> 32 for p in products) % width
        sign = np.prod([1 - 2 * (p >> 31 & 1) for p in products])
        want[slot] += sign * np.prod(row[list(index)])
    got = TensorSketch(width, dimension=4, degree=degree, seed=5).transform([row])
    np.testing.assert_allclose(got[0], want, atol=1e-12)


def test_degree_one_is_feature_hashing():
    got = TensorSketch(50, dimension=12, degree=1, seed=3).update([X])
    want = FeatureHasher(50, seed=3).update(range(12), X)
    np.testing.assert_allclose(got._cells, want._cells, atol=1e-12)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("width", [15, 16])
def test_kernel_is_unbiased_and_within_the_variance_bound(degree, width):
    # 2,000 seeds: the mean within 4.5 sd of the exact kernel, p < 1e-5. The bound on the variance
    # is far from tight here, and a bound without its factor 3**degree - 1 would be exceeded.
    got = []
    for seed in range(2000):
        x, y = TensorSketch(width, dimension=12, degree=degree, seed=seed).transform([X, Y])
        got.append(x @ y)
    unit = (np.linalg.norm(X) * np.linalg.norm(Y)) ** (2 * degree) / width
    assert abs(np.mean(got) - (X @ Y) ** degree) < 4.5 * np.std(got) / np.sqrt(2000)
    assert np.var(got) < (3**degree - 1) * unit


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_variance_bound_is_nearly_reached_by_two_equal_rows_of_equal_numbers(degree):
    # Chebyshev's bound at 75 % is twice the root of the variance it rests on. The sample variance
    # of 3,000 seeds, within a few percent, is 30 % to 100 % of that: half the bound would be wrong.
    row = np.ones(12) / np.sqrt(12)
    norms = [
        TensorSketch(15, dimension=12, degree=degree, seed=seed).update([row]).norm() ** 2
        for seed in range(3000)
    ]
    bound = TensorSketch(15, dimension=12, degree=degree).error_bound(0.75)
    assert 0.3 < np.var(norms) / (bound / 2) ** 2 < 1


def test_sketch_is_the_sum_of_features_and_its_inner_product_that_of_all_pairs():
    left, right = RNG.normal(size=(30, 12)), RNG.normal(size=(20, 12)) + 0.5
    one = TensorSketch(4096, dimension=12).update(left)
    np.testing.assert_allclose(one._cells, one.transform(left).sum(axis=0), atol=1e-9)
    two = TensorSketch(4096, dimension=12).update(right)
    want = ((left @ right.T) ** 2).sum()
    norms = [np.sqrt(((rows @ rows.T) ** 2).sum()) for rows in (left, right)]
    # Chebyshev at 99.99 %.
    assert abs(one.inner(two) - want) < one.error_bound(0.9999) * norms[0] * norms[1]
    assert one.inner(two) == pytest.approx(want, rel=0.2)


def test_rows_in_several_blocks_have_the_same_features(monkeypatch):
    rows = RNG.normal(size=(30, 12))
    sketch = TensorSketch(20, dimension=12, degree=3)
    whole = sketch.transform(rows)
    monkeypatch.setattr("sfumato.sketch.projection.tensor_sketch.NUMBERS", 200)
    np.testing.assert_allclose(sketch.transform(rows), whole, rtol=1e-12, atol=1e-12)


def test_from_error_gives_the_smallest_width():
    sketch = TensorSketch.from_error(0.5, 0.9, dimension=3, degree=3)
    assert sketch.error_bound(0.9) <= 0.5 + 1e-12
    assert TensorSketch(sketch.width - 1, dimension=3, degree=3).error_bound(0.9) > 0.5


def test_rows_whose_power_would_overflow_are_named_and_change_nothing():
    sketch = TensorSketch(8, dimension=2, degree=4).update([[1, 2]])
    before = sketch.to_bytes()
    for ask in (sketch.update, sketch.transform):
        with pytest.raises(ValueError, match="row 1 is too large for degree 4; scale the rows"):
            ask([[1, 2], [1e100, 0]])
    with pytest.raises(ValueError, match=r"sum to at most 1e\+140"):
        sketch.update([[9e34, 0]] * 9).update([[9e34, 0]] * 9)
    assert np.isfinite(sketch.norm())
    assert TensorSketch.from_bytes(before).update([[1, 2]]).mass == 2 * 81


def test_only_sketches_of_the_same_parameters_are_compared():
    one = TensorSketch(8, dimension=2)
    for ask in (one.inner, one.distance):
        with pytest.raises(ValueError, match="cannot compare, degree is 2 here and 3 there"):
            ask(TensorSketch(8, dimension=2, degree=3))


@pytest.mark.parametrize("degree", [1, 3])
def test_threads_may_transform_and_compare_together(degree):
    rows = RNG.normal(size=(40, 12))
    sketch = TensorSketch(50, dimension=12, degree=degree, seed=47).update(rows)
    before = sketch.copy()
    asks = [lambda: sketch.transform(rows), lambda: [sketch.norm(), sketch.inner(before)]] * 4
    for got, ask in zip(at_once(asks), asks, strict=True):
        np.testing.assert_array_equal(got, ask())
    assert sketch == before
