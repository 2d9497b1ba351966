"""ALS on an engine: the model of one machine, up to rounding, in any order of the rows."""

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.engine import LocalEngine
from sfumato.recommend import ALS
from sfumato.recommend.implicit.als_rounds import EngineAlternation
from support.engines import as_source

WORLD = generate_world(users=150, items=60, ratings=3000, random_state=3).interactions
SORTED = WORLD.filter(np.argsort(WORLD.users, kind="stable"))
SHUFFLED = SORTED.filter(np.random.default_rng(0).permutation(len(SORTED)))
ITEMS = np.unique(WORLD.items)
ONE = LocalEngine(threads=1)


def columns_of(data):
    return {"user": data.users, "item": data.items, "rating": data.ratings}


def assert_equal(model, local):
    assert np.array_equal(model._known_users.ids, local._known_users.ids)
    assert np.array_equal(model._counts, local._counts)
    assert np.isclose(model.ridge_, local.ridge_)
    assert np.allclose(model._user_table, local._user_table, atol=2e-4)
    assert np.allclose(model._item_table, local._item_table, atol=2e-4)
    losses = [[entry["loss"] for entry in each.history_] for each in (model, local)]
    assert np.allclose(*losses, rtol=1e-4)


def test_the_model_is_that_of_one_machine(engine, tmp_path):
    source = as_source(engine, columns_of(SHUFFLED), tmp_path)
    options = {"factors": 8, "epochs": 3, "regularization": 0.4}
    model = ALS(**options).fit_rows(source, engine=engine)
    assert_equal(model, ALS(**options).fit(SORTED, catalogue=ITEMS))


@pytest.mark.parametrize(
    "options",
    [
        {"regularization": None},
        {"solver": "cholesky"},
        {"weighting": "log", "relevant_from": 3},
        {"random_state": 7, "confidence": 20.0},
    ],
)
def test_every_option_means_what_it_means_on_one_machine(options):
    options = {"factors": 8, "epochs": 3, "regularization": 0.4} | options
    names = "user", "item", "rating"
    model = ALS(**options).fit_rows(columns_of(SHUFFLED), engine=ONE, columns=names)
    local = ALS(**options).fit(SORTED, catalogue=ITEMS)
    assert model.regularization_ == local.regularization_
    assert np.isclose(model._weight_mean, local._weight_mean)
    assert_equal(model, local)


def test_repeated_pairs_and_other_items_count_as_on_one_machine():
    twice = SORTED.merge(SORTED.filter(np.arange(0, len(SORTED), 3)))
    twice = twice.filter(np.argsort(twice.users, kind="stable"))
    few = np.append(ITEMS[:20], 10**6)  # the last one is in no row
    for weighting in ("equal", "log"):
        options = {"factors": 8, "epochs": 2, "regularization": 0.4, "weighting": weighting}
        names = "user", "item", "rating"
        model = ALS(**options).fit_rows(columns_of(twice), engine=ONE, columns=names, catalogue=few)
        local = ALS(**options).fit(twice, catalogue=few)
        assert_equal(model, local)
        assert model.catalogue_ == local.catalogue_


def test_a_model_from_an_engine_is_stored_and_answers_like_any_other():
    options = {"factors": 8, "epochs": 2, "regularization": 0.4}
    text = columns_of(SORTED) | {"user": [f"u{id:05}" for id in SORTED.users.tolist()]}
    model = ALS(**options).fit_rows(text, engine=LocalEngine(threads=3))
    assert model.user_kind_ == "text"
    loaded = ALS.from_bytes(model.to_bytes())
    user = text["user"][0]
    assert np.array_equal(loaded.recommend(user)[0], model.recommend(user)[0])
    local = ALS(**options).fit(Interactions(text["user"], SORTED.items), catalogue=ITEMS)
    assert_equal(model, local)


def test_what_cannot_be_fitted_is_refused_and_the_model_stays():
    names = "user", "item", "rating"
    cases = [
        (ALS(weighting="log"), {}, "columns must name the ratings too"),
        (ALS(), {"columns": ("user",)}, "columns must name users, items"),
        (ALS(relevant_from=99), {"columns": names}, "no row of the source is a preference"),
        (ALS(), {"catalogue": [10**6]}, "no row of the source is a preference"),
    ]
    for model, options, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            model.fit_rows(columns_of(SORTED), engine=ONE, **options)
        assert not hasattr(model, "catalogue_")


class EpochError(Exception):
    """A driver that stops."""


def test_training_goes_on_from_the_last_epoch_after_a_failure(engine, tmp_path, monkeypatch):
    source, path = as_source(engine, columns_of(SHUFFLED), tmp_path), tmp_path / "epochs"
    options = {"factors": 8, "epochs": 3, "regularization": 0.4, "random_state": 1}
    epoch, numbers = EngineAlternation.epoch, []

    def noting(self, ridge):
        numbers.append(len(numbers))
        if len(numbers) == 3:
            raise EpochError
        epoch(self, ridge)

    monkeypatch.setattr(EngineAlternation, "epoch", noting)
    with pytest.raises(EpochError):
        ALS(**options).fit_rows(source, engine=engine, checkpoint=path)
    model = ALS(**options).fit_rows(source, engine=engine, checkpoint=path)
    assert len(numbers) == 4  # two epochs, one that failed, and the third
    assert_equal(model, ALS(**options).fit(SORTED, catalogue=ITEMS))
    again = ALS(**options).fit_rows(source, engine=engine, checkpoint=path)
    assert len(numbers) == 4
    assert np.array_equal(again._user_table, model._user_table)


def test_a_checkpoint_of_other_rows_or_without_a_seed_is_refused(tmp_path):
    path, options = tmp_path / "epochs", {"factors": 8, "epochs": 1, "regularization": 0.4}
    ALS(**options, random_state=1).fit_rows(columns_of(SORTED), engine=ONE, checkpoint=path)
    other = columns_of(SORTED.filter(np.arange(1, len(SORTED))))
    with pytest.raises(ValueError, match="ALS: checkpoint is of other data or parameters"):
        ALS(**options, random_state=1).fit_rows(other, engine=ONE, checkpoint=path)
    with pytest.raises(ValueError, match="random_state must be an integer for a checkpoint"):
        ALS(**options, random_state=None).fit_rows(other, engine=ONE, checkpoint=path)
