"""The two-stage search finds a known best, resumes from its log, and never asks private data."""

import json
import math

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.recommend import DenseFactorization, SketchFactorization
from sfumato.recommend.tuning import tune

TRAIN = Interactions([1, 1, 2], [1, 2, 1], [1.0, 3.0, 5.0])
VALID = Interactions([1, 2], [1, 2], [2.0, 4.0])
BEST = {"learning_rate": 0.03, "regularization": 0.2}


class Bowl:
    """A model whose error is known: smallest at BEST, in the logarithm of both parameters."""

    fits = 0

    def __init__(self, *, learning_rate=0.01, regularization=0.1, flavour="plain"):
        self.learning_rate, self.regularization = learning_rate, regularization
        self.flavour = flavour

    def get_params(self):
        return dict(vars(self))

    def fit(self, train, **options):
        assert train is TRAIN
        type(self).fits += 1
        if type(self).fits == getattr(type(self), "dies_at", 0):
            raise KeyboardInterrupt
        self.options_ = options
        return self

    def predict(self, users, items):
        off = math.hypot(*(math.log10(getattr(self, name) / value) for name, value in BEST.items()))
        return VALID.ratings + off


@pytest.fixture(autouse=True)
def fresh():
    Bowl.fits = 0
    Bowl.dies_at = 0


def test_search_goes_along_the_lines_then_finer_around_the_best():
    observed = []
    grids = {"learning_rate": (0.001, 0.01, 0.1), "regularization": (0.001, 0.01, 0.1, 1.0)}
    options = {"grids": grids, "fine": 2}
    mine = Bowl(learning_rate=0.02)
    result = tune(mine, TRAIN, VALID, **options, progress=lambda *each: observed.append(each))
    stage_one = [t.parameters for t in result.trials if t.stage == 1]
    own = mine.get_params()
    assert stage_one[0] == {name: own[name] for name in grids}
    assert [p["learning_rate"] for p in stage_one[1:4]] == [0.001, 0.01, 0.1]
    assert all(p["regularization"] == own["regularization"] for p in stage_one[1:4])
    assert [p["regularization"] for p in stage_one[4:]] == [0.001, 0.01, 1.0]  # 0.1 was tried
    assert result.parameters["learning_rate"] == pytest.approx(0.02 * 5 ** (1 / 3))
    assert result.parameters["regularization"] == pytest.approx(0.1 * 10 ** (1 / 3))
    assert result.rmse == min(trial.rmse for trial in result.trials)
    assert (result.model.learning_rate, result.model.flavour) == (
        result.parameters["learning_rate"],
        "plain",
    )
    assert [each[:2] for each in observed] == [(k, 16) for k in range(1, 17)]
    assert Bowl.fits == len(result.trials) == 15
    assert tune(mine, TRAIN, VALID, **options).parameters == result.parameters


def test_more_fine_values_come_nearer_to_the_best():
    coarse, finer = (tune(Bowl(), TRAIN, VALID, fine=fine) for fine in (0, 5))
    assert finer.rmse < 0.1 < coarse.rmse
    assert all(trial.stage == 1 for trial in coarse.trials)


def test_the_model_is_left_alone_and_refitted_on_request():
    mine = Bowl(flavour="own")
    result = tune(mine, TRAIN, VALID, refit=True, catalogue=[1, 2])
    assert mine.get_params() == Bowl(flavour="own").get_params()
    assert result.model.options_ == {"catalogue": [1, 2]}
    assert result.model.flavour == "own"


def test_numbers_of_factors_are_searched_and_biases_alone():
    # Ratings without any structure but biases: components only add noise.
    world = generate_world(users=200, items=100, ratings=2_000, factors=0, random_state=1)
    train, valid = world.interactions.split(0.8, 0.2, random_state=0)
    model = DenseFactorization(epochs=3, factors=16)
    result = tune(model, train, valid, refit=True)
    tried = [trial.parameters["factors"] for trial in result.trials]
    assert {1, 8, 16, 32, 64} <= set(tried)
    assert all(type(each) is int and each >= 1 for each in tried)
    alone = min(t.rmse for t in result.trials if t.parameters["factors"] == 1)
    assert result.rmse <= alone
    assert result.model.factors == result.parameters["factors"]


def test_biases_alone_are_a_trial_of_every_factor_model_with_the_default_grids():
    world = generate_world(users=60, items=40, ratings=900, random_state=1).interactions
    for model in (
        DenseFactorization(epochs=1, objective="ranking"),
        SketchFactorization(epochs=1),
        SketchFactorization(epochs=1, objective="ranking"),
    ):
        result = tune(model, world, world, fine=0)
        assert {"learning_rate", "regularization", "factors"} == set(result.parameters)
        alone = [trial for trial in result.trials if trial.parameters["factors"] == 1]
        assert len(alone) == 1
        assert math.isfinite(alone[0].rmse if alone[0].ndcg is None else alone[0].ndcg)


def test_a_function_that_makes_models_is_tuned_too():
    result = tune(lambda learning_rate: Bowl(learning_rate=learning_rate), TRAIN, VALID,
                grids={"learning_rate": [0.001, 0.1]})  # fmt: skip
    assert 0.02 < result.parameters["learning_rate"] < 0.05


