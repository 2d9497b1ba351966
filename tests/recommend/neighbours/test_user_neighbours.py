"""User neighbours: the four steps by hand, on raw profiles and on any source of memberships."""

from dataclasses import replace

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import RawProfiles, UserNeighbours
from sfumato.recommend.bias import DampedMeans
from sfumato.recommend.metrics.rating import evaluate
from sfumato.recommend.neighbours import popularity_shrinkage
from sfumato.recommend.neighbours import user_neighbours as neighbours
from sfumato.recommend.neighbours.neighbourhood import weighed
from sfumato.recommend.ratings.baseline import Baseline
from sfumato.recommend.ratings.rated_rows import RatedRows

GROUPS, EACH, USERS = 4, 12, 400
CATALOGUE = np.arange(GROUPS * EACH) + 1000


def world(seed=1):
    """Users who mostly take items of their group, the first of a group most: train and test."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(USERS), 14)
    other = rng.random(who.size) < 0.2
    of = np.where(other, rng.integers(0, GROUPS, who.size), who % GROUPS)
    popular = 1 / np.arange(1, EACH + 1)
    what = of * EACH + rng.choice(EACH, who.size, p=popular / popular.sum())
    keys = np.unique(who * CATALOGUE.size + what)
    who, what = np.divmod(rng.permutation(keys), CATALOGUE.size)
    ratings = np.where(what // EACH == who % GROUPS, 4.0, 2.0) + rng.integers(0, 2, who.size)
    return Interactions(who, CATALOGUE[what], ratings).split(0.8, 0.2, random_state=seed)


TRAIN, TEST = world()
NEW_USER = CATALOGUE[
    [8, 20, 20, 33, 20]
]  # few have two of them, and naming 20 thrice changes nothing


class GivenProfiles:
    """Profiles that are a matrix of memberships: all that a release must provide."""

    def __init__(self, users, matrix, features=None):
        self.users_, self.matrix = users, matrix
        self.features = matrix if features is None else features  # what is compared

    def nearest_rows(self, rows, n=10, *, metric="cosine"):
        similarity = self.features[rows] @ self.features.T
        if metric == "cosine":
            sizes = (self.features**2).sum(axis=1)
            similarity = similarity / np.sqrt(sizes[rows][:, None] * sizes)
        elif metric == "jaccard":
            sizes = self.features.sum(axis=1)
            similarity = similarity / (sizes[rows][:, None] + sizes - similarity)
        similarity[np.arange(len(rows)), rows] = -np.inf
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :n]
        return order, np.take_along_axis(similarity, order, axis=1)

    def memberships(self, items, rows=None):
        columns = np.asarray(items) - CATALOGUE[0]
        return self.matrix[:, columns] if rows is None else self.matrix[rows][:, columns]

    def estimate_size(self):
        return self.matrix.sum(axis=1)


RAW = RawProfiles(TRAIN)
EXACT = GivenProfiles(RAW.users_, RAW.memberships(CATALOGUE))


def steps(user, k, weighting="similarity", threshold=0.0):
    """Steps 1 to 3 for one user, in plain NumPy: the mean of the neighbours' memberships."""
    have = RAW.memberships(CATALOGUE)
    row = int(np.flatnonzero(RAW.users_ == user)[0])
    similarity = (have @ have[row]) / np.sqrt(have.sum(axis=1) * have[row].sum())
    similarity[row] = -np.inf
    near = np.argsort(-similarity, kind="stable")[:k]
    near = near[(similarity[near] > 0) & (similarity[near] >= threshold)]
    weights = similarity[near] if weighting == "similarity" else np.ones(near.size)
    return have.mean(axis=0) if not near.size else weights @ have[near] / weights.sum()


