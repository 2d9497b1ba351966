"""The model of how full a filter is agrees with counting all filters there are."""

import itertools

import numpy as np
import pytest

from sfumato.profile import bloom_occupancy as occupancy


def all_throws(bits, throws):
    """Every way to throw into bits, all equally likely."""
    return itertools.product(range(bits), repeat=throws)


def share_by_counting(bits, throws):
    """How likely bit 0 is set, over every way to throw."""
    return float(np.mean([0 in thrown for thrown in all_throws(bits, throws)]))


@pytest.mark.parametrize(("bits", "hashes"), [(2, 1), (3, 2), (5, 3)])
def test_codeword_share_is_that_of_all_codewords(bits, hashes):
    assert occupancy.codeword_share(bits, hashes) == pytest.approx(share_by_counting(bits, hashes))


@pytest.mark.parametrize(("size", "bits", "hashes"), [(0, 4, 2), (1, 3, 2), (3, 3, 2), (2, 4, 3)])
def test_share_of_size_is_that_of_all_profiles(size, bits, hashes):
    counted = share_by_counting(bits, size * hashes)
    assert occupancy.share_of_size(size, bits, hashes) == pytest.approx(counted)


def test_sizes_and_shares_undo_each_other():
    sizes = np.array([0.0, 0.5, 7.0, 106.0, 900.0])
    shares = occupancy.share_of_size(sizes, 5000, 20)
    np.testing.assert_allclose(occupancy.size_of_share(shares, 5000, 20), sizes, rtol=1e-9)
    assert occupancy.size_of_share(1.0, 5000, 20) == np.inf
    assert occupancy.size_of_share(-0.1, 5000, 20) < 0  # noise may say so


@pytest.mark.parametrize("flip", [0.05, 0.3, 0.49])
def test_noisy_shares_are_those_of_bits_that_are_set_and_retained_or_not_and_flipped(flip):
    for share in (0.0, 0.25, 1.0):
        result = occupancy.noisy_share(share, flip)
        assert result == pytest.approx(share * (1 - flip) + (1 - share) * flip)
        assert occupancy.true_share(result, flip) == pytest.approx(share)
    assert np.isnan(occupancy.true_share(0.5, 0.5))


def test_where_sizes_vary_the_share_is_its_mean_over_their_distribution():
    # (3.8): every size, then every assignment of that many items.
    probabilities = np.array([0.2, 0.5, 0.0, 0.3])
    counted = [share_by_counting(3, 2 * size) for size in range(4)]
    result = probabilities @ occupancy.share_of_size(np.arange(4), 3, 2)
    assert result == pytest.approx(np.dot(probabilities, counted))


def test_shares_of_arrays_are_those_of_their_numbers():
    bits, hashes, sizes = np.meshgrid([1, 2, 5000], [1, 20], [0, 1, 300])
    result = occupancy.share_of_size(sizes, bits, hashes)
    for at in np.ndindex(result.shape):
        one = occupancy.share_of_size(int(sizes[at]), int(bits[at]), int(hashes[at]))
        assert result[at] == pytest.approx(one)
    assert occupancy.share_of_size([0, 1], 1, 3).tolist() == [0, 1]


def test_positions_that_coincide_are_listed_once_and_first():
    drawn = np.random.default_rng(3).integers(0, 9, (200, 6)).astype(np.uint32)
    positions, counts = occupancy.distinct(drawn)
    for row, result, count in zip(drawn, positions, counts, strict=True):
        assert result[:count].tolist() == sorted(set(row.tolist()))
    assert counts.min() < 6 == counts.max()


def test_bit_shares_are_those_of_all_profiles_weighed_by_their_probabilities():
    prior = np.array([0.1, 0.6, 1.0, 0.0, 0.3])
    positions = np.array([[0, 1], [1, 1], [4, 5], [2, 5], [0, 4]], np.uint32)
    counted = np.zeros(7)
    for inside in itertools.product([0, 1], repeat=5):
        probability = np.prod(np.where(inside, prior, 1 - prior))
        bits = {int(at) for item in np.flatnonzero(inside) for at in positions[item]}
        counted[list(bits)] += probability
    np.testing.assert_allclose(occupancy.bit_shares(prior, positions, 7), counted, atol=1e-12)


@pytest.mark.parametrize("prior", [[0.5], [0.5, 1.2], [0.5, -0.1], [0.5, np.nan], [[0.5, 0.5]]])
def test_a_prior_that_is_none_is_refused(prior):
    with pytest.raises(ValueError, match="prior must be a probability"):
        occupancy.bit_shares(prior, np.zeros((2, 3), np.uint32), 8)
