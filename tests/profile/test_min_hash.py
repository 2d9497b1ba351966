"""Minima keep their promise: one item changes one bin, and answers hide it at the exact epsilon."""

import itertools
import math

import numpy as np
import pytest

from sfumato.kernels import profile_codes as kernels
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Minima
from sfumato.profile.item_sets import hashed_items
from sfumato.profile.min_hash import Answers, Compared
from support.hard_rows import released_to_all
from support.profile_pairs import interactions

INTERACTIONS = interactions([1, 2, 3], [2, 3], [9])


def true_codes(items, bins, bits):
    """The symbols before they are answered for."""
    hashes = np.sort(hashed_items(np.asarray(items, np.int64), 0))
    out = np.empty((1, bins), np.uint8)
    kernels.lowest(hashes, np.array([0, hashes.size]), bits, out)
    return out[0]


def test_a_bin_holds_the_symbol_of_its_item_of_least_rank():
    release = released_to_all(Minima(bins=40, code_bits=3, epsilon=1), INTERACTIONS)
    items = np.arange(60)
    positions, ranks, symbols = (
        release.positions(items),
        release.ranks(items),
        release.symbols(items),
    )
    assert ranks.dtype == np.uint64
    assert np.unique(ranks).size == 60
    for chosen in (items[:0], items[:1], items[5:25], items):
        expected = np.full(40, 8)
        for item in sorted(chosen, key=lambda item: ranks[item], reverse=True):
            expected[positions[item]] = symbols[item]
        np.testing.assert_array_equal(true_codes(chosen, 40, 3), expected)


def test_positions_and_symbols_are_uniform_and_independent_of_the_minima():
    # Chi-square of 64 bins x 4 symbols, 255 degrees: beyond 400 with p < 1e-7. The items of the
    # least hashes, which a trimmed profile keeps, must be uniform like all others.
    release = released_to_all(Minima(bins=64, code_bits=2, epsilon=1), INTERACTIONS)
    items = np.arange(40_000)
    least = items[np.argsort(hashed_items(items, 0))[:10_000]]
    for some in (items[:10_000], least):
        cells = release.positions(some) * 4 + release.symbols(some)
        counts = np.bincount(cells, minlength=256)
        assert ((counts - 10_000 / 256) ** 2).sum() / (10_000 / 256) < 400


@pytest.mark.parametrize(("bins", "bits"), [(2, 1), (3, 2), (8, 1)])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_the_exact_law_of_all_small_profiles_keeps_the_promise(bins, bits, epsilon):
    release = released_to_all(Minima(bins=bins, code_bits=bits, epsilon=epsilon), INTERACTIONS)
    wrong, symbols = release.chance, 2**bits + 1
    right = 1 - (symbols - 1) * wrong
    assert right > wrong > 0
    worst = 0
    for chosen in itertools.product((False, True), repeat=6):
        profile = np.flatnonzero(chosen)
        before = true_codes(profile, bins, bits)
        for item in range(6, 9):
            after = true_codes([*profile, item], bins, bits)
            changed = int((before != after).sum())
            worst = max(worst, changed)
            # Answers are independent, and the likeliest ratio of a changed bin is right / wrong.
            assert math.log(right / wrong) * changed <= epsilon
    assert worst == 1
    assert epsilon - 1e-4 < math.log(right / wrong) <= release.statement.epsilon <= epsilon


@pytest.mark.parametrize("terms", [{"relation": "replace"}, {"unit": "user", "contributions": 3}])
def test_a_unit_of_more_items_changes_more_bins(terms):
    release = released_to_all(Minima(bins=100, code_bits=2, epsilon=6), INTERACTIONS, **terms)
    cells = 2 if "relation" in terms else 3
    odds = (1 - 4 * release.chance) / release.chance
    assert math.log(odds) * cells == pytest.approx(6, rel=1e-6)
    assert math.log(odds) * cells <= release.statement.epsilon <= 6
    if cells == 3:  # more items than count are no more of a loss
        assert release.profile_epsilon(50) == pytest.approx(6, rel=1e-6)
    few = released_to_all(
        Minima(bins=2, code_bits=2, epsilon=6), INTERACTIONS, unit="user", contributions=50
    )
    assert math.log((1 - 4 * few.chance) / few.chance) == pytest.approx(3, rel=1e-6)


