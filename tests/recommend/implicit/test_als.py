"""ALS against dense normal equations and the loss over all pairs, and what its answers promise."""

import os
import signal
import threading

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.errors import ModelFormatError
from sfumato.recommend import ALS, Popular, load, metrics
from sfumato.recommend.implicit import als_training
from sfumato.recommend.implicit.histories import Histories

WORLD = generate_world(users=80, items=50, ratings=1_500, random_state=3).interactions
CATALOGUE = np.arange(53)  # three items have no users
EXACT = {"solver": "cholesky", "regularization": 0.3, "factors": 24, "epochs": 5}


def fitted(train=WORLD, **options):
    return ALS(**{**EXACT, **options}).fit(train, catalogue=CATALOGUE)


def dense(weighting="equal", rows=WORLD):
    """Weights of all pairs, one row per user in order of first appearance."""
    coded = rows.coded()
    out = np.zeros((coded.user_ids.size, CATALOGUE.size))
    logs = np.log1p(rows.ratings)
    out[coded.user_codes, rows.items] = 1 if weighting == "equal" else logs / logs.mean()
    return out


def vectors(model):
    users = model._user_vectors(WORLD.coded().user_ids).astype(float)
    return users[:, :-2], model._item_vectors(CATALOGUE)[:, :-2].astype(float)


def ridges(model, x):
    """Penalties of users and items: ridge_ times the sums of confidences."""
    return model.ridge_ * (1 + x).sum(1), model.ridge_ * (1 + x).sum(0)


@pytest.mark.parametrize("weighting", ["equal", "log"])
def test_users_solve_the_normal_equations_of_the_items(weighting):
    model, x = fitted(weighting=weighting), 5 * dense(weighting)
    p, q = vectors(model)
    for row, weights, ridge in zip(p, x, ridges(model, x)[0], strict=True):
        square = q.T @ ((1 + weights)[:, None] * q) + ridge * np.eye(24)
        expected = np.linalg.solve(square, q.T @ np.where(weights > 0, 1 + weights, 0))
        np.testing.assert_allclose(row, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("count", [0, 1, 5, 47, 49, 130])
@pytest.mark.parametrize("size", [16, 48, 64])
def test_both_solvers_solve_histories_of_any_length(count, size):
    random = np.random.default_rng(count)
    table = als_training.padded(random.normal(0, 0.3, (200, size)).astype(np.float32))
    chosen = np.sort(random.permutation(200)[:count]).astype(np.int32)
    weights = random.random(count).astype(np.float32) * 9
    side = als_training.ConfidenceRows(np.array([0, 0, count]), chosen, weights, np.ones(2))
    q, w = table[chosen].astype(float), weights.astype(float)
    square = table.T.astype(float) @ table + (q.T * w) @ q + 2 * np.eye(size)
    expected = np.linalg.solve(square, (1 + w) @ q)
    for solver in ("cg", "cholesky"):
        plain = {"solver": solver, "cg_steps": 4 * size, "threads": 1}
        out = als_training.padded(random.normal(size=(2, size)).astype(np.float32))
        als_training.solve(plain, side, np.array([2.0, 2.0]), table, out)
        np.testing.assert_allclose(out[0], 0, atol=1e-5)  # a row without entries
        np.testing.assert_allclose(out[1], expected, rtol=1e-3, atol=2e-5)


def test_the_loss_is_that_of_all_pairs_and_falls():
    model, x = fitted(epochs=12), 5 * dense()
    p, q = vectors(model)
    of_users, of_items = ridges(model, x)
    pairs = ((1 + x) * ((x > 0) - p @ q.T) ** 2).sum()
    penalty = of_users @ (p * p).sum(1) + of_items @ (q * q).sum(1)
    found = [entry["loss"] for entry in model.history_]
    assert found[-1] == pytest.approx(pairs + penalty, rel=1e-5)
    assert [entry["epoch"] for entry in model.history_] == list(range(1, 13))
    assert (np.diff(found) <= 1e-6 * found[0]).all()
    assert found[-1] < 0.9 * found[0]
    # Conjugate gradient gets there as well: three steps from the vectors of the last epoch.
    near = fitted(solver="cg", epochs=12).history_[-1]["loss"]
    assert near == pytest.approx(found[-1], rel=0.01)


def test_the_penalty_is_a_multiple_of_the_noise_level():
    x = 5 * dense()
    totals = np.sqrt((1 + x).sum(1)[:, None] * (1 + x).sum(0)[None])
    squares = (np.where(x > 0, 1 + x, 0) / totals) ** 2
    rows, columns = squares.sum(1), squares.sum(0)
    level = sum(np.sqrt((s * s).sum() / squares.sum()) for s in (rows, columns))
    assert fitted().ridge_ == pytest.approx(0.3 * level, rel=1e-5)
    # It is what its name says: shuffled items, less the component of popularity.
    random = np.random.default_rng(1)
    world = generate_world(users=500, items=400, ratings=10_000, random_state=2).interactions
    shuffled = Interactions(world.users, random.permutation(world.items), world.ratings)
    model = ALS(factors=1, regularization=1.0, epochs=1).fit(shuffled, catalogue=np.arange(400))
    histories = Histories.of(shuffled, model.catalogue_, "equal", None).matrix.toarray() * 5
    totals = np.sqrt((1 + histories).sum(1)[:, None] * (1 + histories).sum(0)[None])
    values = np.linalg.svd(np.where(histories > 0, 6, 0) / totals, compute_uv=False)
    assert values[1] == pytest.approx(model.ridge_, rel=0.25)


def test_a_new_user_gets_the_list_of_the_same_history():
    model, user = fitted(), WORLD.users[0]
    own = WORLD.items[WORLD.users == user]
    items, scores = model.recommend(user, n=10, exclude=WORLD)
    again = model.recommend_fold_in(own, n=10)
    assert again[0].tolist() == items.tolist()
    np.testing.assert_allclose(again[1], scores, rtol=1e-4, atol=1e-6)
    twice = model.recommend_fold_in([*own, *own, 999], n=10)
    np.testing.assert_array_equal(twice[1], again[1])
    assert model.recommend_fold_in(own, n=10, ridge=1e6)[1].max() < 0.01
    counted = fitted(weighting="log", relevant_from=2)
    rated = WORLD.filter(WORLD.users == user)
    expected = counted.recommend(user, n=10, exclude=WORLD)
    found = counted.recommend_fold_in(rated.items, rated.ratings, n=10)
    assert found[0].tolist() == expected[0].tolist()
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-6)


