"""Answers of any kind are audited: infinite, not numbers, of unusual shapes, floats bit by bit."""

import numpy as np
import pytest

from sfumato.attack import audit, low_bits
from sfumato.privacy.noise.discrete import coins, discrete_laplace
from sfumato.privacy.random_source import InsecureSeededSource

# Where a claim is true an audit fails with p <= 1e-8; with fewer than 100 audits, p < 1e-6.
SURE = 1 - 1e-8


def seeded(sample, **options):
    """An audit of sample(value, trials, source) on the neighbours 0 and 1."""
    options = {"claimed": 1, "confidence": SURE, "source": InsecureSeededSource(5), **options}
    return audit(sample, (0, 1), options.pop("trials", 20_000), **options)


def test_a_score_can_be_given_for_answers_that_are_no_numbers():
    def words(value, trials, source):
        return np.where(coins(0.5, trials, source=source), f"item {value}", "none")

    with pytest.raises(TypeError, match="audit: answers must be numbers; for others give a score"):
        seeded(words)
    assert not seeded(words, score=lambda answers: answers == "item 1").passed


def test_answers_that_are_not_finite_are_answers():
    def overflows(value, trials, source):
        noisy = discrete_laplace(1, trials, source=source).astype(float)
        return np.where(coins(0.5, trials, source=source), noisy, [np.inf, np.nan][value])

    assert not seeded(overflows)  # infinite, or no number: each is an answer of its own
    assert seeded(lambda v, n, s: np.full(n, [0.0, np.nan][v])).epsilon > 5


def test_low_bits_are_the_power_of_the_lowest_one():
    values = np.array(
        [1.0, -1.0, 3.0, 2.0**-1074, 2.0**1000, 0.0, np.inf, np.nan, 2.0**60 + 2.0**8]
    )
    wanted = [0, 0, 0, -1074, 1000, 1024, 1024, 1024, 8]
    np.testing.assert_array_equal(low_bits(values), wanted)
    np.testing.assert_array_equal(low_bits(np.float32([0.5, 0.75])), [-1, -2])


def test_neighbours_answers_and_scores_of_the_wrong_shape_are_refused():
    def fine(value, trials, source):
        return np.arange(trials)

    for neighbours in ((1,), (1, 2, 3), 5):
        with pytest.raises(ValueError, match="audit: neighbours must be two values"):
            audit(fine, neighbours, 100, claimed=1)
    with pytest.raises(ValueError, match="audit: mechanism must give 100 answers"):
        audit(lambda v, n, s: np.arange(n - 1), (0, 1), 100, claimed=1)
    with pytest.raises(ValueError, match="audit: score must give one number for each answer"):
        audit(fine, (0, 1), 100, claimed=1, score=lambda answers: answers[:-1])


@pytest.mark.parametrize(
    ("one", "other"),
    [(np.inf, np.nan), (-0.0, 0.0), (2**62, 2**62 + 1), (-np.inf, np.inf), (1.0, np.nan)],
)
def test_answers_that_are_no_plain_numbers_are_distinguished_too(one, other):
    def certain(value, trials, source):
        return np.full(trials, value)

    for shape in ((-1,), (-1, 1)):
        found = audit(
            lambda value, trials, source, shape=shape: np.full(trials, value).reshape(shape),
            (one, other),
            2000,
            claimed=1,
        )
        assert not found
    assert found.epsilon > 5
    assert audit(certain, (one, one), 2000, claimed=1).epsilon == 0


def test_answers_of_different_shapes_and_empty_ones_are_refused():
    with pytest.raises(ValueError, match="different shapes, which distinguishes them"):
        audit(lambda value, trials, source: np.zeros((trials, value)), (2, 3), 100, claimed=1)
    with pytest.raises(ValueError, match="must give 100 answers"):
        audit(lambda value, trials, source: np.zeros((trials, 0)), (2, 3), 100, claimed=1)
