"""Item models against dense formulas, and what all models from implicit feedback promise."""

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.errors import ModelFormatError
from sfumato.recommend import ItemNeighbours, LinearItems, Popular, load
from sfumato.recommend.metrics import ndcg

WORLD = generate_world(users=80, items=50, ratings=1_500, random_state=3).interactions
CATALOGUE = np.arange(50)
MODELS = [
    Popular,
    lambda: LinearItems(regularization=20, prior=0),
    lambda: LinearItems(regularization=20, weighting="log", relevant_from=3),
    lambda: LinearItems(regularization=20, dense_items=9, block_items=16, neighbours=10),
    lambda: ItemNeighbours(metric="jaccard", neighbours=7),
    lambda: ItemNeighbours(transform="bm25", prior=0),
    lambda: ItemNeighbours(transform="tfidf", exponent=0.5, shrinkage=0, prior=0),
]


def dense(rows=WORLD):
    """One row per user, in order of first appearance: 1 for each item of the user."""
    coded = rows.coded()
    out = np.zeros((coded.user_ids.size, 50))
    out[coded.user_codes, rows.items] = 1
    return out


def table(model):
    """The scores of all items for all users, by `predict`."""
    users = WORLD.coded().user_ids
    pairs = np.repeat(users, 50), np.tile(CATALOGUE, users.size)
    return model.predict(*pairs).reshape(users.size, 50)


def fitted(make):
    return make().fit(WORLD, catalogue=CATALOGUE)


def test_linear_items_solve_ridge_regression_with_a_zero_diagonal():
    x, strength = dense(), 20.0
    inverse = np.linalg.inv(x.T @ x + strength * np.eye(50))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    np.testing.assert_allclose(table(fitted(MODELS[1])), x @ weights, rtol=1e-4, atol=1e-5)
    # Column j is the ridge regression of item j on all others.
    others = np.delete(np.arange(50), 7)
    left, right = x[:, others], x[:, 7]
    slopes = np.linalg.solve(left.T @ left + strength * np.eye(49), left.T @ right)
    np.testing.assert_allclose(weights[others, 7], slopes, atol=1e-10)


def test_blocks_solve_ridge_regressions_on_some_items():
    x = dense()
    whole = LinearItems(dense_items=9, block_items=50, neighbours=50).fit(
        WORLD, catalogue=CATALOGUE
    )
    at_once = LinearItems().fit(WORLD, catalogue=CATALOGUE)
    np.testing.assert_allclose(table(whole), table(at_once), rtol=1e-4, atol=1e-6)
    # 12 items a block: the weights of an item are its regression on the 11 others of a block.
    model = LinearItems(regularization=20, dense_items=9, block_items=12, neighbours=12)
    weights = np.array([model.fit(WORLD, catalogue=CATALOGUE)._weights.row(i) for i in range(50)])
    for j in range(50):
        block = np.flatnonzero(weights[:, j])
        assert 1 <= block.size <= 11
        assert j not in block
        left = x[:, block]
        slopes = np.linalg.solve(left.T @ left + 20 * np.eye(block.size), left.T @ x[:, j])
        np.testing.assert_allclose(weights[block, j], slopes, rtol=1e-3, atol=1e-5)
    # Fewer stored weights are the largest of these.
    few = LinearItems(regularization=20, dense_items=9, block_items=12, neighbours=3)
    few = np.array([few.fit(WORLD, catalogue=CATALOGUE)._weights.row(i) for i in range(50)])
    largest = np.sort(np.abs(weights), axis=0)[-3:]
    np.testing.assert_allclose(np.sort(np.abs(few), axis=0)[-3:], largest, rtol=1e-6)
    assert (np.count_nonzero(few, axis=0) <= 3).all()


def neighbours_by_hand(x, k, below):
    products = x.T @ x
    similar = products / below(products, np.diag(products))
    np.fill_diagonal(similar, 0)
    for row in similar:  # of the recommended item
        row[np.argsort(-row, kind="stable")[k:]] = 0
    return x @ similar.T


