"""S-curves of any construction, and the bands that fit a threshold."""

import math

import numpy as np
import pytest

from sfumato.mine.similar import SCurve, choose_bands
from sfumato.retrieve.lsh.amplification import Sensitive, candidate_probability


@pytest.mark.parametrize(
    ("rows", "bands", "exact", "approximate", "fixed"),
    [
        (5, 10, 0.5823, 0.5864, 0.6212),
        (5, 20, 0.5087, 0.5105, 0.5122),
        (4, 4, 0.6316, 0.6452, 0.7245),
    ],
)
def test_thresholds_and_fixed_points_of_the_course(rows, bands, exact, approximate, fixed):
    curve = SCurve.and_or(rows, bands)
    assert round(curve.threshold, 4) == exact
    assert math.isclose(curve.threshold, (1 - 0.5 ** (1 / bands)) ** (1 / rows))
    assert round(curve.approximate_threshold, 4) == approximate
    assert round(curve.fixed_point, 4) == fixed
    around = curve.probability([fixed - 0.05, fixed + 0.05]) - [fixed - 0.05, fixed + 0.05]
    assert around[0] < 0 < around[1]


def test_the_curve_of_the_course():
    found = SCurve.and_or(rows=5, bands=10).probability([0.8, 0.6, 0.4])
    np.testing.assert_array_equal(found.round(4), [0.9811, 0.5549, 0.0978])
    for agree in (0, 1e-9, 0.3, 1):
        expected = candidate_probability(agree, 10, 5)
        assert math.isclose(float(SCurve.and_or(5, 10).probability(agree)), expected)


def test_or_and_is_the_mirror_image_of_and_or():
    s = np.linspace(0, 1, 101)
    mirrored = 1 - SCurve.and_or(rows=3, bands=6).probability(1 - s)
    np.testing.assert_allclose(SCurve.or_and(bands=3, rows=6).probability(s), mirrored, atol=1e-15)


def test_the_tables_of_four_by_four():
    both = SCurve.or_and(4, 4).then(SCurve.and_or(4, 4))
    assert both.hashes == 256
    family = both.family(0.2, 0.8)
    assert family.near_agree == pytest.approx(0.9999996, abs=5e-8)
    assert family.far_agree == pytest.approx(0.0008715, abs=5e-8)
    table = SCurve.and_or(4, 4).probability([0.2, 0.4, 0.6, 0.8])
    np.testing.assert_allclose(table, [0.0064, 0.0985, 0.4260, 0.8785], atol=5e-5)
    table = SCurve.or_and(4, 4).probability([0.2, 0.4, 0.6, 0.8])
    np.testing.assert_allclose(table, [0.1215, 0.5740, 0.9015, 0.9936], atol=5e-5)


def test_any_base_family_can_be_amplified():
    lines = Sensitive(near=0.5, far=2.0, near_agree=1 / 2, far_agree=1 / 3)
    found = SCurve.and_or(rows=3, bands=5).family(0.5, 2.0, lines)
    assert found == lines.every(3).some(5)


def test_a_single_step_has_no_fixed_point():
    assert math.isnan(SCurve(("and", 4)).fixed_point)
    assert math.isnan(SCurve.and_or(4, 1).fixed_point)
    assert math.isclose(SCurve(("and", 4)).threshold, 0.5**0.25)


def test_the_areas_are_integrals():
    curve = SCurve.and_or(5, 10)
    s = (np.arange(100_000) + 0.5) / 100_000
    p = curve.probability(s)
    below, above = p[s < 0.6].sum() / 1e5, (1 - p[s > 0.6]).sum() / 1e5
    np.testing.assert_allclose(curve.areas(0.6), (below, above), rtol=1e-7)


def test_chosen_bands_have_the_smallest_weighted_area():
    for threshold, size, weights in ((0.6, 50, (0.5, 0.5)), (0.3, 24, (0.2, 0.8))):
        costs = {
            (rows, bands): float(np.dot(weights, SCurve.and_or(rows, bands).areas(threshold)))
            for rows in range(1, size + 1)
            for bands in range(1, size // rows + 1)
        }
        found = choose_bands(
            threshold, size, false_positive_weight=weights[0], false_negative_weight=weights[1]
        )
        assert (found.rows, found.bands) == min(costs, key=costs.get)


def test_bands_of_the_course():
    found = choose_bands(0.6, permutations=50)
    assert (found.bands, found.rows) == (10, 5)


def test_recall_chooses_the_longest_bands_that_reach_it():
    for threshold in (0.3, 0.8, 1.0):
        found = choose_bands(threshold, 128, recall=0.95)
        assert found.probability(threshold) >= 0.95
        assert found.hashes <= 128
        longer = [SCurve.and_or(r, max(128 // r, 1)) for r in range(found.rows + 1, 129)]
        assert all(each.probability(threshold) < 0.95 for each in longer)
    with pytest.raises(ValueError, match="take more permutations"):
        choose_bands(0.1, 4, recall=0.99)


@pytest.mark.parametrize("threshold", [0, -0.1, 1.01, math.nan, "high", None])
def test_thresholds_outside_are_refused(threshold):
    with pytest.raises(ValueError, match="choose_bands: threshold"):
        choose_bands(threshold)


def test_wrong_constructions_are_refused():
    for step in (("xor", 2), ("and",), "and", 3):
        with pytest.raises(ValueError, match="a step must be"):
            SCurve(step)
    with pytest.raises(ValueError, match="SCurve: and"):
        SCurve(("and", 0))
    with pytest.raises(ValueError, match="only bands of rows"):
        _ = SCurve.or_and(2, 2).rows
    with pytest.raises(ValueError, match="from 0 to 1"):
        SCurve.and_or(2, 2).probability(1.5)


def test_curves_compare_by_their_steps():
    assert SCurve.and_or(2, 3) == SCurve(("and", 2), ("or", 3))
    assert len({SCurve.and_or(2, 3), SCurve.and_or(2, 3), SCurve.or_and(3, 2)}) == 2
    assert repr(SCurve.and_or(2, 3)) == "SCurve(steps=(('and', 2), ('or', 3)))"