def test_users_without_history_get_popular_items():
    liked = WORLD.filter(WORLD.ratings >= 3)
    columns = (liked.users, 10**6), (liked.items, 7), (liked.ratings, 1)  # below the limit
    model = fitted(Interactions(*(np.append(*each) for each in columns)), relevant_from=3)
    counts = (dense(rows=liked) > 0).sum(0)
    popular = np.argsort(-counts, kind="stable")[:5].tolist()
    fractions = counts / liked.coded().user_ids.size
    for user in (10**6, 10**9):
        assert model.recommend(user, n=5)[0].tolist() == popular
        np.testing.assert_allclose(model.predict(user, CATALOGUE), fractions, rtol=1e-6)
    for items in ([], [999]):
        assert model.recommend_fold_in(items, n=5)[0].tolist() == popular
    assert model.predict(10**9, 999).tolist() == [0.0]
    assert model.predict(liked.users[0], [999, 52]).tolist() == [0.0, 0.0]


def test_explained_parts_are_of_the_history_and_add_up():
    model, user = fitted(), WORLD.users[0]
    own = set(WORLD.items[WORLD.users == user].tolist())
    item = int(model.recommend(user, n=1, exclude=WORLD)[0][0])
    parts = model.explain(user, item, n=99, history=WORLD)
    assert {each["item"] for each in parts["history"]} == own
    assert {each["weight"] for each in parts["history"]} == {1.0}
    assert parts["score"] == pytest.approx(sum(each["part"] for each in parts["history"]))
    assert parts["score"] == pytest.approx(model.predict(user, item)[0], rel=1e-3)
    few = model.explain(user, item, n=2, history=WORLD)
    assert few["history"] == parts["history"][:2]
    listed = sum(each["part"] for each in few["history"])
    assert listed + few["rest"] == pytest.approx(parts["score"])
    nobody = model.explain(10**9, item, history=WORLD)
    assert nobody["score"] == nobody["popularity"] == model.predict(10**9, item)[0] > 0
    counted = fitted(weighting="log")
    score = counted.explain(user, item, history=WORLD)["score"]
    assert score == pytest.approx(counted.predict(user, item)[0], rel=1e-3)