def test_the_statement_tells_the_loss_of_one_item_and_of_a_whole_profile():
    release = released_to_all(Minima(bins=512, epsilon=4, typical_size=106), INTERACTIONS)
    released = release.statement.mechanism
    assert (
        "one item is hidden at epsilon 4, a whole profile of 106 items only at epsilon 424"
        in released
    )
    assert "epsilon 424 (2048 for any profile), which hides next to nothing of it" in released
    assert release.profile_epsilon(106) == pytest.approx(424, rel=1e-6)
    assert release.profile_epsilon(10**6) == pytest.approx(2048, rel=1e-6)
    assert (
        released_to_all(
            Minima(bins=9, epsilon=4), INTERACTIONS, relation="replace"
        ).profile_epsilon(2)
        > 7.99
    )


def test_answers_have_the_stated_probabilities():
    # 300,000 answers about empty bins: within 5 standard errors, p < 1e-5 for all five.
    release = Minima(bins=100, code_bits=2, epsilon=2).release(
        interactions([1]), users=np.arange(3001), source=InsecureSeededSource(4)
    )
    counts = np.bincount(release.codes[1:].ravel(), minlength=5)
    probabilities = np.array([float(release.chance)] * 4 + [1 - 4 * float(release.chance)])
    errors = 5 * np.sqrt(300_000 * probabilities * (1 - probabilities))
    assert (np.abs(counts - 300_000 * probabilities) <= errors).all()


@pytest.mark.parametrize(
    ("codes", "error_rates"), [(2, (0.1, 0.2)), (4, (0.05, 0.05)), (128, (0.004, 0.001))]
)
def test_pairs_of_answers_are_undone_exactly(codes, error_rates):
    pair = Compared(*(Answers(10, codes, rate) for rate in error_rates))
    np.testing.assert_allclose(pair.probabilities.sum(axis=1), 1)
    matching, either, here, there = (pair.probabilities @ pair.worth).T
    # Bins of different minima count 0 on average: 1 of `codes` has equal symbols at random.
    assert matching[0] == pytest.approx(1)
    assert matching[0] + (codes - 1) * matching[1] == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(matching[2:], 0, atol=1e-9)
    np.testing.assert_allclose(either, [1, 1, 1, 1, 0], atol=1e-9)
    np.testing.assert_allclose(here, [1, 1, 1, 0, 0], atol=1e-9)
    np.testing.assert_allclose(there, [1, 1, 0, 1, 0], atol=1e-9)


def test_the_variance_of_full_bins_is_that_of_all_ways_to_fill_them():
    answers = Answers(4, 2, 0.1)
    for items in (0, 1, 3, 5):
        filled = [len(set(way)) for way in itertools.product(range(4), repeat=items)]
        assert answers.occupancy(np.array(items)) == pytest.approx(np.var(filled))
        assert answers.items(np.array(np.mean(filled))) == pytest.approx(items)


def test_rows_are_compared_as_counting_by_hand_does():
    for bins, bits in ((5, 1), (64, 3), (513, 2)):
        made = Minima(bins=bins, code_bits=bits, epsilon=3)
        profiles = [np.arange(k * 20) + 7 * k for k in range(9)]
        release = made.release(interactions(*profiles), users=np.arange(10))
        counted, codes = release._count(np.arange(4), release), release.codes
        full = codes < 2**bits
        both = full[:4, np.newaxis] & full
        equal = both & (codes[:4, np.newaxis] == codes)
        np.testing.assert_array_equal(counted[..., 0], equal.sum(axis=2))
        np.testing.assert_array_equal(counted[..., 1], both.sum(axis=2))


def test_a_profile_that_fills_all_bins_has_a_finite_size_and_no_upper_bound():
    release = released_to_all(Minima(bins=16, epsilon=10), interactions(np.arange(5000)))
    assert 16 < release.estimate_size()[0] < np.inf
    assert release.size_bounds()[1].tolist() == [np.inf]
    assert np.isfinite(release.similarity_variance()).all()
    two = released_to_all(Minima(bins=16, epsilon=10), interactions(np.arange(5000), [1, 2]))
    for metric in ("cosine", "inner"):
        assert np.isinf(two.similarity_variance(metric=metric)[[0, 1], [1, 0]]).all()
    assert np.isfinite(two.similarity_variance(metric="jaccard")).all()  # it needs no sizes


def test_parameters_out_of_range_are_refused():
    for name, values in {
        "bins": (1, 2**16 + 1, 2.5),
        "code_bits": (0, 8),
        "epsilon": (0, -1, math.inf),
    }.items():
        for value in values:
            with pytest.raises(ValueError, match=f"Minima: {name} must be"):
                Minima(**{"epsilon": 1, name: value})
    with pytest.raises(ValueError, match="Minima: epsilon must be at least"):
        released_to_all(Minima(epsilon=1e-9), INTERACTIONS, unit="user", contributions=1000)
