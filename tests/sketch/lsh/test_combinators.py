"""Composed kernels are what they are named: products, powers, either of two, weighted sums."""

import json
import warnings

import numpy as np
import pytest

from sfumato.sketch.lsh import (
    Angular,
    Euclidean,
    Family,
    Jaccard,
    MixtureKernel,
    PowerKernel,
    ProductKernel,
    WeightedSum,
)
from sfumato.sketch.lsh.base import Draw
from support.collision_rates import assert_collides_by_kernel, frequencies

NEAR = Euclidean(bandwidth=2.0, bounds=(-10, 10), dimension=2)
FLAT = Angular(1, dimension=2)
LOST = Euclidean(bandwidth=1e-9, bounds=(-10, 10), dimension=2)  # more buckets than are numbered
SOME = [[1.0, 2.0], [3.0, -1.0], [0.5, 0.5], [4.0, 4.0]]
OTHERS = [[1.5, 2.0], [3.0, 1.0], [-0.5, 0.5], [4.0, 4.0]]
SETS = [[1, 2, 3], [4, 5], [6]], [[2, 3, 4], [4, 5], [7]]


def kernels(*families):
    return [np.diagonal(each.kernel(SOME, OTHERS)) for each in families]


def test_both_is_the_product():
    a, b, both = kernels(NEAR, FLAT, ProductKernel(NEAR, FLAT))
    assert np.allclose(both, a * b)
    assert_collides_by_kernel(ProductKernel(NEAR, FLAT), SOME, OTHERS)  # p < 1e-6


def test_both_of_one_family_draws_each_hash_anew():
    a, both = kernels(NEAR, ProductKernel(NEAR, NEAR))
    assert np.allclose(both, a**2)
    assert_collides_by_kernel(ProductKernel(NEAR, NEAR), SOME, OTHERS)  # p < 1e-6
    assert_collides_by_kernel(ProductKernel(Jaccard(), Jaccard()), *SETS)  # p < 1e-6


def test_power_is_the_power():
    a, cube = kernels(FLAT, PowerKernel(FLAT, 3))
    assert np.allclose(cube, a**3)
    assert_collides_by_kernel(PowerKernel(FLAT, 3), SOME, OTHERS)  # p < 1e-6
    assert_collides_by_kernel(PowerKernel(Jaccard(), 2), *SETS)  # p < 1e-6


@pytest.mark.parametrize(
    "family", [ProductKernel(NEAR, NEAR), PowerKernel(FLAT, 2), Angular(3, dimension=2)]
)
def test_products_of_stratified_rows_stray_no_more_than_independent_ones(family):
    # With row r of all draws at the same position of one pattern, products would not converge.
    # The variance of 512 rows over 100 seeds is itself known to 14 % for each of three pairs: that
    # of their mean would exceed 1.5 times the independent one with p < 1e-6.
    some, others, size = SOME[:3], OTHERS[:3], {"rows": 512, "strata": "stratified"}
    fractions = [frequencies(family, some, others, seeds=[seed], **size) for seed in range(100)]
    exact = np.diagonal(family.kernel(some, others))
    assert np.var(fractions, axis=0).mean() < 1.5 * (exact * (1 - exact) / 512).mean()


def test_combinations_are_numbered_where_they_can_be():
    draw, rows = Draw(64, 5), slice(0, 64)
    family = ProductKernel(NEAR, PowerKernel(FLAT, 2))
    points = family.read("test", np.random.default_rng(1).uniform(-10, 10, (2000, 2)))
    buckets, codes = family.buckets(draw), family.codes(points, draw, rows)
    assert (buckets == NEAR.buckets(draw.child(0)) * 4).all()
    assert codes.min() >= 0
    assert (codes < buckets).all()
    assert ProductKernel(Jaccard(), Jaccard()).buckets(draw) is None
    assert PowerKernel(LOST, 3).buckets(draw) is None
    assert (PowerKernel(Angular(31, 2), 2).buckets(draw) == 2**62).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PowerKernel(Angular(32, 2), 64).buckets(draw) is None  # 2**2048: beyond any float
    assert_collides_by_kernel(PowerKernel(LOST, 2), SOME, SOME, rows=64)


def test_sum_has_the_weighted_kernel_and_splits_rows_by_weight():
    family = WeightedSum([(3.0, NEAR), (-1.0, FLAT)])
    a, b, both = kernels(NEAR, FLAT, family)
    assert np.allclose(both, 3 * a - b)
    blocks = family.shares(Draw(100, 1))
    assert [(s.weight, s.rows) for s in blocks] == [(3.0, slice(0, 75)), (-1.0, slice(75, 100))]


def collisions(family, draw):
    read = [family.read("test", each) for each in (SOME, OTHERS)]
    here, there = (family.codes(each, draw, slice(0, draw.rows)) for each in read)
    return here == there


