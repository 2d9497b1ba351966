"""BellKorBlend: weights against least squares by hand, what parts add, files, Ctrl-C."""

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.recommend import BellKorBlend, DampedMeans, DenseFactorization, load
from sfumato.recommend.base import ModelFormatError
from sfumato.recommend.hybrid import blend as blending
from sfumato.recommend.hybrid.probing import _Errors
from sfumato.recommend.hybrid.stacking import Probe, Stacking, design

WORLD = generate_world(users=120, items=80, ratings=4500, random_state=2).interactions
TRAIN, TEST = WORLD.split(0.9, 0.1, random_state=0)
PARTS = {"damped-means": {}, "few": {"model": "dense", "factors": 4, "epochs": 8}}


@pytest.fixture(scope="module")
def model():
    return BellKorBlend(parts=PARTS).fit(TRAIN)


def error(model, rows):
    return float(np.sqrt(np.mean((model.predict(rows.users, rows.items) - rows.ratings) ** 2)))


def probe_of(seed, rows=4000, support=0.0):
    """Two noisy views of a signal; with `support`, the first is the better the larger the meta."""
    random = np.random.default_rng(seed)
    signal, meta = random.normal(0, 1, rows), random.normal(0, 1, (rows, 1))
    noise = np.exp(-support * meta[:, 0])
    scores = np.stack([signal + 0.5 * noise * random.normal(size=rows), 0.5 * signal], axis=1)
    scores[:, 1] += random.normal(0, 0.3, rows)
    return Probe(scores, meta, signal, random.integers(0, 5, rows))


def test_weights_of_many_rows_are_those_of_least_squares():
    probe = probe_of(0)
    found = Stacking.of(probe, meta=False)
    columns = np.column_stack([probe.scores, np.ones(len(probe.targets))])
    exact = np.linalg.lstsq(columns, probe.targets, rcond=None)[0]
    np.testing.assert_allclose(found.weights[:, 0], exact, atol=0.02)
    assert not found.weights[:, 1].any()


def test_weights_depend_on_support_where_that_predicts_better():
    # One view at a time: its trust must rise with the meta-feature.
    probe = probe_of(1, support=1.0).without(1)
    found = Stacking.of(probe)
    assert found.meta
    assert found.weights[0, 1] > 0.05
    plain, varied = Stacking.of(probe, meta=False), found
    errors = [np.mean((each.validated(probe) - probe.targets) ** 2) for each in (plain, varied)]
    assert errors[1] < errors[0]


def test_rows_are_validated_by_weights_of_the_other_users():
    probe = probe_of(5, rows=200)
    columns, none = np.column_stack([probe.scores, np.ones(200)]), np.zeros((3, 2))
    got = Stacking(none, none, rows=0.0, meta=False).validated(probe)
    for fold in range(5):
        mine = probe.groups == fold
        weights = np.linalg.lstsq(columns[~mine], probe.targets[~mine], rcond=None)[0]
        np.testing.assert_allclose(got[mine], columns[mine] @ weights, atol=1e-5)


def test_errors_of_a_probe_are_those_of_clipped_predictions():
    errors = _Errors(np.array([0, 0]), np.array([0.0, 1.0]), (-1.0, 1.0))
    assert errors.of(np.array([5.0, -3.0])).linearized(True)[0] == pytest.approx(2.5**0.5)


def test_weights_are_shrunk_to_the_simple_blend():
    probe, mean = probe_of(6, rows=200), np.array([[0.5, 0], [0.5, 0], [0, 0]])
    got = Stacking(mean, mean, rows=1e12, meta=True).validated(probe)
    np.testing.assert_allclose(got, probe.scores.mean(axis=1), atol=1e-6)


def test_design_is_every_product_of_score_and_meta_feature():
    made = design(np.array([[2.0, 3.0]]), np.array([[5.0]]))
    assert made.tolist() == [[2, 10, 3, 15, 1, 5]]


def test_few_rows_do_not_lose_to_the_best_part():
    # With 60 rows least squares of 8 noisy copies overfits; shrinkage must not.
    random = np.random.default_rng(3)
    signal, new = random.normal(size=60), random.normal(size=5000)
    views = [each[:, None] + random.normal(0, 0.5, (each.size, 8)) for each in (signal, new)]
    probe = Probe(views[0], np.zeros((60, 0)), signal, random.integers(0, 5, 60))
    weights = Stacking.of(probe).weights[:, 0]
    blended = np.column_stack([views[1], np.ones(new.size)]) @ weights
    best = min(np.mean((views[1][:, at] - new) ** 2) for at in range(8))
    assert np.mean((blended - new) ** 2) < best


def test_the_blend_is_no_worse_than_its_best_part(model):
    parts = [error(each, TEST) for each in model.models_.values()]
    assert error(model, TEST) <= min(parts) * 1.003


