"""Fourier features: unbiased sums of kernels, exact to add, remove and merge."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import ndtr

from sfumato.core.bounds import Box
from sfumato.sketch import KernelFourier
from sfumato.sketch.kernel_sums.fourier import turns

KERNELS = ["p-stable", "gaussian", "exponential"]
RANDOM = np.random.default_rng(3)
POINTS = RANDOM.uniform(0, 4, (300, 3))
QUERIES = RANDOM.uniform(0, 4, (20, 3))


def sketch(rows=64, **parameters):
    return KernelFourier(1.0, ([0] * 3, [4] * 3), rows=rows, **parameters)


def collision(ratio):
    """The p-stable kernel, by another formula than that of the package."""
    with np.errstate(divide="ignore"):
        inverse = 1 / ratio
    tail = 2 * ratio / np.sqrt(2 * np.pi) * (1 - np.exp(-(inverse**2) / 2))
    return np.where(ratio > 0, 2 * ndtr(inverse) - 1 - tail, 1.0)


TRUE = {"p-stable": collision, "gaussian": lambda r: np.exp(-(r**2) / 2)}
TRUE["exponential"] = lambda r: np.exp(-r)


def kernel_sums(kernel, points, queries):
    far = np.linalg.norm(queries[:, None] - points[None], axis=2)
    return TRUE[kernel](far).sum(axis=1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_exact_sums_are_those_of_the_kernel(kernel):
    result = sketch(kernel=kernel).exact(POINTS, QUERIES)
    np.testing.assert_allclose(result, kernel_sums(kernel, POINTS, QUERIES), rtol=1e-9)


@pytest.mark.parametrize("strata", ["independent", "stratified"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_estimates_are_unbiased_over_seeds(kernel, strata):
    # The mean over 100 seeds is off by 6 standard errors in one of 20 queries with p < 1e-6 (by
    # Student's distribution); any other of the kernels would be off by 14 of them in some query.
    made = [sketch(256, kernel=kernel, strata=strata, seed=s).update(POINTS) for s in range(100)]
    estimated = np.array([each.estimate(QUERIES) for each in made])
    off = estimated.mean(axis=0) - kernel_sums(kernel, POINTS, QUERIES)
    assert (np.abs(off) < 6 * estimated.std(axis=0, ddof=1) / 10 + 0.05).all()


def test_independent_frequencies_err_by_at_most_the_stated_deviation():
    # These points stay at half of it, 14 of 26.5: by Chernoff, p < 1e-9 that 100 independent seeds
    # pass it, as the mean of 64 or more waves is nearly normal.
    made = [sketch(strata="independent", seed=seed).update(POINTS) for seed in range(100)]
    errors = [each.estimate(QUERIES) - each.exact(POINTS, QUERIES) for each in made]
    assert np.sqrt(np.mean(np.square(errors))) < 300 / np.sqrt(2 * 64)


def test_one_point_is_a_kernel_of_its_own():
    # At the point itself every wave meets its own: the sum is 1 up to the rounding of waves.
    result = sketch(rows=1).update([[1.0, 2.0, 3.0]])
    assert abs(result.estimate([[1.0, 2.0, 3.0]])[0] - 1) < 1e-4
    assert (result.size(), result.total) == (1.0, 1)


@pytest.mark.parametrize("parts", [[300], [1, 299], [100, 100, 100]])
def test_any_split_merges_bit_for_bit(parts):
    full = sketch().update(POINTS)
    ends = np.cumsum([0, *parts])
    made = [sketch().update(POINTS[a:b]) for a, b in pairwise(ends)]
    for other in reversed(made[1:]):
        made[0].merge(other)
    assert made[0] == full
    assert sketch().update(POINTS[::-1]) == full


def test_more_points_than_a_block_are_summed_exactly():
    many = np.tile(POINTS, (60, 1))  # past one block of 2**14
    result = sketch().update(many)
    one = sketch().update(POINTS)
    np.testing.assert_array_equal(result._waves, 60 * one._waves)


def test_weights_are_repetitions_and_negative_ones_remove():
    weights = RANDOM.integers(0, 5, 300)
    result = sketch().update(POINTS, weights)
    again = sketch().update(np.repeat(POINTS, weights, axis=0))
    assert (result._waves == again._waves).all()
    assert result.total == again.total == weights.sum()
    assert result.heaviest == 4
    result.update(POINTS, -weights)
    assert not result._waves.any()
    assert result.total == 0
    large = sketch().update(POINTS, np.full(300, 2**31 - 1))
    assert (large._waves == (2**31 - 1) * sketch().update(POINTS)._waves).all()


def test_what_cannot_be_counted_changes_nothing():
    result = sketch().update(POINTS)
    before = result.to_bytes()
    bad = [
        lambda: result.update(POINTS, np.full(300, 0.5)),
        lambda: result.update(np.array([[1.0, 2.0]])),
        lambda: result.merge(sketch(seed=1)),
        lambda: result.merge(sketch(kernel="gaussian")),
    ]
    for call in bad:
        with pytest.raises((ValueError, TypeError), match="KernelFourier: "):
            call()
        assert result.to_bytes() == before
    with pytest.raises(ValueError, match="column 1 holds NaN"):
        result.estimate([[1.0, np.nan, 2.0]])


def test_points_outside_are_clipped_and_counted():
    result = sketch().update([[5.0, 1, 1], [1, 1, -np.inf], [1, 2, 3]])
    assert result.clipped == 2
    inside = sketch().update([[4.0, 1, 1], [1, 1, 0], [1, 2, 3]])
    assert (result._waves == inside._waves).all()
    assert inside.clipped == 0
    assert result.merge(result.copy()).update([[9.0, 9, 9]]).clipped == 5


def test_queries_may_be_anywhere():
    # 1,024 frequencies leave a deviation of 2.3 near and 2.6 far away: 7 of them have p < 1e-11.
    near, far = [[4.5, 2, 2]], [[1e9, -np.inf, 2]]
    made = [sketch(rows=1024, kernel="gaussian", seed=s).update(POINTS) for s in range(4)]
    want = kernel_sums("gaussian", POINTS, np.array(near))[0]
    assert abs(np.mean([each.estimate(near)[0] for each in made]) - want) < 8
    assert all(abs(each.estimate(far)[0]) < 20 for each in made)


def test_all_kinds_of_tables_are_alike():
    want = sketch().update(POINTS)
    frame = pd.DataFrame(POINTS, columns=list("abc"))
    for data in (POINTS.tolist(), frame, pa.Table.from_pandas(frame)):
        assert sketch().update(data) == want
        np.testing.assert_array_equal(want.mean(data), want.estimate(POINTS) / 300)
    assert np.isnan(sketch().mean(QUERIES)).all()


def test_frequencies_are_rounded_to_whole_parts_of_a_turn():
    # Over a side, 2**20 steps, a phase is off by at most half of 2**-12 turns.
    box = Box((0.0,), (1.0,))
    panels = turns("gaussian", 0.1, box, 16, "independent", 5)
    from sfumato.sketch.kernel_sums.radial_kernels import frequencies

    radians = frequencies("gaussian", 16, 1, 5, False)[:, 0] * 10
    parts = panels[0, 0].astype(np.int64)
    parts = np.where(parts < 2**31, parts, parts - 2**32)
    full = parts * (2**20 - 1) / 2**32
    assert np.abs(full - radians / (2 * np.pi)).max() <= 2**-13
    assert len({tuple(row) for row in panels[0].T}) == 16


def test_a_bandwidth_finer_than_the_steps_is_refused():
    with pytest.raises(ValueError, match=r"bandwidth must be at least 2\*\*-14"):
        KernelFourier(1e-5, (0, 1))
    KernelFourier(1e-4, (0, 1))


def test_weights_that_would_wrap_around_are_refused_as_a_whole():
    made, many = sketch(rows=2), 2**16
    weights = np.repeat([2**31 - 1, -(2**31 - 1)], many // 2)
    with pytest.raises(ValueError, match=r"must be 2\*\*46 together"):
        made.update(np.zeros((many, 3)), weights)
    assert (made.total, made.heaviest) == (0, 0)


def test_frequencies_that_would_not_fit_into_memory_are_refused():
    with pytest.raises(ValueError, match="KernelFourier: rows must be at most 67108 for 1000"):
        KernelFourier(1.0, ([0] * 1000, [1] * 1000), rows=2**17)
