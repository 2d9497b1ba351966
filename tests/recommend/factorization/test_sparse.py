"""With default settings no model of ratings is worse than damped means, however few the ratings."""

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.recommend import DenseFactorization, SketchFactorization, UserNeighbours
from sfumato.recommend.bias import DampedMeans

MODELS = {
    "dense": DenseFactorization,
    "gain 1": SketchFactorization,
    "gain 2": lambda: SketchFactorization(space_gain=2.0),
    "gain 4": lambda: SketchFactorization(space_gain=4.0),
    "neighbours": lambda: UserNeighbours(predicts="ratings"),
}
WORLDS = {
    "four ratings a user": {},
    "ratings from 0 to 1000": {"bounds": (0, 1000)},
    "ratings from 0.5 to 4": {"bounds": (0.5, 4), "step": 0.5},
    "heavy tails": {"skew": 60, "activity": 2},
    "rare items": {"users": 300, "items": 3000},
    "one rating a user": {"users": 6000, "items": 300, "activity": 0},
    "nothing but noise": {"factors": 0, "noise": 3.0},
}
# Here damped means are all that can be learned: models are as good on average, not better. 0.5 %
# is five times the deviation of the mean ratio of three worlds; two means of noise differ by chance
# in the absolute error.
MEANS = {"one rating a user": (1.005, 1.005), "nothing but noise": (1.0, 1.02)}


def world(seed, **options):
    given = {"users": 1500, "items": 600, "ratings": 6000, "random_state": seed, **options}
    return generate_world(**given).interactions


def errors(model, train, test):
    miss = model.fit(train).predict(test.users, test.items) - test.ratings
    return np.array([np.sqrt(np.mean(miss**2)), np.mean(np.abs(miss))])


@pytest.mark.parametrize("name", WORLDS)
def test_no_model_is_worse_than_damped_means(name):
    splits = [world(seed, **WORLDS[name]).split(0.8, 0.2, random_state=seed) for seed in range(3)]
    means = [errors(DampedMeans(), *split) for split in splits]
    for model, make in MODELS.items():
        ratios = [errors(make(), *split) / mean for split, mean in zip(splits, means, strict=True)]
        assert (np.mean(ratios, axis=0) <= MEANS.get(name, (1.0, 1.0))).all(), model


def test_factors_are_better_where_there_is_something_to_learn():
    data = world(0, users=400, items=200, ratings=16_000)
    train, test = data.split(0.8, 0.2, random_state=0)
    means = errors(DampedMeans(), train, test)
    for name, most in (("dense", 0.985), ("gain 1", 0.995), ("neighbours", 1.0)):
        assert (errors(MODELS[name](), train, test) < most * means).all(), name


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_constant_ratings_are_predicted_exactly(make):
    data = world(0, users=50, items=30, ratings=200)
    model = make().fit(Interactions(data.users, data.items, np.full(len(data), 7.0)))
    assert (model.predict([0, 99], [1, 99]) == 7.0).all()


@pytest.mark.parametrize("make", [DenseFactorization, SketchFactorization])
def test_a_common_factor_of_all_ratings_changes_nothing_else(make):
    data = world(0, users=200, items=100, ratings=2000, noise=2.0)
    larger = Interactions(data.users, data.items, 250.0 * data.ratings)
    both = [make().fit(each).predict(data.users, data.items) for each in (data, larger)]
    np.testing.assert_allclose(both[1], 250.0 * both[0], rtol=1e-4)


def test_clip_and_noise_leave_nothing_to_the_prior():
    # A rating above the clip must not act through a start or a scale learned from all ratings.
    data = world(0, users=200, items=100, ratings=2000, noise=2.0)
    for options in ({"clip": 1e-9}, {"noise": 1e-9}, {"regularization": 0.0}):
        model = DenseFactorization(epochs=1, learning_rate=1e-6, **options).fit(data)
        assert model.scale_ == 1.0
        assert np.abs(model._user_vectors(data.users)[:, -1]).max() < 0.001
