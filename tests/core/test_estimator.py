"""Estimators answer to scikit-learn as those that inherit from it, though they do not load it."""

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn import base
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags, metadata_routing, validation

from sfumato.core import estimator, estimator_data, estimator_mixins
from sfumato.density import (
    SketchAnomalyDetector,
    SketchClassifier,
    SketchDensity,
    SketchRegressor,
)
from sfumato.mine.cluster import KMeans
from sfumato.mine.decompose import PCA

ROWS = np.random.default_rng(0).uniform(size=(200, 3))
LABELS = (ROWS[:, 0] > 0.5).astype(int)


class Ours(
    estimator_mixins.ClassNamePrefixFeaturesOutMixin,
    estimator_mixins.TransformerMixin,
    estimator.BaseEstimator,
):
    def __init__(self, power=1, *, inner=None, text="a"):
        self.power, self.inner, self.text = power, inner, text

    def fit(self, X, y=None, sample_weight=None):
        self._n_features_out = estimator_data.validate_data(self, X, reset=True).shape[1]
        return self

    def transform(self, X):
        return estimator_data.validate_data(self, X, reset=False) ** self.power


class Theirs(base.ClassNamePrefixFeaturesOutMixin, base.TransformerMixin, base.BaseEstimator):
    __init__ = Ours.__init__

    def fit(self, X, y=None, sample_weight=None):
        self._n_features_out = validation.validate_data(self, X, dtype=np.float64).shape[1]
        return self

    def transform(self, X):
        return validation.validate_data(self, X, reset=False, dtype=np.float64) ** self.power


BOTH = pytest.mark.parametrize("kind", [Ours, Theirs])


@BOTH
def test_parameters_are_read_and_set_also_those_of_parameters(kind):
    model = kind(inner=kind(2))
    assert list(model.get_params()) == [
        *("inner__inner", "inner__power", "inner__text", "inner", "power", "text")
    ]
    assert list(model.get_params(deep=False)) == ["inner", "power", "text"]
    assert model.set_params(inner__power=5, text="b") is model
    assert (model.inner.power, model.text) == (5, "b")
    assert model.set_params(inner=kind(), inner__power=7).inner.power == 7
    with pytest.raises(ValueError, match=r"Invalid parameter 'size' for estimator (.|\n)*'power'"):
        model.set_params(size=1)


@BOTH
def test_a_clone_has_the_parameters_the_output_and_the_requests_but_no_fit(kind):
    with sklearn.config_context(enable_metadata_routing=True):
        model = kind(3, inner=kind(2)).set_output(transform="pandas")
        twin = base.clone(model.set_fit_request(sample_weight=True).fit(ROWS))
        assert twin.get_metadata_routing().fit.requests == {"sample_weight": True}
    assert (twin.power, twin.inner.power) == (3, 2)
    assert twin.inner is not model.inner
    assert not hasattr(twin, "n_features_in_")
    assert isinstance(twin.fit_transform(ROWS), pd.DataFrame)


@BOTH
def test_metadata_are_routed_on_request(kind):
    assert hasattr(kind, "set_fit_request")
    assert not hasattr(kind, "set_transform_request")
    assert list(inspect.signature(kind().set_fit_request).parameters) == ["self", "sample_weight"]
    with pytest.raises(RuntimeError, match="metadata routing is enabled"):
        kind().set_fit_request(sample_weight=True)
    with sklearn.config_context(enable_metadata_routing=True):
        model = kind().set_fit_request(sample_weight="weights")
        found = metadata_routing.get_routing_for_object(pickle.loads(pickle.dumps(model)))
        assert found.consumes("fit", ["weights", "other"]) == {"weights"}
        with pytest.raises(TypeError, match="Unexpected args"):
            model.set_fit_request(other=True)


