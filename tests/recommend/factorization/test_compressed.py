"""A private model in a count sketch: same promise, fixed size, and the same predictions."""

import numpy as np
import pytest

from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend import DenseFactorization, PrivateFactorization, SketchedFactors, load
from support.recommender_contract import BOUNDS, ITEMS, RATED, TRAIN


@pytest.fixture(scope="module")
def private():
    model = PrivateFactorization(epsilon=50, delta=1e-6, bounds=BOUNDS)
    return model.fit(TRAIN, users=np.arange(RATED), catalogue=ITEMS)


def test_a_roomy_sketch_predicts_what_the_model_predicts(private):
    roomy = SketchedFactors(cells=1 << 20).fit(private)
    # 900 numbers in rows of 2**18 cells: a number collides in a row with p < 0.004.
    got = roomy.predict(TRAIN.users, TRAIN.items)
    far = np.abs(got - private.predict(TRAIN.users, TRAIN.items)) > 0.01
    assert far.mean() < 0.2


def test_cells_are_fitted_to_the_vectors_and_not_added_up(private):
    numbers = private.item_vectors_.size + private.user_vectors_.size
    wanted = private.predict(TRAIN.users, TRAIN.items)

    def error(cells, seed=0):
        small = SketchedFactors(cells=cells, seed=seed).fit(private)
        return np.sqrt(np.mean((small.predict(TRAIN.users, TRAIN.items) - wanted) ** 2))

    # Added up, a bias would be off by half of the root mean square of all numbers.
    enough = 3 * numbers // 2
    assert max(error(enough, seed) for seed in range(5)) < 0.1 * np.std(wanted)
    with pytest.warns(UserWarning, match=f"cells=64 are too few .*; cells={enough} reproduce"):
        assert error(64) < np.std(wanted)


def test_size_is_that_of_cells_and_the_statement_is_the_models(private):
    small = SketchedFactors(cells=300, depth=3).fit(private)
    assert small.nbytes == 1200
    assert (small.statement, small.privacy_label) == (private.statement, "proved")


def test_a_file_names_no_user_and_reads_back(private, tmp_path):
    small = SketchedFactors(cells=512).fit(private)
    small.save(tmp_path / "small.sfu")
    again = load(tmp_path / "small.sfu")
    np.testing.assert_array_equal(
        again.predict(TRAIN.users, TRAIN.items), small.predict(TRAIN.users, TRAIN.items)
    )
    assert again.statement == private.statement
    data = (tmp_path / "small.sfu").read_bytes()
    assert np.arange(RATED, dtype=np.int64).tobytes()[8:64] not in data


def test_users_own_vectors_are_refused_and_seeded_noise_is_no_promise():
    model = PrivateFactorization(epsilon=50, delta=1e-6, bounds=BOUNDS, covers="joint")
    public = dict(users=np.arange(RATED), catalogue=ITEMS)
    small = SketchedFactors(cells=512)
    assert small.privacy_label == "none"
    with pytest.raises(ValueError, match="a personal copy holds users' own vectors"):
        small.fit(model.fit(TRAIN, **public).personal(TRAIN))
    assert small.fit(model).privacy_label == "proved"
    seeded = model.fit(TRAIN, **public, source=InsecureSeededSource(1))
    assert load(SketchedFactors(cells=512).fit(seeded).to_bytes()).privacy_label == "none"


def test_only_a_private_model_is_taken():
    with pytest.raises(TypeError, match="fitted PrivateFactorization"):
        SketchedFactors(cells=512).fit(DenseFactorization(epochs=1).fit(TRAIN))
    shared = PrivateFactorization(epsilon=50, delta=1e-6, bounds=BOUNDS, rows=90)
    with pytest.raises(ValueError, match="users= instead of rows="):
        SketchedFactors(cells=512).fit(shared.fit(TRAIN, catalogue=ITEMS))
