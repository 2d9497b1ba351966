"""Docstrings of the estimators name their parameters in order, by scikit-learn's own check."""

import inspect

import pytest
from sklearn.utils import _testing

from sfumato import density
from sfumato.core.estimator import BaseEstimator

docscrape = pytest.importorskip("numpydoc.docscrape", reason="numpydoc is not installed")
ESTIMATORS = [
    kind
    for kind in (getattr(density, name) for name in density.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator)
    if kind is not density.KernelFeatures  # which holds no density and has no file
]


@pytest.fixture(autouse=True)
def as_if_of_scikit_learn(monkeypatch):
    # The check passes over functions of other packages, by their full name.
    monkeypatch.setattr(
        _testing, "_get_func_name", lambda function: f"sklearn.density.{function.__qualname__}"
    )


def methods_of(kind):
    """The public methods that our code defines, in the class or in one of its bases."""
    found = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {
        name: method
        for name, method in found.items()
        if inspect.isroutine(method) and method.__module__.startswith("sfumato")
    }


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_docstrings_agree_with_signatures(kind):
    described = docscrape.ClassDoc(kind)
    assert _testing.check_docstring_parameters(kind.__init__, described) == []
    methods = methods_of(kind)
    assert {"fit", "merge", "from_release", "save", "load"} <= methods.keys()
    for method in methods.values():
        assert inspect.getdoc(method)
        assert _testing.check_docstring_parameters(method) == []


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_attribute_of_a_fit_is_described(kind):
    points = [[0.1, 0.9], [0.8, 0.2], [0.7, 0.6], [0.3, 0.4]]
    tables = kind is density.PrivateTableSampler
    made = kind({"x": (0, 1), "y": (0, 1)}, epsilon=1.0) if tables else kind()
    model = made.fit([[1, 2], [2, 3]] if kind is density.NodeDensity else points, [0, 1, 1, 0])
    fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    described = {entry.name for entry in docscrape.ClassDoc(kind)["Attributes"]}
    assert fitted
    assert fitted <= described


def test_the_check_finds_a_parameter_that_is_missing_or_out_of_order():
    def fit(X, y=None):
        """Fit.

        Parameters
        ----------
        y : array_like, default=None
            Ignored.
        """

    assert _testing.check_docstring_parameters(fit)


def test_all_estimators_are_checked():
    assert {kind.__name__ for kind in ESTIMATORS} == {
        "NodeDensity",
        "PrivateTableSampler",
        "SketchAnomalyDetector",
        "SketchClassifier",
        "SketchDensity",
        "SketchRegressor",
        "SketchSampler",
    }
