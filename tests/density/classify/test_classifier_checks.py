"""SketchClassifier keeps the habits of scikit-learn, by its own checks, in both methods."""

import warnings

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from sfumato.density import SketchClassifier


@pytest.mark.parametrize("method", ["columns", "kernel"])
def test_scikit_learns_checks_pass(method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(SketchClassifier(method=method)):
            if check.func.__name__ != "check_array_api_input":  # needs a setting of SciPy
                check(estimator)