@pytest.mark.parametrize("weighting", ["similarity", "equal"])
@pytest.mark.parametrize(("k", "threshold"), [(10, None), (None, 0.3), (3, 0.4), (5, 0.99)])
def test_the_four_steps_are_what_they_say(k, threshold, weighting):
    model = UserNeighbours(neighbours=k, threshold=threshold, weighting=weighting, shrink=False)
    model.fit(TRAIN, catalogue=CATALOGUE)
    users = np.arange(0, USERS, 7)
    items, scores = model.recommend(users, n=CATALOGUE.size)
    for user, row, result in zip(users, items, scores, strict=True):
        want = steps(user, k, weighting, threshold or 0.0)
        np.testing.assert_allclose(want[row - 1000], result, atol=1e-12)
        np.testing.assert_allclose(np.sort(want)[::-1], result, atol=1e-12)
        np.testing.assert_allclose(model.predict(int(user), CATALOGUE), want, atol=1e-12)


@pytest.mark.parametrize("metric", ["cosine", "jaccard", "inner"])
@pytest.mark.parametrize("shrink", [True, False])
@pytest.mark.parametrize("block", [None, 500])
def test_any_source_of_memberships_goes_through_the_same_steps(metric, shrink, block, monkeypatch):
    raw = UserNeighbours(neighbours=8, metric=metric, shrink=shrink).fit(RAW, catalogue=CATALOGUE)
    if block:  # so small that one user fills it
        monkeypatch.setattr(popularity_shrinkage, "BLOCK", block)
        monkeypatch.setattr(neighbours, "BLOCK", block)
    result = UserNeighbours(neighbours=8, metric=metric, shrink=shrink)
    result.fit(EXACT, catalogue=CATALOGUE)
    users = np.r_[RAW.users_, -5]
    for one, other in (
        (raw.recommend(users, 20, exclude=TRAIN), result.recommend(users, 20, exclude=TRAIN)),
        (raw.similar_users(users, 6), result.similar_users(users, 6)),
        (raw.recommend_fold_in(NEW_USER), result.recommend_fold_in(NEW_USER)),
    ):
        np.testing.assert_allclose(one[1], other[1], atol=1e-12)
    np.testing.assert_allclose(
        raw.predict(TEST.users, TEST.items), result.predict(TEST.users, TEST.items), atol=1e-12
    )
    assert result.statement is None


def quality(model):
    return evaluate(model, TEST, n=10, exclude=TRAIN)["ndcg"]


POPULAR = UserNeighbours(threshold=1e9).fit(TRAIN, catalogue=CATALOGUE)  # nobody is that similar


def noisy(features, seed=0):
    """Memberships with noise of deviation 2, and other features to compare by."""
    noise = np.random.default_rng(seed).normal(0, 2, EXACT.matrix.shape)
    return GivenProfiles(RAW.users_, EXACT.matrix + noise, features)


def test_neighbours_beat_popularity():
    assert quality(UserNeighbours(neighbours=20).fit(RAW)) > quality(POPULAR) + 0.2


def test_noise_does_not_swamp_the_population_mean():
    # With 5 neighbours each mean has noise of deviation 0.9. Plain and shrunk ndcg differ by 0.074
    # at seed 0, and by at least 0.027 at each of the seeds 0 to 11.
    shrunk, plain = (
        UserNeighbours(neighbours=5, shrink=shrink).fit(noisy(EXACT.matrix), catalogue=CATALOGUE)
        for shrink in (True, False)
    )
    assert quality(shrunk) > quality(plain) + 0.02
    assert shrunk.crowd_.overdispersion == pytest.approx(1, abs=0.1)


def test_neighbours_who_vary_more_than_others_are_trusted_less():
    # Noise has deviation 1 in half of the profiles and 3 in the others, of whom all neighbours are:
    # they vary by 9 / 5 of the mean. 200 rows of 48 items: within 0.09, 5 errors, p < 1e-6.
    half = USERS // 2
    noise = np.random.default_rng(4).normal(
        0, np.repeat([1, 3], half)[:, None], (USERS, CATALOGUE.size)
    )
    result = GivenProfiles(np.arange(USERS), 0.5 + noise)
    near = np.random.default_rng(5).permuted(np.tile(np.arange(half, USERS), (128, 1)), axis=1)
    weights = np.full((128, 10), 0.1)
    prior = popularity_shrinkage.PopularityPrior.of(result, CATALOGUE)
    fitted = prior.fitted(result, CATALOGUE, near[:, :10], weights)
    assert fitted.overdispersion == pytest.approx(9 / 5, abs=0.12)
    sure = replace(prior, between=0.5, overdispersion=fitted.overdispersion)
    between_variance = prior.mean * (1 - prior.mean) / 2
    trust = between_variance / (between_variance + fitted.overdispersion * prior.variance / 10)
    blended = sure.blended(np.ones((1, CATALOGUE.size)), weights[:1])
    np.testing.assert_allclose(blended[0], prior.mean + trust * (1 - prior.mean))


