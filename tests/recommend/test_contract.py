"""Every public model keeps one contract: parameters, data, answers and files; see MODELS."""

import inspect
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import sfumato.recommend
from sfumato.data import Interactions
from sfumato.recommend import (
    Factorization,
    ModelFormatError,
    NotFittedError,
    PrivateFactorization,
    load,
)
from support.recommender_contract import (
    BOUNDS,
    ITEMS,
    MODELS,
    RATED,
    SHELF,
    TRAIN,
    learned,
    small_world,
)

PUBLIC = [getattr(sfumato.recommend, name) for name in sfumato.recommend.__all__]
USERS, SHOWN = TRAIN.users[:200], TRAIN.items[:200]


def result(model):
    """What a model answers, to be compared before and after."""
    return model.predict(USERS, SHOWN), *model.recommend(np.arange(8), 12)


def assert_same_answers(model, want):
    for got, retained in zip(result(model), want, strict=True):
        np.testing.assert_array_equal(got, retained)


def check_fit_returns_the_model_and_repeats(make):
    model = make()
    assert model.fit(TRAIN, catalogue=ITEMS) is model
    if model.statement is None:  # what is proved private takes fresh noise each time
        assert_same_answers(learned(make), result(model))


def check_bad_parameters_name_themselves(make):
    for name, limit in type(make()).LIMITS.items():
        for bad in limit.bad():
            model = make().set_params(**{name: bad})
            with pytest.raises(ValueError, match=f"{type(model).__name__}: {name} must be"):
                model.fit(TRAIN, catalogue=ITEMS)
            with pytest.raises(NotFittedError):
                model.predict(USERS, SHOWN)


def check_parameters_are_keywords_declared_and_stored_as_given(make):
    model = make()
    signature = inspect.signature(type(model)).parameters
    assert set(signature) == set(model.LIMITS)
    assert {each.kind for each in signature.values()} == {inspect.Parameter.KEYWORD_ONLY}
    params = model.get_params()
    twin = type(model)(**params)
    for name, value in twin.get_params().items():
        assert value is params[name]
        assert f"{name}={value!r}" in repr(model)
    with pytest.raises(ValueError, match="colour is no parameter; there are"):
        model.set_params(colour=1)


def check_other_parameters_after_fit_leave_what_was_learned(make):
    model = learned(make)
    want, label = result(model), model.privacy_label
    model.set_params(**{name: 0.5 for name in ("clip", "noise") if name in model.LIMITS})
    for name, value in model.get_params().items():
        if isinstance(value, int) and not isinstance(value, bool):
            model.set_params(**{name: value + 1})
    assert_same_answers(model, want)
    assert_same_answers(load(model.to_bytes()), want)
    assert model.privacy_label == label


def check_a_second_fit_starts_anew(make):
    model = learned(make, small_world(9))
    if model.statement is None:
        assert_same_answers(model.fit(TRAIN, catalogue=ITEMS), result(learned(make)))


def check_epochs_are_honoured(make):
    if "epochs" in make().LIMITS:
        one, two = (make().set_params(epochs=n).fit(TRAIN, catalogue=ITEMS) for n in (1, 2))
        assert [len(model.history_) for model in (one, two)] == [1, 2]
        assert not np.array_equal(result(one)[0], result(two)[0])


def check_bad_data_is_refused_and_changes_nothing(make):
    model = learned(make)
    want, name = result(model), type(model).__name__
    with pytest.raises(TypeError, match=f"{name}: train must be Interactions, not list"):
        model.fit([1, 2, 3], catalogue=ITEMS)
    with pytest.raises(ValueError, match="finite"):
        model.fit(Interactions([1, 2], [1, 2], [3, np.nan]), catalogue=ITEMS)
    with pytest.raises(ValueError, match="catalogue"):
        model.fit(TRAIN, catalogue=[])
    if model.statement is None:  # a private one says nothing of its rows, and clips
        with pytest.raises(ValueError, match=f"{name}: train is empty"):
            model.fit(Interactions([], [], []), catalogue=ITEMS)
    if model.statement is None and model.predicts_ratings:
        model.set_params(bounds=(2, 5))
        with pytest.raises(ValueError, match="ratings must be within bounds"):
            model.fit(TRAIN, catalogue=ITEMS)
    assert_same_answers(model, want)


