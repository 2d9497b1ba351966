"""The plan of a private model: all steps together cost what is charged, and hardly less."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.privacy.accounting.accountant import Accountant
from sfumato.recommend.private.inputs import FIRST, STEPS, Budget, Rule

FRACTIONS = [FIRST, *[(1 - FIRST) / STEPS] * STEPS]
NORMS = [2 * 4**12, *[43_000_000_000_000 + 977 * step for step in range(STEPS)]]


@pytest.mark.parametrize("epsilon", [0.5, 1, 4, 8, 16])
def test_the_charged_loss_keeps_the_promise(epsilon):
    loss = Budget.of(epsilon, 1e-6).loss
    got = Accountant().compose(loss).epsilon(1e-6)
    assert 0.99 * epsilon < got <= epsilon


@pytest.mark.parametrize("epsilon", [0.5, 1, 4, 8, 16])
def test_all_steps_compose_to_the_charge_in_another_accountant(epsilon):
    dp_accounting = pytest.importorskip("dp_accounting")
    budget = Budget.of(epsilon, 1e-6)
    accountant = dp_accounting.pld.PLDAccountant()
    for norm, fraction in zip(NORMS, FRACTIONS, strict=True):
        ratio = budget.sigma(norm, fraction) / math.sqrt(norm)
        accountant.compose(dp_accounting.GaussianDpEvent(ratio))
    got = accountant.get_epsilon(1e-6)
    assert 0.98 * epsilon < got <= epsilon * (1 + 1e-3)  # that accountant rounds up


def discrete(sigma):
    points = np.arange(-14 * sigma, 14 * sigma + 1)
    mass = np.exp(-(points**2) / (2 * sigma**2))
    return mass / mass.sum()


def dilated(mass, times):
    """The mass of an integer times a noise."""
    out = np.zeros(times * (mass.size - 1) + 1)
    out[::times] = mass
    return out


@pytest.mark.parametrize("epsilon", [1, 4])
def test_the_exact_distribution_of_discrete_steps_keeps_epsilon_and_delta(epsilon):
    # Two steps, one moving two numbers by 30 and 40, one moving one by 50: both of norm 50. The
    # likelihood ratio is a function of 30 a + 40 b + 50 c, whose mass is an exact convolution.
    delta = 1e-6
    sigma = Budget.of(epsilon, delta).sigma(2500, Fraction(1, 2))
    one = discrete(sigma)
    mass = np.convolve(np.convolve(dilated(one, 3), dilated(one, 4)), dilated(one, 5))
    moved = 10.0 * (np.arange(mass.size) - mass.size // 2)
    loss = (moved + 2500) / sigma**2
    got = (mass * np.maximum(0, -np.expm1(epsilon - loss))).sum()
    assert 0.5 * delta < got <= delta


def test_a_smaller_share_buys_larger_noise():
    budget = Budget.of(1, 1e-6)
    half, tenth = (budget.sigma(10**10, Fraction(1, part)) for part in (2, 10))
    assert tenth == pytest.approx(half * math.sqrt(5), rel=1e-4)


def test_a_huge_epsilon_still_has_noise_that_the_proof_covers():
    assert Budget.of(1e9, 1e-6).loss.variance >= 32


def test_the_rule_gives_means_the_whole_budget_where_little_is_known():
    sizes = (6040, 3706, 800_000)
    found = [
        Rule.of(Budget.of(e, 1e-6).precision, *sizes).components for e in (0.5, 1, 2, 4, 8, 16)
    ]
    assert found == [0, 0, 0, 4, 8, 14]
    assert Rule.of(1e-9, *sizes, factors=5).components == 4
    assert Rule.of(1.0, *sizes[:2], -50.0).components == 0
