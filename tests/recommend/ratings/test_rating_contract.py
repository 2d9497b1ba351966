"""Models of ratings that are no factorizations keep one contract; those of the registry join it.

Factorizations have theirs in tests/recommend/test_contract.py.
"""

import inspect
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import Factorization, ModelFormatError, NotFittedError, load
from sfumato.recommend.models import MODELS
from support.rating_models import SMALL, extras
from support.recommender_contract import BOUNDS, ITEMS, RATED, SHELF, small_world


def timed(rows: Interactions) -> Interactions:
    """The same rows, with times that nothing depends on."""
    times = np.random.default_rng(1).uniform(0, 3e7, len(rows))
    return Interactions(rows.users, rows.items, rows.ratings, times)


TRAIN = timed(small_world())
USERS, SHOWN = TRAIN.users[:200], TRAIN.items[:200]
KINDS = {
    name: entry.kind
    for name, entry in MODELS.items()
    if entry.objectives == ("ratings",)
    and not entry.private
    and not issubclass(entry.kind, Factorization)
}
FITTED = {}


def made(name, **parameters):
    return KINDS[name](**SMALL.get(name, {}), **parameters)


def learned(name, train=TRAIN, **options):
    model = made(name)
    return model.fit(train, **{"catalogue": ITEMS, **extras(model, train), **options})


@pytest.fixture(params=KINDS)
def name(request):
    return request.param


@pytest.fixture
def model(name):
    """A fitted model, of which tests only ask."""
    if name not in FITTED:
        FITTED[name] = learned(name)
    return FITTED[name]


def result(model):
    return model.predict(USERS, SHOWN), *model.recommend(np.arange(8), 12)


def assert_same_answers(model, want):
    for got, stored in zip(result(model), want, strict=True):
        np.testing.assert_array_equal(got, stored)


def test_a_fit_repeats_and_a_second_one_starts_anew(name, model):
    other = learned(name, timed(small_world(9)))
    assert other.fit(TRAIN, catalogue=ITEMS, **extras(other, TRAIN)) is other
    assert_same_answers(other, result(model))


def test_parameters_are_keywords_declared_and_checked(name):
    model = made(name)
    signature = inspect.signature(type(model)).parameters
    assert set(signature) == set(model.LIMITS)
    assert {each.kind for each in signature.values()} == {inspect.Parameter.KEYWORD_ONLY}
    for parameter, limit in model.LIMITS.items():
        for bad in limit.bad():
            broken = made(name).set_params(**{parameter: bad})
            with pytest.raises(ValueError, match=f"{type(model).__name__}: {parameter} must be"):
                broken.fit(TRAIN, catalogue=ITEMS, **extras(broken, TRAIN))
            with pytest.raises(NotFittedError):
                broken.predict(USERS, SHOWN)


def test_bad_data_is_refused_and_changes_nothing(name):
    model = learned(name)
    want, kind = result(model), type(model).__name__
    more = extras(model, TRAIN)
    with pytest.raises(TypeError, match=f"{kind}: train must be Interactions, not list"):
        model.fit([1, 2, 3], catalogue=ITEMS, **more)
    with pytest.raises(ValueError, match=f"{kind}: train is empty"):
        model.fit(Interactions([], [], []), catalogue=ITEMS, **more)
    with pytest.raises(ValueError, match="has no ratings"):
        model.fit(Interactions(TRAIN.users, TRAIN.items, times=TRAIN.times), **more)
    with pytest.raises(ValueError, match="catalogue"):
        model.fit(TRAIN, catalogue=[], **more)
    if model.uses_times:
        with pytest.raises(ValueError, match=r"no times .* give them to Interactions"):
            model.fit(small_world(), **more)
    model.set_params(bounds=(2, 5))
    with pytest.raises(ValueError, match="ratings must be within bounds"):
        model.fit(TRAIN, catalogue=ITEMS, **more)
    assert_same_answers(model, want)


def test_tiny_data_is_learned_or_refused_by_a_sentence(name):
    for rows in (TRAIN.users == 7, TRAIN.items == 1007, np.array([3])):
        model, sentence = None, ""
        try:
            model = learned(name, TRAIN.filter(rows))
        except ValueError as refused:
            sentence = str(refused)
        if model is None:
            assert "only" in sentence or "few" in sentence
            continue
        assert np.isfinite(model.predict([7, 999], [1007, 999])).all()
        assert np.isfinite(model.recommend(7, 5)[1]).all()


def test_equal_ratings_are_predicted_as_they_are(name):
    train = Interactions(TRAIN.users, TRAIN.items, np.full(len(TRAIN), 4.0), TRAIN.times)
    got = learned(name, train).predict([0, 999], [1000, 999])
    np.testing.assert_allclose(got, 4.0, atol=1e-6)


