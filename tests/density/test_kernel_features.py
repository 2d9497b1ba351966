"""Inner products of features are the kernel, and a linear model on them learns as one with it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, make_circles
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from sfumato.density import KernelFeatures
from sfumato.sketch import KernelFourier
from sfumato.sketch.kernel_sums.radial_kernels import profile

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(40, 3))


def exact(kernel, bandwidth, rows, others):
    apart = np.linalg.norm(rows[:, None] - others[None], axis=2) / bandwidth
    return profile(kernel, apart.ravel()).reshape(apart.shape)


@pytest.mark.parametrize("kernel", ["gaussian", "exponential", "p-stable"])
@pytest.mark.parametrize("strata", ["stratified", "independent"])
def test_inner_products_are_the_kernel(kernel, strata):
    # A deviation is at most 1 / sqrt(2 rows) = .0055: six of them, for 1,600 pairs; seed fixed.
    sketch = KernelFourier(1.5, ([-5] * 3, [5] * 3), rows=2**14, kernel=kernel, strata=strata)
    features = sketch.transform(POINTS)
    assert features.shape == (40, 2**15)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-3)
    found = features.astype(np.float64) @ features.T.astype(np.float64)
    assert np.abs(found - exact(kernel, 1.5, POINTS, POINTS)).max() < 6 * 0.0055


def test_features_of_points_sum_to_the_estimates_of_the_sketch():
    sketch = KernelFourier(1.5, ([-5] * 3, [5] * 3), rows=37)
    far = np.vstack([POINTS[:5], [[40.0, -60.0, 7.0]]])  # beyond the bounds
    products = sketch.transform(far) @ sketch.transform(POINTS).sum(axis=0)
    np.testing.assert_allclose(products, sketch.update(POINTS).estimate(far), atol=2e-3)


def test_a_linear_model_learns_as_one_with_the_kernel():
    circles = make_circles(600, noise=0.1, factor=0.5, random_state=0)
    plain = cross_val_score(LogisticRegression(), *circles).mean()
    made = make_pipeline(KernelFeatures(0.5, rows=200), LogisticRegression(C=100))
    assert cross_val_score(made, *circles).mean() > 0.97 > plain + 0.4
    digits = load_digits(return_X_y=True)
    kernel = cross_val_score(SVC(gamma=1 / (2 * 25.0**2)), *digits, cv=2).mean()
    linear = make_pipeline(KernelFeatures(25.0, rows=1000), LogisticRegression(C=100))
    assert cross_val_score(linear, *digits, cv=2).mean() > kernel - 0.02


def test_bandwidth_is_by_default_the_median_distance():
    rows = RNG.normal(size=(3000, 5))
    assert KernelFeatures().fit(rows).bandwidth_ == pytest.approx(np.sqrt(2 * 5), rel=0.1)
    assert KernelFeatures().fit(np.ones((5, 2))).bandwidth_ == 1
    assert KernelFeatures(0.3).fit(rows).bandwidth_ == 0.3


def test_names_of_features_and_of_columns():
    table = pd.DataFrame(POINTS, columns=["a", "b", "c"])
    model = KernelFeatures(rows=3).fit(table)
    assert [*model.feature_names_in_] == ["a", "b", "c"]
    assert [*model.get_feature_names_out()] == [f"kernelfeatures{j}" for j in range(6)]
    assert (model.transform(table) == model.transform(table)).all()
    again = KernelFeatures(rows=3, random_state=1).fit(table)
    assert (again.transform(table) != model.transform(table)).any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rows": 0}, "rows must be"),
        ({"bandwidth": 0}, "bandwidth must"),
        ({"kernel": 1}, "kernel"),
    ],
)
def test_parameters_are_checked(options, words):
    with pytest.raises(ValueError, match=f"KernelFeatures: {words}"):
        KernelFeatures(**options).fit(POINTS)


@parametrize_with_checks([KernelFeatures(rows=8)])
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)
