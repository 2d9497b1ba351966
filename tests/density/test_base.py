"""Estimators check parameters, store no raw data once private, merge, and fit into files."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sfumato.density import SketchDensity, SketchSampler, load
from sfumato.density.base import BACKENDS, noise_from
from sfumato.privacy import BudgetExceeded, Ledger
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import CountMin, Release, Sketch, SketchFormatError

POINTS = np.random.default_rng(0).normal(size=(400, 2))
BOX = (-3.0, [3.0, 4.0])
PRIVATE = dict(bandwidth=0.5, rows=64, width=64, epsilon=2.0, bounds=BOX)
MODELS = [SketchDensity, SketchSampler]


def private(model=SketchDensity, seed=1, **more):
    with noise_from(InsecureSeededSource(seed)):
        return model(**{**PRIVATE, **more}).fit(POINTS)


@pytest.mark.parametrize("model", MODELS)
def test_every_limit_is_enforced_and_its_error_names_owner_and_parameter(model):
    for name, limit in model.LIMITS.items():
        for value in limit.bad():
            with pytest.raises(ValueError, match=f"{model.__name__}: {name} must be"):
                model(**{"bounds": BOX, name: value}).fit(POINTS)


@pytest.mark.parametrize("model", MODELS)
def test_every_parameter_has_a_limit(model):
    assert set(model().get_params()) == set(model.LIMITS)


def test_what_does_not_go_together_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match="bounds must be given with epsilon"):
        SketchDensity(epsilon=1).fit(POINTS)
    with pytest.raises(ValueError, match="delta needs an epsilon"):
        SketchDensity(delta=1e-6).fit(POINTS)
    with pytest.raises(ValueError, match="ledger needs an epsilon"):
        SketchDensity(ledger="book").fit(POINTS)
    with pytest.raises(ValueError, match=r"bounds must be for 2 columns .*, not 3"):
        SketchDensity(bounds=(0, [1, 2, 3])).fit(POINTS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_private_estimator_holds_its_release_and_nothing_of_the_data(backend):
    model = private(backend=backend)
    learned = {name: value for name, value in vars(model).items() if name not in model.LIMITS}
    assert set(learned) == {
        "release_", "statement_", "n_features_in_", "bounds_", "backend_", "floor_"
    }  # fmt: skip
    assert isinstance(model.release_, Release)
    assert not any(isinstance(value, Sketch) for value in learned.values())
    assert model.statement_.epsilon <= 2.0
    # All that is learned follows from the release: another copy of it gives the same object.
    again = SketchDensity.from_release(type(model.release_).from_bytes(model.release_.to_bytes()))
    for name in set(learned) - {"release_"}:
        assert getattr(again, name) == learned[name]
    np.testing.assert_array_equal(again.score_samples(POINTS), model.score_samples(POINTS))


def test_random_state_never_decides_the_noise():
    first, second = (SketchDensity(**PRIVATE, random_state=3).fit(POINTS) for _ in range(2))
    assert first.release_.seed == second.release_.seed == 3
    assert first.score_samples(POINTS[:9]).tolist() != second.score_samples(POINTS[:9]).tolist()
    assert not first.statement_.insecure
    assert private().statement_.insecure


def test_a_new_fit_forgets_the_old_one():
    model = SketchDensity(bandwidth=0.5, bounds=BOX, rows=64).fit(POINTS)
    assert model.clipped_ == ((np.clip(POINTS, -3, BOX[1]) != POINTS).any(axis=1)).sum()
    model.set_params(epsilon=1.0).fit(POINTS)
    assert not hasattr(model, "clipped_")
    assert not hasattr(model, "sketch_")
    model.set_params(epsilon=None).fit(POINTS)
    assert not hasattr(model, "release_")
    assert not hasattr(model, "statement_")


def test_the_ledger_is_charged_once_and_an_empty_budget_leaves_nothing(tmp_path):
    ledger = Ledger(tmp_path / "book")
    ledger.create("walks", 3.0)
    released = private(ledger=ledger, dataset="walks", release_id="first")
    assert ledger.spent("walks").epsilon == 2.0
    assert released.statement_.dataset == "walks"
    retry = private(seed=9, ledger=ledger, dataset="walks", release_id="first")
    assert retry.release_ == released.release_
    assert ledger.spent("walks").epsilon == 2.0
    model = SketchDensity(**PRIVATE, ledger=ledger, dataset="walks")
    with pytest.raises(BudgetExceeded):
        model.fit(POINTS)
    assert not model._parts()


@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_merge_and_follow_each_other_to_the_same_sketch(backend):
    setting = dict(backend=backend, bandwidth=0.5, rows=32, width=32, bounds=BOX)
    full = SketchDensity(**setting).fit(POINTS)
    merged = SketchDensity(**setting).fit(POINTS[:150])
    merged.merge(SketchDensity(**setting).fit(POINTS[150:]))
    stream = SketchDensity(**setting).partial_fit(POINTS[:7]).partial_fit(POINTS[7:])
    assert full.sketch_ == merged.sketch_ == stream.sketch_
    assert full.clipped_ == merged.clipped_ == stream.clipped_ > 0


def test_private_or_different_estimators_do_not_merge():
    for call in (lambda: private().partial_fit(POINTS), lambda: private().merge(private())):
        with pytest.raises(ValueError, match="is not private; update and merge sketches, release"):
            call()
    here = SketchDensity(rows=32).fit(POINTS)
    with pytest.raises(ValueError, match="bounds_ differ; give both the same bounds"):
        here.merge(SketchDensity(rows=32).fit(POINTS[:9]))
    with pytest.raises(TypeError, match="cannot merge with SketchSampler"):
        here.merge(SketchSampler(rows=32).fit(POINTS))
    seeded = [SketchDensity(rows=32, bounds=BOX, random_state=s).fit(POINTS) for s in (1, 2)]
    with pytest.raises(ValueError, match="seed is 1 here and 2 there"):
        seeded[0].merge(seeded[1])


def test_weights_are_repetitions_and_rows_of_weight_zero_count_for_nothing():
    weights = np.arange(400) % 4
    weights[[*POINTS.argmin(axis=0), *POINTS.argmax(axis=0)]] = 0  # they must not widen the bounds
    result = SketchDensity(rows=32).fit(POINTS, sample_weight=weights)
    repeated = SketchDensity(rows=32).fit(np.repeat(POINTS, weights, axis=0))
    np.testing.assert_array_equal(result.score_samples(POINTS), repeated.score_samples(POINTS))
    with pytest.raises(ValueError, match="sample_weight must be integers from 0 up"):
        result.fit(POINTS, sample_weight=weights - 1.5)
    for each in (weights, np.ones(400, int)):  # whatever they are: reading them would reveal data
        with pytest.raises(ValueError, match="sample_weight must be None with epsilon"):
            SketchDensity(**PRIVATE).fit(POINTS, sample_weight=each)


def test_every_container_of_rows_gives_the_same_model():
    frame = pd.DataFrame(POINTS, columns=["east", "north"])
    want = private().release_
    for data in (frame, pl.DataFrame(frame.to_dict("list")), pa.Table.from_pandas(frame)):
        with noise_from(InsecureSeededSource(1)):
            model = SketchDensity(**PRIVATE).fit(data)
        assert model.feature_names_in_.tolist() == ["east", "north"]
        assert model.release_ == want
    with noise_from(InsecureSeededSource(1)):
        assert SketchDensity(**PRIVATE).fit(POINTS.tolist()).release_ == want


def test_bad_points_are_refused_without_a_word_of_what_they_hold():
    invalid = POINTS.copy()
    invalid[3, 1] = np.nan
    with pytest.raises(ValueError, match="row 3, column 1 holds NaN"):
        SketchDensity(bounds=BOX).fit(invalid)
    invalid[3, 1] = -np.inf
    with pytest.raises(ValueError, match="holds inf, which needs bounds"):
        SketchDensity().fit(invalid)
    assert SketchDensity(bounds=BOX).fit(invalid).clipped_ > 0
    with pytest.raises(ValueError, match="row 3, column 1 holds NaN or inf"):
        private().score_samples(invalid)
    with pytest.raises(ValueError, match="X must hold numbers") as refused:
        SketchDensity(bounds=BOX).fit([["12 High Street", 3.0]])
    assert "High" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_a_private_fit_drops_what_is_no_number_and_clips_the_rest():
    rows = POINTS.tolist()
    rows[3:3] = [["12 High Street", 3.0], [1.0], None, [np.nan, 0.0]]
    rows.append([1e300, -np.inf])
    want = private(epsilon=1e5, backend="race").release_
    with noise_from(InsecureSeededSource(1)):
        released = SketchDensity(**{**PRIVATE, "epsilon": 1e5}, backend="race").fit(rows).release_
        corner = SketchDensity(**{**PRIVATE, "epsilon": 1e5}, backend="race").fit(
            [*POINTS.tolist(), [3.0, -3.0]]
        )
    assert released == corner.release_
    assert np.abs(released._table - want._table).sum() == 64
    outside = (np.clip(POINTS, *np.broadcast_arrays(*map(np.array, BOX))) != POINTS).any(axis=1)
    assert SketchDensity(**PRIVATE).input_report(rows) == {
        "rows": 405, "dropped": 4, "clipped": outside.sum() + 1
    }  # fmt: skip


def test_what_is_public_is_still_refused_by_a_private_fit():
    model = SketchDensity(epsilon=1.0, bounds=(0, 1))
    for data, words in (
        (POINTS.tolist(), "bounds must have one number per column where X is a list of rows"),
        ([], "bounds must have one number per column"),
        (POINTS[:, 0], "Expected 2D array"),
        (POINTS[None], "Expected 2D array"),
        ("rows.csv", "X must be a table of rows, not str"),
        (iter(POINTS), "X must be a table of rows"),
    ):
        with pytest.raises((ValueError, TypeError), match=f"SketchDensity: .*{words}"):
            model.fit(data)
    with pytest.raises(ValueError, match="bounds must be for 2 columns"):
        SketchDensity(epsilon=1.0, bounds=([0] * 3, [1] * 3)).fit(POINTS)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("epsilon", [None, 2.0])
def test_files_give_back_the_same_answers(tmp_path, backend, epsilon):
    model = private(backend=backend, epsilon=epsilon, random_state=5)
    model.save(tmp_path / "model")
    for again in (SketchDensity.load(tmp_path / "model"), load(tmp_path / "model")):
        assert again._parts() == model._parts()
        assert again.to_bytes() == model.to_bytes()
        np.testing.assert_array_equal(again.score_samples(POINTS), model.score_samples(POINTS))
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).score_samples(POINTS), model.score_samples(POINTS)
    )


def test_the_file_of_a_private_estimator_holds_the_release_and_no_raw_sketch():
    model = private()
    assert model.release_.to_bytes() in model.to_bytes()
    assert len(model.to_bytes()) < len(model.release_.to_bytes()) + 4096
    raw = SketchDensity(**{**PRIVATE, "epsilon": None}).fit(POINTS)
    forged = {**raw.get_params(), "epsilon": 1.0}
    raw.get_params = lambda deep: forged
    with pytest.raises(SketchFormatError, match="a private estimator holds releases only"):
        SketchDensity.from_bytes(raw.to_bytes())


def test_damaged_or_other_files_are_refused():
    data = private().to_bytes()
    for at in (0, 30, len(data) // 2, len(data) - 1):
        broken = bytearray(data)
        broken[at] ^= 1
        with pytest.raises(SketchFormatError):
            SketchDensity.from_bytes(bytes(broken))
    with pytest.raises(SketchFormatError, match="SketchSampler: the bytes hold a 'SketchDensity'"):
        SketchSampler.from_bytes(data)
    with pytest.raises(NotFittedError, match="SketchDensity: not fitted yet"):
        SketchDensity().to_bytes()


def test_a_clone_is_unfitted_and_equal_in_parameters():
    model = private(random_state=4)
    assert clone(model).get_params() == model.get_params()
    assert not clone(model)._parts()
    with pytest.raises(TypeError, match="from_release takes a release, not int"):
        SketchDensity.from_release(3)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([7.25, 7.5], "Reshape your data"),
        (np.array([[7.25 + 1j]]), "Complex data not supported"),
        ([["7.25 Main Street"]], "column 0 holds text"),
        ([[7.25e200], [0.0]], "column 0 is not"),
    ],
)
def test_errors_never_hold_a_cell(data, says):
    with pytest.raises(ValueError, match=f"SketchDensity: .*{says}") as error:
        SketchDensity().fit(data)
    assert "7.25" not in str(error.value)
    with pytest.raises(ValueError, match="sample_weight must be integers") as error:
        SketchDensity().fit([[1.0], [2.0]], sample_weight=["7.25 kg", None])
    assert "7.25" not in str(error.value)


def test_a_constant_column_far_from_zero_is_learned():
    assert 0.9 < SketchDensity().fit([[1e17]] * 3).density([[1e17]]) <= 1


def test_a_sketch_is_not_saved_as_private():
    model = SketchDensity(rows=8).fit(POINTS).set_params(epsilon=1.0, bounds=BOX)
    with pytest.raises(ValueError, match="what was learned is not private"):
        model.to_bytes()


def test_forged_parts_and_columns_are_refused():
    model = private()
    model.n_features_in_ = 3
    model.bounds_ = (0.0,) * 3, (1.0,) * 3
    other = private()
    other._parts = lambda: {"fit": other.release_}
    invalid = private()
    invalid._parts = lambda: {"release_": CountMin(64).release(1.0)}
    for forged in (model, other, invalid):
        with pytest.raises(SketchFormatError, match="damaged content"):
            load(forged.to_bytes())
