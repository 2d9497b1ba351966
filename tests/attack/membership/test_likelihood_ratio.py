"""The attack from factors: it finds what they betray, finds nothing where they betray nothing."""

import numpy as np
import pytest

from sfumato.attack import membership_inference
from sfumato.attack.membership.likelihood_ratio import _features, _inverse_moments
from sfumato.attack.membership.records import Records
from sfumato.attack.numerics import logistic_weights
from sfumato.data import Interactions
from support.fake_models import LeastSquares, ratings_world


@pytest.fixture(scope="module")
def split():
    return ratings_world(seed=1).split(0.5, 0.5)


def test_the_weights_are_where_the_loss_has_no_slope():
    draws = np.random.default_rng(0)
    features = np.concatenate(
        [draws.normal(size=(4, 3000)) * [[1], [10], [0.1], [1]], [[1] * 3000]]
    )
    second = (draws.random(3000) < 1 / (1 + np.exp(-(features[0] - 0.1 * features[1])))) * 1.0
    weights = logistic_weights(features, second, ridge=0.5)
    probability = 1 / (1 + np.exp(-(weights @ features)))
    slope = features @ (second - probability) - 0.5 * weights
    assert np.abs(slope).max() < 1e-4
    assert weights[:2] == pytest.approx([1, -0.1], abs=0.2)


@pytest.mark.parametrize("ridge", [1e-6, 1.0])
def test_separable_rows_and_idle_features_leave_the_weights_finite(ridge):
    features = np.array([[-1.0, 1.0] * 50, [0.0] * 100, [1.0] * 100])
    weights = logistic_weights(features, np.array([0.0, 1.0] * 50), ridge)
    assert np.isfinite(weights).all()
    assert weights[0] > 1
    assert weights[1] == 0


@pytest.mark.parametrize("side", [0.0, 1.0])
def test_rows_of_one_class_have_weights_too(side):
    weights = logistic_weights(np.ones((1, 100)), np.full(100, side))
    slope = 100 * (side - 1 / (1 + np.exp(-weights[0]))) - weights[0]
    assert slope == pytest.approx(0, abs=1e-4)
    assert np.sign(weights[0]) == 2 * side - 1


class Given:
    """A model whose vectors are made from the pairs it learned from, as a test wants them."""

    def __init__(self, users, items):
        self.p, self.q, self.mean_ = users, items, 3.0

    def _user_vectors(self, users):
        return self.p[users]

    def _item_vectors(self, items):
        return self.q[items]

    def predict(self, users, items):
        return 3 + 0.001 * (users % 7)


def test_a_statistic_of_a_pair_is_what_its_name_says():
    draws = np.random.default_rng(0)
    p, q = draws.normal(size=(2, 50, 7)).astype(np.float32)
    rows = Interactions(np.arange(50), np.arange(50), np.full(50, 4.0))
    observed = Records(rows, *np.zeros((4, 50)))
    a, b = p[:, :-1].astype(float), q[:, :-1].astype(float)
    shape = _inverse_moments(b)
    found = _features(Given(p, q), observed, shape, True)
    lengths = [np.linalg.norm(side, axis=1) for side in (a, b)]
    inner = (a * b).sum(axis=1)
    inverse = np.linalg.inv(b.T @ b / 50)
    expected = [
        *(inner, abs(inner), np.diag(a @ inverse @ b.T), np.diag(b @ inverse @ b.T)),
        *(*lengths, inner / lengths[0] / lengths[1], p[:, -1], q[:, -1]),
    ]
    assert np.abs(found[:9] - expected).max() < 1e-5
    assert found[3].mean() == pytest.approx(6)  # leverages add up to the dimensions
    error = 4 - (3 + inner + p[:, -1] + q[:, -1])
    assert np.abs(found[9:] - [error, abs(error), rows.ratings]).max() < 1e-5


def test_factors_that_point_at_what_was_rated_betray_it(split):
    # p_u is the sum of the directions of u's learned items: p_u.q_i is larger for those.
    train, _ = split
    draws = np.random.default_rng(0)
    q = np.c_[draws.normal(0, 1, (200, 64)), np.zeros(200)].astype(np.float32)
    p = np.zeros((300, 65), np.float32)
    np.add.at(p, train.users, q[train.items])
    found = membership_inference(Given(p, q), *split)
    assert found.attacks["factors"].auc.low > 0.8
    assert found.attacks["factors"].epsilon.epsilon > 1
    assert found.attacks["loss"].auc.low < 0.5


def test_factors_at_random_betray_nobody(split):
    # Two intervals and one bound, each fails with p <= 1e-6.
    draws = np.random.default_rng(0)
    made = Given(*(draws.normal(size=(n, 9)).astype(np.float32) for n in (300, 200)))
    found = membership_inference(made, *split, confidence=1 - 1e-6)
    for name in ("factors", "factors and rating"):
        assert found.attacks[name].auc.low <= 0.5 <= found.attacks[name].auc.high
    assert found.epsilon.epsilon == 0


@pytest.mark.parametrize("rank", [0, 1])
def test_vectors_without_variance_are_no_trouble(split, rank):
    p, q = (np.zeros((n, 5), np.float32) for n in (300, 200))
    q[:, :rank] = 1
    for attack in membership_inference(Given(p, q), *split).attacks.values():
        assert attack.auc == pytest.approx(0.5, abs=0.05)


def test_the_holder_of_factors_finds_at_least_what_predictions_tell(split):
    model = LeastSquares(12, 1e-3).fit(split[0])
    attacks = membership_inference(model, *split).attacks
    assert attacks["factors and rating"].auc > attacks["loss"].auc
