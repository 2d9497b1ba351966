"""Worlds are the same in any batches, hold each pair once, and know the best possible error."""

import numpy as np
import pytest

from sfumato.data import generate_world
from sfumato.data.synthetic import LIMITS
from sfumato.recommend.bias import DampedMeans

SMALL = {"users": 300, "items": 200, "ratings": 9000, "random_state": 3}
WORLD = generate_world(**SMALL)
INTERACTIONS = WORLD.interactions


def rmse(predicted, truth):
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


@pytest.mark.parametrize("rows", [1, 7, 4096, 9000, 10_000])
def test_batches_of_any_size_hold_the_same_rows(rows):
    world = generate_world(**SMALL)
    parts = [part for part, _ in zip(world.batches(rows), range(60), strict=False)]
    got = sum(map(len, parts))
    for name in ("users", "items", "ratings", "times"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert np.array_equal(joined, getattr(INTERACTIONS, name)[:got])
    assert got == min(9000, rows * 60)


def test_a_random_state_chooses_the_world():
    assert generate_world(**SMALL).interactions == INTERACTIONS
    assert generate_world(**{**SMALL, "random_state": 4}).interactions != INTERACTIONS


@pytest.mark.parametrize(
    "shape",
    [
        {"users": 1, "items": 2, "ratings": 1},
        {"users": 7, "items": 9, "ratings": 28},
        {"users": 50, "items": 4000, "ratings": 60_000},
        {"users": 5000, "items": 12, "ratings": 30_000},
        {"users": 300, "items": 200, "ratings": 9000, "skew": 1, "activity": 0},
        {"users": 300, "items": 200, "ratings": 29_000, "skew": 1000, "activity": 2},
    ],
)
def test_nobody_rates_an_item_twice_and_all_ratings_are_there(shape):
    observed = generate_world(**shape).interactions
    assert len(observed) == shape["ratings"]
    assert len(np.unique(observed.users * shape["items"] + observed.items)) == len(observed)
    assert 0 <= observed.users.min() <= observed.users.max() < shape["users"]
    assert 0 <= observed.items.min() <= observed.items.max() < shape["items"]
    assert np.bincount(observed.users).max() <= max(1, shape["items"] // 2)


def test_rows_come_by_time_with_users_mixed():
    assert (np.diff(INTERACTIONS.times) >= 0).all()
    # Neighbours are of one user as often as two random rows are, about 1 in 150 here; 9000 rows
    # give 60 on average, and more than 120 with p < 1e-10.
    share = float(
        (np.bincount(INTERACTIONS.users) / 9000.0) @ (np.bincount(INTERACTIONS.users) / 9000.0)
    )
    assert int((INTERACTIONS.users[1:] == INTERACTIONS.users[:-1]).sum()) < 2 * 9000 * share


def test_popularity_has_the_requested_skew():
    for skew in (1, 4, 12):
        world = generate_world(
            users=2000, items=500, ratings=100_000, skew=skew, activity=0, choices=1
        )
        counts = np.sort(np.bincount(world.interactions.items, minlength=500))[::-1]
        # The five most popular, and the five least popular, have the densest and the thinnest end.
        assert counts[:5].mean() / 200 == pytest.approx(skew, rel=0.25)
        assert counts[-5:].mean() / 200 == pytest.approx(1 / skew, rel=0.4)


def test_some_users_rate_much_more_than_others():
    counts = np.sort(np.bincount(INTERACTIONS.users))
    assert counts[-30:].mean() > 4 * counts[:150].mean()
    even = generate_world(**SMALL, activity=0).interactions
    assert np.ptp(np.bincount(even.users)) <= 1


def test_users_choose_what_they_like():
    blind = generate_world(**SMALL, choices=1)
    liked = WORLD.expected(INTERACTIONS.users, INTERACTIONS.items).mean()
    assert liked > blind.expected(blind.interactions.users, blind.interactions.items).mean() + 0.1


@pytest.mark.parametrize(
    ("bounds", "step"), [((1, 5), 1), ((0.5, 5), 0.5), ((0, 100), None), ((-1, 1), 2)]
)
def test_ratings_lie_on_the_grid_within_bounds(bounds, step):
    ratings = generate_world(**SMALL, bounds=bounds, step=step).interactions.ratings
    assert bounds[0] <= ratings.min() < ratings.max() <= bounds[1]
    if step:
        assert set(np.unique(ratings)) <= set(np.arange(bounds[0], bounds[1] + step / 2, step))


@pytest.mark.parametrize(("bounds", "step"), [((1, 5), 1), ((0, 3), None), ((0, 1), 0.25)])
def test_expected_ratings_are_the_means_of_what_a_pair_gets(bounds, step):
    # The rule of the docstring, drawn 200,000 times for 5 pairs: six standard errors are 1e-8.
    world = generate_world(**SMALL, bounds=bounds, step=step)
    users, items = INTERACTIONS.users[:5], INTERACTIONS.items[:5]
    factors = world.user_factors[users].astype(float), world.item_factors[items].astype(float)
    score = (factors[0][:, :-1] * factors[1][:, :-1]).sum(1) + factors[0][:, -1] + factors[1][:, -1]
    drawn = world.mean + score + world.noise * np.random.default_rng(1).normal(size=(200_000, 5))
    if step:
        drawn = bounds[0] + step * np.floor((drawn - bounds[0]) / step + 0.5)
    drawn = np.clip(drawn, *bounds)
    error = 6 * drawn.std(axis=0) / np.sqrt(200_000) + 1e-6
    assert (abs(world.expected(users, items) - drawn.mean(axis=0)) < error).all()


def test_no_prediction_beats_the_expected_rating():
    truth = WORLD.expected(INTERACTIONS.users, INTERACTIONS.items)
    best = rmse(truth, INTERACTIONS.ratings)
    # Errors average to nothing wherever the truth says so: calibrated in ten bands, 5 errors each.
    for band in np.array_split(np.argsort(truth), 10):
        assert abs((INTERACTIONS.ratings - truth)[band].mean()) < 5 * best / np.sqrt(band.size)
    assert best < rmse(np.clip(truth + 0.1, 1, 5), INTERACTIONS.ratings)
    assert best < rmse(
        DampedMeans().fit(INTERACTIONS).predict(INTERACTIONS.users, INTERACTIONS.items),
        INTERACTIONS.ratings,
    )
    with pytest.raises(ValueError, match="items must be integers from 0 to 199"):
        WORLD.expected([0], [200])
    for users, items in (([0, 1], [0]), ([0], [0, 1]), (np.arange(40), np.array([0]))):
        with pytest.raises(ValueError, match="World: users and items must be of one length, not"):
            WORLD.expected(users, items)
    for shape in ((2, 2), ()):
        with pytest.raises(ValueError, match="World: users must be one column, not"):
            WORLD.expected(np.zeros(shape, int), np.zeros(shape, int))
    assert WORLD.expected([], []).shape == (0,)


def test_a_world_of_the_shape_of_movielens_is_about_as_hard():
    world = generate_world()
    train, _, test = world.interactions.split(0.8, 0.1, 0.1)
    means = DampedMeans().fit(train).predict(test.users, test.items)
    assert rmse(np.clip(means, 1, 5), test.ratings) == pytest.approx(0.912, abs=0.012)
    assert rmse(world.expected(test.users, test.items), test.ratings) == pytest.approx(
        0.823, abs=0.008
    )


def test_without_noise_the_ratings_are_the_truth():
    world = generate_world(**SMALL, noise=0, step=None)
    observed = world.interactions
    assert np.array_equal(world.expected(observed.users, observed.items), observed.ratings)


def test_texts_tell_what_the_factors_are():
    world = generate_world(**SMALL, texts=True, factors=3)
    assert world.texts.shape == (200,)
    assert WORLD.texts is None
    assert world.interactions == generate_world(**SMALL, factors=3).interactions
    words = [set(text.split()) for text in world.texts]
    shared = np.array([[len(one & other) for other in words] for one in words])
    factors = world.item_factors[:, :-1] / world.item_factors[:, :-1].std(axis=0)
    factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    pairs = np.triu_indices(200, 1)
    # Texts that do not follow the factors correlate within 0.01 or so.
    assert np.corrcoef(shared[pairs], (factors @ factors.T)[pairs])[0, 1] > 0.3


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, limit in LIMITS.items() for value in limit.bad()]
)
def test_values_outside_of_the_limits_are_refused(name, value):
    with pytest.raises(ValueError, match=f"generate_world: {name} must be"):
        generate_world(**{**SMALL, name: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": (5, 1)}, "bounds must be"),
        ({"bounds": 5}, "bounds must be"),
        ({"bounds": (1, np.nan)}, "bounds must be"),
        ({"step": 3}, "step must divide"),
        ({"ratings": 30_001}, "ratings must be at most 30000"),
    ],
)
def test_worlds_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        generate_world(**{**SMALL, **options})
    with pytest.raises(ValueError, match="World: rows must be"):
        next(WORLD.batches(0))
