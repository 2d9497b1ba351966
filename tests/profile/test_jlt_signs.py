"""Jlt and Signs keep their promise: one item moves the sums by a known length, and noise covers it.

What is proved is checked in integers or against the calibration; one audit measures it as well.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sfumato.privacy.accounting.calibration import epsilon_of, gaussian_delta
from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Jlt, Signs
from sfumato.profile.gaussian_projection import SCALE, ProjectionNoise, sums
from sfumato.profile.item_sets import ProfileSets
from sfumato.profile.signs import WEIGHT
from support.hard_rows import released_to_all
from support.profile_pairs import continuous_delta, interactions, near

INTERACTIONS = interactions([1, 2, 3], [2, 3], [9])
BOTH = pytest.mark.parametrize("make", [Jlt, Signs])
MOVED = {Jlt: SCALE**2, Signs: SCALE**2 + WEIGHT**2}
TERMS = [{}, {"relation": "replace"}, {"unit": "user", "contributions": 3}]
THESIS = {1: 4.886, 2: 2.254, 3: 1.446, 6: 0.684, 8: 0.502, 12: 0.326, 24: 0.1556, 61: 0.0573}


def encoded(*profiles, length=100):
    sets = ProfileSets(0).update(interactions(*profiles)).of_users(np.arange(len(profiles)))
    (_, cells), *_ = sums(sets.hashes, sets.starts, length)
    return cells


def test_one_item_more_moves_the_sum_by_at_most_the_scale():
    random = np.random.default_rng(1)
    for items in random.integers(1, 10**6, (50, 30)):
        before, after = encoded(items[:-1], items)
        assert 0 < int(((after - before) ** 2).sum()) <= SCALE**2
        exchanged = encoded(np.append(items[:-1], 0))[0]
        assert int(((exchanged - after) ** 2).sum()) <= (2 * SCALE) ** 2


def test_repeated_items_and_their_order_change_nothing():
    one, two, three = (
        released_to_all(Jlt(epsilon=5), interactions(items), source=InsecureSeededSource(1)).vectors
        for items in ([4, 5, 6], [6, 5, 4], [4, 4, 5, 6, 4])
    )
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


@BOTH
@pytest.mark.parametrize("terms", TERMS)
def test_the_noise_covers_the_epsilon_that_is_stated(make, terms):
    for epsilon, delta in ((0.5, 1e-6), (8, 1e-5), (60, 1e-9)):
        release = released_to_all(make(epsilon=epsilon, delta=delta), INTERACTIONS, **terms)
        events = {"replace": 2}.get(terms.get("relation"), 1) * terms.get("contributions", 1)
        moved = MOVED[make] * events**2
        # Not less noise than the proof needs, and less than 0.3 % more.
        assert continuous_delta(epsilon, moved, release.grid_sigma) <= delta
        assert continuous_delta(epsilon, moved, release.grid_sigma * 0.997) > delta
        released = release.statement
        assert released.epsilon <= epsilon * (1 + 1e-9)
        assert released.epsilon >= 0.998 * epsilon
        assert (released.delta, released.proof) == (delta, "proved")
        assert epsilon_of(Loss.from_dict(released.loss), delta) == pytest.approx(released.epsilon)


def test_items_that_move_little_noise_together_cost_the_square_of_their_number():
    # Too little noise for the exact loss; the divergence of two discrete Gaussians is at least rho.
    loss = ProjectionNoise(Fraction(1), norm_squared=4).loss(3, "add/remove")
    at = np.arange(-20, 30)
    mass, moved = (np.exp(-((at - far) ** 2) / 2) for far in (0, 6))  # three items of norm 2
    divergence = float((mass / mass.sum() * np.log(mass / moved)).sum())
    assert divergence <= loss.rho * (1 + 1e-9)
    assert loss.rho == pytest.approx(divergence)


def test_in_one_dimension_the_exact_law_keeps_the_promise():
    for epsilon in (0.7, 3.0):
        release = released_to_all(Jlt(dimensions=1, epsilon=epsilon, delta=1e-5), INTERACTIONS)
        most = int(np.abs(release.codewords(np.arange(50))).max())
        assert most <= SCALE
        assert gaussian_delta(epsilon, Fraction(release.grid_sigma), change=most) <= 1e-5


@BOTH
def test_an_epsilon_measured_on_neighbours_is_not_above_the_stated_one(make):
    # 20,000 users of one profile are as many draws. The event "far along the new codeword" has
    # P <= e**epsilon P' + delta; both are counted, each within 5 standard errors, p < 1e-6.
    count, items = 20_000, np.arange(5)
    length = {"dimensions" if make is Jlt else "bits": 50}
    mechanism = make(epsilon=2.0, delta=1e-3, **length)
    scores = []
    for seed, profile in enumerate((items[:-1], items)):
        release = released_to_all(
            mechanism,
            interactions(*np.tile(profile, (count, 1))),
            source=InsecureSeededSource(seed),
        )
        score = release.memberships([4])[:, 0]
        scores.append(score + (release.estimate_size() if make is Signs else 0))
    for cut in np.quantile(scores[1], [0.5, 0.9, 0.97]):
        without, with_it = ((each > cut).mean() for each in scores)
        error = 5 * math.sqrt(with_it / count)
        assert with_it - error <= math.exp(2.0) * (without + 5 * math.sqrt(without / count)) + 1e-3
    assert np.mean(scores[1]) > np.mean(scores[0])


@pytest.mark.parametrize(("level", "epsilon"), THESIS.items())
def test_the_noise_levels_of_the_thesis_are_stated_as_epsilon(level, epsilon):
    release = released_to_all(Jlt(sigma=level), INTERACTIONS)
    assert release.sigma == release.parameters["sigma"] == level
    assert release.grid_sigma == level * SCALE
    assert release.statement.epsilon == pytest.approx(epsilon, rel=5e-3)
    assert f"sigma {level} codewords" in release.statement.mechanism


def test_one_item_at_epsilon_one_takes_the_noise_of_the_exact_norm():
    def delta(sigma):  # Balle and Wang 2018, Theorem 8, of one number that moves by 1
        half, along = 1 / (2 * mpmath.mpf(sigma)), mpmath.mpf(sigma)
        return mpmath.ncdf(half - along) - mpmath.e * mpmath.ncdf(-half - along)

    with mpmath.workdps(50):
        exact = mpmath.findroot(
            lambda s: delta(s) - mpmath.mpf("1e-6"), (4, 4.6), solver="anderson"
        )
        assert mpmath.nstr(exact, 8) == "4.2246789"  # where concentrated privacy needs 4.53
        assert delta("4.22") > mpmath.mpf("1.02e-6") > mpmath.mpf("1e-6") > delta("4.225")
    release = released_to_all(Jlt(epsilon=1, delta=1e-6), INTERACTIONS)
    assert exact < release.sigma < 1.0006 * exact


@BOTH
def test_noise_of_a_few_integers_is_stated_by_concentrated_privacy(make):
    # Below a variance of three times SMOOTH discrete noise is not close enough to continuous.
    few = released_to_all(make(sigma=9 / SCALE), INTERACTIONS).statement.loss
    more = released_to_all(make(sigma=10 / SCALE), INTERACTIONS).statement.loss
    assert (few["kind"], more["kind"]) == ("Concentrated", "GaussianNoise")


@BOTH
def test_a_sigma_that_is_no_whole_number_is_rounded_to_more_noise(make):
    for sigma in (0.1, 1 / 3, 1e-9):
        release = released_to_all(make(sigma=sigma), INTERACTIONS)
        assert release.grid_sigma == math.ceil(Fraction(sigma) * SCALE)
        assert release.sigma == release.grid_sigma / SCALE


@BOTH
def test_the_statement_tells_the_loss_of_one_item_and_of_a_whole_profile(make):
    release = released_to_all(make(epsilon=8, typical_size=106), INTERACTIONS)
    whole = release.profile_epsilon(106)
    assert whole > 106**2 * MOVED[make] / (2 * release.grid_sigma**2) > 1000
    assert continuous_delta(whole, 106**2 * MOVED[make], release.grid_sigma) <= 1e-6
    assert continuous_delta(0.999 * whole, 106**2 * MOVED[make], release.grid_sigma) > 1e-6
    released = release.statement.mechanism
    shown = float(released.split("106 items only at epsilon ")[1].split(",")[0])
    assert whole <= shown <= whole * 1.0001
    assert "at delta 1e-06 one item is hidden at epsilon" in released
    assert release.profile_epsilon(1) == pytest.approx(release.statement.epsilon)
    assert release.profile_epsilon(2**31) < math.inf
    with pytest.raises(ValueError, match="items must be an integer from 1"):
        release.profile_epsilon(0)


@BOTH
def test_users_of_many_items_are_trimmed_and_hidden_whole(make):
    release = released_to_all(
        make(epsilon=1, delta=1e-6), INTERACTIONS, unit="user", contributions=2
    )
    assert release.sigma > 1.9 * released_to_all(make(epsilon=1), INTERACTIONS).sigma
    assert release.profile_epsilon(50) == pytest.approx(release.statement.epsilon)
    assert "the 2 items of its least hashes" in release.statement.mechanism


def test_noise_has_the_stated_sigma():
    # 200,000 numbers: mean within 5 standard errors, variance within 5, p < 1e-6.
    release = Jlt(dimensions=100, sigma=0.5).release(
        interactions([1]), users=np.arange(2000), source=InsecureSeededSource(1)
    )
    noise = release.vectors[2:].astype(np.float64).ravel() / release.grid_sigma
    assert abs(noise.mean()) < 5 / np.sqrt(noise.size)
    assert abs(noise.var() - 1) < 5 * np.sqrt(2 / noise.size)


def test_sizes_from_few_dimensions_are_unbiased():
    # With the thesis' factor L / (L - 1) the mean of 4,000 would be 13 instead of 10: 5 standard
    # errors are 0.6, p < 1e-6.
    profiles = np.arange(40_000).reshape(4000, 10)
    release = released_to_all(
        Jlt(dimensions=4, sigma=0.1), interactions(*profiles), source=InsecureSeededSource(2)
    )
    assert near(release.estimate_size(), 10)


def test_a_profile_of_very_many_items_is_encoded():
    release = released_to_all(Jlt(dimensions=8, sigma=1), interactions(np.arange(200_000)))
    words = release.codewords(np.arange(200_000)).astype(np.int64).sum(axis=0)
    assert np.abs(release.vectors[0] - words).max() < 7 * release.grid_sigma


def test_vectors_are_sums_of_codewords_and_noise():
    release = released_to_all(
        Jlt(dimensions=64, sigma=1e-9), INTERACTIONS, source=InsecureSeededSource(1)
    )
    words = release.codewords([1, 2, 3, 9]).astype(np.int64)
    expected = np.stack([words[:3].sum(axis=0), words[1:3].sum(axis=0), words[3]])
    assert np.abs(release.vectors - expected).max() <= 6  # sigma is 1 integer: p < 1e-6


def test_signs_are_those_of_the_same_sums():
    signs = released_to_all(
        Signs(bits=70, sigma=1e-9), INTERACTIONS, source=InsecureSeededSource(1)
    )
    sums_ = released_to_all(
        Jlt(dimensions=70, sigma=1e-9), INTERACTIONS, source=InsecureSeededSource(2)
    ).vectors
    bits = np.unpackbits(signs.codes.view(np.uint8), axis=1, bitorder="little")
    sure = np.abs(sums_) > 12
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(bits[:, :70][sure], (sums_ >= 0)[sure])
    assert not bits[:, 70:].any()
    assert np.abs(signs.counts - WEIGHT * np.array([3, 2, 1])).max() <= 6


def test_what_32_bits_cannot_hold_is_held_in_64_or_cut():
    wide = released_to_all(Jlt(dimensions=8, sigma=2.0**13), INTERACTIONS)
    assert (wide.vectors.dtype, released_to_all(Jlt(sigma=61), INTERACTIONS).vectors.dtype) == (
        np.int64,
        np.int32,
    )
    from sfumato.kernels.profile_codes import cut_to

    out = np.empty((1, 3), np.int32)
    cut_to(np.array([[2**40, -5, -(2**40)]]), -(2**31), 2**31 - 1, out)
    assert out.tolist() == [[2**31 - 1, -5, -(2**31)]]


@BOTH
def test_without_noise_nothing_is_released(make):
    for given in ({}, {"sigma": 0}, {"sigma": 0.0}, {"epsilon": None, "sigma": None}):
        with pytest.raises(ValueError, match="would not be private"):
            make(**given)
    with pytest.raises(ValueError, match="epsilon or sigma must be given, not both"):
        make(epsilon=1, sigma=1)
    with pytest.raises(ValueError, match="delta must be a number between 0 and 1"):
        make(epsilon=1, delta=0)
    for bad in (0, -1, math.nan, math.inf, "much", True):
        with pytest.raises(ValueError, match="epsilon must be"):
            make(epsilon=bad)
    for bad in (-1, math.nan, math.inf, "much", False):
        with pytest.raises(ValueError, match="sigma must be"):
            make(sigma=bad)
    with pytest.raises(ValueError, match="noise would be too large"):
        released_to_all(make(sigma=2.0**30), INTERACTIONS)
