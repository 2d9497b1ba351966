"""SketchFactorization: fixed memory whoever comes, and factors that can be resized at run time."""

import copy
import pickle
import resource

import numpy as np
import pytest

from sfumato.core.hashing import hash_column
from sfumato.data import Interactions
from sfumato.recommend import ModelFormatError, SketchFactorization
from support.recommender_contract import known_rank as world
from support.recommender_contract import rmse


@pytest.mark.parametrize("layout", ["block", "component"])
@pytest.mark.parametrize("depth", [1, 4])
def test_it_learns_a_known_world(layout, depth):
    train, test = world()
    model = SketchFactorization(factors=16, depth=depth, layout=layout, space_gain=0.5).fit(train)
    assert rmse(model, test) < 0.8 * test.ratings.std()


def test_the_table_has_the_size_of_equation_4_9():
    train, _ = world()
    entities = np.unique(train.users).size + np.unique(train.items).size
    for factors, depth, gain in ((32, 4, 1.0), (16, 1, 2.83), (11, 3, 4.0)):
        options = {"factors": factors, "depth": depth, "space_gain": gain, "epochs": 1}
        block = SketchFactorization(**options).fit(train)
        assert block.nbytes == 64 * depth * np.ceil(entities * factors / (gain * depth) / 16)
        component = SketchFactorization(layout="component", **options).fit(train)
        assert component.nbytes == 4 * depth * np.ceil(entities * factors / (gain * depth))


def test_millions_of_new_users_allocate_nothing():
    # One batch's own columns may take tens of MB; a dense table of these users would take 256 MB.
    model = SketchFactorization(cells=1 << 14, bounds=(1, 5))
    random, size = np.random.default_rng(1), 200_000
    peaks, files, sizes = [], [], set()
    for start in range(0, 2_000_000, size):
        items, ratings = random.integers(100, size=size), random.integers(1, 6, size=size)
        model.partial_fit(Interactions(np.arange(start, start + size), items, ratings))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        files.append(len(model.to_bytes()))
        sizes.add(model.nbytes)
    assert sizes == {4 << 14}
    assert (
        max(files) - min(files) <= 64
    )  # digits of the number of ratings learned from, and padding
    assert peaks[-1] - peaks[1] < 64 * 1024


def test_streams_without_cells_are_refused_with_a_reason():
    train, _ = world(rows=100)
    model = SketchFactorization()
    with pytest.raises(ValueError, match=r"SketchFactorization: .* needs cells= and bounds="):
        model.partial_fit(train)
    assert "catalogue_" not in model.__dict__


def test_a_stream_learns_in_one_pass():
    train, test = world(rows=60_000)
    model = SketchFactorization(factors=16, cells=1 << 14, learning_rate=0.1, bounds=(1, 5))
    for start in range(0, len(train), 5000):
        model.partial_fit(train.filter(np.arange(start, min(start + 5000, len(train)))))
    assert model.seen_ == len(train)
    assert model.mean_ == pytest.approx(train.ratings.mean())
    assert rmse(model, test) < 0.85 * test.ratings.std()


def test_memory_for_fewer_numbers_than_factors_reads_fewer():
    train, _ = world()
    vectors = {}
    for active in (None, 32):
        model = SketchFactorization(space_gain=4.0, epochs=1, active=active).fit(train)
        vectors[active] = model._user_vectors(np.arange(5))
        assert vectors[active].shape == (5, 32)
    assert (vectors[None][:, 15:-1] == 0).all()
    assert (vectors[32][:, :-1] != 0).all()
    with pytest.raises(ValueError, match="active must be at most factors, 32, not 33"):
        SketchFactorization(active=33).fit(train)


