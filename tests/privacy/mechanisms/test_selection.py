"""Selection: exact distributions, pure epsilon on every pair of a small world, and utility."""

import functools
import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from sfumato.privacy.mechanisms import selection
from sfumato.privacy.mechanisms.selection import Exponential, PermuteAndFlip, ReportNoisyMax
from sfumato.privacy.noise.exact.reference import Bits
from sfumato.privacy.random_source import InsecureSeededSource

RARE = 1e-9  # the failure probability of each test against 200,000 samples
SMALL = list(itertools.product(range(4), repeat=3))


@pytest.fixture(autouse=True)
def forty_digits():
    with mpmath.workdps(40):
        yield


def exponential_law(mechanism, scores):
    weights = [mpmath.exp(mpmath.mpf(score) / fraction(mechanism.scale)) for score in scores]
    return [weight / sum(weights) for weight in weights]


def permute_and_flip_law(mechanism, scores):
    """By every order of the candidates, as the mechanism is defined."""
    coins = [mpmath.exp((score - max(scores)) / fraction(mechanism.scale)) for score in scores]
    distribution = [mpmath.mpf(0)] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        still = mpmath.mpf(1) / len(orders)
        for candidate in order:
            distribution[candidate] += still * coins[candidate]
            still *= 1 - coins[candidate]
    return distribution


def noisy_max_law(mechanism, scores):
    """By summing over the winner's noisy score, up to where less than 1e-19 is left."""
    a = mpmath.exp(-1 / fraction(mechanism.scale))
    span = int(45 * mechanism.scale) + 8
    noise = noise_law(mechanism.noise, a, span)
    below = list(itertools.accumulate(noise.values()))  # P(noise <= first + i)
    first = min(noise)

    def probability(limit):  # P(noise <= limit)
        return 0 if limit < first else below[min(limit - first, len(below) - 1)]

    distribution = []
    for winner, score in enumerate(scores):
        rivals = [(other, j < winner) for j, other in enumerate(scores) if j != winner]
        distribution.append(
            mpmath.fsum(
                mass
                * mpmath.fprod(probability(score + k - other - early) for other, early in rivals)
                for k, mass in noise.items()
            )
        )
    return distribution


def noise_law(kind, a, span):
    if kind == "geometric":
        return {k: (1 - a) * a**k for k in range(span)}
    return {k: (1 - a) / (1 + a) * a ** abs(k) for k in range(-span, span + 1)}


def fraction(exact):
    return mpmath.mpf(exact.numerator) / exact.denominator


LAWS = [
    (Exponential, {}, exponential_law),
    (PermuteAndFlip, {}, permute_and_flip_law),
    (ReportNoisyMax, {"noise": "geometric"}, noisy_max_law),
    (ReportNoisyMax, {"noise": "laplace"}, noisy_max_law),
]
ids = ["exponential", "permute-and-flip", "geometric", "laplace"]


@pytest.mark.parametrize(("kind", "more", "distribution"), LAWS, ids=ids)
@pytest.mark.parametrize("scores", [(0, 3, 5), (2, 2, 2), (-4, 7, 7, 1)], ids=str)
@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1, 0.7), (3, 2.5)])
def test_distribution_is_exact(kind, more, distribution, scores, sensitivity, epsilon):
    mechanism = kind(sensitivity, epsilon, candidates=len(scores), **more)
    drawn = mechanism.sample(scores, 200_000, source=InsecureSeededSource(3))
    expected = np.array([float(p) for p in distribution(mechanism, scores)])
    assert expected.sum() == pytest.approx(1, abs=1e-12)
    counts = np.bincount(drawn, minlength=len(scores))
    assert stats.chisquare(counts, expected * counts.sum()).pvalue > RARE


@pytest.mark.parametrize(("kind", "more", "distribution"), LAWS, ids=ids)
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_epsilon_holds_for_all_neighbours_of_a_small_world(
    kind, more, distribution, monotone, sensitivity
):
    mechanism = kind(sensitivity, 1.0, candidates=3, monotone=monotone, **more)
    # Only differences of scores count, which spares most of the distributions.
    distribution = functools.cache(functools.partial(distribution, mechanism))
    distributions = {
        scores: distribution(tuple(score - min(scores) for score in scores)) for scores in SMALL
    }
    worst = max(
        mpmath.log(p / q)
        for one, other in itertools.permutations(SMALL, 2)
        if neighbours(one, other, sensitivity, monotone)
        for p, q in zip(distributions[one], distributions[other], strict=True)
    )
    result = mechanism.loss().epsilon
    assert worst <= result + 1e-15
    # The world is small, so the bound is not met everywhere, but half a promise would be caught.
    assert worst > 0.55 * result


def neighbours(one, other, sensitivity, monotone):
    moves = [y - x for x, y in zip(one, other, strict=True)]
    if monotone and min(moves) < 0 < max(moves):
        return False
    return max(map(abs, moves)) <= sensitivity


