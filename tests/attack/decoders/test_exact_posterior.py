"""Joint decoders find the posterior that looking at every profile gives."""

import numpy as np
import pytest

from sfumato.attack import BitChannel, joint_decoder
from sfumato.attack.decoders.gibbs_chains import Chain
from support.tiny_channels import ITEMS, PRIOR, TINY, posterior

# Steps and tolerance, which chains with other keys met by a factor of 2; vectors behind signs are
# resampled every few steps, which takes longer, and successive ones are correlated.
LENGTHS = {"signs": (60_000, 0.06)}
OTHERS = (150_000, 0.02)


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch):
    """Seven items need far fewer steps than a profile does before the signs are looked at anew."""
    monkeypatch.setattr("sfumato.attack.channels.gaussian._SignState.every", 5)


def chain_marginals(observed, prior, slots, steps=OTHERS[0], key=5):
    log_odds = np.log(prior) - np.log1p(-prior)
    chain = Chain(observed, 0, np.arange(ITEMS), log_odds, slots=slots, begin=np.arange(2), key=key)
    chain.walk(1000)
    out = np.empty(ITEMS)
    out[chain.order] = chain.walk(steps) / steps
    return out


@pytest.mark.parametrize("slots", [3, ITEMS])
@pytest.mark.parametrize("kind", TINY)
def test_chains_sample_the_posterior_of_profiles_that_fit_the_slots(kind, slots):
    steps, error = LENGTHS.get(kind, OTHERS)
    for seed in range(2):
        observed, fit = TINY[kind](seed)
        exact = posterior(fit, PRIOR, slots)
        found = chain_marginals(observed, PRIOR, slots, steps)
        np.testing.assert_allclose(found, exact, atol=error)
        assert np.abs(exact - PRIOR).max() > 0.1, (
            "the release has too little information to test anything"
        )


def test_a_release_without_information_leaves_the_prior():
    # Without the weight of codings, sets of many items would come up too often.
    observed = TINY["bits"](0)[0]
    observed.flip = 0.5
    np.testing.assert_allclose(chain_marginals(observed, PRIOR, ITEMS), PRIOR, atol=0.02)
    exact = posterior(lambda profile: 0.0, PRIOR, 2)
    np.testing.assert_allclose(chain_marginals(observed, PRIOR, 2), exact, atol=0.02)


@pytest.mark.parametrize("kind", TINY)
def test_the_sampling_decoder_gives_the_posterior_of_profiles_up_to_the_bound(kind):
    observed, fit = TINY[kind](3)
    most = int(min(np.ceil(observed.sizes.upper[0]), ITEMS))
    steps, error = LENGTHS.get(kind, OTHERS)
    found = joint_decoder(observed, None, PRIOR, method="gibbs", samples=steps)
    np.testing.assert_allclose(found[0], posterior(fit, PRIOR, most), atol=error)


def test_propagation_is_exact_for_minima():
    for seed in range(5):
        observed, fit = TINY["symbols"](seed)
        np.testing.assert_allclose(joint_decoder(observed, None, PRIOR)[0], posterior(fit, PRIOR))


def test_propagation_is_exact_for_bits_that_items_share_without_cycles():
    # Items 0-1, 1-2 and 3-4-5 share a bit; item 6 has its own.
    positions = np.array([[0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [5, 7], [8, 9]])
    row = np.array([1, 1, 1, 0, 0, 1, 0, 1, 1, 1], bool)

    def fit(profile):
        filled = np.zeros(10, bool)
        filled[positions[list(profile)].ravel()] = True
        return np.where(filled == row, np.log(0.8), np.log(0.2)).sum()

    found = joint_decoder(BitChannel(row[None], positions, 0.2), None, PRIOR)
    np.testing.assert_allclose(found[0], posterior(fit, PRIOR), atol=2e-3)


@pytest.mark.parametrize("kind", ["bits", "vectors", "signs"])
def test_propagation_comes_near_the_posterior_even_in_tiny_dense_codes(kind):
    # Messages are meant for long codes: here seven items share 20 bits, or 12 components.
    errors = []
    for seed in range(10):
        observed, fit = TINY[kind](seed)
        errors.append(
            np.abs(joint_decoder(observed, None, PRIOR)[0] - posterior(fit, PRIOR)).mean()
        )
    assert np.mean(errors) < {"bits": 0.03, "vectors": 0.08, "signs": 0.08}[kind]
