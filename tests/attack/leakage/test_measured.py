"""Measured information of scores: right for true posteriors, honest for all others."""

import json
import math

import numpy as np
import pytest

from sfumato.attack import GroundTruth, bounds, measured_information

USERS, ITEMS, FLIP = 600, 80, 0.2


def scene(seed=0):
    """Profiles of independent items, of which every bit is released flipped; with posteriors."""
    draws = np.random.default_rng(seed)
    prior = draws.uniform(0.02, 0.5, ITEMS)
    truth = draws.random((USERS, ITEMS)) < prior
    observed = truth ^ (draws.random(truth.shape) < FLIP)
    likely = np.where(observed, 1 - FLIP, FLIP) * prior
    return prior, truth, likely / (likely + np.where(observed, FLIP, 1 - FLIP) * (1 - prior))


def released_information(prior):
    """The information of a flipped bit about each item, summed."""
    mixed = FLIP + (1 - 2 * FLIP) * prior
    return float((bounds.binary_entropy(mixed) - bounds.binary_entropy(FLIP)).sum())


def test_true_posteriors_have_the_information_of_the_release():
    # Beyond 4.5 standard errors has p < 1e-5 each; the error itself is a few percent of the total.
    for seed in range(5):
        prior, truth, scores = scene(seed)
        found = measured_information(scores, truth, prior)
        exact = released_information(prior)
        assert abs(found.nats - exact) < 4.5 * found.error + 0.01 * exact
        assert found.error < 0.05 * exact
        assert found.raw == pytest.approx(found.nats, rel=0.02)
        assert found.slope == pytest.approx(1, abs=0.05)


def test_overconfident_scores_have_no_less_and_no_more_information():
    prior, truth, scores = scene()
    odds = np.log(scores / (1 - scores)) - np.log(prior / (1 - prior))
    sure = 1 / (1 + np.exp(-(6 * odds + np.log(prior / (1 - prior)))))
    plain, found = (measured_information(each, truth, prior) for each in (scores, sure))
    assert found.raw < 0  # taken at their word they mislead
    assert found.nats == pytest.approx(plain.nats, rel=0.03)
    assert found.slope == pytest.approx(1 / 6, rel=0.1)


def test_scores_without_the_release_have_no_information():
    prior, truth, _ = scene()
    draws = np.random.default_rng(1)
    # 0, but for what is lost by fitting three numbers: about 1 / USERS nats a profile each.
    assert abs(measured_information(np.tile(prior, (USERS, 1)), truth, prior).nats) < 0.02
    guesses = measured_information(draws.random(truth.shape), truth, prior)
    assert -0.02 < guesses.nats < 4.5 * guesses.error + 0.01
    assert guesses.raw < -10
    # A prior with one bias for all items is recalibrated: removing the bias is no gain.
    low = measured_information(np.tile(prior, (USERS, 1)), truth, prior / 4)
    assert (
        abs(low.nats) < 0.35
    )  # what a shift of log-odds does not mend of a quarter of the probability


def test_a_few_users_do_not_flatter_guesses():
    # The mean of 60 is -0.10 with a standard error of 0.022: above 0 has p < 1e-5. Learned and
    # tried on the same users, guesses gain 0.13.
    draws = np.random.default_rng(3)
    gains = []
    for _ in range(60):
        truth, scores = draws.random((8, 10)) < 0.3, draws.random((8, 10))
        gains.append(measured_information(scores, truth, np.full(10, 0.3)).nats)
    assert np.mean(gains) < 0


def test_scores_of_zero_and_one_are_not_taken_as_certain():
    prior, truth, _ = scene()
    flipped = np.random.default_rng(2).random(truth.shape) < 0.01
    found = measured_information((truth ^ flipped).astype(float), truth, prior)
    mixed = 0.01 + 0.98 * prior
    exact = float((bounds.binary_entropy(mixed) - bounds.binary_entropy(0.01)).sum())
    assert math.isfinite(found.raw)
    assert 0.9 * exact < found.nats < 1.02 * exact
    perfect = measured_information(truth.astype(float), truth, prior)
    entropy = float(bounds.binary_entropy(prior).sum())
    assert 0.95 * entropy < perfect.nats < 1.02 * entropy


def test_large_tables_are_measured_in_parts(monkeypatch):
    from sfumato.attack.leakage import measured

    prior, truth, scores = scene()
    together = measured_information(scores, GroundTruth(truth, np.zeros(USERS, int)), prior)
    monkeypatch.setattr(measured, "CELLS", 1000)
    parts = measured_information(scores, truth, prior)
    assert parts.to_dict() == pytest.approx(together.to_dict())
    assert json.loads(json.dumps(parts.to_dict()))["users"] == USERS
    assert repr(parts).startswith("MeasuredInformation: ")


@pytest.mark.parametrize(
    ("scores", "truth", "prior", "sentence"),
    [
        (np.full((4, 2), 1.5), np.ones((4, 2), bool), [0.5, 0.5], "scores must be numbers from 0"),
        (np.full((4, 2), np.nan), np.ones((4, 2), bool), [0.5, 0.5], "scores must be numbers"),
        (np.ones((4, 2)), np.ones((4, 2)), [0.5, 0.5], "truth must be booleans in the shape"),
        (np.ones((4, 2)), np.ones((4, 3), bool), [0.5, 0.5], "truth must be booleans in the shape"),
        (np.ones((4, 2)), np.ones((4, 2), bool), [0.5], "prior must be 2 probabilities"),
        (np.ones((7, 2)), np.ones((7, 2), bool), [0.5, 0.5], "scores must be of at least 8 users"),
    ],
)
def test_what_cannot_be_measured_is_refused(scores, truth, prior, sentence):
    with pytest.raises(ValueError, match=f"^measured_information: {sentence}"):
        measured_information(scores, truth, prior)
