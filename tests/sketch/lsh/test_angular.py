"""Angular hashes collide by the angle, equal on every machine, and refuse invalid vectors."""

import math

import numpy as np
import pytest

from sfumato.sketch.lsh import Angular, Family
from sfumato.sketch.lsh.angular import drawn_directions
from sfumato.sketch.lsh.base import Draw
from support.collision_rates import assert_collides_by_kernel, frequencies


def turned(angles):
    return [[math.cos(angle), math.sin(angle)] for angle in angles]


def test_kernel_is_one_minus_the_angle_over_pi_to_the_power_of_bits():
    angles = np.array([0.0, 0.3, 1.0, math.pi / 2, 3.0, math.pi])
    for bits in (1, 2, 7):
        result = Angular(bits, dimension=2).kernel([[5.0, 0.0]], 3 * np.array(turned(angles)))
        # Vectors are rounded to 2**-24 of their length, and angles near 0 to its square root.
        assert np.allclose(result[0], (1 - angles / math.pi) ** bits, atol=1e-6)


@pytest.mark.parametrize("bits", [1, 3])
def test_codes_collide_as_often_as_the_kernel_says(bits):
    # Binomial counts, beyond the bounds with p < 2e-7 a pair: 1e-6 in all five.
    others = turned([0.0, 0.2, 1.0, 2.0, 3.0])
    assert_collides_by_kernel(Angular(bits, dimension=2), turned([0.0] * 5), others)


def test_codes_collide_by_the_kernel_in_many_dimensions():
    rng = np.random.default_rng(5)
    some = rng.normal(size=(6, 40))
    others = some + rng.normal(size=(6, 40)) * np.arange(6)[:, None]
    assert_collides_by_kernel(Angular(2, dimension=40), some, others)  # p < 2e-6


def test_stratified_rows_have_the_same_kernel():
    # Stratified rows err no more than independent ones: by 5.5 standard errors with p < 1e-6.
    some, others = turned([0.0] * 3), turned([0.5, 1.5, 2.5])
    family = Angular(2, dimension=2)
    result = frequencies(family, some, others, rows=256, seeds=range(160), strata="stratified")
    exact = np.diagonal(family.kernel(some, others))
    assert np.abs(result - exact).max() < 5.5 * 0.5 / math.sqrt(256 * 160)


def test_length_changes_no_code_and_neither_do_order_and_company():
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(50, 7))
    family, draw = Angular(5, dimension=7), Draw(64, 3)
    every = slice(0, 64)
    codes = family.codes(family.read("test", vectors), draw, every)
    longer = family.read("test", vectors * np.ldexp(1.0, rng.integers(-400, 400, (50, 1))))
    assert np.array_equal(family.codes(longer, draw, every), codes)
    alone = np.vstack([family.codes(family.read("test", [row]), draw, every) for row in vectors])
    assert np.array_equal(alone, codes)
    part = family.codes(family.read("test", vectors), draw, slice(10, 13))
    assert np.array_equal(part, codes[:, 10:13])


@pytest.mark.parametrize("dimension", [1, 2, 3, 100, 4097])
def test_products_are_exact_in_any_order(dimension):
    # A code is right only if the sum of products is: compared with Python's integers.
    rng = np.random.default_rng(dimension)
    family, draw = Angular(1, dimension=dimension), Draw(8, 1)
    steps = family.read("test", rng.normal(size=(3, dimension))).parts[0]
    lines = drawn_directions(family, draw)[0]
    assert np.array_equal(lines, np.rint(lines))
    assert np.array_equal(steps, np.rint(steps))
    largest = int(np.abs(steps).max()) * int(np.abs(lines).max()) * dimension
    assert largest <= 2**53
    exact = [
        [sum(int(a) * int(b) for a, b in zip(x, w, strict=True)) for w in lines] for x in steps
    ]
    assert np.array_equal(steps @ lines.T, np.array(exact, np.float64))


def test_codes_fill_what_buckets_promise():
    family = Angular(4, dimension=3)
    points = family.read("test", np.random.default_rng(2).normal(size=(4000, 3)))
    draw = Draw(5, 0)
    codes = family.codes(points, draw, slice(0, 5))
    assert family.buckets(draw).tolist() == [16] * 5
    assert codes.min() == 0
    assert codes.max() == 15


def test_a_vector_of_zeros_has_one_public_code_and_moves_no_other():
    # Of 4000 independent rows 1/4 agree with any other vector: within 0.034 with p > 1 - 1e-6.
    family, draw = Angular(2, dimension=3), Draw(4000, 0, "independent")
    usual = np.random.default_rng(4).normal(size=(5, 3))
    alone = family.codes(family.read("test", usual), draw, slice(0, 4000))
    codes = family.codes(
        family.read("test", np.vstack([usual, np.zeros((2, 3))])), draw, slice(0, 4000)
    )
    assert np.array_equal(codes[:5], alone)
    assert (codes[5:] == 3).all()
    kernel = family.kernel(np.vstack([usual, np.zeros((1, 3))]), np.zeros((1, 3)))[:, 0]
    assert kernel.tolist() == [0.25] * 5 + [1.0]
    assert np.abs((alone == 3).mean(axis=1) - 0.25).max() < 0.034


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, math.nan]], "row 0, column 1"),
        ([[1.0, math.inf]], "row 0, column 1"),
        ([[1.0, 2.0, 3.0]], "2 columns"),
    ],
)
def test_what_has_no_angle_is_refused(vectors, message):
    with pytest.raises(ValueError, match=f"^owner: .*{message}"):
        Angular(1, dimension=2).read("owner", vectors)


@pytest.mark.parametrize("bad", [{"bits": 0}, {"bits": 33}, {"bits": 1.5}, {"dimension": 0}])
def test_bad_parameters_are_refused_by_name(bad):
    (name,) = bad
    with pytest.raises(ValueError, match=f"Angular: {name} must be"):
        Angular(**{"bits": 2, "dimension": 2, **bad})


def test_a_file_keeps_the_family():
    family = Angular(3, dimension=9)
    assert Family.from_dict(family.to_dict()) == family
