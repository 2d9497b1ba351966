"""Content-based lists: the course's examples, cosines by brute force, new items, explanations."""

import numpy as np
import pytest

from sfumato.data import Features, Interactions
from sfumato.recommend import ContentBased, load

RNG = np.random.default_rng(3)
WORDS = np.array([f"word{n}" for n in range(40)], object)
ITEMS, USERS = 50, 30
TEXTS = [" ".join(RNG.choice(WORDS, 12)) for _ in range(ITEMS)]
FILMS = Features(np.arange(ITEMS), TEXTS, {"genre": RNG.integers(4, size=ITEMS)})
PAIRS = RNG.permutation(USERS * 40)[:400]  # items from 40 on are new
TRAIN = Interactions(PAIRS // 40, PAIRS % 40, RNG.integers(1, 6, PAIRS.size))
COURSE = Features([1, 2, 3, 4], numbers={"a": [1, 0, 1, 1], "b": [0, 1, 1, 1], "c": [1, 0, 0, 1]})
RATED = Interactions([7] * 4, [1, 2, 3, 4], [1, 2, 2, 3])


def cosines(weights):
    """Scores by plain NumPy, of weights of (user, item)."""
    model = ContentBased(prior=0).fit(TRAIN, features=FILMS)
    profiles = model.profiles_.matrix.toarray().astype(float)[model.catalogue_.positions(FILMS.ids)]
    users = weights @ profiles
    norms = np.linalg.norm(users, axis=1)[:, None] * np.linalg.norm(profiles, axis=1)
    return users @ profiles.T / np.where(norms > 0, norms, 1)


def rating_weights():
    weights, counts = np.zeros((USERS, ITEMS)), np.zeros((USERS, ITEMS))
    weights[TRAIN.users, TRAIN.items] = TRAIN.ratings
    counts[TRAIN.users, TRAIN.items] = 1
    return weights, counts


@pytest.mark.parametrize(
    ("weighting", "profile"),
    [("rating", {"a:": 6 / 4, "b:": 7 / 4, "c:": 4 / 4}), ("centred", {"b:": 1 / 4})],
)
def test_user_profiles_of_the_course(weighting, profile):
    model = ContentBased(weighting=weighting).fit(RATED, features=COURSE)
    assert {k: v for k, v in model.user_profile(7).items() if v} == profile
    assert model.user_profile(8) == {}
    assert list(model.user_profile(7, 1)) == ["b:"]


def test_scores_are_cosines_of_the_course():
    model = ContentBased(weighting="rating", prior=0).fit(RATED, features=COURSE)
    user, item = np.array([6, 7, 4]) / 4, np.array([1, 1, 0])
    wanted = user @ item / np.linalg.norm(user) / np.linalg.norm(item)
    assert model.predict(7, 3) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("weighting", ["equal", "rating", "centred"])
def test_scores_are_those_of_brute_force(weighting):
    ratings, counts = rating_weights()
    means = ratings.sum(1, keepdims=True) / np.maximum(counts.sum(1, keepdims=True), 1)
    weights = {"equal": counts, "rating": ratings, "centred": (ratings - means) * counts}
    model = ContentBased(weighting=weighting, prior=0).fit(TRAIN, features=FILMS)
    users = np.unique(TRAIN.users)
    wanted = cosines(weights[weighting])[users]
    found = np.array([model.predict(user, FILMS.ids) for user in users])
    assert np.allclose(found, wanted, atol=1e-6)
    scores = model.recommend(users, 5)[1]
    assert np.allclose(scores, -np.sort(-wanted, axis=1)[:, :5], atol=1e-6)


def test_several_ratings_of_an_item_count_as_their_mean():
    twice = Interactions([7, 7, 7], [1, 1, 2], [1, 3, 4])
    once = Interactions([7, 7], [1, 2], [2, 4])
    a, b = (ContentBased(weighting="rating").fit(rows, features=COURSE) for rows in (twice, once))
    assert a.user_profile(7) == b.user_profile(7)


def test_popularity_adds_its_weight_and_orders_users_without_history():
    counts = np.bincount(TRAIN.items, minlength=ITEMS)
    plain = ContentBased(prior=0).fit(TRAIN, features=FILMS)
    model = ContentBased(prior=0.25).fit(TRAIN, features=FILMS)
    added = model.predict(3, FILMS.ids) - plain.predict(3, FILMS.ids)
    assert np.allclose(added, 0.25 * counts / counts.max(), atol=1e-6)
    scores = model.recommend(99, 3)[1]
    assert np.allclose(scores, -np.sort(-counts)[:3] / np.unique(TRAIN.users).size)
    assert model.predict(3, 999) == 0


def test_new_items_are_in_lists_at_once():
    model = ContentBased(prior=0).fit(TRAIN, features=FILMS)
    assert set(model.recommend(3, ITEMS)[0]) == set(range(ITEMS))
    favourite = TEXTS[int(model.recommend(3, 1)[0][0])]
    before = model.predict(3, FILMS.ids)
    extended = load(model.to_bytes()).add_items(
        Features([70, 71], [favourite, "none of these"], {"genre": ["0", "9"]})
    )
    assert len(extended.catalogue_) == ITEMS + 2
    assert np.array_equal(extended.predict(3, FILMS.ids), before)
    assert extended.predict(3, 70) > np.quantile(before, 0.9)
    assert extended.predict(3, 71) == 0
    assert 70 in extended.recommend(3, 5)[0]
    again = load(extended.to_bytes())
    assert np.array_equal(again.recommend(3, 9)[0], extended.recommend(3, 9)[0])
    changed = extended.add_items(Features([70, 72], ["nothing of it", favourite]))
    assert (changed.predict(3, 70), len(changed.catalogue_)) == (0, ITEMS + 3)


def test_only_items_of_a_given_catalogue_are_recommended():
    model = ContentBased().fit(TRAIN, features=FILMS, catalogue=np.arange(20))
    assert set(model.recommend(3, ITEMS)[0]) == set(range(20))
    rare = Features([1, 2, 60], ["tea", "rum", "tea"])
    wider = ContentBased().fit(TRAIN, features=rare)
    assert len(wider.catalogue_) == 41


def test_contributions_of_features_add_up_to_the_score():
    for weighting in ("equal", "centred"):
        model = ContentBased(weighting=weighting).fit(TRAIN, features=FILMS)
        for item in (0, 45):
            found = model.explain(3, item, n=3)
            parts = [each["part"] for each in found["features"]]
            assert len(parts) == 3
            assert parts == sorted(parts, key=abs, reverse=True)
            score = sum(parts) + found["rest"] + found["popularity"]
            assert (
                found["score"] == pytest.approx(score) == pytest.approx(model.predict(3, item)[0])
            )
            words = [each["feature"] for each in found["features"]]
            assert all(w in TEXTS[item].split() or w.startswith("genre: ") for w in words)
    assert model.explain(99, 0)["score"] == pytest.approx(model.predict(99, 0)[0])
    assert model.explain(3, 999) == {"features": [], "rest": 0.0, "popularity": 0.0, "score": 0.0}


def test_a_new_user_gets_the_list_of_the_same_history():
    for weighting in ("equal", "rating", "centred"):
        model = ContentBased(weighting=weighting).fit(TRAIN, features=FILMS)
        mine = TRAIN.filter(TRAIN.users == 3)
        known = model.recommend(3, 6, exclude=mine)
        found = model.recommend_fold_in(mine.items, mine.ratings, n=6)
        assert np.array_equal(found[0], known[0])
        assert np.allclose(found[1], known[1])
    assert model.recommend_fold_in([], n=2)[0].size == 2


def test_similar_items_have_the_largest_cosines():
    model = ContentBased().fit(TRAIN, features=FILMS)
    profiles = model.profiles_.unit.toarray()
    table = profiles @ profiles.T
    np.fill_diagonal(table, -1)
    at = model.catalogue_.positions([44])[0]
    items, scores = model.similar_items([44, 999], 4)
    assert np.allclose(scores[0], -np.sort(-table[at])[:4], atol=1e-6)
    assert items[1].tolist() == [-1] * 4


def test_rows_without_ratings_are_enough():
    model = ContentBased().fit(Interactions(TRAIN.users, TRAIN.items), features=FILMS)
    rated = ContentBased().fit(TRAIN, features=FILMS)
    assert np.array_equal(model.recommend(3, 9)[0], rated.recommend(3, 9)[0])
    with pytest.raises(ValueError, match="weighting must be 'equal', since train has no ratings"):
        ContentBased(weighting="centred").fit(Interactions([1], [2]), features=FILMS)


def test_missing_features_are_refused_with_the_remedy():
    with pytest.raises(TypeError, match=r"features must be given, as fit\(train, features=...\)"):
        ContentBased().fit(TRAIN)
    with pytest.raises(TypeError, match="features must be Features, not dict; build them by"):
        ContentBased().fit(TRAIN, features={})
    with pytest.raises(ValueError, match="rows of no item of train; their ids are text"):
        ContentBased().fit(TRAIN, features=Features(["a"], ["tea"]))
    model = ContentBased().fit(TRAIN, features=FILMS)
    with pytest.raises(TypeError, match="ids of features are text, but the model knows integers"):
        model.add_items(Features(["a"], ["tea"]))
    with pytest.raises(ValueError, match="no feature is known; give the columns that fit got"):
        model.add_items(Features([70], ["unheard"]))


@pytest.mark.parametrize("damage", ["profile_starts", "profile_features", "profile_values", "idf"])
def test_damaged_profiles_are_refused(damage):
    model = ContentBased().fit(TRAIN, features=FILMS)
    arrays = model.profiles_.arrays()
    arrays[damage] = arrays[damage][:-1]
    with pytest.raises(ValueError, match="profiles must"):
        model._restore_weights(arrays)


def test_an_index_finds_what_the_model_ranks_and_is_stale_after_changes():
    model = ContentBased().fit(TRAIN, features=FILMS)
    users = np.append(np.unique(TRAIN.users), 99)
    every = model.index(rows=1, probes=2)  # both sides of every hyperplane
    assert every.recall(users, 5, exclude=TRAIN) == 1
    assert every.touched([3]) == 1
    known, found = (each.recommend(users, 5, exclude=TRAIN) for each in (model, every))
    assert np.array_equal(known[0], found[0])
    assert np.allclose(known[1], found[1], atol=1e-6)
    few = model.index(bands=2, rows=8, probes=1)
    assert 0 < few.touched(users[:-1]) < 0.5
    own = dict(zip(*model.recommend(3, ITEMS), strict=True))
    items, scores = few.recommend(3, 5)
    assert np.allclose(scores, [own[item] for item in items], atol=1e-6)
    mask = np.arange(ITEMS) == 7
    assert set(every.recommend(3, 5, filter=mask)[0]) <= {model.catalogue_.ids[7]}
    model.add_items(Features([70], [TEXTS[0]]))
    assert few.stale
    with pytest.raises(ValueError, match="call index again"):
        few.recommend(3)
