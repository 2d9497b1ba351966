"""Channels give decoders the likelihoods of their mechanisms, updated change by change."""

import numpy as np
import pytest
from scipy.special import log_ndtr

from sfumato.attack import BitChannel, SignChannel, SymbolChannel, VectorChannel, single_decoder
from sfumato.attack.channels.profile_size import Sizes
from sfumato.attack.decoders.gibbs_chains import Chain, padded
from support.tiny_channels import ITEMS, PRIOR, TINY


def test_the_single_decoder_of_bits_is_the_likelihood_ratio_of_each_bit_it_sets():
    draws = np.random.default_rng(1)
    rows, positions = draws.random((3, 40)) < 0.5, draws.integers(0, 40, (5, 6))
    positions[0] = [7, 7, 7, 8, 8, 9]  # bits that coincide count once
    found = single_decoder(BitChannel(rows, positions, 0.3), None)
    for u, row in enumerate(rows):
        for j, own in enumerate(positions):
            direct = 0.0
            for bit in set(own.tolist()):
                fraction = row.mean() if row[bit] else 1 - row.mean()
                direct += np.log((0.7 if row[bit] else 0.3) / fraction)
            assert found[u, j] == pytest.approx(direct)


def test_the_single_decoder_of_vectors_is_a_gaussian_likelihood_ratio():
    draws = np.random.default_rng(2)
    codes = draws.normal(size=(6, 50)) * 3
    rows = draws.normal(size=(2, 50)) * 5
    power = np.square(rows).mean(axis=1)
    away = np.square(rows[:, None] - codes).sum(axis=2)
    direct = (np.square(rows).sum(axis=1)[:, None] - away) / (2 * power[:, None])
    found = single_decoder(VectorChannel(rows, codes, 1.0), None)
    np.testing.assert_allclose(found, direct, rtol=1e-4, atol=1e-4)


def test_the_single_decoder_of_signs_is_a_probit_likelihood_ratio():
    draws = np.random.default_rng(3)
    codes = draws.normal(size=(6, 4000)) / 4000**0.5
    signs = draws.random((1, 4000)) < 0.5
    deviation = np.sqrt(0.5**2 + 9 * np.square(codes).sum(axis=1).mean() / 4000)
    direct = (log_ndtr(np.where(signs, 1, -1) * codes / deviation) - np.log(0.5)).sum(axis=1)
    found = single_decoder(SignChannel(signs, codes, 0.5, _sizes(10.0)), None)
    np.testing.assert_allclose(found[0], direct, rtol=0.005, atol=0.01)  # third-order terms


def test_the_single_decoder_of_symbols_sees_who_may_stand_before_an_item():
    # One bin, three items, each in a profile with 1/3: the last is visible only if both are absent.
    observed = SymbolChannel(
        [[2]], [0, 0, 0], [1, 2, 3], [0, 1, 2], 0.1, empty=3, sizes=_sizes(1.0)
    )
    true, false, absent = 0.7, 0.1, (2 / 3) ** 2
    direct = np.log((absent * true + (1 - absent) * false) / false)
    assert single_decoder(observed, None)[0, 2] == pytest.approx(direct)


def _sizes(size):
    return Sizes(np.array([size]), np.array([1.0]), np.array([size + 2]))


def test_a_prior_adds_its_log_odds_to_the_single_decoder():
    for kind in TINY:
        observed = TINY[kind](0)[0]
        alone = single_decoder(observed, None, sizes=3)
        both = single_decoder(observed, None, PRIOR, sizes=3)
        np.testing.assert_allclose(both[0] - alone[0], np.log(PRIOR / (1 - PRIOR)))


@pytest.mark.parametrize("kind", ["bits", "vectors", "symbols"])
def test_weights_after_many_steps_are_those_of_the_profile_computed_afresh(kind):
    observed = TINY[kind](4)[0]
    log_odds = np.log(PRIOR) - np.log1p(-PRIOR)
    chain = Chain(observed, 0, np.arange(ITEMS), log_odds, slots=4, begin=np.arange(3), key=1)
    for steps in (1, 7, 1000):
        chain.walk(steps)
        inside = chain._slots[chain._slots >= 0]
        fresh = observed.state(0, np.arange(ITEMS), chain.order[inside])
        for old, new in zip(_numbers(chain._state), _numbers(fresh), strict=True):
            np.testing.assert_allclose(old, new, atol=2e-4)
        if kind != "vectors":  # those are weighed at every step
            weight = padded(ITEMS)
            fresh.weigh(chain._live, weight)
            np.testing.assert_allclose(chain._weight, weight)


def _numbers(state):
    arrays = [state._gains] if hasattr(state, "_gains") else state._arrays
    return [array for array in arrays if isinstance(array, np.ndarray)]


@pytest.mark.parametrize("kind", TINY)
def test_gains_are_differences_of_log_likelihoods(kind):
    # A climb of no sweeps scores each candidate against the profile as it stands: none.
    if kind == "signs":
        pytest.skip("signs climb under the vector that is expected behind them")
    observed, fit = TINY[kind](5)
    state = observed.state(0, np.arange(ITEMS), np.zeros(0, np.int64))
    live, out = padded(ITEMS), np.empty(ITEMS)
    live[:ITEMS] = 1
    state.weigh(live, padded(ITEMS))
    state.climb(np.zeros(ITEMS), live, padded(ITEMS), 0, out)
    gains = np.empty(ITEMS)
    gains[state.order] = out
    direct = [fit([j]) - fit([]) for j in range(ITEMS)]
    np.testing.assert_allclose(gains, direct, atol=1e-4)


def test_sizes_are_read_off_bits_norms_and_empty_bins():
    # The largest of 200 estimates' errors, in standard errors, is above 5 with p < 2e-4 each.
    draws = np.random.default_rng(6)
    positions, codes = draws.integers(0, 2000, (300, 8)), draws.normal(size=(300, 400)) / 20
    has = draws.random((200, 300)) < 0.2
    filled = np.zeros((200, 2000), bool)
    users, items = np.nonzero(has)
    filled[users[:, None], positions[items]] = True
    bits = BitChannel(filled ^ (draws.random(filled.shape) < 0.1), positions, 0.1)
    vectors = VectorChannel(has @ codes + 0.1 * draws.normal(size=(200, 400)), codes, 0.1)
    for observed in (bits, vectors):
        errors = (observed.sizes.estimates - has.sum(axis=1)) / observed.sizes.std_errors
        assert np.abs(errors).max() < 5
        assert (observed.sizes.upper > observed.sizes.estimates).all()
