"""The estimators of clusters keep the habits of scikit-learn, by its own checks."""

import warnings

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from sfumato.mine.cluster import CURE, Hierarchical

ESTIMATORS = [
    Hierarchical(),
    Hierarchical(linkage="single"),
    Hierarchical(linkage="average", metric="manhattan"),
    Hierarchical(method="divisive"),
    Hierarchical(None, stop="jump"),
    CURE(),
    CURE(initial=10, outliers=0.0),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_scikit_learns_checks_pass(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each, check in estimator_checks_generator(clone(estimator)):
            if check.func.__name__ != "check_array_api_input":  # needs a setting of SciPy
                check(each)