def test_parts_say_what_each_adds(model):
    rows = {row["name"]: row for row in model.parts_}
    assert list(rows) == list(PARTS)
    for row in rows.values():
        assert row["adds"] == pytest.approx(row["rmse_without"] - model.rmse_)
        assert row["low"] <= row["adds"] <= row["high"]
    best = min(row["rmse"] for row in rows.values())
    assert model.rmse_ <= best * 1.003


def test_lists_predictions_and_explanations_agree(model):
    user = TRAIN.users[0]
    items, scores = model.recommend(user, 80)
    assert (np.diff(scores) <= 1e-12).all()
    expected = np.clip(scores, model.low_, model.high_)
    np.testing.assert_allclose(model.predict(user, items), expected, atol=1e-5)
    terms = model.explain(user, items[3], n=1)
    added = sum(part["part"] for part in terms["parts"]) + terms["rest"]
    assert added + terms["mean"] + terms["constant"] == pytest.approx(terms["score"])
    assert terms["score"] == pytest.approx(scores[3], abs=1e-5)


def test_files_answer_as_their_models_and_damage_is_found(model):
    data = model.to_bytes()
    restored = load(data)
    np.testing.assert_array_equal(
        restored.predict(TEST.users, TEST.items), model.predict(TEST.users, TEST.items)
    )
    assert restored.parts_ == model.parts_
    assert restored.rmse_ == model.rmse_
    assert restored.recommend_fold_in(TRAIN.items[:4], n=3)[0].size == 3
    model._weights[0, 0], before = np.inf, model._weights[0, 0]
    try:
        with pytest.raises(ValueError, match="_weights is not finite"):
            model.to_bytes()
    finally:
        model._weights[0, 0] = before
    entries, model._entries = model._entries, model._entries[::-1]
    try:
        with pytest.raises(ModelFormatError):
            load(model.to_bytes())
    finally:
        model._entries = entries


def test_ctrl_c_while_all_rows_are_learned_keeps_the_fits_without_the_probe(monkeypatch):
    whole, fit = len(TRAIN), blending.fit_part

    def interrupted(entry, train, *rest, **extras):
        if len(train) == whole and entry["name"] == "few":
            raise KeyboardInterrupt
        return fit(entry, train, *rest, **extras)

    monkeypatch.setattr(blending, "fit_part", interrupted)
    model = BellKorBlend(parts=PARTS)
    with pytest.raises(KeyboardInterrupt):
        model.fit(TRAIN)
    assert error(model, TEST) < 1.5
    assert list(model.models_) == list(PARTS)


def test_small_data_get_equal_weights():
    model = BellKorBlend(parts=PARTS).fit(TRAIN.filter(np.arange(len(TRAIN)) < 90))
    assert [row["weight"] for row in model.parts_] == [0.5, 0.5]
    assert model.rmse_ is None
    assert load(model.to_bytes()).parts_ == model.parts_


@pytest.mark.parametrize(
    "parts",
    [
        "damped-means,dense",
        ["damped-means", DenseFactorization()],
        {"damped-means": DampedMeans(), "dense": {}},
        '{"damped-means": {}, "dense": {}}',
    ],
)
def test_all_ways_of_naming_parts_have_one_plain_form(parts):
    plain = BellKorBlend(parts=parts)._check()["parts"]
    assert [(entry["name"], entry["model"]) for entry in plain] == [
        ("damped-means", "damped-means"),
        ("dense", "dense"),
    ]
    assert BellKorBlend(parts=plain)._check()["parts"] == plain


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"parts": "popular,dense"}, "parts must be models of ratings, and popular is one of"),
        ({"parts": "private-factorization"}, "parts must be models without epsilon"),
        ({"parts": {"dense": {"factors": 0}}}, "parts must be of valid parameters: .*factors"),
        ({"parts": "dense", "folds": 11}, "folds must be at most 10"),
        ({"parts": "dense", "probe_by": "latest"}, "probe_by must be .*has no times"),
    ],
)
def test_invalid_parameters_are_refused_with_the_remedy(parameters, sentence):
    rows = Interactions(TRAIN.users, TRAIN.items, TRAIN.ratings)  # without times
    with pytest.raises(ValueError, match=sentence):
        BellKorBlend(**parameters).fit(rows)


def test_the_latest_rows_are_the_probe_part_if_so_wanted():
    rows = Interactions(TRAIN.users, TRAIN.items, TRAIN.ratings, np.arange(len(TRAIN)))
    used = np.arange(len(rows))
    plain = {"probe": 0.1, "folds": None, "probe_by": "latest", "random_state": 0}
    (found,) = blending.probe_rows(rows, used, plain)
    assert found.tolist() == used[-found.size :].tolist()