def test_neighbours_drawn_at_random_are_worth_nothing():
    # At the seeds 0 to 11 `between` was at most 0.018 and scores differed by at most 0.028; means
    # of the neighbours themselves differ by 0.4 and more.
    random = np.abs(np.random.default_rng(7).normal(size=(len(RAW), 5)))
    result = GivenProfiles(RAW.users_, EXACT.matrix, random)
    model = UserNeighbours(neighbours=5).fit(result, catalogue=CATALOGUE)
    assert model.crowd_.between < 0.05 < 0.3 < UserNeighbours(neighbours=20).fit(RAW).crowd_.between
    popular, scores = POPULAR.predict(0, CATALOGUE), model.predict(0, CATALOGUE)
    assert np.abs(scores - popular).max() < 0.1


def test_who_has_no_neighbours_is_answered_by_the_mean_of_all():
    model = UserNeighbours().fit(Interactions([1, 2, 2, 3, 3], [5, 6, 7, 6, 8], [1] * 5))
    means = {5: 1 / 3, 6: 2 / 3, 7: 1 / 3, 8: 1 / 3}
    for user in (1, 99):  # nobody shares an item with 1, and 99 is not there
        items, scores = model.recommend(user, 9)
        assert items.tolist() == [6, 5, 7, 8]
        assert scores == pytest.approx([means[item] for item in items.tolist()])
        assert not model.similar_users(user)[0].size
    assert model.recommend_fold_in([])[0].tolist() == [6, 5, 7, 8]
    assert model.recommend_fold_in([404], n=1)[0].tolist() == [6]


def test_who_rates_the_other_way_round_is_no_neighbour():
    observed = Interactions([1, 1, 1, 2, 2, 2], [5, 6, 7, 5, 6, 8], [1, 4, 2, 5, 2, 3])
    model = UserNeighbours(metric="pearson", shrink=False).fit(observed)
    assert model.similar_users(1) == (pytest.approx([2]), pytest.approx([-1]))
    assert model.predict(1, [5, 8]).tolist() == [1, 0.5]  # the mean of all, not of user 2


def test_similar_users_are_the_nearest_rows_by_id():
    model = UserNeighbours(neighbours=2, threshold=0.9).fit(TRAIN)
    ids, near = model.similar_users([5, -1, 7], 4)
    rows, want = RAW.nearest_rows([*np.flatnonzero(RAW.users_ == 5)], 4)
    assert ids[0].tolist() == RAW.users_[rows[0]].tolist()
    assert near[0].tolist() == want[0].tolist()
    assert ids[1].tolist() == [-1] * 4
    assert (near[1] == -np.inf).all()
    assert model.similar_users(5, 4)[0].tolist() == ids[0].tolist()


def test_what_is_excluded_filtered_or_below_the_minimum_is_not_recommended():
    model = UserNeighbours(neighbours=20).fit(TRAIN, catalogue=CATALOGUE)
    users, only = np.array([3, 8, 3]), CATALOGUE % 2 == 0
    items, scores = model.recommend(users, 60, exclude=TRAIN, filter=only)
    assert items.shape == scores.shape == (3, 60)
    for user, row, result in zip(users, items, scores, strict=True):
        remaining = np.setdiff1d(CATALOGUE[only], TRAIN.items[TRAIN.users == user])
        assert sorted(row[result > -np.inf].tolist()) == remaining.tolist()
        assert (row[result == -np.inf] == -1).all()
        one = model.recommend(int(user), 60, exclude=TRAIN, filter=only)
        assert one[0].tolist() == row[: remaining.size].tolist()
    cut = model.recommend(users, 60, exclude=TRAIN, filter=only, minimum=0.2)[1]
    np.testing.assert_array_equal(cut, np.where(scores >= 0.2, scores, -np.inf))
    new_user, result = model.recommend_fold_in(CATALOGUE[:4], n=60, filter=only, minimum=0.1)
    assert not set(CATALOGUE[:4]) & set(new_user)
    assert (result >= 0.1).all()


