"""Imputed SVD against dense NumPy: the first decomposition, the fixed point, and new users."""

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.recommend import DampedMeans, ImputedSVD, ModelFormatError, load
from sfumato.recommend.ratings.baseline import Baseline
from sfumato.recommend.ratings.rated_rows import RatedRows
from support.recommender_contract import known_rank, rmse

TRAIN, TEST = known_rank(users=40, items=25, rows=700)


def dense():
    """Residuals of the baseline as a matrix, NaN where missing, and the baseline."""
    rows = RatedRows.of(TRAIN, DampedMeans().fit(TRAIN).catalogue_)
    matrix = np.full((len(rows.users), rows.items), np.nan)
    base = Baseline.of(rows)
    matrix[rows.user_rows, rows.positions] = base.residuals(rows)
    return matrix, base.mean + base.users[:, None] + base.items


def decomposed(matrix, factors, penalty):
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    s = np.maximum(s - penalty, 0)
    return (u[:, :factors] * s[:factors]) @ v[:factors]


def estimates(model):
    """Predictions of all pairs before they are clipped."""
    p, q = model._user_rows.astype(float), model._item_rows.astype(float)
    return model.mean_ + p[:, :-1] @ q[:, :-1].T + p[:, -1:] + q[:, -1]


@pytest.mark.parametrize("shrinkage", [0.0, 0.6])
def test_without_iterations_missing_ratings_are_those_of_the_baseline(shrinkage):
    matrix, base = dense()
    model = ImputedSVD(factors=6, shrinkage=shrinkage, iterations=0).fit(TRAIN)
    want = base + decomposed(np.nan_to_num(matrix), 6, model.penalty_)
    np.testing.assert_allclose(estimates(model), want, atol=2e-3)
    assert (model.penalty_ > 0) == (shrinkage > 0)


def test_iterations_impute_as_dense_matrices_do():
    matrix, base = dense()
    model = ImputedSVD(factors=8, shrinkage=0.5, iterations=5).fit(TRAIN)
    full = np.zeros_like(matrix)
    for _ in range(6):
        full = decomposed(np.where(np.isnan(matrix), full, matrix), 8, model.penalty_)
    np.testing.assert_allclose(estimates(model), base + full, atol=2e-3)


def test_the_penalty_is_in_units_of_the_largest_singular_value_by_chance():
    matrix, _ = dense()
    model = ImputedSVD(shrinkage=2.0, iterations=0).fit(TRAIN)
    random = np.random.default_rng(5)
    norms = [
        np.linalg.norm(np.nan_to_num(matrix) * random.choice([-1, 1], matrix.shape), 2)
        for _ in range(20)
    ]
    assert 0.8 * min(norms) < model.penalty_ / 2 < 1.2 * max(norms)
    # Of rank 1 with signs: the largest singular value is 24.5, by chance about 5.5 + 4.5.
    users, items = np.divmod(np.arange(600), 20)
    signs = Interactions(users, items, 3.0 + (-1.0) ** (users + items))
    assert 5 < ImputedSVD(shrinkage=1.0, iterations=0).fit(signs).penalty_ < 15
    nothing = ImputedSVD(shrinkage=100.0).fit(TRAIN)
    assert not nothing._user_rows[:, :-1].any()


def test_a_new_user_with_the_ratings_of_a_known_one_gets_the_same_vector():
    model = ImputedSVD(factors=12, iterations=300).fit(TRAIN)
    rows = RatedRows.of(TRAIN, model._known_items)
    for user in (0, 7):
        part = slice(rows.starts[user], rows.starts[user + 1])
        items = model._known_items.ids[rows.positions[part]]
        got = model._folded_in(items, rows.ratings[part], None)
        np.testing.assert_allclose(got, model._user_rows[user], atol=5e-3)


def test_it_is_better_than_means_where_ratings_are_many_and_where_they_are_few():
    few = generate_world(users=1500, items=1000, ratings=9000, random_state=3).interactions
    for train, test in (known_rank(), few.split(0.8, 0.2, random_state=0)):
        assert rmse(ImputedSVD().fit(train), test) < rmse(DampedMeans().fit(train), test)


def test_ctrl_c_keeps_the_iterations_so_far():
    def stop(iteration, iterations):
        assert iterations == 30
        if iteration == 3:
            raise KeyboardInterrupt

    model, twin = ImputedSVD(factors=4), ImputedSVD(factors=4, iterations=3).fit(TRAIN)
    with pytest.raises(KeyboardInterrupt):
        model.fit(TRAIN, progress=stop)
    np.testing.assert_array_equal(estimates(model), estimates(twin))


def test_equal_ratings_are_predicted_as_they_are():
    train = Interactions([1, 1, 2, 3], [1, 2, 1, 3], [4, 4, 4, 4])
    np.testing.assert_allclose(ImputedSVD().fit(train).predict([1, 3, 9], [3, 1, 9]), 4)


def test_a_file_with_a_bad_penalty_is_refused():
    model = ImputedSVD(factors=2, iterations=1).fit(TRAIN)
    model.penalty_ = -1.0
    with pytest.raises(ModelFormatError):
        load(model.to_bytes())
