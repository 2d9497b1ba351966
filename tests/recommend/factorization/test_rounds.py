"""Count-sketch factorization in rounds on an engine: the error of one machine, on any."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data import Interactions, generate_world, read_interactions
from sfumato.engine import LocalEngine
from sfumato.recommend import SketchFactorization
from sfumato.recommend.factorization import rounds
from sfumato.recommend.factorization.strata import RatingStrata, by_group
from support.engines import as_source

REAL = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[4] / "shared" / "data"))
WORLD = generate_world(users=300, items=200, ratings=12_000, random_state=3).interactions
TRAIN, _, TEST = WORLD.split(0.8, 0.1, 0.1, random_state=1)
ONE = LocalEngine(threads=1)
NAMES = ("user", "item", "rating")


def columns_of(data):
    return dict(zip(NAMES, (data.users, data.items, data.ratings), strict=True))


def rmse(model, test):
    return float(np.sqrt(np.mean((model.predict(test.users, test.items) - test.ratings) ** 2)))


def model_of(**changes):
    return SketchFactorization(**{"factors": 16, "epochs": 3, "cells": 1 << 14} | changes)


def table(model):
    return model._cells.table


def test_the_model_is_the_same_on_every_engine_and_as_good_as_on_one_machine(engine, tmp_path):
    source = as_source(engine, columns_of(TRAIN), tmp_path)
    model = model_of().fit_rows(source, engine=engine, groups=2, valid=TEST)
    reference = model_of().fit_rows(columns_of(TRAIN), engine=ONE, groups=2)
    assert np.allclose(table(model), table(reference), atol=1e-4)
    local = model_of().fit(TRAIN, TEST)
    assert abs(rmse(model, TEST) - rmse(local, TEST)) < 0.005
    assert [entry["epoch"] for entry in model.history_] == [1, 2, 3]
    assert np.isclose(model.history_[-1]["valid_rmse"], rmse(model, TEST))
    assert np.isclose(model.mean_, local.mean_)
    assert np.isclose(model.scale_, local.scale_, rtol=1e-4)
    assert (model.seen_, model.low_, model.high_) == (local.seen_, local.low_, local.high_)
    assert set(model.catalogue_.ids) == set(local.catalogue_.ids)


@pytest.fixture(scope="module")
def movielens():
    if not (REAL / "movielens-1m").exists():
        pytest.skip("the real set is not here")
    data = read_interactions(REAL / "movielens-1m" / "ratings.dat.gz")
    held_out = np.random.default_rng(0).random(len(data)) < 0.1
    return data.filter(~held_out), data.filter(held_out)


@pytest.mark.parametrize("groups", [4, 32])
def test_the_error_on_movielens_is_that_of_one_machine(movielens, groups):
    train, test = movielens
    local = SketchFactorization().fit(train)
    engine = LocalEngine(threads=2)
    model = SketchFactorization().fit_rows(columns_of(train), engine=engine, groups=groups)
    assert abs(rmse(model, test) - rmse(local, test)) < 0.005


@pytest.mark.soak
def test_the_error_on_movielens_is_that_of_one_machine_on_spark(movielens, spark, tmp_path):
    train, test = movielens
    source = as_source(spark, columns_of(train), tmp_path)
    model = SketchFactorization(epochs=8).fit_rows(source, engine=spark, groups=4)
    local = SketchFactorization(epochs=8).fit(train)
    assert abs(rmse(model, test) - rmse(local, test)) < 0.005


def test_there_is_a_group_for_each_core_unless_the_checkpoint_has_others(tmp_path):
    class Cores(LocalEngine):
        cores = 1000

    found = [rounds.groups_for(None, engine, None) for engine in (ONE, LocalEngine(5), Cores())]
    assert found == [2, 5, 256]
    assert rounds.groups_for(7, ONE, None) == 7
    path, source = tmp_path / "rounds", columns_of(TRAIN)
    model_of(epochs=1).fit_rows(source, engine=LocalEngine(threads=3), checkpoint=path)
    assert rounds.groups_for(None, ONE, path) == 3
    model = model_of(epochs=1).fit_rows(source, engine=ONE, checkpoint=path)  # nothing to do
    whole = model_of(epochs=1).fit_rows(source, engine=ONE, groups=3)
    assert np.allclose(table(model), table(whole), atol=1e-4)


def test_engines_know_their_cores(spark):
    assert (spark.cores, LocalEngine(threads=3).cores, LocalEngine().cores >= 1) == (2, 3, True)


def test_no_order_of_rows_changes_the_model():
    order = np.random.default_rng(0).permutation(len(TRAIN))
    models = [
        model_of().fit_rows(columns_of(data), engine=ONE) for data in (TRAIN, TRAIN.filter(order))
    ]
    assert np.allclose(table(models[0]), table(models[1]), atol=1e-4)
    assert models[0].catalogue_ == models[1].catalogue_


def test_groups_of_a_stratum_share_neither_users_nor_items():
    strata = RatingStrata(ONE.rows(columns_of(TRAIN), NAMES), NAMES, 0, 5)
    rows = 0
    for stratum in strata.strata:
        pairs = [
            (set(users.tolist()), set(items.tolist()))
            for batch in stratum.batches()
            for _, (users, items) in by_group(iter([batch]), ["user", "item"])
        ]
        for side in range(2):
            parts = [pair[side] for pair in pairs]
            assert sum(map(len, parts)) == len(set().union(*parts))
        rows += sum(batch.num_rows for batch in stratum.batches())
    assert rows == len(TRAIN)
    assert strata.count_users() == len(TRAIN.coded().user_ids)


class RoundError(Exception):
    pass


def failing_after(monkeypatch, count):
    """Let the round after `count` complete ones raise."""
    left, fold = [count], rounds._GroupDescent.__call__

    def call(self, batches):
        if left[0] <= 0:
            raise RoundError
        left[0] -= 1
        return fold(self, batches)

    monkeypatch.setattr(rounds._GroupDescent, "__call__", call)


@pytest.mark.parametrize("calls", [5, 17, 23])
def test_training_goes_on_from_the_last_round_after_a_failure(tmp_path, monkeypatch, calls):
    path, source = tmp_path / "rounds", columns_of(TRAIN)
    whole = model_of(epochs=6).fit_rows(source, engine=ONE, groups=3, valid=TEST)
    model = model_of(epochs=6)
    with monkeypatch.context() as broken:
        failing_after(broken, calls)
        with pytest.raises(RoundError):
            model.fit_rows(source, engine=ONE, groups=3, valid=TEST, checkpoint=path)
    assert not hasattr(model, "catalogue_")
    epochs = []
    model.fit_rows(
        source,
        engine=ONE,
        groups=3,
        valid=TEST,
        checkpoint=path,
        progress=lambda epoch, *_: epochs.append(epoch),
    )
    assert epochs[0] > 1 or calls == 5
    assert np.array_equal(table(model), table(whole))
    assert model.history_ == whole.history_


def stopping_after(monkeypatch, rounds_done):
    """Let the driver stop after so many rounds, as when it is killed."""
    left, add = [rounds_done], rounds.RoundTraining._add

    def call(self, change, rate):
        if left[0] <= 0:
            raise RoundError
        left[0] -= 1
        add(self, change, rate)

    monkeypatch.setattr(rounds.RoundTraining, "_add", call)


def test_a_driver_that_stops_goes_on_from_its_last_round(engine, tmp_path, monkeypatch):
    source, path = as_source(engine, columns_of(TRAIN), tmp_path), tmp_path / "rounds"
    given = {"engine": engine, "groups": 2, "checkpoint": path}
    with monkeypatch.context() as broken:
        stopping_after(broken, 4)
        with pytest.raises(RoundError):
            model_of(epochs=2).fit_rows(source, **given)
    done = []
    with monkeypatch.context() as watched:
        descent = rounds.RoundTraining._descent

        def noting(self, *args):
            done.append(args[:2])
            return descent(self, *args)

        watched.setattr(rounds.RoundTraining, "_descent", noting)
        model = model_of(epochs=2).fit_rows(source, **given)
    assert done == [(1, 1)]  # of epochs and rounds from (0, 0) on
    whole = model_of(epochs=2).fit_rows(columns_of(TRAIN), engine=ONE, groups=2)
    assert np.allclose(table(model), table(whole), atol=1e-4)


def test_a_checkpoint_of_another_training_or_a_damaged_one_is_refused(tmp_path):
    path, source = tmp_path / "rounds", columns_of(TRAIN)
    model_of(epochs=1).fit_rows(source, engine=ONE, groups=2, checkpoint=path)
    other = columns_of(TRAIN.filter(np.arange(len(TRAIN) - 1)))
    for changed, data in ((model_of(epochs=2), source), (model_of(epochs=1), other)):
        with pytest.raises(ValueError, match="checkpoint is of other data or parameters"):
            changed.fit_rows(data, engine=ONE, groups=2, checkpoint=path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="checkpoint is damaged; delete the file"):
        model_of(epochs=1).fit_rows(source, engine=ONE, groups=2, checkpoint=path)


def test_text_ids_noise_and_clip_work_too(tmp_path):
    source = {**columns_of(TRAIN), "user": [f"u{id}" for id in TRAIN.users.tolist()]}
    model = model_of(clip=2.0, noise=0.01).fit_rows(source, engine=ONE)
    assert model.user_kind_ == "text"
    assert model.privacy_label == "measured"
    assert np.isfinite(model.predict("u1", TRAIN.items[:1])).all()
    loaded = SketchFactorization.from_bytes(model.to_bytes())
    assert np.array_equal(table(loaded), table(model))


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ({"objective": "ranking"}, {}, "objective must be 'ratings' for fit_rows"),
        ({}, {"groups": 0}, "groups must be an integer from 1 to 256"),
        ({"bounds": (1, 3)}, {}, r"bounds must contain all ratings: widen \(1, 3\)"),
        ({"random_state": None}, {"checkpoint": "x"}, "random_state must be an integer"),
        ({"learning_rate": 1e9}, {}, "the descent diverged at a learning rate of 1e"),
    ],
)
def test_what_cannot_be_fitted_is_refused_and_the_model_stays(changes, options, sentence):
    model = model_of(**changes)
    with pytest.raises(ValueError, match=sentence):
        model.fit_rows(columns_of(TRAIN), engine=ONE, **options)
    assert not hasattr(model, "catalogue_")


def test_rows_that_suffice_for_no_fit_are_refused(engine, tmp_path):
    cases = {
        "source is empty": TRAIN.filter([]),
        "one item only": Interactions([1, 2], [5, 5], [1, 2]),
        "one user only": Interactions([1, 1], [5, 6], [1, 2]),
    }
    for at, (sentence, data) in enumerate(cases.items()):
        (tmp_path / str(at)).mkdir()
        source = as_source(engine, columns_of(data), tmp_path / str(at), files=1)
        with pytest.raises(ValueError, match=sentence):
            model_of().fit_rows(source, engine=engine)


def test_a_null_is_an_error_of_its_column(engine, tmp_path):
    columns = {"user": pa.array([1, None]), "item": [5, 6], "rating": [1.0, 2.0]}
    with pytest.raises(ValueError, match="null"):
        model_of().fit_rows(as_source(engine, columns, tmp_path, files=1), engine=engine)
