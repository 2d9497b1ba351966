"""Nats in noised signs and minima: against integrals and tables that are written out in full."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from sfumato.attack import bounds


def entropy(distribution):
    distribution = np.asarray(distribution)
    return float(-(distribution[distribution > 0] * np.log(distribution[distribution > 0])).sum())


@pytest.mark.parametrize(("bits", "size", "sigma"), [(1, 1, 1.0), (50, 7, 0.3), (1000, 106, 3.0)])
def test_signs_agree_with_the_integrals(bits, size, sigma):
    steps = np.linspace(-9, 9, 721)
    bell = norm.pdf(steps) * (steps[1] - steps[0])
    deviation_of_others = math.sqrt((size - 1) / bits)

    def positive(x):
        """The probability of a sign given the item's number, over other items and noise."""
        return norm.cdf((x[:, None] + deviation_of_others * steps) / sigma) @ bell

    def result(probability, deviation):
        probabilities = probability(deviation * steps)
        doubt = [entropy([p, 1 - p]) for p in probabilities]
        return bits * (math.log(2) - doubt @ bell)

    single = result(positive, math.sqrt(1 / bits))
    joint = result(lambda x: norm.cdf(x / sigma), math.sqrt(size / bits))
    assert bounds.signs_single(bits, size, sigma) == pytest.approx(single, rel=1e-9)
    assert bounds.signs_joint(bits, size, sigma) == pytest.approx(joint, rel=1e-9)


def test_weak_signals_retain_two_over_pi_in_the_sign():
    for size in (1, 100):
        for signs, projections in (
            (bounds.signs_single, bounds.jlt_single),
            (bounds.signs_joint, bounds.jlt_joint),
        ):
            ratio = float(signs(1000, size, 10) / projections(1000, size, 10))
            assert ratio == pytest.approx(2 / math.pi, rel=0.01)


def test_signs_have_at_most_the_information_of_the_projection_and_of_their_bits():
    size, sigma = np.meshgrid([1, 10, 1000, 10**5], [0.0, 0.1, 1.0, 30.0])
    single, joint = bounds.signs_single(200, size, sigma), bounds.signs_joint(200, size, sigma)
    assert (single <= joint / size + 1e-9).all()
    assert (joint <= 200 * math.log(2) + 1e-9).all()
    assert (single <= bounds.jlt_single(200, size, sigma) + 1e-9).all()
    assert (joint <= bounds.jlt_joint(200, size, sigma) + 1e-9).all()
    assert joint[0] == pytest.approx(np.full(4, 200 * math.log(2)))  # no noise: every sign is true
    assert bounds.signs_joint(200, 0, 1.0) == 0


def answers(symbols, probability):
    """The channel of the noise: each false symbol with this probability."""
    table = np.full((symbols, symbols), probability)
    np.fill_diagonal(table, 1 - (symbols - 1) * probability)
    return table


@pytest.mark.parametrize(
    ("bins", "code_bits", "size"), [(1, 1, 1), (3, 1, 2), (8, 2, 5), (20, 3, 40)]
)
@pytest.mark.parametrize("noise", [0.0, 0.3, 0.9])
def test_minima_agree_with_the_tables(bins, code_bits, size, noise):
    codes = 2**code_bits
    probability = noise / (codes + 1)
    channel = answers(codes + 1, probability)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    ranks, weights = (nodes + 1) / 2, weights / 2
    others = np.arange(size)
    there = binom.pmf(others, size - 1, 1 / bins)  # how many others are in the same bin
    # Whether the item is in this bin, and then its rank; its code is 0, without loss of generality.
    distributions, probabilities = [], []
    for rank, weight in zip(ranks, weights, strict=True):
        least = float(there @ (1 - rank) ** others)
        true = np.full(codes + 1, (1 - least) / codes)
        true[0] += least
        true[-1] = 0
        distributions.append(true @ channel)
        probabilities.append(weight / bins)
    absent = np.append(np.full(codes, (1 - there[0]) / codes), there[0])
    distributions.append(absent @ channel)
    probabilities.append(1 - 1 / bins)
    distributions, probabilities = np.array(distributions), np.array(probabilities)
    mean = probabilities @ distributions
    mean[:codes] = mean[:codes].mean()  # over all codes that the item may have
    doubt = sum(
        p * entropy(distribution)
        for p, distribution in zip(probabilities, distributions, strict=True)
    )
    single = bins * (entropy(mean) - doubt)
    joint = bins * (entropy(mean) - entropy(channel[0]))
    assert bounds.minima_single(bins, code_bits, probability, size) == pytest.approx(
        single, rel=1e-5, abs=1e-9
    )
    assert bounds.minima_joint(bins, code_bits, probability, size) == pytest.approx(joint, abs=1e-9)


def test_single_information_of_minima_is_at_most_joint_information_per_item():
    bins, size = np.meshgrid([1, 16, 1024], [1, 5, 100, 5000])
    for code_bits in (0, 1, 4, 8):
        for noise in (0.0, 0.5, 0.999, 1.0):
            probability = noise / (2**code_bits + 1)
            single = bounds.minima_single(bins, code_bits, probability, size)
            joint = bounds.minima_joint(bins, code_bits, probability, size)
            assert (single <= joint / size + 1e-9).all()
            assert (joint <= bins * math.log(2**code_bits + 1)).all()
            if noise == 1:
                np.testing.assert_allclose(joint, 0, atol=1e-9)
    assert bounds.minima_joint(16, 2, 0.1, 0) == pytest.approx(0, abs=1e-12)


def test_impossible_answers_are_refused():
    with pytest.raises(ValueError, match="minima_joint: chance must be at most"):
        bounds.minima_joint(10, 1, 0.5, 3)
    with pytest.raises(ValueError, match="signs_single: size must be numbers from 1 up"):
        bounds.signs_single(10, 0, 1)