@BOTH
@pytest.mark.parametrize(
    ("container", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)]
)
def test_output_is_in_the_container_that_was_chosen(kind, container, frame):
    model = kind(2).fit(ROWS)
    assert isinstance(model.transform(ROWS), np.ndarray)
    with sklearn.config_context(transform_output=container):
        assert isinstance(model.transform(ROWS), frame)
    found = model.set_output(transform=container).fit_transform(ROWS)
    assert isinstance(found, frame)
    assert list(found.columns) == list(model.get_feature_names_out())
    np.testing.assert_array_equal(np.asarray(found), ROWS**2)
    assert isinstance(model.set_output(transform="default").transform(ROWS), np.ndarray)


@BOTH
def test_text_and_page_show_what_is_not_default(kind):
    name = kind.__name__
    assert repr(kind()) == f"{name}()"
    assert repr(kind(2, text="b")) == f"{name}(power=2, text='b')"
    wide = repr(kind("p" * 40, text="t" * 40)).splitlines()
    assert wide == [f"{name}(power='{'p' * 40}',", " " * len(f"{name}(") + f"text='{'t' * 40}')"]
    assert len(repr(kind("p" * 5000))) < 800
    with sklearn.config_context(print_changed_only=False):
        assert repr(kind()) == f"{name}(inner=None, power=1, text='a')"
    page = kind(987).fit(ROWS)._repr_html_()
    assert "sk-estimator" in page
    assert "987" in page
    assert set(kind()._repr_mimebundle_()) == {"text/plain", "text/html"}
    with sklearn.config_context(display="text"):
        assert not hasattr(kind(), "_repr_html_")
        assert set(kind()._repr_mimebundle_()) == {"text/plain"}


def test_tags_are_those_of_scikit_learns_mixins():
    assert base.is_classifier(SketchClassifier())
    assert base.is_regressor(SketchRegressor())
    assert base.is_outlier_detector(SketchAnomalyDetector())
    assert base.is_clusterer(KMeans())
    assert get_tags(SketchDensity()).estimator_type == "density_estimator"
    assert get_tags(SketchClassifier()).target_tags.required
    assert get_tags(PCA()).transformer_tags.preserves_dtype == ["float64"]
    assert get_tags(Ours()) == get_tags(Theirs())


def test_estimators_work_in_pipelines_and_searches():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), PCA(), SketchClassifier()),
        {"pca__n_components": [1, 3]},
        cv=2,
    ).fit(ROWS, LABELS)
    assert search.best_score_ > 0.8
    assert search.best_estimator_[1].n_components_ == 3
    assert (cross_val_score(SketchRegressor(), ROWS, ROWS @ [1, 2, 3], cv=3) > 0.9).all()
    assert SketchClassifier().fit(ROWS, LABELS).score(ROWS, LABELS) > 0.8
    assert set(SketchAnomalyDetector().fit_predict(ROWS)) == {-1, 1}


def test_methods_that_an_object_lacks_are_not_listed():
    with_it, without = SketchClassifier(method="kernel"), SketchClassifier(epsilon=1.0)
    assert hasattr(with_it, "partial_fit")
    assert not hasattr(without, "partial_fit")
    assert "partial_fit" in dir(with_it)
    assert "partial_fit" not in dir(without)
    with pytest.raises(AttributeError, match="'SketchClassifier' has no attribute 'partial_fit'"):
        SketchClassifier.partial_fit(without, ROWS, LABELS)


@pytest.mark.parametrize(
    "model", [SketchDensity(), KMeans(), PCA()], ids=lambda each: type(each).__name__
)
def test_the_error_before_fit_is_scikit_learns_too_and_can_be_pickled(model):
    with pytest.raises(NotFittedError, match="not fitted yet") as found:
        (model.score_samples if hasattr(model, "score_samples") else model.transform)(ROWS)
    assert type(pickle.loads(pickle.dumps(found.value))) is type(found.value)


