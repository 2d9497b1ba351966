"""Calibration is right for the discrete distribution: its own mass never claims too much."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from sfumato.privacy.accounting import calibration as calibrate
from sfumato.privacy.accounting.calibration import (
    concentrated_delta,
    concentrated_epsilon,
    epsilon_of,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    gaussian_sigma_l2,
)
from sfumato.privacy.accounting.losses import (
    Approximate,
    Concentrated,
    Flips,
    GaussianNoise,
    LaplaceNoise,
    Pure,
)


def mass(sigma, half_width):
    """The mass of one noise on -half_width..half_width, straight from the definition."""
    points = range(-half_width, half_width + 1)
    weights = [math.exp(-x * x / (2 * sigma * sigma)) for x in points]
    return {x: w / math.fsum(weights) for x, w in zip(points, weights, strict=True)}


def brute_delta(epsilon, sigma, changes, half_width):
    """Over every answer: how far P exceeds exp(epsilon) Q, where Q is P moved by `changes`."""
    distribution = mass(sigma, half_width)
    over = []
    for point in itertools.product(distribution, repeat=len(changes)):
        p = math.prod(distribution[x] for x in point)
        q = math.prod(distribution.get(x - c, 0.0) for x, c in zip(point, changes, strict=True))
        over.append(max(0.0, p - math.exp(epsilon) * q))
    return math.fsum(over)


@pytest.mark.parametrize("epsilon", [0, 0.1, 1, 3, 10])
@pytest.mark.parametrize(("sigma", "change"), [(0.3, 1), (0.7, 2), (1, 1), (4.25, 1), (20, 7)])
def test_delta_of_one_cell_is_the_sum_over_its_mass(epsilon, sigma, change):
    want = brute_delta(epsilon, sigma, [change], int(14 * sigma) + 40)
    # Where zCDP is lower than the sum, the sum is only the rounding of the floats above.
    assert want * (1 - 1e-6) - 1e-13 <= gaussian_delta(epsilon, sigma, change=change)
    assert gaussian_delta(epsilon, sigma, change=change) <= want * (1 + 1e-6) + 1e-13


def test_delta_is_not_below_the_exact_sum():
    # In 40 digits, where no rounding of floats could hide that the answer is rounded up.
    with mpmath.workdps(40):
        for n, change, epsilon in itertools.product((5, 9, 17, 31), (1, 2), (0, 0.25, 0.75, 1.5)):
            spread = 2 * mpmath.mpf(n * n) / 64  # twice the variance, sigma being n / 8
            points = range(-3 * n - 20, 3 * n + 21)
            weight = {x: mpmath.exp(-x * x / spread) for x in points}
            over = (weight[x] - mpmath.exp(epsilon) * weight.get(x - change, 0) for x in points)
            want = mpmath.fsum(max(each, 0) for each in over) / mpmath.fsum(weight.values())
            assert want <= gaussian_delta(epsilon, Fraction(n, 8), change=change)


@pytest.mark.parametrize(
    ("sigma", "change", "cells"), [(0.5, 1, 2), (0.9, 1, 3), (1, 1, 3), (1.3, 2, 2), (5, 2, 2)]
)
@pytest.mark.parametrize("epsilon", [0.2, 1, 4])
def test_delta_of_several_cells_is_the_sum_over_their_joint_mass(epsilon, sigma, change, cells):
    want = brute_delta(epsilon, sigma, [change] * cells, int(8 * sigma) + 6)
    found = gaussian_delta(epsilon, sigma, change=change, cells=cells)
    assert want * (1 - 1e-9) - 1e-14 <= found <= want * 1.0003 + 1e-13


@pytest.mark.parametrize("changes", [[1, 2], [2, 1], [0, 2], [1, 0], [-2, 1], [-2, 2]])
def test_smaller_changes_and_fewer_cells_are_covered(changes):
    for epsilon in (0.1, 0.5, 1, 2):
        smaller = brute_delta(epsilon, 1.7, changes, 20)
        assert smaller <= gaussian_delta(epsilon, 1.7, change=2, cells=2)


def continuous(epsilon, sigma):
    """Balle and Wang 2018, theorem 8: of the continuous Gaussian at sensitivity 1."""
    left = norm.cdf(0.5 / sigma - epsilon * sigma)
    return left - math.exp(epsilon) * norm.cdf(-0.5 / sigma - epsilon * sigma)


@pytest.mark.parametrize("scale", [1, 100, 10**6, 10**12])
@pytest.mark.parametrize("cells", [1, 4, 400])
def test_many_points_are_bounded_in_blocks_within_one_percent(scale, cells):
    # At large sigma the discrete noise is nearly the continuous one, moved by sqrt(cells) change.
    for epsilon, ratio in [(0.5, 3), (1, 5), (0.01, 40)]:
        sigma = math.ceil(50 * ratio * scale * math.sqrt(cells))
        want = continuous(epsilon, sigma / (50 * scale * math.sqrt(cells)))
        found = gaussian_delta(epsilon, sigma, change=50 * scale, cells=cells)
        assert want * (1 - 1e-4) <= found <= want * 1.01


@pytest.mark.parametrize("cells", [1, 4, 30])
@pytest.mark.parametrize("sigma", [0.6, 1, 3, 30])
def test_delta_agrees_with_dp_accounting(sigma, cells):
    from dp_accounting.pld import privacy_loss_distribution as peer

    pld = peer.from_discrete_gaussian_mechanism(sigma, 1, value_discretization_interval=1e-4)
    pld = pld.self_compose(cells)
    for epsilon in (0.5, 2, 6):
        want = pld.get_delta_for_epsilon(epsilon)
        found = gaussian_delta(epsilon, sigma, cells=cells)
        assert found <= want * 1.001 + 1e-12
        assert found >= want * 0.9 - 1e-12


@pytest.mark.parametrize("delta", [0.1, 1e-6, 1e-12])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1, 5])
@pytest.mark.parametrize(("change", "cells"), [(1, 1), (1, 4), (3, 20)])
def test_sigma_is_enough_and_hardly_more(epsilon, delta, change, cells):
    sigma = gaussian_sigma(epsilon, delta, change=change, cells=cells)
    assert isinstance(sigma, Fraction)
    assert gaussian_delta(epsilon, sigma, change=change, cells=cells) <= delta
    less = sigma * Fraction(997, 1000)
    if sigma > 1:  # below, the distribution is so coarse that deltas jump
        assert gaussian_delta(epsilon, less, change=change, cells=cells) > delta
    assert sigma <= gaussian_sigma_l2(epsilon, delta, norm_squared=cells * change**2)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-9), (1, 1e-6), (4, 1e-3)])
def test_sigma_is_enough_for_the_longest_vector_that_it_is_given_for(epsilon, delta):
    sigma = gaussian_sigma_l2(epsilon, delta, norm_squared=7)
    low, high = 7 * 2**40, 8 * 2**40  # of the squared norm, in steps of 2**-40
    while high - low > 1:
        middle = (low + high) // 2
        made = gaussian_sigma_l2(epsilon, delta, norm_squared=Fraction(middle, 2**40))
        low, high = (middle, high) if made <= sigma else (low, middle)
    rho = math.nextafter(float(Fraction(low, 2**40) / (2 * sigma**2)), 1)
    assert concentrated_delta(epsilon, rho) <= delta * (1 + 1e-9)


def test_sigma_has_a_short_denominator_so_that_sampling_stays_quick():
    for sigma in (
        gaussian_sigma(1, 1e-6, cells=4),
        gaussian_sigma(0.3, 1e-9),
        gaussian_sigma(8, 0.1),
    ):
        assert sigma.denominator <= 2**14


def test_epsilon_is_the_inverse_of_delta():
    for variance, change, cells, delta in [(9, 1, 1, 1e-6), (Fraction(7, 3), 2, 5, 1e-3)]:
        epsilon = gaussian_epsilon(delta, variance, change=change, cells=cells)
        assert calibrate.variance_delta(epsilon, Fraction(variance), change, cells) <= delta
        assert calibrate.variance_delta(epsilon * 0.999, Fraction(variance), change, cells) > delta


@pytest.mark.parametrize("sigma", [0.5, 1, 3, 50])
def test_concentrated_delta_bounds_the_gaussian_that_has_that_rho(sigma):
    rho = 1 / (2 * sigma**2)
    for epsilon in (0.1, 1, 3):
        assert continuous(epsilon, sigma) <= concentrated_delta(epsilon, rho)
    # The exact best order, on a fine grid of orders: no bound is better than it.
    orders = 1 + np.geomspace(1e-5, 1e5, 200_001)
    log = (orders - 1) * (orders * rho - 2) + (orders - 1) * np.log1p(-1 / orders) - np.log(orders)
    assert concentrated_delta(2, rho) == pytest.approx(math.exp(min(0.0, log.min())), rel=1e-6)


def test_concentrated_epsilon_is_the_inverse_of_concentrated_delta():
    for rho, delta in [(0.5, 1e-6), (1e-6, 1e-9), (40, 1e-3), (0.01, 0.3)]:
        epsilon = concentrated_epsilon(delta, rho)
        assert concentrated_delta(epsilon * (1 + 1e-7), rho) <= delta * (1 + 1e-6)
        assert epsilon == 0 or concentrated_delta(epsilon * 0.999, rho) > delta


def test_epsilon_of_any_loss():
    assert epsilon_of(Pure(0.5), 0) == 0.5
    assert epsilon_of(LaplaceNoise(Fraction(2), 1, 4), 0) == 2
    assert epsilon_of(GaussianNoise(Fraction(9)), 0) == math.inf
    assert epsilon_of(Approximate(0.5, 1e-6), 1e-6) <= 0.5
    assert epsilon_of(Approximate(0.5, 1e-6), 1e-7) == math.inf
    assert epsilon_of(GaussianNoise(Fraction(9)), 1e-6) == gaussian_epsilon(1e-6, 9)
    assert epsilon_of(Concentrated(0.1), 1e-6) == concentrated_epsilon(1e-6, 0.1)
    assert 0 < epsilon_of(Flips(Fraction(1, 4), 8), 1e-3) < 8 * math.log(3)
    assert epsilon_of(Pure(0.5, relation="replace"), 0.01) < 0.5


def test_calibration_keeps_its_promise_from_tiny_to_huge_sigma():
    for epsilon, change, cells in [(30, 1, 1), (1, 1, 4), (0.01, 100, 9), (1e-4, 10**9, 10**6)]:
        sigma = gaussian_sigma(epsilon, 1e-6, change=change, cells=cells)
        assert gaussian_delta(epsilon, sigma, change=change, cells=cells) <= 1e-6
        assert gaussian_delta(epsilon, sigma * 0.99, change=change, cells=cells) > 1e-6


GOOD = dict(epsilon=1, delta=1e-6, change=1, cells=1, sigma=2, norm_squared=3, variance=4)
BAD = {
    "epsilon": [0, -1, math.nan, math.inf, "1", None, True],
    "delta": [0, -1e-9, 1, 2, math.nan, "1", None, True],
    "change": [0, -1, 1.5, 1.0, None, True, math.nan],
    "cells": [0, -1, 2.5, None, True],
    "sigma": [0, -1, math.nan, math.inf, None, True],
    "norm_squared": [0, -1, math.nan, math.inf, None],
    "variance": [0, -1, math.nan, math.inf, None],
}


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (gaussian_sigma, ("epsilon", "delta", "change", "cells")),
        (gaussian_sigma_l2, ("epsilon", "delta", "norm_squared")),
        (gaussian_delta, ("sigma", "change", "cells")),
        (gaussian_epsilon, ("delta", "variance", "change", "cells")),
    ],
)
def test_bad_input_is_named(call, names):
    needs = [
        name
        for name in GOOD
        if name
        in call.__code__.co_varnames[: call.__code__.co_argcount + call.__code__.co_kwonlyargcount]
    ]
    good = {name: GOOD[name] for name in needs}
    call(**good)
    for name in names:
        for bad in BAD[name]:
            with pytest.raises(ValueError, match=f"{call.__name__}: {name} must be"):
                call(**{**good, name: bad})


def test_delta_zero_points_to_laplace():
    with pytest.raises(ValueError, match="Use Laplace noise"):
        gaussian_sigma(1, 0)
    with pytest.raises(ValueError, match="delta must be a number"):
        epsilon_of(Pure(1), 1)
