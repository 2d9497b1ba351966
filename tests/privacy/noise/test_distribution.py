"""The laws of discrete noise: moments and tails are those of the masses, summed one by one."""

import math

import numpy as np
import pytest

from sfumato.privacy.noise.discrete import discrete_gaussian, discrete_laplace
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.random_source import InsecureSeededSource

LAWS = [
    NoiseDistribution(kind, scale)
    for kind in ("Laplace", "Gaussian")
    for scale in (0.3, 1.0, 4.5, 40.0)
]


def masses(law):
    sizes = np.arange(int(60 * law.scale) + 60, dtype=np.float64)
    power = sizes if law.kind == "Laplace" else sizes**2 / (2 * law.scale)
    mass = np.exp(-power / law.scale)
    mass[1:] *= 2
    return sizes, mass / mass.sum()


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_moments_are_those_of_the_masses(law):
    sizes, mass = masses(law)
    assert law.variance == pytest.approx((sizes**2 * mass).sum(), rel=1e-9)
    assert law.fourth == pytest.approx((sizes**4 * mass).sum(), rel=1e-9)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("miss", [0.9, 0.3, 0.01, 1e-7])
def test_reach_is_the_least_number_that_is_passed_so_rarely(law, miss):
    _, mass = masses(law)
    reach = int(law.tail_bound(miss))
    assert mass[reach + 1 :].sum() <= miss * (1 + 1e-9)
    assert reach == 0 or mass[reach:].sum() > miss


def test_wide_gaussians_reach_as_far_as_the_continuous_one():
    # 2.5758 deviations are passed by 1 % of a normal law.
    assert NoiseDistribution("Gaussian", 1000.0).tail_bound(0.01) == pytest.approx(2575.8, abs=1)
    assert NoiseDistribution("Gaussian", 1e9).tail_bound(0.01) == pytest.approx(2.5758e9, rel=1e-4)
    assert NoiseDistribution("Gaussian", 1e9).variance == 1e18


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian"])
@pytest.mark.parametrize("count", [2, 5, 64])
def test_means_stay_within_their_reach(kind, count):
    # 40,000 means at a chance of at most 5 %: 2218 misses have p < 1e-6. Chernoff's bound is at
    # most twice what a normal law of the same variance would reach.
    draw = {"Laplace": discrete_laplace, "Gaussian": discrete_gaussian}[kind]
    law = NoiseDistribution(kind, 3.0)
    means = draw(3, (40_000, count), source=InsecureSeededSource(count)).mean(axis=1)
    reach = law.mean_tail_bound(count, 0.05)
    assert (np.abs(means) > reach).sum() < 2218
    assert reach < 2 * 1.96 * math.sqrt(law.variance / count)


def test_the_mean_of_one_number_is_the_number():
    for law in LAWS:
        assert law.mean_tail_bound(1, 0.02) == law.tail_bound(0.02)
