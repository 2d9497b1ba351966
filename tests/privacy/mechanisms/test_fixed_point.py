"""Fixed point: exact, monotone, never past the bounds, with sensitivities that sums keep."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from sfumato.privacy.mechanisms.fixed_point import FixedPoint

GRIDS = [
    FixedPoint(low=-1, high=1, step=0.25),
    FixedPoint(low=0, high=Fraction(1, 3), step=2**-20),
    FixedPoint(low=-0.7, high=12.3, step=0.5),
    FixedPoint(low=5, high=90, step=8),
    FixedPoint(low=-(2.0**-40), high=2.0**-41, step=2.0**-60),
]
AWKWARD = [0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, math.inf, -math.inf, 0.1, 1 / 3, 2.0**-60]


def exactly(grid, x):
    """clip(x) / step, cut toward zero, in fractions."""
    if math.isinf(x):
        x = grid.high if x > 0 else grid.low
    return int(min(max(Fraction(x), grid.low), grid.high) / grid.step)


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_encoding_is_exact_and_monotone(grid):
    bounds = [float(grid.low), float(grid.high)]
    near = [math.nextafter(x, to) for x in bounds for to in (-math.inf, math.inf)]
    random = np.random.default_rng(1).normal(size=2000) * bounds[1] * 2
    column = np.array([*AWKWARD, *bounds, *near, *random, *np.round(random / 2, 3)])
    steps = grid.encode(column)
    assert steps.tolist() == [exactly(grid, float(x)) for x in column]
    assert (np.diff(steps[np.argsort(column, kind="stable")]) >= 0).all()


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@pytest.mark.parametrize("relation", ["add/remove", "replace"])
def test_no_pair_of_units_changes_a_sum_by_more_than_the_sensitivity(grid, relation):
    ends = [-math.inf, float(grid.low), 0.0, float(grid.high), math.inf]
    encoded = grid.encode(ends).tolist()
    if relation == "add/remove":
        most = max(abs(one) for one in encoded)
    else:
        most = max(abs(one - other) for one, other in itertools.product(encoded, repeat=2))
    assert most == grid.change(relation)


def test_sensitivities_count_the_coordinates():
    grid = FixedPoint(low=-1, high=3, step=0.5, coordinates=5)
    assert (grid.l1("add/remove"), grid.l1("replace")) == (5 * 6, 5 * 8)
    assert (grid.l2_squared("add/remove"), grid.l2_squared("replace")) == (5 * 36, 5 * 64)
    with pytest.raises(ValueError, match="FixedPoint: relation"):
        grid.l1("swap")


def test_whole_numbers_past_53_bits_are_clipped_not_rounded():
    grid = FixedPoint(low=-(2**53) + 2**23, high=2**53 - 2**23, step=2**23)
    wide = np.array([2**53 - 2**23 - 1, 2**53 + 1, 2**62, -(2**62), -(2**53) + 2**23 + 1])
    most = 2**30 - 1
    assert grid.encode(wide).tolist() == [most - 1, most, most, -most, -most + 1]
    assert grid.encode(np.array([2**64 - 1], np.uint64)).tolist() == [most]
    halves = FixedPoint(low=-500, high=500, step=2)
    assert halves.encode(np.array([-128, 127], np.int8)).tolist() == [-64, 63]


def test_sums_of_the_most_rows_fit_64_bits():
    grid = FixedPoint(low=0, high=2**31 - 1, step=1)
    assert int(grid.encode(math.inf)) * 2**31 < 2**62
    many = np.broadcast_to(np.float64(1), 2**31 + 1)  # takes no memory
    with pytest.raises(ValueError, match=r"at most 2\*\*31 rows"):
        grid.encode(many)


def test_decoding_gives_back_what_is_on_the_grid():
    grid = FixedPoint(low=-4, high=4, step=2**-10)
    column = np.arange(-4096, 4097) / 1024
    assert (grid.decode(grid.encode(column)) == column).all()
    assert grid.decode(3) == 3 / 1024


@pytest.mark.parametrize("name", FixedPoint.LIMITS)
def test_bad_parameters_name_themselves(name):
    good = {"low": -1, "high": 1, "step": 0.5, "coordinates": 1}
    for bad in FixedPoint.LIMITS[name].bad():
        with pytest.raises(ValueError, match=f"FixedPoint: {name} must"):
            FixedPoint(**{**good, name: bad})


def test_bounds_and_steps_that_hold_nothing_are_refused():
    with pytest.raises(ValueError, match=r"low must be below high \(1\), not 1"):
        FixedPoint(low=1, high=1, step=0.5)
    with pytest.raises(ValueError, match="step must be smaller than 1/2"):
        FixedPoint(low=-0.3, high=0.3, step=0.5)
    with pytest.raises(ValueError, match="step must be larger than 1/1073741824"):
        FixedPoint(low=0, high=2, step=2**-30)


def test_masked_steps_are_refused():
    with pytest.raises(ValueError, match="must not be a masked array"):
        GRIDS[0].decode(np.ma.array([0, 1], mask=[True, False]))


@pytest.mark.parametrize(
    "malformed", ["a", None, 1j, math.nan, [1], object(), np.datetime64("NaT")]
)
def test_what_is_no_number_counts_as_absent_and_changes_no_other(malformed):
    numbers = [0.5, -0.25, 1e300, 3]
    want = [*GRIDS[0].encode(numbers).tolist(), 0]
    objects = np.empty(5, object)
    objects[:] = [*numbers, malformed]
    for column in (objects, pd.Series(objects)):
        assert GRIDS[0].encode(column).tolist() == want
    if not isinstance(malformed, list):
        assert GRIDS[0].encode([*numbers, malformed]).tolist() == want
        assert GRIDS[0].encode([numbers, [*numbers[:3], malformed]])[0].tolist() == want[:4]
    assert GRIDS[0].encode(np.ma.array([0.5, 1], mask=[False, True])).tolist() == [want[0], 0]


def test_ragged_rows_are_refused():
    with pytest.raises(ValueError, match="FixedPoint: numbers must be in one regular array"):
        GRIDS[0].encode([[1, 2], [3]])
