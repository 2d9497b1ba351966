"""Distributions of discrete noise: moments and tails are those of the summed masses."""

import math

import numpy as np
import pytest

from sfumato.privacy.noise.discrete import discrete_gaussian, discrete_laplace
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.random_source import InsecureSeededSource

NOISES = [
    NoiseDistribution(kind, scale)
    for kind in ("Laplace", "Gaussian")
    for scale in (0.3, 1.0, 4.5, 40.0)
]


def masses(noise):
    sizes = np.arange(int(60 * noise.scale) + 60, dtype=np.float64)
    power = sizes if noise.kind == "Laplace" else sizes**2 / (2 * noise.scale)
    mass = np.exp(-power / noise.scale)
    mass[1:] *= 2
    return sizes, mass / mass.sum()


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_moments_are_those_of_the_masses(noise):
    sizes, mass = masses(noise)
    assert noise.variance == pytest.approx((sizes**2 * mass).sum(), rel=1e-9)
    assert noise.fourth == pytest.approx((sizes**4 * mass).sum(), rel=1e-9)


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("miss", [0.9, 0.3, 0.01, 1e-7])
def test_the_tail_bound_is_the_least_number_that_is_exceeded_so_rarely(noise, miss):
    _, mass = masses(noise)
    bound = int(noise.tail_bound(miss))
    assert mass[bound + 1 :].sum() <= miss * (1 + 1e-9)
    assert bound == 0 or mass[bound:].sum() > miss


def test_wide_gaussians_reach_as_far_as_the_continuous_one():
    # 2.5758 deviations are passed by 1 % of a normal distribution.
    assert NoiseDistribution("Gaussian", 1000.0).tail_bound(0.01) == pytest.approx(2575.8, abs=1)
    assert NoiseDistribution("Gaussian", 1e9).tail_bound(0.01) == pytest.approx(2.5758e9, rel=1e-4)
    assert NoiseDistribution("Gaussian", 1e9).variance == 1e18


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian"])
@pytest.mark.parametrize("count", [2, 5, 64])
def test_means_stay_within_their_tail_bound(kind, count):
    # 40,000 means, each beyond with p <= 5 %: 2218 misses have p < 1e-6. Chernoff's bound is at
    # most twice what a normal number of the same variance would have.
    draw = {"Laplace": discrete_laplace, "Gaussian": discrete_gaussian}[kind]
    noise = NoiseDistribution(kind, 3.0)
    means = draw(3, (40_000, count), source=InsecureSeededSource(count)).mean(axis=1)
    bound = noise.mean_tail_bound(count, 0.05)
    assert (np.abs(means) > bound).sum() < 2218
    assert bound < 2 * 1.96 * math.sqrt(noise.variance / count)


def test_the_mean_of_one_number_is_the_number():
    for noise in NOISES:
        assert noise.mean_tail_bound(1, 0.02) == noise.tail_bound(0.02)
