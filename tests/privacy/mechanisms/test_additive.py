"""Additive noise: exact distributions and scales, proofs on small worlds, no 64-bit surprises."""

import itertools
import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from sfumato.privacy.accounting.losses import Concentrated, GaussianNoise, LaplaceNoise
from sfumato.privacy.mechanisms.additive import Gaussian, Laplace
from sfumato.privacy.random_source import InsecureSeededSource

RARE = 1e-9  # the failure probability of each test against 200,000 samples


def laplace_mass(mechanism, k):
    a = mpmath.exp(-1 / mpmath.mpf(float(mechanism.scale)))
    return (1 - a) / (1 + a) * a ** abs(k)


def gaussian_masses(sigma, half_width):
    weights = {
        k: mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * sigma**2))
        for k in range(-half_width, half_width)
    }
    total = mpmath.fsum(weights.values())
    return {k: weight / total for k, weight in weights.items()}


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1, 1), (2, 0.7), (5, 0.1)])
def test_laplace_answers_follow_the_exact_distribution(sensitivity, epsilon):
    mechanism = Laplace(sensitivity, epsilon)
    drawn = mechanism.sample(7, 200_000, source=InsecureSeededSource(1)) - 7
    half_width = int(9 * mechanism.scale)
    expected = [float(laplace_mass(mechanism, k)) for k in range(-half_width, half_width + 1)]
    assert pvalue(drawn, half_width, expected) > RARE


@pytest.mark.parametrize("sigma", ["7/10", 2, Fraction(53, 5)])
def test_gaussian_answers_follow_the_exact_distribution(sigma):
    mechanism = Gaussian(1, sigma=sigma)
    drawn = mechanism.sample([-3, 4], 100_000, source=InsecureSeededSource(2)) - [-3, 4]
    half_width = math.ceil(4 * mechanism.sigma)
    masses = gaussian_masses(mpmath.mpf(float(mechanism.sigma)), 12 * half_width)
    expected = [float(masses[k]) for k in range(-half_width, half_width + 1)]
    assert pvalue(drawn, half_width, expected) > RARE


def pvalue(drawn, half_width, expected):
    """Chi-square over -half_width to half_width, all beyond being one more outcome."""
    inside = np.abs(drawn) <= half_width
    counts = np.bincount(drawn[inside] + half_width, minlength=2 * half_width + 1)
    counts, expected = np.append(counts, (~inside).sum()), np.append(expected, 1 - sum(expected))
    return stats.chisquare(counts, expected * drawn.size).pvalue


def test_scale_is_the_exact_quotient():
    assert Laplace(3, 0.1).scale == 3 / Fraction(0.1)
    assert Laplace(3, 0.1).loss().epsilon == 0.1
    assert Laplace(3, scale="3/7").epsilon == 7.0
    assert Laplace(2, Fraction(1, 3)).scale == 6


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1, 1.0), (3, 0.5)])
def test_laplace_epsilon_holds_for_all_changes_of_two_numbers(sensitivity, epsilon):
    mechanism = Laplace(sensitivity, epsilon)
    mass = {k: mpmath.log(laplace_mass(mechanism, k)) for k in range(-30, 31)}
    worst = 0
    for move in itertools.product(range(-sensitivity, sensitivity + 1), repeat=2):
        if sum(map(abs, move)) <= sensitivity:
            for noisy in itertools.product(range(-25, 26), repeat=2):
                ratio = sum(mass[k] - mass[k + m] for k, m in zip(noisy, move, strict=True))
                worst = max(worst, ratio)
    assert float(worst) == pytest.approx(mechanism.loss().epsilon, abs=1e-12)


@pytest.mark.parametrize("a", [Fraction(1, 10), Fraction(1, 2), Fraction(19, 20)])
@pytest.mark.parametrize("change", [(1, 1), (1, 2), (3, 4), (2, 2, 1), (1, 1, 1, 1)], ids=str)
def test_one_number_changed_by_all_of_it_dominates_a_spread_change(a, change):
    # All in fractions: delta at every ratio that occurs, hence at every epsilon (it is convex and
    # piecewise linear in exp(epsilon) between them). This is the claim in the docstring.
    whole, split = clipped(a, sum(change)), {0: Fraction(1)}
    for part in change:
        split = convolved(split, clipped(a, part))
    for level in [a ** (sum(change) - 2 * k) for k in range(sum(change) + 1)]:
        assert delta(a, sum(change), split, level) <= delta(a, sum(change), whole, level)


def clipped(a, shift):
    """The noise around 0, clipped to 0 ... shift, outside of which ratios are equal."""
    inside = {k: (1 - a) / (1 + a) * a**k for k in range(1, shift)}
    return {0: 1 / (1 + a), **inside, shift: a**shift / (1 + a)}


