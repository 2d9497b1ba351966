"""Without privacy a classifier is no worse than plain logistic regression, and keeps its habits."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sfumato.density import SketchClassifier, load
from sfumato.density.classify.logistic import MANY, SHARE
from sfumato.engine import LocalEngine

RNG = np.random.default_rng(0)


def digits():
    X, y = load_digits(return_X_y=True)
    return PCA(10, random_state=0).fit_transform(X), y


WINE = load_wine(return_X_y=True)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("data", [digits(), load_digits(return_X_y=True)], ids=["10", "64"])
def test_it_reaches_plain_logistic_regression(data, seed):
    train, test, y, y_test = train_test_split(*data, test_size=0.3, random_state=seed)
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(train, y)
    model = SketchClassifier().fit(train, y)
    assert model.method_ == "logistic"
    assert model.score(test, y_test) >= plain.score(test, y_test) - 0.003
    assert model.score(test, y_test) > SketchClassifier(method="columns").fit(train, y).score(
        test, y_test
    )


def test_on_straight_classes_probabilities_are_those_of_plain_logistic_regression():
    X = RNG.normal(size=(4000, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + RNG.logistic(size=4000) > 0
    plain = LogisticRegression(C=1.0).fit(X, y)
    ours = SketchClassifier().fit(X, y)
    queries = RNG.normal(size=(500, 4))
    difference = ours.predict_proba(queries) - plain.predict_proba(queries)
    assert np.abs(difference).mean() < 0.03  # evidence bends them a little


def test_classes_in_the_middle_are_found_by_evidence():
    X = RNG.normal(size=(4000, 4))
    y = np.abs(X[:, 0]) < 0.7
    assert SketchClassifier().fit(X, y).score(X, y) > LogisticRegression().fit(X, y).score(X, y)


def test_categories_count_by_their_evidence_and_not_their_code():
    codes = RNG.integers(0, 6, 6000)
    y = RNG.random(6000) < np.array([0.9, 0.1, 0.8, 0.2, 0.7, 0.3])[codes]
    X = np.column_stack([codes, RNG.normal(size=(6000, 3))])
    model = SketchClassifier(categorical=[0]).fit(X, y)
    assert model.method_ == "logistic"
    probability = model.predict_proba(np.column_stack([np.arange(6), np.zeros((6, 3))]))[:, 1]
    np.testing.assert_allclose(probability, [0.9, 0.1, 0.8, 0.2, 0.7, 0.3], atol=0.06)


def test_files_and_priors_are_those_of_the_other_methods(tmp_path):
    model = SketchClassifier(method="logistic").fit(*WINE)
    model.save(tmp_path / "model")
    twin = load(tmp_path / "model")
    np.testing.assert_array_equal(twin.predict_proba(WINE[0]), model.predict_proba(WINE[0]))
    odds = model.predict_log_proba(WINE[0])
    even = SketchClassifier(method="logistic", priors=None).fit(*WINE).predict_log_proba(WINE[0])
    shift = (odds - even) - (odds - even)[:, :1]
    sizes = np.bincount(WINE[1])
    np.testing.assert_allclose(shift, np.tile(np.log(sizes / sizes[0]), (len(odds), 1)), atol=1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("every", [1, 8])
def test_many_rows_begin_from_some_of_them_that_have_a_weight(every):
    """Rows without weight do not count, also where they are all that a start would be made of."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(MANY + 100, 3))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)
    weights = np.ones(len(X))
    weights[::SHARE] = every == 1
    options = dict(method="logistic", bounds=(-6, 6))
    many = SketchClassifier(**options).fit(X, y, sample_weight=weights)
    few = SketchClassifier(**options).fit(X[weights > 0][:20_000], y[weights > 0][:20_000])
    assert np.isfinite(many.predict_proba(X)).all()
    # Two fits of 20,000 and more rows: their deviation from each other is about 0.01.
    assert np.abs(many.predict_proba(X) - few.predict_proba(X)).mean() < 0.03


def test_weights_are_repetitions():
    X, y = digits()
    weights = RNG.integers(0, 3, len(y))
    bounds = dict(method="logistic", bounds=(-60, 60))
    weighed = SketchClassifier(**bounds).fit(X, y, sample_weight=weights)
    repeated = SketchClassifier(**bounds).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    difference = weighed.predict_proba(X) - repeated.predict_proba(X)
    assert np.abs(difference).max() < 1e-3


def test_a_class_without_rows_and_a_single_class_are_no_error():
    X, y = WINE
    absent = SketchClassifier(method="logistic", classes=[0, 1, 2, 7]).fit(X, y)
    assert absent.predict_proba(X)[:, 3].max() < 0.1
    single = SketchClassifier(method="logistic").fit(X, np.zeros(len(X), int))
    assert (single.predict_proba(X) == 1).all()


def test_more_features_than_memory_are_made_again(monkeypatch):
    from sfumato.density.classify import logistic

    before = SketchClassifier(method="logistic").fit(*WINE).predict_proba(WINE[0])
    monkeypatch.setattr(logistic, "MOST_FEATURES", 0)
    monkeypatch.setattr(logistic, "BLOCK", 50)
    again = SketchClassifier(method="logistic").fit(*WINE).predict_proba(WINE[0])
    np.testing.assert_allclose(before, again, atol=1e-3)


def test_what_it_cannot_do_is_refused_in_words():
    X, y = WINE
    how = dict(epsilon=1.0, bounds=(0, 2000), classes=[0, 1, 2])
    with pytest.raises(ValueError, match="'logistic' has no private release"):
        SketchClassifier(method="logistic", **how).fit(X, y)
    assert SketchClassifier(**how).fit(X, y).method_ == "columns"
    rows = pa.table({**{f"x{at}": X[:, at] for at in range(4)}, "kind": y})
    open_terms = dict(engine=LocalEngine(), columns=["x0", "x1", "x2", "x3"], label="kind")
    terms = dict(bounds=(0, 2000), classes=[0, 1, 2])
    with pytest.raises(ValueError, match="needs all rows at once"):
        SketchClassifier(method="logistic", **terms).fit_rows(rows, **open_terms)
    assert SketchClassifier(**terms).fit_rows(rows, **open_terms).method_ == "columns"
    model = SketchClassifier(method="logistic").fit(X, y)
    with pytest.raises(ValueError, match="merge needs method 'kernel'"):
        model.merge(SketchClassifier(method="logistic").fit(X, y))