@pytest.mark.parametrize("layout", ["block", "component"])
def test_resizing_keeps_biases_and_comes_back_exactly(layout):
    train, _ = world()
    model = SketchFactorization(factors=32, active=32, layout=layout, epochs=3).fit(train)
    ids = np.arange(50)
    before, table = model._user_vectors(ids), model._cells.table.copy()
    for factors in (48, 16, 32):
        model.resize(factors)
        now = model._user_vectors(ids)
        assert now.shape == (50, factors)
        assert model.factors == factors
        np.testing.assert_allclose(now[:, -1], before[:, -1], atol=1e-5)
    np.testing.assert_allclose(now, before, atol=1e-5)
    assert (model._cells.table == table).all()


@pytest.mark.parametrize("layout", ["block", "component"])
def test_resizing_turns_components_and_keeps_products_of_what_is_read(layout):
    train, _ = world()
    model = SketchFactorization(factors=32, active=32, layout=layout, epochs=3).fit(train)
    users = np.arange(50)
    before = model._user_vectors(users)[:, :-1]
    after = model.resize(48)._user_vectors(users)[:, :-1]
    read = model._cells._read(hash_column(users, model._cells.seed))
    new = read[:, 32:] * model.scale_**0.5
    np.testing.assert_allclose(after @ after.T - new @ new.T, before @ before.T, atol=1e-4)
    assert not np.allclose(after[:, :31], before, atol=1e-4)


@pytest.mark.parametrize("layout", ["block", "component"])
def test_a_resized_model_goes_on_learning(layout):
    train, _ = world()
    model = SketchFactorization(factors=32, active=32, layout=layout, epochs=3).fit(train)
    model.resize(48).partial_fit(train)
    assert np.isfinite(model.predict(train.users[:9], train.items[:9])).all()


def test_read_outs_start_with_one_deviation_whatever_the_depth():
    # 2,000 x 31 numbers: the relative error of the deviation is 0.003; ten of it are allowed.
    from sfumato.recommend.factorization.factor_cells import FactorCells
    from sfumato.recommend.factorization.sgd import START

    for depth in (1, 2, 4, 8):
        cells = FactorCells(32, depth, 5000)
        cells.add_noise(START, np.random.default_rng(depth))
        deviation = cells.vectors(hash_column(np.arange(2000), 0))[:, :-1].std()
        assert deviation == pytest.approx(START, rel=0.03)


def test_an_unknown_user_reads_noise_near_zero_and_no_list_of_users_is_stored():
    train, _ = world()
    model = SketchFactorization(factors=16, space_gain=0.5).fit(train)
    observed, unseen = (
        model._user_vectors(np.arange(300)),
        model._user_vectors(np.arange(1000, 1300)),
    )
    assert (unseen != 0).all()
    assert unseen.std() < 0.8 * observed.std()


def test_texts_and_integers_are_both_ids():
    users, items = ["ann", "ann", "bob", "bob"], ["tea", "rum", "tea", "milk"]
    model = SketchFactorization(factors=16, cells=4096).fit(
        Interactions(users, items, [5, 1, 4, 2])
    )
    assert model.predict("ann", ["tea", "rum"]).argmax() == 0


def test_copies_and_files_predict_the_same():
    train, test = world()
    model = SketchFactorization(epochs=2, depth=2).fit(train)
    result = model.predict(test.users, test.items)
    for twin in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        SketchFactorization.from_bytes(model.to_bytes()),
    ):
        assert (twin.predict(test.users, test.items) == result).all()
        assert twin._cells.table.ctypes.data % 64 == 0
        twin.partial_fit(test)
        assert (model.predict(test.users, test.items) == result).all()


def test_a_file_that_claims_a_huge_table_is_refused_before_it_is_made():
    model = SketchFactorization(cells=4096, epochs=1, factors=16).fit(world()[0])
    model._cells.__dict__["width"] = 2**32
    with pytest.raises(ModelFormatError):
        SketchFactorization.from_bytes(model.to_bytes())


def test_changed_parameters_wait_for_the_next_fit():
    train, test = world()
    model = SketchFactorization(epochs=2).fit(train)
    result = model.predict(test.users, test.items)
    model.set_params(factors=16, depth=1, seed=9, layout="component", readout="median")
    assert (model.predict(test.users, test.items) == result).all()