def convolved(one, other):
    distribution = {}
    for (j, x), (k, y) in itertools.product(one.items(), other.items()):
        distribution[j + k] = distribution.get(j + k, 0) + x * y
    return distribution


def delta(a, shift, distribution, level):
    """Sum of (P - Q / level)+, where P / Q = a**(2 k - shift)."""
    return sum(mass * max(0, 1 - a ** (shift - 2 * k) / level) for k, mass in distribution.items())


@pytest.mark.parametrize(
    ("mechanism", "moves"),
    [
        (Gaussian(1, 1, 1e-5), [(1,)]),
        (Gaussian(3, 0.5, 1e-4, cells=1), [(1,), (2,), (3,)]),
        (Gaussian(2, 1, 1e-4, squared=True), [(1, 1), (1, 0)]),
        (Gaussian(4, 2, 1e-4, squared=True), [(2, 0), (1, 1)]),
        (Gaussian(8, 1.5, 1e-4, squared=True, cells=2), [(2, 2), (1, 2), (2, 0)]),
    ],
)
def test_gaussian_delta_holds_by_the_mass_of_what_runs(mechanism, moves):
    exact = max(gaussian_delta(mechanism, move) for move in moves)
    assert exact <= mechanism.delta
    if mechanism.cells is not None:  # the norm alone must cover more than these moves
        assert exact > 0.9 * mechanism.delta


def gaussian_delta(mechanism, move):
    sigma = float(mechanism.sigma)
    k = np.arange(-int(12 * sigma), int(12 * sigma) + 1)
    log = -(k**2) / (2 * sigma**2)
    log = log - np.log(np.exp(log).sum())
    moved = [log - (k * m / sigma**2 + m**2 / (2 * sigma**2)) for m in move]  # mass at k + m
    here = log if len(move) == 1 else np.add.outer(log, log)
    there = moved[0] if len(move) == 1 else np.add.outer(*moved)
    return np.maximum(np.exp(here) - np.exp(mechanism.epsilon + there), 0).sum()


def test_a_norm_below_two_says_how_many_numbers_change():
    assert Gaussian(3, 1, 1e-6, squared=True).loss() == GaussianNoise(
        Gaussian(3, 1, 1e-6, squared=True).sigma ** 2, 1, 3
    )
    assert isinstance(Gaussian(2, 1, 1e-6).loss(), Concentrated)
    assert Gaussian(2, 1, 1e-6, cells=1).sigma < Gaussian(2, 1, 1e-6).sigma


def test_cells_divide_the_sensitivity_into_whole_changes():
    assert Laplace(6, 1, cells=3).loss() == LaplaceNoise(Fraction(6), 2, 3)
    with pytest.raises(ValueError, match="Laplace: cells must divide"):
        Laplace(5, 1, cells=2)
    with pytest.raises(ValueError, match="Gaussian: cells must divide"):
        Gaussian(5, 1, 1e-6, squared=True, cells=2)


def test_stated_costs_are_not_below_the_exact_quotients():
    # A float is a fraction: the exact quotient, in integers, is never above it.
    up = 1 + Fraction(1, 2**52)
    for sensitivity, n in itertools.product(range(1, 8), range(1, 40)):
        exact = Fraction(11 * sensitivity, n)
        assert exact <= Fraction(Laplace(sensitivity, scale=Fraction(n, 11)).epsilon) <= exact * up
        noisy = Gaussian(sensitivity + 1, sigma=Fraction(n, 11))
        exact = Fraction((sensitivity + 1) ** 2 * 11**2, 2 * n**2)
        assert exact <= Fraction(noisy.loss().rho) <= exact * up


def test_too_little_noise_for_the_epsilon_is_refused():
    assert Laplace(2, epsilon=1, scale=3).epsilon == pytest.approx(2 / 3)
    with pytest.raises(
        ValueError, match="Laplace: scale must be at least 2 for that epsilon, not 3/2"
    ):
        Laplace(2, epsilon=1, scale=1.5)
    with pytest.raises(
        ValueError, match=r"Gaussian: sigma must be at least [\d/]+ for that .* not 4;"
    ):
        Gaussian(1, 1, 1e-6, sigma=4)
    assert Gaussian(1, 1, 1e-6, sigma=5).sigma == 5
    for missing in ({}, {"delta": 1e-6}):
        with pytest.raises(ValueError, match="Gaussian: epsilon"):
            Gaussian(1, **missing)
    with pytest.raises(ValueError, match="Gaussian: delta must be given"):
        Gaussian(1, 1)
    with pytest.raises(ValueError, match="Laplace: epsilon or scale"):
        Laplace(1)


