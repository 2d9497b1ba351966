"""Expected sizes of profiles: between the release's estimate and the prior, empty profiles too."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.attack import BitChannel, expected_sizes, size_prior
from sfumato.attack.channels.profile_size import Sizes, likely_sizes
from sfumato.attack.decoders.priors import believed
from sfumato.data import Interactions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Jlt
from support.hard_rows import released_to_all

NOTHING = BitChannel(np.zeros((2, 100), bool), np.arange(60).reshape(30, 2), 0.5)


def known(*sizes):
    """The distribution of sizes of users with these numbers of items."""
    users = np.repeat(np.arange(len(sizes)), sizes)
    items = np.concatenate([np.arange(size) for size in sizes])
    return size_prior(Interactions(users, items, np.ones(users.size)), np.arange(len(sizes)))


def result(size, error, users=1):
    return Sizes(np.full(users, size), np.full(users, error), np.full(users, size + 2 * error))


@pytest.mark.parametrize("sizes", [(10, 100), (1, 2), (0, 3, 300), (7,), (0, 0)])
def test_without_information_it_is_the_mean_of_known_sizes(sizes):
    for given in (known(*sizes), list(sizes)):
        np.testing.assert_allclose(expected_sizes(NOTHING, given), np.mean(sizes))
    assert known(*sizes).mean == np.mean(sizes)


def test_a_distribution_of_sizes_and_the_sizes_themselves_agree():
    sizes = [3, 10, 10, 12, 40, 100]
    for size, error in ((5.0, 2.0), (30.0, 25.0), (-10.0, 30.0)):
        found = result(size, error)
        by_prior, by_list = (likely_sizes("test", found, some) for some in (known(*sizes), sizes))
        np.testing.assert_allclose(by_prior, by_list)


def test_the_posterior_mean_is_that_of_a_direct_sum():
    logs = np.log([10, 100, 100])
    grid = np.exp(np.linspace(np.log(0.5), np.log(2000), 200_000))
    density = np.exp(-0.5 * ((np.log(grid) - logs.mean()) / logs.std()) ** 2)
    weights = density * np.exp(-0.5 * ((grid - 60) / 20) ** 2)
    direct = (weights * grid).sum() / weights.sum()
    found = likely_sizes("test", result(60.0, 20.0), known(10, 100, 100))
    np.testing.assert_allclose(found, direct, rtol=1e-3)


def test_empty_known_profiles_draw_a_vague_estimate_down():
    vague = result(30.0, 20.0)
    some, more = (likely_sizes("test", vague, known(*sizes)) for sizes in ((20,) * 4, (0, 0, 20)))
    assert 0 < more[0] < some[0] < 30
    for nothing in (0, [0, 0], known(0, 0)):
        found = likely_sizes("test", vague, nothing)
        assert np.isfinite(found).all()
        assert (found < 10).all()


def test_the_estimate_alone_is_never_below_0():
    before = Interactions([1, 2, 3, 4] * 2, list("abcdefgh"), [1] * 8)
    observed = released_to_all(Jlt(epsilon=1), before, source=InsecureSeededSource(3))
    assert (observed.estimate_size() < 0).any()
    np.testing.assert_array_equal(expected_sizes(observed), np.maximum(observed.estimate_size(), 0))


def test_many_users_take_no_more_memory_at_a_time_and_blocks_change_nothing(monkeypatch):
    # A grid of 256 for each of 30,000 users would be 61 MB, and several are needed.
    sizes, draws = [5, 10, 20], np.random.default_rng(0)
    found = result(10.0, 4.0, users=30_000)._replace(estimates=draws.normal(10, 6, 30_000))
    tracemalloc.start()
    together = likely_sizes("test", found, sizes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80e6
    monkeypatch.setattr("sfumato.attack.channels.profile_size.BLOCK", 7)
    parts = likely_sizes("test", Sizes(*(each[:100] for each in found)), sizes)
    np.testing.assert_array_equal(parts, together[:100])


@pytest.mark.parametrize("bad", [[], [-1], [3, np.nan], [np.inf], [[1, 2]]])
def test_sizes_that_cannot_be_are_refused(bad):
    with pytest.raises(ValueError, match="expected_sizes: sizes must be numbers of items from 0"):
        expected_sizes(NOTHING, bad)


def test_the_flat_prior_gives_every_item_the_share_of_the_expected_size():
    result = np.array([2.0, 5.0, 0.0, 99.0])
    observed = SimpleNamespace(items=10, sizes=Sizes(result, np.zeros(4), result))
    prior, expected = believed("test", None, observed, None)
    assert expected.tolist() == [2.0, 5.0, 1.0, 10.0]
    assert not prior.personal
    assert prior.total is None
    odds = prior.log_odds(np.zeros((3, 10)), slice(0, 3))
    wanted = np.log([2 / 8, 5 / 5, 1 / 9])
    np.testing.assert_allclose(odds, np.repeat(wanted[:, None], 10, axis=1))
