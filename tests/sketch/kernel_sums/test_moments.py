"""Moments: exact sums by brute force, bounded rows, and a release whose noise is as stated."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.polynomial import chebyshev

from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import Moments
from sfumato.sketch.kernel_sums.moments import ReleasedMoments
from sfumato.sketch.kernel_sums.polynomial_features import Polynomials

RNG = np.random.default_rng(1)
BOUNDS = ([-1, 0, 5], [1, 4, 6])
ROWS = RNG.uniform([-1.2, -0.5, 4.9], [1.2, 4.5, 6.1], (300, 3))  # some of them outside


def by_hand(rows, features, degree):
    """Sums of products of features with NumPy's Chebyshev series, column by column."""
    low, high = np.array(BOUNDS, float)
    scaled = 2 * (np.clip(rows, low, high) - low) / (high - low) - 1
    made = np.ones((len(rows), len(features) + 1))
    for j, name in enumerate(features):
        for column in set(name):
            power = np.eye(2 * degree + 1)[name.count(column)]
            made[:, j] *= chebyshev.chebval(scaled[:, column], power)
    made[:, -1] = scaled[:, -1]
    return made.T @ made


@pytest.mark.parametrize(("degree", "features"), [(1, 3), (2, 6)])
def test_matrix_is_that_of_brute_force_up_to_rounding(degree, features):
    observed = Moments(BOUNDS, degree).update(ROWS)
    assert len(observed.features) == features
    want = by_hand(ROWS, observed.features, degree)
    # 300 rows, each rounded by at most a few of 2**-13; on average far less.
    np.testing.assert_allclose(observed.matrix(), want, rtol=0, atol=300 * 2**-13)
    low, high = BOUNDS
    outside = (np.clip(ROWS, low, high) != ROWS).any(axis=1).sum()
    assert (observed.total, observed.clipped, observed.size()) == (300, outside, 300.0)


def test_every_product_of_two_polynomials_is_expanded_right():
    # On 6 points in general position, by values: T_a T_b summed follows from the sums of T_c.
    points = RNG.uniform(-1, 1, (6, 3))
    made = Polynomials(3, 2)
    every = Polynomials(3, 4).values(points)
    sums = every.sum(axis=0)[: len(made.inputs)]
    values = made.values(points)
    result = made.matrix(sums, np.zeros(made.targets))[:-1, :-1]
    np.testing.assert_allclose(result, values.T @ values, atol=1e-12)


@pytest.mark.parametrize("degree", [1, 2])
def test_any_split_any_order_and_removal_give_the_same_cells(degree):
    weights = RNG.integers(1, 9, 300)
    full = Moments(BOUNDS, degree).update(ROWS, weights)
    order = RNG.permutation(300)
    parts = [Moments(BOUNDS, degree).update(ROWS[i], weights[i]) for i in np.split(order, [7, 100])]
    assert parts[0].merge(parts[1]).merge(parts[2]) == full
    again = full.copy().update(ROWS[:50], 3 * np.ones(50, int))
    again.update(ROWS[:50], -3 * np.ones(50, int))
    for name in ("_inputs", "_targets"):
        np.testing.assert_array_equal(getattr(again, name), getattr(full, name))
    assert again.total == full.total


def test_heavy_weights_are_exact_in_python_integers():
    heavy = RNG.integers(2**30, 2**31, 5)
    result = Moments(BOUNDS, bits=9).update(ROWS[:5], heavy)
    each = [Moments(BOUNDS, bits=9).update(ROWS[i : i + 1])._inputs for i in range(5)]
    want = [sum(int(w) * int(row[j]) for w, row in zip(heavy, each, strict=True)) for j in range(6)]
    assert result._inputs.tolist() == want


@pytest.mark.parametrize("degree", [1, 2])
def test_no_row_moves_a_sum_by_more_than_the_unit(degree):
    corners = np.array(np.meshgrid([-9, 1], [0, 9], [5, np.inf])).reshape(3, -1).T
    for row in np.vstack([corners, ROWS[:40]]):
        one = Moments(BOUNDS, degree, bits=8).update(row[None])
        assert max(np.abs(one._inputs).max(), np.abs(one._targets).max()) <= 255**2


OPTIONS = [
    ({}, 1),
    ({"weight": 3}, 3),
    ({"relation": "replace"}, 2),
    ({"unit": "user", "contributions": 5, "relation": "replace"}, 10),
]


@pytest.mark.parametrize(("options", "times"), OPTIONS)
def test_cube_noise_costs_epsilon_and_no_less(options, times):
    # A change of c in the largest cell costs c / scale: of both parts together exactly epsilon.
    released = Moments(BOUNDS, bits=9).update(ROWS).release(0.5, **options)
    change = Fraction(511**2 * times)
    cost = change / Fraction(released.scale) + change / Fraction(released.target_scale)
    assert released.noise == "Cube"
    assert float(cost) == pytest.approx(0.5, rel=1e-12)
    assert released.statement.epsilon == 0.5
    assert "exp(-max |n| / scale)" in released.statement.mechanism
    assert "K-norm mechanism: Hardt and Talwar 2010" in released.statement.mechanism


