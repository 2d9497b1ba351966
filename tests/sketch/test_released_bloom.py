"""Released Bloom filters keep their epsilon exactly, and say how far their answers may be off."""

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import Flips, Loss
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.privacy.release import ReleaseRequest
from sfumato.sketch import BloomFilter, ReleasedBloomFilter, SketchFormatError, load
from sfumato.sketch.response_release import bits_answered
from support.observable import repacked

LAYOUTS = [("plain", 2048), ("blocked", 2048)]


def below_exp(ratio, epsilon):
    """Whether an exact ratio is at most exp(epsilon), in 60 digits."""
    with localcontext(prec=60):
        return Decimal(ratio.numerator) / ratio.denominator <= Decimal(epsilon).exp()


def distribution(truth, bits, p):
    """The exact probability of every possible release of these bits."""
    return [
        p ** (truth ^ out).bit_count() * (1 - p) ** (bits - (truth ^ out).bit_count())
        for out in range(2**bits)
    ]


def worst_ratio(truths, neighbours, bits, p):
    distributions = {truth: distribution(truth, bits, p) for truth in set(truths.values())}
    return max(
        a / b
        for left, right in neighbours
        for a, b in zip(distributions[truths[left]], distributions[truths[right]], strict=True)
    )


@pytest.mark.parametrize(("hashes", "epsilon"), [(1, 1.0), (2, 1.0), (3, 2.5)])
def test_no_release_distinguishes_neighbouring_sets_by_more_than_epsilon(hashes, epsilon):
    sets = [s for size in range(5) for s in itertools.combinations(range(4), size)]
    truths = {s: int(BloomFilter(8, hashes, seed=9).update(list(s))._words[0]) for s in sets}
    added = [(s, t) for s in sets for t in sets if len(set(s) ^ set(t)) == 1]
    swapped = [(s, t) for s in sets for t in sets if len(s) == len(t) and len(set(s) - set(t)) == 1]
    empty = BloomFilter(8, hashes, seed=9)
    for relation, neighbours in (("add/remove", added), ("replace", swapped)):
        released = empty.release(epsilon, relation=relation)
        assert released.statement.epsilon <= epsilon
        assert released.statement.relation == relation
        ratio = worst_ratio(truths, neighbours, 8, released.flip_probability)
        assert below_exp(ratio, released.statement.epsilon)
        assert below_exp(1 / ratio, -0.9 * epsilon)  # so that no noise is wasted either


def test_cells_are_the_bits_flipped_by_that_probability():
    # 16,000 bits: a fraction 6 deviations off has p < 1e-8.
    observed = BloomFilter(100, 2).update(range(20))
    p = observed.release(1).flip_probability
    assert p.denominator <= 2**32
    released = [
        observed.release(1, source=InsecureSeededSource(seed))._words for seed in range(160)
    ]
    flipped = sum(int(np.bitwise_count(words ^ observed._words).sum()) for words in released)
    assert abs(flipped / 16000 - float(p)) < 6 * (0.25 / 16000) ** 0.5
    again = observed._words ^ noise.flips(p, 100, source=InsecureSeededSource(9))
    np.testing.assert_array_equal(released[9], again)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 7 * np.log(3), 20.0, 1e4])
def test_probability_is_rounded_toward_one_half(epsilon):
    released = BloomFilter(64, 7).update([1]).release(epsilon)
    p = released.flip_probability
    assert released.statement.epsilon == Loss.from_dict(released.statement.loss).epsilon <= epsilon
    assert below_exp(((1 - p) / p) ** 7, released.statement.epsilon)
    lower = p - Fraction(1, 2**32)
    if lower > 0:  # one step less would cost more than requested, or nearly
        assert Flips(lower, 7).epsilon > epsilon * (1 - 1e-9)


