"""A model that learns event by event renews what its events touched, and nothing goes stale."""

import copy
import pickle

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.errors import StaleIndexError
from sfumato.recommend import DenseFactorization, SketchFactorization
from sfumato.recommend.factorization.vector_cache import VectorCache

STREAM = {"factors": 16, "epochs": 1, "random_state": 3}
MODELS = {
    "dense": lambda: DenseFactorization(**STREAM, bounds=(1, 5)),
    "dense, ranking": lambda: DenseFactorization(**STREAM, objective="ranking"),
    "sketch": lambda: SketchFactorization(**STREAM, bounds=(1, 5), cells=1 << 16),
    "sketch of 40 factors": lambda: SketchFactorization(
        **{**STREAM, "factors": 40}, bounds=(1, 5), cells=1 << 17
    ),
    "sketch, ranking": lambda: SketchFactorization(**STREAM, objective="ranking", cells=1 << 16),
    "half blocks": lambda: SketchFactorization(
        **STREAM, objective="ranking", cells=1 << 16, active=8
    ),
    "component": lambda: SketchFactorization(
        **STREAM, bounds=(1, 5), cells=1 << 14, layout="component"
    ),
}


def rows(random, count, users=60, items=300):
    ids = random.integers(users, size=count), random.integers(items, size=count)
    return Interactions(*ids, random.integers(1, 6, count).astype(float))


def started(name, seed=0):
    random = np.random.default_rng(seed)
    everything = Interactions(np.arange(300) % 60, np.arange(300), np.full(300, 3.0))
    return MODELS[name]().fit(rows(random, 2000).merge(everything)), random


def fresh(model, kind):
    """The same vectors from an empty cache."""
    return VectorCache().get(model, kind).panels


def check(model):
    for kind in ("scores", "cosines"):
        np.testing.assert_array_equal(model._vectors_for(kind).panels, fresh(model, kind))


@pytest.mark.parametrize("name", MODELS)
def test_cached_vectors_are_bitwise_those_of_an_empty_cache(name):
    model, random = started(name)
    check(model)
    for step in range(40):
        count = int(random.choice([1, 1, 1, 3, 40, 400]))
        new = 100 * (step % 7 == 3)  # ids that nobody knows
        model.partial_fit(rows(random, count, 60 + new, 300 + new))
        if random.integers(3):
            check(model)
        if step == 12:
            model = pickle.loads(pickle.dumps(model))
        elif step == 18:
            model = copy.copy(model)
        elif step == 24:
            model = type(model).from_bytes(model.to_bytes())
        elif step == 30:
            model.partial_fit(rows(random, 2), catalogue=np.arange(20, 380))
        elif step == 36 and name != "half blocks":
            model.resize(20)
    check(model)


@pytest.mark.parametrize("name", ["dense", "sketch", "dense, ranking", "sketch, ranking"])
def test_one_event_renews_few_vectors(name):
    model, random = started(name)
    model.recommend(1)
    before = model._vectors_for("scores").panels
    model.partial_fit(rows(random, 1))
    renewed = []
    counted = model._changed_positions

    def noted(changes, cache):
        renewed.append(counted(changes, cache))
        return renewed[-1]

    model._changed_positions = noted
    assert model._vectors_for("scores").panels is before
    assert 1 <= len(renewed[0]) < 60
    del model._changed_positions
    check(model)


@pytest.mark.parametrize("name", MODELS)
def test_a_copy_learns_apart(name):
    model, random = started(name)
    model.recommend(1)
    twin, deep = copy.copy(model), copy.deepcopy(model)
    before = model.to_bytes()
    more = rows(random, 200)
    twin.partial_fit(more)
    assert model.to_bytes() == before == deep.to_bytes()
    check(model)
    assert twin.to_bytes() == deep.partial_fit(more).to_bytes() != before


@pytest.mark.parametrize("name", ["dense", "sketch", "sketch of 40 factors"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("count", "rate"), [(1, 1e40), (40, 1e4)])
def test_a_pass_that_diverges_is_undone_from_its_log(name, count, rate):
    model, random = started(name)
    check(model)
    before, some = model.to_bytes(), rows(random, count, users=3, items=3)
    assert model._log(count) is not None
    with pytest.raises(ValueError, match="diverged"):
        model.set_params(learning_rate=rate).partial_fit(some)
    assert model.set_params(learning_rate=0.05).to_bytes() == before
    check(model)


def test_an_index_is_stale_after_one_event():
    model, random = started("sketch")
    model.recommend(1)
    index = model.index("bands", bands=1)
    model.partial_fit(rows(random, 1))
    assert index.stale
    with pytest.raises(StaleIndexError):
        index.recommend(1)


@pytest.mark.parametrize("name", MODELS)
def test_one_pair_and_one_user_get_what_they_get_among_others(name):
    model, random = started(name)
    users, items = random.integers(70, size=50), random.integers(320, size=50)
    many = model.predict(users, items)
    for user, item, score in zip(users.tolist(), items.tolist(), many, strict=True):
        assert model.predict(user, item).tolist() == model.predict([user], [item]).tolist()
        assert model.predict(user, item) == score
        assert model.predict(user, item).shape == (1,)
    left_out = rows(random, 600)
    lists, scores = model.recommend(users, 7, exclude=left_out)
    mask = random.random(300) < 0.5
    few = model.recommend(users, 300, exclude=left_out, filter=mask)
    for at, user in enumerate(users.tolist()):
        one = model.recommend(user, 7, exclude=left_out)
        assert one[0].tolist() == lists[at].tolist()
        assert one[1].tolist() == scores[at].tolist()
        again = model.recommend([user], 255, exclude=left_out, filter=mask)
        assert again[0][0].tolist() == few[0][at, :255].tolist()
        assert again[1][0].tolist() == few[1][at, :255].tolist()


def test_parameters_are_checked_again_once_they_change():
    model, random = started("dense")
    model.partial_fit(rows(random, 1)).partial_fit(rows(random, 1))
    model.set_params(learning_rate=-1.0)
    with pytest.raises(ValueError, match="learning_rate"):
        model.partial_fit(rows(random, 1))
    model.set_params(learning_rate=1.0).partial_fit(rows(random, 1))
    model.set_params(learning_rate=True)  # which equals 1.0, and is no number
    with pytest.raises(ValueError, match="learning_rate"):
        model.partial_fit(rows(random, 1))
    model.set_params(learning_rate=0.5, bounds=(1, 4))
    with pytest.raises(ValueError, match="bounds"):
        model.partial_fit(Interactions([1], [2], [5.0]))


def test_small_tables_are_learned_by_one_thread():
    train = rows(np.random.default_rng(1), 3000)
    one, many = (
        SketchFactorization(**STREAM, cells=1 << 14, threads=threads).fit(train)
        for threads in (1, 8)
    )
    np.testing.assert_array_equal(one._cells.table, many._cells.table)
    large = SketchFactorization(**STREAM, cells=1 << 21, threads=8, bounds=(1, 5))
    large.partial_fit(train)
    assert large._threads(large._check(), 1 << 16) == 8
    assert large._threads(large._check(), (1 << 16) - 1) == 1