@pytest.mark.parametrize(
    "family",
    [
        WeightedSum([(3.0, NEAR), (-1.0, FLAT)]),
        MixtureKernel(NEAR, FLAT),
        WeightedSum([(1.0, MixtureKernel(NEAR, FLAT)), (2.0, PowerKernel(NEAR, 2))]),
    ],
)
def test_rows_of_each_term_collide_by_its_kernel(family):
    # The weighted sum of the terms' means is unbiased; its variance is at most sum w**2 / (4 rows).
    draw = Draw(9000, 3, "independent")
    equal, blocks = collisions(family, draw), family.shares(draw)
    assert [s.rows.start for s in blocks[1:]] == [s.rows.stop for s in blocks[:-1]]
    assert blocks[0].rows.start == 0
    assert blocks[-1].rows.stop == 9000
    result = sum(s.weight * equal[:, s.rows].mean(axis=1) for s in blocks)
    std_error = sum(s.weight**2 / 4 / (s.rows.stop - s.rows.start) for s in blocks) ** 0.5
    assert np.abs(result - np.diagonal(family.kernel(SOME, OTHERS))).max() < 5.5 * std_error  # 1e-6


def test_either_is_a_plus_b_less_both():
    a, b, either = kernels(NEAR, FLAT, MixtureKernel(NEAR, FLAT))
    assert np.allclose(either, 1 - (1 - a) * (1 - b))
    blocks = MixtureKernel(NEAR, FLAT).shares(Draw(30, 0))
    assert [s.weight for s in blocks] == [1.0, 1.0, -1.0]
    assert [s.rows.stop - s.rows.start for s in blocks] == [10, 10, 10]


def test_terms_of_one_family_draw_each_hash_anew():
    family = WeightedSum([(1.0, NEAR), (1.0, NEAR)])
    codes = family.codes(family.read("test", SOME), Draw(40, 6), slice(0, 40))
    assert not np.array_equal(codes[:, :20], codes[:, 20:])


def test_parts_of_rows_are_those_of_the_whole():
    family, draw = MixtureKernel(NEAR, FLAT), Draw(31, 2)
    points = family.read("test", SOME)
    full = family.codes(points, draw, slice(0, 31))
    for first, last in [(0, 5), (8, 24), (30, 31), (4, 4)]:
        assert np.array_equal(family.codes(points, draw, slice(first, last)), full[:, first:last])
    assert family.buckets(draw).shape == (31,)


def test_points_outside_any_part_are_counted_once():
    wide = Euclidean(bandwidth=2.0, bounds=(-100, 100), dimension=2)
    read = ProductKernel(wide, NEAR).read("test", [[0, 0], [50, 0], [500, 0]])
    assert (read.size, read.clipped) == (3, 2)


@pytest.mark.parametrize(
    "family",
    [
        ProductKernel(NEAR, FLAT),
        PowerKernel(Jaccard(2), 3),
        WeightedSum([(2, NEAR), (1, MixtureKernel(FLAT, NEAR))]),
    ],
)
def test_files_keep_what_is_composed(family):
    assert Family.from_dict(json.loads(json.dumps(family.to_dict()))) == family


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: ProductKernel(NEAR, Jaccard()), "ProductKernel: parts must take the same points"),
        (
            lambda: ProductKernel(NEAR, MixtureKernel(NEAR, FLAT)),
            "ProductKernel: b must be one kernel, not a sum",
        ),
        (
            lambda: PowerKernel(MixtureKernel(NEAR, FLAT), 2),
            "PowerKernel: a must be one kernel, not a sum",
        ),
        (lambda: PowerKernel(NEAR, 0), "PowerKernel: times must be"),
        (lambda: ProductKernel(NEAR, "flat"), "ProductKernel: b must be a family"),
        (lambda: WeightedSum([]), "WeightedSum: terms must be pairs"),
        (lambda: WeightedSum([(0, NEAR)]), "WeightedSum: weight must not be 0"),
        (lambda: WeightedSum([(float("nan"), NEAR)]), "WeightedSum: weight must be"),
        (lambda: WeightedSum([NEAR]), "WeightedSum: terms must be pairs"),
        (lambda: WeightedSum([(1, NEAR), (1, Jaccard())]), "WeightedSum: parts must take the same"),
        (
            lambda: MixtureKernel(NEAR, FLAT).shares(Draw(2, 0)),
            "MixtureKernel: rows must be at least 3",
        ),
    ],
)
def test_what_does_not_compose_is_refused(made, message):
    with pytest.raises(ValueError, match=message):
        made()


def test_a_description_nested_too_deep_is_refused():
    document = FLAT.to_dict()
    for _ in range(5000):
        document = {"name": "power", "a": document, "times": 1}
    with pytest.raises(ValueError, match="nested too deep"):
        Family.from_dict(document)