def test_cost_counts_hashes_contributions_and_both_keys_of_an_exchange():
    observed = BloomFilter(4096, 3).update(range(50))
    assert Loss.from_dict(observed.release(3).statement.loss).cells == 3
    assert Loss.from_dict(observed.release(3, relation="replace").statement.loss).cells == 6
    user = observed.release(30, unit="user", contributions=10)
    assert Loss.from_dict(user.statement.loss).cells == 30
    assert BloomFilter(8, 3).release(3, unit="user", contributions=10).flip_probability < 0.5


def test_what_cannot_be_answered_says_why():
    with pytest.raises(ValueError, match=r"BloomFilter: epsilon must be at least .*, not 1e-09;"):
        BloomFilter(4096, 3).release(1e-9)
    terms = ReleaseRequest.of("BloomFilter", 1, 0, {"unit": "user", "contributions": 2**31})
    with pytest.raises(ValueError, match="BloomFilter: contributions, as answers about one unit,"):
        bits_answered(terms, 2**32)


@pytest.mark.parametrize("bits", [8, 63, 64, 65, 127])
def test_spare_bits_stay_zero(bits):
    for seed in range(20):
        released = (
            BloomFilter(bits, 1).update(range(9)).release(1, source=InsecureSeededSource(seed))
        )
        assert sum(int(word) << (64 * at) for at, word in enumerate(released._words)) < 2**bits
    if bits % 64:
        with pytest.raises(SketchFormatError, match="beyond the last"):
            load(repacked(released, {"_words": np.full_like(released._words, 2**64 - 1)}))


def test_a_statement_without_the_probability_of_a_flip_is_refused():
    released = BloomFilter(64, 2).release(1)
    pure = {"kind": "Pure", "epsilon": 0.5, "relation": "add/remove"}
    for loss, why in (
        (pure, "lacks the probabilities of the responses"),
        ({}, "is not one of ours"),
    ):
        with pytest.raises(SketchFormatError, match=why):
            load(repacked(released, loss=loss))


@pytest.mark.parametrize(("layout", "bits"), LAYOUTS)
def test_size_is_unbiased_and_within_its_bound(layout, bits):
    # 300 releases of as many filters. Deviation about 19, so a mean off by 7 has p < 1e-9. At 90 %
    # more than 56 misses have p < 1e-5, and fewer than 9 too.
    errors, misses = [], 0
    for seed in range(300):
        observed = BloomFilter(bits, 3, layout=layout, seed=seed).update(range(150))
        released = observed.release(3, source=InsecureSeededSource(seed))
        errors.append(released.estimate_size() - 150)
        misses += abs(errors[-1]) > released.error_bound(0.9)
    assert abs(np.mean(errors)) < 7
    assert 9 <= misses <= 56


def test_size_of_a_full_filter_has_no_bound():
    full = BloomFilter(64, 3).update(range(5000)).release(6, source=InsecureSeededSource(1))
    assert full.error_bound() == np.inf
    assert BloomFilter(4096, 1).release(8, source=InsecureSeededSource(1)).estimate_size() < 20


@pytest.mark.parametrize(("layout", "bits"), LAYOUTS)
@pytest.mark.parametrize("threshold", [-0.5, 0.0, 1.0])
def test_contains_errs_as_often_as_its_rates_say(layout, bits, threshold):
    # Per release 4000 other keys, given the bits, and 100 keys of the set over the flips of 40
    # releases: 6 deviations of binomial counts, p < 1e-8 (keys share flips: twice that width).
    false, missed, expected = [], [], []
    for seed in range(40):
        observed = BloomFilter(bits, 4, layout=layout, seed=seed).update(range(100))
        released = observed.release(6, source=InsecureSeededSource(seed))
        false.append(released.contains(range(1000, 5000), threshold).mean())
        missed.append(1 - released.contains(range(100), threshold).mean())
        expected.append(released.rates(threshold))
    false_positive, false_negative = np.mean(expected, axis=0)
    assert abs(np.mean(false) - false_positive) < 6 * (0.25 / 160_000) ** 0.5
    assert abs(np.mean(missed) - false_negative) < 12 * (0.25 / 4000) ** 0.5
    assert false_positive + false_negative < 0.95