def check_one_user_or_one_item_is_refused_unless_that_would_leak(make):
    # A private model learns from public lists and must not say who is in the data.
    for rows in (TRAIN.users == 7, TRAIN.items == 1007, np.array([3])):
        train = TRAIN.filter(rows)
        if not isinstance(make(), PrivateFactorization):
            with pytest.raises(ValueError, match=r"one (user|item) only"):
                learned(make, train)
            continue
        model = learned(make, train)
        got = model.predict(train.users, train.items)
        assert np.isfinite(got).all()
        assert (got >= BOUNDS[0]).all()
        assert (got <= BOUNDS[1]).all()
        assert np.isfinite(model.recommend(7, 5)[1]).all()


def check_predictions_stay_inside_bounds(make):
    model = learned(make)
    users, items = np.divmod(np.arange(3 * RATED * 2 * SHELF), 2 * SHELF)
    got = model.predict(users, items + 1000)  # many users and items are unknown
    assert got.dtype == np.float64
    assert got.min() >= model.low_ >= BOUNDS[0]
    assert got.max() <= model.high_ <= BOUNDS[1]


def check_it_learns_the_items_that_are_liked(make):
    model = learned(make)
    got = [model.predict(np.arange(RATED), item).mean() for item in ITEMS]
    assert np.corrcoef(got, np.arange(SHELF))[0, 1] > (0.5 if model.statement else 0.9)


def check_unknown_users_get_the_order_of_item_biases(make):
    # A sketch reads noise for an unknown user, whose sign is even: the mean of 4000 is near 0.
    model = learned(make)
    unknown = np.arange(4000) + 10**9
    items, scores = model.recommend(unknown, SHELF)
    by_item = np.zeros(SHELF)
    np.add.at(by_item, items.ravel() - 1000, scores.ravel() / unknown.size)
    biases = model._item_vectors(ITEMS)[:, -1]
    np.testing.assert_allclose(by_item, model.mean_ + biases, atol=0.05)


def check_recommended_scores_are_predictions_in_order(make):
    model = learned(make)
    items, scores = model.recommend(np.arange(RATED), SHELF)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (np.sort(items, axis=1) == ITEMS).all()
    want = model.predict(np.repeat(np.arange(RATED), SHELF), items.ravel())
    if model.predicts_ratings:
        scores = np.clip(scores, model.low_, model.high_)
    np.testing.assert_allclose(scores.ravel(), want, atol=1e-4)


def check_more_than_is_left_is_filled_up_or_cut(make):
    model = learned(make)
    items, scores = model.recommend([3, 4], SHELF + 5, exclude=TRAIN)
    for row, user in enumerate((3, 4)):
        remaining = np.setdiff1d(ITEMS, TRAIN.items[TRAIN.users == user])
        assert set(items[row, : remaining.size].tolist()) == set(remaining.tolist())
        assert (scores[row, remaining.size :] == -np.inf).all()
        one, _ = model.recommend(user, SHELF + 5, exclude=TRAIN)
        assert set(one.tolist()) == set(remaining.tolist())


def check_the_parts_of_a_prediction_add_up(make):
    model = learned(make)
    parts = model.explain(3, 1004)
    inside = sum(each["part"] for each in parts["components"]) + parts["rest"]
    total = parts["mean"] + parts["user_bias"] + parts["item_bias"] + inside
    assert parts["score"] == pytest.approx(total, abs=1e-9)
    assert parts["prediction"] == pytest.approx(model.predict(3, 1004)[0], abs=1e-5)
    json.dumps(parts, allow_nan=False)