TABLES = {
    "array": lambda: ROWS,
    "columns first": lambda: np.asfortranarray(ROWS),
    "float32": lambda: ROWS.astype(np.float32),
    "integers": lambda: (ROWS * 9).astype(np.int8),
    "booleans": lambda: ROWS > 0.5,
    "list": lambda: ROWS.tolist(),
    "tuple of arrays": lambda: tuple(ROWS.astype(np.float32)),
    "numbers as text": lambda: ROWS.astype(str).tolist(),
    "objects": lambda: ROWS.astype(object),
    "pandas": lambda: pd.DataFrame(ROWS, columns=list("abc")),
    "pandas, numbered": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS, schema=list("abc")),
    "Arrow": lambda: pa.table(dict(zip("abc", ROWS.T, strict=True))),
    "text": lambda: [["a", "b", "c"]],
    "missing": lambda: np.where(ROWS > 0.99, np.nan, ROWS),
    "complex": lambda: ROWS + 1j,
    "one column": lambda: ROWS[:, 0],
    "cube": lambda: ROWS[None],
    "no rows": lambda: ROWS[:0],
    "two columns": lambda: ROWS[:, :2],
    "uneven": lambda: [[1.0, 2.0, 3.0], [1.0]],
    "other names": lambda: pd.DataFrame(ROWS, columns=list("abd")),
    "mixed names": lambda: pd.DataFrame(ROWS, columns=["a", 1, 2]),
}


def outcome(call):
    """The result of a call, and its error and warnings if any."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
        except (ValueError, TypeError) as error:
            found = type(error), str(error).splitlines()[0]
    return found, [(each.category, str(each.message)) for each in caught]


class Data(estimator.BaseEstimator):
    pass


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("fitted", [None, "array", "pandas"])
@pytest.mark.parametrize("table", TABLES)
def test_data_are_read_as_by_scikit_learn(table, fitted, narrow):
    ours, theirs = Data(), Data()
    dtype = [np.float64, np.float32] if narrow else np.float64

    def by_us(name, reset):
        return estimator_data.validate_data(ours, TABLES[name](), reset=reset, narrow=narrow)

    def by_them(name, reset):
        given = dict(reset=reset, dtype=dtype, order="C")
        return validation.validate_data(theirs, TABLES[name](), **given)

    if fitted is not None:
        by_us(fitted, True), by_them(fitted, True)
    found, warned = outcome(lambda: by_us(table, fitted is None))
    wanted, expected = outcome(lambda: by_them(table, fitted is None))
    assert warned == expected
    if isinstance(wanted, tuple):
        assert found == wanted
        return
    np.testing.assert_array_equal(found, wanted, strict=True)
    assert found.flags.c_contiguous
    assert vars(ours).keys() == vars(theirs).keys()
    for name, value in vars(theirs).items():
        np.testing.assert_array_equal(getattr(ours, name), value, strict=True)


def test_a_fit_without_names_forgets_those_of_an_earlier_one():
    model = Ours().fit(TABLES["pandas"]())
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert not hasattr(model.fit(ROWS), "feature_names_in_")


@pytest.mark.parametrize(
    "y", [[1, 0, 1], ["a", "b", "a"], np.array([1.0, 2.0, 2.0]), np.array(["a", "b", "a"], object)]
)
def test_labels_are_kept_as_they_are(y):
    labels = estimator_data.column_or_1d(y)
    estimator_data.check_classification_targets(labels)
    np.testing.assert_array_equal(labels, validation.column_or_1d(y), strict=True)


def test_fractions_are_no_labels_and_a_table_of_one_column_warns():
    with pytest.raises(ValueError, match="Unknown label type"):
        estimator_data.check_classification_targets(np.array([0.5, 1.5]))
    with pytest.warns(DataConversionWarning):
        assert estimator_data.column_or_1d([[1], [2]]).tolist() == [1, 2]
    with pytest.raises(ValueError, match="1d array"):
        estimator_data.column_or_1d(ROWS)


def test_targets_are_finite_and_as_many_as_rows():
    assert estimator_data.target_numbers([1, True, 2.5], 3).tolist() == [1.0, 1.0, 2.5]
    assert estimator_data.target_numbers(pd.Series([1, 2]), 2).tolist() == [1.0, 2.0]
    for y, problem in (([1.0, np.nan], "NaN"), ([1.0], "inconsistent"), (ROWS[:2], "1d array")):
        with pytest.raises(ValueError, match=problem):
            estimator_data.target_numbers(y, 2)
