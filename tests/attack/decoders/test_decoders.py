"""Decoders of released profiles: who beats whom, the same on any threads, clear errors."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.attack import (
    BitChannel,
    SymbolChannel,
    VectorChannel,
    chain_agreement,
    eigen_decoder,
    expected_sizes,
    joint_decoder,
    map_decoder,
    popularity,
    single_decoder,
    size_prior,
)
from sfumato.attack.channels.factory import channel
from sfumato.data import Interactions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Blip, Jlt, Minima, Signs
from support.hard_rows import released_to_all
from support.tiny_channels import ITEMS, PRIOR, TINY

N = 300


@pytest.fixture(scope="module")
def world():
    """Popularities, and profiles of 40 users drawn by them (about 30 items)."""
    draws = np.random.default_rng(11)
    prior = 0.01 + 0.5 * draws.random(N) ** 4
    return prior, draws.random((40, N)) < prior


def blip(has, flip, bits=900, hashes=10):
    """A channel of flipped Bloom filters, by arrays."""
    draws = np.random.default_rng(12)
    positions = draws.integers(0, bits, (N, hashes))
    filled = np.zeros((len(has), bits), bool)
    users, items = np.nonzero(has)
    filled[users[:, None], positions[items]] = True
    return BitChannel(filled ^ (draws.random(filled.shape) < flip), positions, flip)


def found(scores, has):
    """The mean fraction of each profile among as many items of highest score."""
    sizes, best = has.sum(axis=1), np.argsort(-scores, axis=1)
    first = np.arange(N) < sizes[:, None]
    return (np.take_along_axis(has, best, axis=1) & first).sum() / sizes.sum()


@pytest.mark.parametrize("method", ["propagation", "gibbs"])
def test_joint_decoding_beats_single_decoding_and_that_beats_popularity(world, method):
    # Margins observed over 20 seeds of the noise: at least 0.04 and 0.45.
    prior, has = world
    observed = blip(has, 0.2)
    joint = found(joint_decoder(observed, None, prior, method=method), has)
    single = found(single_decoder(observed, None, prior), has)
    assert joint > single + 0.03
    assert single > found(popularity(observed, None, prior), has) + 0.3


def test_messages_and_chains_agree(world):
    prior, has = world
    for flip in (0.1, 0.3):
        observed = blip(has, flip)
        chains = joint_decoder(observed, None, prior, method="gibbs", candidates_per_item=20)
        assert np.abs(joint_decoder(observed, None, prior) - chains).mean() < 0.02


def test_messages_and_chains_agree_for_vectors(world):
    prior, has = world
    draws = np.random.default_rng(1)
    codes = draws.normal(size=(N, 200)) / 200**0.5
    observed = VectorChannel(has @ codes + 0.3 * draws.normal(size=(40, 200)), codes, 0.3)
    more = dict(method="gibbs", candidates_per_item=20, samples=40_000)
    chains = joint_decoder(observed, None, prior, **more)
    # 0.0045 was measured, and 0.012 without the Onsager correction.
    assert np.abs(joint_decoder(observed, None, prior) - chains).mean() < 0.008


def test_a_release_without_information_leaves_the_order_of_the_prior(world):
    prior, has = world
    observed = blip(has, 0.5)
    order = np.argsort(-prior)
    for decoder in (popularity, single_decoder, joint_decoder, map_decoder):
        scores = decoder(observed, None, prior)
        assert (np.diff(scores[:, order], axis=1) <= 1e-9).all()
    sampled = joint_decoder(observed, None, prior, method="gibbs", candidates_per_item=20)
    assert np.abs(sampled - prior).mean() < 0.03


@pytest.mark.parametrize("method", ["propagation", "gibbs"])
def test_threads_do_not_change_the_answer_and_random_state_chooses_it(world, method):
    prior, has = world
    observed = blip(has, 0.3)
    one, two = (joint_decoder(observed, None, prior, method=method, threads=t) for t in (1, 3))
    np.testing.assert_array_equal(one, two)
    other = joint_decoder(observed, None, prior, method=method, random_state=1)
    assert (other != one).any() == (method == "gibbs")


@pytest.mark.parametrize("mechanism", [Blip, Jlt, Signs, Minima])
def test_every_release_can_be_attacked_by_what_it_publishes(world, mechanism):
    prior, has = world[0], world[1][:12]
    users, items = np.nonzero(has)
    # Ids that differ from positions: a decoder that mixed them up would find nothing.
    profiles = Interactions(users, [f"item {j}" for j in items], np.ones(users.size))
    noise = {"sigma": 0.1} if mechanism in (Jlt, Signs) else {"epsilon": 60}
    observed = released_to_all(mechanism(**noise), profiles, source=InsecureSeededSource(1))
    rows = np.argsort(observed.users_)
    candidates = np.array([f"item {j}" for j in range(N)], object)
    alone = found(popularity(observed, candidates, prior), has)
    for decoder in (single_decoder, joint_decoder, map_decoder):
        scores = decoder(observed, candidates, prior, sizes=has.sum(axis=1))
        assert found(scores[rows], has) > alone + 0.2
    scores = joint_decoder(observed, candidates, prior, method="gibbs", samples=4000)
    assert found(scores[rows], has) > alone + 0.2


def test_the_likeliest_profile_cannot_be_bettered_by_one_item(world):
    prior, has = world
    observed = blip(has[:5], 0.2)
    scores = map_decoder(observed, None, prior, candidates_per_item=20)
    for row in range(5):
        profile = np.flatnonzero(scores[row] > 0)
        state = observed.state(row, np.arange(N), profile)
        mended, step = state._arrays[6], state._arrays[8]
        gains = np.log(prior / (1 - prior)) + step * mended
        assert (np.delete(gains, profile) <= 1e-9).all()


def test_eigen_analysis_helps_where_profiles_lie_in_few_directions():
    draws = np.random.default_rng(3)
    codes = draws.normal(size=(N, 200)) / 200**0.5
    has = np.arange(N) // 30 == draws.integers(10, size=200)[:, None]
    observed = VectorChannel(has @ codes + 0.7 * draws.normal(size=(200, 200)), codes, 0.7)
    filtered = found(eigen_decoder(observed, None), has)
    assert filtered > found(single_decoder(observed, None), has) + 0.15
    with pytest.raises(TypeError, match="linear in the profile"):
        eigen_decoder(TINY["signs"](0)[0], None, PRIOR)


def test_chains_that_have_converged_agree_and_short_ones_do_not(world):
    prior, has = world
    observed = blip(has[:2], 0.2)
    long = chain_agreement(observed, None, prior, samples=100_000)
    short = chain_agreement(observed, None, prior, samples=40, burn_in=0)
    sampled = ~np.isnan(long)
    assert (long[sampled] < 1.02).mean() > 0.99
    assert (short[sampled] > 1.2).mean() > 0.1


def test_a_chain_that_drifts_disagrees_with_itself(world):
    # Alone it has only its own halves to differ from. Of the short one 0.11 to 0.14 was measured.
    prior, has = world
    observed = blip(has[:2], 0.35)
    short, long = (
        chain_agreement(observed, None, prior, chains=1, burn_in=burn, samples=steps)
        for burn, steps in ((0, 100), (1000, 100_000))
    )
    sampled = ~np.isnan(long)
    assert (long[sampled] < 1.02).mean() > 0.99
    assert (short[sampled] > 1.2).mean() > 0.05


def test_sizes_combine_the_estimate_with_the_prior(world):
    has = world[1]
    truth, known = has.sum(axis=1), size_prior(Interactions(*np.nonzero(has), np.ones(has.sum())))
    errors = {}
    for flip in (0.05, 0.45):
        observed = blip(has, flip)
        errors[flip] = [
            np.abs(sizes - truth).mean()
            for sizes in (expected_sizes(observed), expected_sizes(observed, known))
        ]
    assert errors[0.05][1] < errors[0.05][0] * 1.25
    assert errors[0.45][1] < errors[0.45][0] / 2
    np.testing.assert_allclose(expected_sizes(blip(has, 0.5), 12), 12)


def test_progress_counts_users_in_the_callers_thread(world):
    prior, has = world
    result = []
    joint_decoder(
        blip(has, 0.3), None, prior,
        progress=lambda done, users: result.append((done, users, threading.get_ident())),
    )  # fmt: skip
    assert result[-1][:2] == (40, 40)
    assert [step[0] for step in result] == sorted(step[0] for step in result)
    assert {step[2] for step in result} == {threading.get_ident()}


def test_an_interrupt_ends_the_work_and_no_thread_is_left(world):
    prior, has = world
    before, begun = threading.active_count(), []
    observed = blip(np.repeat(has, 10, axis=0), 0.3)
    observed.messages = lambda rows: begun.append(rows) or BitChannel.messages(observed, rows)

    def stop(done, users):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        joint_decoder(observed, None, prior, progress=stop, threads=2)
    assert threading.active_count() == before
    assert len(begun) < 15, "25 blocks were to be done, and the first one that ended stopped all"


def test_a_row_that_seems_empty_is_decoded_as_one_item_or_more():
    observed = BitChannel(np.zeros((1, 50), bool), np.arange(20).reshape(10, 2), 0.1)
    assert expected_sizes(observed)[0] < 1
    for decoder in (single_decoder, joint_decoder, map_decoder):
        assert np.isfinite(decoder(observed, None)).all()


@pytest.mark.parametrize("decoder", [single_decoder, joint_decoder, map_decoder, popularity])
def test_bad_input_is_refused_with_the_name_of_what_is_wrong(decoder):
    observed, owner = TINY["bits"](0)[0], decoder.__name__
    with pytest.raises(ValueError, match=f"{owner}: prior must be one probability for each of 7"):
        decoder(observed, None, PRIOR[:3])
    for bad in (-0.1, 1.5, np.nan):
        with pytest.raises(ValueError, match=f"{owner}: prior must be probabilities"):
            decoder(observed, None, [bad] * ITEMS)
    for other in ([1, 2], SimpleNamespace(positions=None, places=None, vectors=None)):
        with pytest.raises(TypeError, match="released must be released profiles"):
            decoder(other, [3], PRIOR)


def test_sizes_that_a_release_does_not_show_must_be_given():
    for kind in ("signs", "symbols"):
        observed = TINY[kind](0)[0]
        if isinstance(observed, SymbolChannel):
            observed.__dict__["sizes"] = observed.sizes._replace(estimates=np.array([np.nan]))
        with pytest.raises(ValueError, match="does not show how many items"):
            joint_decoder(observed, None)
        assert joint_decoder(observed, None, sizes=3).shape == (1, ITEMS)
    with pytest.raises(ValueError, match="sizes must be numbers"):
        joint_decoder(TINY["signs"](0)[0], None, sizes=[])
    with pytest.raises(ValueError, match="prior must be given"):
        popularity(TINY["bits"](0)[0], None, None)


def test_no_candidates_and_no_such_method_are_refused(world):
    users, items = np.nonzero(world[1])
    observed = released_to_all(Blip(epsilon=8), Interactions(users, items, np.ones(users.size)))
    with pytest.raises(ValueError, match="candidates must be a column of at least one"):
        channel(observed, [])
    with pytest.raises(ValueError, match="joint_decoder: method must be one of"):
        joint_decoder(observed, [1], method="guess")
    for name in ("candidates_per_item", "samples", "chains", "threads"):
        with pytest.raises(ValueError, match=f"joint_decoder: {name} must be"):
            joint_decoder(observed, [1], **{name: 0})