def test_predictions_stay_inside_bounds_and_unknown_ids_are_answered(model):
    users, items = np.divmod(np.arange(3 * RATED * 2 * SHELF), 2 * SHELF)
    got = model.predict(users, items + 1000)
    assert got.dtype == np.float64
    assert got.min() >= model.low_ >= BOUNDS[0]
    assert got.max() <= model.high_ <= BOUNDS[1]
    stranger = model.predict(10**9, [*ITEMS, 10**9])
    assert np.corrcoef(stranger[:-1], np.arange(SHELF))[0, 1] > 0.9  # the items' means
    assert abs(stranger[-1] - model.mean_) < 0.5


def test_it_learns_the_items_that_are_liked(model):
    got = [model.predict(np.arange(RATED), item).mean() for item in ITEMS]
    assert np.corrcoef(got, np.arange(SHELF))[0, 1] > 0.9


def test_lists_are_predictions_in_order_without_what_is_excluded(model):
    items, scores = model.recommend(np.arange(RATED), SHELF)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (np.sort(items, axis=1) == ITEMS).all()
    want = model.predict(np.repeat(np.arange(RATED), SHELF), items.ravel())
    clipped = np.clip(scores, model.low_, model.high_).ravel()
    np.testing.assert_allclose(clipped, want, atol=1e-4)
    one, _ = model.recommend(3, SHELF + 5, exclude=TRAIN)
    assert set(one.tolist()) == set(np.setdiff1d(ITEMS, TRAIN.items[TRAIN.users == 3]).tolist())
    allowed = ITEMS < 1005
    assert set(model.recommend(3, 5, filter=allowed)[0].tolist()) == set(range(1000, 1005))


def test_a_new_user_gets_other_items_than_the_own_ones(model):
    own = ITEMS[::4]
    items, scores = model.recommend_fold_in(own, np.where(own % 8, 5.0, 1.0), n=SHELF)
    assert set(items.tolist()) == set(np.setdiff1d(ITEMS, own).tolist())
    assert (np.diff(scores) <= 0).all()
    nothing, _ = model.recommend_fold_in([], n=5)
    assert (nothing >= 1030).all()  # the items with the best means
    with pytest.raises(ValueError, match="ratings must be 10 finite numbers"):
        model.recommend_fold_in(own, [1.0])


def test_an_explanation_is_plain_and_ends_in_the_prediction(model):
    for user, item in ((3, 1004), (10**9, 1004), (3, 10**9)):
        terms = model.explain(user, item)
        assert terms["prediction"] == pytest.approx(model.predict(user, item)[0], abs=1e-5)
        json.dumps(terms, allow_nan=False)


def test_a_file_holds_everything_and_damage_is_refused(model, tmp_path):
    model.save(tmp_path / "model")
    for twin in (load(tmp_path / "model"), type(model).load(tmp_path / "model")):
        assert type(twin) is type(model)
        assert_same_answers(twin, result(model))
        assert twin.to_bytes() == model.to_bytes()
        assert twin.explain(3, 1004) == model.explain(3, 1004)
        np.testing.assert_array_equal(
            twin.recommend_fold_in([1001], [5.0])[1], model.recommend_fold_in([1001], [5.0])[1]
        )
    data = model.to_bytes()
    for cut in (0, 24, len(data) // 2, len(data) - 1):
        with pytest.raises(ModelFormatError):
            load(data[:cut])
    for at in np.linspace(0, len(data) - 1, 12).astype(int):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(ModelFormatError):
            load(bytes(damaged))


def test_a_model_that_is_not_fitted_says_so(name, tmp_path):
    model = made(name)
    for ask in (lambda: model.predict(0, 0), lambda: model.recommend(0), lambda: model.nbytes):
        with pytest.raises(NotFittedError, match="not fitted yet; call fit first"):
            ask()


def test_threads_may_ask_together(model):
    want, twin = result(model), load(model.to_bytes())
    with ThreadPoolExecutor(4) as pool:
        for answer in [pool.submit(result, twin) for _ in range(4)]:
            for got, stored in zip(answer.result(), want, strict=True):
                np.testing.assert_array_equal(got, stored)


def test_texts_as_ids_work_throughout(name):
    names = np.array([f"item {item}" for item in ITEMS])
    users = [f"user {u}" for u in TRAIN.users]
    train = Interactions(users, names[TRAIN.items - 1000], TRAIN.ratings, TRAIN.times)
    model = learned(name, train, catalogue=names)
    items, _ = model.recommend(["user 3", "nobody"], 3, exclude=train)
    twin = load(model.to_bytes())
    np.testing.assert_array_equal(twin.recommend(["user 3", "nobody"], 3, exclude=train)[0], items)
    assert np.isfinite(model.predict("user 3", names)).all()
    with pytest.raises(TypeError, match="users are integers"):
        model.predict(3, names[:1])
