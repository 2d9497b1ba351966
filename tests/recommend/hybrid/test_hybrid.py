"""Hybrid: each way of combining against the definition, new items, ratings, files."""

import numpy as np
import pytest

from sfumato.data import Features, generate_world
from sfumato.recommend import CollectiveItems, Hybrid, LinearItems, Popular, load
from sfumato.recommend.hybrid.augmentation import augmented
from sfumato.recommend.hybrid.combining import (
    in_stages,
    reciprocal_ranks,
    standardized,
)
from sfumato.recommend.hybrid.list_probing import (
    HeldOutLists,
    learned_short_list,
    learned_weights,
)
from sfumato.recommend.hybrid.support import Support

WORLD = generate_world(users=150, items=60, ratings=3000, random_state=4).interactions
NEW = np.array([1000, 1001])
GENRES = ["odd" if item % 2 else "even" for item in (*range(60), *NEW)]
FILMS = Features([*range(60), *NEW], categories={"genre": GENRES})
WAYS = {
    "mixed": {"parts": "als,linear-items"},
    "weighted": {"parts": "als,linear-items,popular"},
    "augmentation": {"parts": "popular,linear-items", "support": 40},
    "cascade": {"parts": "popular,linear-items"},
    "switching": {"parts": "popular,linear-items", "support": 20},
    "combination": {},
}
FITTED = {}


@pytest.fixture(params=WAYS)
def model(request):
    if request.param not in FITTED:
        FITTED[request.param] = Hybrid(combine=request.param, **WAYS[request.param]).fit(WORLD)
    return FITTED[request.param]


def test_lists_predictions_explanations_and_files_agree(model):
    user = int(WORLD.users[0])
    items, scores = model.recommend(user, len(model.catalogue_))
    np.testing.assert_allclose(model.predict(user, items), scores, atol=1e-6)
    terms = model.explain(user, items[2])
    assert sum(part["part"] for part in terms["parts"]) == pytest.approx(terms["score"])
    assert terms["score"] == pytest.approx(scores[2], abs=1e-6)
    restored = load(model.to_bytes())
    np.testing.assert_array_equal(restored.predict(user, items), model.predict(user, items))
    assert restored.weights_ == model.weights_
    assert restored.recommend_fold_in(items[:3], n=4)[0].size == 4
    unknown = model.recommend([user, 10**6], 3, exclude=WORLD)[0]
    assert unknown.shape == (2, 3)


def test_a_mixed_list_is_the_sum_of_reciprocal_ranks():
    tables = np.array([[[3.0, 2.0, 1.0]], [[1.0, 3.0, 2.0]]])
    assert reciprocal_ranks(tables).sum(0)[0].tolist() == pytest.approx(
        [1 / 61 + 1 / 63, 1 / 62 + 1 / 61, 1 / 63 + 1 / 62]
    )
    eligible = np.array([[False, True, True]])
    assert reciprocal_ranks(tables, eligible)[0, 0, 1] == pytest.approx(1 / 61)


def test_a_cascade_orders_the_short_list_by_the_second_and_the_others_by_the_first():
    tables = np.array([[[5.0, 4.0, 3.0, 2.0, 1.0]], [[1.0, 2.0, 3.0, 9.0, 8.0]]])
    scores = in_stages(tables, 3).sum(0)[0]
    assert np.argsort(-scores).tolist() == [2, 1, 0, 3, 4]


def test_standardised_scores_have_mean_0_and_variance_1_without_missing_ones():
    table = standardized(np.array([[1.0, 2.0, 6.0, -np.inf], [2.0, 2.0, 2.0, 2.0]]))
    assert table[0, :3].mean() == pytest.approx(0)
    assert table[0, :3].var() == pytest.approx(1)
    assert np.isneginf(table[0, 3])
    assert not table[1].any()


def held_out(good, users=200, items=30, seed=0):
    """Lists of which the part at `good` knows the held-out items, and the others are noise."""
    random = np.random.default_rng(seed)
    hits = random.random((users, items)) < 0.1
    scores = random.normal(size=(2, users, items))
    scores[good] += 3 * hits
    return HeldOutLists(scores, hits, np.ones(hits.shape, bool), hits.sum(axis=1))


def test_weights_and_short_list_go_to_the_part_that_knows():
    assert learned_weights(held_out(0))[0] > 0.9
    assert learned_weights(held_out(1))[1] > 0.9
    assert learned_short_list(held_out(0)) == 1
    assert learned_short_list(held_out(1)) == 30


def test_weights_use_both_parts_where_each_knows_a_half():
    lists = held_out(0)
    hits = lists.hits.copy()
    odd = np.arange(hits.shape[1]) % 2 == 1
    random = np.random.default_rng(1)
    scores = random.normal(size=lists.scores.shape)
    scores[0] += 3 * (hits & odd)
    scores[1] += 3 * (hits & ~odd)
    weights = learned_weights(HeldOutLists(scores, hits, lists.eligible, lists.wanted))
    assert 0.3 < weights[0] < 0.7


