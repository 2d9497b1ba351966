"""PrivatePCA: everything follows from the release of the moments, and nothing else speaks."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from sfumato.core.storage import load_any
from sfumato.mine.decompose import PCA, PrivatePCA
from sfumato.privacy import BudgetExceeded, Ledger, Privacy
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import Moments

DRAWS = np.random.default_rng(0)
BASIS = np.linalg.qr(DRAWS.normal(size=(5, 5)))[0]
TABLE = (DRAWS.normal(size=(20_000, 5)) * [1.0, 0.6, 0.3, 0.1, 0.1]) @ BASIS + 1
BOUNDS = ([-4] * 5, [6] * 5)
# Private fits refuse no row, and differ from fit to fit; a table of one column has no moments.
UNLIKE_OTHERS = {
    "check_array_api_input",
    "check_complex_data",
    "check_dtype_object",
    "check_estimators_empty_data_messages",
    "check_estimators_nan_inf",
    "check_fit_idempotent",
    "check_pipeline_consistency",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
}


def fitted(seed=1, n=2, **options):
    model = PrivatePCA(n, **{"epsilon": 2.0, "bounds": BOUNDS, **options})
    return model.fit(TABLE, source=InsecureSeededSource(seed))


def captured(model):
    """The variance along the components, as a fraction of the best for as many."""
    covariance = np.cov(TABLE.T)
    best = np.linalg.eigvalsh(covariance)[::-1][: model.n_components_].sum()
    return np.einsum("ij,jk,ik->", model.components_, covariance, model.components_) / best


def test_scikit_learns_checks_pass_but_for_those_that_privacy_forbids():
    model = PrivatePCA(1, epsilon=50.0, bounds=(-5, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(model):
            if check.func.__name__ not in UNLIKE_OTHERS:
                check(estimator)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_with_little_noise_the_components_are_those_of_the_clipped_table(delta):
    # Noise at epsilon 1000 moves no sum by more than 1e-4 of the rows.
    model = fitted(n=None, epsilon=1000.0, delta=delta)
    exact = PCA().fit(np.clip(TABLE, -4, 6))
    np.testing.assert_allclose(model.mean_, exact.mean_, atol=1e-2)
    np.testing.assert_allclose(model.explained_variance_, exact.explained_variance_, atol=2e-2)
    np.testing.assert_allclose(
        np.abs(model.components_[:3]), np.abs(exact.components_[:3]), atol=0.05
    )


def test_components_are_near_the_best_at_a_moderate_epsilon_and_noise_at_a_tiny_one():
    # 10 seeds each; a random plane of five dimensions has about 0.45 of the best variance.
    good = [captured(fitted(seed)) for seed in range(10)]
    bad = [captured(fitted(seed, epsilon=1e-4)) for seed in range(10)]
    assert min(good) > 0.97
    assert np.mean(bad) < 0.85


def test_everything_follows_from_the_release():
    model = fitted()
    again = PrivatePCA.from_release(load_any(model.release_.to_bytes()), 2)
    for name in ("components_", "mean_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.statement_ == model.statement_
    np.testing.assert_array_equal(again.transform(TABLE[:3]), model.transform(TABLE[:3]))
    state = {name for name in vars(model) if name.endswith("_")}
    assert state == {
        "n_features_in_",
        "n_components_",
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "mean_",
        "release_",
        "statement_",
    }


def test_the_release_is_that_of_the_moments_of_all_columns():
    model = fitted()
    moments = Moments(BOUNDS).update(TABLE)
    wanted = moments.release(2.0, 0.0, source=InsecureSeededSource(1))
    assert model.release_ == wanted
    statement = model.statement_
    assert (statement.epsilon, statement.delta, statement.unit) == (2.0, 0.0, "event")
    assert statement.relation == "add/remove"


def test_the_covariance_is_that_of_the_noisy_sums():
    model = fitted(n=None, epsilon=0.5)
    sums = model.release_.matrix()
    mean = np.clip(sums[0, 1:] / model.release_.size(), -1, 1)
    covariance = sums[1:, 1:] / model.release_.size() - np.outer(mean, mean)
    values, _ = np.linalg.eigh(covariance * 25)  # bounds are 10 wide
    np.testing.assert_allclose(model.explained_variance_, np.maximum(values[::-1], 0), atol=1e-9)
    np.testing.assert_allclose(model.mean_, 1 + 5 * mean)


def test_the_ledger_is_charged_before_noise_and_refuses_what_is_too_much(tmp_path):
    ledger = Ledger(tmp_path / "l")
    ledger.create("table", epsilon=3.0)
    model = PrivatePCA(2, epsilon=2.0, bounds=BOUNDS, ledger=ledger, dataset="table")
    model.fit(TABLE)
    assert ledger.spent("table").epsilon == pytest.approx(2.0)
    assert model.statement_.dataset == "table"
    before = model.components_
    with pytest.raises(BudgetExceeded):
        model.fit(TABLE)
    np.testing.assert_array_equal(model.components_, before)
    assert ledger.spent("table").epsilon == pytest.approx(2.0)


def test_a_bad_number_of_components_costs_nothing(tmp_path):
    ledger = Ledger(tmp_path / "l")
    ledger.create("table", epsilon=3.0)
    with pytest.raises(ValueError, match="n_components must be"):
        PrivatePCA(9, epsilon=2.0, bounds=BOUNDS, ledger=ledger, dataset="table").fit(TABLE)
    assert ledger.spent("table").epsilon == 0


def test_a_retry_returns_the_stored_release_at_no_cost(tmp_path):
    ledger = Ledger(tmp_path / "l")
    ledger.create("table", epsilon=3.0)
    paid = Privacy(2.0, ledger=ledger, dataset="table", release_id="first")
    first, second = (PrivatePCA(2, privacy=paid, bounds=BOUNDS).fit(TABLE) for _ in range(2))
    assert first.release_ == second.release_
    assert ledger.spent("table").epsilon == pytest.approx(2.0)


def test_a_clone_may_not_charge(tmp_path):
    ledger = Ledger(tmp_path / "l")
    ledger.create("table", epsilon=3.0)
    model = PrivatePCA(2, epsilon=1.0, bounds=BOUNDS, ledger=ledger, dataset="table")
    for twin in (clone(model), copy.deepcopy(model)):
        with pytest.raises(ValueError, match="this is a clone"):
            twin.fit(TABLE)
    assert ledger.spent("table").epsilon == 0


def test_no_row_is_refused_and_no_rows_are_a_fit():
    rows = TABLE[:50].tolist()
    for odd in (["a"] * 5, None, [np.nan] * 5, [1], [np.inf] * 5, {}, [1e300] * 5):
        model = PrivatePCA(2, epsilon=1.0, bounds=BOUNDS).fit([*rows, odd])
        assert model.components_.shape == (2, 5)
    for none in ([], np.empty((0, 5))):
        model = PrivatePCA(epsilon=1.0, bounds=BOUNDS).fit(none)
        assert np.isfinite(model.components_).all()
        assert np.isfinite(model.explained_variance_).all()


def test_a_tiny_epsilon_still_fits_its_cells():
    model = PrivatePCA(epsilon=1e-6, bounds=BOUNDS).fit(TABLE[:10])
    assert np.isfinite(model.components_).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"epsilon": None}, "PrivatePCA: epsilon must be given"),
        ({"epsilon": -1}, "PrivatePCA: epsilon must be"),
        ({"bounds": None}, "PrivatePCA: bounds must be"),
        ({"bounds": ([0] * 3, [1] * 3)}, "PrivatePCA: bounds must be for 5 columns"),
        ({"n": 9}, "PrivatePCA: n_components must be an integer from 1 to 5"),
        ({"delta": 1.0}, "PrivatePCA: delta must be"),
        ({"whiten": "yes"}, "PrivatePCA: whiten must be"),
        ({"privacy": Privacy(1.0)}, "privacy and epsilon must not both be given"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_paid(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        fitted(**options)


def test_other_releases_are_refused():
    release = Moments(BOUNDS, 2).update(TABLE[:10]).release(1.0)
    with pytest.raises(TypeError, match="of degree 1"):
        PrivatePCA.from_release(release)
    with pytest.raises(ValueError, match="at least 2 columns"):
        PrivatePCA(epsilon=1.0, bounds=(0, 1)).fit(TABLE[:, :1])