@pytest.mark.parametrize(
    ("model", "k", "below"),
    [
        (
            ItemNeighbours(neighbours=9, prior=0),
            9,
            lambda p, n: n[:, None] ** 0.3 * n[None] ** 0.7 + 20,
        ),
        (
            ItemNeighbours(exponent=0.5, shrinkage=0, prior=0),
            100,
            lambda p, n: np.sqrt(np.outer(n, n)),
        ),
        (
            ItemNeighbours(metric="jaccard", neighbours=50, shrinkage=3, prior=0),
            50,
            lambda p, n: n[:, None] + n[None] - p + 3,
        ),
    ],
)
def test_item_neighbours_sum_the_similarities_of_the_nearest(model, k, below):
    found = table(model.fit(WORLD, catalogue=CATALOGUE))
    expected = neighbours_by_hand(dense(), k, below)
    # Equal similarities at the end of a list may be cut differently by float32: none is here.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_transforms_weigh_rare_items_and_short_histories_more():
    x = dense()
    rare = np.log1p(len(x)) - np.log1p(x.sum(0))
    weighted = x * rare
    norms = (weighted**2).sum(0)
    norms[norms == 0] = 1  # an item without users is similar to none
    similar = (weighted.T @ weighted) / np.sqrt(np.outer(norms, norms))
    np.fill_diagonal(similar, 0)
    np.testing.assert_allclose(table(fitted(MODELS[6])), x @ similar, rtol=1e-4, atol=1e-5)
    longer = 0.25 + 0.75 * x.sum(1, keepdims=True) / x.sum(1).mean()
    weighted = x * rare * 2.2 / (1.2 * longer + 1)
    norms = (weighted**2).sum(0)
    similar = (weighted.T @ weighted) / (norms[:, None] ** 0.3 * norms[None] ** 0.7 + 20)
    np.fill_diagonal(similar, 0)  # a row is of a recommended item
    np.testing.assert_allclose(table(fitted(MODELS[5])), x @ similar.T, rtol=1e-4, atol=1e-5)


def test_popularity_is_the_fraction_of_users():
    model, x = fitted(Popular), dense()
    np.testing.assert_allclose(table(model), np.tile(x.mean(0), (len(x), 1)))


@pytest.mark.parametrize("make", MODELS)
class TestModel:
    def test_lists_are_the_sorted_scores(self, make):
        model, users = fitted(make), WORLD.coded().user_ids
        scores = table(model)
        rated = dense() > 0
        items, found = model.recommend(users, n=12, exclude=WORLD)
        for row, own, listed, values in zip(scores, rated, items, found, strict=True):
            left = np.where(own, -np.inf, row)
            best = np.argsort(-left, kind="stable")[:12]
            best = best[left[best] > -np.inf]
            assert listed[: best.size].tolist() == best.tolist()
            assert (listed[best.size :] == -1).all()
            np.testing.assert_allclose(values[: best.size], left[best])

    def test_explanations_add_up_to_the_score(self, make):
        model, user = fitted(make), WORLD.users[0]
        own = set(WORLD.items[WORLD.users == user].tolist())
        for item in range(0, 50, 7):
            found = model.explain(user, item, n=3)
            parts = [each["part"] for each in found["history"]]
            assert len(parts) <= 3
            assert {each["item"] for each in found["history"]} <= own
            total = sum(parts) + found["rest"] + found["popularity"]
            assert total == pytest.approx(found["score"])
            assert found["score"] == pytest.approx(model.predict(user, item)[0], abs=1e-6)
        assert model.explain(user, 10**9)["score"] == 0
        popular = model.explain(10**9, 3)
        assert popular["popularity"] == popular["score"] == model.predict(10**9, 3)[0]
        with pytest.raises(ValueError, match="one user and one item"):
            model.explain([1, 2], [1, 2])

    def test_unknown_users_get_popular_items(self, make):
        model = fitted(make)
        rows = WORLD if model.relevant_from is None else WORLD.filter(WORLD.ratings >= 3)
        popular = np.argsort(-dense(rows).sum(0), kind="stable")[:5]
        assert model.recommend(10**9, n=5)[0].tolist() == popular.tolist()
        assert model.recommend_fold_in([], n=5)[0].tolist() == popular.tolist()
        assert model.predict(10**9, 10**9).tolist() == [0.0]

    def test_a_new_user_gets_the_list_of_the_same_history(self, make):
        model, user = fitted(make), WORLD.users[0]
        own = WORLD.items[WORLD.users == user]
        items, scores = model.recommend(user, n=10, exclude=WORLD)
        if model.weighting == "equal" and model.relevant_from is None:
            again = model.recommend_fold_in(own, n=10)
            assert again[0].tolist() == items.tolist()
            np.testing.assert_allclose(again[1], scores, rtol=1e-6)

    def test_filters_and_the_length_of_lists(self, make):
        model = fitted(make)
        only = np.zeros(50, bool)
        only[[4, 9]] = True
        assert set(model.recommend(WORLD.users[0], n=5, filter=only)[0].tolist()) == {4, 9}
        assert model.recommend(WORLD.users[:2], n=99)[0].shape == (2, 50)
        with pytest.raises(ValueError, match="n must be an integer from 1"):
            model.recommend(WORLD.users[0], n=0)

    def test_files_answer_the_same_and_damage_is_refused(self, make, tmp_path):
        model = fitted(make)
        data = model.to_bytes()
        again = load(data)
        assert type(again) is type(model)
        assert again.get_params() == model.get_params()
        assert again.to_bytes() == data
        np.testing.assert_array_equal(table(again), table(model))
        model.save(tmp_path / "model")
        assert load(tmp_path / "model").to_bytes() == data
        with pytest.raises(ModelFormatError):
            load(data[:-9])

    def test_it_is_deterministic_and_has_no_privacy(self, make):
        assert fitted(make).to_bytes() == fitted(make).to_bytes()
        assert fitted(make).privacy_label == "none"


