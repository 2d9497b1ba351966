"""The older decoding is a true lasso followed by true least squares."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Lasso, LinearRegression

from sfumato.telemetry import Rappor, decode
from sfumato.telemetry.decoding.design import Design
from sfumato.telemetry.decoding.methods import chosen_by_lasso, lasso
from support.simulated_telemetry import draw

SCHEME = Rappor(bits=32, hashes=2, cohorts=6, f=0.5, p=0.1, q=0.8)
WORDS = [f"w{n}" for n in range(60)]


def world(seed=2):
    clients = (40_000 / np.arange(1, 61)).astype(np.int64)
    clients[30:] = 0
    return draw(SCHEME, SCHEME.members(WORDS), clients, np.random.default_rng(seed)), clients


@pytest.mark.parametrize("level", [True, False])
def test_the_weights_are_those_of_scikit_learn(level):
    design, rng = Design(SCHEME, WORDS), np.random.default_rng(4)
    target = design.matrix @ rng.exponential(3, 60) + rng.standard_normal(192) + 5
    for penalty in (0.5, 20.0, 80.0):
        peer = Lasso(penalty / 192, positive=True, fit_intercept=level, tol=1e-12, max_iter=10**6)
        peer.fit(design.matrix.toarray(), target)
        found = chosen_by_lasso(design.matrix, target, penalty, level=level)
        assert np.allclose(found, peer.coef_, atol=1e-4)


def test_least_squares_on_the_chosen_is_that_of_the_books():
    counts, _ = world()
    design = Design(SCHEME, WORDS)
    found = lasso(counts, design, other=True)
    t = (counts.cells - float(SCHEME.low) * counts.reports[:, None]) / float(
        SCHEME.high - SCHEME.low
    )
    t = (t * counts.reports.sum() / counts.reports[:, None]).reshape(-1)
    columns = design.matrix.toarray()[:, found.chosen]
    peer = LinearRegression().fit(columns, t)
    assert np.allclose(found.estimate[found.chosen], peer.coef_)
    full = np.column_stack([columns, np.ones(192)])
    freedom = 192 - full.shape[1]
    variance = ((t - peer.predict(columns)) ** 2).sum() / freedom
    errors = np.sqrt(variance * np.linalg.inv(full.T @ full).diagonal())[:-1]
    assert np.allclose(found.error[found.chosen], errors)
    message = stats.t.sf(peer.coef_ / errors, freedom)
    assert np.allclose(found.p_value[found.chosen], message)


def test_decoding_by_lasso_finds_the_frequent_words_and_says_how():
    counts, clients = world()
    table = decode(counts, WORDS, method="lasso", correction="bonferroni")
    assert table.detected[:8].all()
    assert table.detected[30:].sum() <= 1
    assert np.abs(table.estimate - clients)[:5].max() < 6 * table.std_error[:5].max()
    assert any("Lasso chose" in note for note in table.notes)
    closed = decode(counts, WORDS, method="lasso", other=False)
    assert closed.detected[:8].all()


def test_constant_targets_choose_nothing():
    flat = SimpleNamespace(
        scheme=SCHEME, cells=np.full((6, 32), 100), reports=np.full(6, 400, np.int64)
    )
    table = decode(flat, WORDS, method="lasso")
    assert not table.detected.any()
    assert table.estimate.sum() == 0
