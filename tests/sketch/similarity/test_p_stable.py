"""Codes collide as the closed formulas say, and the distance found from that is in its range."""

import numpy as np
import pytest
from scipy import integrate, stats

from sfumato.core.file_format import pack
from sfumato.sketch import PStableSketch, SketchFormatError, load
from support.concurrency import at_once

ROWS = np.random.default_rng(9).normal(size=(40, 12))
LAWS = {1: stats.cauchy, 2: stats.norm}


def apart(distance, p):
    """Two rows of 12 numbers at this distance in the norm p."""
    gap = np.linspace(1, 2, 12)
    gap *= distance / np.linalg.norm(gap, p)
    return np.array([ROWS[0], ROWS[0] + gap])


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("distance", [0.01, 0.5, 3, 10, 1000])
def test_collision_probability_is_the_integral(p, distance):
    sketch = PStableSketch(3.0, dimension=12, p=p)
    gap = LAWS[p](scale=distance)  # of the projections
    want, _ = integrate.quad(
        lambda t: 2 * gap.pdf(t) * (1 - t / 3), 0, 3, points=[min(distance, 2.9)]
    )
    assert sketch.collision_probability(distance) == pytest.approx(want, rel=1e-7)


@pytest.mark.parametrize("p", [1, 2])
def test_collision_probability_falls_from_one_to_zero(p):
    probability = PStableSketch(2.0, dimension=1, p=p).collision_probability
    got = probability([0, 1e-300, 1e-9, 1, 5, 1e9, 1e300, np.inf])
    assert got[0] == 1
    assert got[-1] == 0
    assert (np.diff(got) <= 0).all()
    assert got[-2] > 0
    with pytest.raises(ValueError, match="distance must be at least 0"):
        probability([-1])


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("distance", [0.5, 2, 8])
def test_codes_collide_as_the_formula_says(p, distance):
    # The fraction of 20,000 independent hashes, within 5 sd: p < 1e-6.
    sketch = PStableSketch(2.0, dimension=12, hashes=20_000, p=p, seed=4)
    sketch.update(apart(distance, p))
    want = sketch.collision_probability(distance)
    std_error = np.sqrt(want * (1 - want) / 20_000)
    assert abs(sketch.similarity(sketch)[0, 1] - want) < 5 * std_error


@pytest.mark.parametrize("p", [1, 2])
def test_codes_are_floors_of_shifted_projections(p):
    sketch = PStableSketch(0.7, dimension=12, hashes=20, p=p, seed=6).update(ROWS)
    normals = sketch._directions(12).transpose(0, 2, 1).reshape(-1, 12)[:20]
    offsets = sketch._offsets()
    np.testing.assert_array_equal(sketch.codes, np.floor((ROWS @ normals.T + offsets) / 0.7))
    assert (offsets >= 0).all()
    assert (offsets < 0.7).all()
    # Uniform over the bucket: of 20,000 hashes, p = 1e-6.
    many = PStableSketch(0.7, dimension=1, hashes=20_000)._offsets()
    assert stats.kstest(many / 0.7, "uniform").pvalue > 1e-6


def test_all_pairs_are_compared_in_both_orders():
    left = PStableSketch(2.0, dimension=12, hashes=33).update(ROWS[:3])
    right = PStableSketch(2.0, dimension=12, hashes=33).update(ROWS)
    want = (left.codes[:, None] == right.codes).mean(axis=2)
    np.testing.assert_allclose(left.similarity(right), want)
    np.testing.assert_allclose(right.similarity(left), want.T)


@pytest.mark.parametrize("p", [1, 2])
def test_distance_has_the_collision_probability_that_was_observed(p):
    sketch = PStableSketch(4.0, dimension=12, hashes=50, p=p).update(ROWS)
    similarity, distance = sketch.similarity(sketch), sketch.distance(sketch)
    np.testing.assert_allclose(sketch.collision_probability(distance), similarity, atol=1e-9)
    assert (np.diag(distance) == 0).all()
    far = sketch.distance(PStableSketch(4.0, dimension=12, hashes=50, p=p).update(ROWS + 1e6))
    assert np.isinf(far).any()


