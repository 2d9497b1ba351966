"""Nats in flipped Bloom filters: every formula against enumeration, and the slips of the thesis."""

import itertools
import math

import numpy as np
import pytest

from sfumato.attack import bounds
from support.benchmarks import benchmark

thesis = benchmark("thesis_ch3")


def information(joint):
    """Mutual information of a table of joint probabilities, from its definition."""
    joint = np.asarray(joint, float)
    alone = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    support = joint > 0
    return float((joint[support] * np.log(joint[support] / alone[support])).sum())


def one_bit(p, flip, size):
    """Joint probabilities of codeword bits of `size` items (rows) and a released bit (columns)."""
    table = np.zeros((2**size, 2))
    for row, word in enumerate(itertools.product((0, 1), repeat=size)):
        probability = math.prod(p if bit else 1 - p for bit in word)
        table[row] = [probability * flip, probability * (1 - flip)] if any(word) else [
            probability * (1 - flip), probability * flip,
        ]  # fmt: skip
    return table


CASES = [(3, 1, 0.2, 1), (5, 2, 0.1, 2), (20, 4, 0.3, 5), (9, 7, 0.45, 3), (7, 3, 0.0, 4)]


@pytest.mark.parametrize(("bits", "hashes", "flip", "size"), CASES)
def test_single_and_joint_nats_are_those_of_the_enumerated_channel(bits, hashes, flip, size):
    p = float(bounds.occupancy(bits, hashes, 1))
    table = one_bit(p, flip, size)
    first = table.reshape(2, -1, 2).sum(axis=1)  # the first item's bit alone
    assert bounds.blip_single(bits, hashes, flip, size) == pytest.approx(bits * information(first))
    assert bounds.blip_joint(bits, hashes, flip, size) == pytest.approx(bits * information(table))


def bloom_distribution(bits, hashes, flip, size):
    """Exact joint distribution of the first item's codeword and a released filter, enumerated."""
    words = {}
    for positions in itertools.product(range(bits), repeat=hashes):
        word = sum(1 << position for position in set(positions))
        words[word] = words.get(word, 0) + bits**-hashes
    noise = [
        flip ** bin(n).count("1") * (1 - flip) ** (bits - bin(n).count("1")) for n in range(2**bits)
    ]
    filters = {word: {word: 1.0} for word in words}
    for _ in range(size - 1):
        filters = {
            first: _with_one_more(distribution, words) for first, distribution in filters.items()
        }
    table = np.zeros((2**bits, 2**bits))
    clean = np.zeros(2**bits)
    for first, distribution in filters.items():
        for state, probability in distribution.items():
            clean[state] += words[first] * probability
            for observed in range(2**bits):
                table[first, observed] += words[first] * probability * noise[state ^ observed]
    return table, clean, noise


def _with_one_more(distribution, words):
    after = {}
    for state, probability in distribution.items():
        for word, likely in words.items():
            after[state | word] = after.get(state | word, 0) + probability * likely
    return after


@pytest.mark.parametrize(("bits", "hashes", "size"), [(4, 1, 2), (5, 2, 3), (6, 2, 2), (6, 3, 4)])
@pytest.mark.parametrize("flip", [0.05, 0.2, 0.4])
def test_joint_nats_bound_those_of_a_true_bloom_filter(bits, hashes, size, flip):
    table, clean, noise = bloom_distribution(bits, hashes, flip, size)
    channel = np.array(
        [[noise[state ^ observed] for observed in range(2**bits)] for state in range(2**bits)]
    )
    truth = information(clean[:, None] * channel)
    bound = float(bounds.blip_joint(bits, hashes, flip, size))
    assert truth <= bound
    assert bound <= 1.6 * truth + 0.02  # and is not far: independence costs little
    # The single formula models codewords, so it is near and no bound.
    assert float(bounds.blip_single(bits, hashes, flip, size)) == pytest.approx(
        information(table), rel=0.6, abs=0.02
    )


@pytest.mark.parametrize("flip", [0.2, 0.4013, 0.49])
@pytest.mark.parametrize("rate", [30.0, 106.0, 400.0])
def test_mixed_sizes_give_the_divergence_of_poisson_profiles(flip, rate):
    # All other items come and go by themselves: their number is Poisson with and without the item.
    bits, hashes = 5000, 20
    p = float(bounds.occupancy(bits, hashes, 1))
    sizes = np.arange(3000)
    log = sizes * math.log(rate) - rate - np.cumsum(np.log(np.maximum(sizes, 1)))
    fraction = float(np.exp(log) @ bounds.occupancy(bits, hashes, sizes))
    without = flip + (1 - 2 * flip) * fraction
    distributions = {
        True: p * np.array([flip, 1 - flip]),
        False: (1 - p) * np.array([1 - without, without]),
    }
    base = {True: p * np.array([1 - without, without]), False: distributions[False]}
    truth = bits * sum(
        float(distributions[x] @ np.log(distributions[x] / base[x])) for x in distributions
    )
    assert bounds.blip_single_mixed(bits, hashes, flip, fraction) == pytest.approx(truth)