@pytest.mark.parametrize("sigma", [1, 2, 4])
def test_a_sigma_is_taken_only_if_its_own_mass_keeps_the_promise(sigma):
    distribution = gaussian_masses(mpmath.mpf(sigma), 14 * sigma + 10)
    over = (distribution[k] - mpmath.e * distribution.get(k - 1, 0) for k in distribution)
    delta = float(mpmath.fsum(each for each in over if each > 0))
    assert Gaussian(1, 1, delta * 1.001, sigma=sigma).sigma == sigma
    with pytest.raises(ValueError, match="Gaussian: sigma must be at least"):
        Gaussian(1, 1, delta * 0.999, sigma=sigma)


def test_noise_that_might_leave_64_bits_is_refused_and_values_are_clipped_to_what_fits():
    for build in (lambda: Laplace(2**41, 1), lambda: Gaussian(2**41, 1, 1e-6)):
        with pytest.raises(ValueError, match=r"at most 2\*\*40, not about 2\*\*4"):
            build()
    with pytest.raises(ValueError, match=r"Laplace: scale .* not about 2\*\*1135"):
        Laplace(2**61, 5e-324)  # wider than any float
    widest = Laplace(2**40, 1)
    edge = np.array([2**62 - 1, 1 - 2**62])
    noisy = widest.sample(edge, 1000, source=InsecureSeededSource(4))
    assert (np.sign(noisy) == [1, -1]).all()  # nothing wrapped
    for beyond, clipped in (
        (2**62, 2**62 - 1),
        (-(2**62), 1 - 2**62),
        (2**63, 2**62 - 1),
        ([0, 2**64], [0, 2**62 - 1]),
        ([-(2**70), 2**70], [1 - 2**62, 2**62 - 1]),
        (np.uint64(2**63), 2**62 - 1),
    ):
        got, want = (widest.run(v, source=InsecureSeededSource(4)) for v in (beyond, clipped))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mechanism", [Laplace(1, 1), Gaussian(1, 1, 1e-6)], ids=["L", "G"])
def test_shapes_stay_and_the_value_is_not_changed(mechanism):
    assert type(mechanism.run(3)) is int
    assert type(mechanism.run(np.uint8(3))) is int
    table = np.arange(6, dtype=np.int64).reshape(2, 3)
    noisy = mechanism.run(table)
    assert noisy.shape == (2, 3)
    assert noisy.dtype == np.int64
    assert (table == np.arange(6).reshape(2, 3)).all()
    assert mechanism.run(table[:, ::2]).shape == (2, 2)
    assert mechanism.run(np.empty(0, np.int32)).shape == (0,)
    assert mechanism.sample(table, 4).shape == (4, 2, 3)


def test_sentences_about_values_tell_no_value():
    with pytest.raises(ValueError, match="value must be integers") as result:
        Laplace(1, 1).run([0.12345, 678])
    assert "12345" not in str(result.value)
    assert "678" not in str(result.value)


def test_statement_tells_what_runs():
    result = Gaussian(1, sigma=3, delta=1e-5).statement("event")
    assert result.delta == 1e-5
    assert 1 < result.epsilon < 1.5
    assert Gaussian(1, 1, 1e-6).statement("user").epsilon <= 1
    with pytest.raises(ValueError, match="Gaussian: delta"):
        Gaussian(1, sigma=3).statement("event")
    assert Laplace(1, 0.5).statement("event").epsilon == 0.5
    with pytest.raises(TypeError, match="epsilon"):
        Laplace(1, 0.5).statement("event", epsilon=0.1)


def test_sensitivity_has_no_default():
    for build in (Laplace, Gaussian):
        with pytest.raises(TypeError, match="sensitivity"):
            build(epsilon=1)
    assert pickle.loads(pickle.dumps(Laplace(3, 1))).sensitivity == 3


@pytest.mark.parametrize("mechanism", [Laplace(1, 1), Gaussian(1, 1, 1e-6)], ids=["L", "G"])
def test_masked_arrays_are_refused(mechanism):
    with pytest.raises(ValueError, match="value must not be a masked array"):
        mechanism.run(np.ma.array([1, 2], mask=[True, False]))


def test_scales_of_numpy_do_not_wrap():
    # NumPy's integers inside a Fraction would.
    wide = Laplace(1, scale=np.int64(2**39))
    assert wide.scale * 2**40 == 2**79
    assert Laplace(1, Fraction(np.int64(1), 3)).scale * 2**70 == 3 * 2**70
    with pytest.raises(ValueError, match="Laplace: epsilon"):
        Laplace(1, np.True_)