def test_similar_items_ignore_popularity():
    model = fitted()
    q = vectors(model)[1]
    lengths = np.linalg.norm(q, axis=1)
    cosines = q @ q[4] / np.where(lengths > 0, lengths * lengths[4], 1)
    cosines[4] = -np.inf
    ids, found = model.similar_items(4, n=5)
    assert ids.tolist() == np.argsort(-cosines, kind="stable")[:5].tolist()
    np.testing.assert_allclose(found, np.sort(cosines)[::-1][:5], atol=1e-5)


def test_neither_threads_nor_a_file_change_a_model():
    for options in ({}, {"solver": "cg"}):
        model = fitted(**options)
        data = model.to_bytes()
        assert fitted(threads=3, **options).set_params(threads=1).to_bytes() == data
        assert fitted(random_state=1, **options).to_bytes() != data
        again = load(data)
        assert again.to_bytes() == data
        assert again.regularization_ == 0.3
        own = WORLD.items[:4]
        assert again.explain(5, 6, history=WORLD) == model.explain(5, 6, history=WORLD)
        for found, expected in zip(
            again.recommend_fold_in(own), model.recommend_fold_in(own), strict=True
        ):
            np.testing.assert_array_equal(found, expected)
    model._counts = model._counts[:-1]
    with pytest.raises(ModelFormatError, match="one for each user and item"):
        load(model.to_bytes())


@pytest.fixture
def interruptible():
    """Ctrl-C interrupts, also where the tests themselves run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_keeps_the_last_complete_epoch():
    def interrupt(epoch, epochs, error):
        assert (epochs, error) == (9, None)
        if epoch == 3:
            os.kill(os.getpid(), signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    model = ALS(**{**EXACT, "epochs": 9})
    with pytest.raises(KeyboardInterrupt):
        model.fit(WORLD, catalogue=CATALOGUE, progress=interrupt)
    assert len(model.history_) == 3
    for found, expected in zip(vectors(model), vectors(fitted(epochs=3)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_fit_that_fails_leaves_the_model():
    model = fitted()
    before = model.to_bytes()
    with pytest.raises(ValueError, match="no row of train is a preference"):
        model.fit(Interactions([1, 2], [900, 901], [1, 1]), catalogue=CATALOGUE)
    assert model.to_bytes() == before
    assert fitted(Interactions([1], [1], [1])).recommend(1, n=1)[0].tolist() == [1]


def test_the_penalty_is_chosen_by_held_out_rows():
    # Groups of users share items: weak penalties find them. Random items: only popularity is true.
    random = np.random.default_rng(5)
    users = np.repeat(np.arange(600), 12)
    popular = (50 * random.random(users.size) ** 3).astype(int)
    grouped = (users % 10) * 5 + random.integers(0, 5, users.size)
    chosen = {}
    for name, items in {"grouped": grouped, "random": popular}.items():
        train = Interactions(users, items, np.ones(users.size))
        model = ALS(factors=16, epochs=3).fit(train, catalogue=CATALOGUE)
        chosen[name] = model.regularization_
        assert model.regularization_ in als_training.GRID
    assert chosen["grouped"] < chosen["random"]
    assert ALS(factors=4, epochs=1).fit(WORLD.filter(WORLD.users < 40)).regularization_ == 0.4


@pytest.mark.parametrize("ratings", [12_000, 60_000])
def test_lists_beat_popularity_in_generated_worlds(ratings):
    world = generate_world(users=3_000, items=500, ratings=ratings, random_state=19).interactions
    train, test = world.split(0.8, 0.2, random_state=0)
    users = np.unique(test.users)
    ndcg = {}
    for model in (ALS(factors=32, epochs=8), Popular()):
        lists, scores = model.fit(train).recommend(users, 10, exclude=train)
        ndcg[type(model)] = metrics.ndcg(lists, test, scores=scores, users=users)
    assert ndcg[ALS] > 1.01 * ndcg[Popular]