@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e9, "overflow", "diverged"])
def test_diverged_trials_count_as_infinite(broken, tmp_path):
    class Diverges(Bowl):
        def predict(self, users, items):
            if self.learning_rate < 0.05:
                return super().predict(users, items)
            if isinstance(broken, str):
                raise (FloatingPointError if broken == "overflow" else ValueError)(broken)
            return np.full(len(users), broken)

    for _ in range(2):  # the second time from the log
        result = tune(Diverges(), TRAIN, VALID, log=tmp_path / "log")
        diverged = [t for t in result.trials if t.parameters["learning_rate"] >= 0.05]
        assert diverged
        assert all(math.isinf(t.rmse) for t in diverged)
        assert result.rmse < 1
    assert result.parameters["learning_rate"] < 0.05


def test_other_errors_of_a_model_are_not_hidden():
    class Broken(Bowl):
        def predict(self, users, items):
            raise ValueError("users: row 0 is null")

    with pytest.raises(ValueError, match="row 0 is null"):
        tune(Broken(), TRAIN, VALID)


def test_a_model_without_regularization_of_its_own_is_searched_too():
    class Free(Bowl):
        def predict(self, users, items):
            return VALID.ratings + self.regularization  # 0 is the best

    result = tune(Free(regularization=0.0), TRAIN, VALID)
    assert result.parameters["regularization"] == 0
    assert min(t.parameters["regularization"] for t in result.trials if t.stage == 2) == 0
    nothing = tune(Bowl(learning_rate=None), TRAIN, VALID)
    assert nothing.rmse < 1


def test_an_interrupted_search_goes_on_where_it_was(tmp_path):
    full = tune(Bowl(), TRAIN, VALID)
    log = tmp_path / "trials.jsonl"
    Bowl.fits, Bowl.dies_at = 0, 6
    with pytest.raises(KeyboardInterrupt):
        tune(Bowl(), TRAIN, VALID, log=log)
    assert len(log.read_text().splitlines()) == 1 + 5
    result = tune(Bowl(), TRAIN, VALID, log=log)
    assert Bowl.fits == 6 + len(full.trials) - 5
    assert [(t.parameters, t.rmse) for t in result.trials] == [
        (t.parameters, t.rmse) for t in full.trials
    ]
    again = tune(Bowl(), TRAIN, VALID, log=log)
    assert Bowl.fits == 6 + len(full.trials) - 5
    assert again.trials == result.trials


@pytest.mark.parametrize("cut", [1, 40])
def test_a_half_written_last_line_is_dropped(cut, tmp_path):
    log = tmp_path / "trials.jsonl"
    result = tune(Bowl(), TRAIN, VALID, log=log)
    full = log.read_bytes()
    log.write_bytes(full[:-cut])
    Bowl.fits = 0
    assert tune(Bowl(), TRAIN, VALID, log=log).parameters == result.parameters
    assert Bowl.fits == 1
    assert len(log.read_bytes().splitlines()) == len(full.splitlines())
    assert tune(Bowl(), TRAIN, VALID, log=log).parameters == result.parameters
    assert Bowl.fits == 1  # the line that was written again is complete
    log.write_bytes(full[:30])  # within the first line
    tune(Bowl(), TRAIN, VALID, log=log)
    assert json.loads(log.read_text().splitlines()[0])["model"] == "Bowl"


def test_a_log_of_another_search_is_refused_and_left_alone(tmp_path):
    log = tmp_path / "trials.jsonl"
    tune(Bowl(), TRAIN, VALID, log=log)
    before = log.read_bytes()
    other = Interactions(VALID.users, VALID.items, VALID.ratings + 0.5)
    cases = [
        (dict(model=Bowl(flavour="other")), "another fixed"),
        (dict(model=Bowl(learning_rate=0.5)), "another start"),
        (dict(valid=other), "another valid"),
        (dict(fine=3), "another fine"),
        (dict(grids={"learning_rate": [0.1]}), "another"),
    ]
    for change, sentence in cases:
        arguments = {"model": Bowl(), "train": TRAIN, "valid": VALID, "log": log, **change}
        with pytest.raises(ValueError, match=sentence):
            tune(**arguments)
        assert log.read_bytes() == before
    for invalid in (b"my notes\n", b"{}\n", b"my notes"):
        log.write_bytes(invalid)
        with pytest.raises(ValueError, match="no log of a search"):
            tune(Bowl(), TRAIN, VALID, log=log)
        assert log.read_bytes() == invalid
    log.write_bytes(before + b"oops\n")
    with pytest.raises(ValueError, match=r"line .* is damaged"):
        tune(Bowl(), TRAIN, VALID, log=log)


def test_a_model_of_proved_privacy_is_tuned_on_public_data_only():
    class Private(Bowl):
        def __init__(self, epsilon=1.0, **options):
            super().__init__(**options)
            self.epsilon = epsilon

    class Labelled(Bowl):
        privacy_label = "proved"

    for model in (Private(), Labelled()):
        with pytest.raises(ValueError, match=r"is differentially private.*public=True"):
            tune(model, TRAIN, VALID)
        assert type(model).fits == 0
        assert tune(model, TRAIN, VALID, public=True).rmse < 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (dict(grids={}), "at least one parameter"),
        (dict(grids={"learning_rate": []}), "ascending"),
        (dict(grids={"learning_rate": [0.1, 0.1]}), "ascending"),
        (dict(grids={"learning_rate": [0.0, 0.1]}), "above 0"),
        (dict(grids={"colour": [0.1]}), "no parameter 'colour'"),
        (dict(fine=-1), "fine must be"),
        (dict(valid=Interactions([], [], [])), "valid must have"),
        (dict(train=Interactions([], [], [])), "train must have"),
        (dict(model=7), "function that makes one"),
    ],
)
def test_bad_searches_are_refused_by_name(change, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        tune(**{"model": Bowl(), "train": TRAIN, "valid": VALID, **change})
    assert Bowl.fits == 0