def test_misses_are_exact_in_tiny_filters():
    # 8 bits, 6 positions: they collide often, and one flip affects several. 40,000 keys, each with
    # its own flips, at each threshold; 6 deviations.
    released = BloomFilter(8, 6).update([1]).release(9, source=InsecureSeededSource(0))
    flips = noise.coins(released.flip_probability, 320_000, source=InsecureSeededSource(2))
    positions = np.random.default_rng(0).integers(0, 8, (40_000, 6))
    met = 6 - np.take_along_axis(flips.reshape(40_000, 8), positions, axis=1).sum(axis=1)
    assert (np.diff(released._scores) > 0).all()
    for ones, threshold in enumerate(released._scores):
        missed = (met < ones).mean()
        assert abs(missed - released.rates(threshold)[1]) < 6 * (0.25 / 40_000) ** 0.5


def test_scores_are_log_likelihood_ratios():
    released = BloomFilter(4096, 3).update(range(300)).release(6, source=InsecureSeededSource(4))
    frequency = np.bitwise_count(released._words).sum() / 4096
    p = float(released.flip_probability)
    best, worst = 3 * np.log((1 - p) / frequency), 3 * np.log(p / (1 - frequency))
    scores = released.scores(range(2000))
    assert set(np.round(scores, 9)) <= set(np.round(np.linspace(worst, best, 4), 9))
    for bad in (np.nan, np.inf, "1", True):
        with pytest.raises(ValueError, match="threshold must be a finite number"):
            released.contains([1], bad)


@pytest.mark.parametrize(("layout", "bits"), [("plain", 8192), ("blocked", 8192)])
def test_similarity_and_shared_bits_are_debiased(layout, bits):
    # 60 pairs at different epsilon. Deviations, measured: shared bits 34, intersection 21; means
    # off by 6 of their deviations have p < 1e-8.
    shared, both, errors = [], [], []
    for seed in range(60):
        left = BloomFilter(bits, 2, layout=layout, seed=seed).update(range(400))
        right = BloomFilter(bits, 2, layout=layout, seed=seed).update(range(200, 600))
        a = left.release(4, source=InsecureSeededSource(2 * seed))
        b = right.release(3, source=InsecureSeededSource(2 * seed + 1))
        truth = int(np.bitwise_count(left._words & right._words).sum())
        shared.append(a.inner(b) - truth)
        both.append(a.intersection(b) - 200)
        errors.append(a.similarity(b) - 1 / 3)
    assert abs(np.mean(shared)) < 6 * 40 / 60**0.5
    assert abs(np.mean(both)) < 6 * 30 / 60**0.5
    assert abs(np.mean(errors)) < 0.06


def test_comparison_needs_the_same_hashes():
    released = BloomFilter(64, 2, seed=1).release(1)
    with pytest.raises(ValueError, match="cannot compare, seed is 1 here and 2 there"):
        released.similarity(BloomFilter(64, 2, seed=2).release(1))
    with pytest.raises(TypeError, match="cannot compare with BloomFilter"):
        released.similarity(BloomFilter(64, 2, seed=1))
    assert isinstance(released, ReleasedBloomFilter)


@pytest.mark.parametrize("layout", ["plain", "blocked"])
def test_one_key_is_answered_as_in_a_column(layout):
    released = BloomFilter(4096, 2, layout=layout).update(range(100)).release(epsilon=4)
    for key in [*range(90, 110), "tea", None]:
        assert released.scores(key) == released.scores([key])[0]
        assert (key in released) is released.contains(key) is bool(released.contains([key])[0])
        assert released.contains(key, 1.0) is bool(released.contains([key], 1.0)[0])
    with pytest.raises(TypeError, match="one key is expected, not list"):
        assert [1] in released
