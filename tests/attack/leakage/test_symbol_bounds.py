"""Nats in noised signs and minima: against integrals and tables that are written out in full."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from sfumato.attack import bounds


def entropy(law):
    law = np.asarray(law)
    return float(-(law[law > 0] * np.log(law[law > 0])).sum())


@pytest.mark.parametrize(("bits", "size", "sigma"), [(1, 1, 1.0), (50, 7, 0.3), (1000, 106, 3.0)])
def test_signs_tell_what_the_integrals_say(bits, size, sigma):
    steps = np.linspace(-9, 9, 721)
    bell = norm.pdf(steps) * (steps[1] - steps[0])
    spread = math.sqrt((size - 1) / bits)

    def positive(x):
        """The chance of a sign given the item's number, over other items and noise."""
        return norm.cdf((x[:, None] + spread * steps) / sigma) @ bell

    def result(chance, deviation):
        chances = chance(deviation * steps)
        doubt = [entropy([p, 1 - p]) for p in chances]
        return bits * (math.log(2) - doubt @ bell)

    single = result(positive, math.sqrt(1 / bits))
    joint = result(lambda x: norm.cdf(x / sigma), math.sqrt(size / bits))
    assert bounds.signs_single(bits, size, sigma) == pytest.approx(single, rel=1e-9)
    assert bounds.signs_joint(bits, size, sigma) == pytest.approx(joint, rel=1e-9)


def test_weak_signals_lose_a_share_of_two_over_pi_to_the_sign():
    for size in (1, 100):
        for signs, projections in (
            (bounds.signs_single, bounds.jlt_single),
            (bounds.signs_joint, bounds.jlt_joint),
        ):
            ratio = float(signs(1000, size, 10) / projections(1000, size, 10))
            assert ratio == pytest.approx(2 / math.pi, rel=0.01)


def test_signs_never_tell_more_than_the_projection_or_than_their_bits():
    size, sigma = np.meshgrid([1, 10, 1000, 10**5], [0.0, 0.1, 1.0, 30.0])
    single, joint = bounds.signs_single(200, size, sigma), bounds.signs_joint(200, size, sigma)
    assert (single <= joint / size + 1e-9).all()
    assert (joint <= 200 * math.log(2) + 1e-9).all()
    assert (single <= bounds.jlt_single(200, size, sigma) + 1e-9).all()
    assert (joint <= bounds.jlt_joint(200, size, sigma) + 1e-9).all()
    assert joint[0] == pytest.approx(np.full(4, 200 * math.log(2)))  # no noise: every sign is true
    assert bounds.signs_joint(200, 0, 1.0) == 0


def answers(symbols, chance):
    """The channel of the noise: each wrong symbol with this chance."""
    table = np.full((symbols, symbols), chance)
    np.fill_diagonal(table, 1 - (symbols - 1) * chance)
    return table


@pytest.mark.parametrize(
    ("bins", "code_bits", "size"), [(1, 1, 1), (3, 1, 2), (8, 2, 5), (20, 3, 40)]
)
@pytest.mark.parametrize("noise", [0.0, 0.3, 0.9])
def test_minima_tell_what_the_tables_say(bins, code_bits, size, noise):
    codes = 2**code_bits
    chance = noise / (codes + 1)
    channel = answers(codes + 1, chance)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    ranks, weights = (nodes + 1) / 2, weights / 2
    others = np.arange(size)
    there = binom.pmf(others, size - 1, 1 / bins)  # how many others share a bin
    # Whether the item is in this bin, and then its rank; its code is 0, as all codes are alike.
    laws, chances = [], []
    for rank, weight in zip(ranks, weights, strict=True):
        least = float(there @ (1 - rank) ** others)
        true = np.full(codes + 1, (1 - least) / codes)
        true[0] += least
        true[-1] = 0
        laws.append(true @ channel)
        chances.append(weight / bins)
    absent = np.append(np.full(codes, (1 - there[0]) / codes), there[0])
    laws.append(absent @ channel)
    chances.append(1 - 1 / bins)
    laws, chances = np.array(laws), np.array(chances)
    mean = chances @ laws
    mean[:codes] = mean[:codes].mean()  # over all codes that the item may have
    doubt = sum(p * entropy(law) for p, law in zip(chances, laws, strict=True))
    single = bins * (entropy(mean) - doubt)
    joint = bins * (entropy(mean) - entropy(channel[0]))
    assert bounds.minima_single(bins, code_bits, chance, size) == pytest.approx(
        single, rel=1e-5, abs=1e-9
    )
    assert bounds.minima_joint(bins, code_bits, chance, size) == pytest.approx(joint, abs=1e-9)


def test_one_item_of_minima_is_never_told_more_alone_than_with_the_others():
    bins, size = np.meshgrid([1, 16, 1024], [1, 5, 100, 5000])
    for code_bits in (0, 1, 4, 8):
        for noise in (0.0, 0.5, 0.999, 1.0):
            chance = noise / (2**code_bits + 1)
            single = bounds.minima_single(bins, code_bits, chance, size)
            joint = bounds.minima_joint(bins, code_bits, chance, size)
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
