"""A factorization predicts by its formula, stores parameters as given and says what is invalid."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.data import Interactions
from sfumato.recommend import Catalogue, NotFittedError
from sfumato.recommend.base import BOUNDS, OPTIONAL_BOUNDS
from sfumato.recommend.factorization import base
from support.recommender_contract import Known, checkerboard, random_world


def test_prediction_is_mean_products_and_both_biases_worked_by_hand():
    model = Known.of([[1, 2, 0.5]], [[0.25, 0.5, -0.125]], mean=2.0, bounds=(0.0, 5.0))
    assert model.predict(0, 0).tolist() == [2.0 + 0.25 + 1.0 + 0.5 - 0.125]


def test_predictions_are_cut_to_the_bounds():
    model = Known.of([[9, 0], [-9, 0], [0, 0]], [[1, 0]])
    assert model.predict([0, 1, 2], [0, 0, 0]).tolist() == [5.0, 1.0, 3.0]


def test_many_predictions_are_those_of_each(monkeypatch):
    model = random_world(30, 40, 6)
    users, items = np.divmod(np.arange(1200), 40)
    want = model.predict(users, items)
    monkeypatch.setattr(base, "ROWS", 7)
    monkeypatch.setattr(base, "PAIRS", 11)
    np.testing.assert_array_equal(model.predict(users, items), want)
    np.testing.assert_array_equal(model.predict(5, np.arange(40)), want[200:240])
    np.testing.assert_array_equal(model.predict(np.arange(30), 3), want[3::40])


def test_every_kind_of_column_is_equal():
    model = random_world(30, 40, 6)
    users, items = [3, 4, 29], [1, 0, 39]
    want = model.predict(users, items)
    for column in (np.array, pa.array, pd.Series, pl.Series, lambda x: np.array(x, np.uint8)):
        np.testing.assert_array_equal(model.predict(column(users), column(items)), want)


def test_columns_that_do_not_fit_are_refused():
    model = random_world(3, 3, 2)
    with pytest.raises(ValueError, match="users and items must be of one length, not 2 and 3"):
        model.predict([0, 1], [0, 1, 2])
    with pytest.raises(TypeError, match="items are text, but the catalogue holds integers"):
        model.predict([0], ["0"])
    with pytest.raises(TypeError, match="users"):
        model.predict([0.5], [0])
    assert model.predict([], []).size == 0


def test_a_model_that_is_not_fitted_says_so(tmp_path):
    model = Known()
    for ask in (
        lambda: model.predict(0, 0),
        lambda: model.recommend(0),
        lambda: model.similar_items(0),
        lambda: model.explain(0, 0),
        lambda: model.recommend_fold_in([0]),
        lambda: model.nbytes,
        lambda: model.save(tmp_path / "model"),
    ):
        with pytest.raises(NotFittedError, match="Known: not fitted yet; call fit first"):
            ask()
    assert not list(tmp_path.iterdir())


def test_parameters_are_stored_as_given_and_checked_later():
    bounds = [1, 5]
    model = Known(bounds=bounds)
    assert model.get_params()["bounds"] is bounds
    assert model._check() == {"bounds": (1.0, 5.0)}
    assert model.set_params(bounds=7) is model
    with pytest.raises(ValueError, match="Known: bounds must be a pair of finite numbers"):
        model._check()
    with pytest.raises(ValueError, match="Known: colour is no parameter; there are bounds"):
        model.set_params(bounds=None, colour=3)
    assert model.bounds == 7
    assert repr(Known(bounds=(1, 5))) == "Known(bounds=(1, 5))"


def test_bounds_are_a_pair_in_order():
    for bad in BOUNDS.bad():
        with pytest.raises(ValueError, match="bounds must be a pair of finite numbers"):
            BOUNDS.check("model", "bounds", bad)
    assert BOUNDS.check("model", "bounds", np.array([1, 5])) == (1.0, 5.0)
    assert OPTIONAL_BOUNDS.check("model", "bounds", None) is None


def test_bounds_come_from_the_data_only_where_none_are_given():
    model, train = Known(), checkerboard()
    assert model._bounds_of(train, None) == (1.0, 5.0)
    assert model._bounds_of(train, (0.0, 10.0)) == (0.0, 10.0)
    with pytest.raises(ValueError, match=r"ratings must be within bounds \(1.0, 4.0\); row 0 is"):
        model._bounds_of(train, (1.0, 4.0))


def test_data_to_learn_from_is_checked():
    with pytest.raises(ValueError, match="Known: train is empty"):
        Known()._check_train(Interactions([], [], []))
    with pytest.raises(TypeError, match="Known: train must be Interactions, not dict"):
        Known()._check_train({"users": [1]})


def test_catalogue_is_the_items_of_the_data_unless_given():
    train = Interactions([1, 1, 2], [9, 4, 9], [1, 2, 3])
    np.testing.assert_array_equal(Known._catalogue_of(train, None).ids, [9, 4])
    np.testing.assert_array_equal(Known._catalogue_of(train, [4, 5]).ids, [4, 5])
    catalogue = Catalogue([1])
    assert Known._catalogue_of(train, catalogue) is catalogue


def test_catalogue_holds_each_id_once():
    assert Catalogue(["b", "a", "b"]).ids.tolist() == ["b", "a"]
    assert Catalogue(["b", "a"]) == Catalogue(np.array(["b", "a"]))
    assert Catalogue(["1"]) != Catalogue([1])
    with pytest.raises(ValueError, match="catalogue: at least one item is needed"):
        Catalogue([])
    with pytest.raises(ValueError, match="read-only"):
        Catalogue([1, 2]).ids[0] = 5


def test_promises_nothing_unless_a_model_says_more():
    assert Known().statement is None
    assert Known().privacy_label == "none"
    model = random_world(3, 4, 2)
    assert model.nbytes == model.users_.nbytes + model.items_.nbytes


def test_copies_and_pickles_answer_equally_and_carry_no_cache():
    model = random_world(30, 40, 6)
    want = model.recommend(3)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert "_catalogue_vectors" not in twin.__dict__
        np.testing.assert_array_equal(twin.recommend(3), want)


def test_import_is_light():
    heavy = ["scipy.stats", "matplotlib", "sklearn", "duckdb", "pandas", "polars"]
    code = f"import sys, sfumato.recommend; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
