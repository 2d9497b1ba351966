"""Feature hashing is one row of a count sketch; estimates stay within its variance and bound."""

import numpy as np
import pytest
from scipy import sparse

from sfumato.sketch import CountSketch, FeatureHasher
from support.concurrency import at_once

RNG = np.random.default_rng(11)
KEYS = np.arange(40)
VECTOR, OTHER = RNG.normal(size=(2, 40))


def test_cells_are_the_first_row_of_a_count_sketch():
    keys, weights = RNG.integers(-99, 99, 5000), RNG.normal(size=5000)
    for given in (None, weights):
        ours = FeatureHasher(101, seed=3).update(keys, given)
        theirs = CountSketch(101, 4, cells="real", seed=3).update(keys, given)
        np.testing.assert_array_equal(ours._cells, theirs._table[0])
        alone = CountSketch(101, 1, cells="real", seed=3).update(keys, given)
        np.testing.assert_array_equal(ours.estimate(KEYS), alone.estimate(KEYS))


def test_estimates_are_unbiased_with_the_variance_of_collisions():
    # 2,000 seeds: the mean within 4.5 sd of the truth (p < 1e-5), the variance within 20 % (5 sd of
    # a sample variance, whose own standard error is below 4 %).
    errors = [FeatureHasher(16, seed=s).update(KEYS, VECTOR).estimate([3])[0] for s in range(2000)]
    variance = (VECTOR @ VECTOR - VECTOR[3] ** 2) / 16
    assert abs(np.mean(errors) - VECTOR[3]) < 4.5 * np.sqrt(variance / 2000)
    assert np.var(errors) == pytest.approx(variance, rel=0.2)


def test_inner_products_are_unbiased_with_the_variance_of_collisions():
    # As above. The variance is (|u|**2 |v|**2 + <u, v>**2 - 2 sum (u v)**2) / width.
    got = [
        FeatureHasher(16, seed=s)
        .update(KEYS, VECTOR)
        .inner(FeatureHasher(16, seed=s).update(KEYS, OTHER))
        for s in range(2000)
    ]
    true, own = VECTOR @ OTHER, (VECTOR * OTHER) @ (VECTOR * OTHER)
    variance = ((VECTOR @ VECTOR) * (OTHER @ OTHER) + true**2 - 2 * own) / 16
    assert abs(np.mean(got) - true) < 4.5 * np.sqrt(variance / 2000)
    assert np.var(got) == pytest.approx(variance, rel=0.2)
    assert variance <= 2 * (VECTOR @ VECTOR) * (OTHER @ OTHER) / 16


def test_error_bound_is_just_wide_enough_for_one_heavy_key():
    # The only error there can be, 100, has p = 1 / 32: allowed where 4 % are, not where 3 % are. In
    # 1,000 seeds none at all, or more than 61, have p < 1e-6.
    def misses(confidence):
        sketches = (FeatureHasher(32, seed=s).update(["heavy"], [100.0]) for s in range(1000))
        return sum(abs(s.estimate(["light"])[0]) > s.error_bound(confidence) for s in sketches)

    assert 0 < misses(0.96) <= 61
    assert misses(0.97) == 0


def test_error_bound_from_the_norm_holds_for_equal_keys():
    # The bound lies between one weight and two, and two collisions of one sign have p = 0.0012: in
    # 1,000 seeds more than 10 have p < 1e-6. Half of the bound would be passed by 6.6 %.
    def miss(seed):
        sketch = FeatureHasher(1024, seed=seed).update(range(70))
        bound = sketch.error_bound(0.95)
        assert 1.5 < bound < 3
        return abs(sketch.estimate([-1])[0]) > bound

    assert sum(map(miss, range(1000))) <= 10


def test_error_bound_reads_the_norm_off_many_keys():
    # 3,000 keys of weight 1 in 4,096 cells: the norm, 55, is far below the mass, 3,000.
    sketch = FeatureHasher(4096, seed=1).update(range(3000))
    bound = sketch.error_bound(0.95)
    assert np.sqrt(3000 / 4096 / 0.05) < bound < 2.5 * np.sqrt(3000 / 4096 / 0.05)
    assert (np.abs(sketch.estimate(range(3000)) - 1) > bound).mean() < 0.05
    assert bound < sketch.mass / np.sqrt(4096 * 0.05)


def test_from_error_gives_the_smallest_width():
    assert FeatureHasher.from_error(0.1, 0.9).width == 1000
    assert FeatureHasher.from_error(0.5, 0.75, seed=4).parameters == {"width": 16, "seed": 4}


@pytest.mark.parametrize("weighted", [False, True])
def test_transform_is_the_sketch_of_each_row(weighted):
    words = [f"word {k}" for k in RNG.zipf(1.5, 300) % 50]
    weights = RNG.normal(size=300) if weighted else None
    offsets = np.array([0, 0, 100, 101, 250, 250, 300])
    hasher = FeatureHasher(33, seed=2)
    matrix = hasher.transform(words, offsets, weights)
    assert sparse.issparse(matrix)
    assert matrix.has_canonical_format
    dense = hasher.transform(words, offsets, weights, dense=True)
    np.testing.assert_array_equal(matrix.toarray(), dense)
    for row, start, stop in zip(dense, offsets[:-1], offsets[1:], strict=True):
        part = None if weights is None else weights[start:stop]
        alone = FeatureHasher(33, seed=2).update(words[start:stop], part)
        np.testing.assert_allclose(alone._cells, row, atol=1e-12)
    assert hasher == FeatureHasher(33, seed=2)


def test_transform_of_nothing_has_no_rows_or_empty_ones():
    hasher = FeatureHasher(8)
    assert hasher.transform([], [0]).shape == (0, 8)
    assert hasher.transform([], [0, 0], dense=True).tolist() == [[0] * 8]


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0], "run from 0 to the 3 keys, not 0 to 0"),
        ([1, 3], "run from 0 to the 3 keys, not 1 to 3"),
        ([0, 4], "run from 0 to the 3 keys, not 0 to 4"),
        ([0, 2, 1, 3], "never fall; the one in row 2 does"),
        ([], "be one column of integers"),
        ([0.0, 3.0], "be one column of integers, .* not float64"),
        (3, "be one column of integers"),
    ],
)
def test_offsets_that_do_not_cover_the_keys_are_named(offsets, message):
    with pytest.raises((TypeError, ValueError), match=f"FeatureHasher: offsets must {message}"):
        FeatureHasher(8).transform([1, 2, 3], offsets)


def test_only_sketches_of_the_same_parameters_are_compared():
    one = FeatureHasher(8).update([1])
    for ask in (one.inner, one.distance):
        with pytest.raises(ValueError, match="cannot compare, width is 8 here and 9 there"):
            ask(FeatureHasher(9))


def test_threads_may_transform_and_estimate_together():
    words = [f"word {k}" for k in range(300)]
    hasher = FeatureHasher(33, seed=44).update(words)
    before = hasher.copy()
    asks = [
        lambda: hasher.transform(words, [0, 100, 300], dense=True),
        lambda: hasher.estimate(words),
    ] * 4
    for got, ask in zip(at_once(asks), asks, strict=True):
        np.testing.assert_array_equal(got, ask())
    assert hasher == before


def test_weights_too_large_to_sum_change_nothing():
    sketch = FeatureHasher(8).update([1])
    before = sketch.to_bytes()
    with pytest.raises(ValueError, match=r"sum to at most 1e\+140; scale"):
        sketch.update([1, 2], [1e150, 1])
    assert sketch.to_bytes() == before