@pytest.mark.parametrize("kind", [PermuteAndFlip, ReportNoisyMax])
def test_one_sided_noise_makes_the_promise_tight(kind):
    mechanism = kind(1, 1.0, candidates=2)
    distribution = permute_and_flip_law if kind is PermuteAndFlip else noisy_max_law
    p, q = distribution(mechanism, (0, 0)), distribution(mechanism, (-1, 1))
    assert float(mpmath.log(p[0] / q[0])) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_permute_and_flip_is_never_worse_than_exponential(epsilon):
    flip = PermuteAndFlip(1, epsilon, candidates=3)
    exponential = Exponential(1, epsilon, candidates=3)
    for scores in SMALL:
        better, worse = permute_and_flip_law(flip, scores), exponential_law(exponential, scores)
        for score in set(scores):  # the whole distribution is higher, not only its mean
            at_least = [i for i, s in enumerate(scores) if s >= score]
            assert sum(better[i] for i in at_least) >= sum(worse[i] for i in at_least) - 1e-30


def test_a_drawn_head_of_all_coins_is_the_first_head_of_a_random_order():
    # All subsets of heads, evenly drawn from, give the distribution that all orders give.
    mechanism, scores = PermuteAndFlip(1, 1.0, candidates=3), (0, 2, 3)
    coins = [mpmath.exp((score - 3) / fraction(mechanism.scale)) for score in scores]
    distribution = [mpmath.mpf(0)] * 3
    for heads in itertools.product([False, True], repeat=3):
        probability = mpmath.fprod(c if h else 1 - c for c, h in zip(coins, heads, strict=True))
        for winner in np.flatnonzero(heads):
            distribution[winner] += probability / sum(heads)
    for p, q in zip(distribution, permute_and_flip_law(mechanism, scores), strict=True):
        assert abs(p - q) < 1e-30


def test_noisy_max_needs_scores_as_fine_as_its_noise():
    with pytest.raises(ValueError, match="integers"):
        ReportNoisyMax(1, 1.0, candidates=2).run([0.5, 1.0])
    # Noise in steps of 2, for scores that one unit moves by 1, would lose twice the stated epsilon.
    a = mpmath.exp(-2)
    noise = {2 * k: (1 - a) * a**k for k in range(40)}

    def first_wins(scores):
        pairs = itertools.product(noise.items(), repeat=2)
        return mpmath.fsum(x * y for (k, x), (j, y) in pairs if scores[0] + k >= scores[1] + j)

    assert mpmath.log(first_wins((0, 0)) / first_wins((0, 1))) > 1.99


@pytest.mark.parametrize("bits", [1, 2, 6])
def test_numbers_that_first_bits_leave_open_are_decided_exactly(bits):
    # With few first bits nearly all draws take the exact way, which 64 bits never do in a test.
    costs = [Fraction(1, 3), Fraction(0), Fraction(2), Fraction(0), Fraction(1, 3)]
    source, trials = InsecureSeededSource(8), 10_000
    words = np.empty(trials, np.uint64)
    source.fill(words)
    drawn = selection._passed(cuts(costs), words >> np.uint64(64 - bits), Bits(source), bits)
    weights = np.array([np.exp(-float(cost)) for cost in costs])
    counts = np.bincount(drawn, minlength=5)
    assert stats.chisquare(counts, weights / weights.sum() * trials).pvalue > RARE


def cuts(costs):
    """The running sums of the weights, as the exponential mechanism compares them."""
    retained = {}

    def capture(found, words, more):
        retained["cuts"] = functools.cache(found)
        return np.zeros(words.shape, int)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "_passed", capture)
        selection.exp_choices(costs, 1, None)
    return retained["cuts"]


def test_bounds_hold_the_weights_and_tighten():
    costs = [Fraction(0), Fraction(1, 7), Fraction(3), Fraction(40), Fraction(10**9)]
    for digits in (64, 128, 400):
        for cost, (low, high) in zip(costs, selection._masses(costs, digits), strict=True):
            with mpmath.workdps(200):
                exact = mpmath.exp(-fraction(cost)) * mpmath.mpf(2) ** digits
                assert low <= exact <= high
            assert high - low <= 16


def test_extreme_scores_neither_overflow_nor_slow_down():
    far = [2**62 - 1, -(2**62) + 1, 0]
    for kind in (Exponential, PermuteAndFlip, ReportNoisyMax):
        assert kind(1, 1.0, candidates=3).run(far, source=InsecureSeededSource(1)) == 0
        assert kind(1, 1.0, candidates=1).run([-5]) == 0


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip, ReportNoisyMax])
def test_scores_must_be_one_per_public_candidate(kind):
    with pytest.raises(ValueError, match="value must be 3 scores"):
        kind(1, 1.0, candidates=3).run([1, 2])
    with pytest.raises(TypeError, match="sensitivity"):
        kind(candidates=3)
    with pytest.raises(TypeError, match="epsilon"):
        kind(1, candidates=3)
    with pytest.raises(ValueError, match="monotone must be False for 'replace'"):
        kind(1, 1.0, candidates=3, monotone=True, relation="replace")


def test_noise_too_wide_for_64_bits_is_refused():
    with pytest.raises(ValueError, match=r"epsilon must be larger, not 0\.5"):
        ReportNoisyMax(2**40, 0.5, candidates=2)