def test_rows_below_the_limit_are_no_preferences():
    half = LinearItems(relevant_from=3).fit(WORLD, catalogue=CATALOGUE)
    liked = WORLD.filter(WORLD.ratings >= 3)
    alone = LinearItems().fit(liked, catalogue=CATALOGUE)
    users = liked.coded().user_ids
    np.testing.assert_array_equal(half.recommend(users)[0], alone.recommend(users)[0])


def test_repeated_rows_count_once():
    twice = WORLD.merge(WORLD)
    for make in (LinearItems, ItemNeighbours):
        once = make().fit(WORLD, catalogue=CATALOGUE)
        np.testing.assert_array_equal(table(once), table(make().fit(twice, catalogue=CATALOGUE)))


def test_similar_items_are_the_largest_weights():
    model = fitted(MODELS[1])
    ids, weights = model.similar_items([3, 999], n=4)
    row = model._matrix[3].astype(float)
    row[3] = -np.inf
    assert ids[0].tolist() == np.argsort(-row, kind="stable")[:4].tolist()
    assert (ids[1] == -1).all()
    assert np.isneginf(weights[1]).all()
    near = ItemNeighbours(neighbours=2).fit(WORLD, catalogue=CATALOGUE)
    assert near.similar_items(3, n=10)[0].size <= 2


@pytest.mark.parametrize("make", [LinearItems, ItemNeighbours])
def test_lists_beat_popularity_where_users_form_groups(make):
    # Ten groups of items and users; half of each user's items are held out.
    random = np.random.default_rng(5)
    users = np.repeat(np.arange(400), 12)
    items = (users % 10) * 20 + random.integers(0, 20, users.size)
    rows = Interactions(users, items, np.ones(users.size))
    train, test = rows.split(0.5, 0.5, random_state=0)
    hits = {}
    for model in (make(), Popular()):
        found, _ = model.fit(train, catalogue=np.arange(200)).recommend(
            np.arange(400), n=10, exclude=train
        )
        wanted = {*zip(test.users.tolist(), test.items.tolist(), strict=True)}
        hits[type(model)] = sum((u, i) in wanted for u in range(400) for i in found[u].tolist())
    assert hits[make] > 3 * hits[Popular]


def test_items_that_nothing_supports_come_by_popularity():
    users, items = [1, 1, 2, 2, 3, 4, 5, 5], ["a", "b", "a", "b", "c", "c", "c", "d"]
    rows = Interactions(users, items, np.ones(8))
    for model in (ItemNeighbours(), LinearItems(dense_items=1, block_items=4)):
        listed = model.fit(rows).recommend(1, n=4, exclude=rows)[0]
        assert listed.tolist() == ["c", "d"]


@pytest.mark.parametrize(("make", "short"), [(ItemNeighbours, 20), (LinearItems, 6)])
def test_the_prior_is_a_weight_of_popularity(make, short):
    plain = make(prior=0).fit(WORLD, catalogue=CATALOGUE)
    weight = (short / (dense().sum() / 80)) ** 2
    for given, k in ((None, weight), (0.5, 0.5)):
        model = make(prior=given).fit(WORLD, catalogue=CATALOGUE)
        expected = table(plain) + k * dense().mean(0)
        np.testing.assert_allclose(table(model), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [ItemNeighbours, LinearItems])
def test_lists_are_not_worse_than_popularity_in_sparse_worlds(make):
    # Means of 3 worlds; where nearly nothing can be learned, a hundredth below is left to chance.
    for sizes in ((2000, 1000, 16_000), (4000, 2000, 24_000), (300, 120, 6_000)):
        found = []
        for seed in range(3):
            users, items, ratings = sizes
            world = generate_world(users=users, items=items, ratings=ratings, random_state=seed)
            train, test = world.interactions.split(0.8, 0.2, random_state=0)
            who = test.coded().user_ids
            for model in (make(), Popular()):
                lists, scores = model.fit(train).recommend(who, 10, exclude=train)
                found.append(ndcg(lists, test, scores=scores, users=who))
        assert sum(found[::2]) > 0.99 * sum(found[1::2])
