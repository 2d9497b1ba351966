"""Randomized response: probabilities rounded safely, exact distributions, unbiased estimates."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from sfumato.privacy.mechanisms.randomized_response import BinaryResponse, KaryResponse
from sfumato.privacy.random_source import InsecureSeededSource

RARE = 1e-9  # the failure probability of each statistical test
EPSILONS = [1e-8, 0.001, 0.1, math.log(3), 1.0, 2.5, 10.0, 22.0, 50.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("cells", [1, 3])
def test_flip_probability_is_rounded_toward_one_half(epsilon, cells):
    mechanism = BinaryResponse(epsilon, cells=cells)
    p = mechanism.flip_probability
    with mpmath.workdps(60):
        ideal = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon) / cells))
        assert ideal <= mpmath.mpf(p.numerator) / p.denominator < mpmath.mpf(1) / 2
        assert p == Fraction(1, 2**32) or p - Fraction(2, 2**32) < Fraction(str(ideal))
        runs = cells * mpmath.log(mpmath.mpf((1 - p).numerator) / p.numerator)
        assert runs <= epsilon
    assert mechanism.loss().epsilon <= epsilon
    assert (p * 2**32).denominator == 1


@pytest.mark.parametrize("epsilon", EPSILONS[1:])
@pytest.mark.parametrize("symbols", [2, 3, 1000])
def test_the_stated_epsilon_is_that_of_the_sampled_distribution(epsilon, symbols):
    mechanism = KaryResponse(symbols, epsilon)
    q = mechanism.change_probability
    distribution = {
        True: 1 - q,
        False: q / (symbols - 1),
    }  # of an answer that is the meant one, or another
    worst = max(p / r for p, r in itertools.permutations(distribution.values(), 2))
    with mpmath.workdps(60):
        runs = mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator)
        assert runs <= mechanism.loss().epsilon <= epsilon
        assert mechanism.loss().epsilon < runs * (1 + mpmath.mpf(2) ** -35)


def test_an_epsilon_that_would_tell_nothing_is_refused():
    with pytest.raises(ValueError, match="BinaryResponse: epsilon must be larger"):
        BinaryResponse(1e-10)
    with pytest.raises(ValueError, match="KaryResponse: epsilon must be larger"):
        KaryResponse(10, 1e-12)


@pytest.mark.parametrize("bit", [0, 1])
def test_bits_flip_with_the_stated_probability(bit):
    mechanism = BinaryResponse(1.3)
    answers = mechanism.run(np.full(200_000, bit), source=InsecureSeededSource(5))
    flipped = int((answers != bit).sum())
    assert stats.binomtest(flipped, 200_000, float(mechanism.flip_probability)).pvalue > RARE


@pytest.mark.parametrize("symbols", [2, 3, 7])
def test_symbols_follow_the_exact_distribution(symbols):
    mechanism = KaryResponse(symbols, 0.9)
    retained = 1 - float(mechanism.change_probability)
    for meant in range(symbols):
        answers = mechanism.sample(meant, 200_000, source=InsecureSeededSource(meant))
        counts = np.bincount(answers, minlength=symbols)
        expected = np.full(symbols, (1 - retained) / (symbols - 1))
        expected[meant] = retained
        assert stats.chisquare(counts, expected * 200_000).pvalue > RARE


def test_binary_estimates_are_unbiased_with_the_stated_error():
    mechanism, bits = BinaryResponse(0.8), np.repeat([1, 0], [300, 700])
    answers = mechanism.sample(bits, 4000, source=InsecureSeededSource(6))
    about, error = mechanism.estimate(answers.sum(axis=1), 1000)
    assert stats.ttest_1samp((about - 300) / error, 0).pvalue > RARE
    squares = (((about - 300) / error) ** 2).sum()
    assert stats.chi2.sf(squares, 4000) > RARE
    assert stats.chi2.cdf(squares, 4000) > RARE


def test_kary_estimates_are_unbiased_with_the_stated_error():
    mechanism, meant = KaryResponse(4, 1.0), np.array([500, 300, 200, 0])
    column = np.repeat(np.arange(4), meant)
    answers = mechanism.sample(column, 4000, source=InsecureSeededSource(7))
    estimated = [mechanism.estimate(np.bincount(row, minlength=4)) for row in answers]
    about, error = np.array([t[0] for t in estimated]), np.array([t[1] for t in estimated])
    for symbol in range(4):
        away = (about[:, symbol] - meant[symbol]) / about[:, symbol].std(ddof=1)
        assert stats.ttest_1samp(away, 0).pvalue > RARE
    # The errors use the estimated frequencies, so they match in the mean only. Of 4000 answers, the
    # deviation has a relative deviation of 1 / sqrt(8000), so 6 % off is 5.3 of those: p < 1e-6.
    assert np.allclose(error.mean(axis=0), about.std(axis=0), rtol=0.06)
    assert np.allclose(about.sum(axis=1), 1000)


def test_tables_are_answered_in_their_shape():
    bits = np.zeros((3, 5), bool)
    assert BinaryResponse(1.0).run(bits).shape == (3, 5)
    assert BinaryResponse(1.0).run(bits).dtype == np.uint8
    assert type(BinaryResponse(1.0).run(True)) is int
    assert type(KaryResponse(3, 1.0).run(2)) is int
    assert KaryResponse(3, 1.0).run([]).shape == (0,)
    about, error = BinaryResponse(1.0).estimate(np.array([3, 4]), 5)
    assert about.shape == (2,)
    assert error > 0


@pytest.mark.parametrize("mechanism", [BinaryResponse(1.0), KaryResponse(3, 1.0)], ids=["B", "K"])
@pytest.mark.parametrize(
    ("malformed", "taken"),
    [
        (9, 9),
        (-1, 0),
        ("a", 0),
        ("1", 1),
        (None, 0),
        (math.nan, 0),
        (math.inf, 9),
        ([1], 0),
        (0.5, 0),
    ],
)
def test_an_entry_outside_of_the_domain_is_clipped_and_changes_no_other(
    mechanism, malformed, taken
):
    most = 1 if isinstance(mechanism, BinaryResponse) else 2
    want = mechanism.run([1, 0, min(taken, most)], source=InsecureSeededSource(1))
    got = mechanism.run([1, 0, malformed], source=InsecureSeededSource(1))
    assert got.tolist() == want.tolist()
    assert got.dtype == want.dtype
    masked = np.ma.array([1, 1], mask=[False, True])
    got = mechanism.run(masked, source=InsecureSeededSource(1))
    assert got.tolist() == mechanism.run([1, 0], source=InsecureSeededSource(1)).tolist()


def test_counts_that_cannot_be_are_refused():
    for count, n in [(6, 5), (-1, 5), (2.5, 5), (3, 0)]:
        with pytest.raises(ValueError, match="BinaryResponse"):
            BinaryResponse(1.0).estimate(count, n)
    with pytest.raises(ValueError, match="counts must be 3 numbers"):
        KaryResponse(3, 1.0).estimate([1, 2])


class Given:
    """A source of the words it was given."""

    def __init__(self, words):
        self.words = words

    def fill(self, out):
        out[:] = self.words


@pytest.mark.parametrize("symbols", [2, 3, 5, 129])
def test_symbols_are_answered_with_exactly_the_stated_probabilities(symbols):
    # Words are uniform below 2**32; those from s wrong to (s + 1) wrong - 1 lead to s, others to
    # the true symbol. The ends of every stretch show that.
    mechanism = KaryResponse(symbols, 1.5)
    wrong = mechanism.wrong_probability * 2**32
    assert wrong.denominator == 1
    words = [at for s in range(symbols) for at in (s * wrong, (s + 1) * wrong - 1)]
    words = [int(word) for word in (*words, symbols * wrong, 2**32 - 1)]
    for true in (0, symbols - 1):
        got = mechanism.run(np.full(len(words), true), source=Given(words))
        assert got.tolist() == [s for s in range(symbols) for _ in "ab"] + [true, true]
    right = 1 - (symbols - 1) * mechanism.wrong_probability
    assert mechanism.change_probability == 1 - right
    assert mechanism.loss().probability == mechanism.wrong_probability / (
        right + mechanism.wrong_probability
    )


def test_an_answer_between_two_symbols_is_a_function_of_one_flipped_bit():
    # Given each of the two symbols, made up from the flipped bit and shared probabilities alone.
    mechanism = KaryResponse(5, 1.2, cells=3)
    wrong, flip = mechanism.wrong_probability, mechanism.loss().probability
    right = 1 - mechanism.change_probability
    result = right + wrong  # the probability that the bit decides
    assert result * (1 - flip) == right
    assert result * flip == wrong
    assert 1 - result == 3 * wrong  # else one of the other three, all equal
    assert mechanism.loss().cells == 3
