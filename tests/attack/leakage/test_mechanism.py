"""Nats about one unit: exact for noise distributions, bounds for guarantees, and profiles."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.attack import bounds, information, profile_information
from sfumato.data import Interactions
from sfumato.privacy import PrivacyStatement
from sfumato.privacy.accounting.losses import (
    Approximate,
    Concentrated,
    Flips,
    GaussianNoise,
    LaplaceNoise,
    Pure,
    Sampled,
)
from sfumato.profile import Blip, Jlt, Minima, Signs
from support.hard_rows import released_to_all


def nats(p, q, fraction=0.5):
    """Mutual information of a bit and an answer with distribution p or q, from its definition."""
    p, q = np.asarray(p, float).ravel(), np.asarray(q, float).ravel()
    mean = fraction * p + (1 - fraction) * q

    def part(distribution):
        support = distribution > 0
        return float((distribution[support] * np.log(distribution[support] / mean[support])).sum())

    return fraction * part(p) + (1 - fraction) * part(q)


def shifted(distribution, change, cells):
    """Joint distributions of the noise of all cells, without and with a change of each."""
    pad = np.zeros(change)
    one, other = np.concatenate([distribution, pad]), np.concatenate([pad, distribution])
    p, q = one, other
    for _ in range(cells - 1):
        p, q = np.multiply.outer(p, one).ravel(), np.multiply.outer(q, other).ravel()
    return p, q


def gaussian(variance, half_width):
    mass = np.exp(-(np.arange(-half_width, half_width + 1.0) ** 2) / (2 * float(variance)))
    return mass / mass.sum()


def laplace(scale, half_width):
    mass = np.exp(-np.abs(np.arange(-half_width, half_width + 1.0)) / float(scale))
    return mass / mass.sum()


@pytest.mark.parametrize("p", [Fraction(1, 1000), Fraction(1, 4), Fraction(49, 100)])
def test_one_flipped_bit_is_a_binary_symmetric_channel(p):
    result = information(Flips(p))
    assert result.nats == pytest.approx(math.log(2) - float(bounds.binary_entropy(float(p))))
    assert result.capacity == result.nats
    assert result.exact


@pytest.mark.parametrize("cells", [2, 5, 9])
def test_flipped_bits_have_the_information_of_their_joint_distribution(cells):
    p = 0.3
    words = np.array(list(itertools.product((0, 1), repeat=cells))).sum(axis=1)
    distribution = p**words * (1 - p) ** (cells - words)
    assert information(Flips(Fraction(3, 10), cells)).nats == pytest.approx(
        nats(distribution, distribution[::-1])
    )


NORMAL = [(Fraction(1, 4), 1, 1), (Fraction(1, 3), 1, 2), (4, 1, 1), (9, 4, 1), (2, 1, 3)]


@pytest.mark.parametrize(("variance", "change", "cells"), NORMAL)
def test_gaussian_noise_has_the_information_of_its_exact_probabilities(variance, change, cells):
    distribution = gaussian(variance, math.ceil(14 * math.sqrt(variance)))
    result = information(GaussianNoise(variance, change, cells))
    truth = nats(*shifted(distribution, change, cells))
    assert result.exact
    assert truth * (1 - 1e-12) <= result.nats <= truth * (1 + 1e-3)
    assert result.nats < math.log(2)


@pytest.mark.parametrize(("scale", "change", "cells"), [(1, 1, 1), (2, 5, 1), (1, 1, 2), (3, 2, 3)])
def test_laplace_noise_has_the_information_of_its_exact_probabilities(scale, change, cells):
    distribution = laplace(scale, 30 * scale)
    result = information(LaplaceNoise(Fraction(scale), change, cells))
    truth = nats(*shifted(distribution, change, cells))
    assert result.exact
    assert truth * (1 - 1e-9) <= result.nats <= truth * (1 + 1e-3)


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_a_sample_is_most_informative_under_an_unfair_prior(rate):
    distribution = gaussian(1, 16)
    without, with_unit = shifted(distribution, 1, 1)
    mixed = rate * with_unit + (1 - rate) * without
    result = information(Sampled(rate, GaussianNoise(Fraction(1))))
    assert result.nats == pytest.approx(nats(mixed, without), rel=1e-3)
    fractions = np.linspace(0.01, 0.99, 99)
    most = max(nats(mixed, without, fraction) for fraction in fractions)
    assert result.capacity >= most * (1 - 1e-12)
    assert result.capacity == pytest.approx(most, rel=2e-3)
    assert nats(mixed, without, result.share) == pytest.approx(most, rel=1e-3)
    assert result.capacity > result.nats


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 30.0])
def test_a_promise_alone_gives_the_worst_channel_that_keeps_it(epsilon):
    result = information(Pure(epsilon))
    assert not result.exact
    assert result.nats <= min(epsilon**2 / 8, math.log(2)) * (1 + 1e-12)
    right = 1 / (1 + math.exp(-epsilon))
    if epsilon > 1e-3:
        assert result.nats == pytest.approx(nats([right, 1 - right], [1 - right, right]))
    else:
        assert result.nats == pytest.approx(epsilon**2 / 8)
    slip = information(Approximate(epsilon, 0.01))
    distribution = np.array([0.01, 0.99 * right, 0.99 * (1 - right), 0.0])
    if epsilon > 1e-3:
        assert slip.nats == pytest.approx(nats(distribution, distribution[::-1]))
    assert not slip.exact


LOSSES = [
    Flips(Fraction(2, 5), 20),
    Flips(Fraction(499, 1000), 20_000),
    LaplaceNoise(Fraction(7), 3, 4),
    LaplaceNoise(Fraction(1), 1, 10**6),
    LaplaceNoise(Fraction(3, 10), 1, 10**12),
    LaplaceNoise(Fraction(10**8), 1, 10**6),
    GaussianNoise(Fraction(50), 2, 3),
    GaussianNoise(Fraction(10**8), 1000, 3),
    Concentrated(1e-4),
    Concentrated(0.1),
    Concentrated(1.0),
    Concentrated(80.0),
    Sampled(0.1, Pure(2.0)),
    Sampled(0.1, Concentrated(0.5)),
    Sampled(0.01, LaplaceNoise(Fraction(1), 1, 2)),
    Pure(800.0),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_figure_exceeds_log_2_pure_epsilon_or_rho(loss):
    result = information(loss)
    assert 0 < result.nats <= result.capacity * (1 + 1e-12) <= math.log(2) * (1 + 1e-12)
    assert result.capacity <= loss.rho / 2
    if loss.epsilon < math.inf:
        assert result.nats <= loss.epsilon**2 / 8 * (1 + 1e-12)


@pytest.mark.parametrize("rho", [1e-3, 0.02, 0.3, 2.0])
def test_a_bound_by_rho_covers_gaussian_noise_and_is_not_far_above(rho):
    bound = information(Concentrated(rho))
    noise = information(
        GaussianNoise(Fraction(10**6) / Fraction(2 * rho).limit_denominator(10**6), 1000)
    )
    assert not bound.exact
    assert noise.nats < bound.nats < 1.9 * noise.nats


def test_noise_too_weak_for_the_grid_gives_a_bound():
    # On the grid rounding alone would be 2e-8, a thousand times what pure epsilon allows.
    weak = information(LaplaceNoise(Fraction(10**8), 1, 10**6))
    assert not weak.exact
    assert information(LaplaceNoise(Fraction(1), 1, 2)).exact


def test_a_sample_of_many_cells_gives_a_bound():
    assert information(Sampled(0.1, LaplaceNoise(Fraction(1)))).exact
    assert not information(Sampled(0.1, LaplaceNoise(Fraction(1), 1, 2))).exact
    assert not information(Sampled(0.1, Pure(1.0))).exact


def test_many_cells_keep_the_figure_within_a_few_percent():
    # Weak bits add up: the figure of all is near that of one normal number of the same strength.
    cells, p = 20_000, Fraction(499, 1000)
    result = information(Flips(p, cells)).nats
    rho = cells * float(1 - 2 * p) ** 2 * 2
    normal = information(GaussianNoise(Fraction(10**6) / Fraction(2 * rho), 1000)).nats
    assert normal * 0.99 < result < normal * 1.05


def statement(**more):
    result = dict(unit="event", relation="add/remove", mechanism="flips", epsilon=3.0, loss={})
    return PrivacyStatement(**{**result, **more})


def test_a_statement_is_read_by_its_loss_or_else_by_its_epsilon_and_delta():
    loss = Flips(Fraction(1, 4), 2)
    assert information(statement(loss=loss.to_dict())) == information(loss)
    assert information(statement(delta=1e-6)) == information(Approximate(3.0, 1e-6))
    assert information(statement()).nats == information(Pure(3.0)).nats
    assert information(loss.group(3)) == information(Flips(Fraction(1, 4), 6))
    assert json.loads(json.dumps(information(loss).to_dict()))["exact"] is True
    assert repr(information(loss)).startswith("Information: exactly 0.23 of 0.6931")
    with pytest.raises(
        TypeError, match="information: guarantee must be a PrivacyStatement or a Loss"
    ):
        information(3.0)


def test_profiles_use_the_formulas_of_their_kind():
    before = Interactions([1, 1, 2], ["tea", "rum", "tea"], [1, 1, 1])
    size = np.array([1, 106, 1000])
    blip, jlt, signs, minima = (
        released_to_all(mechanism, before)
        for mechanism in (Blip(epsilon=8), Jlt(epsilon=2), Signs(epsilon=2), Minima(epsilon=3))
    )
    flip, probability = float(blip.flip_probability), float(minima.chance)
    filled = blip.bits, blip.hashes, flip, size
    result = jlt.dimensions, size, jlt.sigma
    signed = signs.bits, size, signs.sigma
    cells = minima.bins, minima.code_bits, probability, size
    expected = [
        (blip, bounds.blip_single(*filled), bounds.blip_joint(*filled)),
        (jlt, bounds.jlt_single(*result), bounds.jlt_joint(*result)),
        (signs, bounds.signs_single(*signed), bounds.signs_joint(*signed)),
        (minima, bounds.minima_single(*cells), bounds.minima_joint(*cells)),
    ]
    for released, single, joint in expected:
        found = profile_information(released, size)
        np.testing.assert_allclose(found[0], single)
        np.testing.assert_allclose(found[1], joint / size)
        assert (found[0] <= found[1] * (1 + 1e-9)).all()
        assert 0 < information(released.statement).nats < math.log(2)
    with pytest.raises(TypeError, match="profile_information: released must be made by Blip"):
        profile_information(object(), 3)