def check_a_file_keeps_everything(make, folder):
    model = learned(make)
    model.save(folder / "model")
    for twin in (load(folder / "model"), type(model).load(folder / "model")):
        assert type(twin) is type(model)
        assert_same_answers(twin, result(model))
        assert twin.nbytes == model.nbytes
        assert twin.to_bytes() == model.to_bytes()
        assert twin.statement == model.statement
        assert twin.privacy_label == model.privacy_label
        assert twin.catalogue_ == model.catalogue_


def check_a_damaged_file_is_refused(make, folder):
    data = learned(make).to_bytes()
    for cut in (0, 4, 24, len(data) // 2, len(data) - 8, len(data) - 1):
        (folder / "model").write_bytes(data[:cut])
        with pytest.raises(ModelFormatError):
            load(folder / "model")
    for at in np.linspace(0, len(data) - 1, 30).astype(int):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(ModelFormatError):
            load(bytes(damaged))


def check_a_model_that_is_not_fitted_says_so(make, folder):
    model = make()
    for ask in (
        lambda: model.predict(0, 0),
        lambda: model.recommend(0),
        lambda: model.nbytes,
        lambda: model.save(folder / "model"),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet; call fit first"):
            ask()
    assert not list(folder.iterdir())


def check_more_data_changes_answers_at_once(make):
    model = learned(make)
    if hasattr(model, "partial_fit"):
        before = result(model)
        assert model.partial_fit(small_world(9)) is model
        items, scores = model.recommend(2, 5)
        np.testing.assert_allclose(
            model.predict(2, items), np.clip(scores, model.low_, model.high_), atol=1e-4
        )
        assert not np.array_equal(before[2], result(model)[2])


def check_threads_may_ask_together(make):
    model = learned(make)
    want = result(model)
    model = load(model.to_bytes())  # nothing is computed yet
    with ThreadPoolExecutor(4) as pool:
        for answer in [pool.submit(result, model) for _ in range(8)]:
            for got, retained in zip(answer.result(), want, strict=True):
                np.testing.assert_array_equal(got, retained)


def check_texts_as_ids_work_throughout(make):
    names = np.array([f"item {item}" for item in ITEMS])
    train = Interactions(
        [f"user {u}" for u in TRAIN.users], names[TRAIN.items - 1000], TRAIN.ratings
    )
    model = learned(make, train, catalogue=names)
    items, _ = model.recommend(["user 3", "nobody"], 3, exclude=train)
    assert set(items.ravel().tolist()) <= set(names.tolist())
    twin = load(model.to_bytes())
    np.testing.assert_array_equal(twin.recommend(["user 3", "nobody"], 3, exclude=train)[0], items)
    assert np.isfinite(model.predict("user 3", names)).all()


# What a model of lists does not promise: it has no bounds, and does not read ratings as liking.
OF_RATINGS = [
    check_one_user_or_one_item_is_refused_unless_that_would_leak,
    check_predictions_stay_inside_bounds,
    check_it_learns_the_items_that_are_liked,
    check_unknown_users_get_the_order_of_item_biases,
]
CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]
CASES = [
    pytest.param(make, id=f"{name}-{at}")
    for name, makers in MODELS.items()
    for at, make in enumerate(makers)
]


def test_every_public_model_has_joined():
    kinds = {c.__name__ for c in PUBLIC if isinstance(c, type) and issubclass(c, Factorization)}
    # SketchedFactors learns from a model, not from ratings: test_sketched_factors.py.
    assert kinds - {"Factorization", "SketchedFactors"} == set(MODELS)


@pytest.mark.parametrize("make", CASES)
def test_contract(make, tmp_path):
    for check in CHECKS:
        if not make().predicts_ratings and check in OF_RATINGS:
            continue
        folder = tmp_path / check.__name__
        folder.mkdir()
        check(make, *([folder] if "folder" in inspect.signature(check).parameters else []))