@pytest.mark.parametrize("weighting", ["similarity", "equal"])
def test_ratings_are_damped_means_and_what_neighbours_departed_from_them(weighting):
    model = UserNeighbours(neighbours=15, predicts="ratings", weighting=weighting, shrink=False)
    model.fit(TRAIN)
    # The exponent of the similarities, and the damping and shrinkage of RatingNeighbours.
    power, damping, shrinkage = int(weighting == "similarity"), 0.03, 20.0
    means = Baseline.of(RatedRows.of(TRAIN, model.catalogue_))
    places = dict(zip(model.catalogue_.ids.tolist(), means.items.tolist(), strict=True))
    people = dict(zip(RAW.users_.tolist(), means.users.tolist(), strict=True))
    residuals = {}
    for user, item, rating in zip(TRAIN.users, TRAIN.items, TRAIN.ratings, strict=True):
        residuals.setdefault(user, {})[item] = rating - means.mean - people[user] - places[item]
    lengths = {user: sum(v**2 for v in row.values()) ** 0.5 for user, row in residuals.items()}
    mine, near = residuals[9], {}
    for user, row in residuals.items():
        common = mine.keys() & row.keys()
        if user != 9 and common:
            cosine = sum(mine[i] * row[i] for i in common) / (lengths[9] * lengths[user])
            near[user] = cosine * len(common) / (len(common) + shrinkage)
    for item in (1000, 1003, 1030):
        raters = [(s, residuals[u].get(item)) for u, s in near.items() if s > 0]
        raters = [(s, left) for s, left in raters if left is not None]
        there = [(s**power, left) for s, left in sorted(raters, reverse=True)[:15]]
        over = sum(w * left for w, left in there) / (damping + sum(w for w, _ in there))
        want = means.mean + people[9] + places[item] + over
        assert model.predict(9, item)[0] == pytest.approx(np.clip(want, 2, 5), abs=1e-4)
    assert model.predict(-7, 1000) == pytest.approx(means.mean + places[1000])
    assert evaluate(model, TEST)["rmse"] < evaluate(DampedMeans().fit(TRAIN), TEST)["rmse"]


def test_neighbours_are_believed_as_far_as_they_foretell_ratings():
    foretold = UserNeighbours(predicts="ratings").fit(TRAIN)
    random = np.random.default_rng(0).permutation(TRAIN.ratings)
    model = UserNeighbours(predicts="ratings").fit(Interactions(TRAIN.users, TRAIN.items, random))
    assert foretold._rated.slope_ > 0.5 > 0.1 > model._rated.slope_


def test_what_ratings_cannot_be_predicted_by_is_refused_with_what_can():
    for options, sentence in (
        ({"metric": "inner"}, "metric must be cosine, jaccard or pearson for predicts='ratings'"),
        ({"threshold": 0.5}, "threshold must be None for predicts='ratings'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            UserNeighbours(predicts="ratings", **options).fit(TRAIN)


def test_a_pair_may_name_what_is_not_there():
    model = UserNeighbours().fit(TRAIN)
    assert model.predict([0, -1], [777, 777]).tolist() == [0, 0]
    assert model.predict([], []).size == 0
    assert model.recommend([], 3)[0].shape == (0, 3)


def test_an_estimate_above_1_weighs_no_more_than_1():
    found, near = np.array([[4, 2, 7]]), np.array([[5.0, 0.5, -0.5]])
    result = {"threshold": None, "weighting": "similarity", "metric": "cosine"}
    assert weighed(found, near, result)[1].tolist() == [[1 / 1.5, 0.5 / 1.5, 0.0]]
    assert weighed(found, near, {**result, "metric": "inner"})[1].tolist() == [
        [5 / 5.5, 0.5 / 5.5, 0]
    ]