def test_lists_are_probed_on_items_that_the_user_does_not_have():
    rest, held_out = WORLD.split(0.8, 0.2, random_state=1)
    model = Popular().fit(rest, catalogue=range(60))
    lists = HeldOutLists.of([model], rest, held_out, 0)
    users = np.unique(held_out.users)[np.random.default_rng(0).permutation(len(lists.hits))]
    for row, user in enumerate(users):
        own, wanted = (set(each.items[each.users == user].tolist()) for each in (rest, held_out))
        assert set(np.flatnonzero(~lists.eligible[row]).tolist()) == own
        assert set(np.flatnonzero(lists.hits[row]).tolist()) == wanted - own
    np.testing.assert_array_equal(lists.wanted, lists.hits.sum(axis=1))


def test_augmentation_gives_every_item_enough_rows_of_new_pairs():
    model = Popular().fit(WORLD, catalogue=[*range(60), *NEW])
    rows = augmented(model, WORLD, 30, False, 0)
    assert Support.of(rows, model.catalogue_).item_counts.min() == 30
    added = rows.filter(np.arange(len(rows)) >= len(WORLD))
    known = {*zip(WORLD.users.tolist(), WORLD.items.tolist(), strict=True)}
    pairs = [*zip(added.users.tolist(), added.items.tolist(), strict=True)]
    assert len({*pairs}) == len(pairs)
    assert known.isdisjoint(pairs)


@pytest.mark.parametrize("combine", ["weighted", "switching", "augmentation"])
def test_hybrids_of_models_of_ratings_predict_ratings(combine):
    parts = {"damped-means": {}, "dense": {"factors": 4, "epochs": 5}}
    train, test = WORLD.split(0.9, 0.1, random_state=0)
    model = Hybrid(parts=parts, combine=combine, support=10).fit(train)
    assert model.predicts_ratings
    found = model.predict(test.users, test.items)
    errors = [
        np.sqrt(np.mean((each.predict(test.users, test.items) - test.ratings) ** 2))
        for each in (*model.models_.values(), model)
    ]
    assert errors[-1] <= max(errors[:-1]) * 1.005
    assert ((found >= model.low_) & (found <= model.high_)).all()
    assert model.explain(test.users[0], test.items[0])["prediction"] == pytest.approx(found[0])


@pytest.mark.parametrize(
    ("combine", "parts"),
    [("switching", "content,linear-items"), ("combination", None)],
)
def test_new_items_with_features_come_where_their_genre_is_liked(combine, parts):
    odd = WORLD.filter((WORLD.users % 2) == (WORLD.items % 2))  # odd users use odd items
    model = Hybrid(parts=parts, combine=combine, support=5).fit(odd, features=FILMS)
    assert model.catalogue_.ids[-2:].tolist() == NEW.tolist()
    new = np.isin(model.catalogue_.ids, NEW)
    users = np.unique(odd.users)
    first = model.recommend(users, 1, filter=new)[0][:, 0]
    assert ((first % 2) == (users % 2)).mean() > 0.85


def test_collective_items_without_features_are_linear_items():
    users = np.unique(WORLD.users)[:5]
    one, other = CollectiveItems().fit(WORLD), LinearItems().fit(WORLD)
    np.testing.assert_array_equal(one.recommend(users)[1], other.recommend(users)[1])


def test_collective_items_solve_the_gram_matrix_of_histories_and_features():
    model = CollectiveItems(regularization=7.0, feature_weight=5.0).fit(WORLD, features=FILMS)
    size = len(model.catalogue_)
    table = model.histories_.matrix.toarray().astype(np.float64)
    odd = (model.catalogue_.ids % 2)[:, None] == (model.catalogue_.ids % 2)
    inverse = np.linalg.inv(table.T @ table + 5.0 * odd + 7.0 * np.eye(size))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    np.testing.assert_allclose(model._matrix, weights, atol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"combine": "cascade", "parts": "popular"}, "parts must be 2 with combine 'cascade'"),
        ({"combine": "mixed", "parts": "popular"}, "parts must be at least 2"),
        ({"combine": "combination", "parts": "popular,als"}, "parts must be 1 with combine"),
        ({"combine": "augmentation", "parts": "popular,dense"}, "all of lists or all of ratings"),
    ],
)
def test_parts_that_do_not_fit_the_way_are_refused(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        Hybrid(**parameters).fit(WORLD)


def test_features_that_no_part_uses_are_refused():
    with pytest.raises(ValueError, match="features must be None, since no part uses them"):
        Hybrid(parts="als,popular", combine="mixed").fit(WORLD, features=FILMS)