def test_gaussian_noise_costs_the_sum_of_both_rho():
    released = Moments(BOUNDS, bits=9).update(ROWS).release(1, 1e-6, noise="gaussian")
    rho = 511**4 * (6 / (2 * released.scale**2) + 4 / (2 * released.target_scale**2))
    assert released.statement.loss["rho"] == pytest.approx(rho, rel=1e-9)
    assert released.statement.epsilon <= 1
    assert released.statement.delta == 1e-6


def test_the_smaller_noise_is_taken():
    few, many = ([-1] * 4, [1] * 4), ([-1] * 40, [1] * 40)
    assert Moments(few).release(1, 1e-6).noise == "Cube"
    assert Moments(many).release(1, 1e-6).noise == "Gaussian"
    assert Moments(many).release(1).noise == "Cube"


def test_release_is_unbiased_with_the_deviation_it_tells():
    # 400 releases: the mean is within 5 of its deviations and mean squares within 20 %; p < 1e-5.
    observed, source = Moments(BOUNDS, bits=9).update(ROWS), InsecureSeededSource(2)
    released = [observed.release(1, source=source) for _ in range(400)]
    inputs = np.array([one._inputs - observed._inputs for one in released]) / 511**2
    targets = np.array([one._targets - observed._targets for one in released]) / 511**2
    for noise, deviation in zip((inputs, targets), released[0].noise_error(), strict=True):
        assert np.abs(noise.mean(axis=0)).max() < 5 * deviation / 20
        assert abs((noise**2).mean() / deviation**2 - 1) < 0.2
    assert abs(np.mean([one.size() for one in released]) - 300) < released[0].noise_error()[0] / 4


def test_release_of_too_many_sums_is_refused_before_they_are_listed():
    released = Moments(BOUNDS).release(1)
    wide = dict(released.parameters, bounds=([0.0] * 3000, [1.0] * 3000), degree=2)
    with pytest.raises(ValueError, match="at most 65536 sums"):
        ReleasedMoments._make(wide, {}, released.statement)


def test_the_removal_of_a_row_that_was_never_added_is_released_as_any_other_event():
    # Whether it was there is private: a refusal would reveal it. It changes no sum beyond its unit.
    observed = Moments(BOUNDS).update(ROWS[:1])
    removed = observed.copy().update(ROWS[1:2], [-1])
    assert removed.total == 0
    for part in ("_inputs", "_targets"):
        change = np.abs(getattr(removed, part) - getattr(observed, part))
        assert 0 < change.max() <= (2**14 - 1) ** 2
    released = [one.release(1, source=InsecureSeededSource(3)) for one in (observed, removed)]
    assert released[0].statement == released[1].statement


def test_a_stopped_update_never_bounds_its_events_too_low(monkeypatch):
    # Stopped where the sums are about to change: they are those of before, the bound that of after.
    class Stopped(np.ndarray):
        armed = False

        def __iadd__(self, other):
            if self.armed:
                raise KeyboardInterrupt
            return super().__iadd__(other)

    for name in ("_inputs", "_targets"):
        observed = Moments(BOUNDS).update(ROWS[:5])
        cells = getattr(observed, name).view(Stopped)
        cells.armed = True
        monkeypatch.setattr(observed, name, cells)
        with pytest.raises(KeyboardInterrupt):
            observed.update(ROWS[5:9], [7, 1, 1, 1])
        assert (observed.heaviest, observed.mass) == (7, 15)
        with pytest.raises(ValueError, match="heavier"):
            observed.release(1)


BAD = [
    (lambda: Moments(([0], [1])), "2 columns"),
    (lambda: Moments(([0] * 60, [1] * 60), 2), "lower the degree"),
    (lambda: Moments(BOUNDS).update(np.zeros((1, 2))), "must have 3 columns, not 2"),
    (lambda: Moments(BOUNDS, bits=18).update(ROWS[:1], [2**31 - 1]), "lower it"),
    (lambda: Moments(BOUNDS).update(ROWS[:1], [2]).release(1), "heavier"),
    (lambda: Moments(BOUNDS).release(1, noise="gaussian"), "delta above 0"),
    (lambda: Moments(BOUNDS).release(1e-12), "epsilon is 1e-12"),
    (lambda: Moments(BOUNDS, bits=8).release(1e9), "too coarse"),
]


@pytest.mark.parametrize(("call", "said"), BAD)
def test_what_cannot_be_is_refused_with_a_reason(call, said):
    with pytest.raises(ValueError, match=said):
        call()
