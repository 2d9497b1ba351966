"""PCA: the eigenvectors of the covariance, as scikit-learn's; streams and merges give the same."""

import warnings

import numpy as np
import pytest
from sklearn import decomposition
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

from sfumato.mine.decompose import PCA

DRAWS = np.random.default_rng(0)
TABLE = DRAWS.normal(size=(400, 6)) @ DRAWS.normal(size=(6, 6)) + 5


@pytest.mark.parametrize(
    "model", [PCA(), PCA(1), PCA(0.9, whiten=True)], ids=["all", "one", "energy"]
)
def test_scikit_learns_checks_pass(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(model):
            if check.func.__name__ != "check_array_api_input":  # needs a setting of SciPy
                check(estimator)


@pytest.mark.parametrize("n", [None, 1, 3, 6, 0.5, 0.95])
@pytest.mark.parametrize("whiten", [False, True])
def test_components_are_those_of_scikit_learn(n, whiten):
    mine = PCA(n, whiten=whiten).fit(TABLE)
    peer = decomposition.PCA(n, whiten=whiten, svd_solver="full").fit(TABLE)
    signs = np.sign((mine.components_ * peer.components_).sum(axis=1))
    assert mine.n_components_ == peer.n_components_
    np.testing.assert_allclose(mine.components_, peer.components_ * signs[:, None], atol=1e-8)
    for name in ("explained_variance_", "explained_variance_ratio_", "mean_"):
        np.testing.assert_allclose(getattr(mine, name), getattr(peer, name), rtol=1e-8)
    np.testing.assert_allclose(mine.transform(TABLE), peer.transform(TABLE) * signs, atol=1e-7)
    found = mine.inverse_transform(mine.transform(TABLE))
    np.testing.assert_allclose(found, peer.inverse_transform(peer.transform(TABLE)), atol=1e-7)
    assert list(mine.get_feature_names_out()) == [f"pca{i}" for i in range(mine.n_components_)]


def test_streams_and_merges_are_the_fit_of_all_rows():
    whole = PCA(3).fit(TABLE)
    stream = PCA(3)
    for part in np.array_split(TABLE, [1, 2, 50, 333]):
        stream.partial_fit(part)
    left, right = PCA(3).fit(TABLE[:90]), PCA(3).fit(TABLE[90:])
    left.merge(right)
    for other in (stream, left):
        assert other.n_samples_ == 400
        np.testing.assert_allclose(other.components_, whole.components_, atol=1e-9)
        np.testing.assert_allclose(other.explained_variance_, whole.explained_variance_, rtol=1e-9)
        np.testing.assert_allclose(other.mean_, whole.mean_)


def test_a_mean_far_from_zero_costs_no_digits():
    far = PCA(2).fit(TABLE + 1e8)
    np.testing.assert_allclose(far.explained_variance_, PCA(2).fit(TABLE).explained_variance_, 1e-5)


def test_constant_columns_and_one_row_are_defined():
    table = np.column_stack([TABLE, np.full(400, 7.0)])
    model = PCA().fit(table)
    assert model.explained_variance_[-1] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(model.components_[:-1, -1], 0, atol=1e-9)
    flat = PCA(whiten=True).fit(np.ones((5, 3)))
    assert not flat.explained_variance_.any()
    assert not flat.explained_variance_ratio_.any()
    np.testing.assert_array_equal(flat.transform(np.ones((2, 3))), np.zeros((2, 3)))
    np.testing.assert_allclose(PCA().fit(TABLE[:1]).mean_, TABLE[0])


@pytest.mark.parametrize("n", [0, 7, -1, 0.0, 1.0, 1.5, "all", True, np.nan])
def test_a_bad_number_of_components_is_refused(n):
    with pytest.raises(ValueError, match="n_components must be"):
        PCA(n).fit(TABLE)


def test_what_cannot_be_merged_or_used_says_so():
    with pytest.raises(NotFittedError, match="call fit first"):
        PCA().transform(TABLE)
    with pytest.raises(ValueError, match="columns are 6 here and 2 there"):
        PCA().fit(TABLE).merge(PCA().fit(TABLE[:, :2]))
    with pytest.raises(TypeError, match="cannot merge with list"):
        PCA().fit(TABLE).merge([])
    with pytest.raises(ValueError, match="must have 2 columns"):
        PCA(2).fit(TABLE).inverse_transform(TABLE)
    with pytest.raises(ValueError, match="NaN"):
        PCA().fit([[1.0, np.nan], [1.0, 2.0]])
    with pytest.raises(ValueError, match="scale it"):
        PCA().fit([[1e200, 1.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="whiten must be"):
        PCA(whiten=1).fit(TABLE)