def test_the_printed_form_for_mixed_sizes_is_right_only_for_half_full_filters():
    def printed(bits, hashes, flip, fraction):
        mixed = flip + (1 - 2 * flip) * fraction
        ones = bits * bounds.occupancy(bits, hashes, 1)
        return float(ones * (bounds.binary_entropy(mixed) - bounds.binary_entropy(flip)))

    def ratio(fraction):
        return printed(5000, 20, 0.4, fraction) / float(
            bounds.blip_single_mixed(5000, 20, 0.4, fraction)
        )

    assert ratio(0.5) == pytest.approx(1)
    assert ratio(float(bounds.occupancy(5000, 20, 106))) < 0.55
    assert ratio(0.8) > 2
    # The exact formula for one size agrees with the corrected one, within a percent.
    exact = bounds.blip_single(5000, 20, 0.4, 106)
    fraction = bounds.occupancy(5000, 20, 106)
    assert bounds.blip_single_mixed(5000, 20, 0.4, fraction) == pytest.approx(
        float(exact), rel=0.01
    )


def test_single_information_is_at_most_joint_information_per_item():
    bits, hashes, size = np.meshgrid([50, 500, 5000], [1, 5, 20], [1, 2, 10, 100, 1000])
    for epsilon in (0.1, 1, 8, 60):
        flip = bounds.flip_chance(epsilon, hashes)
        single = bounds.blip_single(bits, hashes, flip, size)
        joint = bounds.blip_joint(bits, hashes, flip, size) / size
        assert (single <= joint * (1 + 1e-9) + 1e-9).all()
        assert (joint <= bits * bounds.flip_bound(epsilon, hashes) / size + 1e-9).all()
        np.testing.assert_allclose(single[:, :, 0], joint[:, :, 0], rtol=1e-7, atol=1e-9)


def test_the_bounds_of_a_bit_are_in_order():
    x = np.geomspace(1e-3, 50, 300)
    flip = 1 / (1 + np.exp(x))
    result = bounds.flip_bound(x, 1)
    middle = math.log(2) - np.log1p(np.exp(x)) + x * np.exp(x) / (1 + np.exp(x))
    np.testing.assert_allclose(result, middle, atol=1e-14)  # printed as <=, an equality
    np.testing.assert_allclose(result, math.log(2) - bounds.binary_entropy(flip), atol=1e-14)
    assert (result <= np.minimum(x**2 / 8, math.log(2)) + 1e-15).all()
    assert (result <= x / (1 + np.exp(-x))).all()
    assert (result[x < 0.1] > 0.99 * x[x < 0.1] ** 2 / 8).all()


@pytest.mark.parametrize("epsilon", [2.0, 20.0])
@pytest.mark.parametrize("hashes", [4, 10])
def test_designed_filters_have_the_same_information_at_every_size(epsilon, hashes):
    rate = 2.0**-hashes  # for which (3.20) gives an integer number of hashes
    joint, single = (
        float(each(epsilon, rate))
        for each in (bounds.blip_joint_designed, bounds.blip_single_designed)
    )
    flip = bounds.flip_chance(epsilon, hashes)
    for size in (1000, 10_000):
        bits = math.ceil(-size * math.log(rate) / math.log(2) ** 2)
        assert bounds.recommended_hashes(bits - 1, size) == hashes
        assert bounds.blip_joint(bits, hashes, flip, size) / size == pytest.approx(joint, rel=1e-3)
        assert bounds.blip_single(bits, hashes, flip, size) == pytest.approx(single, rel=5e-3)


def test_figure_3_1_peaks_at_one_and_a_half_nats_not_at_one_and_a_quarter():
    result = thesis.figure_3_1()
    assert result.joint.shape == result.difference.shape == (result.sizes.size, result.bits.size)
    assert result.difference.min() > -1e-9
    assert 1.49 < result.difference.max() < 1.5045
    assert 4.4 < math.exp(result.difference.max()) < 4.51
    row, column = np.unravel_index(result.difference.argmax(), result.difference.shape)
    assert result.bits[column] / result.sizes[row] == pytest.approx(8 / math.log(2), rel=0.01)
    # One cell by the printed formulas, word for word.
    c, bits = 100, 1100
    k = math.ceil(math.log(2) * bits / c)
    flip = 1 / (1 + math.exp(20 / k))

    def h(p):
        return -p * math.log(p) - (1 - p) * math.log(1 - p)

    def mixed(n):
        fraction = 1 - (1 - 1 / bits) ** (n * k)
        return (1 - flip) * fraction + flip * (1 - fraction)

    p = 1 - (1 - 1 / bits) ** k
    joint = bits * (h(mixed(c)) - h(flip)) / c
    single = bits * (h(mixed(c)) - (1 - p) * h(mixed(c - 1)) - p * h(flip))
    one = thesis.figure_3_1([c], [bits])
    assert one.joint[0, 0] == pytest.approx(joint)
    assert one.difference[0, 0] == pytest.approx(joint - single)


def test_information_is_0_at_epsilon_0_and_of_an_empty_profile():
    assert bounds.blip_single(5000, 20, 0.5, 106) == pytest.approx(0, abs=1e-9)
    assert bounds.blip_joint(5000, 20, 0.5, 106) == 0
    assert bounds.blip_joint(5000, 20, 0.1, 0) == 0
    assert bounds.occupancy(1, 3, [0, 1]).tolist() == [0, 1]


@pytest.mark.parametrize("bad", [-0.1, 0.6, math.nan, "much"])
def test_impossible_flips_are_refused(bad):
    for formula in (bounds.blip_single, bounds.blip_joint, bounds.blip_single_mixed):
        with pytest.raises(ValueError, match=f"{formula.__name__}: flip_probability must be num"):
            formula(100, 5, bad, 1)