@pytest.mark.parametrize("p", [1, 2])
def test_distance_range_holds_the_distance_as_often_as_promised(p):
    # Allowed are 10 % of 600 misses; more than 98 have p < 1e-6. Clopper and Pearson's range misses
    # about 6 %; fewer than 10 of 600 would have p < 1e-6.
    def miss(seed):
        sketch = PStableSketch(2.0, dimension=12, p=p, seed=seed).update(apart(3, p))
        low, high = sketch.distance_range(sketch, 0.9)
        assert low[0, 0] == 0
        assert np.isfinite(high[0, 0])
        return not low[0, 1] <= 3 <= high[0, 1]

    assert 10 <= sum(map(miss, range(600))) <= 98


def test_range_of_rows_that_never_agree_has_no_upper_end():
    sketch = PStableSketch(0.01, dimension=12).update(100 * ROWS[:2])
    low, high = sketch.distance_range(sketch)
    assert np.isinf(high[0, 1])
    assert 0 < low[0, 1] < 100 * np.linalg.norm(ROWS[0] - ROWS[1])


def test_error_bound_holds_where_half_of_the_codes_agree():
    # Allowed are 5 % of 1,000 misses; more than 85 have p < 1e-6; Hoeffding's bound misses 0.8 %.
    sketch = PStableSketch(2.0, dimension=12)
    half = apart(float(bisect(sketch.collision_probability, 0.5)), 2)
    bound = sketch.error_bound(0.95)
    misses = 0
    for seed in range(1000):
        sketch = PStableSketch(2.0, dimension=12, seed=seed).update(half)
        misses += abs(sketch.similarity(sketch)[0, 1] - 0.5) > bound
    assert 1 <= misses <= 85


def bisect(falling, goal):
    low, high = 0.0, 100.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > goal else (low, middle)
    return low


def test_from_error_gives_the_fewest_hashes():
    sketch = PStableSketch.from_error(0.05, 0.9, width=2.0, dimension=3)
    assert sketch.error_bound(0.9) <= 0.05
    fewer = PStableSketch(2.0, dimension=3, hashes=sketch.hashes - 1)
    assert fewer.error_bound(0.9) > 0.05


def test_rows_too_far_out_are_named_and_change_nothing():
    sketch = PStableSketch(1e-9, dimension=12).update(ROWS)
    before = sketch.to_bytes()
    far = ROWS.copy()
    far[7] = 1e12
    with pytest.raises(ValueError, match=r"row 7 is more than 2\*\*53 bucket widths out; widen"):
        sketch.update(far)
    assert sketch.to_bytes() == before


def test_sizes_that_do_not_fit_in_memory_are_refused():
    with pytest.raises(ValueError, match="hashes times dimension must be at most"):
        PStableSketch(1.0, dimension=2**20, hashes=2**16)


def test_only_update_learns_the_dimension():
    sketch, given = PStableSketch(2.0), PStableSketch(2.0, dimension=12)
    np.testing.assert_array_equal(sketch.encode(ROWS), given.encode(ROWS))
    assert sketch == PStableSketch(2.0)
    assert given.update(ROWS).distance(sketch).shape == (40, 0)
    assert [end.shape for end in sketch.distance_range(given)] == [(0, 40), (0, 40)]
    assert sketch.update(ROWS) == given


def test_file_with_codes_of_no_dimension_is_refused():
    sketch = PStableSketch(2.0).update(ROWS)
    parameters = {**sketch.parameters, "dimension": 0}
    header = {"kind": "PStableSketch", "version": 1, "parameters": parameters, "state": {}}
    with pytest.raises(SketchFormatError, match="codes of rows, but their dimension is 0"):
        load(pack(header, {"_codes": sketch.codes}))


def test_row_too_far_out_is_named_in_any_block(monkeypatch):
    monkeypatch.setattr("sfumato.sketch.similarity.row_codes.ROWS", 4 * 64)
    far = ROWS.copy()
    far[31] = 1e12
    with pytest.raises(ValueError, match="row 31 is more than"):
        PStableSketch(1e-9).encode(far)


def test_threads_may_compare_and_encode_together():
    data = PStableSketch(2.0, seed=43).update(ROWS).to_bytes()
    sketch = load(data)  # which has no directions yet
    asks = [lambda: sketch.encode(ROWS), lambda: sketch.distance(sketch)] * 4
    for got, ask in zip(at_once(asks), asks, strict=True):
        np.testing.assert_array_equal(got, ask())
    np.testing.assert_array_equal(sketch.encode(ROWS), sketch.codes)
    assert sketch.to_bytes() == data
